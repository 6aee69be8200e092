"""Attention with a past, lengths, windows and capped scores beside NumPy in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

RNG = np.random.default_rng(4)
Q, K, V = (RNG.standard_normal((2, h, n, 8)) for h, n in ((4, 5), (2, 9), (2, 9)))
LENGTHS = np.array([9, 6])


def reference(
    q, k, v, mask=None, *, softcap=0.0, is_causal=False, past=0, lengths=None, window=(-1, -1),
    sink=None,
):  # fmt: skip
    """The result, and all scores, of the definition."""
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], 1) for a in (k, v))
    products = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    capped = softcap * np.tanh(products / softcap) if softcap else products
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])
    at = i + np.reshape(past, (-1, 1, 1, 1))
    seen = np.ones((1, 1, *products.shape[-2:]), bool)
    if is_causal:
        seen = seen & (j <= at)
    if window[0] >= 0:
        seen = seen & (j >= at - window[0])
    if window[1] >= 0:
        seen = seen & (j <= at + window[1])
    if lengths is not None:
        seen = seen & (j < np.reshape(lengths, (-1, 1, 1, 1)))
    masked = np.where(seen, capped, -np.inf)
    if mask is not None:
        masked = np.where(mask, masked, -np.inf) if mask.dtype == bool else masked + mask
    more = np.full((1, 1, 1, 1), -np.inf) if sink is None else sink.reshape(1, -1, 1, 1)
    masked = np.concatenate([masked, np.broadcast_to(more, (*masked.shape[:-1], 1))], -1)
    least = masked.max(-1, keepdims=True)
    weights = np.exp(masked - np.where(np.isinf(least), 0, least))
    weights = (weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300))[..., :-1]
    masked = masked[..., :-1]
    every = {"products": products, "capped": capped, "masked": masked, "weights": weights}
    return weights @ v, every


CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "capped": {"softcap": 0.7},
    "past": {"is_causal": True, "past": 4},
    "lengths": {"lengths": LENGTHS},
    "lengths of a cache": {"is_causal": True, "lengths": LENGTHS, "past": LENGTHS - 5},
    "window": {"window": (2, 1), "past": 2},
    "a query before all keys": {"is_causal": True, "past": LENGTHS - 9, "softcap": 1.5},
    "bool mask": {"mask": RNG.random((5, 9)) < 0.6, "lengths": LENGTHS, "softcap": 2.0},
    "sinks": {"sink": RNG.standard_normal(4), "lengths": np.array([9, 0]), "softcap": 2.0},
    "float mask": {"mask": RNG.standard_normal((2, 1, 1, 9)), "is_causal": True, "past": 3},
}


def on_device(options, dtype=np.float64):
    return {
        n: v
        if not isinstance(v, np.ndarray)
        else cp.asarray(v.astype(dtype) if v.dtype.kind == "f" else v)
        for n, v in options.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_it_is_what_the_definition_says(device, case):
    given = [cp.asarray(a.astype(np.float32)) for a in (Q, K, V)]
    wanted, every = reference(Q, K, V, **CASES[case])
    options = on_device(CASES[case], np.float32)
    found = ops.cached_attention(*given, **options, enable_gqa=True)
    np.testing.assert_allclose(found.get(), wanted, rtol=2e-5, atol=2e-6)
    for name, score in every.items():
        found, shown = ops.cached_attention(*given, **options, enable_gqa=True, scores=name)
        np.testing.assert_allclose(found.get(), wanted, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(shown.get(), score, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("case", ["capped", "lengths of a cache", "sinks"])
def test_gradients_are_those_of_differences(device, case):
    options = on_device(CASES[case], np.float32)
    given = [cp.asarray(a.astype(np.float32)) for a in (Q, K, V)]

    def total(q, k, v):
        y = ops.cached_attention(q, k, v, **options, enable_gqa=True)
        return ops.sum(y * y)

    _, slopes = cp.value_and_grad(total, wrt=(0, 1, 2))(*given)
    for n, slope in enumerate(slopes):
        step = RNG.standard_normal((Q, K, V)[n].shape)
        ends = []
        for sign in (1, -1):
            moved = [a + sign * 1e-5 * step if m == n else a for m, a in enumerate((Q, K, V))]
            ends.append((reference(*moved, **CASES[case])[0] ** 2).sum())
        wanted = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose((slope.get() * step).sum(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"softcap": -1}, cp.DefinitionError, "softcap"),
        ({"sink": np.ones(3)}, cp.ShapeError, r"sink has shape \(3,\), expected \(4,\)"),
        ({"scores": "all"}, cp.DefinitionError, "products, capped"),
        ({"window": (1,)}, cp.DefinitionError, "two numbers"),
        ({"window": (-2, 1)}, cp.ShapeError, "at least -1"),
        ({"past": -1}, cp.ShapeError, "past=-1: expected at least 0"),
        ({"past": "1"}, cp.DTypeError, "an integer for past"),
        ({"is_causal": True, "past": -1}, cp.ShapeError, "at least 0"),
        ({"is_causal": True, "past": 0.5}, cp.DTypeError, "integer"),
        ({"lengths": np.array([1, 2, 3])}, cp.ShapeError, r"expected \(2,\)"),
        ({"lengths": np.ones(2, np.float32)}, cp.DTypeError, "integers"),
    ],
)
def test_what_does_not_fit_is_refused(device, options, error, text):
    given = [cp.asarray(a.astype(np.float32)) for a in (Q, K, V)]
    with pytest.raises(error, match=text):
        ops.cached_attention(*given, **on_device(options, np.float32), enable_gqa=True)


def test_sixteen_bits_are_computed_in_float32(device):
    given = [a.astype(np.float16) for a in (Q, K, V)]
    wanted, _ = reference(*(a.astype(float) for a in given), softcap=0.7)
    arrays = [cp.asarray(a) for a in given]
    found = ops.cached_attention(*arrays, softcap=0.7, enable_gqa=True)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.get().astype(float), wanted, rtol=2.0**-10, atol=2.0**-11)
