"""Images in another size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.table import kernel


def _resized(name: str, mode: str, aligned: bool = False) -> None:
    """Registers an interpolation; PyTorch passes alignment first where a mode has it."""

    def scale_of(scales: Sequence[Any]) -> Any:
        # A scale that was given decides where pixels are read; the size then follows from it.
        return tuple(scales) if scales and None not in scales else None

    @kernel(name)
    def run(x: Array, size: Sequence[int], *rest: Any) -> Any:
        align, scales = (rest[0], rest[1:]) if aligned else (None, rest)
        scale = scale_of(scales)
        if scale is not None:
            return ops.interpolate(
                x, None, scale, mode, align if aligned else None, recompute_scale_factor=False
            )
        return ops.interpolate(x, tuple(size), None, mode, align if aligned else None)

    @kernel(f"{name}_backward")
    def gradient(grad: Array, size: Sequence[int], input_size: Sequence[int], *rest: Any) -> Any:
        align, scales = (rest[0], rest[1:]) if aligned else (None, rest)
        scale = scale_of(scales)
        return ops.interpolate_backward(
            grad, tuple(input_size), scale, mode, align if aligned else None
        )


for _n in (1, 2, 3):
    _resized(f"upsample_nearest{_n}d", "nearest")
    _resized(f"_upsample_nearest_exact{_n}d", "nearest-exact")
_resized("upsample_linear1d", "linear", aligned=True)
_resized("upsample_bilinear2d", "bilinear", aligned=True)
_resized("upsample_trilinear3d", "trilinear", aligned=True)
_resized("upsample_bicubic2d", "bicubic", aligned=True)
