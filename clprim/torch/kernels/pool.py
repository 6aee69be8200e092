"""Pooling, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.agreeing import family
from clprim.torch.copying import cast
from clprim.torch.kernels.elementwise import apply
from clprim.torch.tensors import kind_of


@family("means")
def _means(forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def run(x: Array, **how: Any) -> Any:
        if x.dtype.kind != "i":
            return forward(x, **how)
        mean = forward(apply("{a}", x, kind=torch.float64), **how)
        # Cut towards zero, as PyTorch divides; a mean that is whole may be off by a rounding.
        return apply("trunc({a} + copysign((typeof_y0)1e-7, {a}))", mean, kind=kind_of(x.dtype))

    return run


@family("adaptive_means")
def _adaptive(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, output_size: Any) -> Any:
        if {*output_size} == {1}:
            return ops.mean(x, tuple(range(-len(output_size), 0)), keepdims=True)
        return forward(x, tuple(output_size))

    return run


@family("fractional")
def _fractional(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, kernel_size: Any, output_size: Any, random_samples: Array) -> Any:
        samples = cast(random_samples, torch.float32)
        return forward(x, tuple(kernel_size), tuple(output_size), None, True, samples)

    return run
