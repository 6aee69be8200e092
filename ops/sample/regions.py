"""Regions of images: pooling in boxes, after torchvision, and which boxes are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.index.gather import check_index
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape, real
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.window import Numbers, numbers


def _boxes(what: str, x: Any, boxes: Any, images: Any) -> tuple[str, str]:
    """Checks images and boxes; returns C of a box's image and of its coordinate ``{0}``."""
    check_floating(what, "x", x)
    check_floating(what, "boxes", boxes)
    columns = 5 if images is None else 4
    if x.ndim != 4 or boxes.ndim != 2 or boxes.shape[1] != columns:
        raise ShapeError(
            f"{what}: x of shape {x.shape} and boxes of shape {boxes.shape}: expected (N, C, H, W) "
            f"and (K, {columns})"
        )
    if images is None:
        return "(long)at_x1(coord(0), 0)", "at_x1(coord(0), {0} + 1)"
    check_index(what, "images", images)
    check_shape(what, "images", images, boxes.shape[:1])
    return "(long)at_x2(coord(0))", "at_x1(coord(0), {0})"


@operator(sample="image(2), empty((1, 5)), 2")
@repeatable
def roi_align(
    x: Any,
    boxes: Any,
    output_size: Numbers,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    images: Any = None,
    mode: str = "mean",
) -> Array:
    """Returns regions of images, sampled bilinearly; arguments after torchvision's.

    He and others, Mask R-CNN (2017).

    Args:
        x: (N, C, H, W) of floating numbers.
        boxes: (K, 5) of floating numbers: the image, left, top, right, bottom.
        output_size: Height and width of the result: a number, or one for each.
        spatial_scale: From coordinates of boxes to those of x.
        sampling_ratio: Samples of an element along each dimension; where it is not positive, as
            many as the element covers places.
        aligned: Whether coordinates are those of corners of elements, half an element off.
        images: The boxes' images, (K,) of integers; boxes are (K, 4) then. One that is not there
            gives zeros.
        mode: ``mean`` of the samples, or ``max`` of their four weighted neighbours.

    Returns:
        (K, C, height, width).

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.
        DefinitionError: Another mode.
    """
    what = "roi_align"
    image, edge = _boxes(what, x, boxes, images)
    if mode not in ("mean", "max"):
        raise DefinitionError(f"{what}: mode={quoted(mode)}: expected 'mean' or 'max'")
    h, w = numbers(what, "output_size", output_size, 2, 1)
    ratio, most = whole(what, "sampling_ratio", sampling_ratio), mode == "max"
    parts = [f"part{i}{j} * pixel{i}{j}" for i in (0, 1) for j in (0, 1)]
    value = " + ".join(parts)
    if most:
        value = f"fmax(fmax({parts[0]}, {parts[1]}), fmax({parts[2]}, {parts[3]}))"
    left, top, right, bottom = (f"{edge.format(n)} * w0 - shift" for n in range(4))
    text = f"""
        const typeof_y0 shift = {0.5 if aligned else 0.0}f, x_from = {left}, y_from = {top};
        typeof_y0 wide = {right} - x_from, high = {bottom} - y_from;
        {"" if aligned else "wide = fmax(wide, (typeof_y0)1); high = fmax(high, (typeof_y0)1);"}
        const typeof_y0 bh = high / {h}, bw = wide / {w};
        const int gh = {ratio if ratio > 0 else "(int)ceil(bh)"};
        const int gw = {ratio if ratio > 0 else "(int)ceil(bw)"};
        const int H = size_x0(2), W = size_x0(3);
        const long image = {image};
        const bool there = image >= 0 && image < size_x0(0);
        int k = 0;
        typeof_y0 best = 0;
        for (int i = 0; i < gh; ++i)
            for (int j = 0; j < gw; ++j) {{
                typeof_y0 y = y_from + coord(2) * bh + (i + (typeof_y0)0.5f) * bh / gh;
                typeof_y0 x = x_from + coord(3) * bw + (j + (typeof_y0)0.5f) * bw / gw;
                typeof_y0 v = 0;
                if (there && y >= -1 && y <= H && x >= -1 && x <= W) {{
                    y = fmax(y, (typeof_y0)0); x = fmax(x, (typeof_y0)0);
                    const int yl = min((int)y, H - 1), xl = min((int)x, W - 1);
                    const int yh = min(yl + 1, H - 1), xh = min(xl + 1, W - 1);
                    const typeof_y0 fy = yl == H - 1 ? 0 : y - yl, fx = xl == W - 1 ? 0 : x - xl;
                    const typeof_y0 part00 = (1 - fy) * (1 - fx), part01 = (1 - fy) * fx;
                    const typeof_y0 part10 = fy * (1 - fx), part11 = fy * fx;
                    const typeof_y0 pixel00 = at_x0(image, coord(1), yl, xl);
                    const typeof_y0 pixel01 = at_x0(image, coord(1), yl, xh);
                    const typeof_y0 pixel10 = at_x0(image, coord(1), yh, xl);
                    const typeof_y0 pixel11 = at_x0(image, coord(1), yh, xh);
                    v = {value};
                }}
                {"best = k++ ? fmax(best, v) : v;" if most else "best += v; ++k;"}
            }}
        y0 = best{"" if most else " / max(k, 1)"};"""
    arrays = [x, boxes] if images is None else [x, boxes, images]
    scale = real(what, "spatial_scale", spatial_scale)
    shape = (boxes.shape[0], x.shape[1], h, w)
    return kernel(text, what, x.dtype)(*arrays, scale, shape=shape)


@operator(
    onnx="MaxRoiPool(x, boxes) pooled_shape:output_size spatial_scale=1.0",
    sample="image(2), empty((1, 5)), 2",
)
@repeatable
def roi_pool(x: Any, boxes: Any, output_size: Numbers, spatial_scale: float = 1.0) -> Array:
    """Returns the greatest elements of parts of boxes; arguments after torchvision's.

    Girshick, Fast R-CNN (2015).

    Args:
        x: (N, C, H, W) of floating numbers.
        boxes: (K, 5), likewise: the image, left, top, right, bottom, rounded after scaling.
        output_size: Height and width of the result: a number, or one for each.
        spatial_scale: From coordinates of boxes to those of x.

    Returns:
        (K, C, height, width); 0 where a part has no elements.

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.
    """
    what = "roi_pool"
    image, edge = _boxes(what, x, boxes, None)
    h, w = numbers(what, "output_size", output_size, 2, 1)
    left, top, right, bottom = (f"(int)round({edge.format(n)} * w0)" for n in range(4))
    text = f"""
        const long image = {image};
        const bool there = image >= 0 && image < size_x0(0);
        const int x_from = {left}, y_from = {top}, H = size_x0(2), W = size_x0(3);
        const float bh = max({bottom} - y_from + 1, 1) / {h}.0f;
        const float bw = max({right} - x_from + 1, 1) / {w}.0f;
        const int i0 = clamp((int)floor(coord(2) * bh) + y_from, 0, H);
        const int i1 = clamp((int)ceil((coord(2) + 1) * bh) + y_from, 0, H);
        const int j0 = clamp((int)floor(coord(3) * bw) + x_from, 0, W);
        const int j1 = clamp((int)ceil((coord(3) + 1) * bw) + x_from, 0, W);
        typeof_y0 best = there && i1 > i0 && j1 > j0 ? -INFINITY : 0;
        if (there)
            for (int i = i0; i < i1; ++i)
                for (int j = j0; j < j1; ++j) {{
                    const typeof_y0 v = at_x0(image, coord(1), i, j);
                    best = v > best ? v : best;
                }}
        y0 = best;"""
    scale = real(what, "spatial_scale", spatial_scale)
    shape = (boxes.shape[0], x.shape[1], h, w)
    return kernel(text, what, x.dtype)(x, boxes, scale, shape=shape)


@operator(sample="x[:, 0, 0], x[:, 0, 0, 0], 0.5")
def nms(
    boxes: Any,
    scores: Any,
    iou_threshold: float,
    *,
    score_threshold: float | None = None,
    most: int | None = None,
) -> Array:
    """Returns which boxes are kept, by falling score: none covers one before it too much.

    As torchvision's ``nms``. The device says which boxes cover which; the host reads that, and
    chooses.

    Args:
        boxes: (N, 4) of floating numbers: two opposite corners, (x, y, x, y) or (y, x, y, x).
        scores: (N,), likewise.
        iou_threshold: Of two boxes' common area in that of both, above which one goes.
        score_threshold: Boxes whose score is not above it go.
        most: How many boxes are kept at most.

    Returns:
        Numbers of boxes, int64.

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> boxes = cp.asarray(np.float32([[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 4, 4]]))
        >>> ops.nms(boxes, cp.asarray(np.float32([0.8, 0.9, 0.1])), 0.5).get()
        array([1, 2])
    """
    what = "nms"
    check_floating(what, "boxes", boxes)
    check_floating(what, "scores", scores)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ShapeError(f"{what}: boxes have shape {boxes.shape}, expected (N, 4)")
    check_shape(what, "scores", scores, boxes.shape[:1])
    limit = real(what, "iou_threshold", iou_threshold)
    left = len(scores) if most is None else whole(what, "most", most, 0)
    values = scores.get().astype(np.float64)
    order = np.argsort(-values, kind="stable")
    if score_threshold is not None:
        order = order[values[order] > real(what, "score_threshold", score_threshold)]
    chosen: list[int] = []
    if order.size and left:
        words = -(-order.size // 32)
        covered = _covered()(asarray(order), boxes, limit, shape=(order.size, words)).get()
        gone = np.zeros(words, np.uint32)
        for n in range(order.size):
            if not gone[n // 32] >> np.uint32(n % 32) & 1:
                chosen.append(n)
                gone |= covered[n]
                if len(chosen) == left:
                    break
    return asarray(order[np.array(chosen, np.int64)])


def _covered() -> Any:
    """Of each box the later ones that it covers too much, a bit each."""
    text = """
        const long a = at_x0(coord(0));
        typeof_x1 ends[4], area = 1;
        for (int d = 0; d < 2; ++d) {
            const typeof_x1 p = at_x1(a, d), q = at_x1(a, d + 2);
            ends[d] = fmin(p, q); ends[d + 2] = fmax(p, q);
            area *= ends[d + 2] - ends[d];
        }
        uint bits = 0;
        for (int k = 0; k < 32; ++k) {
            const long n = (long)coord(1) * 32 + k;
            if (n <= coord(0) || n >= size_x0(0)) continue;
            const long b = at_x0(n);
            typeof_x1 inner = 1, other = 1;
            for (int d = 0; d < 2; ++d) {
                const typeof_x1 p = at_x1(b, d), q = at_x1(b, d + 2);
                const typeof_x1 low = fmin(p, q), high = fmax(p, q);
                other *= high - low;
                inner *= fmax(fmin(high, ends[d + 2]) - fmax(low, ends[d]), (typeof_x1)0);
            }
            bits |= inner / (area + other - inner) > w0 ? 1u << k : 0;
        }
        y0 = bits;"""
    return kernel(text, "nms", np.dtype(np.uint32))
