"""Folded weights are the layer and its normalisation in a row, in float64 NumPy and in PyTorch."""

import numpy as np
import pytest
from support import BFLOAT16, wide

import clprim as cp
from clprim import ops

# (name, shape of the weights, channels, transposed, groups)
LAYERS = [
    ("conv2d", (6, 4, 3, 3), 6, False, 1),
    ("depthwise", (6, 1, 3, 3), 6, False, 6),
    ("grouped", (6, 2, 3, 3), 6, False, 2),
    ("transposed", (4, 6, 3, 3), 6, True, 1),
    ("transposed grouped", (4, 3, 3, 3), 6, True, 2),
    ("transposed depthwise", (6, 1, 3, 3), 6, True, 6),
    ("conv1d", (6, 4, 5), 6, False, 1),
    ("linear", (6, 4), 6, False, 1),
]


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parameters(channels, seed=0):
    """(mean, var, gamma, beta): gammas of both signs, a tiny variance and a large one."""
    mean, gamma, beta = (random(channels, seed + n) for n in range(3))
    gamma[0], gamma[1] = -1.5, 0
    var = random(channels, seed + 3) ** 2 + np.float32(0.1)
    var[2], var[3] = 1e-12, 1e6
    return mean, var, gamma, beta


def upload(*hosts):
    return [None if h is None else cp.asarray(h) for h in hosts]


def scale_of(shape, scale, transposed, groups):
    """The factor of every weight, in the shape of the weights."""
    if not transposed:
        return np.broadcast_to(scale.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    factors = np.zeros(shape)
    inputs, outputs = shape[0] // groups, shape[1]
    for i in range(shape[0]):
        for o in range(outputs):
            factors[i, o] = scale[i // inputs * outputs + o]
    return factors


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("name", "shape", "channels", "transposed", "groups"), LAYERS)
def test_every_layer(device, name, shape, channels, transposed, groups, has_bias):
    w, bias = random(shape, 9), random(channels, 8) if has_bias else None
    mean, var, gamma, beta = parameters(channels)
    folded, shift = ops.fold_batch_norm(
        *upload(w, bias, mean, var, gamma, beta), eps=1e-3, transposed=transposed
    )
    scale = gamma / np.sqrt(var.astype(np.float64) + 1e-3)
    expected = w * scale_of(shape, scale, transposed, groups)
    np.testing.assert_allclose(folded.get(), expected, rtol=1e-6)
    start = np.zeros(channels) if bias is None else bias.astype(np.float64)
    np.testing.assert_allclose(shift.get(), (start - mean) * scale + beta, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "shape", "channels", "transposed", "groups"), LAYERS)
def test_pytorch_computes_the_same(device, name, shape, channels, transposed, groups):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    kind = {2: "Linear", 3: "Conv1d", 4: "ConvTranspose2d" if transposed else "Conv2d"}[len(shape)]
    inputs = shape[0] if transposed else shape[1] * groups
    options = {} if kind == "Linear" else {"kernel_size": shape[2:], "groups": groups}
    layer = getattr(torch.nn, kind)(inputs, channels, **options).double()
    assert tuple(layer.weight.shape) == shape
    norm = (torch.nn.BatchNorm2d if len(shape) == 4 else torch.nn.BatchNorm1d)(channels).double()
    mean, var, gamma, beta = parameters(channels)
    with torch.no_grad():
        for target, value in (
            (norm.running_mean, mean),
            (norm.running_var, var),
            (norm.weight, gamma),
            (norm.bias, beta),
        ):
            target.copy_(torch.from_numpy(value))
    norm.eval()
    x = torch.randn(2, inputs, *((8,) * (len(shape) - 2)), dtype=torch.float64)
    with torch.no_grad():
        expected = norm(layer(x)).numpy()
        w, bias = layer.weight.numpy().copy(), layer.bias.numpy().copy()
        given = [a.astype(np.float64) for a in (w, bias, mean, var, gamma, beta)]
        folded, shift = ops.fold_batch_norm(*upload(*given), transposed=transposed)
        layer.weight.copy_(torch.from_numpy(folded.get()))
        layer.bias.copy_(torch.from_numpy(shift.get()))
        np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float64], ids=str)
def test_weights_keep_their_dtype_and_memory_format(device, dtype):
    w = random((6, 4, 3, 3)).astype(dtype)
    mean, var, gamma, beta = parameters(6)
    var[2] = 0.5
    given = cp.asarray(w, memory_format="channels_last")
    folded, shift = ops.fold_batch_norm(given, None, *upload(mean, var, gamma, beta))
    assert (folded.dtype, folded.strides, shift.dtype) == (given.dtype, given.strides, given.dtype)
    scale = (gamma / np.sqrt(var.astype(np.float64) + 1e-5)).reshape(-1, 1, 1, 1)
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-50}[np.dtype(dtype).name]
    np.testing.assert_allclose(wide(folded.get()), wide(w) * scale, rtol=2 * unit, atol=1e-7)
    _, shift = ops.fold_batch_norm(given, cp.zeros(6), *upload(mean, var, gamma, beta))
    assert shift.dtype == np.float32


def test_gamma_and_beta_are_optional(device):
    w = random((6, 4))
    mean, var, _, beta = parameters(6)
    scale = 1 / np.sqrt(var.astype(np.float64) + 1e-5)
    folded, shift = ops.fold_batch_norm(*upload(w, None, mean, var, None, None))
    np.testing.assert_allclose(folded.get(), w * scale[:, None], rtol=1e-6)
    np.testing.assert_allclose(shift.get(), -mean * scale, rtol=1e-6)
    _, shift = ops.fold_batch_norm(*upload(w, None, mean, var, None, beta))
    np.testing.assert_allclose(shift.get(), beta - mean * scale, rtol=1e-5, atol=1e-5)


def test_nothing_is_changed_in_place(device):
    given = upload(random((6, 4)), random(6), *parameters(6))
    before = [a.get() for a in given]
    ops.fold_batch_norm(*given)
    for array, host in zip(given, before, strict=True):
        np.testing.assert_array_equal(array.get(), host)


REFUSED = [
    ({"w": (4, 6, 3, 3)}, cp.ShapeError, r"\(4, 6, 3, 3\), whose first axis is not the 6 channels"),
    ({"w": (4, 6, 3, 3)}, cp.ShapeError, "transposed=True"),
    ({"w": (4, 4, 3, 3), "transposed": True}, cp.ShapeError, r"\(C_in, C / groups, …\) with C = 6"),
    ({"w": (3, 3, 3, 3), "transposed": True}, cp.ShapeError, r"shape \(3, 3, 3, 3\)"),
    ({"w": (6,)}, cp.ShapeError, "two dimensions at least"),
    ({"bias": (5,)}, cp.ShapeError, r"bias has shape \(5,\), expected \(6,\)"),
    ({"beta": (6, 1)}, cp.ShapeError, r"beta has shape \(6, 1\), expected \(6,\)"),
]


@pytest.mark.parametrize(("changes", "error", "message"), REFUSED)
def test_shapes_that_cannot_be_folded(device, changes, error, message):
    options = {"transposed": changes.pop("transposed")} if "transposed" in changes else {}
    names = ("w", "bias", "mean", "var", "gamma", "beta")
    shapes = {"w": (6, 4, 3, 3), **dict.fromkeys(names[1:], (6,)), **changes}
    arrays = [cp.full(shapes[name], 1.0) for name in names]
    with pytest.raises(error, match=message):
        ops.fold_batch_norm(*arrays, **options)
    if options:
        changes["transposed"] = True


def test_values_that_cannot_be_folded(device):
    w, zero, one = cp.full((2, 3), 1.0), cp.zeros(2), cp.full(2, 1.0)
    for bad in (-1.0, float("nan"), float("inf"), -1e-5):
        var = cp.asarray(np.float32([1, bad]))
        with pytest.raises(cp.DTypeError, match="var \\+ eps must be positive and finite"):
            ops.fold_batch_norm(w, None, zero, var, one, zero)
    with pytest.raises(cp.DTypeError, match=r"positive and finite in every channel, eps=0\.0"):
        ops.fold_batch_norm(w, None, zero, zero, one, zero, eps=0)
    with pytest.raises(cp.DTypeError, match="w is int8"):
        ops.fold_batch_norm(w.astype(np.int8), None, zero, one, one, zero)
    with pytest.raises(cp.DTypeError, match="w' is not finite in float16"):
        large = cp.full((2, 3), 1000, np.float16)
        ops.fold_batch_norm(large, None, zero, zero, one, zero)
    with pytest.raises(cp.DTypeError, match="bias' is not finite in float32"):
        ops.fold_batch_norm(w, None, zero, one, one, cp.full(2, float("inf")))
    with pytest.raises(cp.DTypeError, match="for var, got None"):
        ops.fold_batch_norm(w, None, zero, None, one, zero)
