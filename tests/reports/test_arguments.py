"""Arguments of NumPy's functions, and of functions that are differentiated, which raised."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops

HOST = np.float32([[1, 5, 2], [4, 3, 9.5], [2, 2.5, 7]])
MASK = HOST > 2


@pytest.mark.parametrize("axis", [None, 0, 1], ids=str)
@pytest.mark.parametrize("name", "sum prod mean max min any all".split())
def test_reductions_take_a_mask(device, name, axis):
    more = {"initial": 3} if name in ("max", "min") else {}
    given = cp.asarray(HOST), cp.asarray(MASK)
    found = getattr(cp, name)(given[0], axis=axis, where=given[1], **more)
    expected = getattr(np, name)(HOST, axis=axis, where=MASK, **more)
    equal(found, expected, expected.dtype)


@pytest.mark.parametrize("name", "sum prod max min".split())
def test_reductions_take_a_first_number(device, name):
    x, function = cp.asarray(HOST.astype(np.int32)), getattr(np, name)
    equal(x.max(initial=99), np.int32(99), np.int32)
    found = getattr(cp, name)(x, axis=1, initial=3, keepdims=True)
    expected = function(HOST.astype(np.int32), axis=1, initial=3, keepdims=True)
    equal(found, expected, expected.dtype)


@pytest.mark.refusal
def test_a_mask_that_cannot_be_taken_is_refused(device):
    x = cp.asarray(HOST)
    with pytest.raises(cp.DefinitionError, match="where= needs initial="):
        cp.max(x, where=x > 2)
    with pytest.raises(cp.ShapeError, match=r"where is bool of shape \(2, 3, 3\), expected bool"):
        cp.sum(x, where=cp.zeros((2, 3, 3), bool))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_distinct_lines_along_an_axis(device, axis):
    host = np.random.default_rng(0).integers(0, 3, (9, 2, 2)).astype(np.float32)
    found = cp.unique(cp.asarray(host), axis=axis, return_inverse=True, return_counts=True)
    expected = np.unique(host, axis=axis, return_inverse=True, return_counts=True)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.get().ravel(), other.ravel())
    assert found[0].shape == expected[0].shape


@pytest.mark.parametrize("width", [1, 8, (2, 0), (0, 9)], ids=str)
@pytest.mark.parametrize("count", [1, 3, 7])
def test_a_symmetric_border_and_its_gradient(device, count, width):
    host = np.arange(count, dtype=np.float32)
    found = cp.pad(cp.asarray(host), width, mode="symmetric")
    equal(found, np.pad(host, width, mode="symmetric"), np.float32)
    rows = np.stack([np.pad(row, width, mode="symmetric") for row in np.eye(count)])
    weight = np.arange(rows.shape[1], dtype=np.float32)
    loss = lambda x: (cp.pad(x, width, mode="symmetric") * cp.asarray(weight)).sum()  # noqa: E731
    _, slopes = cp.value_and_grad(loss, 0)(cp.asarray(host))
    equal(slopes, rows @ weight, np.float32)


def test_the_median_of_integers_is_a_float(device):
    equal(cp.median(cp.asarray(np.int32([3, 1, 2, 4]))), np.float64(2.5), np.float64)


def test_an_exclusive_scan_of_segments_starts_with_the_least_number(device):
    scan = cp.Scan("y0 = x0;", init="scan_y0 = lowest_scan_y0;", step="scan_y0 = max(scan_y0, y0);")
    x, lines = cp.asarray(np.float32([3, 1, 4, 1, 5])), cp.asarray(np.int32([0, 0, 0, 1, 1]))
    expected = np.float32([-np.inf, 3, 3, -np.inf, 1])
    equal(scan(x, segments=lines, exclusive=True), expected, np.float32)


@pytest.mark.refusal
def test_heads_that_are_shared_need_a_word(device):
    q, k = cp.zeros((1, 4, 3, 8)), cp.zeros((1, 2, 3, 8))
    with pytest.raises(cp.ShapeError, match="enable_gqa=True lets heads of query share one"):
        ops.scaled_dot_product_attention(q, k, k)


def test_functions_of_any_number_of_arguments_have_gradients(device):
    x, y = cp.asarray(HOST), cp.asarray(HOST + 1)
    _, (first, last) = cp.value_and_grad(lambda a, *rest: (a * rest[1]).sum(), (0, 2))(x, x, y)
    np.testing.assert_array_equal(first.get(), HOST + 1)
    np.testing.assert_array_equal(last.get(), HOST)
    _, found = cp.value_and_grad(lambda a, **more: (a * more["b"]).sum(), "b")(x, b=y)
    np.testing.assert_array_equal(found.get(), HOST)
    _, found = cp.value_and_grad(lambda *all: (all[0] * all[1]).sum(), "all")(x, y)
    assert [g.shape for g in found] == [(3, 3), (3, 3)]


@pytest.mark.refusal
def test_gradients_of_nothing_are_refused(device):
    with pytest.raises(cp.DefinitionError, match=r"wrt=\(\): expected names or positions"):
        cp.value_and_grad(lambda x: x.sum(), ())
    one_more = cp.value_and_grad(lambda *all: all[0].sum(), (0, 3))
    with pytest.raises(cp.DefinitionError, match=r"wrt= names all\[3\], of which the call has no"):
        one_more(cp.asarray(HOST))


@pytest.mark.parametrize("columns", [False, True])
def test_sums_over_pairs_have_gradients(device, columns):
    random = np.random.default_rng(3)
    hosts = [random.normal(size=s) for s in ((5, 3), (4, 3), (4, 2) if columns else (4,))]
    weight = random.normal(size=(5, 2) if columns else 5)

    def loss(given):
        y = ops.kernel_sum(*given, "exp(-d2 * w0)", 0.3)
        return (y * cp.asarray(weight)).sum()

    _, found = cp.value_and_grad(loss, 0)([*map(cp.asarray, hosts)])
    expected = ops.kernel_sum_backward(
        cp.asarray(weight), *map(cp.asarray, hosts), "exp(-d2 * w0)", 0.3
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.get(), other.get(), rtol=1e-10)
