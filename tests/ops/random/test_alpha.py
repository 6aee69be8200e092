"""Dropout that keeps mean and variance, and random slopes."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional


def test_alpha_dropout_keeps_mean_and_variance(device):
    x = np.random.default_rng(0).normal(size=(300, 200)).astype(np.float32)
    y, state = ops.alpha_dropout(cp.asarray(x), 0.25, True, return_state=True)
    found, g = y.get(), ops.alpha_dropout_backward(cp.full(x.shape, 2.0), state, 0.25).get()
    assert abs(found.mean()) < 0.02 and abs(found.std() - 1) < 0.02
    # PyTorch's two values of an element, by its own dropped and kept ones.
    torch.manual_seed(0)
    one = F.alpha_dropout(torch.ones(1000).double(), 0.25, True)
    low, kept = one.min().item(), one.max().item()
    zero = F.alpha_dropout(torch.zeros(1000).double(), 0.25, True).max().item()
    dropped = g == 0
    assert abs(dropped.mean() - 0.25) < 0.01
    np.testing.assert_allclose(found[dropped], low, rtol=1e-5)
    np.testing.assert_allclose(found, np.where(dropped, low, x * (kept - zero) + zero), rtol=1e-4,
                               atol=1e-5)  # fmt: skip
    np.testing.assert_allclose(g[~dropped], 2 * (kept - zero), rtol=1e-5)
    d = cp.asarray(x)
    assert ops.alpha_dropout(d) is d and not ops.alpha_dropout(d, 1.0, True).get().any()


def test_feature_alpha_dropout_drops_channels(device):
    x = np.random.default_rng(0).normal(size=(40, 30, 3, 5)).astype(np.float32)
    x[:, :, 0, 0] = np.nan  # the others of its channel are numbers all the same
    d = cp.asarray(x, memory_format="channels_last")
    y, state = ops.feature_alpha_dropout(d, 0.25, True, return_state=True)
    g = ops.feature_alpha_dropout_backward(cp.full(x.shape, 2.0), state, 0.25).get()
    assert y.strides == d.strides
    one = F.feature_alpha_dropout(torch.ones(1, 1000).double(), 0.25, True)
    low, kept = one.min().item(), one.max().item()
    zero = F.feature_alpha_dropout(torch.zeros(1, 1000).double(), 0.25, True).max().item()
    dropped = g[:, :, :1, :1] == 0
    assert (g == np.where(dropped, 0, g[:, :, :1, :1])).all()
    assert abs(dropped.mean() - 0.25) < 0.05
    np.testing.assert_allclose(y.get(), np.where(dropped, low, x * (kept - zero) + zero),
                               rtol=1e-4, atol=1e-5)  # fmt: skip
    np.testing.assert_allclose(g[g != 0], 2 * (kept - zero), rtol=1e-5)
    assert ops.feature_alpha_dropout(d) is d
    assert not ops.feature_alpha_dropout(cp.zeros((3, 4)), 1.0, True).get().any()


def test_rrelu(device):
    x = np.random.default_rng(0).normal(size=(50, 60)).astype(np.float32)
    d = cp.asarray(x)
    np.testing.assert_allclose(ops.rrelu(d).get(), F.rrelu(torch.tensor(x)).numpy(), rtol=1e-6)
    y, state = ops.rrelu(d, 0.25, 0.75, True, return_state=True)
    slopes = y.get() / x
    assert (slopes[x > 0] == 1).all() and abs(slopes[x < 0].mean() - 0.5) < 0.02
    assert slopes[x < 0].min() >= 0.2499 and slopes[x < 0].max() <= 0.7501
    back = ops.rrelu_backward(d, d, state, 0.25, 0.75)
    np.testing.assert_array_equal(back.get(), y.get())
    np.testing.assert_array_equal(ops.rrelu_backward(d, d, None).get(), ops.rrelu(d).get())


@pytest.mark.refusal
def test_refusals(device):
    x = cp.zeros((3,))
    for message, call in [
        ("no probability", lambda: ops.alpha_dropout(x, 1.5)),
        ("expected a floating", lambda: ops.alpha_dropout(cp.zeros((3,), np.int32))),
        ("no probability", lambda: ops.feature_alpha_dropout(x, -1)),
        ("expected \\(N, C", lambda: ops.feature_alpha_dropout(x)),
        ("expected \\(N, C", lambda: ops.feature_alpha_dropout_backward(x, None)),
        ("more than upper", lambda: ops.rrelu(x, 1, 0)),
        ("grad has shape", lambda: ops.rrelu_backward(x[:1], x, None)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
