"""Pooling, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import contiguous, format_of
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel


def _numbers(values: Any) -> Any:
    """A list of PyTorch's as `clprim.ops` takes it: one number holds for all, none is None."""
    given = tuple(values)
    return None if not given else given[0] if len(given) == 1 else given


# PyTorch keeps channels last in two dimensions, and in three for maxima of windows alone.
_FORMAT = {2: format_of(0), 3: contiguous}
_FORMAT_BACK = {2: format_of(1), 3: contiguous}


def _max(dimensions: int) -> None:
    forward: Callable[..., Any] = getattr(ops, f"max_pool{dimensions}d")
    backward: Callable[..., Any] = getattr(ops, f"max_pool{dimensions}d_backward")

    @kernel(f"max_pool{dimensions}d_with_indices", lies=format_of(0))
    def pool(
        x: Array,
        size: Any,
        stride: Any = (),
        padding: Any = (0,),
        dilation: Any = (1,),
        ceil_mode: bool = False,
    ) -> Any:
        how = map(_numbers, (size, stride, padding, dilation))
        return forward(x, *how, ceil_mode, True)

    @kernel(f"max_pool{dimensions}d_with_indices_backward", lies=format_of(1))
    def gradient(
        grad: Array,
        x: Array,
        size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: Array,
    ) -> Any:
        how = map(_numbers, (size, stride, padding, dilation))
        return backward(grad, x, *how, ceil_mode, indices)


def _avg(dimensions: int) -> None:
    forward: Callable[..., Any] = getattr(ops, f"avg_pool{dimensions}d")
    backward: Callable[..., Any] = getattr(ops, f"avg_pool{dimensions}d_backward")

    @kernel(f"avg_pool{dimensions}d", lies=_FORMAT[dimensions])
    def pool(
        x: Array,
        size: Any,
        stride: Any = (),
        padding: Any = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        how = map(_numbers, (size, stride, padding))
        if x.dtype.kind != "i":
            return forward(x, *how, ceil_mode, count_include_pad, divisor_override)
        real = apply("{a}", x, kind=torch.float64)
        mean = forward(real, *how, ceil_mode, count_include_pad, divisor_override)
        # Cut towards zero, as PyTorch divides; a mean that is whole may be off by a rounding.
        return apply("trunc({a} + copysign((typeof_y0)1e-7, {a}))", mean, kind=kind_of(x.dtype))

    @kernel(f"avg_pool{dimensions}d_backward", lies=_FORMAT_BACK[dimensions])
    def gradient(
        grad: Array,
        x: Array,
        size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Any:
        how = map(_numbers, (size, stride, padding))
        return backward(grad, x, *how, ceil_mode, count_include_pad, divisor_override)


for _dimensions in (2, 3):
    _max(_dimensions)
    _avg(_dimensions)


def _adaptive(dimensions: int) -> None:
    forward: Callable[..., Any] = getattr(ops, f"adaptive_avg_pool{dimensions}d")
    backward: Callable[..., Any] = getattr(ops, f"adaptive_avg_pool{dimensions}d_backward")
    max_forward: Callable[..., Any] = getattr(ops, f"adaptive_max_pool{dimensions}d")
    max_backward: Callable[..., Any] = getattr(ops, f"adaptive_max_pool{dimensions}d_backward")

    @kernel(f"_adaptive_avg_pool{dimensions}d", lies=_FORMAT[dimensions])
    def pool(x: Array, size: Any) -> Any:
        if tuple(size) == (1,) * dimensions:
            return ops.mean(x, tuple(range(-dimensions, 0)), keepdims=True)
        return forward(x, tuple(size))

    @kernel(f"_adaptive_avg_pool{dimensions}d_backward", lies=_FORMAT_BACK[dimensions])
    def gradient(grad: Array, x: Array) -> Any:
        return backward(grad, x)

    @kernel(f"adaptive_max_pool{dimensions}d", lies=_FORMAT[dimensions])
    def max_pool(x: Array, size: Any) -> Any:
        return max_forward(x, tuple(size), True)

    @kernel(f"adaptive_max_pool{dimensions}d_backward", lies=_FORMAT_BACK[dimensions])
    def max_gradient(grad: Array, x: Array, indices: Array) -> Any:
        return max_backward(grad, x, indices)


_adaptive(2)
_adaptive(3)


def _fractional(dimensions: int) -> None:
    forward: Callable[..., Any] = getattr(ops, f"fractional_max_pool{dimensions}d")
    backward: Callable[..., Any] = getattr(ops, f"fractional_max_pool{dimensions}d_backward")

    @kernel(f"fractional_max_pool{dimensions}d")
    def pool(x: Array, size: Any, output_size: Any, samples: Array) -> Any:
        samples = cast(samples, torch.float32)
        return forward(x, tuple(size), tuple(output_size), None, True, samples)

    @kernel(f"fractional_max_pool{dimensions}d_backward")
    def gradient(grad: Array, x: Array, size: Any, output_size: Any, indices: Array) -> Any:
        return backward(grad, x, indices)


_fractional(2)
_fractional(3)
