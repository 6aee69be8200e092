"""Regions of images: pooling in boxes, and which boxes are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import INT64


@handler("RoiAlign")
def _roi_align(context: Any, attributes: Any, x: Any, boxes: Any, batch: Any) -> Any:
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    half = mode == "half_pixel" and context.version >= 16
    h, w = attributes["output_height"], attributes["output_width"]
    ratio, most = attributes["sampling_ratio"], attributes["mode"] == "max"
    take = "best = k++ ? fmax(best, v) : v;" if most else "best += v; ++k;"
    # A maximum is of the four weighted corners each, as ONNX defines it.
    value = (
        "fmax(fmax(part00 * pixel00, part01 * pixel01), fmax(part10 * pixel10, part11 * pixel11))"
    )
    value = (
        value
        if most
        else "part00 * pixel00 + part01 * pixel01 + part10 * pixel10 + part11 * pixel11"
    )
    text = f"""
        float s = w0, shift = {0.5 if half else 0.0}f;
        long r = coord(0), image = at_x2(r);
        float left = at_x1(r, 0) * s - shift, top = at_x1(r, 1) * s - shift;
        float rw = at_x1(r, 2) * s - shift - left, rh = at_x1(r, 3) * s - shift - top;
        {"" if half else "rw = fmax(rw, 1.0f); rh = fmax(rh, 1.0f);"}
        float bh = rh / {h}, bw = rw / {w};
        int gh = {ratio if ratio > 0 else f"(int)ceil(rh / {h})"};
        int gw = {ratio if ratio > 0 else f"(int)ceil(rw / {w})"};
        int H = size_x0(2), W = size_x0(3), k = 0;
        float best = 0;
        for (int i = 0; i < gh; ++i)
            for (int j = 0; j < gw; ++j) {{
                float y = top + coord(2) * bh + (i + 0.5f) * bh / gh;
                float x = left + coord(3) * bw + (j + 0.5f) * bw / gw;
                float v = 0;
                if (y >= -1 && y <= H && x >= -1 && x <= W) {{
                    y = fmax(y, 0.0f); x = fmax(x, 0.0f);
                    int yl = min((int)y, H - 1), xl = min((int)x, W - 1);
                    int yh = min(yl + 1, H - 1), xh = min(xl + 1, W - 1);
                    float fy = yl == H - 1 ? 0 : y - yl, fx = xl == W - 1 ? 0 : x - xl;
                    float part00 = (1 - fy) * (1 - fx), part01 = (1 - fy) * fx;
                    float part10 = fy * (1 - fx), part11 = fy * fx;
                    float pixel00 = at_x0(image, coord(1), yl, xl);
                    float pixel01 = at_x0(image, coord(1), yl, xh);
                    float pixel10 = at_x0(image, coord(1), yh, xl);
                    float pixel11 = at_x0(image, coord(1), yh, xh);
                    v = {value};
                }}
                {take}
            }}
        y0 = best{"" if most else " / max(k, 1)"};"""
    shape = (boxes.shape[0], x.shape[1], h, w)
    return string(text, x.dtype, x, boxes, batch, float(attributes["spatial_scale"]), shape=shape)


@handler("MaxRoiPool")
def _max_roi_pool(context: Any, attributes: Any, x: Any, boxes: Any) -> Any:
    h, w = attributes["pooled_shape"]
    text = f"""
        long r = coord(0), image = at_x1(r, 0);
        int left = round(at_x1(r, 1) * w0), top = round(at_x1(r, 2) * w0);
        int wide = max((int)round(at_x1(r, 3) * w0) - left + 1, 1);
        int high = max((int)round(at_x1(r, 4) * w0) - top + 1, 1);
        int H = size_x0(2), W = size_x0(3);
        float bh = (float)high / {h}, bw = (float)wide / {w};
        int i0 = clamp((int)floor(coord(2) * bh) + top, 0, H);
        int i1 = clamp((int)ceil((coord(2) + 1) * bh) + top, 0, H);
        int j0 = clamp((int)floor(coord(3) * bw) + left, 0, W);
        int j1 = clamp((int)ceil((coord(3) + 1) * bw) + left, 0, W);
        float best = i1 > i0 && j1 > j0 ? -INFINITY : 0;
        for (int i = i0; i < i1; ++i)
            for (int j = j0; j < j1; ++j) best = fmax(best, (float)at_x0(image, coord(1), i, j));
        y0 = best;"""
    shape = (boxes.shape[0], x.shape[1], h, w)
    return string(text, x.dtype, x, boxes, float(attributes["spatial_scale"]), shape=shape)


@handler("NonMaxSuppression", host=(0, 1, 2, 3, 4))
def _non_max_suppression(
    context: Any, attributes: Any, boxes: Any, scores: Any, most: Any = None, iou: Any = None,
    least: Any = None,
) -> Any:  # fmt: skip
    count = int(most.reshape(-1)[0]) if most is not None and most.size else 0
    limit = float(iou.reshape(-1)[0]) if iou is not None and iou.size else 0.0
    floor = float(least.reshape(-1)[0]) if least is not None and least.size else -np.inf
    if attributes["center_point_box"]:
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        corners = np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], -1)
    else:
        first, second = boxes[..., :2], boxes[..., 2:]
        corners = np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)
    found: list[tuple[int, int, int]] = []
    for b in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            chosen = _chosen(corners[b], scores[b, c], count, limit, floor)
            found += [(b, c, n) for n in chosen]
    return np.array(found, INT64).reshape(-1, 3)


def _chosen(boxes: Any, scores: Any, count: int, limit: float, floor: float) -> list[int]:
    """Returns boxes by falling score, none of which covers one before it too much."""
    left = np.argsort(-scores, kind="stable")
    left = left[scores[left] > floor]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    found: list[int] = []
    while left.size and len(found) < count:
        best, left = left[0], left[1:]
        found.append(int(best))
        top = np.maximum(boxes[best, :2], boxes[left, :2])
        bottom = np.minimum(boxes[best, 2:], boxes[left, 2:])
        inner = np.clip(bottom - top, 0, None).prod(-1)
        union = areas[best] + areas[left] - inner
        with np.errstate(divide="ignore", invalid="ignore"):
            left = left[~(inner / union > limit)]
    return found
