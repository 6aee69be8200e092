"""Attention of ONNX Runtime's own set: masks, caches and windows as its CPU provider has them."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.attention import behind, heads, joined, rotated
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Number, handler
from clprim.onnx.values import BOOL, INT64

_DOMAIN = "com.microsoft"
_FILTER = -10000.0


@handler("RotaryEmbedding", domain=_DOMAIN, only={"is_packed_batching": 0, "scale": 1.0})
def _rotary(
    x: Any, positions: Any, cos: Any, sin: Any, *, num_heads: int = 0,
    rotary_embedding_dim: int = 0, interleaved: bool = False,
) -> Any:  # fmt: skip
    told: Any = {"rotary_embedding_dim": rotary_embedding_dim, "interleaved": interleaved}
    return rotated(x, cos, sin, positions, num_heads=num_heads, **told)


def _hidden(mask: Any, batch: int, new: int, total: int) -> tuple[str, Any]:
    """C of whether a key is hidden, of coordinates (batch, 1, query, key), and its array."""
    if mask.shape == (batch,) or mask.shape == (3 * batch + 2,):  # lengths, then where rows begin
        return "coord(3) >= at_x0(coord(0))", mask
    if mask.shape == (2 * batch,):  # ends, then beginnings
        return f"coord(3) >= at_x0(coord(0)) || coord(3) < at_x0(coord(0) + {batch})", mask
    if mask.shape == (batch, total):
        return "at_x0(coord(0), coord(3)) <= 0", mask
    if mask.shape == (batch, new, total):
        return "at_x0(coord(0), coord(2), coord(3)) <= 0", mask
    raise DefinitionError(f"a mask of shape {mask.shape} for {batch} × {new} × {total} scores")


def _attention(
    q: Any, k: Any, v: Any, mask: Any, bias: Any, past: int, causal: bool, told: Any,
    scores: bool = False,
) -> Any:  # fmt: skip
    """Attention whose masks are added to scores; a row that is masked as a whole is unmasked."""
    batch, new, total = q.shape[0], q.shape[2], k.shape[2]
    if mask is not None:
        text, array = _hidden(mask, batch, new, total)
        shape = batch, 1, new if "coord(2)" in text else 1, total
        text = f"y0 = {text} ? w0 : 0;"
        added = string(text, q.dtype, array, told.get("mask_filter_value", _FILTER), shape=shape)
        bias = added if bias is None else ops.add(bias, added)
    ragged = causal and total > past + new
    if ragged:  # ONNX Runtime leaves out the last row, which has nothing to hide else
        text = f"y0 = coord(1) <= coord(0) + {past} || coord(0) == {new - 1};"
        seen = string(text, BOOL, shape=(new, total))
        bias = seen if bias is None else string("y0 = x0 ? x1 : -INFINITY;", q.dtype, seen, bias)
    return ops.cached_attention(
        q, k, v, bias, scale=told.get("scale") or None, is_causal=causal and not ragged, past=past,
        scores="masked" if scores else None,
    )  # fmt: skip


@handler("MultiHeadAttention", domain=_DOMAIN, takes="mask_filter_value scale", makes=4)
def _multi_head_attention(
    context: Any, q: Any, k: Any = None, v: Any = None, bias: Any = None, padding: Any = None,
    added: Any = None, past_k: Any = None, past_v: Any = None, *, num_heads: int,
    unidirectional: bool = False, **told: Any,
) -> Any:  # fmt: skip
    if k is None or q.ndim != 3 or k.ndim == 5:
        raise DefinitionError("MultiHeadAttention of packed arrays")
    if bias is not None:
        n = q.shape[-1]
        q = ops.add(q, bias[:n])
        if k.ndim == 3:
            k, v = ops.add(k, bias[n : n + k.shape[-1]]), ops.add(v, bias[n + k.shape[-1] :])
    q, k, v = (heads(t, num_heads) if t.ndim == 3 else t for t in (q, k, v))
    k, v = behind(past_k, k), behind(past_v, v)
    past = 0 if past_k is None else past_k.shape[2]
    shown = context.wanted(3)
    found = _attention(q, k, v, padding, added, past, unidirectional, told, shown)
    scores: Any = None
    y, scores = found if shown else (found, None)
    if shown:  # of what nothing sees ONNX Runtime says the least number
        least = -65504.0 if scores.dtype.name == "float16" else -3.4028234663852886e38
        scores = string("y0 = x0 == -INFINITY ? w0 : x0;", scores.dtype, scores, least)
    return joined(y), k, v, scores


def projected(
    y: Any, past: Any, mask: Any, bias: Any, num_heads: int, sizes: Any, causal: bool, told: Any
) -> Any:
    """Returns attention of queries, keys and values side by side, and keys and values after it."""
    a, b, _ = sizes or [y.shape[-1] // 3] * 3
    parts = y[..., :a], y[..., a : a + b], y[..., a + b :]
    q, k, v = (heads(t, num_heads) for t in parts)
    before = 0
    if past is not None:
        k, v, before = behind(past[0], k), behind(past[1], v), past.shape[3]
    found = joined(_attention(q, k, v, mask, bias, before, causal, told))
    return found, ops.stack([k, v], 0) if k.shape == v.shape else None


#: What both of `Attention` and `QAttention` have; one buffer of past and present is not ours.
TOLD: Any = {
    "takes": "mask_filter_value scale", "makes": 2, "domain": _DOMAIN,
    "only": {"do_rotary": 0, "past_present_share_buffer": 0, "rotary_embedding_dim": 0},
}  # fmt: skip


@handler("Attention", **TOLD)
def _projected_attention(
    x: Any, w: Any, b: Any = None, mask: Any = None, past: Any = None, bias: Any = None, *,
    num_heads: int, unidirectional: bool = False, qkv_hidden_sizes: Any = None, **told: Any,
) -> Any:  # fmt: skip
    y = ops.matmul(x, w)
    y = y if b is None else ops.add(y, b)
    return projected(y, past, mask, bias, num_heads, qkv_hidden_sizes, unidirectional, told)


_ONLY = {"sliding_window_cache": 0, "k_quant_type": "NONE", "v_quant_type": "NONE",
         "kv_cache_bit_width": 0}  # fmt: skip
_SCORES = None, "masked", "weights"


# Inputs behind the sink normalise and scale what ONNX Runtime's CPU provider does not take either.
@handler("GroupQueryAttention", domain=_DOMAIN, only=_ONLY, makes=4,
         idle="k_norm_epsilon q_norm_epsilon qk_norm_epsilon")  # fmt: skip
def _group_query_attention(
    context: Any, q: Any, k: Any = None, v: Any = None, past_k: Any = None, past_v: Any = None,
    lengths: Any = None, total: Number = None, cos: Any = None, sin: Any = None,
    positions: Any = None, bias: Any = None, sink: Any = None, *, num_heads: int,
    kv_num_heads: int, softcap: float = 0.0, do_rotary: bool = False,
    rotary_interleaved: bool = False, local_window_size: int = -1, scale: float = 0.0,
    causal: bool = True, smooth_softmax: int = 0, qk_output: int = 0,
) -> Any:  # fmt: skip
    if k is None:
        size = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        ends = num_heads * size, (num_heads + kv_num_heads) * size
        q, k, v = q[..., : ends[0]], q[..., ends[0] : ends[1]], q[..., ends[1] :]
    q, k, v = heads(q, num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    batch, _, new, _ = q.shape
    lengths = string("y0 = x0 + 1;", INT64, lengths.reshape(-1))
    # Each row goes on at its own length; a first prompt begins at 0 however long it is.
    begin = string("y0 = max(x0 - w0, 0L);", INT64, lengths, new)
    total = new if past_k is None else total
    if do_rotary:
        first = begin.reshape((batch, 1))
        if positions is not None and total == new:  # of a first prompt only where it begins
            first = positions.reshape(-1)[:1].reshape((1, 1))
        if positions is None or total == new:
            positions = string("y0 = x0 + coord(1);", INT64, first, shape=(batch, new))
        told: Any = {"rotary_embedding_dim": 2 * cos.shape[-1], "interleaved": rotary_interleaved}
        q, k = (rotated(t, cos, sin, positions, **told) for t in (q, k))
    if past_k is not None:
        k, v = (_placed(a, b, begin, total) for a, b in ((past_k, k), (past_v, v)))
    if smooth_softmax == 1 and sink is None:
        sink = string("y0 = 0;", q.dtype, shape=(num_heads,))
    shown: Any = _SCORES[qk_output] if context.wanted(3) else None
    found = ops.cached_attention(
        q, k[:, :, :total], v[:, :, :total], bias, scale=scale or None, softcap=softcap,
        is_causal=causal, past=begin, enable_gqa=True, sink=sink, scores=shown,
        lengths=lengths if local_window_size else string("(void)x0; y0 = 0;", INT64, lengths),
        window=(local_window_size - 1 if local_window_size > 0 else -1, -1),
    )  # fmt: skip
    scores: Any = None
    y, scores = found if shown else (found, None)
    if shown == "masked":
        scores = string("y0 = x0 == -INFINITY ? 0 : x0;", scores.dtype, scores)
    return joined(y), k, v, scores


def _placed(past: Any, new: Any, begin: Any, total: int) -> Any:
    """Returns keys or values of before with new ones from where each row begins."""
    n, length = past.shape[2], max(past.shape[2], total)
    text = f"""
        long at = (long)coord(2) - at_x2(coord(0));
        y0 = at >= 0 && at < {new.shape[2]} ? at_x1(coord(0), coord(1), at, coord(3))
            : coord(2) < {n} ? at_x0(coord(0), coord(1), coord(2), coord(3)) : 0;"""
    return string(text, new.dtype, past, new, begin, shape=(*new.shape[:2], length, new.shape[3]))
