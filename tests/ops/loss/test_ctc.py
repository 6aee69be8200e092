"""Connectionist temporal classification against PyTorch in float64."""

import numpy as np
import pytest
from support import same_bits

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

T, N, C, S = 9, 4, 6, 4
INPUTS, TARGETS = [9, 7, 5, 9], [4, 3, 2, 0]
CASES = [
    ("mean", True, 0, INPUTS, TARGETS),
    ("sum", False, 5, INPUTS, TARGETS),
    ("none", True, 2, [9, 3, 4, 9], [4, 4, 2, 1]),
]


def problem(blank):
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 2, (T, N, C))
    classes = np.array([c for c in range(C) if c != blank])
    targets = classes[rng.integers(0, 2, (N, S))]  # neighbours are often the same
    return logits, targets


@pytest.mark.parametrize("zero", [False, True], ids=["infinite", "zero"])
@pytest.mark.parametrize(("reduction", "wide", "blank", "inputs", "counts"), CASES, ids=str)
def test_the_loss_and_its_gradient(device, reduction, wide, blank, inputs, counts, zero):
    logits, targets = problem(blank)
    given = (
        targets if wide else np.concatenate([t[:n] for t, n in zip(targets, counts, strict=True)])
    )
    x = torch.tensor(logits).log_softmax(2).requires_grad_()
    options = {"blank": blank, "reduction": reduction, "zero_infinity": zero}
    lengths = torch.tensor(inputs), torch.tensor(counts)
    expected = F.ctc_loss(x, torch.tensor(given), *lengths, **options)
    lp = cp.asarray(x.detach().numpy().astype(np.float32))
    arguments = (lp, cp.asarray(given), inputs, cp.asarray(np.array(counts)))
    found = ops.ctc_loss(*arguments, **options)
    np.testing.assert_allclose(found.get(), expected.detach().numpy(), rtol=2e-6)
    up = np.linspace(1, 2, N)[: expected.numel()].reshape(expected.shape)
    expected.backward(torch.tensor(up))
    grad = cp.asarray(up.astype(np.float32))
    dx = ops.ctc_loss_backward(grad, *arguments, **options)
    a, b = dx.get(), x.grad.numpy()
    possible = np.isfinite(b)
    # Probabilities are powers of sums of up to 2 T logarithms, each rounded.
    np.testing.assert_allclose(a[possible], b[possible], rtol=1e-4, atol=2e-5)
    assert (np.isnan(a) == ~possible).all()
    assert same_bits(ops.ctc_loss_backward(grad, *arguments, **options), dx)


def test_through_a_softmax_it_is_the_gradient_of_the_logits(double_device):
    logits, targets = problem(0)
    t = torch.tensor(logits, requires_grad=True)
    F.ctc_loss(t.log_softmax(2), torch.tensor(targets), INPUTS, TARGETS).backward()
    lp = ops.log_softmax(cp.asarray(logits), 2)
    arguments = (lp, cp.asarray(targets), INPUTS, TARGETS)
    dx = ops.ctc_loss_backward(cp.full((), 1.0, np.float64), *arguments)
    found = ops.log_softmax_backward(dx, lp, 2)
    np.testing.assert_allclose(found.get(), t.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_one_sequence(device):
    logits, targets = problem(0)
    x = torch.tensor(logits[:, 0]).log_softmax(1)
    expected = F.ctc_loss(x, torch.tensor(targets[0]), torch.tensor(9), torch.tensor(4))
    lp = cp.asarray(x.numpy().astype(np.float32))
    found = ops.ctc_loss(lp, cp.asarray(targets[0]), 9, 4)
    np.testing.assert_allclose(found.get(), expected.numpy(), rtol=2e-6)
    dx = ops.ctc_loss_backward(cp.full((), 1.0), lp, cp.asarray(targets[0]), 9, 4)
    assert dx.shape == lp.shape


def test_refusals(device):
    logits, targets = problem(0)
    x, t = cp.asarray(logits.astype(np.float32)), cp.asarray(targets)
    for message, call in [
        ("input_lengths=", lambda: ops.ctc_loss(x, t, [10] * N, TARGETS)),
        ("target_lengths=", lambda: ops.ctc_loss(x, t, INPUTS, [1] * 3)),
        ("targets has shape", lambda: ops.ctc_loss(x, t[:2], INPUTS, TARGETS)),
        ("blank=6", lambda: ops.ctc_loss(x, t, INPUTS, TARGETS, 6)),
        ("log_probs has shape", lambda: ops.ctc_loss(x[0, 0], t, INPUTS, TARGETS)),
        ("integers for targets", lambda: ops.ctc_loss(x, x[0], INPUTS, TARGETS)),
        ("reduction", lambda: ops.ctc_loss(x, t, INPUTS, TARGETS, reduction="all")),
        ("grad has shape", lambda: ops.ctc_loss_backward(x, x, t, INPUTS, TARGETS)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
