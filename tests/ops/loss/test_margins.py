"""Losses of margins, and distances of rows, against PyTorch in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("device")
RNG = np.random.default_rng(0)


def check(name, arrays, options, inputs=1, ours=None, back=None):
    """Compares a value, and gradients of the first arrays, with PyTorch's."""
    given = [torch.tensor(a.astype(np.float64) if a.dtype.kind == "f" else a) for a in arrays]
    for a in given[:inputs]:
        a.requires_grad_(True)
    device = {}
    for key, value in options.items():
        array = isinstance(value, np.ndarray)
        device[key] = cp.asarray(value) if array else value
        options[key] = torch.tensor(np.float64(value)) if array else value
    expected = getattr(F, name)(*given, **options)
    grad = RNG.normal(size=tuple(expected.shape)).astype(np.float32)
    slopes = torch.autograd.grad(expected, given[:inputs], torch.tensor(np.float64(grad)))
    arrays = [cp.asarray(a) for a in arrays]
    found = getattr(ops, name)(*arrays, **{**device, **(ours or {})})
    assert found.dtype == arrays[0].dtype and found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found.get(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    options = {**device, **(ours or {}), **(back or {})}
    backward = getattr(ops, f"{name}_backward")(cp.asarray(grad), *arrays, **options)
    backward = backward if isinstance(backward, tuple) else (backward,)
    for a, b in zip(backward, slopes, strict=True):
        np.testing.assert_allclose(a.get(), b.numpy(), rtol=2e-5, atol=2e-6)


X = RNG.normal(size=(9, 7)).astype(np.float32)
W = RNG.uniform(0.5, 2, 7).astype(np.float32)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_of_one_class(reduction):
    options = {"reduction": reduction}
    target = RNG.integers(0, 7, 9)
    check("multi_margin_loss", (X, target), {**options, "margin": 0.75})
    check("multi_margin_loss", (X, target), {**options, "p": 2, "weight": W})
    check("multi_margin_loss", (X[0], target[0]), dict(options))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_of_several_classes(reduction):
    options = {"reduction": reduction}
    target = RNG.integers(-1, 7, (9, 7))
    target[0], target[1] = np.arange(7), -1
    check("multilabel_margin_loss", (X, target), dict(options))
    check("multilabel_margin_loss", (X[2], target[2]), dict(options))
    wanted = RNG.integers(0, 2, (9, 7)).astype(np.float32)
    check("multilabel_soft_margin_loss", (X, wanted), dict(options))
    check("multilabel_soft_margin_loss", (X, wanted), {**options, "weight": W})


@pytest.mark.parametrize("p", [0, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_rows(p):
    check("pdist", (X,), {"p": p})
    same = np.float32([[1, 2], [1, 2], [0, 2]])
    check("pdist", (same,), {"p": p})
    assert ops.pdist(cp.zeros((1, 3)), p).shape == (0,)


@pytest.mark.parametrize("swap", [False, True])
def test_triplets_of_any_distance(swap):
    arrays = [RNG.normal(size=(5, 6)).astype(np.float32) for _ in range(3)]
    options = {"margin": 1.5, "swap": swap}
    name = "triplet_margin_with_distance_loss"
    check(name, arrays, dict(options), inputs=3)
    check(
        name, arrays, {**options, "distance_function": F.cosine_similarity}, inputs=3,
        ours={"distance_function": ops.cosine_similarity},
        back={"distance_backward": ops.cosine_similarity_backward},
    )  # fmt: skip


@pytest.mark.refusal
def test_refusals():
    x, t = cp.zeros((3, 4)), cp.zeros((3,), np.int64)
    assert np.isnan(ops.multi_margin_loss(x, t + 4).item())
    assert np.isnan(ops.multilabel_margin_loss(x, cp.full((3, 4), 4, np.int64)).item())
    for message, call in [
        ("1 or 2", lambda: ops.multi_margin_loss(x, t, 3)),
        ("expected integers", lambda: ops.multi_margin_loss(x, x)),
        ("target has shape", lambda: ops.multi_margin_loss(x, t[:2])),
        ("weight has shape", lambda: ops.multi_margin_loss(x, t, weight=x)),
        ("grad has shape", lambda: ops.multi_margin_loss_backward(x, x, t)),
        ("target has shape", lambda: ops.multilabel_margin_loss(x, t)),
        ("expected one shape", lambda: ops.multilabel_soft_margin_loss(x, x[0])),
        ("expected \\(N, D\\)", lambda: ops.pdist(x[0])),
        ("more than 0", lambda: ops.pdist(x, -1)),
        ("grad has shape", lambda: ops.pdist_backward(x, x)),
        (
            "distance_function=3: expected a function",
            lambda: ops.triplet_margin_with_distance_loss(x, x, x, distance_function=3),
        ),
        (
            "distance_backward",
            lambda: ops.triplet_margin_with_distance_loss_backward(
                x, x, x, x, distance_function=ops.pairwise_distance
            ),
        ),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
