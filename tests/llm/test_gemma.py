"""Gemma 3 270M, where its package is installed, beside NumPy over its dequantised weights."""

from pathlib import Path

import numpy as np
import pytest

import clprim.llm

PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a",
    "def fibonacci(n):\n",
    "Die Hauptstadt von Italien ist",
    "1, 2, 3, 5, 8,",
)
LAYERS, HEADS, SIZE, WINDOW = 18, 4, 256, 512


@pytest.fixture(scope="module")
def weights(gemma):
    gguf = pytest.importorskip("gguf")
    found = {}
    for t in gguf.GGUFReader(gemma).tensors:
        shape = tuple(int(n) for n in reversed(t.shape))
        found[t.name] = gguf.quants.dequantize(t.data, t.tensor_type).reshape(shape)
    return found


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def turned(x, base):
    """Halves of heads turned by the angles of their places."""
    half = SIZE // 2
    angles = np.arange(len(x))[:, None, None] * base ** (-np.arange(half) / half)
    cos, sin, a, b = np.cos(angles), np.sin(angles), x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def reference(w, ids, last):
    """Scores after the last tokens, in float64 but for products."""
    x = w["token_embd.weight"][ids].astype(float) * 640**0.5
    i, j = np.arange(len(ids))[:, None], np.arange(len(ids))
    times = lambda y, name: (y.astype("f") @ w[f"{name}.weight"].T).astype(float)  # noqa: E731
    for n in range(LAYERS):
        at, whole = f"blk.{n}.", n % 6 == 5
        part = lambda name, at=at: w[f"{at}{name}.weight"]  # noqa: E731
        y = norm(x, part("attn_norm"))
        q, k, v = (times(y, f"{at}attn_{c}").reshape(len(ids), -1, SIZE) for c in "qkv")
        base = 1e6 if whole else 1e4
        q = turned(norm(q, part("attn_q_norm")), base)
        k = turned(norm(k, part("attn_k_norm")), base)
        scores = np.einsum("qhe,ke->hqk", q, k[:, 0]) * SIZE**-0.5
        scores[:, (j > i) | ((j <= i - WINDOW) & (not whole))] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hqk,kf->qhf", p / p.sum(-1, keepdims=True), v[:, 0])
        y = times(y.reshape(len(ids), -1), f"{at}attn_output")
        x = x + norm(y, part("post_attention_norm"))
        y = norm(x, part("ffn_norm"))
        gate, up = times(y, f"{at}ffn_gate"), times(y, f"{at}ffn_up")
        gate = gate / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)))
        x = x + norm(times(gate * up, f"{at}ffn_down"), part("post_ffw_norm"))
    return times(norm(x, w["output_norm.weight"])[-last:], "token_embd")


@pytest.mark.optimised
def test_logits_and_tokens(device, gemma, weights):
    model = clprim.llm.load(gemma, context=1024)
    text = "".join(model.generate(PROMPTS[0], tokens=16))
    assert text.startswith(" the capital of the country of France.")
    for prompt in PROMPTS:
        ids = model.tokenize(prompt)
        expected = reference(weights, ids, len(ids))
        assert np.abs(model.logits(ids).get() - expected).max() <= 1e-3 * expected.std()
        found = model.generate(prompt, tokens=64)
        for _ in found:
            pass
        scores = reference(weights, [*ids, *found.tokens[:-1]], len(found.tokens))
        assert len(found.tokens) == 64
        np.testing.assert_array_equal(scores.argmax(-1), found.tokens)


@pytest.mark.optimised
def test_a_text_longer_than_its_window(device, gemma, weights):
    model = clprim.llm.load(gemma, context=1024)
    ids = model.tokenize(Path(__file__).read_text())[:700]
    assert len(ids) == 700
    found = model.generate(ids, tokens=4)
    for _ in found:
        pass
    scores = reference(weights, [*ids, *found.tokens[:-1]], len(found.tokens))
    np.testing.assert_array_equal(scores.argmax(-1), found.tokens)
