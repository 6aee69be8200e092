"""Queries all of whose scores are far from 0, as behind a mask of finite numbers.

Rounding takes from the logarithm of their sum what tells how many keys there are. The reference is
float64 of the scores as they are rounded.
"""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.attention import fused

RNG = np.random.default_rng(0)
LEAST = float(np.finfo(np.float32).min)


def reference(q, k, v, g, mask, scale, wide):
    """The result, and the gradients of query, key, value and scores."""
    q, k, v, g = (np.asarray(a, np.float64) for a in (q, k, v, g))
    scores = (q @ k.swapaxes(-1, -2) * scale).astype(wide) + np.asarray(mask, wide)
    scores = scores.astype(np.float64)
    most = scores.max(-1, keepdims=True)
    p = np.exp(scores - np.where(most == -np.inf, 0, most))
    total = p.sum(-1, keepdims=True)
    p = np.divide(p, total, out=np.zeros_like(p), where=total > 0)
    y = p @ v
    slopes = p * (g @ v.swapaxes(-1, -2) - (g * y).sum(-1, keepdims=True))
    turned = slopes.swapaxes(-1, -2)
    return y, slopes @ k * scale, turned @ q * scale, p.swapaxes(-1, -2) @ g, slopes


def found_by(q, k, v, g, mask, **options):
    arrays = [cp.asarray(a) for a in (q, k, v)]
    options["attn_mask"] = cp.asarray(mask)
    y, sums, _ = ops.scaled_dot_product_attention(*arrays, **options, return_stats=True)
    assert sums.shape == q.shape[:-1]
    back = ops.scaled_dot_product_attention_backward(
        cp.asarray(g), *arrays, y, sums, **options, mask_gradient=True
    )
    return [np.asarray(a.get(), np.float64) for a in (y, *back)]


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("mask", [-1e9, LEAST])
def test_two_hidden_keys_have_half_a_query_each(device, queries, mask):
    q, k, v, g = (np.ones((1, n, 4), np.float32) for n in (queries, 2, 2, queries))
    q[:] = 0
    y, dq, dk, dv, _ = found_by(q, k, v, g, np.full((1, queries, 2), mask, np.float32))
    assert (y == 1).all() and not dq.any() and not dk.any()
    np.testing.assert_array_equal(dv, np.full((1, 2, 4), queries / 2))


@pytest.mark.parametrize(
    ("dtype", "length", "keys", "blocks"),
    [
        ("float32", 40, 70, False),
        ("float32", 40, 70, True),
        ("float32", 3, 9, False),  # few queries, and their gradients by blocks
        ("float16", 9, 21, False),
        ("bfloat16", 9, 21, False),
        ("float64", 9, 21, False),
        ("float64", 9, 21, True),
    ],
)
def test_hidden_queries_have_gradients(device, by_blocks, dtype, length, keys, blocks):
    if dtype == "float64" and not device.traits.fp64:
        pytest.skip("no double")
    if blocks:
        by_blocks()
    dtype = np.dtype(cp.dtypes.as_dtype(dtype))
    close = {"float16": 5e-3, "bfloat16": 5e-2, "float32": 2e-6, "float64": 2e-13}[dtype.name]
    wide = np.float64 if dtype == np.float64 else np.float32
    shapes = (2, length, 16), (2, keys, 16), (2, keys, 8), (2, length, 8)
    q, k, v, g = (RNG.normal(size=s).astype(dtype) for s in shapes)
    mask = np.zeros((2, length, keys), np.float32)
    least = -60000 if dtype == np.float16 else LEAST
    mask[0, 0], mask[0, 1], mask[0, 2], mask[1] = least, least / 8, -np.inf, -1e4
    mask[1, 1, : keys // 2] = least
    mask = mask.astype(dtype)
    expected = reference(q, k, v, g, mask, 0.25, wide)
    for a, b in zip(found_by(q, k, v, g, mask), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=close, atol=close * np.abs(b).max())


def test_queries_of_heads_that_share_keys_are_far_from_all_of_them(device):
    """Causal, and far by their products: what a query saw first is half of two."""
    q, k = np.full((1, 4, 6, 1), 3e4, np.float32), np.full((1, 2, 6, 1), -3e4, np.float32)
    v, g = np.ones((1, 2, 6, 3), np.float32), np.ones((1, 4, 6, 3), np.float32)
    arrays, options = [cp.asarray(a) for a in (q, k, v)], {"is_causal": True, "enable_gqa": True}
    y, sums, _ = ops.scaled_dot_product_attention(*arrays, **options, return_stats=True)
    assert (y.get() == 1).all() and (sums.get() == np.float32(-9e8)).all()
    back = ops.scaled_dot_product_attention_backward
    dq, dk, dv = (a.get() for a in back(cp.asarray(g), *arrays, y, sums, **options))
    seen = 2 * np.array([sum(1 / (n + 1) for n in range(k, 6)) for k in range(6)])
    np.testing.assert_allclose(dv, np.broadcast_to(seen[:, None], v.shape), rtol=1e-6)
    assert np.abs(dq).max() < 0.1 and np.abs(dk).max() < 0.1


def test_slices_of_hidden_keys_are_joined_by_how_many_they_have(device, monkeypatch):
    monkeypatch.setattr(fused, "_slices", lambda *_: 3)  # of 40, 40 and 20 keys
    q, g = np.zeros((1, 2, 32), np.float32), np.zeros((1, 2, 16), np.float32)
    k, v = np.zeros((1, 100, 32), np.float32), np.zeros((1, 100, 16), np.float32)
    v[:, 80:] = 5
    mask = np.full((1, 2, 100), -1e9, np.float32)
    mask[0, 1, 50:] = LEAST
    y = found_by(q, k, v, g, mask)[0]
    np.testing.assert_allclose(y, np.broadcast_to(np.float64([[[1], [0]]]), y.shape), rtol=1e-6)
