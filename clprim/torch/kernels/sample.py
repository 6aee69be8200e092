"""Images in another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.copying import cast, duplicate
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import format_of
from clprim.torch.table import kernel


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


def _resized(name: str, mode: str, aligned: bool = False, antialias: bool = False) -> None:
    """Registers an interpolation; PyTorch passes alignment first where a mode has it."""

    def scale_of(scales: Sequence[Any], align: bool | None) -> Any:
        # A scale that was given decides where pixels are read; the size then follows from it.
        return tuple(scales) if scales and None not in scales and not align else None

    @kernel(name, lies=format_of(0))
    def run(x: Array, size: Sequence[int], *rest: Any) -> Any:
        if x.dtype == np.uint8 and mode in ("bilinear", "bicubic"):
            # PyTorch's pixels: mixed as numbers, then rounded to what a byte holds.
            mixed = run(cast(x, torch.float32), size, *rest)
            return apply("clamp(floor({a} + 0.5f), 0.0f, 255.0f)", mixed, kind=torch.uint8)
        align, scales = (rest[0], rest[1:]) if aligned else (None, rest)
        scale = scale_of(scales, align)
        if scale is not None:
            found = ops.interpolate(
                x, None, scale, mode, align, recompute_scale_factor=False, antialias=antialias
            )
            return _part(found, size)
        return ops.interpolate(x, tuple(size), None, mode, align, antialias=antialias)

    @kernel(f"{name}_backward", lies=format_of(0))
    def gradient(grad: Array, size: Sequence[int], input_size: Sequence[int], *rest: Any) -> Any:
        align, scales = (rest[0], rest[1:]) if aligned else (None, rest)
        scale = scale_of(scales, align)
        if scale is not None:
            sizes = (math.floor(n * s) for n, s in zip(input_size[2:], scale, strict=True))
            grad = _whole(grad, tuple(sizes))
        return ops.interpolate_backward(
            grad, tuple(input_size), scale, mode, align, antialias=antialias
        )


for _n in (1, 2, 3):
    _resized(f"upsample_nearest{_n}d", "nearest")
    _resized(f"_upsample_nearest_exact{_n}d", "nearest-exact")
_resized("upsample_linear1d", "linear", aligned=True)
_resized("upsample_bilinear2d", "bilinear", aligned=True)
_resized("upsample_trilinear3d", "trilinear", aligned=True)
_resized("upsample_bicubic2d", "bicubic", aligned=True)
_resized("_upsample_bilinear2d_aa", "bilinear", aligned=True, antialias=True)
_resized("_upsample_bicubic2d_aa", "bicubic", aligned=True, antialias=True)
