"""Reductions whose tails, neutral elements or arguments were wrong elsewhere."""

import numpy as np
import pytest
from support import BFLOAT16, equal

import clprim as cp
from clprim import ops


def test_a_number_may_come_before_the_arrays(device):
    x = cp.asarray(np.arange(400, dtype=np.float32))
    total = cp.Reduction("y0 = w0 * x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    assert abs(float(total(x, x, 0.1)) / 2125340 - 1) < 1e-6


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 4095, 4096, 4097, 82369])
def test_ones_add_up_to_their_number(device, n):
    for dtype in (np.float32, np.int32):
        x = cp.ones((n,), dtype)
        assert int(x.sum()) == n
        assert int(cp.sum(x[::-1])) == n


@pytest.mark.alone
def test_many_ones_add_up_to_their_number(device):
    assert int(cp.ones(((1 << 24) + 1,), np.int32).sum()) == (1 << 24) + 1


@pytest.mark.parametrize(
    ("dtype", "value", "function"),
    [
        (np.int32, 8, "min"),
        (np.uint8, 255, "min"),
        (np.float32, np.inf, "min"),
        (np.float16, 3.0, "min"),
        (np.int8, -7, "max"),
        (np.float32, -np.inf, "max"),
        (np.float32, -2.5, "max"),
    ],
)
def test_the_neutral_element_is_no_result(device, dtype, value, function):
    for shape, axis in (((1000,), None), ((37, 5), 0), ((5, 37), 1)):
        x = cp.full(shape, value, dtype)
        found = getattr(x, function)(axis=axis)
        equal(found, np.full(found.shape, value, dtype))


@pytest.mark.everywhere
@pytest.mark.parametrize(("rows", "columns"), [(255, 3), (256, 10)])
def test_gradients_of_narrow_layers_of_16_bits_are_summed(device, rows, columns):
    a = np.arange(rows * columns).reshape(rows, columns) % 2
    for dtype in (BFLOAT16, np.float16):
        x = cp.asarray(a.astype(dtype))
        equal(x.sum(axis=0), a.sum(0).astype(dtype))
        equal(ops.nansum(x, axis=0), a.sum(0).astype(dtype))


def test_a_layer_of_bfloat16_learns_from_a_batch(device):
    torch = pytest.importorskip("torch")
    pytest.importorskip("clprim.torch")
    layer = torch.nn.Linear(64, 10).to(torch.bfloat16)
    x = torch.randint(-2, 3, (256, 64)).to(torch.bfloat16)
    g = torch.randint(-1, 2, (256, 10)).to(torch.bfloat16)
    place = "opencl"  # the current device; a numbered one has further devices in every later test
    layer = layer.to(place)
    layer(x.to(place)).backward(g.to(place))
    assert torch.equal(layer.bias.grad.cpu(), g.double().sum(0).to(torch.bfloat16))
    expected = (g.double().T @ x.double()).to(torch.bfloat16)
    assert torch.equal(layer.weight.grad.cpu(), expected)
