"""Work-items that go different ways through a loop, each with its own result."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.render import apart

pytestmark = pytest.mark.optimised
_UNTIL = (
    "(void)x0; long l = 0, h = size_x1(0); while (l < h) { long m = (l + h) / 2; "
    "if (at_x1(m) > 0 && x0 < 0) h = m; else l = m + 1; } y0 = l;"
)


@pytest.mark.everywhere
def test_a_search_by_each_elements_own_way(device):
    x, line = np.float32([-1, 1] * 20), np.float32([-1, -1, 1, 1, 1])
    found = cp.Pointwise(_UNTIL, result_type=np.int64)(cp.asarray(x), cp.asarray(line))
    assert found.get().tolist() == [2, 5] * 20


@pytest.mark.everywhere
def test_either_branch_has_its_own_loop(device):
    text = (
        "long s = 0; if (x0 > 0) for (int k = 0; k < size_x1(0); ++k) s += k * s + 1; "
        "else for (int k = 0; k < size_x1(0); ++k) s -= at_x1(k) > 0 ? 2 : 3; y0 = s;"
    )
    x, line = np.float32([-1, 1] * 20), np.float32([-1, -1, 1, 1, 1])
    found = cp.Pointwise(text, result_type=np.int64)(cp.asarray(x), cp.asarray(line))
    sums = 0
    for k in range(5):
        sums += k * sums + 1
    assert found.get().tolist() == [-12, sums] * 20


@pytest.mark.everywhere
@pytest.mark.parametrize("n", [3, 10, 20, 28, 100])
def test_boxes_are_read_by_those_that_ask(device, n):
    rng = np.random.default_rng(0)
    boxes = rng.random((n, 4)).astype(np.float32)
    boxes[:, 2:] += boxes[:, :2]
    kept = []
    for b in range(n - 1, -1, -1):
        low, high = (
            np.maximum(boxes[b, :2], boxes[kept, :2]),
            np.minimum(boxes[b, 2:], boxes[kept, 2:]),
        )
        inner = np.maximum(high - low, 0).prod(-1)
        areas = [(boxes[k, 2:] - boxes[k, :2]).prod(-1) for k in (b, kept)]
        if not (inner / (areas[0] + areas[1] - inner) > 0.5).any():
            kept.append(b)
    scores = cp.asarray(np.arange(n, dtype=np.float32))
    assert ops.nms(cp.asarray(boxes), scores, 0.5).get().tolist() == kept


def test_only_strings_that_may_mix_work_items_lose_their_vectors():
    text = (
        "__kernel void k()\n{\n    const float x0 = x0_memory[i];\n"
        '#line 1 "snippet:expr"\n%s\n#line 5 "kernel"\n}\n'
    )
    hint = "intel_vec_len_hint(1)"
    for string in (
        _UNTIL,
        "for (int k = 0; k < 9; ++k) s += x0 > 0 ? k : -k; y0 = s;",
        "if (x0 > 0) for (int k = 0; k < 9; ++k) s += k; else while (s < 7) ++s; y0 = s;",
        "long a = at_x1(0); y0 = x0 > 0 ? at_x2(a) : 0;",
        "again: if (x0 > y0) goto again;",  # what is not understood
    ):
        assert hint in apart(text % string)
    for string in (
        "for (int k = 0; k < 3; ++k) y0 += k;",
        "y0 = x0 > 0 ? x0 : 0;",
        "while (l < h) { long m = (l + h) / 2; if (at_x1(m) > x0) h = m; else l = m + 1; } y0 = l;",
        "for (int k = 0; k < 3; ++k) { float v = at_x1(index + k); if (x0 > 0) s += v; } y0 = s;",
        "static float twice(float a) { return a > 0 ? 2 * a : a; }",  # a preamble
    ):
        assert hint not in apart(text % string)
