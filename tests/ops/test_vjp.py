"""Gradients of operators that are made of what these launch."""

import inspect

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.runtime.stats import counters

X, Y = (np.random.default_rng(n).standard_normal((6, 5)).astype(np.float32) for n in (0, 1))


def test_the_second_call_launches_what_the_first_one_did(device):
    x, y, grad = cp.asarray(X), cp.asarray(Y), cp.full((6,), 1.0)
    first = ops.pairwise_distance_backward(grad, x, y)
    before = counters.launches
    found = ops.pairwise_distance_backward(grad, y, x)
    assert 0 < counters.launches - before <= 2
    np.testing.assert_allclose(found[0].get(), first[1].get(), rtol=1e-3, atol=1e-5)
    found[0].fill(0)
    assert first[0].get().any() and (grad.get() == 1).all()


def test_parameters_are_the_operators_own_and_a_gradient():
    names = [*inspect.signature(ops.kernel_sum_backward).parameters]
    assert names == ["grad", "x", "y", "b", "kernel", "numbers"]
    assert "`kernel_sum`" in ops.kernel_sum_backward.__doc__


def test_messages_begin_with_the_name_that_was_called(device):
    x, whole = cp.asarray(X), cp.asarray(np.int64(X))
    for message, call in [
        ("pairwise_distance_backward: p=-1", lambda: ops.pairwise_distance_backward(x, x, x, -1)),
        ("kron_backward: grad has shape", lambda: ops.kron_backward(x, x, x)),
        (
            "kron_backward: y is int64, expected a flo",
            lambda: ops.kron_backward(x, x, whole),
        ),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()


def test_inside_a_compiled_function_and_of_parts_of_one_piece_of_memory(device):
    x, y, grad = cp.asarray(X), cp.asarray(Y), cp.full((6,), 1.0)
    expected = [a.get() for a in ops.cosine_similarity_backward(grad, x, y)]
    found = cp.jit(ops.cosine_similarity_backward)(grad, x, y)
    both = cp.asarray(np.stack([X, Y]))
    for result in (found, ops.cosine_similarity_backward(grad, both[0], both[1])):
        for a, b in zip(result, expected, strict=True):
            np.testing.assert_allclose(a.get(), b, rtol=1e-5, atol=1e-7)


def test_what_is_empty_or_broadcast(device):
    nothing = cp.zeros((0, 4))
    assert ops.mse_loss_backward(cp.full((), 1.0), nothing, nothing).shape == (0, 4)
    row, grad = cp.asarray(X[:1]), cp.asarray(Y)
    found = ops.mse_loss_backward(grad, row, cp.asarray(Y), reduction="none")
    expected = (2 * Y * (X[:1] - Y)).sum(0, keepdims=True)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_what_no_backward_operator_returns_has_gradients_as_well(device, reduction):
    torch = pytest.importorskip("torch")
    p, t, w = (np.random.default_rng(n).random((3, 4)).astype(np.float32) for n in range(3))

    def loss(*arrays):
        return ops.binary_cross_entropy(*arrays, reduction=reduction).sum()

    _, found = cp.value_and_grad(loss, wrt=(0, 1, 2))(*map(cp.asarray, (p, t, w)))
    given = [torch.tensor(np.float64(a), requires_grad=True) for a in (p, t, w)]
    a, b, c = given
    value = -(b * a.log() + (1 - b) * (1 - a).log()) * c
    (value.mean() if reduction == "mean" else value.sum()).backward()
    for a, b in zip(found, given, strict=True):
        np.testing.assert_allclose(a.get(), b.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_a_broadcast_argument_has_a_gradient_of_every_element(device):
    x = cp.broadcast_to(cp.asarray(np.float32([0.5, -1])), (3, 2))
    grad, target = (cp.asarray(np.float32(a)) for a in ([[1, 2], [3, 4], [5, 6]], np.ones((3, 2))))
    for backward, given, options in (
        (ops.gelu_backward, (grad, x), {}),
        (ops.mse_loss_backward, (grad, x, target), {"reduction": "none"}),
    ):
        apart = [a.copy() for a in given]
        found, wanted = (backward(*arrays, **options) for arrays in (given, apart))
        np.testing.assert_array_equal(found.get(), wanted.get())


@pytest.mark.refusal
def test_refusals_name_the_gradient_and_its_arguments():
    x = cp.zeros((2, 3))
    with pytest.raises(TypeError, match=r"gelu_backward\(\) got an unexpected keyword argument"):
        ops.gelu_backward(x, x, other=1)
    with pytest.raises(cp.DTypeError, match="gelu_backward: expected a device array for x, got"):
        ops.gelu_backward(x, "a")
