"""A function has one value: on the PyTorch device, in `clprim.ops` and in layers that are fused."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402
from clprim import ops  # noqa: E402

F = torch.nn.functional

NUMBERS = [0, -0.0, 1e-3, -1e-3, 1e-40, 0.5, -1, 3, -3, 6, -15, -30, 20, 88, -88, -90, -100]
EDGES = np.float32([*NUMBERS, 1e10, -1e10, 3e38, math.inf, -math.inf, math.nan])
FUNCTIONS = {
    name: getattr(F, name, None) or getattr(torch, name)
    for name in (
        "relu relu6 sigmoid silu logsigmoid softplus elu celu selu mish gelu hardtanh hardsigmoid "
        "hardswish leaky_relu hardshrink softshrink softsign tanhshrink logit expm1 sinc frac"
    ).split()
}


def bits(array):
    found = array.astype(np.float32).view(np.uint32).copy()
    found[np.isnan(array)] = 0x7FC00000
    return found


@pytest.mark.parametrize("name", ["relu", "sigmoid", "logit", "tanhshrink", "hardtanh", "elu"])
def test_the_device_has_the_operators_values(device, name):
    found = FUNCTIONS[name](torch.from_numpy(EDGES).to("opencl")).cpu().numpy()
    if name != "tanhshrink":  # PyTorch makes it of two
        wanted = getattr(ops, name)(cp.asarray(EDGES)).get()
        np.testing.assert_array_equal(bits(found), bits(wanted))


@pytest.mark.alone
@pytest.mark.parametrize("name", FUNCTIONS)
def test_zeros_and_tails_are_pytorchs(device, name):
    x = cp.asarray(EDGES)
    found = getattr(ops, name)(x).get()
    if name != "tanhshrink":  # odd, as the function is; PyTorch subtracts zeros
        zero = FUNCTIONS[name](torch.tensor([0.0, -0.0])).numpy()
        np.testing.assert_array_equal(bits(found[:2]), bits(zero))
    exact = FUNCTIONS[name](torch.from_numpy(EDGES.astype(np.float64))).numpy()
    if name not in ("tanhshrink", "sinc"):  # of which PyTorch's cancels
        np.testing.assert_allclose(found, exact.astype(np.float32), rtol=4e-6, atol=1e-40)


@pytest.mark.parametrize("name", ["relu", "silu", "sigmoid"])
def test_fused_networks_have_them(device, name):
    class Net(torch.nn.Module):
        def forward(self, x):
            return FUNCTIONS[name](x * 1)

    fused = ct.fuse(Net().eval())
    found = fused(torch.from_numpy(EDGES).to("opencl")).cpu().numpy()
    np.testing.assert_array_equal(bits(found), bits(getattr(ops, name)(cp.asarray(EDGES)).get()))


def test_gates_have_them(device):
    # The memory's gates are open or closed, so that the state is tanh(1) times the sigmoid.
    x = np.float32([-90, -20, -1e-3, 0, 3])
    gates = np.zeros((x.size, 4), np.float32)
    gates[:, 0], gates[:, 1], gates[:, 2], gates[:, 3] = 200, -200, 200, x
    lstm = torch.nn.LSTMCell(4, 1).to("opencl")
    with torch.no_grad():
        lstm.weight_ih.copy_(torch.eye(4))
        lstm.bias_ih.zero_()
        lstm.bias_hh.zero_()
        state, memory = lstm(torch.from_numpy(gates).to("opencl"))
    assert (memory == 1).all()
    wanted = ops.sigmoid(cp.asarray(x)).get() * np.tanh(np.float32(1))
    np.testing.assert_allclose(state.cpu().numpy().ravel(), wanted, rtol=1e-6)


@pytest.mark.parametrize("x", [-100.0, 0.0, 100.0])
def test_gates_have_slopes_everywhere(device, x):
    lstm = torch.nn.LSTMCell(1, 1).to("opencl")
    given = torch.full((2, 1), x, device="opencl", requires_grad=True)
    sum(part.sum() for part in lstm(given)).backward()
    assert torch.isfinite(given.grad).all()


def test_relu_of_a_cell_has_no_slope_at_zero(device):
    cell = torch.nn.RNNCell(2, 2, nonlinearity="relu", bias=False).to("opencl")
    x = torch.zeros(1, 2, device="opencl", requires_grad=True)
    cell(x).sum().backward()
    assert (x.grad == 0).all()
    h, w = cp.zeros((1, 2)), cp.full((2, 2), 1.0)
    _, saved = ops.rnn_relu_cell(cp.zeros((1, 2)), h, w, w, return_saved=True)
    gx = ops.rnn_relu_cell_backward(cp.full((1, 2), 1.0), saved)[0]
    assert not gx.get().any()


def test_the_sign_of_nan_is_each_librarys(device):
    x = np.float32([math.nan, -2, 0, -0.0])
    there = torch.from_numpy(x).to("opencl")
    assert torch.sign(there).cpu().tolist() == torch.sign(torch.from_numpy(x)).tolist()
    assert torch.sgn(there).cpu().tolist() == torch.sgn(torch.from_numpy(x)).tolist()
    np.testing.assert_array_equal(cp.sign(cp.asarray(x)).get(), np.sign(x))


HALVES = {
    "eq": lambda x: x == 0.1,
    "eq of a tensor": lambda x: x == torch.tensor(0.1, device=x.device),
    "lt": lambda x: x < 0.1,
    "remainder": lambda x: x % 0.1,
    "remainder of": lambda x: torch.remainder(0.1, x),
    "fmod": lambda x: torch.fmod(x, 0.1),
    "add": lambda x: x + 0.1,
    "difference": lambda x: 0.1 - x,
    "alpha": lambda x: torch.add(x, x, alpha=0.1),
    "pow": lambda x: x.abs() ** 0.1,
    "product": lambda x: x * 0.1,
    "quotient": lambda x: x / 0.1,
    "hardshrink": lambda x: F.hardshrink(x, 0.1),
    "clamp": lambda x: x.clamp(max=0.1),
}


@pytest.mark.alone
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_numbers_beside_16_bits_are_rounded_as_pytorch_does(device, dtype):
    ct.fallback("error")
    x = torch.tensor([0.1, -0.1, 0.25, 1.7, 7, -3], dtype=dtype)
    for name, function in HALVES.items():
        found, wanted = function(x.to("opencl")).cpu(), function(x)
        assert torch.equal(found, wanted), name
    ct.fallback("warn")
