"""Attention and rotary embeddings."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.elementwise import string
from clprim.onnx.operators.shape import padded
from clprim.onnx.table import handler
from clprim.onnx.values import INT64

_MICROSOFT = "com.microsoft"


def heads(x: Any, count: int) -> Any:
    """Returns (batch, length, heads * size) as (batch, heads, length, size)."""
    batch, length, size = x.shape
    return x.reshape((batch, length, count, size // count)).transpose(0, 2, 1, 3)


def joined(x: Any) -> Any:
    """Returns (batch, heads, length, size) as (batch, length, heads * size)."""
    batch, count, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape((batch, length, count * size))


def _behind(past: Any, new: Any) -> Any:
    return new if past is None else ops.cat([past, new], 2)


_SCORES = "products", "capped", "masked", "weights"


@handler("Attention")
def _attention(
    context: Any, q: Any, k: Any, v: Any, mask: Any = None, past_k: Any = None,
    past_v: Any = None, lengths: Any = None, *, is_causal: bool = False,
    scale: float | None = None, softcap: float = 0.0, qk_matmul_output_mode: int = 0, **told: Any,
) -> Any:  # fmt: skip
    flat, new = q.ndim == 3, q.shape[-2]
    if flat:
        q, k, v = (heads(t, told[f"{n}_num_heads"]) for t, n in ((q, "q"), (k, "kv"), (v, "kv")))
    k, v = _behind(past_k, k), _behind(past_v, v)
    more = 0 if mask is None else k.shape[2] - mask.shape[-1]
    if more > 0:
        mask = padded(mask, [*[(0, 0)] * (mask.ndim - 1), (0, more)], fill=-math.inf)
    past = 0 if past_k is None else past_k.shape[2]
    shown: Any = _SCORES[qk_matmul_output_mode] if context.wanted(3) else None
    found: Any = ops.cached_attention(
        q, k, v, mask, scale=scale, softcap=softcap, is_causal=is_causal, lengths=lengths,
        past=past if lengths is None else string("y0 = x0 - w0;", INT64, lengths, new),
        window=tuple(told.get(f"{side}_window_size", -1) for side in ("left", "right")),
        enable_gqa=q.shape[1] != k.shape[1], scores=shown,
    )  # fmt: skip
    y, scores = found if shown else (found, None)
    return joined(y) if flat else y, k, v, scores


@handler("RotaryEmbedding")
def rotated(
    x: Any, cos: Any, sin: Any, positions: Any = None, *, num_heads: int = 0,
    rotary_embedding_dim: int = 0, interleaved: bool = False, **told: Any,
) -> Any:  # fmt: skip
    """Returns (batch, heads, length, size), or heads within the last axis, turned by angles.

    Args:
        x: The array.
        cos: Of (positions, size / 2), or of (batch, length, size / 2) where there are no
            positions: (batch, length) or, of consecutive ones, the first: (1,).
        sin: Likewise.
        positions: See ``cos``.
        num_heads: Of an array of three dimensions.
        rotary_embedding_dim: Features that are turned; 0 is all.
        interleaved: Whether pairs lie side by side.
        told: Other attributes.
    """
    flat = x.ndim == 3
    if flat:
        size = x.shape[2] // num_heads if num_heads else cos.shape[-1] * 2
        x = heads(x, x.shape[2] // size)
    if positions is None:
        cos, sin = (t.reshape((t.shape[0], 1, *t.shape[1:])) for t in (cos, sin))
    else:
        if positions.ndim == 1:
            positions = string("y0 = x0 + coord(1);", INT64, positions, shape=(1, x.shape[2]))
        positions = positions.reshape((positions.shape[0], 1, positions.shape[1]))
    part = rotary_embedding_dim or x.shape[3]
    turned = x if part == x.shape[3] else x[..., :part]
    y = ops.rotary_embedding(turned, cos, sin, positions=positions, interleaved=interleaved)
    y = y if turned is x else ops.cat([y, x[..., part:]], 3)
    return joined(y) if flat else y


@handler("RotaryEmbedding", domain=_MICROSOFT)
def _rotary(
    x: Any, positions: Any, cos: Any, sin: Any, *, interleaved: bool = False, **told: Any
) -> Any:
    return rotated(x, cos, sin, positions, interleaved=interleaved, **told)


@handler("MultiHeadAttention", domain=_MICROSOFT)
def _multi_head_attention(
    q: Any, k: Any = None, v: Any = None, bias: Any = None, padding: Any = None, added: Any = None,
    past_k: Any = None, past_v: Any = None, cache: Any = None, *, num_heads: int,
    mask_filter_value: float = -10000.0, unidirectional: bool = False, scale: float = 0.0,
) -> Any:  # fmt: skip
    if k is None or q.ndim != 3 or cache is not None:
        raise DefinitionError("MultiHeadAttention of packed arrays or with a shared cache")
    if bias is not None:
        n = q.shape[-1]
        q = ops.add(q, bias[:n])
        if k.ndim == 3:
            k, v = ops.add(k, bias[n : n + k.shape[-1]]), ops.add(v, bias[n + k.shape[-1] :])
    q, k, v = (heads(t, num_heads) if t.ndim == 3 else t for t in (q, k, v))
    k, v, mask = _behind(past_k, k), _behind(past_v, v), added
    lengths = padding if padding is not None and padding.shape == q.shape[:1] else None
    if padding is not None and lengths is None:
        if padding.ndim != 2 or padding.shape[1] != k.shape[2]:
            raise DefinitionError(f"MultiHeadAttention: key_padding_mask of shape {padding.shape}")
        hidden = string("y0 = x0 ? 0 : w0;", q.dtype, padding, mask_filter_value)
        hidden = hidden.reshape((padding.shape[0], 1, 1, padding.shape[1]))
        mask = hidden if mask is None else ops.add(mask, hidden)
    y = ops.cached_attention(
        q, k, v, mask, scale=scale or None, is_causal=unidirectional, lengths=lengths,
        past=0 if past_k is None else past_k.shape[2],
    )  # fmt: skip
    return joined(y), k, v


@handler("GroupQueryAttention", domain=_MICROSOFT)
def _group_query_attention(
    q: Any, k: Any = None, v: Any = None, past_k: Any = None, past_v: Any = None,
    lengths: Any = None, total: Any = None, cos: Any = None, sin: Any = None,
    positions: Any = None, bias: Any = None, *, num_heads: int, kv_num_heads: int,
    softcap: float = 0.0, do_rotary: bool = False, rotary_interleaved: bool = False,
    local_window_size: int = -1, scale: float = 0.0,
) -> Any:  # fmt: skip
    if k is None:
        size = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        ends = num_heads * size, (num_heads + kv_num_heads) * size
        q, k, v = q[..., : ends[0]], q[..., ends[0] : ends[1]], q[..., ends[1] :]
    q, k, v = heads(q, num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    new, past = q.shape[2], 0 if past_k is None else past_k.shape[2]
    if do_rotary:
        angles = [cos, sin, positions]
        if positions is None:
            angles = [t[past : past + new].reshape((1, new, t.shape[1])) for t in (cos, sin)]
        told: Any = {"rotary_embedding_dim": 2 * cos.shape[-1], "interleaved": rotary_interleaved}
        q, k = (rotated(t, *angles, **told) for t in (q, k))
    if past:
        k, v = _behind(past_k, k), _behind(past_v, v)
    y = ops.cached_attention(
        q, k, v, bias, scale=scale or None, softcap=softcap, is_causal=True, past=past,
        lengths=string("y0 = x0 + 1;", INT64, lengths.reshape(-1)), enable_gqa=True,
        window=(max(local_window_size, 0) - 1, -1),
    )  # fmt: skip
    return joined(y), k, v
