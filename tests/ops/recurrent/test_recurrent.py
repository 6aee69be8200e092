"""Recurrent layers beside PyTorch in float64: layers, directions, biases, and refusals."""

import numpy as np
import pytest
import torch

import clprim as cp
from clprim import ops

RNG = np.random.default_rng(0)
T, N, F, H = 7, 3, 5, 6


def _check(device, name, module, biases, layers, both, first):
    module = module.double()
    x = RNG.normal(size=(N, T, F) if first else (T, N, F))
    count = layers * (1 + both)
    states = [RNG.normal(size=(count, N, H)) for _ in range(2 if name == "lstm" else 1)]
    given = tuple(torch.tensor(s) for s in states)
    expected, last = module(torch.tensor(x), given if name == "lstm" else given[0])
    params = [cp.asarray(p.detach().numpy().astype(np.float32)) for p in module.parameters()]
    hx = [cp.asarray(s.astype(np.float32)) for s in states]
    extra = {"nonlinearity": module.nonlinearity} if name == "rnn" else {}
    found = getattr(ops, name)(
        cp.asarray(x.astype(np.float32)),
        tuple(hx) if name == "lstm" else hx[0],
        params, biases, layers, 0.0, False, both, first, **extra,
    )  # fmt: skip
    wanted = [expected, *(last if name == "lstm" else [last])]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.get(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    for a, b in zip(hx, states, strict=True):  # what was given stays
        np.testing.assert_array_equal(a.get(), b.astype(np.float32))


@pytest.mark.parametrize("biases, layers, both, first", [(True, 1, False, False),
                                                         (True, 2, True, True),
                                                         (False, 2, False, True)])  # fmt: skip
def test_layers_and_directions(device, biases, layers, both, first):
    torch.manual_seed(0)
    options = {"num_layers": layers, "bias": biases, "bidirectional": both, "batch_first": first}
    for name, module in [
        ("lstm", torch.nn.LSTM(F, H, **options)),
        ("gru", torch.nn.GRU(F, H, **options)),
        ("rnn", torch.nn.RNN(F, H, nonlinearity="relu", **options)),
        ("rnn", torch.nn.RNN(F, H, **options)),
    ]:
        _check(device, name, module, biases, layers, both, first)


def test_refusals(device):
    x, h = cp.zeros((T, N, F)), cp.zeros((1, N, H))
    params = [cp.zeros((H, F)), cp.zeros((H, H)), cp.zeros((H,)), cp.zeros((H,))]
    for message, call in [
        ("4 parameters", lambda: ops.rnn(x, h, params, num_layers=2)),
        ("h_0, c_0", lambda: ops.lstm(x, h, params)),
        (r"params\[0\] has shape", lambda: ops.gru(x, h, params)),
        (r"hx\[0\] has shape", lambda: ops.rnn(x, h[:, :2], params)),
        ("nonlinearity", lambda: ops.rnn(x, h, params, nonlinearity="gelu")),
        ("expected \\(T, N, I\\)", lambda: ops.rnn(x[0], h, params)),
        ("expected a device array", lambda: ops.rnn(np.zeros(3), h, params)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
