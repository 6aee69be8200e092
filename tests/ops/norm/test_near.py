"""Normalisations of groups that a near cache holds: one kernel, and what two passes give."""

import dataclasses

import numpy as np
import pytest
from support import BFLOAT16, Guard, equal

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.plan.grouped.family import GROUPS

RELU = "y0 = max(y0, 0);"
RESIDUAL = "typeof_y0 sum = y0 * w0 + x0; y0 = sum > 0 ? sum : 0;"
# Runs of whole vectors, with tails of every kind, and as one.
SHAPES = [(3, 7, 8, 16), (4, 9, 7, 7), (2, 5, 25, 53), (70, 6), (1, 12, 333), (3, 6, 2, 5, 10)]


def random(shape, dtype=np.float32, seed=0, mean=0.0):
    values = np.random.default_rng(seed).normal(mean, 1, shape)
    return values.astype(np.float32).astype(dtype)


def launched(function):
    """Returns what a function returns, and the names of the kernels that it launches."""
    with cp.profile() as timed:
        found = function()
    return found, [event.name for event in timed.events]


def both(function, monkeypatch, kernels=1):
    """Calls a function, which is to launch so many kernels, and again without the one for all."""
    found, names = launched(function)
    assert len(names) == kernels, names
    with monkeypatch.context() as patch:
        patch.setattr(GROUPS, "entries", GROUPS.entries[-1:])
        expected, names = launched(function)
    assert len(names) > kernels
    return found, expected


def close(found, expected, dtype=np.float32):
    """The same but for rounding; both are tuples of arrays or None."""
    eps = {"float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}.get(str(np.dtype(dtype)), 1e-5)
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.shape, a.dtype, a.strides) == (b.shape, b.dtype, b.strides)
            scale = max(1.0, float(np.abs(np.float64(b.get())).max()))
            np.testing.assert_allclose(
                np.float64(a.get()), np.float64(b.get()), rtol=eps, atol=eps * scale
            )


@pytest.fixture(autouse=True)
def planned_for_a_cpu(request):
    if "device" in request.fixturenames:
        device = request.getfixturevalue("device")
        if not device.traits.is_cpu and "traits" not in request.fixturenames:
            pytest.skip("what GPUs get has several kernels")


@pytest.fixture
def once(monkeypatch):
    """No call is repeated: both ways are to be planned."""
    Calls.forget()
    monkeypatch.setattr(Calls, "remember", lambda *_: None)


pytestmark = pytest.mark.usefixtures("device", "once")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_training(some, monkeypatch, shape):
    channels = shape[1]
    x, weight, bias = cp.asarray(random(shape, mean=30)), *map(cp.asarray, random((2, channels)))
    residual = cp.asarray(random(shape, seed=2))
    cases = [
        {},
        {"weight": weight},
        {"bias": bias, "epilogue": RELU},
        {"weight": weight, "bias": bias, "epilogue": RESIDUAL, "epilogue_args": (residual, 0.5)},
    ]
    if len(shape) == 2:
        # Channels lie side by side: no runs.
        _, names = launched(lambda: ops.batch_norm_train(x))
        assert len(names) > 1
        return
    for options in some(cases, 1):

        def train(options=options):
            running = cp.asarray(random(channels)), cp.asarray(abs(random(channels)))
            counted = cp.asarray(np.int64(3))
            found = ops.batch_norm_train(
                x, running_mean=running[0], running_var=running[1], num_batches_tracked=counted,
                momentum=0.3, **options
            )  # fmt: skip
            assert counted.item() == 4
            return *found, *running

        close(*both(train, monkeypatch, kernels=2))  # one counts batches


@pytest.mark.parametrize("dtype", [np.float64, np.float16, BFLOAT16], ids=str)
def test_dtypes(monkeypatch, dtype):
    shape = (4, 9, 7, 9)
    x, grad = cp.asarray(random(shape, dtype)), cp.asarray(random(shape, dtype, 1))
    weight = cp.asarray(random(9, dtype if dtype is np.float64 else np.float32, 2))
    train, reference = both(lambda: ops.batch_norm_train(x, weight), monkeypatch)
    close(train, reference, dtype)
    backward = lambda: ops.batch_norm_backward(grad, x, weight, *reference[1:])  # noqa: E731
    close(*both(backward, monkeypatch), dtype)
    close(*both(lambda: (ops.layer_norm(x, shape[1:]),), monkeypatch), dtype)


@pytest.mark.parametrize("shape", [s for s in SHAPES if len(s) > 2], ids=str)
@pytest.mark.parametrize("scaled", [False, True])
def test_backward(monkeypatch, shape, scaled):
    x, grad = cp.asarray(random(shape, mean=5)), cp.asarray(random(shape, seed=1))
    weight = cp.asarray(random(shape[1], seed=2)) if scaled else None
    _, mean, invstd = ops.batch_norm_train(x)
    found, expected = both(
        lambda: ops.batch_norm_backward(grad, x, weight, mean, invstd), monkeypatch
    )
    close(found, expected)


@pytest.mark.parametrize("shape", [(5, 64), (7, 3, 31), (9, 1023), (6, 4, 4096)], ids=str)
@pytest.mark.parametrize("scaled", [False, True])
def test_layers(monkeypatch, shape, scaled):
    x, (weight, bias) = cp.asarray(random(shape, mean=9)), map(cp.asarray, random((2, *shape[1:])))
    options = {"weight": weight, "bias": bias} if scaled else {}
    for stats in (False, True):

        def normalize(stats=stats):
            found = ops.layer_norm(x, shape[1:], return_stats=stats, **options)
            return found if stats else (found,)

        close(*both(normalize, monkeypatch))


@pytest.mark.parametrize("shape", [(5, 64), (7, 3, 31), (6, 4097)], ids=str)
@pytest.mark.parametrize("scaled", [False, True])
def test_layers_gradients_and_roots(monkeypatch, shape, scaled):
    x, grad = cp.asarray(random(shape, mean=2)), cp.asarray(random(shape, seed=1))
    weight = cp.asarray(random(shape[1:], seed=2)) if scaled else None
    _, mean, rstd = ops.layer_norm(x, shape[1:], return_stats=True)
    root = lambda: ops.rms_norm(x, shape[1:], weight, return_stats=True)  # noqa: E731
    found, expected = both(root, monkeypatch)
    close(found, expected)
    only = (True, False, False)
    for gradient in (
        lambda: ops.layer_norm_backward(grad, x, shape[1:], weight, mean, rstd, output_mask=only),
        lambda: ops.rms_norm_backward(
            grad, x, shape[1:], weight, expected[1], output_mask=only[:2]
        ),
    ):
        close(*both(gradient, monkeypatch))


@pytest.mark.parametrize("scaled", [False, True])
def test_groups_of_channels(monkeypatch, scaled):
    x, (weight, bias) = cp.asarray(random((3, 12, 9, 10), mean=4)), map(cp.asarray, random((2, 12)))
    options = {"weight": weight, "bias": bias} if scaled else {}
    for groups in (2, 4, 12):
        normalize = lambda g=groups: ops.group_norm(x, g, return_stats=True, **options)  # noqa: E731
        close(*both(normalize, monkeypatch))
    instance = lambda: ops.instance_norm(x, return_stats=True, **options)  # noqa: E731
    close(*both(instance, monkeypatch))


def test_in_place_and_no_further():
    a = random((4, 8, 66))
    expected = ops.batch_norm_train(cp.asarray(a))[0].get()
    x = cp.asarray(a)
    y, _, _ = ops.batch_norm_train(x, out=x)
    assert y is x
    equal(x, expected)
    guard = Guard((4, 8, 66))  # with gaps between its rows
    _, names = launched(lambda: ops.batch_norm_train(cp.asarray(a), out=guard.array))
    assert len(names) == 1
    guard.check(expected)


def test_what_is_not_finite_stays_in_its_channel():
    a = random((4, 8, 6, 11))
    expected = ops.batch_norm_train(cp.asarray(a))[0].get()
    a[1, 3, 2, 5] = np.nan
    a[0, 5, 0, 0] = np.inf
    found = ops.batch_norm_train(cp.asarray(a))[0].get()
    assert np.isnan(found[:, [3, 5]]).all()
    kept = [0, 1, 2, 4, 6, 7]
    np.testing.assert_array_equal(found[:, kept], expected[:, kept])


def test_the_same_bits_every_time():
    x, grad = cp.asarray(random((4, 8, 30, 11))), cp.asarray(random((4, 8, 30, 11), seed=1))
    first = ops.batch_norm_train(x)
    again = ops.batch_norm_train(x)
    for a, b in zip(first, again, strict=True):
        equal(a, b.get())
    gradients = [ops.batch_norm_backward(grad, x, None, *first[1:]) for _ in range(2)]
    for a, b in zip(*gradients, strict=True):
        equal(a, b.get())


def test_an_epilogue_that_is_refused_changes_nothing():
    x, mean, var = cp.asarray(random((4, 8, 6, 11))), cp.zeros(8), cp.full(8, 1.0)
    with pytest.raises(cp.ClprimError):
        ops.batch_norm_train(x, None, None, mean, var, epilogue="y0 = x0.nothing;")
    equal(mean, np.zeros(8))
    equal(var, np.ones(8))


@pytest.mark.oclgrind
@pytest.mark.parametrize("traits", ["cpu16", "cpu64"], indirect=True)
def test_small(traits, monkeypatch):
    # Five channels keep no more units busy.
    few = dataclasses.replace(traits, compute_units=2)
    monkeypatch.setitem(cp.current_device().__dict__, "traits", few)
    x, grad = cp.asarray(random((2, 5, 5, 17))), cp.asarray(random((2, 5, 5, 17), seed=1))
    residual, weight = cp.asarray(random((2, 5, 5, 17), seed=2)), cp.asarray(random(5, seed=3))
    options = {"epilogue": RESIDUAL, "epilogue_args": (residual, 0.5)}
    train, expected = both(lambda: ops.batch_norm_train(x, weight, **options), monkeypatch)
    close(train, expected)
    backward = lambda: ops.batch_norm_backward(grad, x, weight, *train[1:])  # noqa: E731
    close(*both(backward, monkeypatch))
    close(*both(lambda: (ops.layer_norm(x, (5, 17)),), monkeypatch))
