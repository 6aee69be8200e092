"""Reductions over pairs: strings, layouts, dtypes and tails, on every device's tiles."""

import numpy as np
import pyopencl as cl
import pytest
from support import BFLOAT16, Guard, equal, numbers, same_bits, wide

import clprim as cp

L1 = {"expr": "y0 = fabs(x0 - x1);", "init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
PLUS = {
    "expr": "y0 = x0 + x1;",
    "init": "reduce_y0 = lowest_reduce_y0;",
    "step": "reduce_y0 = y0 > reduce_y0 ? y0 : reduce_y0;",
}
NEAREST = {
    "expr": "y0 = (x0 - x1) * (x0 - x1);",
    "init": "reduce_y0 = highest_reduce_y0; reduce_y1 = 0;",
    "step": "if (y0 < reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
}


def planned(op, *args, pairs=True, **options):
    """Whether a call is planned over pairs or not; on GPUs only what it returns is looked at."""
    if not cp.current_device().cl.type & cl.device_type.CPU:
        return True
    return ("broadcast against each other" in op.source(*args, **options)) == pairs


@pytest.fixture
def rows():
    return numbers((70, 67), seed=1)


@pytest.fixture
def columns():
    return numbers((83, 67), seed=2)


def test_distances(traits, rows, columns):
    x, y = cp.asarray(rows), cp.asarray(columns)
    l1 = cp.Reduction(**L1)
    assert planned(l1, x[:, None], y[None], axis=2)
    out = Guard((70, 83))
    l1(x[:, None], y[None], axis=2, out=out.array)
    out.check(np.abs(rows[:, None] - columns[None]).sum(2))


@pytest.mark.parametrize("m", [8, 13, 97])
@pytest.mark.parametrize("n", [8, 15, 33, 130])
def test_tails(traits, m, n):
    k = 1 + 140_000 // (m * n)
    a, b = numbers((m, k), seed=m), numbers((n, k), seed=n)
    out = Guard((m, n))
    op = cp.Reduction(**PLUS)
    x, y = cp.asarray(a)[:, None], cp.asarray(b)[None]
    assert planned(op, x, y, axis=2) or m * n < 2000  # few tiles
    op(x, y, axis=2, out=out.array)
    out.check((a[:, None] + b[None]).max(2))


def test_the_first_of_equal_ones_wins(traits, rows, columns):
    op = cp.Reduction(**NEAREST)
    x, y = cp.asarray(rows)[:, None], cp.asarray(columns)[None]
    assert planned(op, x, y, axis=2)
    best, place = op(x, y, axis=2)
    squares = (rows[:, None] - columns[None]).astype(np.float64) ** 2
    equal(best, squares.min(2))
    equal(place, squares.argmin(2))


def test_positions(traits, rows, columns):
    op = cp.Reduction(
        "y0 = x0 * x1 * (coord(0) + 2 * coord(1)) + size(1) + reduce_item + index % 3;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        result_type=np.float64,
    )
    x, y = cp.asarray(rows)[:, None], cp.asarray(columns)[None]
    assert planned(op, x, y, axis=2) or traits.local_memory <= 4096
    i, j, k = np.ogrid[:70, :83, :67]
    index = (i * 83 + j) * 67 + k
    each = rows[:, None].astype(np.float64) * columns[None] * (i + 2 * j) + 83 + k + index % 3
    equal(op(x, y, axis=2), each.sum(2))


VIEWS = {
    "dense": lambda a: a,
    "reversed": lambda a: a[::-1, ::-1],
    "steps": lambda a: a[:, ::2],
    "turned": lambda a: a.transpose(1, 0)[:67, :60],
}


@pytest.mark.parametrize("first", VIEWS)
@pytest.mark.parametrize("second", ["dense", "turned", "steps"])
def test_views(traits, first, second):
    hosts = [numbers((67, 140), seed=3), numbers((70, 140), seed=4)]
    arrays = [cp.asarray(h) for h in hosts]
    hosts = [VIEWS[name](h) for name, h in zip((first, second), hosts, strict=True)]
    arrays = [VIEWS[name](a) for name, a in zip((first, second), arrays, strict=True)]
    k = min(h.shape[1] for h in hosts)
    a, b = (h[:, :k] for h in hosts)
    x, y = (h[:, :k] for h in arrays)
    op = cp.Reduction(**L1)
    assert planned(op, x[:, None], y[None], axis=2)
    equal(op(x[:, None], y[None], axis=2), np.abs(a[:, None] - b[None]).sum(2))
    turned = Guard((b.shape[0], a.shape[0]))
    op(x[None], y[:, None], axis=2, out=turned.array)
    turned.check(np.abs(a[:, None] - b[None]).sum(2).T)


@pytest.mark.parametrize("shapes", [((3, 1), (3, 1)), ((3, 1), (1, 1)), ((2, 3), (1, 3))], ids=str)
def test_batches(traits, shapes):
    a, b = numbers((*shapes[0], 50, 1, 40), seed=5), numbers((*shapes[1], 1, 36, 40), seed=6)
    op = cp.Reduction(**L1)
    x, y = cp.asarray(a), cp.asarray(b)
    assert planned(op, x, y, axis=-1)
    equal(op(x, y, axis=-1), np.abs(a - b).sum(-1))


def test_several_reduced_axes(traits):
    a, b = numbers((30, 1, 9, 5, 4), seed=7), numbers((40, 9, 5, 4), seed=8)
    a, b = a[:, :, :7, :, ::2], b[:, 1:8, :, 1:3]
    x = cp.asarray(numbers((30, 1, 9, 5, 4), seed=7))[:, :, :7, :, ::2]
    y = cp.asarray(numbers((40, 9, 5, 4), seed=8))[:, 1:8, :, 1:3]
    op = cp.Reduction(**L1)
    b = b[:, ::1]
    equal(op(x, y, axis=(2, 3, 4)), np.abs(a - b).sum((2, 3, 4)))


@pytest.mark.parametrize("width", [16, 50, 64])
def test_what_varies_with_all_and_what_with_nothing(traits, width):
    """The gradient of a distance in its rows, say: x (i, k), y (j, k), g (i, j) and weights."""
    a, b, g = numbers((99, 1, width), seed=1), numbers((1, 90, width), seed=2), numbers((99, 90, 1))
    w, one = numbers((1, 90, 1), seed=4), numbers((1, 1, 1), seed=5)
    op = cp.Reduction(
        "y0 = x2 * (x0 > x1 ? x3 : -x3) + x4 * w0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
    )
    given = [cp.asarray(v) for v in (a, b, g, w, one)]
    assert planned(op, *given, 2.0, axis=1)
    expected = (g.astype(np.float64) * np.where(a > b, w, -w) + one * 2).sum(1)
    equal(op(*given, 2.0, axis=1), expected)
    strided = cp.asarray(np.ascontiguousarray(a.transpose(2, 1, 0))).transpose(2, 1, 0)
    equal(op(strided, *given[1:], 2.0, axis=1), expected)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.int8, np.uint32, np.int64, np.float64])
def test_dtypes(device, dtype):
    if dtype == np.float64 and not device.traits.fp64:
        pytest.skip("no doubles")
    low = 0 if np.dtype(dtype).kind == "u" else None
    a, b = numbers((50, 70), dtype, 1, low=low), numbers((45, 70), dtype, 2, low=low)
    op = cp.Reduction("y0 = x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    x, y = cp.asarray(a), cp.asarray(b)
    assert planned(op, x[:, None], y[None], axis=2)
    result = op(x[:, None], y[None], axis=2)
    expected = wide(a).astype(np.float64) @ wide(b).astype(np.float64).T
    equal(result, expected.astype(result.dtype))
    mixed = op(x[:, None], cp.asarray(wide(b).astype(np.float32))[None], axis=2)
    equal(mixed, expected)


def test_several_results(traits, rows, columns):
    op = cp.Reduction(
        "y0 = x0 - x1; y1 = x0 * x1;",
        init="reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = lowest_reduce_y2;",
        step="reduce_y0 += y0; reduce_y1 += y1; reduce_y2 = max(reduce_y2, y0);",
        finalize="y0 = reduce_y0 * w0 + x2; y1 = reduce_y1 / count; y2 = reduce_y2;",
        result_type=[np.float32, np.float32, np.float16],
    )
    extra = numbers((83, 1), seed=9)
    args = cp.asarray(rows)[:, None], cp.asarray(columns)[None], cp.asarray(extra), 2.0
    assert planned(op, *args, axis=2)
    found = op(*args, axis=2)
    a, b = rows[:, None].astype(np.float64), columns[None].astype(np.float64)
    equal(found[0], (a - b).sum(2) * 2 + extra[:, 0])
    np.testing.assert_allclose(found[1].get(), (a * b).mean(2), rtol=3e-7)
    equal(found[2], (a - b).max(2))


def test_scaling_and_finalize(traits, rows, columns):
    root = {**L1, "finalize": "y0 = sqrt(reduce_y0);"}
    op = cp.Reduction(**root)
    x, y = cp.asarray(rows)[:, None], cp.asarray(columns)[None]
    expected = np.sqrt(np.abs(rows[:, None] - columns[None]).astype(np.float64).sum(2))
    np.testing.assert_allclose(op(x, y, axis=2).get(), expected, rtol=3e-7)
    out = cp.asarray(numbers((70, 83), seed=11))
    before = out.get().astype(np.float64)
    cp.Reduction(**L1)(x, y, axis=2, out=out, alpha=2, beta=3)
    equal(out, 2 * np.abs(rows[:, None] - columns[None]).sum(2) + 3 * before)


@pytest.mark.parametrize("length", [40, 600, 3000])
@pytest.mark.optimised
def test_sums_are_accurate_at_any_length(traits, length):
    rng = np.random.default_rng(length)
    a, b = (rng.uniform(0.5, 1, (n, length)).astype(np.float32) for n in (60, 64))
    op = cp.Reduction("y0 = x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    x, y = cp.asarray(a)[:, None], cp.asarray(b)[None]
    assert planned(op, x, y, axis=2)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    # Chains of 32, four or more of them at a time, and what each product is rounded by.
    np.testing.assert_allclose(op(x, y, axis=2).get(), expected, rtol=1e-6)
    ones = cp.full((60, 1, length), 0.1), cp.full((1, 64, length), 1.0)
    found = op(*ones, axis=2).get()
    np.testing.assert_allclose(found, length * np.float64(np.float32(0.1)), rtol=1.2e-6)


@pytest.mark.optimised
def test_a_value_does_not_depend_on_its_place(traits):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 77)).astype(np.float32) for n in (61, 67))
    op = cp.Reduction("y0 = exp(-fabs(x0 - x1));", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    x, y = cp.asarray(a), cp.asarray(b)
    whole = op(x[:, None], y[None], axis=2)
    part = op(x[5:60][:, None], y[3:66][None], axis=2)
    assert planned(op, x[5:60][:, None], y[3:66][None], axis=2)
    assert same_bits(part, whole[5:60, 3:66])
    again = cp.asarray(np.stack([b, a[:1].repeat(67, 0)]))
    batch = op(x[None, :, None], again[:, None], axis=3)
    assert same_bits(batch[0], whole)


def test_nan_as_strings_say(device, rows, columns):
    rows = rows.copy()
    rows[3, 5] = np.nan
    x, y = cp.asarray(rows)[:, None], cp.asarray(columns)[None]
    kept = cp.Reduction(**PLUS)(x, y, axis=2).get()
    assert np.isfinite(kept).all()  # a comparison with a NaN is false
    spread = cp.Reduction(**L1)(x, y, axis=2).get()
    assert np.isnan(spread[3]).all()
    assert np.isfinite(np.delete(spread, 3, 0)).all()


def test_little_and_nothing(device):
    op = cp.Reduction(**L1)
    x, y = cp.zeros((40, 1, 0)), cp.zeros((1, 50, 0))
    equal(op(x, y, axis=2), np.zeros((40, 50)))
    assert op(cp.zeros((0, 1, 5)), cp.zeros((1, 50, 5)), axis=2).shape == (0, 50)
    assert planned(op, cp.zeros((4, 1, 5)), cp.zeros((1, 5, 5)), axis=2, pairs=False)
    dense = cp.zeros((40, 50, 60))
    assert planned(op, dense, cp.zeros((1, 50, 60)), axis=2, pairs=False)  # nothing is shared
