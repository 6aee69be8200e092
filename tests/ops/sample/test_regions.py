"""Pooling in boxes and choosing boxes, against their definitions in NumPy's float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

RNG = np.random.default_rng(0)
BOXES = np.array([[0, 0, 0, 7, 5], [1, 1.5, 2.25, 4, 6.5], [0, -3, 1, 2, 20], [1, 5, 5, 5, 5]])


def between(plane, y, x):
    """A plane at a place between its elements, and the four parts of that."""
    h, w = plane.shape
    if y < -1 or y > h or x < -1 or x > w:
        return [0.0] * 4
    y, x = max(y, 0), max(x, 0)
    top, left = min(int(y), h - 1), min(int(x), w - 1)
    fy, fx = (y - top if top < h - 1 else 0), (x - left if left < w - 1 else 0)
    low, right = min(top + 1, h - 1), min(left + 1, w - 1)
    return [
        (1 - fy) * (1 - fx) * plane[top, left], (1 - fy) * fx * plane[top, right],
        fy * (1 - fx) * plane[low, left], fy * fx * plane[low, right],
    ]  # fmt: skip


def aligned_regions(x, boxes, size, scale, ratio, aligned, most):
    found = np.zeros((len(boxes), x.shape[1], *size))
    for k, (image, *edges) in enumerate(boxes):
        left, top, right, bottom = np.array(edges) * scale - (0.5 if aligned else 0)
        wide, high = right - left, bottom - top
        if not aligned:
            wide, high = max(wide, 1), max(high, 1)
        steps = high / size[0], wide / size[1]
        counts = [ratio if ratio > 0 else int(np.ceil(s)) for s in steps]
        for c, i, j in np.ndindex(found.shape[1:]):
            values = []
            for a, b in np.ndindex(*counts):
                y = top + i * steps[0] + (a + 0.5) * steps[0] / counts[0]
                z = left + j * steps[1] + (b + 0.5) * steps[1] / counts[1]
                parts = between(x[int(image), c], y, z)
                values.append(max(parts) if most else sum(parts))
            if values:
                found[k, c, i, j] = max(values) if most else np.mean(values)
    return found


@pytest.mark.parametrize("mode", ["mean", "max"])
@pytest.mark.parametrize(("ratio", "aligned", "scale"), [(2, False, 1.0), (-1, True, 0.5)])
def test_roi_align(device, mode, ratio, aligned, scale):
    x = RNG.normal(size=(2, 3, 7, 8)).astype(np.float32)
    expected = aligned_regions(x.astype(float), BOXES, (3, 2), scale, ratio, aligned, mode == "max")
    boxes = BOXES.astype(np.float32)
    given = ((3, 2), scale, ratio, aligned)
    found = ops.roi_align(cp.asarray(x), cp.asarray(boxes), *given, mode=mode).get()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    images = cp.asarray(BOXES[:, 0].astype(np.int64))
    apart = ops.roi_align(
        cp.asarray(x), cp.asarray(boxes[:, 1:].copy()), *given, images=images, mode=mode
    )
    np.testing.assert_array_equal(apart.get(), found)


def test_images_that_are_not_there_give_zeros(device):
    x, boxes = cp.ones((1, 2, 4, 4)), cp.asarray(np.float32([[3, 0, 0, 3, 3], [0, 0, 0, 3, 3]]))
    for found in (ops.roi_align(x, boxes, 1).get(), ops.roi_pool(x, boxes, 1).get()):
        np.testing.assert_array_equal(found[..., 0, 0], [[0, 0], [1, 1]])


def test_roi_pool(device):
    x = RNG.normal(size=(2, 3, 7, 8)).astype(np.float32)
    expected = np.zeros((len(BOXES), 3, 2, 3))
    for k, (image, *edges) in enumerate(BOXES):
        left, top, right, bottom = (int(np.floor(e * 0.75 + 0.5)) for e in edges)
        high, wide = max(bottom - top + 1, 1) / 2, max(right - left + 1, 1) / 3
        for i, j in np.ndindex(2, 3):
            rows = slice(*np.clip([np.floor(i * high) + top, np.ceil((i + 1) * high) + top], 0, 7)
                         .astype(int))  # fmt: skip
            columns = slice(*np.clip([np.floor(j * wide) + left, np.ceil((j + 1) * wide) + left],
                                     0, 8).astype(int))  # fmt: skip
            part = x[int(image), :, rows, columns]
            expected[k, :, i, j] = part.max((1, 2)) if part.size else 0
    found = ops.roi_pool(cp.asarray(x), cp.asarray(BOXES.astype(np.float32)), (2, 3), 0.75)
    np.testing.assert_array_equal(found.get(), expected.astype(np.float32))


def kept(boxes, scores, limit, floor=-np.inf, most=None):
    corners = np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]),
                              np.maximum(boxes[:, :2], boxes[:, 2:])], 1)  # fmt: skip
    found = []
    for n in np.argsort(-scores, kind="stable"):
        if scores[n] <= floor or (most is not None and len(found) >= most):
            continue
        for m in found:
            inner = np.minimum(corners[n, 2:], corners[m, 2:])
            inner = np.clip(inner - np.maximum(corners[n, :2], corners[m, :2]), 0, None).prod()
            both = sum((corners[k, 2:] - corners[k, :2]).prod() for k in (n, m)) - inner
            if inner / both > limit:
                break
        else:
            found.append(n)
    return found


@pytest.mark.parametrize("count", [1, 31, 33, 200])
def test_nms(device, count):
    rng = np.random.default_rng(count)
    boxes = rng.uniform(0, 10, (count, 4)).astype(np.float32)
    scores = rng.integers(0, 20, count).astype(np.float32) / 20
    x, s = cp.asarray(boxes), cp.asarray(scores)
    wide = boxes.astype(float)
    for limit in (0.1, 0.4, 1.0):
        found = ops.nms(x, s, limit)
        assert found.dtype == np.int64
        assert found.get().tolist() == kept(wide, scores, limit)
    found = ops.nms(x, s, 0.4, score_threshold=0.5, most=5).get().tolist()
    assert found == kept(wide, scores, 0.4, 0.5, 5)
    assert ops.nms(x, s, 0.4, most=0).size == ops.nms(x, s, 0.4, score_threshold=2.0).size == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, b: ops.roi_align(x, b[:, :4], 2), "ShapeError", r"\(K, 5\)"),
        (lambda x, b: ops.roi_align(x[0], b, 2), "ShapeError", r"\(N, C, H, W\)"),
        (lambda x, b: ops.roi_align(x, b, 0), "ShapeError", "output_size=0"),
        (lambda x, b: ops.roi_align(x, b, 2, mode="sum"), "DefinitionError", "'sum'"),
        (lambda x, b: ops.roi_align(x, b, 2, images=b[:, 0]), "ShapeError", r"\(K, 4\)"),
        (lambda x, b: ops.roi_pool(x, b.astype(np.int32), 2), "DTypeError", "boxes is int32"),
        (lambda x, b: ops.nms(b, b[:, 0], 0.5), "ShapeError", r"expected \(N, 4\)"),
        (lambda x, b: ops.nms(b[:, 1:], b[:1, 0], 0.5), "ShapeError", "scores"),
        (lambda x, b: ops.nms(b[:, 1:], b[:, 0], "much"), "DTypeError", "a number"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.zeros((1, 2, 4, 4)), cp.zeros((3, 5)))
