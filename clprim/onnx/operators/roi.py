"""Regions of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import INT64


@handler("RoiAlign")
def _roi_align(context: Any, attributes: Any, x: Any, boxes: Any, batch: Any) -> Any:
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    size = attributes["output_height"], attributes["output_width"]
    return ops.roi_align(
        x, boxes, size, float(attributes["spatial_scale"]), attributes["sampling_ratio"],
        mode == "half_pixel" and context.version >= 16, images=batch,
        mode="max" if attributes["mode"] == "max" else "mean",
    )  # fmt: skip


@handler("MaxRoiPool")
def _max_roi_pool(context: Any, attributes: Any, x: Any, boxes: Any) -> Any:
    scale = float(attributes["spatial_scale"])
    return ops.roi_pool(x, boxes, tuple(attributes["pooled_shape"]), scale)


@handler("NonMaxSuppression", host=(2, 3, 4))
def _non_max_suppression(
    context: Any, attributes: Any, boxes: Any, scores: Any, most: Any = None, iou: Any = None,
    least: Any = None,
) -> Any:  # fmt: skip
    count, limit = (v.item() if v is not None and v.size else 0 for v in (most, iou))
    if attributes["center_point_box"]:
        text = """
            long d = coord(2) % 2;
            y0 = at_x0(coord(0), coord(1), d)
                + (coord(2) < 2 ? -0.5f : 0.5f) * at_x0(coord(0), coord(1), d + 2);"""
        boxes = string(text, boxes.dtype, boxes, shape=boxes.shape)
    given = {"most": int(count), "score_threshold": None if least is None else least.item()}
    found = [np.zeros((0, 3), INT64)]
    for b in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            chosen = ops.nms(boxes[b], scores[b, c], float(limit), **given).get()
            found.append(np.stack([np.full_like(chosen, b), np.full_like(chosen, c), chosen], 1))
    return np.concatenate(found)
