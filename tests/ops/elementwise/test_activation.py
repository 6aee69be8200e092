"""Activations of `clprim.ops` against PyTorch in float64."""

import math

import numpy as np
import pytest
from support import BFLOAT16, DTYPES, same_bits

import clprim as cp
from clprim import ops

# name: arguments
CALLS = {
    "relu": (),
    "relu6": (),
    "leaky_relu": (0.2,),
    "elu": (0.7,),
    "celu": (0.7,),
    "selu": (),
    "silu": (),
    "sigmoid": (),
    "tanh": (),
    "softplus": (1.5, 10.0),
    "hardsigmoid": (),
    "hardswish": (),
    "hardtanh": (-2.0, 1.5),
    "mish": (),
    "logsigmoid": (),
    "threshold": (0.5, -20.0),
    "gelu": ("none",),
    "hardshrink": (0.75,),
    "softshrink": (0.75,),
    "softsign": (),
}
KEEP_INTEGERS = {"relu", "relu6", "threshold"}
SPECIAL = [0.0, -0.0, np.nan, 1e-6, -1e-6, 3.0, -3.0, 6.0, 20.0, -20.0, 87.0, -87.0, 1e4, -1e4]


@pytest.fixture
def functional():
    return pytest.importorskip("torch.nn.functional")


def reference(functional, name, host):
    import torch

    exact = host.astype(np.float64)
    if name == "gelu":  # which PyTorch calculates by a formula that cancels
        return exact / 2 * np.vectorize(math.erfc)(-exact / math.sqrt(2))
    return getattr(functional, name)(torch.from_numpy(exact), *CALLS[name]).numpy()


def samples(shape, dtype=np.float32):
    host = 4 * np.random.default_rng(0).standard_normal(shape)
    host.reshape(-1)[: len(SPECIAL)] = SPECIAL
    return host.astype(dtype)


def check(found, expected, host, unit=2.0**-24):
    # OpenCL grants exp 3, erf and erfc 16 units in the last place, and some operations come after;
    # tanh's argument in gelu and the exponential of x scale an error of the argument by x.
    scale = np.abs(expected) + np.minimum(np.abs(np.nan_to_num(host)), 1) * unit
    error = 32 * unit * scale + np.finfo(np.float32).tiny
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert (np.abs(found - expected) <= error)[~np.isnan(expected)].all()


# What PyTorch has not, by the definition.
DEFINED = {
    "selu": ((0.5, 2.0), lambda x: 2 * np.where(x > 0, x, 0.5 * np.expm1(x))),
    "swish": ((1.7,), lambda x: x / (1 + np.exp(-1.7 * x))),
    "shrink": ((0.5, 0.2), lambda x: np.where(np.abs(x) > 0.5, x - np.sign(x) * 0.2, x * 0)),
}


@pytest.mark.parametrize("name", DEFINED)
def test_against_the_definition(device, name):
    numbers, exact = DEFINED[name]
    host = samples((3, 5, 7))
    with np.errstate(all="ignore"):
        expected = exact(host.astype(np.float64))
    found = getattr(ops, name)(cp.asarray(host), *numbers).get()
    np.testing.assert_allclose(found, expected, rtol=4e-6, atol=1e-30)
    at, grad = np.linspace(-2.93, 3.1, 41), np.linspace(1, 2, 41)
    arrays = (cp.asarray(a.astype(np.float32)) for a in (grad, at))
    slope = (exact(at + 1e-6) - exact(at - 1e-6)) / 2e-6
    found = getattr(ops, f"{name}_backward")(*arrays, *numbers).get()
    np.testing.assert_allclose(found, grad * slope, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("name", CALLS)
def test_against_torch(device, functional, name, memory_format):
    host = samples((3, 5, 7, 11))
    x = cp.asarray(host, memory_format=memory_format)
    result = getattr(ops, name)(x, *CALLS[name])
    assert result.strides == x.strides
    assert result.dtype == np.float32
    check(result.get().astype(np.float64), reference(functional, name, host), host)
    # Into the input itself.
    assert getattr(ops, name)(x, *CALLS[name], out=x) is x
    assert same_bits(x, result)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in ("relu", "sigmoid") for d in DTYPES]
    + [(n, np.dtype(d)) for n in ("relu6", "threshold", "elu") for d in (bool, np.int8, BFLOAT16)],
    ids=str,
)
def test_dtypes(device, functional, name, dtype):
    host = np.arange(2 if dtype.kind == "b" else 9).astype(dtype)
    args = CALLS[name]
    if name == "threshold" and dtype.kind in "biu":
        args = (1, 0)
    result = getattr(ops, name)(cp.asarray(host), *args)
    keeps = dtype.kind not in "biu" or name in KEEP_INTEGERS
    if dtype.kind == "b" and name == "threshold":
        assert result.dtype == np.int64  # what NumPy makes of bool and an int
        return
    assert result.dtype == (dtype if keeps else np.float32)
    if name == "threshold" and dtype.kind in "iu":
        expected = np.where(host <= 1, 0, host)
    else:
        expected = reference(functional, name, host)
    unit = {"float16": 2.0**-11, BFLOAT16.name: 2.0**-8}.get(dtype.name, 2.0**-24)
    np.testing.assert_allclose(result.get().astype(np.float64), expected, rtol=32 * unit)


@pytest.mark.oclgrind
def test_signed_bytes(device):
    # llvmpipe crashed or took other elements where ?: chose between a constant and a char.
    host = np.arange(-37, 37, dtype=np.int8).reshape(2, 37)
    x = cp.asarray(host)
    np.testing.assert_array_equal(ops.relu(x).get(), np.maximum(host, 0))
    np.testing.assert_array_equal(ops.relu6(x).get(), np.clip(host, 0, 6))
    np.testing.assert_array_equal(ops.threshold(x, 3, 7).get(), np.where(host <= 3, 7, host))
    np.testing.assert_array_equal(ops.sign(x).get(), np.sign(host))
    wide = host.astype(np.float64)
    mish = wide * np.tanh(np.logaddexp(0, wide))
    np.testing.assert_allclose(ops.mish(x).get(), mish, rtol=2e-6)


@pytest.mark.parametrize("name", ["gelu", "selu", "mish", "silu", "softplus"])
def test_double_is_as_precise_as_double(device, functional, name):
    host = 3 * np.random.default_rng(1).standard_normal(200)
    found = getattr(ops, name)(cp.asarray(host), *CALLS[name]).get()
    check(found, reference(functional, name, host), host, unit=2.0**-50)


def test_gelu_by_tanh(device, functional):
    import torch

    host = samples((200,))
    found = ops.gelu(cp.asarray(host), "tanh").get()
    expected = functional.gelu(torch.from_numpy(host).double(), approximate="tanh").numpy()
    # The exponential multiplies the error of its argument, which is below 100 where it matters.
    error = 256 * 2.0**-24 * np.abs(expected) + 2.0**-40 * np.abs(host)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(host))
    assert (np.abs(found - expected) <= error)[~np.isnan(host)].all()
    with pytest.raises(cp.DefinitionError, match="'none' or 'tanh'"):
        ops.gelu(cp.asarray(host), "erf")


def test_no_digits_are_lost_in_the_tails(device):
    """Where a formula cancels or underflows early, its value is known another way."""
    x = np.array([-5, -10, -12], np.float32)
    expected = [v / 2 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    np.testing.assert_allclose(ops.gelu(cp.asarray(x)).get(), expected, rtol=2e-5)
    x = np.array([-80, -87], np.float32)
    np.testing.assert_allclose(ops.sigmoid(cp.asarray(x)).get(), np.exp(x.astype(float)), rtol=1e-5)
    x = np.array([200, 1000], np.float32)
    assert (ops.logsigmoid(cp.asarray(-x)).get() == -x).all()
    assert (ops.softplus(cp.asarray(x), 1.0, 1e9).get() == x).all()


def test_integers_beside_slopes_of_floats_are_promoted_as_numpy_does(device):
    host = np.array([[-3, 5], [-7, -2]], np.int32)
    slopes = np.array([0.1, 0.3])
    for x, weight in ((host, slopes), (host.astype(np.int8), slopes), (host + 0.5, slopes > 0.2)):
        found = ops.prelu(cp.asarray(x), cp.asarray(weight))
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found.get(), np.where(x > 0, x, x * weight))
    assert ops.prelu(cp.asarray(host), cp.asarray(np.array([2, 3]))).dtype == np.float32


def test_prelu_per_channel(device, functional):
    import torch

    for shape in ((2, 3), (2, 3, 5), (2, 3, 4, 5)):
        host = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for weight in (np.array([0.1, 0.2, 0.3], np.float32), np.array([0.5], np.float32)):
            found = ops.prelu(cp.asarray(host), cp.asarray(weight))
            expected = functional.prelu(torch.from_numpy(host), torch.from_numpy(weight))
            np.testing.assert_array_equal(found.get(), expected.numpy())
    last = cp.asarray(host, memory_format="channels_last")
    found = ops.prelu(last, cp.asarray(np.array([0.1, 0.2, 0.3], np.float32)))
    assert found.strides == last.strides
    assert ops.prelu(cp.full((), -2.0), cp.full((1,), 0.5)).item() == -1
    with pytest.raises(cp.ShapeError, match="3 channels"):
        ops.prelu(last, cp.asarray(np.ones(2, np.float32)))
    with pytest.raises(cp.DTypeError, match="weight"):
        ops.prelu(last, 0.25)


def test_parameters_keep_the_dtype(device):
    x = cp.asarray(np.array([-1, 1], np.float32))
    assert ops.leaky_relu(x, np.float64(0.5)).dtype == np.float32
    assert ops.elu(cp.asarray(np.array([1, 2], np.uint8)), -1).dtype == np.float32
    assert ops.hardtanh(x, 0, 1).get().tolist() == [0, 1]
    with pytest.raises(cp.DTypeError, match="negative_slope"):
        ops.leaky_relu(x, "steep")


def test_errors_and_nothing(device):
    with pytest.raises(cp.DTypeError, match="device array"):
        ops.relu(np.ones(3, np.float32))
    with pytest.raises(cp.DTypeError):
        ops.sigmoid([1.0])
    with pytest.raises(cp.ShapeError):
        ops.silu(cp.zeros(3), out=cp.zeros(4)[:2])
    assert ops.gelu(cp.zeros((0, 4))).shape == (0, 4)


def test_tanhshrink_cancels_as_its_formula_does(device, functional):
    x = samples((8, 9))
    expected = x - np.tanh(x.astype(np.float64))
    np.testing.assert_allclose(ops.tanhshrink(cp.asarray(x)).get(), expected, rtol=1e-6, atol=2e-7)
