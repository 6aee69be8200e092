"""Batch normalisation against float64 NumPy, and PyTorch where it is installed."""

import numpy as np
import pytest
from norm_cases import close, upload
from support import BFLOAT16, DTYPES, Guard, numbers, same_bits, wide

import clprim as cp
from clprim import ops

FORMATS = ["contiguous", "channels_last"]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]
SHAPES = [(9, 5), (4, 5, 6), (3, 5, 4, 6), (2, 5, 3, 4, 2)]


def random(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def over(shape):
    return (0, *range(2, len(shape)))


def spread(vector, ndim):
    """(C,) as (C, 1, …)."""
    return np.asarray(vector, np.float64).reshape(-1, *(1,) * (ndim - 2))


def exact(x, weight=None, bias=None, eps=1e-5):
    """(y, mean, variance) in float64."""
    x = np.asarray(x, np.float64)
    axes = over(x.shape)
    mean, var = x.mean(axes), x.var(axes)
    y = (x - spread(mean, x.ndim)) / np.sqrt(spread(var, x.ndim) + eps)
    y = y * (1 if weight is None else spread(weight, x.ndim))
    return y + (0 if bias is None else spread(bias, x.ndim)), mean, var


def exact_backward(grad, x, weight=None, eps=1e-5):
    """(dx, dweight, dbias) in float64."""
    grad, x = np.asarray(grad, np.float64), np.asarray(x, np.float64)
    xhat, _, var = exact(x, eps=eps)
    axes = over(x.shape)
    gain = (1 if weight is None else spread(weight, x.ndim)) / np.sqrt(spread(var, x.ndim) + eps)
    means = [spread(a.mean(axes), x.ndim) for a in (grad, grad * xhat)]
    return gain * (grad - means[0] - xhat * means[1]), (grad * xhat).sum(axes), grad.sum(axes)


# --- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("shape", [*SHAPES, (2, 7, 49, 1), (32, 3, 7, 7), (1, 64, 40, 40)])
def test_statistics(device, shape, memory_format):
    x = random(shape) * 3 + 2
    _, mean, var = exact(x)
    found = ops.batch_norm_stats(upload(x, memory_format))
    assert [(r.shape, r.dtype) for r in found] == [((shape[1],), np.float32)] * 2
    close(found[0], mean, np.float32, 2)
    close(found[1], var, np.float32, 9)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_statistics_of_every_dtype(device, dtype):
    # Sixteen small integers: means and variances are exact in every format.
    x = numbers((4, 3, 4), dtype)
    found = ops.batch_norm_stats(cp.asarray(x))
    short = dtype in (np.float16, np.float32, BFLOAT16)
    assert {r.dtype for r in found} == {np.dtype(np.float32 if short else np.float64)}
    _, mean, var = exact(wide(x))
    np.testing.assert_array_equal(found[0].get(), mean)
    np.testing.assert_allclose(found[1].get(), var, rtol=1e-7)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("dtype", "mean"), [(np.float32, 1e4), (np.float32, -3e5), (np.float16, 2048)]
)
def test_mean_much_larger_than_the_deviation(device, memory_format, dtype, mean):
    # float16 has steps of 2 there; the statistics are those of the rounded values.
    x = (random((16, 6, 14, 14)) * (8 if dtype == np.float16 else 1) + mean).astype(dtype)
    _, exact_mean, exact_var = exact(x)
    found = ops.batch_norm_stats(upload(x, memory_format))
    np.testing.assert_allclose(found[0].get(), exact_mean, rtol=2.0**-24)
    np.testing.assert_allclose(found[1].get(), exact_var, rtol=1e-5)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_an_outlier_that_comes_first_costs_few_digits(device, memory_format):
    x = random((32, 4, 16, 16)) + 5
    x[0, :, 0, 0] = 1e6
    _, mean, var = exact(x)
    found = ops.batch_norm_stats(upload(x, memory_format))
    assert np.all(np.abs(found[0].get() - mean) < 1e-4 * np.sqrt(var))
    np.testing.assert_allclose(found[1].get(), var, rtol=1e-3)


def test_origins_of_channels_in_many_short_runs_are_found_once(device):
    x = random((32, 512, 7, 7)) + np.float32(1e4)
    x[:, 0] = np.inf
    with cp.profile() as profile:
        mean, var = ops.batch_norm_stats(cp.asarray(x))
    assert any(event.name == "origin" for event in profile.events)
    assert mean.get()[0] == np.inf
    assert np.isnan(var.get()[0])
    _, exact_mean, exact_var = exact(x[:, 1:])
    np.testing.assert_allclose(mean.get()[1:], exact_mean, rtol=2.0**-24)
    np.testing.assert_allclose(var.get()[1:], exact_var, rtol=1e-5)


def test_a_constant_channel_has_no_variance(device):
    x = np.full((8, 3, 7, 5), np.float32(0.1)) * np.float32([1, 12345, -7]).reshape(3, 1, 1)
    mean, var = ops.batch_norm_stats(cp.asarray(x))
    np.testing.assert_array_equal(mean.get(), x[0, :, 0, 0])
    np.testing.assert_array_equal(var.get(), 0)
    y, _, _ = ops.batch_norm_train(cp.asarray(x), None, cp.asarray(np.float32([1, 2, 3])))
    np.testing.assert_array_equal(
        y.get(), np.broadcast_to(np.float32([[[1]], [[2]], [[3]]]), x.shape)
    )


def test_statistics_into_memory_that_is_there_and_of_nothing(device):
    x = random((6, 5, 4))
    out = cp.zeros((2, 5))
    ops.batch_norm_stats(cp.asarray(x), out=(out[0], out[1]))
    np.testing.assert_allclose(out.get(), exact(x)[1:], rtol=1e-5, atol=1e-6)
    assert all(np.isnan(r.get()).all() for r in ops.batch_norm_stats(cp.zeros((0, 3, 2))))
    assert [r.shape for r in ops.batch_norm_stats(cp.zeros((4, 0)))] == [(0,), (0,)]


@pytest.mark.parametrize("memory_format", FORMATS)
def test_statistics_read_x_once_and_repeat(device, memory_format):
    x = upload(random((8, 16, 32, 32)), memory_format)
    with cp.profile() as profile:
        first = ops.batch_norm_stats(x)
    assert len([event for event in profile.events if event.bytes >= x.nbytes]) == 1
    second = ops.batch_norm_stats(x)
    assert all(same_bits(a, b) for a, b in zip(first, second, strict=True))


# --- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_training(device, some, shape, dtype, memory_format):
    if len(shape) != 4 and (memory_format == FORMATS[1] or dtype not in some([*FLOATS], 4)):
        pytest.skip("another format of 4-D arrays; a dtype that the first device covers")
    x = random(shape, 1).astype(dtype)
    kind = np.float64 if dtype == np.float64 else np.float32
    weight, bias = random(5, 2, kind), random(5, 3, kind)
    running = [random(5, 4, kind), random(5, 5, kind) ** 2]
    tracked = [cp.asarray(r) for r in running]
    given = upload(x, memory_format)
    y, mean, invstd = ops.batch_norm_train(
        given, cp.asarray(weight), cp.asarray(bias), *tracked, momentum=0.3, eps=1e-3
    )
    assert (y.shape, y.dtype, y.strides) == (shape, dtype, given.strides)
    expected, exact_mean, exact_var = exact(wide(x), weight, bias, 1e-3)
    close(y, expected, dtype, 4)
    close(mean, exact_mean, kind)
    close(invstd, 1 / np.sqrt(exact_var + 1e-3), kind)
    n = x.size // 5
    for found, old, new in zip(
        tracked, running, (exact_mean, exact_var * n / (n - 1)), strict=True
    ):
        close(found, 0.7 * old + 0.3 * new, kind)


def test_short_floats_next_to_their_own_parameters(device):
    x, weight = random((8, 4, 5)).astype(np.float16), random(4, 1).astype(np.float16)
    running = [cp.zeros(4, np.float16), cp.full(4, 1, np.float16)]
    y, mean, _ = ops.batch_norm_train(cp.asarray(x), cp.asarray(weight), None, *running)
    assert (y.dtype, mean.dtype, running[0].dtype) == (np.float16, np.float32, np.float16)
    expected, exact_mean, _ = exact(x, weight)
    close(y, expected, np.float16)
    close(running[0], 0.1 * exact_mean, np.float16)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_training_far_from_zero(device, memory_format):
    x = random((16, 6, 9, 9)) + np.float32(1e4)
    y, _, _ = ops.batch_norm_train(upload(x, memory_format))
    # The mean itself is rounded to float32, by half a unit in the last place of 1e4.
    np.testing.assert_allclose(y.get(), exact(x)[0], atol=1e4 * 2.0**-24 * 1.1)


def test_epilogues(device):
    x, residual = random((4, 6, 5, 3)), random((4, 6, 5, 3), 1)
    weight, bias = random(6, 2), random(6, 3)
    expected = exact(x, weight, bias)[0]
    arguments = [cp.asarray(a) for a in (x, weight, bias)]
    relu, _, _ = ops.batch_norm_train(*arguments, epilogue="y0 = max(y0, 0);")
    close(relu, np.maximum(expected, 0), np.float32, 4)
    add = """
        // x0 is the shortcut, w0 its weight
        typeof_y0 x1_like = x0 * w0;
        y0 = max(y0 + x1_like, 0)
    """
    shortcut = (cp.asarray(residual), 2.0)
    y, _, _ = ops.batch_norm_train(*arguments, epilogue=add, epilogue_args=shortcut)
    close(y, np.maximum(expected + 2 * residual, 0), np.float32, 4)
    per_channel = cp.asarray(residual[0, :, :1, :1])
    mean, var = ops.batch_norm_stats(arguments[0])
    y = ops.batch_norm(
        arguments[0],
        mean,
        var,
        epilogue="if (coord(1) == 2) y0 = 7; else y0 += x0;",
        epilogue_args=[per_channel],
    )
    expected = exact(x)[0] + residual[0, :, :1, :1]
    expected[:, 2] = 7
    close(y, expected, np.float32, 4)


def test_running_statistics_as_pytorch_counts_batches(device):
    torch = pytest.importorskip("torch")
    layer = torch.nn.BatchNorm1d(3, momentum=None)
    counters = [cp.asarray(np.array(0)), cp.asarray(np.array([0], np.int32))]
    running = [[cp.zeros(3), cp.full(3, 1.0)] for _ in range(3)]
    for batch in range(3):
        x = random((5, 3), batch) * (batch + 1)
        layer(torch.from_numpy(x))
        for tracked, count in zip(running, [*counters, batch], strict=True):
            ops.batch_norm_train(
                cp.asarray(x), None, None, *tracked, momentum=None, num_batches_tracked=count
            )
    assert [c.item() for c in counters] == [3, 3] == [layer.num_batches_tracked.item()] * 2
    for mean, var in running:
        np.testing.assert_allclose(mean.get(), layer.running_mean.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(var.get(), layer.running_var.numpy(), rtol=1e-5)
    # Counted, but of no consequence, next to a momentum.
    count = cp.asarray(np.array(7))
    ops.batch_norm_train(cp.asarray(x), None, None, *running[0], num_batches_tracked=count)
    assert count.item() == 8


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("affine", [True, False])
def test_pytorch_agrees(device, memory_format, affine):
    torch = pytest.importorskip("torch")
    x, grad = random((6, 10, 7, 5)) * 2 + 1, random((6, 10, 7, 5), 1)
    weight, bias = (random(10, 2), random(10, 3)) if affine else (None, None)
    running, expected = (cp.zeros(10), cp.full(10, 1.0)), (torch.zeros(10), torch.ones(10))
    tensors = [None if a is None else torch.from_numpy(a) for a in (x, weight, bias)]
    for tensor in tensors:
        if tensor is not None:
            tensor.requires_grad_()
    theirs = torch.nn.functional.batch_norm(tensors[0], *expected, *tensors[1:], training=True)
    theirs.backward(torch.from_numpy(grad))
    given = [upload(a, memory_format) for a in (x, weight, bias)]
    y, mean, invstd = ops.batch_norm_train(*given, *running)
    np.testing.assert_allclose(y.get(), theirs.detach().numpy(), atol=4e-6)
    for mine, other in zip(running, expected, strict=True):
        np.testing.assert_allclose(mine.get(), other.numpy(), rtol=1e-5, atol=1e-6)
    gradients = ops.batch_norm_backward(
        upload(grad, memory_format), given[0], given[1], mean, invstd
    )
    for mine, tensor in zip(gradients, tensors, strict=True):
        if tensor is not None:
            np.testing.assert_allclose(mine.get(), tensor.grad.numpy(), atol=1e-4, rtol=1e-4)
    y = ops.batch_norm(given[0], *running, *given[1:], eps=1e-2)
    tensors = [None if t is None else t.detach() for t in tensors]
    theirs = torch.nn.functional.batch_norm(tensors[0], *expected, *tensors[1:], eps=1e-2)
    np.testing.assert_allclose(y.get(), theirs.numpy(), atol=4e-6)


def test_a_single_value_a_channel_is_refused(device):
    running = cp.zeros(3), cp.full(3, 1.0)
    for shape in ((1, 3), (1, 3, 1, 1)):
        with pytest.raises(cp.ShapeError, match=r"more than one value a channel, got x of shape"):
            ops.batch_norm_train(cp.zeros(shape), None, None, *running)
    np.testing.assert_array_equal(running[0].get(), 0)
    assert ops.batch_norm(cp.zeros((1, 3)), *running).shape == (1, 3)


def test_an_empty_batch_leaves_running_statistics(device):
    running = cp.zeros(3), cp.full(3, 1.0)
    y, mean, _ = ops.batch_norm_train(cp.zeros((0, 3, 4, 4)), None, None, *running)
    assert (y.shape, mean.shape) == ((0, 3, 4, 4), (3,))
    np.testing.assert_array_equal(running[1].get(), 1)
    gradients = ops.batch_norm_backward(y, y, None, *running)
    assert gradients[0].shape == (0, 3, 4, 4)
    np.testing.assert_array_equal([g.get() for g in gradients[1:]], np.zeros((2, 3)))


def test_in_place_and_into_a_view(device):
    x = random((4, 3, 5, 5))
    guard = Guard((4, 3, 5, 5))
    expected = ops.batch_norm_train(cp.asarray(x))[0].get()
    y, _, _ = ops.batch_norm_train(cp.asarray(x), out=guard.array)
    assert y is guard.array
    np.testing.assert_allclose(
        y.get(), expected, atol=1e-6
    )  # rows with gaps are added up otherwise
    guard.check(y.get())
    inside = cp.asarray(x)
    assert ops.batch_norm_train(inside, out=inside)[0] is inside
    np.testing.assert_array_equal(inside.get(), expected)
    half = cp.asarray(x)[:, :, ::2]
    np.testing.assert_allclose(
        ops.batch_norm_train(half)[0].get(), exact(x[:, :, ::2])[0], atol=1e-5
    )


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients(device, some, shape, dtype, memory_format):
    if len(shape) != 4 and (memory_format == FORMATS[1] or dtype not in some([*FLOATS], 4)):
        pytest.skip("another format of 4-D arrays; a dtype that the first device covers")
    kind = np.float64 if dtype == np.float64 else np.float32
    x, grad = random(shape, 1).astype(dtype), random(shape, 2).astype(dtype)
    weight = random(5, 3, kind)
    given = upload(x, memory_format)
    _, mean, invstd = ops.batch_norm_train(given)
    found = ops.batch_norm_backward(
        upload(grad, memory_format), given, cp.asarray(weight), mean, invstd
    )
    assert (found[0].dtype, found[0].strides) == (dtype, given.strides)
    dx, dweight, dbias = exact_backward(wide(grad), wide(x), weight)
    close(found[0], dx, dtype, 4)
    close(found[1], dweight, kind, np.abs(grad.astype(float)).sum())
    close(found[2], dbias, kind, np.abs(grad.astype(float)).sum())


@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_differences(device, training):
    """Of a scalar function, in float64, by central differences."""
    if not device.traits.fp64:
        pytest.skip("no float64")
    arrays = [random((3, 2, 4), 1, float), random(2, 2, float), random(2, 3, float)]
    mean, var = random(2, 4, float), random(2, 5, float) ** 2 + 0.5
    slope = random((3, 2, 4), 6, float)

    def forward(x, weight, bias):
        given = [cp.asarray(a) for a in (x, weight, bias)]
        if training:
            return ops.batch_norm_train(*given)
        return ops.batch_norm(given[0], cp.asarray(mean), cp.asarray(var), *given[1:]), None, None

    def value(*given):
        return float((forward(*given)[0].get() * slope).sum())

    _, save_mean, save_invstd = forward(*arrays)
    if not training:
        save_mean, save_invstd = cp.asarray(mean), cp.asarray(1 / np.sqrt(var + 1e-5))
    found = ops.batch_norm_backward(
        cp.asarray(slope),
        cp.asarray(arrays[0]),
        cp.asarray(arrays[1]),
        save_mean,
        save_invstd,
        training=training,
    )
    step = 1e-6
    for n, gradient in enumerate(found):
        expected = np.zeros_like(arrays[n])
        for at in np.ndindex(arrays[n].shape):
            moved = [[a.copy() for a in arrays] for _ in range(2)]
            moved[0][n][at] += step
            moved[1][n][at] -= step
            expected[at] = (value(*moved[0]) - value(*moved[1])) / (2 * step)
        np.testing.assert_allclose(gradient.get(), expected, atol=1e-7)


def test_only_the_gradients_that_are_wanted(device):
    x, grad = cp.asarray(random((4, 3, 5))), cp.asarray(random((4, 3, 5), 1))
    _, mean, invstd = ops.batch_norm_train(x)
    all_three = ops.batch_norm_backward(grad, x, None, mean, invstd)
    for wanted in np.ndindex(2, 2, 2):
        mask = tuple(bool(w) for w in wanted)
        found = ops.batch_norm_backward(grad, x, None, mean, invstd, output_mask=mask)
        for expected, gradient, want in zip(all_three, found, mask, strict=True):
            assert (gradient is None) == (not want)
            assert not want or same_bits(gradient, expected)
    with cp.profile() as profile:
        ops.batch_norm_backward(
            grad, x, None, mean, invstd, training=False, output_mask=(True, False, False)
        )
    assert len(profile.events) == 1, "frozen statistics need no sums"


def test_gradients_accumulate(device):
    x, grad = cp.asarray(random((4, 3, 5))), cp.asarray(random((4, 3, 5), 1))
    weight = cp.asarray(random(3, 2))
    _, mean, invstd = ops.batch_norm_train(x)
    new = [g.get() for g in ops.batch_norm_backward(grad, x, weight, mean, invstd)]
    old = [random((4, 3, 5), 3), random(3, 4), random(3, 5)]
    outs = [cp.asarray(a) for a in old]
    found = ops.batch_norm_backward(grad, x, weight, mean, invstd, out=outs, beta=(2, 0.5, 1))
    for n, factor in enumerate((2, 0.5, 1)):
        assert found[n] is outs[n]
        np.testing.assert_allclose(outs[n].get(), new[n] + factor * old[n], rtol=1e-5, atol=1e-6)
    nans = [cp.full(a.shape, float("nan")) for a in old]
    ops.batch_norm_backward(grad, x, weight, mean, invstd, out=nans)
    for found, expected in zip(nans, new, strict=True):
        np.testing.assert_array_equal(found.get(), expected)
    # In place of what it is the gradient of, and what it comes from.
    for shared in (grad, x):
        copy = shared.copy()
        given = (copy, x) if shared is grad else (grad, copy)
        ops.batch_norm_backward(*given, weight, mean, invstd, out=(copy, None, None))
        np.testing.assert_array_equal(copy.get(), new[0])


# --- errors ---------------------------------------------------------------------------------------


def vectors(n=3):
    return cp.zeros(n), cp.full(n, 1.0)


WRONG = [
    (lambda x: ops.batch_norm_stats(cp.zeros(3)), cp.ShapeError, r"\(3,\), expected \(N, C\)"),
    (lambda x: ops.batch_norm_stats(np.zeros((2, 3))), cp.DTypeError, "cp.asarray"),
    (lambda x: ops.batch_norm(x.astype(np.int32), *vectors()), cp.DTypeError, "x is int32"),
    (
        lambda x: ops.batch_norm(x, *vectors(4)),
        cp.ShapeError,
        r"mean has shape \(4,\), expected \(3,\): one value a channel",
    ),
    (lambda x: ops.batch_norm(x, None, cp.zeros(3)), cp.DTypeError, "for mean, got None"),
    (lambda x: ops.batch_norm(x, *vectors(), eps="a"), cp.DTypeError, "number for eps"),
    (
        lambda x: ops.batch_norm(x, *vectors(), out=cp.zeros((2, 3))),
        cp.ShapeError,
        r"expected \(2, 3, 4\)",
    ),
    (
        lambda x: ops.batch_norm_train(x, None, None, cp.zeros(3)),
        cp.DTypeError,
        "running_var is None",
    ),
    (
        lambda x: ops.batch_norm_train(x, None, None, *vectors(), momentum=None),
        cp.DTypeError,
        "num_batches_tracked= is needed",
    ),
    (
        lambda x: ops.batch_norm_train(
            x, None, None, *vectors(), num_batches_tracked=cp.zeros(2, np.int32)
        ),
        cp.ShapeError,
        r"shape \(2,\) and dtype int32, expected one integer",
    ),
    (
        lambda x: ops.batch_norm_train(x, None, None, *vectors(), num_batches_tracked=-1),
        cp.DTypeError,
        "expected an integer ≥ 0",
    ),
    (
        lambda x: ops.batch_norm_train(x, None, None, *(cp.zeros(3),) * 1, x[0, :, 0]),
        cp.ShapeError,
        "overlaps",
    ),
    (
        lambda x: ops.batch_norm_train(x, epilogue="y0 = maximum(y0, 0);"),
        cp.DefinitionError,
        r"batch_norm_train epilogue, line 1: unknown name 'maximum'(.|\n)*\^",
    ),
    (
        lambda x: ops.batch_norm_train(x, epilogue="y1 = y0;"),
        cp.DefinitionError,
        "an epilogue has one result",
    ),
    (lambda x: ops.batch_norm_train(x, epilogue="y0;"), cp.DefinitionError, "never assigned"),
    (lambda x: ops.batch_norm_train(x, epilogue_args=(x,)), cp.DefinitionError, "without an epil"),
    (
        lambda x: ops.batch_norm_train(x, epilogue="y0 += x0;"),
        cp.DefinitionError,
        r"holds 0 arguments, the epilogue names 1 \(x0\)",
    ),
    (
        lambda x: ops.batch_norm_train(
            x, epilogue="y0 += x0;", epilogue_args=(cp.zeros((5, 2, 3, 4)),)
        ),
        cp.ShapeError,
        r"\(5, 2, 3, 4\), which does not broadcast to \(2, 3, 4\)",
    ),
    (
        lambda x: ops.batch_norm_train(x, epilogue="y0 += x0;", epilogue_args=(1.0,)),
        cp.DTypeError,
        "device array for x0 of the epilogue",
    ),
    (
        lambda x: ops.batch_norm_backward(x[:1], x, None, *vectors()),
        cp.ShapeError,
        r"grad has shape \(1, 3, 4\), expected that of x, \(2, 3, 4\)",
    ),
    (
        lambda x: ops.batch_norm_backward(x, x, None, None, cp.zeros(3)),
        cp.DTypeError,
        "for save_mean, got None",
    ),
    (
        lambda x: ops.batch_norm_backward(x, x, None, *vectors(), beta=1),
        cp.ShapeError,
        "needs out= for dx",
    ),
    (
        lambda x: ops.batch_norm_backward(x, x, None, *vectors(), output_mask=(True, False)),
        cp.ShapeError,
        "for each of dx, dweight, dbias",
    ),
    (
        lambda x: ops.batch_norm_backward(
            x, x, None, *vectors(), output_mask=(0, 1, 1), out=(x, None, None)
        ),
        cp.ShapeError,
        "which output_mask leaves out",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_what_is_wrong_is_said(device, call, error, message):
    x = cp.asarray(random((2, 3, 4)))
    before = x.get()
    with pytest.raises(error, match=message):
        call(x)
    np.testing.assert_array_equal(x.get(), before)


def test_nothing_is_written_where_something_is_wrong(device):
    x = cp.asarray(random((2, 3, 4)))
    running, outs = vectors(), [cp.zeros((2, 3, 4)), cp.zeros(3), cp.zeros(4)]
    with pytest.raises(cp.ShapeError):
        ops.batch_norm_train(x, None, None, *running, out=cp.zeros((2, 3)))
    with pytest.raises(cp.BuildError):
        ops.batch_norm_train(x, None, None, *running, epilogue="y0 = sqrt(y0, 2);")
    with pytest.raises(cp.ShapeError, match=r"\(4,\), expected \(3,\)"):
        ops.batch_norm_backward(x, x, None, *running, out=outs)
    same = cp.zeros(3)
    with pytest.raises(cp.ShapeError, match="overlaps"):
        ops.batch_norm_backward(x, x, None, same, running[1], out=(None, same, None))
    np.testing.assert_array_equal(running[0].get(), 0)
    assert all((o.get() == 0).all() for o in outs)


@pytest.mark.parametrize("train", [False, True])
def test_the_compiler_complains_of_the_users_own_epilogue(device, train):
    x, ones = cp.full((2, 3, 4, 4), 1.0), cp.full((3,), 1.0)
    epilogue = "y0 += x0; // kept\n  y0 = sqrt(y0, x0) * w0;"
    with pytest.raises(cp.BuildError) as caught:
        if train:
            ops.batch_norm_train(x, ones, ones, epilogue=epilogue, epilogue_args=(x, 2.0))
        else:
            ops.batch_norm(x, ones, ones, epilogue=epilogue, epilogue_args=(x, 2.0))
    place = "  epilogue, line 2:\n      y0 = sqrt(y0, x0) * w0;\n           ^\n  error: "
    assert place in str(caught.value)
