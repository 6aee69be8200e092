"""Reductions over the same data are one kernel, which adds up in the same order."""

import numpy as np
import pytest
from planning import GPU
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")

SUMS = cp.Reduction(
    "y0 = x0; y1 = x0 * x0;",
    init="reduce_y0 = 0; reduce_y1 = 0;",
    step="reduce_y0 += y0; reduce_y1 += y1;",
    name="sums",
)
WEIGHTED = cp.Reduction(
    "y0 = x0 * x1 * w0;",
    init="reduce_y0 = 0;",
    step="reduce_y0 += y0;",
    finalize="y0 = reduce_y0 / count;",
    name="weighted",
)


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def check(function, given, *kernels):
    """Compares a compiled function with the function, bit for bit, and says what it launches."""
    compiled = cp.jit(function)
    graph = compiled.graph(*given)
    assert [node.primitive.definition.name for node in graph.nodes] == [*kernels], graph
    for found, wanted in zip(compiled(*given), function(*given), strict=True):
        assert (found.shape, found.strides, found.dtype) == (
            wanted.shape,
            wanted.strides,
            wanted.dtype,
        )
        equal(found, wanted.get())


@pytest.mark.parametrize("axis", [0, 1, None])
def test_sums_and_extremes(axis):
    def function(x):
        return x.sum(axis=axis), x.max(axis=axis), x.min(axis=axis, keepdims=True)

    check(function, arrays((40, 2000)), "sum_amax_amin")


def test_results_of_users_and_numbers_of_both():
    def function(x, y):
        return (
            *SUMS(x, axis=1),
            WEIGHTED(x, y, 2.0, axis=1),
            WEIGHTED(y, x, 0.5, axis=1, keepdims=True),
        )

    check(function, arrays((7, 300), (7, 300)), "sums_weighted")


def test_different_expressions_of_the_same_array():
    def function(x, y):
        return x.sum(axis=0), (x * y).sum(axis=0), (x * x).sum(axis=0)

    check(function, arrays((30, 63), (30, 63)), "sum")  # whose order no width of registers changes


def test_what_both_read_is_computed_once_in_the_kernel():
    def function(x, y):
        z = ops.relu(x) * y
        return z.max(axis=1), z.sum(axis=1)

    check(function, arrays((7, 300), (7, 300)), "amax_sum")


def test_a_result_that_is_read_between_lets_the_second_run_first():
    def function(x):
        greatest = x.max(axis=1, keepdims=True)
        shifted = ops.softmax(x - greatest, 0)
        return shifted, x.sum(axis=1)

    check(function, arrays((6, 50)), "amax_sum", "softmax")


def test_what_depends_on_the_other_or_on_a_write_stays_apart():
    def function(x, y):
        x, a = x.copy(), x.max(axis=1, keepdims=True)
        b = (x - a).sum(axis=1)
        x[...] = y
        return a, b, x.min(axis=1)

    x, y = arrays((6, 50), (6, 50))
    for found, wanted in zip(cp.jit(function)(x, y), function(x, y), strict=True):
        equal(found, wanted.get())


@pytest.mark.parametrize("traits", [None, GPU], ids=["own", "gpu"])
def test_other_axes_other_types_and_scaled_results_stay_apart(device, monkeypatch, traits):
    def function(x, y):
        kept = ops.softmax(x[:, 0], 0)
        SUMS(x, axis=1, out=(kept, cp.empty(kept.shape, np.float32)), alpha=2, beta=(1, 0))
        return x.sum(axis=1), x.sum(axis=0), ops.var(x, 1), ops.argmax(x, 1), kept

    given = arrays((6, 50), (6, 50))
    with monkeypatch.context() as planned:
        if traits is not None:
            planned.setattr(device, "traits", traits)
        names = [n.primitive.definition.name for n in cp.jit(function).graph(*given).nodes]
    # Moments of a row are joined with its sum where a kernel of both is had, as on GPUs.
    apart = ["softmax", "sums", "sum", "sum", "moments", "argmax"]
    assert names in (apart, ["softmax", "sums", "sum", "sum_moments", "argmax"])
    if traits is None:
        for found, wanted in zip(cp.jit(function)(*given), function(*given), strict=True):
            equal(found, wanted.get())
    else:
        assert "sum_moments" in names


def test_integers_and_half_precision():
    def function(x):
        return x.sum(axis=1), x.max(axis=1), ops.mean(x.astype(np.float32), 1)

    for dtype in (np.int32, np.float16):
        x = cp.asarray(numbers((5, 200)).astype(dtype))
        for found, wanted in zip(cp.jit(function)(x), function(x), strict=True):
            assert found.dtype == wanted.dtype
            equal(found, wanted.get())
