"""Medians, quantiles and what occurs most often, beside PyTorch, also among NaN."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")


def with_nan(shape, part=0.3):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    x[rng.random(shape) < part] = np.nan
    x[0, 0] = np.nan  # a line of nothing else
    return x


def close(found, reference):
    np.testing.assert_allclose(found.get(), reference.numpy(), rtol=1e-5)


@pytest.mark.parametrize("dim", [0, -1])
def test_nanquantile_and_nanmedian(device, dim):
    x, q = with_nan((4, 5, 6)), np.float32([0, 0.3, 0.5, 1])
    d, t = cp.asarray(x), torch.tensor(x)
    close(ops.nanquantile(d, q, dim), torch.nanquantile(t, torch.tensor(q), dim))
    for interpolation in ("lower", "nearest", "midpoint"):
        options = {"interpolation": interpolation, "keepdim": True}
        close(ops.nanquantile(d, 0.3, dim, **options), torch.nanquantile(t, 0.3, dim, **options))
    values, indices = ops.nanmedian(d, dim, keepdim=True)
    expected = torch.nanmedian(t, dim, keepdim=True)
    close(values, expected.values)
    np.testing.assert_array_equal(np.take_along_axis(x, indices.get(), dim), values.get())
    assert ops.nanmedian(d, axis=dim)[0].shape == torch.nanmedian(t, dim)[0].shape


def test_of_all_elements(device):
    x = with_nan((4, 5, 6))
    close(ops.nanmedian(cp.asarray(x)), torch.nanmedian(torch.tensor(x)))
    close(ops.nanquantile(cp.asarray(x), 0.7), torch.nanquantile(torch.tensor(x), 0.7))
    whole = np.arange(6)
    assert ops.nanmedian(cp.asarray(whole)).item() == 2
    with pytest.raises(cp.ShapeError, match="nanmedian: no elements"):
        ops.nanmedian(cp.zeros((2, 0)), 1)
    with pytest.raises(cp.DTypeError, match="nanquantile: x is int64"):
        ops.nanquantile(cp.asarray(whole), 0.5)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_mode(device, dim):
    x = np.random.default_rng(dim + 2).integers(0, 3, (4, 9, 6))
    values, indices = ops.mode(cp.asarray(x), dim)
    np.testing.assert_array_equal(values.get(), torch.mode(torch.tensor(x), dim).values.numpy())
    # Of its places the last.
    same = np.moveaxis(x, dim, -1) == values.get()[..., None]
    last = same.shape[-1] - 1 - np.argmax(same[..., ::-1], -1)
    np.testing.assert_array_equal(indices.get(), last)
    kept = ops.mode(cp.asarray(x), axis=dim, keepdim=True)[0]
    assert kept.shape == torch.mode(torch.tensor(x), dim, True).values.shape
    assert ops.mode(cp.full((), 3.0))[0].item() == 3
    with pytest.raises(cp.ShapeError, match="mode: no elements"):
        ops.mode(cp.zeros((2, 0)))
