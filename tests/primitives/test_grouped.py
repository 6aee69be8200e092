"""`Grouped`: reductions of groups and maps of their elements, in one kernel or pass by pass."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp

pytestmark = pytest.mark.usefixtures("device")

SHARES = {
    "expr": "y0 = x0;",
    "init": "reduce_y0 = 0;",
    "step": "reduce_y0 += y0;",
    "each": "y0 = x0 / group_y0;",
}
share = cp.Grouped(**SHARES)
# Distance of each element from the greatest of its group, in units of a range w0 · x1.
below = cp.Grouped(
    "",
    init="reduce_y0 = lowest_reduce_y0; reduce_y1 = highest_reduce_y0;",
    step="reduce_y0 = max(reduce_y0, x0); reduce_y1 = min(reduce_y1, x0);",
    finalize="""
        group_y0 = reduce_y0;
        group_y1 = w0 * x1 / (reduce_y0 - reduce_y1);
        group_y2 = count;
    """,
    each="y0 = (group_y0 - x0) * group_y1 + x2; y1 = x0;",
)


def whole(shape, seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((40, 67), -1),  # one kernel on CPUs
        ((4, 8, 5, 33), (0, 2, 3)),  # likewise, of two axes
        ((4, 8, 7, 7), (0, 2, 3)),  # one element is left of each
        ((40, 67), 0),  # neighbours belong to other groups
        ((6, 3, 5), 1),
        ((7, 5), None),
        ((), None),
    ],
    ids=str,
)
def test_a_group_and_its_elements(shape, axis):
    a = whole(shape) + 20
    y, total = share(cp.asarray(a), axis=axis, keep=[True])
    expected = np.float64(a).sum(axis=axis, keepdims=True)
    np.testing.assert_array_equal(total.get(), expected)
    np.testing.assert_allclose(y.get(), a / expected, rtol=3e-7)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("axis", [(2, 3), 1, (1, 2, 3)], ids=str)
def test_arrays_of_a_group_numbers_and_several_results(order, axis):
    shape = (5, 12, 6, 18)
    axes = axis if isinstance(axis, tuple) else (axis,)
    a, added = whole(shape), whole((18,), 1)
    gain = abs(whole([1 if d in axes else n for d, n in enumerate(shape)], 2))
    memory = {} if order == "C" else {"memory_format": order}
    x = cp.asarray(a, **memory)
    count = cp.empty(gain.shape, np.float16)
    y, copy, high, counted = below(
        x, cp.asarray(gain), cp.asarray(added), 2.0, axis=axis, keep=[True, False, count]
    )
    top, low = (f(a, axis=axes, keepdims=True) for f in (np.max, np.min))
    np.testing.assert_allclose(
        y.get(), (top - a) * 2 * gain / np.float64(top - low) + added, rtol=1e-6, atol=1e-5
    )
    np.testing.assert_array_equal(copy.get(), a)
    np.testing.assert_array_equal(high.get(), top)
    assert counted is count
    np.testing.assert_array_equal(count.get(), np.prod([shape[d] for d in axes]))
    assert y.strides == copy.strides == x.strides


def test_groups_of_short_rows_read_tables_of_whole_rows():
    a = whole((4, 24, 10, 9))
    x = cp.asarray(a, memory_format="channels_last")
    n, _, h, w = a.shape
    grouped = x.transpose(0, 2, 3, 1).reshape(n, h, w, 6, 4).transpose(0, 3, 4, 1, 2)
    y, total = share(grouped + 30, axis=(2, 3, 4), keep=[True])
    b = a.reshape(n, 6, 4, h, w) + 30
    np.testing.assert_array_equal(total.get(), b.sum((2, 3, 4), keepdims=True))
    np.testing.assert_allclose(y.get(), b / np.float64(b.sum((2, 3, 4), keepdims=True)), rtol=3e-7)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.int32], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_dtypes(dtype, axis):
    a = (whole((20, 70)) + 20).astype(dtype)
    operator = cp.Grouped(**SHARES, result_type=np.float32)
    y, total = operator(cp.asarray(a), axis=axis, keep=[True])
    b = np.float64(a)
    assert total.dtype == (np.float64 if dtype is np.int32 else np.float32)
    np.testing.assert_allclose(y.get(), b / b.sum(axis=axis, keepdims=True), rtol=3e-7)


def test_positions_and_conditions_run_pass_by_pass():
    operator = cp.Grouped(
        "y0 = x0 > 0 ? index : 0;",
        init="reduce_y0 = 0;",
        step="if (y0 > reduce_y0) reduce_y0 = y0;",
        each="if (coord(1) == size(1) - 1) y0 = group_y0; else y0 = index;",
    )
    a = np.ones((3, 40), np.float32)
    expected = np.arange(120, dtype=np.float32).reshape(3, 40)
    np.testing.assert_array_equal(operator(cp.asarray(a), axis=1).get(), expected)


def test_nothing_to_compute():
    assert share(cp.zeros((3, 0)), axis=1).shape == (3, 0)
    _, total = share(cp.zeros((3, 0)), axis=1, keep=[True])
    np.testing.assert_array_equal(total.get(), np.zeros((3, 1)))
    assert share(cp.zeros((0, 3)), axis=1, keep=[True])[1].shape == (0, 1)
    assert "nothing runs" in share.source(cp.zeros((0, 3)))
    assert "__kernel" in share.source(cp.zeros((8, 64)))


def test_into_memory_that_is_there():
    a = whole((9, 66)) + 20
    x = cp.asarray(a)
    expected = share(x).get()
    assert share(x, out=x) is x
    np.testing.assert_array_equal(x.get(), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: share(x, x), "expected 1 argument"),
        (lambda x: share(x, axis=2), "out of bounds"),
        (lambda x: share(x, out=cp.zeros((8, 7))), r"shape \(8, 7\), expected \(8, 8\)"),
        (lambda x: share(x, out=x[::-1]), "overlaps"),
        (lambda x: share(x, keep=[True, True]), "a group has 1"),
        (lambda x: share(x, keep=[x]), r"expected \(8, 1\)"),
        (lambda x: share(x, keep=[x[:, :1]]), "overlaps"),
        (lambda x: below(x, x, x, 1.0), "more than one value a group"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with pytest.raises(cp.ShapeError, match=message):
        call(cp.zeros((8, 8)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"each": "y0 = x0 / group_y1;"}, "Grouped each, line 1: a group has 1 values"),
        ({"each": "x0 = group_y0;"}, "'x0' is an input"),
        ({"each": "float y = group_y0;"}, "no result is assigned"),
        ({"finalize": "group_y0 = reduce_y1;"}, "init never assigns reduce_y1"),
        ({"finalize": "y0 = reduce_y0;"}, "'y0' is not"),
        ({"step": "reduce_y0 = hypot(reduce_y0, y0);"}, "Grouped step, line 1: cannot derive"),
        ({"expr": "y0 = 1;", "each": "y0 = x0;"}, "at least one array"),
    ],
)
def test_wrong_strings_are_refused_when_defined(change, message):
    with pytest.raises(cp.DefinitionError, match=message):
        cp.Grouped(**{**SHARES, **change})


def test_what_the_compiler_refuses_names_the_line():
    wrong = cp.Grouped(**{**SHARES, "each": "y0 = x0;\ny0 = x0.nothing;"})
    for axis in (0, 1):
        with pytest.raises(cp.BuildError, match="each, line 2"):
            wrong(cp.zeros((8, 64)), axis=axis)


def test_the_compiler_complains_of_what_the_user_wrote(device):
    each = "y0 = x0;\ny0 = sqrt(x0, group_y0);"
    wrong = cp.Grouped(
        "y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", each=each
    )  # as one kernel and as several, whose operands have other numbers
    for axis in (0, 1):
        with pytest.raises(cp.BuildError) as caught:
            wrong(cp.full((64, 9), 1.0), axis=axis)
        assert "each, line 2:\n    y0 = sqrt(x0, group_y0);\n         ^\n" in str(caught.value)


# Shares of exp(x0 · w0), weighted by x1, and how far below the greatest of its group each x0 is.
WEIGHED = {
    "expr": "",
    "init": "reduce_y0 = -INFINITY; reduce_y1 = 0; reduce_y2 = INFINITY;",
    "step": """
        typeof_reduce_y0 top = reduce_y0 > x0 ? reduce_y0 : x0;
        reduce_y1 = (reduce_y1 > 0 ? reduce_y1 * exp((reduce_y0 - top) * w0) : 0)
            + x1 * exp((x0 - top) * w0);
        reduce_y0 = top;
        reduce_y2 = min(reduce_y2, x0);
    """,
    "combine": """
        typeof_reduce_y0 top = reduce_y0 > other_y0 ? reduce_y0 : other_y0;
        reduce_y1 = (reduce_y1 > 0 ? reduce_y1 * exp((reduce_y0 - top) * w0) : 0)
            + (other_y1 > 0 ? other_y1 * exp((other_y0 - top) * w0) : 0);
        reduce_y0 = top;
        reduce_y2 = min(reduce_y2, other_y2);
    """,
    "finalize": """
        group_y0 = reduce_y0; group_y1 = 1 / reduce_y1; group_y2 = reduce_y0 - reduce_y2;
    """,
    "each": "y0 = x1 * exp((x0 - group_y0) * w0) * group_y1; y1 = (group_y0 - x0) / group_y2;",
}
NEAR = {
    "first": "reduce_y0 = reduce_y0 > x0 ? reduce_y0 : x0; reduce_y2 = min(reduce_y2, x0);",
    "begin": """
        typeof_x0 below = x0 - reduce_y0;
        y0 = x1 * exp(below * w0); y1 = -below;
    """,
    "step": "reduce_y1 += y0;",
    "finish": "y0 *= group_y1; y1 /= group_y2;",
}
weighed = cp.Grouped(**WEIGHED, near=NEAR)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((40, 97), -1),  # vectors, the last of which reaches back
        ((20, 300), -1),  # some at a time
        ((101, 9), -1),  # a lane a group, and some that are left
        ((4, 8, 5, 33), (0, 2, 3)),  # runs of two axes
        ((20, 8200), -1),  # more than is kept
        ((40, 67), 0),  # pass by pass
    ],
    ids=str,
)
def test_what_is_begun_near_is_what_is_computed_of_the_whole(shape, axis, dtype):
    a = np.random.default_rng(0).normal(0, 4, shape).astype(dtype)
    weight = (np.arange(shape[-1]) % 5 + 1).astype(dtype)
    axes = axis if isinstance(axis, tuple) else (axis,)
    wide = np.float64(a)
    top, low = (f(wide, axis=axes, keepdims=True) for f in (np.max, np.min))
    shares = np.exp((wide - top) * 0.5) * weight
    total = shares.sum(axis=axes, keepdims=True)
    x, w = cp.asarray(a), cp.asarray(weight)
    share, depth, kept = weighed(x, w, 0.5, axis=axis, keep=[False, True])
    close = 3e-6 if dtype == np.float32 else 6e-4  # of one rounding to float16
    np.testing.assert_allclose(share.get(), shares / total, rtol=close, atol=1e-7)
    np.testing.assert_allclose(depth.get(), (top - wide) / (top - low), rtol=close, atol=1e-7)
    np.testing.assert_allclose(kept.get(), 1 / total, rtol=3e-6)
    weighed(x, w, 0.5, axis=axis, out=(x, cp.empty(shape, dtype)))
    np.testing.assert_array_equal(x.get(), share.get())


def test_nothing_need_be_known_ahead_and_results_may_read_elements_again():
    strings = {
        "expr": "y0 = exp(x0);",
        "init": "reduce_y0 = 0;",
        "step": "reduce_y0 += y0;",
        "each": "y0 = exp(x0) / group_y0 + x0;",
    }
    near = {
        "begin": "y0 = exp(x0);",
        "step": "reduce_y0 += y0;",
        "finish": "y0 = y0 / group_y0 + x0;",
    }
    a = np.random.default_rng(1).standard_normal((50, 90), np.float32)
    e = np.exp(np.float64(a))
    x = cp.asarray(a)
    op = cp.Grouped(**strings, near=near)
    np.testing.assert_allclose(
        op(x, out=x).get(), e / e.sum(1, keepdims=True) + a, rtol=2e-6, atol=1e-7
    )
    # Its gradient is that of the other strings.
    assert str(op.gradient()) == str(cp.Grouped(**strings).gradient())


def test_what_vectors_do_not_compute_is_left_out(device):
    if not device.traits.function_bytes:
        pytest.skip("no vectors of functions")
    near = NEAR | {"finish": "if (group_y1 > 0) y0 *= group_y1; y1 /= group_y2;"}
    x = cp.asarray(np.ones((40, 97), np.float32))
    plain = cp.Grouped(**WEIGHED, near=near).source(x, x, 1.0)
    assert plain == cp.Grouped(**WEIGHED).source(x, x, 1.0) != weighed.source(x, x, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": "reduce_y0 = max(reduce_y0, x0);"}, "updates reduce_y2"),
        ({"first": "reduce_y0 = max(reduce_y0, x0 + reduce_y2);"}, "reduce_y2 is not one that"),
        ({"begin": "y0 = exp(x0 - reduce_y1); y1 = 0;"}, "near_first does not find reduce_y1"),
        ({"begin": "y0 = exp(x0);"}, "y1 is never begun"),
        ({"begin": "y0 = x2; y1 = 0;"}, "x2 is read by none of expr, step and each"),
        ({"begin": "y0 = x0 * w1; y1 = 0;"}, "w1 is read by none"),
        ({"begin": "y0 = x0; y1 = 0; y2 = 0;"}, "each never assigns y2"),
        ({"step": "reduce_y1 += y0 * reduce_y0;"}, "reduce_y0 is none that near_first leaves"),
        ({"step": "reduce_y1 = reduce_y1 * 0.5f + y0;"}, "cannot derive how"),
        ({"step": "reduce_y1 += group_y0;"}, "group_y0"),
        ({"finish": "y0 *= group_y3;"}, "a group has 3 values"),
        ({"finish": "y0 *= reduce_y1;"}, "reduce_y1"),
        ({"finish": 3}, "near_finish: expected a string"),
        ({"last": ""}, r"near=\['begin', 'finish', 'first', 'last', 'step'\]: expected"),
    ],
    ids=str,
)
def test_what_near_must_be(change, message):
    with pytest.raises(cp.DefinitionError, match=message):
        cp.Grouped(**WEIGHED, near=NEAR | change)


@pytest.mark.parametrize("near", ["y0 = x0;", {}, {"begin": "y0 = x0;"}, 3], ids=str)
def test_near_names_its_strings(near):
    with pytest.raises(cp.DefinitionError, match=r"near=.*: expected a dict of the strings begin"):
        cp.Grouped(**SHARES, near=near)
