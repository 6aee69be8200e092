"""Optimizers: a hundred steps beside PyTorch's in float64, and what is refused."""

import numpy as np
import pytest
from support import same_bits

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

SHAPES = [(7, 5), (33,), ()]
STEPS = 100


def _curvature(shape, n):
    return np.random.default_rng(n).uniform(0.1, 2, shape)


def _run(device_step, optimizer, states, dtype=np.float32):
    """A hundred steps down the same bowls, on the device and with PyTorch."""
    start = [np.random.default_rng(10 + n).standard_normal(s) for n, s in enumerate(SHAPES)]
    weights = [_curvature(s, n) for n, s in enumerate(SHAPES)]
    reference = [torch.tensor(s, requires_grad=True) for s in start]
    peer = optimizer(reference)
    params = [cp.asarray(s.astype(dtype)) for s in start]
    state = [[cp.zeros(s, dtype) for s in SHAPES] for _ in range(states)]
    factors = [cp.asarray(w.astype(dtype)) for w in weights]
    for step in range(1, STEPS + 1):
        grads = [(p - 0.5) * f for p, f in zip(params, factors, strict=True)]
        device_step(params, grads, *state, step)
        for r, w in zip(reference, weights, strict=True):
            r.grad = (r.detach() - 0.5) * torch.tensor(w)
        peer.step()
    for p, r in zip(params, reference, strict=True):
        np.testing.assert_allclose(p.get(), r.detach().numpy(), rtol=1e-5, atol=1e-5)


CASES = {
    "sgd": (
        lambda p, g, step: ops.optim.sgd(p, g, lr=0.01, weight_decay=0.1, maximize=True),
        lambda p: torch.optim.SGD(p, lr=0.01, weight_decay=0.1, maximize=True),
        0,
    ),
    "momentum": (
        lambda p, g, b, step: ops.optim.sgd(
            p, g, b, lr=0.02, momentum=0.9, dampening=0.2, step=step
        ),
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, dampening=0.2),
        1,
    ),
    "nesterov": (
        lambda p, g, b, step: ops.optim.sgd(p, g, b, lr=0.02, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
        1,
    ),
    "adam": (
        lambda p, g, m, v, step: ops.optim.adam(p, g, m, v, step=step, lr=0.02, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.01),
        2,
    ),
    "adamw": (
        lambda p, g, m, v, step: ops.optim.adamw(p, g, m, v, step=step, lr=0.02),
        lambda p: torch.optim.AdamW(p, lr=0.02),
        2,
    ),
    "amsgrad": (
        lambda p, g, m, v, u, step: ops.optim.adamw(p, g, m, v, u, step=step, lr=0.02),
        lambda p: torch.optim.AdamW(p, lr=0.02, amsgrad=True),
        3,
    ),
    "adagrad": (
        lambda p, g, s, step: ops.optim.adagrad(
            p, g, s, step=step, lr=0.05, lr_decay=0.02, weight_decay=0.01, eps=1e-8
        ),
        lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.02, weight_decay=0.01, eps=1e-8),
        1,
    ),
    "rmsprop": (
        lambda p, g, s, step: ops.optim.rmsprop(p, g, s, lr=0.005),
        lambda p: torch.optim.RMSprop(p, lr=0.005),
        1,
    ),
    "rmsprop centered": (
        lambda p, g, s, a, b, step: ops.optim.rmsprop(
            p, g, s, a, b, lr=0.001, centered=True, momentum=0.5
        ),
        lambda p: torch.optim.RMSprop(p, lr=0.001, centered=True, momentum=0.5),
        3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_hundred_steps_equal_pytorchs(device, name):
    step, peer, states = CASES[name]
    _run(step, peer, states)


def _launches(call):
    with cp.profile() as profile:
        call()
        cp.synchronize()
    return len(profile.events)


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=str)
def test_parameters_of_any_lengths_are_one_kernel(device, dtype):
    """Lines of tails and of several work-groups; beside them gaps, nothing, and another dtype."""
    rng = np.random.default_rng(4)
    sizes = [1, 7, 8193, 20_000, 16, 333, 8192, 5]
    hosts = [[rng.standard_normal(n).astype(dtype) for n in sizes] for _ in range(3)]
    last = (2.0**-7, 1e-3) if dtype == np.float16 else (1e-5, 1e-6)

    def uploaded(more=True):
        lists = [[cp.asarray(a) for a in every] for every in hosts]
        offset = cp.zeros((40,), dtype)[8:24]  # begins within its memory
        for array, every in zip((offset, offset.copy(), offset.copy()), lists, strict=True):
            array[...] = every[4]
            every[4] = array
        if more:
            for n, every in enumerate(lists):
                every += [cp.full((6, 4), n + 1.0, dtype)[:, ::2], cp.zeros((0, 3), dtype)]
                every.append(cp.full((9,), n + 1.0, np.float64 if dtype == np.float32 else dtype))
        return lists

    lists = uploaded()
    ops.optim.sgd(*lists, lr=0.25, momentum=0.5)
    for p, g, b, own in zip(*uploaded(), zip(*lists, strict=True), strict=True):
        wide = [a.get().astype(np.float64) for a in (p, g, b)]
        momentum = 0.5 * wide[2] + wide[1]
        expected = wide[0] - 0.25 * momentum, wide[1], momentum
        for found, wanted in zip(own, expected, strict=True):
            np.testing.assert_allclose(found.get().astype(np.float64), wanted, *last)
    lists = uploaded(more=False)
    assert _launches(lambda: ops.optim.sgd(*lists, lr=0.25, momentum=0.5)) == 1
    many = [[cp.zeros((n + 1,), dtype) for n in range(100)] for _ in range(4)]
    assert _launches(lambda: ops.optim.adam(*many, step=1)) < 10


def test_a_parameter_twice_is_stepped_twice(device):
    p, q, g = cp.full((5,), 1.0), cp.full((5,), 8.0), cp.full((5,), 1.0)
    ops.optim.sgd([p, q, p], [p, g, p], lr=0.5)
    np.testing.assert_array_equal(p.get(), np.full(5, 0.25))
    part = cp.full((9,), 1.0)
    ops.optim.sgd([part[:6], part[3:]], [cp.full((6,), 1.0)] * 2, lr=0.5)
    np.testing.assert_array_equal(part.get(), [0.5] * 3 + [0.0] * 3 + [0.5] * 3)
    ops.optim.sgd([q, part], [g, cp.full((9,), 1.0)], lr=1.0)  # and others of those lengths
    np.testing.assert_array_equal(q.get(), np.full(5, 6.5))


def test_lion_is_the_papers(device):
    rng = np.random.default_rng(0)
    p, m = rng.standard_normal(33), np.zeros(33)
    on_device, state = cp.asarray(p.astype(np.float32)), cp.zeros((33,), np.float32)
    for n in range(20):
        g = np.random.default_rng(n).integers(-3, 4, 33).astype(np.float64)
        ops.optim.lion([on_device], [cp.asarray(g.astype(np.float32))], [state], lr=0.01,
                       weight_decay=0.1)  # fmt: skip
        p = p * (1 - 0.01 * 0.1) - 0.01 * np.sign(0.9 * m + 0.1 * g)
        m = 0.99 * m + 0.01 * g
    np.testing.assert_allclose(on_device.get(), p, atol=1e-6)
    np.testing.assert_allclose(state.get(), m, atol=1e-6)


def test_parameters_of_16_bits_and_views(device):
    p = cp.asarray(np.ones((4, 6), np.float16))
    view = p[:, ::2]
    ops.optim.sgd([view], [cp.full((4, 3), 0.25, np.float32)], lr=1)
    expected = np.ones((4, 6))
    expected[:, ::2] = 0.75
    np.testing.assert_array_equal(p.get(), expected)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, np.inf])
def test_clip_grad_norm(device, order):
    host = [np.random.default_rng(n).standard_normal(s) for n, s in enumerate(SHAPES)]
    grads = [cp.asarray(h.astype(np.float32)) for h in host]
    for most in (1000.0, 0.5):
        reference = [torch.tensor(h, requires_grad=True) for h in host]
        for r, h in zip(reference, host, strict=True):
            r.grad = torch.tensor(h)
        expected = torch.nn.utils.clip_grad_norm_(reference, most, order)
        total = ops.optim.clip_grad_norm(grads, most, order)
        np.testing.assert_allclose(total.get(), expected.item(), rtol=1e-5)
        for g, r in zip(grads, reference, strict=True):
            np.testing.assert_allclose(g.get(), r.grad.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=str)
def test_gradients_are_scaled_by_one_kernel(device, dtype):
    """By a norm that lies on the device; tails, offsets, numbers, gaps and nothing among them."""
    rng = np.random.default_rng(1)
    hosts = [rng.standard_normal(s).astype(dtype) for s in [(7,), (8193,), (), (3, 5), (20_000,)]]

    def uploaded():
        arrays = [cp.asarray(h) for h in hosts]
        offset = cp.zeros((40,), dtype)[9:16]
        offset[...] = arrays[0]
        return [offset, *arrays[1:]]

    wide = [h.astype(np.float64) for h in hosts]
    norm = np.sqrt(sum((w * w).sum() for w in wide))
    grads = uploaded()
    total = ops.optim.clip_grad_norm(grads, 2.0)
    np.testing.assert_allclose(total.get(), norm, rtol=1e-5)
    for g, w in zip(grads, wide, strict=True):
        np.testing.assert_allclose(g.get(), w * (2 / (norm + 1e-6)), rtol=2e-3, atol=1e-7)
    fresh = uploaded()
    with cp.profile() as profile:
        ops.optim.clip_grad_norm(fresh, 2.0)
        cp.synchronize()
    assert sum("clip_norm" in event.name for event in profile.events) == 1
    gaps = [cp.full((6, 4), 3.0, dtype)[:, ::2], cp.zeros((0, 3), dtype), cp.full((2,), 4.0, dtype)]
    ops.optim.clip_grad_norm(gaps, 1.0)
    for gap, value in ((gaps[0], 3), (gaps[2], 4)):
        np.testing.assert_allclose(gap.get(), value / np.sqrt(12 * 9 + 2 * 16), rtol=2e-3)


def test_many_small_gradients_are_read_by_few_kernels(device):
    hosts = [np.full((n + 1, 2), (-1) ** n * 0.5, np.float32) for n in range(60)]
    hosts.append(np.ones(70_000, np.float32))  # read where it lies
    grads = [cp.asarray(h) for h in hosts]
    grads.append(cp.full((6, 4), 2.0)[:, ::2])
    norm = np.sqrt(sum(float((h * h).sum()) for h in hosts) + 48)
    for most, expected in ((1000.0, norm), (1.0, norm), (1.0, 1.0)):
        total = ops.optim.clip_grad_norm(grads, most)
        np.testing.assert_allclose(total.get(), expected, rtol=1e-5)
    np.testing.assert_allclose(grads[3].get(), hosts[3] / norm, rtol=1e-5)
    assert _launches(lambda: ops.optim.clip_grad_norm(grads, 1.0)) < 15
    assert ops.optim.unscale(grads, 2.0).get() == 0
    np.testing.assert_allclose(grads[3].get(), hosts[3] / (2 * norm), rtol=1e-5)
    assert _launches(lambda: ops.optim.unscale(grads, 2.0)) < 15
    for n in (7, 60, 61):
        grads[n][0] = np.inf if n == 7 else np.nan
        assert ops.optim.unscale(grads, 2.0).get() == 1
        grads[n][0] = 0


def test_clip_grad_value_keeps_nan(device):
    g = cp.asarray(np.array([-3, -0.5, np.nan, 7], np.float32))
    ops.optim.clip_grad_value([g], 1)
    np.testing.assert_array_equal(g.get(), np.array([-1, -0.5, np.nan, 1], np.float32))


def test_refusals(device):
    p, g = [cp.zeros((3,))], [cp.zeros((3,))]
    sgd, adam = ops.optim.sgd, ops.optim.adam
    for message, call in [
        ("grads= holds 0 arrays, params 1", lambda: sgd(p, [], lr=1)),
        (r"grads\[0\] has shape \(2,\)", lambda: sgd(p, [cp.zeros((2,))], lr=1)),
        (r"grads\[0\] is int32", lambda: sgd(p, [cp.zeros((3,), np.int32)], lr=1)),
        ("expected a device array", lambda: sgd(p, [np.zeros(3)], lr=1)),
        ("expected a list", lambda: sgd(p, g[0], lr=1)),
        ("lr=-1.0 must not be negative", lambda: sgd(p, g, lr=-1)),
        ("needs momentum_buffers", lambda: sgd(p, g, lr=1, momentum=0.5)),
        ("needs step=", lambda: sgd(p, g, g, lr=1, momentum=0.5, dampening=0.1)),
        ("nesterov", lambda: sgd(p, g, lr=1, nesterov=True)),
        ("from 1", lambda: adam(p, g, g, g, step=0)),
        ("from 1", lambda: ops.optim.adagrad(p, g, g, step=0)),
        ("less than 1", lambda: adam(p, g, g, g, step=1, betas=(0.9, 1))),
        ("two numbers", lambda: ops.optim.lion(p, g, g, betas=0.9)),
        ("needs grad_avgs", lambda: ops.optim.rmsprop(p, g, g, centered=True)),
        ("must be positive", lambda: ops.optim.clip_grad_norm(g, 1, 0)),
        (r"for grads\[0\], got NoneType", lambda: ops.optim.clip_grad_norm([None], 1)),
        ("decay=2", lambda: ops.optim.ema(p, p, decay=2)),
        ("count=-1", lambda: ops.optim.swa(p, p, count=-1)),
        ("scale=0", lambda: ops.optim.unscale(p, 0)),
        ("several dtypes", lambda: ops.optim.flat([*p, cp.zeros((1,), np.float16)])),
        ("expected a floating", lambda: ops.optim.flat([cp.zeros((1,), np.int32)])),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
    assert not p[0].get().any()


def _flat(seed):
    arrays = [np.random.default_rng(seed + n).standard_normal(s) for n, s in enumerate(SHAPES)]
    return ops.optim.flat([cp.asarray(a.astype(np.float32)) for a in arrays])


def test_parameters_side_by_side_are_stepped_by_one_kernel(device):
    apart = [[p.copy() for p in _flat(seed)] for seed in (1, 2)]
    params, grads = _flat(1), _flat(2)
    states = [ops.optim.flat(params, fill=0) for _ in range(2)]
    loose = [[cp.zeros(s) for s in SHAPES] for _ in range(2)]
    for step in (1, 2, 3):
        ops.optim.adam(params, grads, *states, step=step, lr=0.1)
        ops.optim.adam(*apart, *loose, step=step, lr=0.1)
    for a, b in zip([*params, *states[1]], [*apart[0], *loose[1]], strict=True):
        assert same_bits(a, b)
    with cp.profile() as p:
        ops.optim.adam(params, grads, *states, step=4)
        ops.optim.adam(*apart, *loose, step=4)
    assert len(p.events) == 2
    norm = ops.optim.clip_grad_norm(grads, 0.5)
    same = ops.optim.clip_grad_norm(apart[1], 0.5)
    np.testing.assert_allclose(norm.get(), same.get(), rtol=1e-6)
    for a, b in zip(grads, apart[1], strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=1e-6)
    # In another order, or with a gap, they do not follow each other.
    before = [a.get() for a in params]
    turned = [params[1], params[0], params[2]]
    ops.optim.sgd(turned, [cp.full(p.shape, 1.0) for p in turned], lr=0.5)
    for a, b in zip(params, before, strict=True):
        np.testing.assert_array_equal(a.get(), b - np.float32(0.5))


def test_averages_of_parameters(device):
    from torch.optim import swa_utils

    for fold, ours in (
        (swa_utils.get_ema_multi_avg_fn(0.9), lambda a, p, n: ops.optim.ema(a, p, decay=0.9)),
        (swa_utils.get_swa_multi_avg_fn(), lambda a, p, n: ops.optim.swa(a, p, count=n)),
    ):
        averages = _flat(0)
        theirs = [torch.tensor(a.get().astype(np.float64)) for a in averages]
        for n in range(1, 5):
            params = _flat(10 * n)
            fold(theirs, [torch.tensor(p.get().astype(np.float64)) for p in params], n)
            ours(averages, params, n)
        for a, b in zip(averages, theirs, strict=True):
            np.testing.assert_allclose(a.get(), b.numpy(), rtol=1e-5, atol=1e-6)
    start, params = _flat(1), _flat(2)
    ops.optim.swa(start, params, count=0)
    assert all(same_bits(a, b) for a, b in zip(start, params, strict=True))


def test_scaled_losses(device):
    grads = [cp.asarray(np.float32([2, 4])), cp.asarray(np.float32([[8]]))]
    assert float(ops.optim.unscale(grads, 2.0)) == 0
    assert [g.get().tolist() for g in grads] == [[1, 2], [[4]]]
    for bad in (np.nan, -np.inf):
        grads = [cp.full((3,), 1.0), cp.asarray(np.float32([1, bad]))]
        assert float(ops.optim.unscale(grads, 2.0)) == 1
