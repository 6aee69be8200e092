"""Pooling by windows that are a fraction apart, forward and backward, against PyTorch."""

import numpy as np
import pytest
from support import BFLOAT16, numbers, same_bits

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

CASES = [
    ((2, 3, 13, 17), (2, 3), {"output_size": (5, 7)}),
    ((3, 13, 17), 3, {"output_size": (4, 1)}),
    ((2, 2, 11, 9), 2, {"output_ratio": (0.7, 0.5)}),
    ((2, 3, 7, 8, 9), (2, 3, 2), {"output_size": (5, 3, 4)}),
    ((3, 7, 8, 9), 2, {"output_ratio": 0.6}),
]


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.float64], ids=str)
@pytest.mark.parametrize(("shape", "size", "options"), CASES, ids=str)
def test_windows_of_given_samples(device, shape, size, options, dtype, memory_format):
    ndim = 3 if len(shape) == 5 or shape == CASES[-1][0] else 2
    if memory_format == "channels_last" and (len(shape), ndim) != (4, 2):
        pytest.skip("has no channels-last format")
    name = f"fractional_max_pool{ndim}d"
    x = numbers(shape, dtype)
    batch = shape[0] if len(shape) == ndim + 2 else 1
    samples = np.random.default_rng(1).random((batch, shape[-ndim - 1], ndim), np.float32)
    t = torch.tensor(np.float64(x), requires_grad=True)
    # Samples are as exact as x is: in float32, as ours are.
    given = {**options, "return_indices": True, "_random_samples": torch.tensor(samples)}
    _, chosen = getattr(F, name)(t.detach().float(), size, **given)
    expected = t.flatten(-ndim).gather(-1, chosen.flatten(-ndim)).reshape(chosen.shape)
    a = cp.asarray(x, memory_format=memory_format if len(shape) == 4 else None)
    drawn = cp.asarray(samples)
    y, indices = getattr(ops, name)(a, size, **options, return_indices=True, random_samples=drawn)
    assert y.dtype == dtype and same_bits(
        getattr(ops, name)(a, size, **options, random_samples=drawn), y
    )
    np.testing.assert_array_equal(indices.get(), chosen.numpy())
    np.testing.assert_array_equal(np.float64(y.get()), expected.detach().numpy())
    grad = (numbers(y.shape, dtype, seed=2) % 4).astype(dtype)
    expected.backward(torch.tensor(np.float64(grad)))
    back = getattr(ops, f"{name}_backward")
    dx = back(cp.asarray(grad), a, indices)
    assert dx.strides == a.strides and dx.dtype == dtype
    np.testing.assert_array_equal(np.float64(dx.get()), t.grad.numpy())


def test_views_and_numbers_that_are_none(device):
    x = numbers((2, 3, 9, 12))
    x[0, 0, 2, 2], x[1, 1] = np.nan, -np.inf
    samples = np.random.default_rng(1).random((2, 3, 2), np.float32)
    view = cp.asarray(np.ascontiguousarray(x.transpose(0, 1, 3, 2))).transpose(0, 1, 3, 2)
    y, indices = ops.fractional_max_pool2d(
        view, 3, 4, return_indices=True, random_samples=cp.asarray(samples)
    )
    expected, chosen = F.fractional_max_pool2d(
        torch.tensor(x), 3, 4, return_indices=True, _random_samples=torch.tensor(samples)
    )
    np.testing.assert_array_equal(y.get(), expected.numpy())
    inside = np.isfinite(expected.numpy())
    np.testing.assert_array_equal(indices.get()[inside], chosen.numpy()[inside])
    assert ((indices.get() >= 0) & (indices.get() < 108)).all()
    dx = ops.fractional_max_pool2d_backward(cp.full(y.shape, 1.0), view, indices)
    counts = np.zeros((2, 3, 108))
    np.add.at(counts, (*np.ogrid[:2, :3], indices.get().reshape(2, 3, -1).transpose(2, 0, 1)), 1)
    np.testing.assert_array_equal(dx.get().reshape(2, 3, -1), counts)


def test_samples_are_drawn(device):
    x = cp.asarray(numbers((2, 3, 20, 30)))
    cp.random.seed(3)
    first, second = (ops.fractional_max_pool2d(x, 2, 11).get() for _ in range(2))
    cp.random.seed(3)
    np.testing.assert_array_equal(ops.fractional_max_pool2d(x, 2, 11).get(), first)
    assert (first != second).any()


@pytest.mark.refusal
def test_refusals(device):
    x, pool = cp.zeros((2, 3, 9, 9)), ops.fractional_max_pool2d
    i = cp.zeros((2, 3, 4, 4), np.int64)
    for message, call in [
        ("one of output_size", lambda: pool(x, 2)),
        ("one of output_size", lambda: pool(x, 2, 3, 0.5)),
        ("between 0 and 1", lambda: pool(x, 2, output_ratio=1.5)),
        ("leaves nothing", lambda: pool(x, 2, output_ratio=0.01)),
        ("do not fit", lambda: pool(x, 3, 8)),
        ("expected x of 4", lambda: pool(x[0, 0], 2, 3)),
        ("random_samples have shape", lambda: pool(x, 2, 3, random_samples=cp.zeros((2, 3, 3)))),
        (
            "float64, expected float32",
            lambda: pool(x, 2, 3, random_samples=cp.zeros((2, 3, 2), "d")),
        ),
        ("floating dtype", lambda: pool(x.astype(np.int32), 2, 3)),
        ("expected x of 5", lambda: ops.fractional_max_pool3d(x[0, 0], 2, 3)),
        ("indices have shape", lambda: ops.fractional_max_pool2d_backward(x, x, i)),
        ("grad has shape", lambda: ops.fractional_max_pool2d_backward(x[:1], x, i)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()


def test_epilogues_and_memory_that_is_there(device):
    x, bias = numbers((2, 3, 9, 8)), numbers((3, 1, 1), seed=1)
    on_device, samples = cp.asarray(x), cp.full((2, 3, 2), 0.25)
    options = {"random_samples": samples}
    plain, chosen = ops.fractional_max_pool2d(on_device, 2, 4, return_indices=True, **options)
    store = {"epilogue": "y0 = w0 * y0 + x0;", "epilogue_args": (cp.asarray(bias), 2)}
    out = cp.empty(plain.shape, np.float32), cp.empty(plain.shape, np.int64)
    found = ops.fractional_max_pool2d(
        on_device, 2, 4, return_indices=True, **options, **store, out=out
    )
    assert found[0] is out[0]
    np.testing.assert_array_equal(out[0].get(), 2 * plain.get() + bias)
    np.testing.assert_array_equal(out[1].get(), chosen.get())
    pooled, indices = ops.max_pool2d(on_device, 2, return_indices=True)
    whole = ops.max_unpool2d(pooled, indices, 2, output_size=(9, 8))
    into = cp.empty(whole.shape, np.float32)
    assert ops.max_unpool2d(pooled, indices, 2, output_size=(9, 8), **store, out=into) is into
    np.testing.assert_array_equal(into.get(), 2 * whole.get() + bias)
    with pytest.raises(cp.ShapeError, match="does not broadcast"):
        ops.max_unpool2d(pooled, indices, 2, epilogue="y0 += x0;", epilogue_args=(on_device,))
