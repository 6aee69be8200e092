"""ONNX's attention and rotary embeddings."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.operators.shape import padded
from clprim.onnx.table import handler, node
from clprim.onnx.values import INT64


def heads(x: Any, count: int) -> Any:
    """Returns (batch, length, heads * size) as (batch, heads, length, size)."""
    batch, length, size = x.shape
    return x.reshape((batch, length, count, size // count)).transpose(0, 2, 1, 3)


def joined(x: Any) -> Any:
    """Returns (batch, heads, length, size) as (batch, length, heads * size)."""
    batch, count, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape((batch, length, count * size))


def behind(past: Any, new: Any) -> Any:
    """Returns keys or values behind those of before."""
    return new if past is None else ops.cat([past, new], 2)


_SCORES = "products", "capped", "masked", "weights"


# Softmax is computed in float32 at least, whatever precision is asked for.
@node("""Attention(q, k, v, mask, past_k, past_v, lengths) is_causal=False scale=None softcap=0.0
    qk_matmul_output_mode=0 kv_num_heads=None q_num_heads=None left_window_size=-1
    right_window_size=-1 -softmax_precision @4""")
def _attention(context: Any, n: Any) -> Any:
    q, k, v, mask, lengths = n.q, n.k, n.v, n.mask, n.lengths
    flat, new = q.ndim == 3, q.shape[-2]
    if flat:
        q, k, v = heads(q, n.q_num_heads), heads(k, n.kv_num_heads), heads(v, n.kv_num_heads)
    k, v = behind(n.past_k, k), behind(n.past_v, v)
    more = 0 if mask is None else k.shape[2] - mask.shape[-1]
    if more > 0:
        mask = padded(mask, [*[(0, 0)] * (mask.ndim - 1), (0, more)], fill=-math.inf)
    past = 0 if n.past_k is None else n.past_k.shape[2]
    shown: Any = _SCORES[n.qk_matmul_output_mode] if context.wanted(3) else None
    found: Any = ops.cached_attention(
        q, k, v, mask, scale=n.scale, softcap=n.softcap, is_causal=n.is_causal, lengths=lengths,
        past=past if lengths is None else string("y0 = x0 - w0;", INT64, lengths, new),
        window=(n.left_window_size, n.right_window_size),
        enable_gqa=q.shape[1] != k.shape[1], scores=shown,
    )  # fmt: skip
    y, scores = found if shown else (found, None)
    return joined(y) if flat else y, k, v, scores


@handler("RotaryEmbedding")
def rotated(
    x: Any, cos: Any, sin: Any, positions: Any = None, *, num_heads: int = 0,
    rotary_embedding_dim: int = 0, interleaved: bool = False,
) -> Any:  # fmt: skip
    """Returns (batch, heads, length, size), or heads within the last axis, turned by angles."""
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
