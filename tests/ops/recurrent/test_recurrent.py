"""Recurrent layers beside PyTorch in float64: layers, directions, biases, and refusals."""

import numpy as np
import pytest
from support import same_bits

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

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


NAMES = {
    "lstm": (torch.nn.LSTM, {}),
    "gru": (torch.nn.GRU, {}),
    "rnn": (torch.nn.RNN, {"nonlinearity": "relu"}),
}


def upload(*tensors):
    return [cp.asarray(t.detach().numpy().astype(np.float32)) for t in tensors]


def packed_up(x):
    return torch.nn.utils.rnn.pack_padded_sequence(x, [T, 4, 3], batch_first=True)


def near(found, expected):
    np.testing.assert_allclose(found.get(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("packed", [False, True], ids=["one length", "packed"])
@pytest.mark.parametrize("name", NAMES)
def test_gradients(device, name, packed):
    """Two layers in both directions; of sequences of one length and of several."""
    torch.manual_seed(1)
    make, extra = NAMES[name]
    options = {"num_layers": 2, "bidirectional": True, "batch_first": not packed}
    module = make(F, H, **options, **extra).double()
    x = torch.tensor(RNG.normal(size=(N, T, F)), requires_grad=True)
    states = [torch.tensor(RNG.normal(size=(4, N, H)), requires_grad=True) for _ in range(2)]
    states = states[: 1 + (name == "lstm")]
    given = packed_up(x) if packed else x
    output, last = module(given, tuple(states) if name == "lstm" else states[0])
    last = last if name == "lstm" else (last,)
    rows, out = (given.data, output.data) if packed else (x, output)
    sizes = given.batch_sizes.tolist() if packed else None
    hx = upload(*states)
    found = getattr(ops, name)(
        *upload(rows), tuple(hx) if name == "lstm" else hx[0], upload(*module.parameters()),
        True, 2, 0.0, False, True, not packed, batch_sizes=sizes, return_saved=True, **extra,
    )  # fmt: skip
    for a, b in zip(found, (out, *last), strict=False):
        near(a, b)
    grads = [torch.tensor(RNG.normal(size=tuple(t.shape))) for t in (out, *last)]
    sum((t * g).sum() for t, g in zip((out, *last), grads, strict=True)).backward()
    backward = getattr(ops, f"{name}_backward")
    dx, dh, dparams = backward(*upload(*grads), found[-1])
    near(dx, packed_up(x.grad).data if packed else x.grad)
    for a, b in zip(dh if name == "lstm" else (dh,), states, strict=True):
        near(a, b.grad)
    for a, b in zip(dparams, module.parameters(), strict=True):
        near(a, b.grad)
    assert same_bits(backward(*upload(*grads), found[-1])[0], dx)


@pytest.mark.parametrize("packed", [False, True], ids=["one length", "packed"])
@pytest.mark.parametrize("biases", [True, False])
def test_projection(device, packed, biases):
    """States of 4 numbers and memories of 6, in two layers and both directions, with gradients."""
    torch.manual_seed(2)
    options = {"num_layers": 2, "bidirectional": True, "batch_first": not packed, "bias": biases}
    module = torch.nn.LSTM(F, H, proj_size=4, **options).double()
    x = torch.tensor(RNG.normal(size=(N, T, F)), requires_grad=True)
    states = [torch.tensor(RNG.normal(size=(4, N, n)), requires_grad=True) for n in (4, H)]
    given = packed_up(x) if packed else x
    output, last = module(given, tuple(states))
    rows, out = (given.data, output.data) if packed else (x, output)
    sizes = given.batch_sizes.tolist() if packed else None
    arguments = (*upload(rows), tuple(upload(*states)), upload(*module.parameters()), biases, 2)
    arguments += (0.0, False, True, not packed)
    *found, saved = ops.lstm(*arguments, batch_sizes=sizes, return_saved=True)
    unsaved = ops.lstm(*arguments, batch_sizes=sizes)
    for a, b, c in zip(found, unsaved, (out, *last), strict=True):
        near(a, c)
        assert same_bits(a, b)
    grads = [torch.tensor(RNG.normal(size=tuple(t.shape))) for t in (out, *last)]
    sum((t * g).sum() for t, g in zip((out, *last), grads, strict=True)).backward()
    dx, dh, dparams = ops.lstm_backward(*upload(*grads), saved)
    near(dx, packed_up(x.grad).data if packed else x.grad)
    for a, b in zip((*dh, *dparams), (*states, *module.parameters()), strict=True):
        near(a, b.grad)


def test_gates_that_are_shut_have_a_gradient(device):
    x, h = cp.full((1, 1, 1), -200.0), cp.zeros((1, 1, 1))
    params = [cp.full((4, 1), 1.0), cp.full((4, 1), 1.0)]
    y, *_, saved = ops.lstm(x, (h, h), params, False, return_saved=True)
    dx, _, _ = ops.lstm_backward(cp.full(y.shape, 1.0), None, None, saved)
    assert abs(dx.get()) < 1e-12  # and no NaN


def test_dropout_between_layers_is_drawn_again(device):
    x, h = cp.full((2, 3, 4), 1.0), cp.zeros((2, 3, 2))
    params = [cp.full(s, 0.3) for s in ((2, 4), (2, 2), (2, 2), (2, 2))]
    y, _, saved = ops.rnn(x, h, params, False, 2, 0.5, True, return_saved=True)
    cp.random.uniform((3,))  # other numbers in between
    assert same_bits(ops.rnn_backward(y, None, saved)[0], ops.rnn_backward(y, None, saved)[0])
    assert not saved.dropped[0] and saved.dropped[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name, gates", [("lstm_cell", 4), ("gru_cell", 3),
                                         ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1)])  # fmt: skip
def test_cells(device, name, gates, dtype):
    """Of one step, with gradients: with both biases, one and none, and of a part of an array."""
    shapes = ((N, F), (N, H), (N, H), (gates * H, F), (gates * H, H), (gates * H,), (gates * H,))
    given = [RNG.normal(size=s).astype(dtype) for s in shapes]
    g = [cp.asarray(RNG.normal(size=(N, H)).astype(dtype)) for _ in range(1 + (gates == 4))]
    dx, dh, dc, *dweights = (cp.asarray(a) for a in given)
    wide = cp.asarray(np.repeat(given[0], 2, axis=1))[:, ::2]
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    for biases in ((True, True), (True, False), (False, False)):
        leaves = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in given]
        x, h, c, *weights = leaves
        own = [b if used else None for b, used in zip(dweights[2:], biases, strict=True)]
        theirs = [b if used else 0 * b for b, used in zip(weights[2:], biases, strict=True)]
        hx, dhx = ((h, c), (dh, dc)) if gates == 4 else (h, dh)
        expected = getattr(torch, name)(x, hx, *weights[:2], *theirs)
        expected = expected if gates == 4 else (expected,)
        *found, saved = getattr(ops, name)(wide, dhx, *dweights[:2], *own, return_saved=True)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == dtype
            np.testing.assert_allclose(a.get(), b.detach().numpy(), rtol=tolerance, atol=tolerance)
        alone = getattr(ops, name)(dx, dhx, *dweights[:2], *own)
        assert same_bits(alone[0] if gates == 4 else alone, found[0])
        sum((a * torch.tensor(b.get())).sum() for a, b in zip(expected, g, strict=True)).backward()
        dinput, states, params = getattr(ops, f"{name}_backward")(*g, saved)
        found = [dinput, *(states if gates == 4 else [states]), *params]
        wanted = [x, h, *([c] if gates == 4 else []), *weights]
        for a, b, used in zip(found, wanted, (*[True] * (2 + len(g)), True, *biases), strict=True):
            assert (a is not None) == used
            if used:
                assert a.dtype == dtype
                np.testing.assert_allclose(
                    a.get(), b.grad.numpy(), rtol=10 * tolerance, atol=10 * tolerance
                )


def test_gradients_of_cells_alone_and_refused(device):
    x, h, w = cp.full((N, F), 0.5), cp.full((N, H), 0.25), cp.full((4 * H, F), 0.1)
    *_, saved = ops.lstm_cell(x, (h, h), w, cp.full((4 * H, H), 0.1), return_saved=True)
    back = ops.lstm_cell_backward
    zeros = cp.zeros((N, H))
    assert same_bits(back(h, None, saved)[0], back(h, zeros, saved)[0])
    assert same_bits(back(None, h, saved)[0], back(zeros, h, saved)[0])
    assert np.all(back(None, None, saved)[2][0].get() == 0)
    for message, call in [
        (r"grad_h has shape \(3, 5\)", lambda: back(x, None, saved)),
        ("grad_c has shape .* of float64", lambda: back(None, h.astype(np.float64), saved)),
        (r"what gru_cell\(…, return_saved=True\)", lambda: ops.gru_cell_backward(h, saved)),
        ("expected a device array", lambda: back(1.0, None, saved)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()


def test_refusals_of_cells(device):
    x, h, w, own = cp.zeros((N, F)), cp.zeros((N, H)), cp.zeros((H, F)), cp.zeros((H, H))
    for message, call in [
        (r"lstm_cell: hx: expected \(h, c\)", lambda: ops.lstm_cell(x, h, w, own)),
        ("a tuple or list of two, got NoneType", lambda: ops.lstm_cell(x, None, w, own)),
        ("a tuple or list of two, got 1 of them", lambda: ops.lstm_cell(x, (h,), w, own)),
        ("of a floating dtype, got int32",
         lambda: ops.rnn_tanh_cell(x.astype(np.int32), h, w, own)),
        (r"hx\[1\] has shape", lambda: ops.lstm_cell(x, (h, h[:2]), w, own)),
        (r"gru_cell: w_ih has shape \(6, 5\), expected \(18, 5\)",
         lambda: ops.gru_cell(x, h, w, own)),
        ("hx has shape", lambda: ops.rnn_tanh_cell(x[:2], h, w, own)),
        ("b_hh has shape", lambda: ops.rnn_relu_cell(x, h, w, own, None, x)),
        ("w_hh is int32, input float32",
         lambda: ops.rnn_tanh_cell(x, h, w, cp.zeros((H, H), np.int32))),
        (r"expected an input \(N, I\)", lambda: ops.rnn_tanh_cell(x[0], h, w, own)),
        ("expected a device array", lambda: ops.gru_cell(x, None, w, own)),
    ]:  # fmt: skip
        with pytest.raises(cp.ClprimError, match=message):
            call()


def test_refusals(device):
    x, h = cp.zeros((T, N, F)), cp.zeros((1, N, H))
    params = [cp.zeros((H, F)), cp.zeros((H, H)), cp.zeros((H,)), cp.zeros((H,))]
    saved = ops.rnn(x, h, params, return_saved=True)[-1]
    shapes = ((4 * H, F), (4 * H, H), (4 * H,), (4 * H,), (H, H + 1))
    projected = [cp.zeros(s) for s in shapes]
    for message, call in [
        ("4 parameters", lambda: ops.rnn(x, h, params, num_layers=2)),
        ("h_0, c_0", lambda: ops.lstm(x, h, params)),
        (r"params\[0\] has shape", lambda: ops.gru(x, h, params)),
        (r"hx\[0\] has shape", lambda: ops.rnn(x, h[:, :2], params)),
        ("nonlinearity", lambda: ops.rnn(x, h, params, nonlinearity="gelu")),
        ("expected \\(T, N, I\\)", lambda: ops.rnn(x[0], h, params)),
        ("expected a device array", lambda: ops.rnn(np.zeros(3), h, params)),
        ("or 5 with a projection", lambda: ops.lstm(x, (h, h), params[:3])),
        (r"params\[4\] has shape", lambda: ops.lstm(x, (h, h), projected)),
        ("return_saved", lambda: ops.lstm_backward(x, None, None, saved)),
        ("batch_sizes", lambda: ops.rnn(x[0], h, params, batch_sizes=[1, 2])),
        ("return_saved", lambda: ops.rnn_backward(x, None, ops.rnn(x, h, params))),
        ("grad_output has shape", lambda: ops.rnn_backward(x, None, saved)),
        (r"hx\[0\] is float64, input float32", lambda: ops.rnn(x, h.astype(np.float64), params)),
        ("dropout=2 is no prob", lambda: ops.rnn(x, h, params, dropout=2, train=True)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
