"""What public reports ask of losses of classes and of sequences."""

import math

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
import clprim.torch  # noqa: E402

F = torch.nn.functional
X, WEIGHT = np.float32([[1, 2], [3, 0.4]]), np.float32([0.2, 0.3])


def cross_entropy(target, **options):
    """The loss and its gradient, by `clprim.ops` and on the PyTorch device: they agree."""
    target = np.asarray(target, np.int64)
    here = {n: cp.asarray(v) if isinstance(v, np.ndarray) else v for n, v in options.items()}
    x, t = cp.asarray(X), cp.asarray(target)
    loss = ops.cross_entropy(x, t, **here)
    slope = ops.cross_entropy_backward(cp.full(loss.shape, 1.0), x, t, **here).get()
    there = {
        n: torch.tensor(v, device="opencl") if isinstance(v, np.ndarray) else v
        for n, v in options.items()
    }
    tensor = torch.tensor(X, device="opencl", requires_grad=True)
    found = F.cross_entropy(tensor, torch.tensor(target, device="opencl"), **there)
    found.sum().backward()
    np.testing.assert_allclose(found.tolist(), loss.get(), rtol=1e-6)
    np.testing.assert_allclose(tensor.grad.tolist(), slope, rtol=1e-5, atol=1e-6)
    return loss.get(), slope


def test_an_ignored_row_adds_nothing_to_the_smoothing(device):
    loss, slope = cross_entropy([-100, 1], weight=WEIGHT, label_smoothing=0.1)
    np.testing.assert_allclose(loss, 2.540451, rtol=1e-6)
    assert not slope[0].any() and slope[1].all()


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"weight": WEIGHT}])
def test_all_rows_ignored_have_no_mean_and_no_gradient(device, options):
    for reduction, expected in (("mean", math.nan), ("sum", 0), ("none", [0, 0])):
        loss, slope = cross_entropy([-100, -100], reduction=reduction, **options)
        np.testing.assert_array_equal(loss, expected)
        np.testing.assert_array_equal(slope, np.zeros((2, 2)))


def ctc(steps, targets, lengths, target_lengths, zero_infinity):
    """Losses and gradients in the logits on the PyTorch device, and losses by `clprim.ops`."""
    logits = torch.randn(steps, len(targets), 4, generator=torch.Generator().manual_seed(0))
    leaf = logits.to("opencl").requires_grad_()
    given = torch.tensor(targets, device="opencl"), torch.tensor(lengths)
    options = {"reduction": "none", "zero_infinity": zero_infinity}
    loss = F.ctc_loss(leaf.log_softmax(-1), *given, torch.tensor(target_lengths), **options)
    loss.sum().backward()
    rows = cp.asarray(logits.log_softmax(-1).numpy())
    own = ops.ctc_loss(rows, cp.asarray(np.array(targets)), lengths, target_lengths, **options)
    np.testing.assert_allclose(own.get(), loss.tolist(), rtol=1e-5)
    return np.array(loss.tolist()), leaf.grad.cpu().numpy(), logits.log_softmax(-1).numpy()


@pytest.mark.parametrize("targets", [[1, 2, 3], [1, 1]])
def test_a_target_that_no_path_reaches_is_infinite_or_nothing(device, targets):
    loss, _, _ = ctc(2, [targets], [2], [len(targets)], False)
    assert loss == math.inf
    loss, slope, _ = ctc(2, [targets], [2], [len(targets)], True)
    assert loss == 0 and not slope.any()


def test_an_empty_target_is_all_blank(device):
    loss, slope, rows = ctc(3, [[1]], [3], [0], False)
    np.testing.assert_allclose(loss[0], -rows[:, 0, 0].sum(), rtol=1e-5)
    assert np.isfinite(slope).all() and slope.any()


def test_a_batch_does_not_spread_what_is_no_number(device):
    given = 4, [[1, 2, 3], [1, 1, 1], [1, 2, 0]], [4, 4, 3], [3, 3, 2]
    loss, slope, _ = ctc(*given, False)
    assert np.isfinite(loss[[0, 2]]).all() and loss[1] == math.inf
    assert np.isfinite(slope[:, [0, 2]]).all()
    loss, slope, _ = ctc(*given, True)
    assert np.isfinite(loss).all() and np.isfinite(slope).all() and not slope[:, 1].any()
