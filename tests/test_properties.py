"""Properties that hold for any shape, any view and any axes: drawn at random, the same every run.

Few operators and dtypes, so that drawn calls share their kernels.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import BFLOAT16, equal, numbers, same_bits, wide

import clprim as cp

AXPB = cp.Pointwise("y0 = 2 * x0 + x1;")
SUM = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
DOT = cp.Reduction("y0 = x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
ARGMAX = cp.Reduction(
    "y0 = x0;",
    init="reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
    step="if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
)


def drawn(**strategies):
    """Runs a check on drawn values, the same ones every time; fewer on all but the first device."""

    def decorate(check):
        def test(device, some):
            @settings(max_examples=len(some(range(24), 4)), derandomize=True, deadline=None)
            @given(**strategies)
            def run(**values):
                check(**values)

            run()

        test.__doc__ = check.__doc__
        return test

    return decorate


dtypes = st.sampled_from([np.dtype(np.float32), np.dtype(np.float32), np.dtype(np.int16), BFLOAT16])
sizes = st.sampled_from([1, 2, 3, 8, 17])


@st.composite
def shapes(draw, most=4):
    return tuple(draw(st.lists(sizes, max_size=most).filter(lambda s: math.prod(s) <= 20_000)))


@st.composite
def views(draw, shape):
    """A function that gives a view of an array of this shape, on the host and on the device."""
    index = []
    for size in shape:
        start = draw(st.sampled_from([0, 0, 0, 1]))
        step = draw(st.sampled_from([1, 1, 1, 2, -1, -2]))
        part = slice(start, None, step) if step > 0 else slice(None, None, step)
        index.append(part if size > 1 else slice(None))
    order = tuple(draw(st.permutations(range(len(shape)))))
    if draw(st.booleans()):
        order = tuple(range(len(shape)))
    return lambda array: array[(*index, ...)].transpose(order)


@st.composite
def arrays(draw):
    """A base array on the host, and a view of it."""
    shape = draw(shapes())
    base = numbers(shape, draw(dtypes), draw(st.integers(0, 3)))
    return base, draw(views(shape))


@st.composite
def reduced(draw):
    base, view = draw(arrays())
    axes = tuple(d for d in range(base.ndim) if draw(st.booleans()))
    return base, view, axes


@drawn(made=arrays())
def test_a_view_is_downloaded_as_numpys(made):
    base, view = made
    equal(view(cp.asarray(base)), view(base), base.dtype)


@drawn(made=arrays())
def test_pointwise_of_a_view_is_that_of_its_copy(made):
    base, view = made
    a, x = view(base), view(cp.asarray(base))
    y = cp.asarray(a.copy())
    strided, dense = AXPB(x, x), AXPB(y, y)
    assert same_bits(strided, dense)
    equal(strided, 3 * wide(a))
    assert same_bits(AXPB(x, y), dense)


@drawn(made=arrays(), data=st.data())
def test_pointwise_broadcasts_as_numpy(made, data):
    base, view = made
    a, x = view(base), view(cp.asarray(base))
    keep = [data.draw(st.booleans()) for _ in a.shape]
    small = tuple(n if k else 1 for n, k in zip(a.shape, keep, strict=True))
    small = small[data.draw(st.integers(0, len(small))) :]
    b = numbers(small, base.dtype, 7)
    equal(AXPB(x, cp.asarray(b)), 2 * wide(a) + wide(b))
    equal(AXPB(cp.asarray(b), x), 2 * wide(b) + wide(a))


@drawn(made=arrays())
def test_a_view_is_written_and_nothing_beside(made):
    base, view = made
    host = np.full_like(base, 77)
    whole = cp.asarray(host)
    target = view(whole)
    a = numbers(target.shape, base.dtype, 5)
    AXPB(cp.asarray(a), cp.asarray(a), out=target)
    view(host)[...] = (3 * wide(a)).astype(base.dtype)
    equal(whole, host)


@drawn(made=arrays())
def test_out_may_be_any_view_that_is_an_input(made):
    base, view = made
    x = cp.asarray(base)
    expected = base.copy()
    AXPB(view(x), view(x), out=view(x))
    view(expected)[...] = (3 * wide(view(base))).astype(base.dtype)
    equal(x, expected)


@drawn(made=reduced())
def test_a_sum_of_a_view_is_that_of_its_copy(made):
    base, view, axes = made
    a, x = view(base), view(cp.asarray(base))
    expected = wide(a).sum(axes)
    result = SUM(x, axis=axes)
    equal(result, expected)
    equal(SUM(cp.asarray(a.copy()), axis=axes), expected)
    assert same_bits(SUM(x, axis=axes), result)
    kept = SUM(x, axis=axes, keepdims=True)
    equal(kept, wide(a).sum(axes, keepdims=True))


@drawn(made=reduced())
def test_a_sum_is_the_sum_of_its_parts(made):
    base, view, axes = made
    a, x = view(base), view(cp.asarray(base))
    if not axes or a.shape[axes[0]] < 2:
        return
    cut = a.shape[axes[0]] // 2
    before = (slice(None),) * axes[0]
    out = cp.full(wide(a).sum(axes).shape, 0, np.float64)
    SUM(x[(*before, slice(None, cut))], axis=axes, out=out)
    SUM(x[(*before, slice(cut, None))], axis=axes, out=out, beta=1)
    equal(out, wide(a).sum(axes))


@drawn(made=reduced())
def test_one_axis_after_another_is_all_at_once(made):
    base, view, axes = made
    x = view(cp.asarray(base)).astype(np.float32)
    step = x
    for axis in axes:
        step = SUM(step, axis=axis, keepdims=True)
    equal(SUM(x, axis=axes, keepdims=True), step.get())


@drawn(made=reduced(), data=st.data())
def test_a_product_of_broadcast_inputs(made, data):
    base, view, axes = made
    a, x = view(base), view(cp.asarray(base))
    keep = [data.draw(st.booleans()) for _ in a.shape]
    b = numbers([n if k else 1 for n, k in zip(a.shape, keep, strict=True)], base.dtype, 9)
    equal(DOT(x, cp.asarray(b), axis=axes), (wide(a) * wide(b)).sum(axes))


@drawn(made=reduced())
def test_the_first_of_equal_values_wins_in_any_memory(made):
    base, view, axes = made
    a, x = view(base), view(cp.asarray(base))
    if not a.size:
        return
    value, place = ARGMAX(x, axis=axes)
    kept = [d for d in range(a.ndim) if d not in axes]
    flat = wide(a).transpose(*kept, *axes).reshape([a.shape[d] for d in kept] + [-1])
    equal(value, flat.max(-1))
    equal(place, flat.argmax(-1))


@drawn(base_and_view=arrays(), alpha=st.integers(-3, 3), beta=st.integers(-3, 3))
def test_alpha_and_beta_are_linear(base_and_view, alpha, beta):
    base, view = base_and_view
    a, x = view(base).astype(np.float32), view(cp.asarray(base)).astype(np.float32)
    axes = tuple(range(0, a.ndim, 2))
    old = numbers(a.sum(axes).shape, seed=3)
    out = cp.asarray(old)
    SUM(x, axis=axes, out=out, alpha=alpha, beta=beta)
    equal(out, alpha * a.astype(np.float64).sum(axes) + beta * old)


@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5])
def test_collapsed_is_uncollapsed(device, dims):
    # One array of 720 elements in many shapes: the same kernel or another, the same bits.
    a = np.random.default_rng(0).standard_normal(720, np.float32)
    shapes = {1: (720,), 2: (24, 30), 3: (6, 8, 15), 4: (6, 4, 5, 6), 5: (2, 3, 4, 5, 6)}
    x = cp.asarray(a.reshape(shapes[dims]))
    assert x.reshape(-1).get().tobytes() == a.tobytes()
    assert same_bits(SUM(x), SUM(cp.asarray(a)))
    assert same_bits(AXPB(x, x).reshape(-1), AXPB(cp.asarray(a), cp.asarray(a)))
    equal(SUM(x.T.T, axis=0), SUM(x, axis=0).get())
