"""Order: every way to sort beside PyTorch, what follows from it, and refusals."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

DTYPES = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_]


def data(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=shape) * 50).astype(dtype)
    if x.dtype.kind == "f":
        for value in (np.nan, -0.0, 0.0, np.inf, -np.inf):
            x[rng.random(shape) < 0.04] = value
    return x


def equal(found, reference):
    np.testing.assert_array_equal(found.get(), reference.numpy())


@pytest.mark.parametrize(
    "shape, dim", [((11,), 0), ((5, 100, 3), 1), ((3, 1500), -1), ((70_000,), 0)]
)
def test_every_way_is_stable(traits, shape, dim):
    x = data(shape, np.float32)
    for descending in (False, True):
        values, indices = ops.sort(cp.asarray(x), dim, descending)
        expected = torch.sort(torch.tensor(x), dim=dim, descending=descending, stable=True)
        equal(indices, expected.indices)
        equal(values, expected.values)


@pytest.mark.parametrize(
    "shape, k, dim",
    [
        ((3, 1000), 5, 1),  # kept in order, a line each
        ((20_000,), 60, 0),  # in pieces
        ((2000, 3), 300, 0),  # kept out of order, then sorted
        ((3000,), 200, 0),  # in pieces
    ],
)
def test_the_first_few(device, shape, k, dim):
    rng = np.random.default_rng(1)
    x = rng.integers(-300, 300, shape).astype(np.float32)  # many are equal
    for value in (np.nan, -0.0, np.inf, -np.inf):
        x[rng.random(shape) < 0.01] = value
    for given in (x, np.sort(x, axis=dim), -np.sort(-x, axis=dim)):
        for largest in (True, False):
            values, indices = ops.topk(cp.asarray(given), k, dim, largest)
            tensor = torch.tensor(given)
            expected = torch.sort(tensor, dim=dim, descending=largest, stable=True)
            equal(indices, expected.indices.narrow(dim, 0, k))
            equal(values, expected.values.narrow(dim, 0, k))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float16])
def test_the_first_few_of_other_dtypes(device, dtype):
    x = data((2, 800), dtype)
    for k in (7, 150):
        values, indices = ops.topk(cp.asarray(x), k, 1)
        expected = torch.sort(torch.tensor(x), dim=1, descending=True, stable=True)
        equal(indices, expected.indices[:, :k])
        equal(values, expected.values[:, :k])


def test_digits_that_are_the_same_move_nothing(device):
    # Chunks of one digit go to their place as a whole: of all, of some, and of none.
    steps = np.arange(70_000) // 20_000 * 256 % 769
    for x in (data((70_000,), np.int64), np.full(70_000, -3), steps, steps[::-1].copy()):
        values, indices = ops.sort(cp.asarray(x), 0)
        order = np.argsort(x, kind="stable")
        np.testing.assert_array_equal(indices.get(), order)
        np.testing.assert_array_equal(values.get(), x[order])


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(device, dtype):
    if dtype == np.float64 and not device.traits.fp64:
        pytest.skip("no float64 here")
    x = data((4, 300), dtype)
    values, indices = ops.sort(cp.asarray(x), axis=1, descending=True)
    expected = torch.sort(torch.tensor(x), dim=1, descending=True, stable=True)
    equal(indices, expected.indices)
    equal(values, expected.values)
    assert values.dtype == dtype and indices.dtype == np.int64


def test_unsigned_and_bfloat16(device):
    for dtype in (np.uint16, np.uint64, BFLOAT16):
        x = data((500,), np.float32)
        x = np.where(np.isfinite(x), np.abs(x), 3).astype(dtype)
        found = ops.argsort(cp.asarray(x), 0)
        expected = np.argsort(x.astype(np.float64), kind="stable")
        np.testing.assert_array_equal(found.get(), expected)


def test_views_single_and_no_elements(device):
    x = data((40, 30), np.float32)
    view = cp.asarray(x)[::2, ::-1].T
    equal(
        ops.sort(view, 0)[1], torch.sort(torch.tensor(x[::2, ::-1].T.copy()), dim=0, stable=True)[1]
    )
    value, index = ops.sort(cp.asarray(np.float32(3)))
    assert value.item() == 3 and index.item() == 0 and index.shape == ()
    assert ops.sort(cp.zeros((0, 3)), 0)[0].shape == (0, 3)
    pictures = cp.asarray(data((2, 3, 4, 5), np.float32), memory_format="channels_last")
    assert ops.sort(pictures, 1)[0].strides == pictures.strides


@pytest.mark.parametrize("largest", [True, False])
def test_topk(device, largest):
    x = np.random.default_rng(1).permutation(3000).reshape(3, 1000).astype(np.float32)
    for k in (0, 1, 7):
        found = ops.topk(cp.asarray(x), k, 1, largest)
        expected = torch.topk(torch.tensor(x), k, 1, largest)
        equal(found[0], expected.values)
        equal(found[1], expected.indices)


def test_gradient_of_what_was_chosen(device):
    x = np.random.default_rng(1).permutation(400).reshape(20, 20).astype(np.float32)
    for k in (20, 6):
        t = torch.tensor(x, requires_grad=True)
        values, _ = torch.topk(t, k, 0)
        g = np.random.default_rng(2).normal(size=values.shape).astype(np.float32)
        values.backward(torch.tensor(g))
        _, indices = ops.topk(cp.asarray(x), k, 0)
        equal(ops.sort_backward(cp.asarray(g), 0, indices, x.shape), t.grad)


@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("name", ["median", "nanmedian", "mode", "sort", "topk", "kthvalue"])
def test_gradients_of_a_number_are_those_of_its_line(device, name, keepdim):
    args = {"sort": (0,), "topk": (1, 0), "kthvalue": (1, 0, keepdim)}.get(name, (0, keepdim))
    chosen = cp.value_and_grad(lambda x: getattr(ops, name)(x, *args)[0].sum() * 3, wrt=0)
    value, gradient = chosen(cp.asarray(np.float32(2)))
    assert (value.item(), gradient.item(), gradient.shape) == (6, 3, ())


@pytest.mark.parametrize("keepdim", [True, False])
def test_kthvalue_and_median(device, keepdim):
    x = np.random.default_rng(1).permutation(3000).reshape(5, 6, 100).astype(np.float32)
    t, d = torch.tensor(x), cp.asarray(x)
    for dim in (1, -1):
        for found, expected in [
            (ops.kthvalue(d, 3, dim, keepdim), torch.kthvalue(t, 3, dim, keepdim)),
            (ops.median(d, dim, keepdim), torch.median(t, dim, keepdim)),
        ]:
            equal(found[0], expected.values)
            equal(found[1], expected.indices)
    equal(ops.median(d), torch.median(t))
    x[1, 2, 3] = np.nan
    t, d = torch.tensor(x), cp.asarray(x)
    equal(ops.median(d), torch.median(t))
    values, indices = torch.median(t, -1, keepdim)
    found = ops.median(d, -1, keepdim)
    equal(found[0], values)
    equal(found[1], indices)


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantile(device, how):
    x = np.random.default_rng(3).normal(size=(6, 41))
    x[2, 5] = np.nan
    t, d = torch.tensor(x), cp.asarray(x.astype(np.float32))
    for q in (0.3, [0, 0.25, 0.5125, 1]):
        asked = torch.tensor(q, dtype=torch.float64)
        for dim, keepdim in [(1, False), (0, True), (None, False)]:
            found = ops.quantile(d, q, dim, keepdim, interpolation=how)
            expected = torch.quantile(t, asked, dim, keepdim, interpolation=how)
            assert found.shape == tuple(expected.shape)
            np.testing.assert_allclose(found.get(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_refusals(device):
    x = cp.zeros((3, 4))
    for message, call in [
        ("out of bounds", lambda: ops.sort(x, 2)),
        ("give one", lambda: ops.sort(x, 1, axis=1)),
        ("expected a device array", lambda: ops.sort(np.zeros(3))),
        ("k=5 of 4", lambda: ops.topk(x, 5)),
        ("k=0", lambda: ops.kthvalue(x, 0)),
        ("no elements", lambda: ops.median(cp.zeros((0,)))),
        ("expected a number in", lambda: ops.quantile(x, 1.5)),
        ("interpolation", lambda: ops.quantile(x, 0.5, interpolation="cubic")),
        ("floating", lambda: ops.quantile(cp.zeros((3,), np.int32), 0.5)),
        ("do not fit", lambda: ops.sort_backward(x, 0, cp.zeros((3, 4), np.int64), (3, 5))),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
