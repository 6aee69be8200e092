"""Every strategy of a reduction, a GPU's as well, on the devices that are here: exact sums.

Traits decide how work is cut, and nothing but traits; so a CPU runs what a GPU would run.
"""

import dataclasses

import numpy as np
import pytest
from support import BFLOAT16, Guard, equal, numbers, pair, same_bits

import clprim as cp


def sums():
    return cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")


def argmax():
    return cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
        step="if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
    )


def moments():
    """Two sums and a maximum: partials that are merged in different ways."""
    return cp.Reduction(
        "y0 = x0; y1 = x0 * x1;",
        init="reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = lowest_reduce_y2;",
        step="reduce_y0 += y0; reduce_y1 += y1; reduce_y2 = max(reduce_y2, y0);",
        finalize="y0 = reduce_y0 + w0; y1 = reduce_y1 / count; y2 = reduce_y2;",
        result_type=np.float64,
    )


# One long row, rows to share, short rows; tails of every vector and work-group.
LENGTHS = [1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 257, 1000, 4095, 4097]


@pytest.mark.parametrize("kind", ["one", "inner", "columns", "mixed"])
def test_sums_of_every_length(traits, some, kind):
    total = sums()
    for n in some(LENGTHS, 6):
        shape, axis = {
            "one": ((n,), 0),
            "inner": ((7, n), 1),
            "columns": ((n, 19), 0),
            "mixed": ((3, 5, n), (0, 2)),
        }[kind]
        a = numbers(shape, seed=n)
        equal(total(cp.asarray(a), axis=axis), a.astype(np.float64).sum(axis), np.float32)


@pytest.mark.parametrize("rows", [1, 2, 33, 200])
def test_columns_of_every_width(traits, some, rows):
    total = sums()
    for width in some([1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 64, 65, 300], 5):
        a = numbers((rows, width), seed=width)
        out = Guard(width)
        total(cp.asarray(a), axis=0, out=out.array)
        out.check(a.astype(np.float64).sum(0))


@pytest.mark.parametrize(
    "shape", [(300_001,), (3, 100_001), (100_001, 3), (20_000, 40), (7, 9001, 5)]
)
def test_two_stages(traits, shape):
    total = sums()
    axis = int(np.argmax(shape))
    a = numbers(shape)
    x = cp.asarray(a)
    result = total(x, axis=axis)
    equal(result, a.astype(np.float64).sum(axis))
    assert same_bits(total(x, axis=axis), result)


@pytest.mark.parametrize("axis", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_every_set_of_axes_of_permuted_memory(traits, some, axis):
    total = sums()
    for order in some([(0, 1, 2), (2, 0, 1), (2, 1, 0)], 3):
        a, x = pair(numbers((6, 35, 70)), lambda a, order=order: a.transpose(order))
        equal(total(x, axis=axis), a.astype(np.float64).sum(axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_dtypes(traits, some, axis):
    total = sums()
    for dtype in some([np.bool_, np.int8, np.float16, BFLOAT16, np.int64, np.float64], 5):
        a = numbers((130, 150), dtype)
        equal(total(cp.asarray(a), axis=axis), a.astype(np.float64).sum(axis))


@pytest.mark.parametrize("axis", [0, 1, (0, 2)], ids=str)
def test_strided_memory(traits, some, axis):
    total = sums()
    views = [
        lambda a: a[:, ::2, ::3],
        lambda a: a[::-1, :, ::-1],
        lambda a: a[1:, 3:, 1:-2].transpose(2, 0, 1),
    ]
    for view in some(views, 3):
        a, x = pair(numbers((5, 40, 90)), view)
        equal(total(x, axis=axis), a.astype(np.float64).sum(axis))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 700), 1), ((700, 5), 0), ((700, 90), 0), ((4, 60, 70), (0, 2)), ((2, 60_000), 1)],
    ids=str,
)
def test_the_first_of_equal_values_wins(traits, shape, axis):
    best = argmax()
    a = numbers(shape, np.int32, high=4)
    value, place = best(cp.asarray(a), axis=axis)
    equal(value, a.max(axis), np.int32)
    axes = axis if isinstance(axis, tuple) else (axis,)
    kept = [d for d in range(a.ndim) if d not in axes]
    flat = a.transpose(*kept, *axes).reshape([a.shape[d] for d in kept] + [-1])
    equal(place, flat.argmax(-1), np.int64)


@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 900), 1), ((900, 33), 0), ((2, 70_000), 1)], ids=str
)
def test_several_partials_broadcast_inputs_and_finalize(traits, shape, axis):
    several = moments()
    a, b = numbers(shape, seed=1), numbers(shape[1:], seed=2)
    exact = a.astype(np.float64)
    first, second, third = several(cp.asarray(a), cp.asarray(b), 5.0, axis=axis)
    equal(first, exact.sum(axis) + 5)
    np.testing.assert_allclose(second.get(), (exact * b).mean(axis), rtol=1e-15, atol=1e-12)
    equal(third, exact.max(axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_alpha_and_beta(traits, axis):
    total = sums()
    a = numbers((260, 270))
    old = numbers(a.shape[1 - axis], seed=1)
    out = cp.asarray(old)
    total(cp.asarray(a), axis=axis, out=out, alpha=2, beta=-1)
    equal(out, 2 * a.astype(np.float64).sum(axis) - old)
    nan = cp.full(old.shape, np.nan)
    equal(total(cp.asarray(a), axis=axis, out=nan, alpha=3), 3 * a.astype(np.float64).sum(axis))


@pytest.mark.parametrize(
    "shape", [(1,), (17,), (255,), (257,), (4099,), (33, 65), (300, 7)], ids=str
)
def test_pointwise(traits, shape):
    axpb = cp.Pointwise("y0 = x0 * w0 + x1;")
    a, b = numbers(shape, seed=1), numbers(shape[-1:], seed=2)
    out = Guard(shape)
    axpb(cp.asarray(a), cp.asarray(b), 2.0, out=out.array)
    out.check(2 * a + b)
    turned = axpb(cp.asarray(a)[::-1], cp.asarray(b), 2.0)
    equal(turned, 2 * a[::-1] + b)


def test_traits_decide_alone(traits, device):
    total = sums()
    x = cp.asarray(numbers((300, 4000)))
    texts = [total.source(x, axis=axis) for axis in (0, 1)]
    if traits.is_cpu:
        assert "reqd_work_group_size(1, 1, 1)" in texts[0] + texts[1]
    else:
        assert all("get_local_id(0)" in text for text in texts)
        assert "barrier(CLK_LOCAL_MEM_FENCE)" in texts[1]


def test_splits_do_not_change_exact_sums(device, monkeypatch):
    # The same data cut by nine devices: whole numbers add up to the same.
    a = numbers((40, 5000))
    expected = a.astype(np.float64).sum(1)
    for units in (1, 3, 64):
        for is_cpu in (False, True):
            planned = dataclasses.replace(device.traits, compute_units=units, is_cpu=is_cpu)
            monkeypatch.setitem(device.__dict__, "traits", planned)
            equal(sums()(cp.asarray(a), axis=1), expected)
            equal(sums()(cp.asarray(a)), a.astype(np.float64).sum())


# --- small enough for Oclgrind: every template once, with tails -------------------------------


@pytest.mark.oclgrind
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3, 37), 1),
        ((37, 3), 0),
        ((37, 35), 0),
        ((2, 3, 19), (0, 2)),
        ((700,), 0),
        ((2, 2500), 1),
        ((4, 3, 2), (0, 2)),
    ],
    ids=str,
)
def test_small_sums(traits, shape, axis):
    total = sums()
    a = numbers(shape)
    expected = a.astype(np.float64).sum(axis)
    out = Guard(expected.shape)
    total(cp.asarray(a), axis=axis, out=out.array)
    out.check(expected)
    a, x = pair(a, lambda a: a[..., ::-2])
    equal(total(x, axis=axis), a.astype(np.float64).sum(axis))


@pytest.mark.oclgrind
def test_rows_of_a_sub_group_each(device, monkeypatch):
    gpu = {"is_cpu": False, "vector_bytes": 16, "max_work_group_size": 64}
    planned = dataclasses.replace(device.traits, compute_units=1, sub_groups=(16,), **gpu)
    monkeypatch.setitem(device.__dict__, "traits", planned)
    both = cp.Reduction(
        expr="y0 = x0; y1 = x0;",
        init="reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
        step="reduce_y0 = max(reduce_y0, y0); reduce_y1 += y1;",
        combine="reduce_y0 = max(reduce_y0, other_y0); reduce_y1 += other_y1;",
    )
    a = numbers((9, 617))
    x, exact = cp.asarray(a), a.astype(np.float64)
    assert "reqd_work_group_size(16, 1, 1)" in both.source(x, axis=1)
    outs = Guard((9,)), Guard((9,))
    both(x, axis=1, out=tuple(out.array for out in outs))
    outs[0].check(exact.max(1))
    outs[1].check(exact.sum(1))


@pytest.mark.oclgrind
@pytest.mark.parametrize("axis", [0, 1])
def test_small_positions_and_halves(traits, axis):
    a = numbers((21, 39), np.float16, high=3)
    value, place = argmax()(cp.asarray(a), axis=axis)
    equal(value, a.max(axis))
    equal(place, a.argmax(axis))
    out = Guard(a.shape[1 - axis], BFLOAT16)
    sums()(cp.asarray(a.astype(BFLOAT16)), axis=axis, out=out.array, alpha=2, beta=1)
    out.check(2 * a.astype(np.float64).sum(axis) + 77)


@pytest.mark.oclgrind
@pytest.mark.parametrize("shape", [(40, 60), (2, 900)])
def test_small_second_stages(modest, shape):
    # Few work-items and little memory: many splits of little data.
    several = moments()
    a, b = numbers(shape, seed=1), numbers(shape[1:], seed=2)
    exact = a.astype(np.float64)
    first, _, third = several(cp.asarray(a), cp.asarray(b), 5.0, axis=1)
    equal(first, exact.sum(1) + 5)
    equal(third, exact.max(1))
