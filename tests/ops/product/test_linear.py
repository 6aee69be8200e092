"""`ops.linear` and its gradients against NumPy, adjoint identities, and PyTorch."""

import numpy as np
import pytest
from conv_reference import check_close
from odd_memory import PLACES
from support import BFLOAT16, Guard, equal, numbers, same_bits, wide

import clprim as cp
from clprim import ops
from clprim.errors import DTypeError, ShapeError

REALS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]
SHAPES = [((5, 7), (3, 7)), ((7,), (3, 7)), ((2, 3, 40), (35, 40)), ((64, 300), (10, 300))]


def backward(grad, x, w):
    """The three gradients, from their definition."""
    rows, columns = wide(grad).reshape(-1, w.shape[0]), wide(x).reshape(-1, w.shape[1])
    return wide(grad) @ wide(w), rows.T @ columns, rows.sum(0)


@pytest.mark.everywhere
@pytest.mark.parametrize(("x_shape", "w_shape"), SHAPES, ids=str)
def test_linear(device, x_shape, w_shape):
    x, w, bias = numbers(x_shape), numbers(w_shape, seed=1), numbers(w_shape[:1], seed=2)
    a, b, c = cp.asarray(x), cp.asarray(w), cp.asarray(bias)
    equal(ops.linear(a, b), wide(x) @ wide(w).T, np.float32)
    expected = wide(x) @ wide(w).T + bias
    equal(ops.linear(a, b, c), expected)
    found = ops.linear(a, b, c, epilogue="y0 = max(y0 * x0, 0);", epilogue_args=(cp.asarray(bias),))
    equal(found, np.maximum(expected * bias, 0))
    out = Guard(expected.shape)
    assert ops.linear(a, b, c, out=out.array, beta=0.5) is out.array
    out.check(expected + 38.5)


def test_packed_weights_give_the_same_bits(device):
    draw = np.random.default_rng(0).standard_normal
    x, w = draw((65, 300)).astype(np.float32), draw((37, 300)).astype(np.float32)
    a, b = cp.asarray(x), cp.asarray(w)
    packed = ops.pack_weight(b)
    plain = ops.linear(a, b)
    assert same_bits(ops.linear(a, packed), plain)
    assert same_bits(ops.linear(a, packed), plain)
    check_close(plain, wide(x) @ wide(w).T, np.abs(wide(x)) @ np.abs(wide(w)).T, 300, np.float32)
    for rows in (1, 3, 64):  # fewer elements than the weights as well
        few = ops.linear(a[:rows], packed)
        exact, size = wide(x[:rows]) @ wide(w).T, np.abs(wide(x[:rows])) @ np.abs(wide(w)).T
        check_close(few, exact, size, 300, np.float32)
        # A weight as it is may be summed up along the depth, which rounds otherwise.
        check_close(ops.linear(a[:rows], b), exact, size, 300, np.float32)


@pytest.mark.everywhere
@pytest.mark.parametrize(("x_shape", "w_shape"), SHAPES, ids=str)
def test_gradients(device, x_shape, w_shape):
    x, w = numbers(x_shape), numbers(w_shape, seed=1)
    grad = numbers((*x_shape[:-1], w_shape[0]), seed=2)
    found = ops.linear_backward(cp.asarray(grad), cp.asarray(x), cp.asarray(w))
    expected = backward(grad, x, w)
    for one, exact in zip(found, expected, strict=True):
        equal(one, exact, np.float32)
    y = ops.linear(cp.asarray(x), cp.asarray(w)).get()
    product = (wide(y) * wide(grad)).sum()
    assert (wide(x) * wide(found[0].get())).sum() == product
    assert (wide(w) * wide(found[1].get())).sum() == product


def test_each_gradient_can_be_asked_for_alone(device):
    x, w, grad = numbers((9, 7)), numbers((5, 7), seed=1), numbers((9, 5), seed=2)
    arrays = [cp.asarray(h) for h in (grad, x, w)]
    expected = backward(grad, x, w)
    for n in range(3):
        mask = tuple(m == n for m in range(3))
        found = ops.linear_backward(*arrays, output_mask=mask)
        assert [one is not None for one in found] == list(mask)
        equal(found[n], expected[n])


@pytest.mark.parametrize("beta", [0, 1, 0.5])
def test_gradients_into_memory_that_is_there(device, beta):
    x, w, grad = numbers((2, 9, 7)), numbers((5, 7), seed=1), numbers((2, 9, 5), seed=2)
    fill = np.nan if beta == 0 else 6
    out = [cp.full(shape, fill, np.float32) for shape in ((2, 9, 7), (5, 7), (5,))]
    arrays = [cp.asarray(h) for h in (grad, x, w)]
    found = ops.linear_backward(*arrays, out=out, beta=beta)
    for one, place, exact in zip(found, out, backward(grad, x, w), strict=True):
        assert one is place
        equal(one, exact + 6 * beta)


@pytest.mark.parametrize("place", PLACES)
def test_gradients_of_any_strides(device, place):
    x, a = PLACES[place](numbers((2, 9, 7)))
    w, b = PLACES[place](numbers((5, 7), seed=1))
    grad, g = PLACES[place](numbers((2, 9, 5), seed=2))
    for one, exact in zip(ops.linear_backward(g, a, b), backward(grad, x, w), strict=True):
        equal(one, exact)


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_dtypes(device, dtype):
    draw = np.random.default_rng(0).standard_normal
    x, w, grad = (draw(s).astype(dtype) for s in ((30, 70), (35, 70), (30, 35)))
    sizes = backward(*(np.abs(wide(h)) for h in (grad, x, w)))
    found = ops.linear_backward(*(cp.asarray(h) for h in (grad, x, w)))
    again = ops.linear_backward(*(cp.asarray(h) for h in (grad, x, w)))
    for one, other, exact, size, terms in zip(
        found, again, backward(grad, x, w), sizes, (35, 30, 30), strict=True
    ):
        check_close(one, exact, size, terms, dtype)
        assert same_bits(one, other)


def test_against_pytorch(device):
    torch = pytest.importorskip("torch")
    x, w, bias = numbers((2, 9, 7)), numbers((5, 7), seed=1), numbers((5,), seed=2)
    grad = numbers((2, 9, 5), seed=3)
    tensors = [torch.from_numpy(h).requires_grad_() for h in (x, w, bias)]
    y = torch.nn.functional.linear(*tensors)
    y.backward(torch.from_numpy(grad))
    a, b, c = (cp.asarray(h) for h in (x, w, bias))
    equal(ops.linear(a, b, c), y.detach().numpy())
    found = ops.linear_backward(cp.asarray(grad), a, b)
    for one, tensor in zip(found, tensors, strict=True):
        equal(one, tensor.grad.numpy())


def test_wrong_calls(device):
    x, w, grad = cp.zeros((9, 7)), cp.zeros((5, 7)), cp.zeros((9, 5))
    with pytest.raises(ShapeError, match=r"linear: .*\(1, 5, 7\)"):
        ops.linear(x, w[None])
    with pytest.raises(ShapeError, match=r"\(9, 6\).*\(5, 7\)"):
        ops.linear(x[:, :6], w)
    with pytest.raises(DTypeError, match="got ndarray: upload it"):
        ops.linear(np.zeros((9, 7), np.float32), w)
    with pytest.raises(DTypeError, match="got ndarray: upload it"):
        ops.linear(x, np.zeros((5, 7), np.float32))
    for wrong in ((grad[:8], x, w), (grad, x[:, :6], w), (grad, x, w[:4]), (grad[:, :4], x, w)):
        with pytest.raises(ShapeError, match="linear_backward: "):
            ops.linear_backward(*wrong)
    with pytest.raises(DTypeError, match=r"linear_backward: .*got ndarray"):
        ops.linear_backward(np.zeros((9, 5), np.float32), x, w)
    with pytest.raises((ShapeError, DTypeError), match="out="):
        ops.linear_backward(grad, x, w, out=(cp.zeros((9, 6)), None, None))
    out = [cp.full(s, 3.0) for s in ((9, 7), (5, 7), (4,))]
    with pytest.raises(ShapeError, match="out="):
        ops.linear_backward(grad, x, w, out=out)
    equal(out[0], np.full((9, 7), 3.0))  # the third was wrong: none is written
    with pytest.raises(ShapeError):
        ops.linear_backward(grad, x, w, beta=1)
