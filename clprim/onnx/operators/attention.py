"""Attention and rotary embeddings."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.onnx.context import _elsewhere
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import BOOL


def heads(x: Any, count: int) -> Any:
    """Returns (batch, length, heads * size) as (batch, heads, length, size)."""
    batch, length, size = x.shape
    return x.reshape((batch, length, count, size // count)).transpose(0, 2, 1, 3)


def joined(x: Any) -> Any:
    """Returns (batch, heads, length, size) as (batch, length, heads * size)."""
    batch, count, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape((batch, length, count * size))


@handler("Attention")
def _attention(
    context: Any, attributes: Any, q: Any, k: Any, v: Any, mask: Any = None, past_k: Any = None,
    past_v: Any = None, length: Any = None,
) -> Any:  # fmt: skip
    special = (
        attributes.get("softcap")
        or length is not None
        or context.wanted(3)
        or (attributes.get("is_causal") and (past_k is not None or mask is not None))
        or any(t.dtype.itemsize < 4 for t in (q, k, v))
        or attributes.get("scale") == 0
        or max(attributes.get(f"{side}_window_size", -1) for side in ("left", "right")) >= 0
    )
    if special:
        given = [q, k, v, mask, past_k, past_v, length][: len(context.step.inputs)]
        return _elsewhere(context, context.step, given)
    flat = q.ndim == 3
    if flat:
        kv = attributes["kv_num_heads"]
        q, k, v = heads(q, attributes["q_num_heads"]), heads(k, kv), heads(v, kv)
    if past_k is not None:
        k, v = ops.cat([past_k, k], 2), ops.cat([past_v, v], 2)
    if mask is not None and mask.shape[-1] < k.shape[2]:
        more = k.shape[2] - mask.shape[-1]
        mask = (
            ops.pad(mask, (0, more), value=-math.inf)
            if mask.dtype != BOOL
            else ops.pad(mask.astype("uint8"), (0, more)).astype(BOOL)
        )
    causal = bool(attributes.get("is_causal"))
    grouped = q.shape[1] != k.shape[1]
    scale = attributes.get("scale")
    y = ops.scaled_dot_product_attention(
        q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=grouped
    )
    return joined(y) if flat else y, k, v


@handler("RotaryEmbedding")
def _rotary(
    context: Any, attributes: Any, x: Any, cos: Any, sin: Any, positions: Any = None
) -> Any:
    return rotated(
        x, cos, sin, positions, attributes.get("num_heads", 0),
        attributes.get("rotary_embedding_dim", 0), bool(attributes.get("interleaved")),
    )  # fmt: skip


def rotated(
    x: Any, cos: Any, sin: Any, positions: Any, count: int, part: int, interleaved: bool
) -> Any:
    """Returns (batch, heads, length, size), or heads within the last axis, turned by angles.

    Args:
        x: The array.
        cos: Of (positions, size / 2), or of (batch, length, size / 2) where there are no
        positions: (batch, length) or, of consecutive ones, the first: (1,).
        sin: Likewise.
        count: Heads, of an array of three dimensions.
        part: Features that are turned; 0 is all.
        interleaved: Whether pairs lie side by side.
    """
    flat = x.ndim == 3
    if flat:
        size = x.shape[2] // count if count else (cos.shape[-1] * 2)
        x = heads(x, x.shape[2] // size)
    part = part or x.shape[3]
    half = part // 2
    at = "coord(0), coord(2), k"
    extra = []
    if positions is not None:
        extra = [positions]
        at = "at_x3(0) + coord(2), k" if positions.ndim == 1 else "at_x3(coord(0), coord(2)), k"
    pair = ("d / 2", "d % 2", "d ^ 1") if interleaved else (f"d % {half}", f"d / {half}",
                                                            f"(d + {half}) % {part}")  # fmt: skip
    text = f"""
        int d = coord(3);
        if (d >= {part}) y0 = at_x0(coord(0), coord(1), coord(2), coord(3));
        else {{
            int k = {pair[0]}, second = {pair[1]}, other = {pair[2]};
            float c = at_x1({at}), s = at_x2({at});
            float a = at_x0(coord(0), coord(1), coord(2), d);
            float b = at_x0(coord(0), coord(1), coord(2), other);
            y0 = second ? s * b + c * a : c * a - s * b;
        }}"""
    y = string(text, x.dtype, x, cos, sin, *extra, shape=x.shape)
    return joined(y) if flat else y
