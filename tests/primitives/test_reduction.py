"""`Reduction` on every device: axes, results, alpha and beta, combine, finalize, positions."""

import dataclasses
import itertools

import numpy as np
import pytest
from support import (
    BFLOAT16,
    VIEWS,
    Guard,
    equal,
    free_memory,
    numbers,
    pair,
    roundoff,
    same_bits,
    subsets,
)

import clprim as cp
from clprim.runtime.stats import stats

SUM = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
SUMS = cp.Reduction(
    "y0 = x0 * w0; y1 = x0 * x1;",
    init="reduce_y0 = 0; reduce_y1 = 0;",
    step="reduce_y0 += y0; reduce_y1 += y1;",
)
ARGMAX = cp.Reduction(
    "y0 = x0;",
    init="reduce_y0 = -INFINITY; reduce_y1 = 0;",
    step="if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
)
RANGE = cp.Reduction(
    "",
    init="reduce_y0 = highest_reduce_y0; reduce_y1 = lowest_reduce_y1;",
    step="reduce_y0 = min(reduce_y0, x0); reduce_y1 = max(reduce_y1, x0);",
)
# The running mean and sum of squared deviations (Welford), merged as Chan, Golub and LeVeque do.
MOMENTS = cp.Reduction(
    "y0 = x0;",
    init="reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
    step="""\
reduce_y2 += 1;
typeof_reduce_y0 delta = y0 - reduce_y0;
reduce_y0 += delta / reduce_y2;
reduce_y1 += delta * (y0 - reduce_y0);""",
    combine="""\
if (other_y2 > 0) {
    typeof_reduce_y0 n = reduce_y2 + other_y2, delta = other_y0 - reduce_y0;
    reduce_y0 += delta * (other_y2 / n);
    reduce_y1 += other_y1 + delta * delta * (reduce_y2 * (other_y2 / n));
    reduce_y2 = n;
}""",
    finalize="y0 = reduce_y0; y1 = reduce_y1 / count;",
)


# --- axes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", subsets(3), ids=str)
def test_any_subset_of_the_axes(device, axis):
    a = numbers((3, 4, 5))
    x = cp.asarray(a)
    equal(SUM(x, axis=axis), a.sum(axis), np.float32)
    equal(SUM(x, axis=axis, keepdims=True), a.sum(axis, keepdims=True), np.float32)


@pytest.mark.parametrize("axis", [None, 0, -1, (-1, 0), [1], (-2,), np.int64(2), ()], ids=str)
def test_every_way_to_name_axes(device, axis):
    a = numbers((3, 4, 5))
    expected = a.sum(tuple(axis) if isinstance(axis, list) else axis)
    equal(SUM(cp.asarray(a), axis=axis), expected)


@pytest.mark.parametrize("axis", [(0, 2, 3), (1,), (0, 1), (2, 3), (1, 3)], ids=str)
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_images(device, axis, memory_format):
    a = numbers((4, 6, 5, 7))
    x = cp.asarray(a, memory_format=memory_format)
    equal(SUM(x, axis=axis), a.sum(axis))


def test_scalars_and_single_elements(device):
    x = cp.asarray(np.float32(3))
    for axis in (None, ()):
        assert SUM(x, axis=axis).shape == ()
        assert SUM(x, axis=axis).get() == 3
        assert SUM(x, axis=axis, keepdims=True).get() == 3
    one = cp.asarray(numbers((1, 1, 1)))
    for axis in subsets(3):
        equal(SUM(one, axis=axis), one.get().sum(axis))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((0,), None),
        ((3, 0), 0),
        ((3, 0), 1),
        ((0, 3), 0),
        ((0, 3), 1),
        ((2, 3, 0), (0, 2)),
        ((2, 3, 0, 5), (0, 2)),
        ((2, 0, 3), ()),
        ((2, 0, 70), 1),
        ((0, 0), None),
    ],
    ids=str,
)
@pytest.mark.oclgrind
def test_empty_arrays_and_reductions_of_nothing(device, shape, axis):
    a = np.zeros(shape, np.float32)
    x = cp.asarray(a)
    before = stats()
    equal(SUM(x, axis=axis), a.sum(axis), np.float32)
    equal(SUM(x, axis=axis, keepdims=True), a.sum(axis, keepdims=True))
    if not a.sum(axis).size:
        assert (stats() - before).launches == 0


def test_the_extreme_of_nothing_is_its_neutral_start(device):
    low, high = RANGE(cp.zeros((2, 0)), axis=1)
    equal(low, [np.inf] * 2)
    equal(high, [-np.inf] * 2)


def test_more_than_eight_collapsed_dimensions(device):
    a = numbers((2,) * 12)
    axis = tuple(range(0, 12, 2))
    equal(SUM(cp.asarray(a), axis=axis), a.sum(axis))


# --- inputs and results -----------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)], ids=str)
def test_several_inputs_results_and_scalars(device, axis):
    a, b = numbers((5, 6, 7), seed=1), numbers((6, 1), seed=2)
    s, dot = SUMS(cp.asarray(a), cp.asarray(b), 3.0, axis=axis)
    equal(s, 3 * a.sum(axis))
    equal(dot, (a * b).sum(axis))


def test_inputs_broadcast_along_reduced_axes(device):
    a, b = numbers((5, 1), seed=1), numbers((1, 300), seed=2)
    dot = SUMS(cp.asarray(a), cp.asarray(b), 1, axis=1)[1]
    equal(dot, (a * b).sum(1))
    dot = SUMS(cp.asarray(a), cp.asarray(b), 1, axis=0)[1]
    equal(dot, (a * b).sum(0))


def test_results_are_laid_out_as_their_input(device):
    a = numbers((4, 6, 5, 7))
    last = cp.asarray(a, memory_format="channels_last")
    assert SUM(last, axis=0, keepdims=True).strides[1] == 4
    found = SUM(last, axis=0)
    assert found.strides == (4, 7 * 6 * 4, 6 * 4)
    equal(found, a.sum(0))


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("axis", [0, 1])
def test_views_in(device, view, axis):
    a, x = pair(numbers((20, 45)), view)
    equal(SUM(x, axis=axis), a.sum(axis))


@pytest.mark.oclgrind
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((5, 33), 0), ((33, 5), 1), ((4, 9, 3), (0, 2))])
def test_out_writes_nothing_beside(device, shape, axis, step):
    a = numbers(shape)
    expected = a.sum(axis)
    out = Guard(expected.shape, step=step)
    assert SUM(cp.asarray(a), axis=axis, out=out.array) is out.array
    out.check(expected)
    backwards = Guard(expected.shape, step=step)
    SUM(cp.asarray(a), axis=axis, out=backwards.array[::-1])
    backwards.check(expected[::-1])


def test_out_keeps_the_reduced_axes(device):
    a = numbers((5, 6))
    out = Guard((5, 1))
    SUM(cp.asarray(a), axis=1, keepdims=True, out=out.array)
    out.check(a.sum(1, keepdims=True))


def test_several_outs(device):
    a = numbers((5, 6))
    outs = (cp.empty(5), cp.empty(5, np.float64))
    result = SUMS(cp.asarray(a), cp.asarray(a), 1, axis=1, out=outs)
    assert isinstance(result, tuple)
    assert all(one is other for one, other in zip(result, outs, strict=True))
    equal(outs[0], a.sum(1))
    equal(outs[1], (a * a).sum(1), np.float64)


def test_out_may_be_the_input_where_nothing_is_reduced(device):
    a = numbers((5, 1, 7))
    x = cp.asarray(a)
    SUM(x, axis=1, keepdims=True, out=x, alpha=2)
    equal(x, 2 * a)
    SUM(x, axis=(), out=x, beta=1)
    equal(x, 4 * a)


# --- dtypes of results and partials -----------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.bool_, np.int64),
        (np.int8, np.int64),
        (np.uint8, np.uint64),
        (np.int64, np.int64),
        (np.float16, np.float16),
        (BFLOAT16, BFLOAT16),
        (np.float64, np.float64),
    ],
    ids=str,
)
def test_sums_widen_as_in_numpy(device, dtype, expected):
    a = numbers((7, 40), dtype)
    wide = a.astype(np.float64).sum(1)
    equal(SUM(cp.asarray(a), axis=1), wide, expected)


def test_extremes_do_not_widen(device):
    a = numbers((7, 40), np.int8)
    low, high = RANGE(cp.asarray(a), axis=1)
    equal(low, a.min(1), np.int8)
    equal(high, a.max(1), np.int8)


def test_half_sums_accumulate_in_float(device):
    a = np.ones(5000, np.float16)
    assert SUM(cp.asarray(a)).get() == 5000  # ones added up in half stop at 2048
    small = np.full(1 << 16, 0.01, np.float16)
    exact = small.astype(np.float64).sum()
    assert abs(float(SUM(cp.asarray(small)).get()) - exact) <= exact * 2.0**-11 * 1.01


def test_result_type_and_partial_type(device):
    a = numbers((6, 50), np.int8)
    narrow = cp.Reduction(
        "y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", result_type=np.int32
    )
    equal(narrow(cp.asarray(a), axis=1), a.sum(1), np.int32)
    exact = cp.Reduction(
        "y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", partial_type=np.float64
    )
    large = np.full((4, 1000), 16777217, np.float64).astype(np.float32)
    large[:, ::2] = 1
    result = exact(cp.asarray(large), axis=1)
    expected = large.astype(np.float64).sum(1).astype(np.float32)
    equal(result, expected, np.float32)


def test_integers_next_to_floats(device):
    a, b = numbers((5, 40), np.int32, 1), numbers((5, 40), np.float32, 2)
    _, dot = SUMS(cp.asarray(a), cp.asarray(b), 1, axis=1)
    equal(dot, (a * b).sum(1), np.float64)


# --- alpha and beta ---------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0, 1, 2, -0.5])
@pytest.mark.parametrize("alpha", [1, 2, 0, -0.5])
def test_alpha_and_beta(device, alpha, beta):
    a, old = numbers((4, 8, 5), seed=1), numbers((4, 5), seed=2)
    out = Guard((4, 5))
    out.array[...] = old
    out.host[out.inside] = old
    result = SUM(cp.asarray(a), axis=1, out=out.array, alpha=alpha, beta=beta)
    assert result is out.array
    out.check(alpha * a.sum(1) + beta * old)


def test_alpha_without_out(device):
    a = numbers((4, 8))
    equal(SUM(cp.asarray(a), axis=1, alpha=3), 3 * a.sum(1), np.float32)
    equal(SUM(cp.asarray(a), axis=1, alpha=0.5), 0.5 * a.sum(1), np.float32)
    equal(SUM(cp.asarray(a), alpha=np.float32(2)), 2 * a.sum(), np.float32)


@pytest.mark.oclgrind
@pytest.mark.parametrize("shape", [(4, 8), (1, 70)])
@pytest.mark.parametrize("old", [np.nan, np.inf])
@pytest.mark.parametrize("beta", [0, 0.0, np.float32(0), False], ids=repr)
def test_what_beta_0_does_not_want_does_not_leak(device, shape, old, beta):
    a = numbers(shape)
    out = cp.full(shape[0], old, np.float32)
    equal(SUM(cp.asarray(a), axis=1, out=out, beta=beta), a.sum(1))
    half = cp.full(shape[0], old, np.float16)
    equal(SUM(cp.asarray(a), axis=1, out=half, alpha=2, beta=beta), 2 * a.sum(1))


def test_a_nan_in_the_old_value_stays_where_it_is_wanted(device):
    out = cp.asarray(np.array([np.nan, 1], np.float32))
    found = SUM(cp.asarray(np.ones((2, 3), np.float32)), axis=1, out=out, beta=1).get()
    assert np.isnan(found[0])
    assert found[1] == 4


def test_one_alpha_and_beta_for_each_result(device):
    a = numbers((4, 6))
    old = numbers((2, 4), seed=3)
    outs = (cp.asarray(old[0]), cp.full(4, np.nan))
    SUMS(cp.asarray(a), cp.asarray(a), 1, axis=1, out=outs, alpha=(2, 3), beta=(1, 0))
    equal(outs[0], 2 * a.sum(1) + old[0])
    equal(outs[1], 3 * (a * a).sum(1))
    outs = (cp.full(4, np.nan), cp.asarray(old[1]))
    SUMS(cp.asarray(a), cp.asarray(a), 1, axis=1, out=outs, alpha=[1, 0.5], beta=[0, 2])
    equal(outs[0], a.sum(1))
    equal(outs[1], 0.5 * (a * a).sum(1) + 2 * old[1])


def test_other_numbers_are_neither_planned_nor_built(device):
    a, old = numbers((4, 8)), numbers(4, seed=1)
    x = cp.asarray(a)
    SUM(x, axis=1, out=cp.asarray(old), alpha=2.5, beta=3.5)
    before = stats()
    for alpha, beta in ((0.5, 2.0), (1.5, -1.0)):
        out = cp.asarray(old)
        equal(SUM(x, axis=1, out=out, alpha=alpha, beta=beta), alpha * a.sum(1) + beta * old)
    assert (stats() - before).plans == 0


def test_fractions_scale_whole_results(device):
    a, old = numbers((5, 9), np.int32, 1), numbers(5, np.int64, 2)
    out = cp.asarray(old)
    SUM(cp.asarray(a), axis=1, out=out, alpha=0.5, beta=0.25)
    expected = np.trunc(0.5 * a.sum(1) + 0.25 * old).astype(np.int64)  # as C converts
    equal(out, expected, np.int64)
    equal(SUM(cp.asarray(a), axis=1, alpha=0.5), np.trunc(0.5 * a.sum(1)), np.int64)


def test_whole_numbers_scale_whole_results_exactly(device):
    large = np.array([[2**60 + 1, 1]], np.int64)
    out = cp.asarray(np.array([2**53 + 1], np.int64))
    SUM(cp.asarray(large), axis=1, out=out, alpha=3, beta=5)
    assert out.get()[0] == 3 * (2**60 + 2) + 5 * (2**53 + 1)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float64], ids=str)
def test_alpha_and_beta_of_other_dtypes(device, dtype):
    a, old = numbers((5, 9), dtype, 1), numbers(5, dtype, 2)
    out = cp.asarray(old)
    SUM(cp.asarray(a), axis=1, out=out, alpha=2, beta=0.5)
    equal(out, 2 * a.astype(np.float64).sum(1) + 0.5 * old.astype(np.float64), dtype)


def test_scaling_comes_after_finalize(device):
    a = numbers((3, 8))
    mean = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="y0 = reduce_y0 / count + w0;",
    )
    out = cp.full(3, 2.0)
    mean(cp.asarray(a), 1.0, axis=1, out=out, alpha=2, beta=3)
    equal(out, 2 * (a.mean(1) + 1) + 6)


# --- combine and finalize ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 700), 1), ((700, 40), 0), ((3, 5, 100), (0, 2)), ((40_000,), 0)]
)
def test_mean_and_variance_far_from_zero(device, shape, axis):
    a = (1e4 + np.random.default_rng(0).standard_normal(shape)).astype(np.float32)
    mean, variance = MOMENTS(cp.asarray(a), axis=axis)
    exact = a.astype(np.float64)
    # E[x²] − E[x]² in float would be off by 1e8 · 2⁻²⁴ ≈ 6.
    np.testing.assert_allclose(mean.get(), exact.mean(axis), rtol=1e-6)
    np.testing.assert_allclose(variance.get(), exact.var(axis), rtol=2e-3)


def test_mean_and_variance_of_doubles(device):
    a = 1e6 + np.random.default_rng(1).standard_normal((5, 999))
    mean, variance = MOMENTS(cp.asarray(a), axis=1)
    np.testing.assert_allclose(mean.get(), a.mean(1), rtol=1e-15)
    np.testing.assert_allclose(variance.get(), a.var(1), rtol=1e-8)


def test_finalize_sees_count_and_scalars_and_runs_once_a_result(device):
    norm = cp.Reduction(
        "y0 = x0 * x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="y0 = sqrt(reduce_y0); y1 = count; y2 = w0;",
        result_type=(np.float32, np.int64, np.float32),
    )
    a = np.array([[3, 4, 0], [5, 12, 0]], np.float32)
    length, count, scalar = norm(cp.asarray(a), 7.0, axis=1)
    equal(length, [5, 13])
    equal(count, [3, 3], np.int64)
    equal(scalar, [7, 7])
    assert norm(cp.zeros((2, 0)), 7.0, axis=1)[1].get().tolist() == [0, 0]


# One stage and two, walks along rows, down columns, and across short rows; broadcast, and nothing.
ONCE = [
    ((4, 5, 6), (1,), (4, 1, 6), (6,)),
    ((4, 5, 6), (0, 2), (5, 1), (1,)),
    ((3000, 40), (0,), (40,), (1, 40)),
    ((40, 3000), (1,), (40, 1), (1, 1)),
    ((4, 100_000), (1,), (4, 1), (1,)),
    ((100_000, 3), (0,), (3,), (1, 3)),
    ((7,), (0,), (1,), (1,)),
    ((5, 0, 3), (1,), (5, 1, 3), (3,)),
]


@pytest.mark.parametrize(("shape", "axis", "first", "second"), ONCE)
def test_finalize_reads_arrays_of_one_value_a_result(device, shape, axis, first, second):
    line = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="y0 = reduce_y0 * x1 + x2; y1 = x1 * w0;",
        result_type=np.float32,
    )
    a, b, c = numbers(shape), numbers(first, seed=1), numbers(second, np.int32, seed=2)
    y, z = line(*map(cp.asarray, (a, b, c)), 3.0, axis=axis, keepdims=True)
    exact = a.sum(axis, keepdims=True, dtype=np.float64) * b + c
    equal(y, exact)
    equal(z, np.broadcast_to(3 * b, exact.shape))


def test_finalize_reads_views_of_what_is_reduced(device):
    line = cp.Reduction(
        "y0 = x0 - x1;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="y0 = x1 + reduce_y0 / count;",
    )
    a = numbers((2, 64, 50))
    x = cp.asarray(a)[:, ::-1]
    equal(line(x, x[:, 3:4, :], axis=1), a.mean(1))
    equal(line(x, x[:1, 3:4, :1], axis=(0, 1)), a.mean((0, 1)))


def test_finalize_refuses_arrays_that_change_along_the_axes(device):
    line = cp.Reduction(
        "y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", finalize="y0 = reduce_y0 * x1;"
    )
    x = cp.zeros((3, 4))
    for axis in (1, None):
        with pytest.raises(cp.ShapeError, match="finalize reads x1, whose shape"):
            line(x, cp.zeros(4), axis=axis)
    assert line(x, cp.zeros(4), axis=0).shape == (4,)


def test_more_results_than_partials_and_the_other_way_round(device):
    more = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="y0 = reduce_y0; y1 = -reduce_y0; y2 = 2 * reduce_y0;",
    )
    a = numbers((4, 9))
    for result, factor in zip(more(cp.asarray(a), axis=1), (1, -1, 2), strict=True):
        equal(result, factor * a.sum(1))
    fewer = cp.Reduction(
        "y0 = x0; y1 = x0 * x0;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        finalize="y0 = reduce_y1 - reduce_y0;",
    )
    equal(fewer(cp.asarray(a), axis=0), (a * a).sum(0) - a.sum(0))


def test_scalars_reach_every_snippet(device):
    every = cp.Reduction(
        "y0 = x0 * w0;",
        init="reduce_y0 = w1 - 10;",
        step="reduce_y0 += y0 * w2;",
        combine="reduce_y0 += other_y0 + (w1 - 10);",
        finalize="y0 = reduce_y0 * w3;",
    )
    a = numbers((3, 100_000))
    equal(every(cp.asarray(a), 2.0, 10.0, 3.0, 5.0, axis=1), 30 * a.astype(np.float64).sum(1))


def test_products_and_bits(device):
    product = cp.Reduction("y0 = x0;", init="reduce_y0 = 1;", step="reduce_y0 *= y0;")
    a = 1 + numbers((4, 30), np.int8, low=0, high=2)
    equal(product(cp.asarray(a), axis=1), a.astype(np.int64).prod(1), np.int64)
    bits = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = 0; reduce_y1 = ~0; reduce_y2 = 0;",
        step="reduce_y0 |= y0; reduce_y1 &= y0; reduce_y2 ^= y0;",
    )
    b = np.random.default_rng(0).integers(0, 2**31, (4, 30), np.int32)
    union, common, parity = bits(cp.asarray(b), axis=1)
    equal(union, np.bitwise_or.reduce(b, 1), np.int32)
    equal(common, np.bitwise_and.reduce(b, 1), np.int32)
    equal(parity, np.bitwise_xor.reduce(b, 1), np.int32)


def test_any_and_all(device):
    both = cp.Reduction(
        "y0 = x0 > 0;",
        init="reduce_y0 = 0; reduce_y1 = 1;",
        step="reduce_y0 = reduce_y0 || y0; reduce_y1 = reduce_y1 && y0;",
        result_type=bool,
    )
    a = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 2]], np.float32)
    some, every = both(cp.asarray(a), axis=1)
    equal(some, (a > 0).any(1), bool)
    equal(every, (a > 0).all(1), bool)


# --- positions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 70), 1), ((70, 5), 0), ((4, 6, 30), (0, 2)), ((3, 50_000), 1), ((100_000,), None)],
    ids=str,
)
def test_the_first_of_equal_values_wins(device, shape, axis):
    a = numbers(shape, high=3)  # many ties
    value, place = ARGMAX(cp.asarray(a), axis=axis)
    equal(value, a.max(axis))
    axes = tuple(range(a.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    kept = [d for d in range(a.ndim) if d not in axes]
    flat = a.transpose(*kept, *axes).reshape([a.shape[d] for d in kept] + [-1])
    equal(place, flat.argmax(-1), np.int64)


def test_the_last_of_equal_values_wins_where_asked(device):
    last = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = -INFINITY; reduce_y1 = 0;",
        step="if (y0 >= reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
    )
    for shape in ((5, 70), (2, 60_000)):
        a = numbers(shape, high=3)
        _, place = last(cp.asarray(a), axis=1)
        equal(place, shape[1] - 1 - a[:, ::-1].argmax(1))


def test_ties_in_memory_of_another_order(device):
    a, x = pair(numbers((70, 60), high=2), lambda a: a.transpose(1, 0)[::-1, ::-1])
    _, place = ARGMAX(x, axis=1)
    equal(place, a.argmax(1))


def test_index_coordinates_and_sizes(device):
    weighted = cp.Reduction(
        "y0 = index; y1 = coord(1) * size(-1) + coord(-1); y2 = reduce_item + 0 * x0;",
        init="reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1; reduce_y2 += y2;",
        result_type=np.int64,
    )
    index = np.arange(60).reshape(3, 4, 5)
    for axis in (None, 0, (0, 2), 1):
        x = cp.zeros((3, 4, 5))
        first, second, third = weighted(x, axis=axis)
        equal(first, index.sum(axis))
        equal(second, (index % 20).sum(axis))
        count = 60 // first.size
        equal(third, np.full(first.shape, count * (count - 1) // 2))


# --- order of work ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis"), [((100_000,), 0), ((4, 50_000), 1), ((3000, 70), 0), ((20, 50, 300), (0, 2))]
)
def test_results_repeat_bit_for_bit(device, shape, axis):
    x = cp.asarray(np.random.default_rng(0).standard_normal(shape, np.float32))
    first = SUM(x, axis=axis)
    assert all(same_bits(SUM(x, axis=axis), first) for _ in range(4))
    again = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    assert same_bits(again(x, axis=axis), first)


@pytest.mark.parametrize("shape", [(3_000_001,), (1 << 20, 3), (3, 1_000_003)])
def test_long_sums_are_accurate(device, shape):
    a = np.random.default_rng(0).random(shape, np.float32)
    axis = int(np.argmax(shape))
    found = SUM(cp.asarray(a), axis=axis).get()
    exact = a.sum(axis, dtype=np.float64)
    # Chains are cut, so that errors grow with their length and not with that of the array.
    bound = roundoff(np.float32, 2 * 8192, exact)
    assert np.all(abs(found - exact) <= bound)
    # And in practice far less, as errors of both signs cancel.
    assert np.all(abs(found - exact) <= 2e-6 * exact)


def test_two_stages_and_one_give_the_same_sums(device):
    a = numbers((2, 300_000))
    x = cp.asarray(a)
    assert SUM.source(x, axis=1).count("__kernel") == 2
    equal(SUM(x, axis=1), a.astype(np.float64).sum(1))
    equal(SUM(x, axis=0), a.sum(0))


def test_second_stages_scale_and_finalize(device):
    a = numbers((2, 300_000))
    x = cp.asarray(a)
    out = cp.full(2, 1.0)
    SUM(x, axis=1, out=out, alpha=2, beta=3)
    equal(out, 2 * a.astype(np.float64).sum(1) + 3)
    mean, _ = MOMENTS(x, axis=1)
    np.testing.assert_allclose(mean.get(), a.mean(1, dtype=np.float64), atol=1e-5)


def test_streamed_tiles(device, monkeypatch):
    monkeypatch.setitem(
        device.__dict__, "traits", dataclasses.replace(device.traits, cache_bytes=64)
    )
    fresh = cp.Reduction("y0 = x0; // fresh", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    a = numbers((9, 1003))
    out = Guard(1003)
    fresh(cp.asarray(a), axis=0, out=out.array)
    out.check(a.sum(0))
    equal(fresh(cp.asarray(a), axis=0), a.sum(0))


# --- bool, source, profile --------------------------------------------------------------------


def test_source_shows_every_stage(device):
    x = cp.asarray(numbers((4, 5)))
    before = stats()
    text = SUM.source(x, axis=1)
    assert "reduce_y0 += y0;" in text
    assert "__kernel" in text
    assert (stats() - before).builds == (stats() - before).launches == 0
    assert "nothing runs" in SUM.source(cp.zeros((0, 3)), axis=1)


def test_a_profile_shows_every_stage(device):
    total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", name="total")
    x = cp.asarray(numbers(300_000))
    stages = total.source(x).count("__kernel")
    with cp.profile() as p:
        total(x)
    assert [e.name for e in p.events] == ["total", "total_finish"][:stages]
    assert p.events[0].bytes >= 1_200_000


def test_sum_of_every_axis_of_every_layout(device):
    a = numbers((3, 4, 2, 5))
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
        b, x = pair(a, lambda a, order=order: a.transpose(order))
        for axis in ((0,), (1, 3), (0, 2)):
            equal(SUM(x, axis=axis), b.sum(axis))


@pytest.mark.large
@pytest.mark.parametrize("axis", [0, 1])
def test_past_2_to_the_31_elements(device, axis):
    shape = (3, 2**30) if axis == 1 else (2**30, 3)
    if device.traits.max_allocation < 3 * 2**30 or free_memory() < 7 * 2**30:
        pytest.skip(f"needs 3 GiB in one buffer, twice; has {free_memory():,} bytes")
    a = np.zeros(shape, np.int8)
    a[-1, -1], a[0, 0], a[-1, 0], a[0, -1] = 5, 7, 11, 13
    expected = [[18, 0, 18], [20, 0, 16]][axis]
    x = cp.asarray(a)
    del a
    equal(SUM(x, axis=axis), expected, np.int64)


NAMES = ["n", "split", "last", "reduction"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_ones_own_in_the_preamble(device, name):
    # Either the snippets get what the preamble says, or the name is refused.
    try:
        own = cp.Reduction(
            f"y0 = x0 * {name};",
            init="reduce_y0 = 0;",
            step="reduce_y0 += y0;",
            preamble=f"__constant float {name} = 3;",
        )
    except cp.DefinitionError as error:
        assert name in str(error)
    else:
        a = numbers((5, 33))
        equal(own(cp.asarray(a), axis=1), 3 * a.sum(1))


def test_a_step_with_locals_and_conditions_merges_as_its_updates_do(device):
    host = numbers((70_003,), np.int8, low=-100, high=100)
    host[-1] = -101
    found = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
        step="""
            typeof_y0 span = y0 < 0 ? -y0 : y0;
            if (span > 100) span = 1000;
            if (y0 > 0) { reduce_y0 += y0; reduce_y1 += 1; } else reduce_y0 -= 2 * y0;
            if (span > reduce_y2) reduce_y2 = span;
        """,
        result_type=(np.int64, np.int64, np.int64),
    )(cp.asarray(host))
    wide = host.astype(np.int64)
    expected = np.where(wide > 0, wide, -2 * wide).sum(), (wide > 0).sum(), 1000
    assert tuple(int(f.get()) for f in found) == expected
