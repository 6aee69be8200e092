"""Attention of ONNX Runtime's own set: masks, caches and windows as its CPU provider has them."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.attention import behind, heads, joined, rotated
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler, node
from clprim.onnx.values import BOOL, INT64

_DOMAIN = "com.microsoft"


@handler("RotaryEmbedding", domain=_DOMAIN, only={"is_packed_batching": 0, "scale": 1.0})
def _rotary(
    x: Any, positions: Any, cos: Any, sin: Any, *, num_heads: int = 0,
    rotary_embedding_dim: int = 0, interleaved: bool = False,
) -> Any:  # fmt: skip
    told: Any = {"rotary_embedding_dim": rotary_embedding_dim, "interleaved": interleaved}
    return rotated(x, cos, sin, positions, num_heads=num_heads, **told)


def _hidden(mask: Any, batch: int, new: int, total: int) -> str:
    """C of whether a key is hidden, of coordinates (batch, 1, query, key)."""
    if mask.shape == (batch,) or mask.shape == (3 * batch + 2,):  # lengths, then where rows begin
        return "coord(3) >= at_x0(coord(0))"
    if mask.shape == (2 * batch,):  # ends, then beginnings
        return f"coord(3) >= at_x0(coord(0)) || coord(3) < at_x0(coord(0) + {batch})"
    if mask.shape == (batch, total):
        return "at_x0(coord(0), coord(3)) <= 0"
    if mask.shape == (batch, new, total):
        return "at_x0(coord(0), coord(2), coord(3)) <= 0"
    raise DefinitionError(f"a mask of shape {mask.shape} for {batch} × {new} × {total} scores")


def _attention(q: Any, k: Any, v: Any, bias: Any, past: int, n: Any, scores: bool = False) -> Any:
    """Attention whose masks are added to scores; a row that is masked as a whole is unmasked."""
    batch, new, total, causal = q.shape[0], q.shape[2], k.shape[2], n.unidirectional
    if n.mask is not None:
        text = _hidden(n.mask, batch, new, total)
        shape = batch, 1, new if "coord(2)" in text else 1, total
        text = f"y0 = {text} ? w0 : 0;"
        added = string(text, q.dtype, n.mask, n.mask_filter_value, shape=shape)
        bias = added if bias is None else ops.add(bias, added)
    ragged = causal and total > past + new
    if ragged:  # ONNX Runtime leaves out the last row, which has nothing to hide else
        text = f"y0 = coord(1) <= coord(0) + {past} || coord(0) == {new - 1};"
        seen = string(text, BOOL, shape=(new, total))
        bias = seen if bias is None else string("y0 = x0 ? x1 : -INFINITY;", q.dtype, seen, bias)
    return ops.cached_attention(
        q, k, v, bias, scale=n.scale or None, is_causal=causal and not ragged, past=past,
        scores="masked" if scores else None,
    )  # fmt: skip


@node("""com.microsoft::MultiHeadAttention(q, k, v, bias, mask, added, past_k, past_v)
    num_heads unidirectional=False scale=None mask_filter_value=-10000.0 @4""")
def _multi_head_attention(context: Any, n: Any) -> Any:
    q, k, v, bias = n.q, n.k, n.v, n.bias
    if k is None or q.ndim != 3 or k.ndim == 5:
        raise DefinitionError("MultiHeadAttention of packed arrays")
    if bias is not None:
        size = q.shape[-1]
        q = ops.add(q, bias[:size])
        if k.ndim == 3:
            end = size + k.shape[-1]
            k, v = ops.add(k, bias[size:end]), ops.add(v, bias[end:])
    q, k, v = (heads(t, n.num_heads) if t.ndim == 3 else t for t in (q, k, v))
    k, v = behind(n.past_k, k), behind(n.past_v, v)
    past = 0 if n.past_k is None else n.past_k.shape[2]
    shown = context.wanted(3)
    found = _attention(q, k, v, n.added, past, n, shown)
    scores: Any = None
    y, scores = found if shown else (found, None)
    if shown:  # of what nothing sees ONNX Runtime says the least number
        least = -65504.0 if scores.dtype.name == "float16" else -3.4028234663852886e38
        scores = string("y0 = x0 == -INFINITY ? w0 : x0;", scores.dtype, scores, least)
    return joined(y), k, v, scores


#: What both of `Attention` and `QAttention` have; one buffer of past and present is not ours.
PROJECTED = """num_heads unidirectional=False scale=None mask_filter_value=-10000.0
    !do_rotary=0 !past_present_share_buffer=0 !rotary_embedding_dim=0 @2"""


def projected(y: Any, n: Any, sizes: Any = None, bias: Any = None) -> Any:
    """Returns attention of queries, keys and values side by side, and keys and values after it."""
    a, b, _ = sizes or [y.shape[-1] // 3] * 3
    parts = y[..., :a], y[..., a : a + b], y[..., a + b :]
    q, k, v = (heads(t, n.num_heads) for t in parts)
    before = 0
    if n.past is not None:
        k, v, before = behind(n.past[0], k), behind(n.past[1], v), n.past.shape[3]
    found = joined(_attention(q, k, v, bias, before, n))
    return found, ops.stack([k, v], 0) if k.shape == v.shape else None


@node(f"com.microsoft::Attention(x, w, b, mask, past, bias) qkv_hidden_sizes=None {PROJECTED}")
def _projected_attention(context: Any, n: Any) -> Any:
    y = ops.matmul(n.x, n.w)
    return projected(y if n.b is None else ops.add(y, n.b), n, n.qkv_hidden_sizes, n.bias)


_SCORES = None, "masked", "weights"


# Inputs behind the sink normalise and scale what ONNX Runtime's CPU provider does not take either.
@node("""com.microsoft::GroupQueryAttention(q, k, v, past_k, past_v, lengths, total: Number, cos,
        sin, positions, bias, sink)
    num_heads kv_num_heads softcap=0.0 do_rotary=False rotary_interleaved=False
    local_window_size=-1 scale=0.0 causal=True smooth_softmax=0 qk_output=0
    !sliding_window_cache=0 !k_quant_type='NONE' !v_quant_type='NONE' !kv_cache_bit_width=0
    -k_norm_epsilon -q_norm_epsilon -qk_norm_epsilon @4""")
def _group_query_attention(context: Any, n: Any) -> Any:
    q, k, v, sink = n.q, n.k, n.v, n.sink
    if k is None:
        size = q.shape[-1] // (n.num_heads + 2 * n.kv_num_heads)
        ends = n.num_heads * size, (n.num_heads + n.kv_num_heads) * size
        q, k, v = q[..., : ends[0]], q[..., ends[0] : ends[1]], q[..., ends[1] :]
    q, k, v = heads(q, n.num_heads), heads(k, n.kv_num_heads), heads(v, n.kv_num_heads)
    new = q.shape[2]
    lengths = string("y0 = x0 + 1;", INT64, n.lengths.reshape(-1))
    # Each row goes on at its own length; a first prompt begins at 0 however long it is.
    begin = string("y0 = max(x0 - w0, 0L);", INT64, lengths, new)
    total = new if n.past_k is None else n.total
    if n.do_rotary:
        positions = _positions(n, begin, new, total)
        told: Any = {"rotary_embedding_dim": 2 * n.cos.shape[-1]}
        told["interleaved"] = n.rotary_interleaved
        q, k = (rotated(t, n.cos, n.sin, positions, **told) for t in (q, k))
    if n.past_k is not None:
        k, v = (_placed(a, b, begin, total) for a, b in ((n.past_k, k), (n.past_v, v)))
    if n.smooth_softmax == 1 and sink is None:
        sink = string("y0 = 0;", q.dtype, shape=(n.num_heads,))
    shown: Any = _SCORES[n.qk_output] if context.wanted(3) else None
    window = n.local_window_size
    found = ops.cached_attention(
        q, k[:, :, :total], v[:, :, :total], n.bias, scale=n.scale or None, softcap=n.softcap,
        is_causal=n.causal, past=begin, enable_gqa=True, sink=sink, scores=shown,
        lengths=lengths if window else string("(void)x0; y0 = 0;", INT64, lengths),
        window=(window - 1 if window > 0 else -1, -1),
    )  # fmt: skip
    scores: Any = None
    y, scores = found if shown else (found, None)
    if shown == "masked":
        scores = string("y0 = x0 == -INFINITY ? 0 : x0;", scores.dtype, scores)
    return joined(y), k, v, scores


def _positions(n: Any, begin: Any, new: int, total: int) -> Any:
    """Where new queries and keys stand: as it is said, or from where each row begins."""
    if n.positions is not None and total != new:
        return n.positions
    first = begin.reshape((-1, 1))
    if n.positions is not None:  # of a first prompt only where it begins
        first = n.positions.reshape(-1)[:1].reshape((1, 1))
    return string("y0 = x0 + coord(1);", INT64, first, shape=(begin.shape[0], new))


def _placed(past: Any, new: Any, begin: Any, total: int) -> Any:
    """Returns keys or values of before with new ones from where each row begins."""
    n, length = past.shape[2], max(past.shape[2], total)
    text = f"""
        long at = (long)coord(2) - at_x2(coord(0));
        y0 = at >= 0 && at < {new.shape[2]} ? at_x1(coord(0), coord(1), at, coord(3))
            : coord(2) < {n} ? at_x0(coord(0), coord(1), coord(2), coord(3)) : 0;"""
    return string(text, new.dtype, past, new, begin, shape=(*new.shape[:2], length, new.shape[3]))
