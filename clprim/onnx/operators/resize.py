"""Images in another size and at places of their own, and regions of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Number, Numbers, handler
from clprim.onnx.values import INT64


@handler("Resize")
def _resize(
    context: Any, x: Any, roi: Numbers = None, scales: Numbers = None, sizes: Numbers = None, *,
    mode: str = "nearest", coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor", cubic_coeff_a: float = -0.75, axes: Any = None,
    antialias: bool = False, exclude_outside: bool = False, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
) -> Any:  # fmt: skip
    if context.version < 11:  # whose second input are the scales
        return _scaled(x, roi, mode)
    return ops.resize(
        x, None if scales else sizes, scales or None, mode, dim=axes or None,
        coordinates=coordinate_transformation_mode, rounding=nearest_mode,
        cubic_coeff=float(cubic_coeff_a), antialias=antialias, exclude_outside=exclude_outside,
        crop=roi or None, outside=extrapolation_value, aspect=keep_aspect_ratio_policy,
    )  # fmt: skip


@handler("Upsample", takes="height_scale width_scale")
def _upsample(x: Any, scales: Numbers = None, *, mode: str = "nearest", **told: Any) -> Any:
    return _scaled(x, scales or [1.0, 1.0, told["height_scale"], told["width_scale"]], mode)


def _scaled(x: Any, factors: Any, mode: str) -> Any:
    mode = {"bilinear": "linear"}.get(mode, mode)
    return ops.resize(x, None, factors, mode, coordinates="asymmetric", rounding="floor")


@handler("RoiAlign")
def _roi_align(
    context: Any, x: Any, boxes: Any, images: Any, *, output_height: int = 1,
    output_width: int = 1, spatial_scale: float = 1.0, sampling_ratio: int = 0, mode: str = "avg",
    coordinate_transformation_mode: str = "half_pixel",
) -> Any:  # fmt: skip
    half = coordinate_transformation_mode == "half_pixel" and context.version >= 16
    size, scale = (output_height, output_width), float(spatial_scale)
    mode = "max" if mode == "max" else "mean"
    return ops.roi_align(x, boxes, size, scale, sampling_ratio, half, images=images, mode=mode)


@handler("NonMaxSuppression")
def _non_max_suppression(
    boxes: Any, scores: Any, most: Number = 0, iou: Number = 0, least: Number = None, *,
    center_point_box: bool = False,
) -> Any:  # fmt: skip
    if center_point_box:
        text = """
            long d = coord(2) % 2;
            y0 = at_x0(coord(0), coord(1), d)
                + (coord(2) < 2 ? -0.5f : 0.5f) * at_x0(coord(0), coord(1), d + 2);"""
        boxes = string(text, boxes.dtype, boxes, shape=boxes.shape)
    given: dict[str, Any] = {"most": int(most), "score_threshold": least}
    found = [np.zeros((0, 3), INT64)]
    for b in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            chosen = ops.nms(boxes[b], scores[b, c], float(iou), **given).get()
            found.append(np.stack([np.full_like(chosen, b), np.full_like(chosen, c), chosen], 1))
    return np.concatenate(found)
