"""Pooling, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.agreeing import agrees, numbers
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import Rule, contiguous, format_of
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel


def _means(dimensions: int, forward: Callable[..., Any], lies: Rule) -> None:
    @kernel(f"avg_pool{dimensions}d", lies=lies)
    def pool(x: Array, size: Any, stride: Any = (), padding: Any = (0,), *rest: Any) -> Any:
        how = (*map(numbers, (size, stride, padding)), *rest)
        if x.dtype.kind != "i":
            return forward(x, *how)
        mean = forward(apply("{a}", x, kind=torch.float64), *how)
        # Cut towards zero, as PyTorch divides; a mean that is whole may be off by a rounding.
        return apply("trunc({a} + copysign((typeof_y0)1e-7, {a}))", mean, kind=kind_of(x.dtype))

    adaptive: Callable[..., Any] = getattr(ops, f"adaptive_avg_pool{dimensions}d")

    @kernel(f"_adaptive_avg_pool{dimensions}d", lies=lies)
    def adaptive_pool(x: Array, size: Any) -> Any:
        if tuple(size) == (1,) * dimensions:
            return ops.mean(x, tuple(range(-dimensions, 0)), keepdims=True)
        return adaptive(x, tuple(size))


def _fractional(dimensions: int, forward: Callable[..., Any]) -> None:
    @kernel(f"fractional_max_pool{dimensions}d")
    def pool(x: Array, size: Any, output_size: Any, samples: Array) -> Any:
        samples = cast(samples, torch.float32)
        return forward(x, tuple(size), tuple(output_size), None, True, samples)


for _n in (2, 3):
    # PyTorch keeps channels last in two dimensions, and in three for maxima of windows alone.
    _forward, _back = (format_of(0), format_of(1)) if _n == 2 else (contiguous, contiguous)
    _of = {name: getattr(ops, f"{name}_pool{_n}d") for name in ("max", "avg", "adaptive_max")}
    _back_of = {
        name: getattr(ops, f"{name}_pool{_n}d_backward")
        for name in ("max", "avg", "adaptive_avg", "adaptive_max", "fractional_max")
    }
    _pool = f"max_pool{_n}d"
    agrees(f"{_pool}_with_indices", _of["max"], lies=format_of(0), return_indices=True)
    agrees(f"{_pool}_with_indices_backward", _back_of["max"], lies=format_of(1))
    _means(_n, _of["avg"], _forward)
    agrees(f"avg_pool{_n}d_backward", _back_of["avg"], lies=_back)
    agrees(f"_adaptive_avg_pool{_n}d_backward", _back_of["adaptive_avg"], lies=_back)
    agrees(f"adaptive_{_pool}", _of["adaptive_max"], lies=_forward, return_indices=True)
    agrees(f"adaptive_{_pool}_backward", _back_of["adaptive_max"], lies=_back)
    _fractional(_n, getattr(ops, f"fractional_{_pool}"))
    agrees(
        f"fractional_{_pool}_backward",
        _back_of["fractional_max"],
        lies=None,
        without="kernel_size output_size",
    )
