"""Images in another size and at places of their own, and regions of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Number, Numbers, handler, node
from clprim.onnx.values import INT64


@node("""Resize(x, roi: Numbers, scales: Numbers, sizes: Numbers) mode='nearest'
    coordinate_transformation_mode:coordinates='half_pixel' nearest_mode='round_prefer_floor'
    cubic_coeff_a=-0.75 axes=None antialias=False exclude_outside=False extrapolation_value=0.0
    keep_aspect_ratio_policy='stretch'""")
def _resize(context: Any, n: Any) -> Any:
    if context.version < 11:  # whose second input are the scales
        return _scaled(n.x, n.roi, n.mode)
    return ops.resize(
        n.x, None if n.scales else n.sizes, n.scales or None, n.mode, dim=n.axes or None,
        coordinates=n.coordinates, rounding=n.nearest_mode, cubic_coeff=float(n.cubic_coeff_a),
        antialias=n.antialias, exclude_outside=n.exclude_outside, crop=n.roi or None,
        outside=n.extrapolation_value, aspect=n.keep_aspect_ratio_policy,
    )  # fmt: skip


@handler("Upsample", takes="height_scale width_scale")
def _upsample(x: Any, scales: Numbers = None, *, mode: str = "nearest", **told: Any) -> Any:
    return _scaled(x, scales or [1.0, 1.0, told["height_scale"], told["width_scale"]], mode)


def _scaled(x: Any, factors: Any, mode: str) -> Any:
    mode = {"bilinear": "linear"}.get(mode, mode)
    return ops.resize(x, None, factors, mode, coordinates="asymmetric", rounding="floor")


@node("""RoiAlign(x, boxes, images) output_height=1 output_width=1 spatial_scale=1.0
    sampling_ratio=0 mode='avg' coordinate_transformation_mode:coordinates='half_pixel'""")
def _roi_align(context: Any, n: Any) -> Any:
    half = n.coordinates == "half_pixel" and context.version >= 16
    size, mode = (n.output_height, n.output_width), "max" if n.mode == "max" else "mean"
    rest = size, float(n.spatial_scale), n.sampling_ratio, half
    return ops.roi_align(n.x, n.boxes, *rest, images=n.images, mode=mode)


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
