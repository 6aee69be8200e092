"""Operators made of several calls: what lies between these is float32, so 16 bits round once."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")
BAGS = np.array([[0, 1, 2], [2, 2, 1]])


# By name: the operator, PyTorch's in float64, shapes, and how large the numbers are.
CASES = {
    "einsum": (
        lambda a, b, c: ops.einsum("ij,jk,kl->il", a, b, c / 4096),
        lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c / 4096),
        ((3, 4), (4, 5), (5, 2)),
        200,
    ),
    "sums of einsum": (
        lambda a, b: ops.einsum("ij,k->k", a, b / 4096),
        lambda a, b: torch.einsum("ij,k->k", a, b / 4096),
        ((90, 90), (3,)),
        60,
    ),
    "triplets": (
        lambda a, b, c: ops.triplet_margin_with_distance_loss(a, b, c, swap=True),
        lambda a, b, c: F.triplet_margin_with_distance_loss(a, b, c, swap=True),
        ((2, 9),) * 3,
        30000,
    ),
    "diff": (lambda a: ops.diff(a, 3), lambda a: torch.diff(a, 3), ((4, 9),), 5000),
    "average": (
        lambda a, b: cp.average(a, 1, abs(b)),
        lambda a, b: (a * abs(b)).sum(1) / abs(b).sum(),
        ((3, 9), (9,)),
        5000,
    ),
    "vecdot": (
        lambda a, b: cp.vecdot(a, b / 4096),
        lambda a, b: (a * b / 4096).sum(1),
        ((3, 300), (3, 300)),
        3000,
    ),
}
GRADIENTS = {
    "triplets": (
        lambda g, a, b, c: ops.triplet_margin_with_distance_loss_backward(g, a, b, c, swap=True),
        lambda a, b, c: F.triplet_margin_with_distance_loss(a, b, c, swap=True),
        ((2, 9),) * 3,
        300,
    ),
    "bilinear": (
        lambda g, a, b, w: ops.bilinear_backward(g, a, b, w)[:3],
        F.bilinear,
        ((3, 4), (3, 5), (2, 4, 5)),
        3,
    ),
    "trapezoid": (
        ops.trapezoid_backward,
        torch.trapezoid,
        ((3, 9), (3, 9)),
        3,
    ),
    "bags": (
        lambda g, w: ops.embedding_bag_backward(g, cp.asarray(BAGS), w, mode="mean")[0],
        lambda w: F.embedding_bag(torch.tensor(BAGS), w, mode="mean"),
        ((3, 40),),
        3,
    ),
}


def drawn(shapes, scale, dtype):
    rng = np.random.default_rng(5)
    hosts = [rng.uniform(-scale, scale, s).astype(np.float32).astype(dtype) for s in shapes]
    exact = [torch.tensor(h.astype(np.float64)).requires_grad_() for h in hosts]
    return [cp.asarray(h) for h in hosts], exact


def check(found, expected, dtype):
    """Half a unit in the last place, and what float32 loses where large terms cancel."""
    eps = 2.0 ** -(11 if dtype == np.float16 else 8)
    expected = expected.detach().numpy()
    np.testing.assert_allclose(
        found.get().astype(np.float64), expected, rtol=1.01 * eps, atol=abs(expected).max() * 1e-5
    )


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_results_are_rounded_once(device, name, dtype):
    run, reference, shapes, scale = CASES[name]
    arrays, exact = drawn(shapes, scale, dtype)
    check(run(*arrays), reference(*exact), dtype)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_rounded_once(device, name, dtype):
    run, reference, shapes, scale = GRADIENTS[name]
    arrays, exact = drawn(shapes, scale, dtype)
    result = reference(*exact)
    grad = np.random.default_rng(6).uniform(-3, 3, result.shape).astype(np.float32).astype(dtype)
    expected = torch.autograd.grad(result, exact, torch.tensor(grad.astype(np.float64)))
    found = run(cp.asarray(grad), *arrays)
    found = found if isinstance(found, tuple) else (found,)
    for one, right in zip(found, expected, strict=True):
        assert one.dtype == dtype
        check(one, right, dtype)
