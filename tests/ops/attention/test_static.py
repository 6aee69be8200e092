"""Attention over a static cache beside NumPy in float64: lengths, windows, caps, groups."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.attention import static
from clprim.runtime.stats import stats

RNG = np.random.default_rng(0)


def reference(q, k, v, lengths, causal, window, cap, slopes=None, sink=None):
    shape = (*q.shape[:-1], v.shape[-1])
    out = np.zeros(shape)
    groups = q.shape[1] // k.shape[1]
    for b, h in np.ndindex(shape[:2]):
        n = lengths[b % len(lengths)]
        scores = q[b, h].astype(float) @ k[b, h // groups, :n].astype(float).T * q.shape[-1] ** -0.5
        scores = cap * np.tanh(scores / cap) if cap else scores
        i, j = np.arange(q.shape[2])[:, None] + n - q.shape[2], np.arange(scores.shape[1])
        scores = scores if slopes is None else scores - slopes[h] * (i - j)
        seen = (j <= i) & (j > i - (window or n)) if causal else i + j >= i
        top = scores.max(-1, keepdims=True, initial=-1e9 if sink is None else sink[h])
        weights = np.where(seen, np.exp(scores - top), 0)
        sums = weights.sum(-1, keepdims=True) + (0 if sink is None else np.exp(sink[h] - top))
        weights = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
        out[b, h] = weights @ v[b, h // groups, :n]
    return out


# Queries, heads, heads of keys, size, room, lengths, window, cap, causal.
CASES = {
    "one query": (1, 4, 1, 32, 300, [200], None, 0, True),
    "one query, window and cap": (1, 4, 2, 32, 1000, [700, 5], 512, 5.0, True),
    "one query, odd heads": (1, 3, 3, 20, 60, [60], 7, 0, True),
    "queries": (20, 4, 2, 32, 300, [250, 130], None, 0, True),
    "queries, window and cap": (20, 4, 2, 32, 300, [250], 17, 3.0, True),
    "longer than there is": (40, 2, 2, 32, 60, [30, 60], None, 0, True),
    "a window over blocks": (130, 2, 1, 32, 330, [330], 64, 0, True),
    "all keys": (5, 4, 2, 32, 300, [250, 90], None, 0, False),
    "past the room": (20, 2, 2, 16, 30, [40], 15, 0, True),
    "one query past the room": (1, 2, 2, 16, 30, [33], 9, 0, True),
    "nothing": (3, 2, 2, 16, 20, [0], None, 0, True),
}


@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_results(device, monkeypatch, name, composed):
    count, heads, keys, size, room, lengths, window, cap, causal = CASES[name]
    if composed:  # as on devices that have no kernel for it
        monkeypatch.setattr(static, "attend_static", lambda *_: False)
    texts = len(lengths)
    q = RNG.normal(size=(texts, heads, count, size)).astype(np.float32)
    k, v = (RNG.normal(size=(texts, keys, room, size)).astype(np.float16) for _ in range(2))
    expected = reference(q, k, v, lengths, causal, window, cap)
    given = lengths[0] if texts == 1 else cp.asarray(np.int32(lengths))
    found = ops.scaled_dot_product_attention(
        *map(cp.asarray, (q, k, v)), length=given, is_causal=causal, enable_gqa=True,
        window=window, softcap=cap,
    )  # fmt: skip
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5)


def test_what_is_behind_the_length_is_not_read(device):
    q = RNG.normal(size=(1, 2, 1, 16)).astype(np.float32)
    k, v = (np.full((1, 2, 200, 16), np.nan, np.float16) for _ in range(2))
    k[:, :, :3], v[:, :, :3] = RNG.normal(size=(2, 1, 2, 3, 16))
    for query in (q, np.repeat(q, 3, 2)):
        found = ops.scaled_dot_product_attention(
            *map(cp.asarray, (query, k, v)), length=3, is_causal=True
        )
        expected = reference(query, k[:, :, :3], v[:, :, :3], [3], True, None, 0)
        np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_text_that_grows_compiles_nothing_and_equals_recomputation(device, dtype):
    cache = ops.KeyValueCache(2, 1, 2, 64, 16, dtype)
    assert cache.keys.dtype == dtype and cache.length == 64
    tokens = RNG.normal(size=(3, 1, 4, 23, 16)).astype(np.float32)

    @cp.jit
    def step(q, k, v, place, keys, values):
        there = ops.KeyValueCache.over(keys, values).write(1, k, v, place)
        return ops.scaled_dot_product_attention(
            q, *there, length=place + q.shape[2], is_causal=True, enable_gqa=True
        )

    found, met = [], None
    for at, count in [(0, 9), (9, 1), (10, 1), (11, 9), (20, 1), (21, 1), (22, 1)]:
        q, k, v = (cp.asarray(np.ascontiguousarray(a[:, :, at : at + count])) for a in tokens)
        place = cp.asarray(np.int32([at]))
        found.append(step(q, k[:, :2], v[:, :2], place, cache.keys, cache.values).get())
        if at == 9:
            met = stats()
    spent = stats() - met
    assert (spent.builds, spent.disk_hits, spent.memory_hits, spent.plans) == (0, 0, 0, 0)
    q, k, v = tokens
    expected = reference(q, k[:, :2], v[:, :2], [23], True, None, 0)
    close = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}[dtype]
    np.testing.assert_allclose(np.concatenate(found, 2), expected, rtol=close, atol=close)
    assert not cache.keys[0].get().astype(np.float32).any()


@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize("given", ["slopes", "sink", "slopes sink"])
def test_slopes_and_sinks(device, monkeypatch, given, count, composed):
    """One text is longer than the other, which has less keys than queries; one has no keys."""
    if composed:
        monkeypatch.setattr(static, "attend_static", lambda *_: False)
    q = RNG.normal(size=(3, 6, count, 16)).astype(np.float32)
    k, v = RNG.normal(size=(2, 3, 2, 300, 16)).astype(np.float32)
    known = {name: RNG.random(6).astype(np.float32) for name in given.split()}
    lengths, options = [270, 5, 0], {"window": 200, "softcap": 4.0}
    found = ops.scaled_dot_product_attention(
        *map(cp.asarray, (q, k, v)), length=cp.asarray(np.int32(lengths)), is_causal=True,
        enable_gqa=True, **options, **{name: cp.asarray(a) for name, a in known.items()},
    )  # fmt: skip
    expected = reference(q, k, v, lengths, True, 200, 4.0, **known)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize("count", [1, 7, 20])
def test_a_cache_of_8_bits(device, monkeypatch, count, composed):
    """Codes are of the numbers, and results those of the codes."""
    if composed:
        monkeypatch.setattr(static, "attend_static", lambda *_: False)
    cache = ops.KeyValueCache(2, 2, 2, 150, 32, "int8")
    given = (
        RNG.normal(size=(2, 2, 2, 140, 32)).astype(np.float32)
        * np.float32([1, 5])[:, None, None, None, None]
    )
    given[:, 0, 0, 3] = 0
    k, v = map(cp.asarray, given)
    cache.write(1, k, v, 3)
    assert not cache.keys[0].get().any() and not cache.keys[1, :, :, :3].get().any()
    there = []
    for memory, numbers in zip((cache.keys, cache.values), given, strict=True):
        rows = memory[1].get()
        scales = np.ascontiguousarray(rows[..., 32:]).view(np.float32)
        there.append(rows[..., :32] * scales.astype(float))
        most = np.abs(numbers).max(-1, keepdims=True)
        assert (np.abs(there[-1][:, :, 3:143] - numbers) <= most / 253).all()
    q = RNG.normal(size=(2, 4, count, 32)).astype(np.float32)
    lengths = cp.asarray(np.int32([140, 60]))
    found = ops.scaled_dot_product_attention(
        cp.asarray(q), *cache[1], length=lengths, is_causal=True, enable_gqa=True, window=90
    )
    expected = reference(q, *there, [140, 60], True, 90, 0)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5)


def test_each_text_has_its_own_place(device):
    cache = ops.KeyValueCache(2, 3, 2, 9, 4, "float32")
    k = RNG.normal(size=(3, 2, 2, 4)).astype(np.float32)
    places = np.int32([[0, 1], [8, 9], [4, 3]])
    cache.write(1, cp.asarray(k), cp.asarray(-k), cp.asarray(places))
    expected = np.zeros((2, 3, 2, 9, 4), np.float32)
    for text, line in enumerate(places):
        for n, place in enumerate(line):
            if place < 9:  # the last one of a text is not the first of the next
                expected[1, text, :, place] = k[text, :, n]
    np.testing.assert_array_equal(cache.keys.get(), expected)
    np.testing.assert_array_equal(cache.values.get(), -expected)
    with pytest.raises(cp.ClprimError, match="cache without gaps"):
        gaps = ops.KeyValueCache.over(cache.keys[:, :, :, :8], cache.values[:, :, :, :8])
        gaps.write(0, cp.asarray(k), cp.asarray(k), cp.asarray(places))


@pytest.mark.refusal
def test_refusals(device):
    q, k = cp.zeros((1, 2, 3, 8)), cp.zeros((1, 2, 9, 8), "float16")
    attend = ops.scaled_dot_product_attention
    for options, said in (
        ({"length": 2, "attn_mask": q}, "goes without"),
        ({"length": 2, "window": 3}, "needs is_causal=True"),
        ({"length": 2, "window": 0, "is_causal": True}, "at least 1"),
        ({"length": 2, "softcap": -1.0}, "at least 0"),
        ({"length": 2, "slopes": q[0, :, 0, 0]}, "slopes= needs is_causal=True"),
        ({"length": 2, "sink": q}, "sink has shape"),
        ({"length": 2, "sink": q[0, :, 0, 0].astype("float16")}, "sink is float16"),
        ({"sink": q}, "need length="),
        ({"length": -1}, "at least 0"),
        ({"length": q}, "expected integers"),
        ({"length": cp.asarray(np.int32([1, 2]))}, "length has shape"),
        ({"window": 3}, "need length="),
        ({}, "expected one floating dtype"),
    ):
        with pytest.raises(cp.ClprimError, match=said):
            attend(q, k, k, **options)
    with pytest.raises(cp.ClprimError, match="needs a query of shape"):
        attend(q[0], k[0], k[0], length=1)
    with pytest.raises(cp.ClprimError, match="expected float32, float16, bfloat16 or int8"):
        ops.KeyValueCache(1, 1, 1, 1, 1, "uint8")
    with pytest.raises(cp.ClprimError, match="expected a floating dtype or both int8"):
        attend(q, k.astype("int8"), k, length=1)
    with pytest.raises(cp.ClprimError, match="heads=0: expected at least 1"):
        ops.KeyValueCache(1, 1, 0, 1, 1)
    cache = ops.KeyValueCache(1, 1, 2, 9, 8)
    for key, place, said in (
        (q[:, :1], 0, "key has shape"),
        (q, cp.asarray(np.int32([1, 2])), "position has shape"),
        (q.astype("int32"), 0, "expected a floating dtype"),
        (q, 1.5, "expected an integer"),
    ):
        with pytest.raises(cp.ClprimError, match=said):
            cache.write(0, key, key, place)
