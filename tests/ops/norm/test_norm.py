"""Layer, group, instance, RMS and local response normalisation against NumPy and PyTorch."""

import math

import numpy as np
import pytest
from norm_cases import close, upload
from support import BFLOAT16, Guard, same_bits, wide

import clprim as cp
from clprim import ops

FORMATS = ["contiguous", "channels_last"]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]
SHAPES = [(4, 6), (3, 6, 5), (2, 6, 4, 5), (2, 6, 2, 3, 4)]


def random(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def standardized(x, axes, eps):
    x = x.astype(np.float64)
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps), mean, 1 / np.sqrt(var + eps)


def channels(vector, ndim):
    return vector.reshape(-1, *(1,) * (ndim - 2))


# --- in float64 NumPy -----------------------------------------------------------------------------


def layer(x, weight, bias, eps=1e-5):
    axes = tuple(range(x.ndim - weight.ndim, x.ndim))
    y, mean, rstd = standardized(x, axes, eps)
    return y * weight + bias, mean, rstd


def group(x, groups, weight, bias, eps=1e-5):
    grouped = x.reshape(x.shape[0], groups, -1)
    y, mean, rstd = standardized(grouped, (2,), eps)
    y = y.reshape(x.shape) * channels(weight, x.ndim) + channels(bias, x.ndim)
    return y, mean[..., 0], rstd[..., 0]


def rms(x, weight, eps):
    axes = tuple(range(x.ndim - weight.ndim, x.ndim))
    x = x.astype(np.float64)
    rstd = 1 / np.sqrt((x * x).mean(axes, keepdims=True) + eps)
    return x * rstd * weight, rstd


def response(x, size, alpha, beta, k):
    x = x.astype(np.float64)
    sums = np.zeros_like(x)
    for c in range(x.shape[1]):
        first, last = max(0, c - size // 2), c + (size - 1) // 2
        sums[:, c] = (x[:, first : last + 1] ** 2).sum(1)
    return x / (k + alpha / size * sums) ** beta


# --- forward --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("memory_format", FORMATS)
def test_layer_norm(device, dtype, memory_format):
    kind = np.float64 if dtype == np.float64 else np.float32
    for shape, last in (((5, 40), 1), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), 3)):
        x = (random(shape) * 2 + 3).astype(dtype)
        weight, bias = random(shape[-last:], 1, kind), random(shape[-last:], 2, kind)
        given = upload(x, memory_format)
        y, mean, rstd = ops.layer_norm(
            given, shape[-last:], upload(weight), upload(bias), return_stats=True
        )
        assert (y.shape, y.dtype, y.strides) == (shape, dtype, given.strides)
        expected = layer(wide(x), weight, bias)
        close(y, expected[0], dtype, 4)
        close(mean, expected[1], kind, 3)
        close(rstd, expected[2], kind)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("memory_format", FORMATS)
def test_group_and_instance_norm(device, some, dtype, memory_format):
    kind = np.float64 if dtype == np.float64 else np.float32
    for shape in SHAPES if dtype in some(FLOATS, 4) else SHAPES[2:3]:
        x = (random(shape) * 2 + 3).astype(dtype)
        weight, bias = random(6, 1, kind), random(6, 2, kind)
        given = upload(x, memory_format)
        for groups in (1, 3, 6):
            if math.prod(shape) // groups == shape[0]:
                continue
            y, mean, rstd = ops.group_norm(
                given, groups, upload(weight), upload(bias), return_stats=True
            )
            assert (y.shape, y.dtype, y.strides) == (shape, dtype, given.strides)
            expected = group(wide(x), groups, weight, bias)
            close(y, expected[0], dtype, 4)
            close(mean, expected[1], kind, 3)
            close(rstd, expected[2], kind, 4)
        if len(shape) > 2:
            y = ops.instance_norm(given, weight=upload(weight), bias=upload(bias))
            close(y, expected[0], dtype, 4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rms_norm(device, dtype):
    kind = np.float64 if dtype == np.float64 else np.float32
    x, weight = random((3, 4, 30)).astype(dtype), random((4, 30), 1, kind)
    y, rstd = ops.rms_norm(upload(x), (4, 30), upload(weight), 1e-3, return_stats=True)
    expected = rms(wide(x), weight, 1e-3)
    assert (y.dtype, rstd.shape, rstd.dtype) == (dtype, (3, 1, 1), kind)
    close(y, expected[0], dtype, 4)
    close(rstd, expected[1], kind)
    close(ops.rms_norm(upload(x), [30]), rms(wide(x), np.ones(30), 0)[0], dtype, 4)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("size", [1, 2, 5, 13])
def test_local_response_norm(device, size, memory_format):
    for shape in ((2, 7, 5), (2, 7, 3, 5)):
        x = random(shape) * 3
        given = upload(x, memory_format)
        y = ops.local_response_norm(given, size, 0.3, 0.6, 1.5)
        assert y.strides == given.strides
        close(y, response(x, size, 0.3, 0.6, 1.5), np.float32, 10)
    half = x.astype(np.float16)
    y = ops.local_response_norm(upload(half, memory_format), size)
    assert y.dtype == np.float16
    close(y, response(half, size, 1e-4, 0.75, 1.0), np.float16, 10)


def test_far_from_zero(device):
    x = random((64, 32)) + np.float32(1e4)
    one, zero = np.ones(32), np.zeros(32)
    y = ops.layer_norm(upload(x), 32)
    # The mean itself is rounded to float32, by half a unit in the last place of 1e4.
    np.testing.assert_allclose(y.get(), layer(x, one, zero)[0], atol=1e4 * 2.0**-24 * 2)
    constant = cp.full((3, 4, 5), 0.1)
    for y in (
        ops.layer_norm(constant, 5),
        ops.group_norm(constant, 2),
        ops.instance_norm(constant),
    ):
        np.testing.assert_array_equal(y.get(), 0)


# --- gradients ------------------------------------------------------------------------------------


def differences(function, arrays, slope, step=1e-6):
    """Σ slope · function(*arrays), derived by central differences after every array."""
    found = []
    for n, array in enumerate(arrays):
        gradient = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            values = []
            for sign in (step, -step):
                moved = [a.copy() for a in arrays]
                moved[n][at] += sign
                values.append(float((function(*moved) * slope).sum()))
            gradient[at] = (values[0] - values[1]) / (2 * step)
        found.append(gradient)
    return found


CASES = {
    "layer_norm": ((3, 4, 5), (4, 5), layer),
    "group_norm": ((2, 6, 3), (6,), lambda x, w, b: group(x, 3, w, b)),
    "instance_norm": ((2, 3, 5), (3,), lambda x, w, b: group(x, 3, w, b)),
}


def run_backward(name, *given, **options):
    grad, x, weight, *stats = given
    extra = {"layer_norm": [tuple(x.shape[1:])], "group_norm": [3], "instance_norm": []}[name]
    return getattr(ops, f"{name}_backward")(grad, x, *extra, weight, *stats, **options)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_differences(device, name):
    if not device.traits.fp64:
        pytest.skip("no float64")
    shape, parameters, reference = CASES[name]
    arrays = [random(shape, 1, float), random(parameters, 2, float), random(parameters, 3, float)]
    slope = random(shape, 4, float)
    expected = differences(lambda *a: reference(*a)[0], arrays, slope)
    grad, x, weight = upload(slope), upload(arrays[0]), upload(arrays[1])
    found = run_backward(name, grad, x, weight)
    for gradient, numeric in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient.get(), numeric, atol=1e-7)
    # From statistics that are there, without a weight, and of those that are wanted alone.
    _, mean, rstd = reference(*arrays)
    again = run_backward(name, grad, x, weight, upload(mean), upload(rstd))
    for one, other in zip(found, again, strict=True):
        np.testing.assert_allclose(one.get(), other.get(), rtol=1e-12, atol=1e-12)
    plain = run_backward(name, grad, x, None)
    arrays[1] = np.ones_like(arrays[1])
    expected = differences(
        lambda *a: reference(*a)[0], arrays[:1] + arrays[1:2] + arrays[2:], slope
    )
    for gradient, numeric in zip(plain, expected, strict=True):
        np.testing.assert_allclose(gradient.get(), numeric, atol=1e-7)
    for n in range(3):
        mask = [m == n for m in range(3)]
        alone = run_backward(name, grad, x, weight, output_mask=mask)
        assert [g is not None for g in alone] == mask
        assert same_bits(alone[n], found[n])


def test_gradients_of_rms_norm_are_differences(device):
    if not device.traits.fp64:
        pytest.skip("no float64")
    arrays, slope = [random((3, 4, 5), 1, float), random(5, 2, float)], random((3, 4, 5), 3, float)
    expected = differences(lambda x, w: rms(x, w, 1e-2)[0], arrays, slope)
    grad, x, weight = upload(slope), *map(upload, arrays)
    found = ops.rms_norm_backward(grad, x, 5, weight, eps=1e-2)
    for gradient, numeric in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient.get(), numeric, atol=1e-7)
    dx, nothing = ops.rms_norm_backward(grad, x, 5, None, eps=1e-2, output_mask=(True, False))
    assert nothing is None
    (expected,) = differences(lambda x: rms(x, np.ones(5), 1e-2)[0], arrays[:1], slope)
    np.testing.assert_allclose(dx.get(), expected, atol=1e-7)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_gradients_of_local_response_norm_are_differences(device, size):
    if not device.traits.fp64:
        pytest.skip("no float64")
    x, slope = random((2, 5, 3), 1, float), random((2, 5, 3), 2, float)
    (expected,) = differences(lambda x: response(x, size, 0.5, 0.7, 1.2), [x], slope)
    found = ops.local_response_norm_backward(upload(slope), upload(x), size, 0.5, 0.7, 1.2)
    np.testing.assert_allclose(found.get(), expected, atol=1e-7)


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
def test_pytorch_agrees(device, memory_format):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    host, grad = random((4, 12, 7, 5)) * 2 + 1, random((4, 12, 7, 5), 1)
    x, g = upload(host, memory_format), upload(grad, memory_format)
    last, vector = [random((7, 5), n) for n in (2, 3)], [random(12, n) for n in (4, 5)]

    def check(mine, gradients, theirs, *parameters):
        tensors = [torch.from_numpy(a).double().requires_grad_() for a in (host, *parameters)]
        result = theirs(*tensors)
        result.backward(torch.from_numpy(grad).double())
        np.testing.assert_allclose(mine.get(), result.detach().numpy(), atol=1e-5, rtol=1e-5)
        for gradient, tensor in zip(gradients, tensors, strict=True):
            np.testing.assert_allclose(gradient.get(), tensor.grad.numpy(), atol=1e-4, rtol=1e-5)

    w, b = map(upload, last)
    check(
        ops.layer_norm(x, (7, 5), w, b),
        ops.layer_norm_backward(g, x, (7, 5), w),
        lambda x, w, b: functional.layer_norm(x, (7, 5), w, b),
        *last,
    )
    check(
        ops.rms_norm(x, (7, 5), w),
        ops.rms_norm_backward(g, x, (7, 5), w),
        lambda x, w: functional.rms_norm(x, (7, 5), w, 2.0**-23),
        last[0],
    )
    w, b = map(upload, vector)
    check(
        ops.group_norm(x, 4, w, b),
        ops.group_norm_backward(g, x, 4, w),
        lambda x, w, b: functional.group_norm(x, 4, w, b),
        *vector,
    )
    check(
        ops.instance_norm(x, weight=w, bias=b),
        ops.instance_norm_backward(g, x, w),
        lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
        *vector,
    )
    check(
        ops.local_response_norm(x, 4, 0.1),
        [ops.local_response_norm_backward(g, x, 4, 0.1)],
        lambda x: functional.local_response_norm(x, 4, 0.1),
    )


def test_running_statistics_of_instances(device):
    torch = pytest.importorskip("torch")
    x = random((5, 3, 4, 6)) * 2 + 1
    running, theirs = [cp.zeros(3), cp.full(3, 1.0)], [torch.zeros(3), torch.ones(3)]
    y = ops.instance_norm(upload(x), *running, momentum=0.3)
    expected = torch.nn.functional.instance_norm(torch.from_numpy(x), *theirs, momentum=0.3)
    np.testing.assert_allclose(y.get(), expected.numpy(), atol=2e-6)
    for mine, other in zip(running, theirs, strict=True):
        np.testing.assert_allclose(mine.get(), other.numpy(), rtol=1e-5)
    y = ops.instance_norm(upload(x), *running, use_input_stats=False)
    expected = torch.nn.functional.instance_norm(
        torch.from_numpy(x), *theirs, use_input_stats=False
    )
    np.testing.assert_allclose(y.get(), expected.numpy(), atol=2e-6)
    np.testing.assert_allclose(running[0].get(), theirs[0].numpy(), rtol=1e-5)


# --- edges ----------------------------------------------------------------------------------------


def test_of_nothing(device):
    x = cp.zeros((0, 6, 4))
    for y in (
        ops.layer_norm(x, 4),
        ops.rms_norm(x, 4),
        ops.group_norm(x, 3),
        ops.instance_norm(x),
        ops.local_response_norm(x, 3),
        ops.local_response_norm_backward(x, x, 3),
    ):
        assert y.shape == (0, 6, 4)
    dx, dweight, dbias = ops.group_norm_backward(x, x, 3)
    assert dx.shape == (0, 6, 4)
    assert (dweight.get() == 0).all()
    assert (dbias.get() == 0).all()
    _, dweight, _ = ops.layer_norm_backward(x, x, 4)
    assert (dweight.get() == 0).all()


def test_in_place_and_into_a_view(device):
    host = random((3, 6, 8))
    calls = [
        lambda x, out: ops.layer_norm(x, 8, out=out),
        lambda x, out: ops.rms_norm(x, 8, out=out),
        lambda x, out: ops.group_norm(x, 2, out=out),
        lambda x, out: ops.instance_norm(x, out=out),
        lambda x, out: ops.local_response_norm(x, 3, out=out),
    ]
    for call in calls:
        expected = call(upload(host), None).get()
        guard, inside = Guard((3, 6, 8)), upload(host)
        assert call(upload(host), guard.array) is guard.array
        guard.check(expected)
        assert call(inside, inside) is inside
        np.testing.assert_array_equal(inside.get(), expected)


WRONG = [
    (lambda x: ops.layer_norm(x, (3, 4)), cp.ShapeError, r"to be normalized_shape=\(3, 4\)"),
    (lambda x: ops.layer_norm(x, ()), cp.ShapeError, "normalized_shape"),
    (lambda x: ops.layer_norm(x, "ab"), cp.ShapeError, "expected an integer or several"),
    (lambda x: ops.layer_norm(x, (9, 2, 6, 4)), cp.ShapeError, r"x has shape \(2, 6, 4\)"),
    (
        lambda x: ops.layer_norm(x, 4, cp.zeros(6)),
        cp.ShapeError,
        r"weight has shape \(6,\), expected normalized_shape=\(4,\)",
    ),
    (lambda x: ops.layer_norm(x.astype(np.int32), 4), cp.DTypeError, "x is int32"),
    (lambda x: ops.layer_norm(x, 4, out=cp.zeros(4)), cp.ShapeError, r"expected \(2, 6, 4\)"),
    (
        lambda x: ops.layer_norm_backward(x, x, 4, None, x, x),
        cp.ShapeError,
        r"mean has shape \(2, 6, 4\), expected \(2, 6, 1\)",
    ),
    (lambda x: ops.layer_norm_backward(x[:1], x, 4), cp.ShapeError, "expected that of x"),
    (
        lambda x: ops.layer_norm_backward(x, x, 4, output_mask=(True,)),
        cp.ShapeError,
        "for each of dx, dweight, dbias",
    ),
    (lambda x: ops.rms_norm(x, 5), cp.ShapeError, r"normalized_shape=\(5,\)"),
    (lambda x: ops.rms_norm_backward(x, x, 4, None, x), cp.ShapeError, "rstd has shape"),
    (lambda x: ops.group_norm(x, 4), cp.ShapeError, "num_groups=4 does not divide the 6 channels"),
    (lambda x: ops.group_norm(x, 0), cp.ShapeError, "num_groups=0"),
    (lambda x: ops.group_norm(x[0, :, 0], 2), cp.ShapeError, r"\(6,\), expected \(N, C\)"),
    (
        lambda x: ops.group_norm(x[:1, :, :1], 6),
        cp.ShapeError,
        r"more than one value a group, got x of shape \(1, 6, 1\) in 6 groups",
    ),
    (lambda x: ops.group_norm(x, 2, cp.zeros(3)), cp.ShapeError, r"weight has shape \(3,\)"),
    (lambda x: ops.instance_norm(x[:, :, :1]), cp.ShapeError, "more than one pixel a channel"),
    (lambda x: ops.instance_norm(x, cp.zeros(6)), cp.DTypeError, "running_var is None"),
    (
        lambda x: ops.instance_norm(x, use_input_stats=False),
        cp.DTypeError,
        "device array for mean, got None",
    ),
    (lambda x: ops.local_response_norm(x, 0), cp.ShapeError, "size=0: expected at least 1"),
    (lambda x: ops.local_response_norm(x[0], 3), cp.ShapeError, r"x has shape \(6, 4\)"),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_what_is_wrong_is_said(device, call, error, message):
    x = upload(random((2, 6, 4)))
    before = x.get()
    with pytest.raises(error, match=message):
        call(x)
    np.testing.assert_array_equal(x.get(), before)
