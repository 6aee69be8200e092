"""What public reports ask of gradients where a function has a corner, a zero or an equal."""

import itertools

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

AWKWARD = [-3.0, -1.0, -0.0, 0.5, 1.0, 2.0, 6.0]
PAIRS = [*zip(*itertools.product(AWKWARD, AWKWARD), strict=True)]
TWO = "logaddexp logaddexp2 xlogy xlog1py maximum minimum fmax fmin remainder fmod"


def slopes(function, *hosts):
    """Gradients of the sum of what a function of arrays computes."""
    arrays = [cp.asarray(np.asarray(h, np.float64)) for h in hosts]
    _, found = cp.value_and_grad(lambda given: function(*given).sum(), 0)(arrays)
    return [g.get() for g in found]


def expected_slopes(function, *hosts):
    tensors = [torch.tensor(h, dtype=torch.float64, requires_grad=True) for h in hosts]
    return torch.autograd.grad(function(*tensors).sum(), tensors)


def same(found, expected):
    for a, tensor in zip(found, expected, strict=True):
        b = tensor.numpy()
        known = np.isfinite(b)  # beside a division by 0 nothing is asked
        np.testing.assert_allclose(a[known], b[known], rtol=1e-12, atol=1e-15)


def of_torch(name):
    return getattr(torch, name, None) or getattr(torch.special, name)


@pytest.mark.parametrize("name", TWO.split())
def test_a_function_of_two_has_pytorchs_slope_by_either_door(device, name):
    a, b = PAIRS
    ours, theirs = getattr(ops, name), of_torch(name)
    same(slopes(ours, a, b), expected_slopes(theirs, a, b))
    if hasattr(ops, f"{name}_backward"):
        given = [cp.asarray(np.float64(v)) for v in (a, b)]
        by_hand = getattr(ops, f"{name}_backward")(cp.full(len(a), 1.0, np.float64), *given)
        same([g.get() for g in by_hand], expected_slopes(theirs, a, b))


@pytest.mark.parametrize("number", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("name", [n for n in TWO.split() if n not in ("fmax", "fmin", "xlog1py")])
def test_a_function_of_an_array_and_a_number_has_the_same(device, name, number):
    ours, theirs, fixed = getattr(ops, name), of_torch(name), torch.tensor(number)
    expected = expected_slopes(lambda x: theirs(x, fixed), AWKWARD)
    same(slopes(lambda x: ours(x, number), AWKWARD), expected)
    if name not in ("remainder", "fmod"):  # of which PyTorch knows none
        flipped = expected_slopes(lambda x: theirs(fixed, x), AWKWARD)
        same(slopes(lambda x: ours(number, x), AWKWARD), flipped)


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (None, 1.0), (0.5, None), (2.0, -1.0)], ids=str)
def test_a_clamp_passes_at_its_bounds(device, bounds):
    low, high = bounds
    given = [*AWKWARD, np.nan]
    expected = expected_slopes(lambda x: torch.clamp(x, low, high), given)
    same(slopes(lambda x: ops.clamp(x, low, high), given), expected)
    if None not in bounds:
        a, b = PAIRS
        expected = expected_slopes(lambda x, y: torch.clamp(x, y, y * 0 + high), a, b)
        same(slopes(lambda x, y: ops.clamp(x, y, y * 0 + high), a, b), expected)


ROWS = [[1.5, 2, 3, 4], [0, 2, 3, 4], [0, 0, 3, 4], [0, 0, 0, 4], [0, 0, 0, 0], [5, 0, 1, 1]]


def test_a_product_with_zeros_has_its_second_derivative_by_either_door(device):
    host, weight = np.array(ROWS), np.random.default_rng(0).normal(size=(6, 4))
    tensor = torch.tensor(host, requires_grad=True)
    (first,) = torch.autograd.grad(tensor.prod(1).sum(), tensor, create_graph=True)
    (expected,) = torch.autograd.grad((first * torch.tensor(weight)).sum(), tensor)
    x, w = cp.asarray(host), cp.asarray(weight)

    def along(x):
        _, found = cp.value_and_grad(lambda x: ops.prod(x, 1).sum(), 0)(x)
        return (found * w).sum()

    same([cp.value_and_grad(along, 0)(x)[1].get()], [expected])
    product = cp.Reduction("y0 = x0;", init="reduce_y0 = 1;", step="reduce_y0 *= y0;")
    same([product.gradient().gradient()(x, grad=w, axis=1).get()], [expected])


def test_the_tails_of_logits_are_kept(device):
    x = cp.asarray(np.float32([17.5, -17.5, 30, -30]))
    target = cp.asarray(np.float32([1, 0, 1, 0]))
    loss = lambda x: ops.binary_cross_entropy_with_logits(x, target, reduction="sum")  # noqa: E731
    value, found = cp.value_and_grad(loss, 0)(x)
    tail = np.exp(-np.abs(x.get().astype(np.float64)))
    np.testing.assert_allclose(found.get(), tail * [-1, 1, -1, 1], rtol=1e-5)
    np.testing.assert_allclose(float(value), tail.sum(), rtol=1e-5)
