"""Images in another size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.agreeing import family
from clprim.torch.copying import cast, duplicate
from clprim.torch.kernels.elementwise import apply


def _part(x: Array, size: Sequence[int]) -> Any:
    """The first pixels, where a size was given beside scales of which a larger one follows."""
    if x.shape[2:] == tuple(size):
        return x
    if any(n < wanted for n, wanted in zip(x.shape[2:], size, strict=True)):
        raise RuntimeError(f"interpolate: expected a size of at most {x.shape[2:]}, got {size}")
    first = (slice(None), slice(None), *map(slice, size))
    return duplicate(x[first])


def _whole(grad: Array, sizes: tuple[int, ...]) -> Any:
    """The gradient with zeros where `_part` left pixels out."""
    missing = [n - m for n, m in zip(sizes, grad.shape[2:], strict=True)]
    return ops.pad(grad, [n for d in reversed(missing) for n in (0, d)]) if any(missing) else grad


def _scale_of(rank: int, align: bool | None, scales: dict[str, Any]) -> Any:
    """A scale that was given decides where pixels are read; the size then follows from it."""
    names = ("scales", "scales_d", "scales_h", "scales_w")
    found = tuple(scales[name] for name in names if name in scales)
    return found if len(found) == rank and not align else None


@family("resized")
def _resized(interpolate: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        x: Array,
        output_size: Sequence[int],
        align_corners: bool | None = None,
        *,
        mode: str,
        antialias: bool = False,
        **scales: Any,
    ) -> Any:
        how: dict[str, Any] = {"mode": mode, "antialias": antialias}
        if x.dtype == np.uint8 and mode in ("bilinear", "bicubic"):
            # PyTorch's pixels: mixed as numbers, then rounded to what a byte holds.
            wide = cast(x, torch.float32)
            mixed = run(wide, output_size, align_corners, **how, **scales)
            return apply("clamp(floor({a} + 0.5f), 0.0f, 255.0f)", mixed, kind=torch.uint8)
        how["align_corners"], rank = align_corners, x.ndim - 2
        scale = _scale_of(rank, align_corners, scales)
        if scale is None:
            return interpolate(x, tuple(output_size), None, **how)
        return _part(interpolate(x, None, scale, recompute_scale_factor=False, **how), output_size)

    return run


@family("resized_gradient")
def _resized_gradient(backward: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        grad_output: Array,
        input_size: Sequence[int],
        align_corners: bool | None = None,
        *,
        mode: str,
        antialias: bool = False,
        **scales: Any,
    ) -> Any:
        grad, scale = grad_output, _scale_of(len(input_size) - 2, align_corners, scales)
        if scale is not None:
            sizes = (math.floor(n * s) for n, s in zip(input_size[2:], scale, strict=True))
            grad = _whole(grad, tuple(sizes))
        return backward(grad, tuple(input_size), scale, mode, align_corners, antialias=antialias)

    return run
