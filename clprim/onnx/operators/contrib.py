"""Operators of ONNX Runtime's own set that exported models have."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.attention import heads, joined, rotated
from clprim.onnx.operators.conv import convolved
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler

_DOMAIN = "com.microsoft"
_ACTIVATIONS = {
    "Relu": "y0 = max(x0, (typeof_x0)0);", "Tanh": "y0 = tanh(x0);",
    "Sigmoid": "y0 = 1 / (1 + exp(-x0));", "LeakyRelu": "y0 = x0 > 0 ? x0 : w0 * x0;",
    "Clip": "y0 = clamp(x0, (typeof_x0)w0, (typeof_x0)w1);",
    "HardSigmoid": "y0 = clamp(w0 * x0 + w1, (typeof_x0)0, (typeof_x0)1);",
}  # fmt: skip


@handler("FusedMatMul", domain=_DOMAIN)
def _fused_matmul(context: Any, attributes: Any, a: Any, b: Any) -> Any:
    if attributes.get("transBatchA") or attributes.get("transBatchB"):
        raise DefinitionError("FusedMatMul with transBatchA or transBatchB")
    ta, tb = bool(attributes.get("transA")), bool(attributes.get("transB"))
    y = ops.matmul(a, b, transpose_a=ta, transpose_b=tb)
    alpha = attributes.get("alpha", 1.0)
    return y if alpha == 1 else string("y0 = x0 * w0;", y.dtype, y, alpha)


@handler("FusedGemm", domain=_DOMAIN)
def _fused_gemm(context: Any, attributes: Any, a: Any, b: Any, c: Any = None) -> Any:
    ta, tb = bool(attributes.get("transA")), bool(attributes.get("transB"))
    y = ops.matmul(a, b, transpose_a=ta, transpose_b=tb)
    numbers = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    y = y if c is None else string("y0 = x0 * w0 + x1 * w1;", y.dtype, y, c, *numbers)
    told = attributes.get("activation_alpha"), attributes.get("activation_beta")
    return _activated(y, attributes.get("activation"), [v for v in told if v is not None])


@handler("FusedConv", domain=_DOMAIN)
def _fused_conv(
    context: Any, attributes: Any, x: Any, w: Any, bias: Any = None, z: Any = None
) -> Any:
    y = convolved(attributes, x, w, bias)
    y = y if z is None else ops.add(y, z)
    return _activated(y, attributes.get("activation"), attributes.get("activation_params") or [])


def _activated(y: Any, name: str | None, numbers: Any) -> Any:
    if not name:
        return y
    if name not in _ACTIVATIONS:
        raise DefinitionError(f"the activation {name!r} is unknown")
    text = _ACTIVATIONS[name]
    return string(text, y.dtype, y, *numbers[: 2 * text.count("w1") or text.count("w0")])


@handler("Gelu", domain=_DOMAIN)
def _gelu(context: Any, attributes: Any, x: Any) -> Any:
    return ops.gelu(x)


@handler("BiasGelu", domain=_DOMAIN)
def _bias_gelu(context: Any, attributes: Any, x: Any, bias: Any) -> Any:
    return ops.gelu(ops.add(x, bias))


@handler("FastGelu", domain=_DOMAIN)
def _fast_gelu(context: Any, attributes: Any, x: Any, bias: Any = None) -> Any:
    return ops.gelu(x if bias is None else ops.add(x, bias), "tanh")


@handler("QuickGelu", domain=_DOMAIN)
def _quick_gelu(context: Any, attributes: Any, x: Any) -> Any:
    alpha = attributes.get("alpha", 1.702)
    return string("y0 = x0 / (1 + exp(-w0 * x0));", x.dtype, x, alpha)


@handler("RotaryEmbedding", domain=_DOMAIN)
def _rotary(context: Any, attributes: Any, x: Any, positions: Any, cos: Any, sin: Any) -> Any:
    return rotated(
        x, cos, sin, positions, attributes.get("num_heads", 0),
        attributes.get("rotary_embedding_dim", 0), bool(attributes.get("interleaved")),
    )  # fmt: skip


@handler("MultiHeadAttention", domain=_DOMAIN)
def _multi_head_attention(
    context: Any, attributes: Any, q: Any, k: Any = None, v: Any = None, bias: Any = None,
    padding: Any = None, added: Any = None, past_k: Any = None, past_v: Any = None, *rest: Any,
) -> Any:  # fmt: skip
    count = attributes["num_heads"]
    if k is None or q.ndim != 3 or any(r is not None for r in rest):
        raise DefinitionError("MultiHeadAttention of packed arrays or with a shared cache")
    if bias is not None:
        n = q.shape[-1]
        q = ops.add(q, bias[:n])
        if k.ndim == 3:
            k, v = ops.add(k, bias[n : n + k.shape[-1]]), ops.add(v, bias[n + k.shape[-1] :])
    q = heads(q, count)
    k, v = (heads(t, count) if t.ndim == 3 else t for t in (k, v))
    if past_k is not None:
        k, v = ops.cat([past_k, k], 2), ops.cat([past_v, v], 2)
    mask = added
    if padding is not None:
        if padding.ndim != 2 or padding.shape[1] != k.shape[2]:
            raise DefinitionError(f"MultiHeadAttention: key_padding_mask of shape {padding.shape}")
        fill = attributes.get("mask_filter_value", -10000.0)
        hidden = string("y0 = x0 ? 0 : w0;", q.dtype, padding, fill)
        hidden = hidden.reshape((padding.shape[0], 1, 1, padding.shape[1]))
        mask = hidden if mask is None else ops.add(mask, hidden)
    causal, scale = bool(attributes.get("unidirectional")), attributes.get("scale") or None
    if causal and past_k is not None:
        raise DefinitionError("MultiHeadAttention: unidirectional with a past")
    y = ops.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale)
    return joined(y), k, v


@handler("GroupQueryAttention", domain=_DOMAIN)
def _group_query_attention(
    context: Any, attributes: Any, q: Any, k: Any, v: Any, past_k: Any = None, past_v: Any = None,
    lengths: Any = None, total: Any = None, cos: Any = None, sin: Any = None, *rest: Any,
) -> Any:  # fmt: skip
    if attributes.get("softcap") or any(r is not None for r in rest):
        raise DefinitionError("GroupQueryAttention with a soft cap, positions or a bias")
    count, groups = attributes["num_heads"], attributes["kv_num_heads"]
    if k is None:
        size = q.shape[-1] // (count + 2 * groups)
        ends = count * size, (count + groups) * size
        q, k, v = q[..., : ends[0]], q[..., ends[0] : ends[1]], q[..., ends[1] :]
    q, k, v = heads(q, count), heads(k, groups), heads(v, groups)
    new = q.shape[2]
    past = 0 if past_k is None else past_k.shape[2]
    if attributes.get("do_rotary"):
        first = context.device(np.array([past], np.int64))
        side = bool(attributes.get("rotary_interleaved"))
        q, k = (rotated(t, cos, sin, first, 0, 2 * cos.shape[-1], side) for t in (q, k))
    if past:
        k, v = ops.cat([past_k, k], 2), ops.cat([past_v, v], 2)
    window = attributes.get("local_window_size", -1)
    # A query sees keys up to its own place, and those of its row that are there.
    rule = "j <= i" + (f" && j > i - {window}" if window > 0 else "")
    text = f"long i = (long)coord(2) + {past}, j = coord(3); y0 = ({rule}) && j <= x0;"
    seen = lengths.reshape((-1, 1, 1, 1))
    mask = string(text, np.bool_, seen, shape=(seen.shape[0], 1, new, k.shape[2]))
    scale = attributes.get("scale") or None
    y = ops.scaled_dot_product_attention(q, k, v, mask, 0.0, False, scale=scale, enable_gqa=True)
    return joined(y), k, v


@handler("QLinearSigmoid", "QLinearLeakyRelu", domain=_DOMAIN)
def _qlinear_unary(
    context: Any, attributes: Any, x: Any, sx: Any, zx: Any, sy: Any, zy: Any = None
) -> Any:
    least, most = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    of = "1 / (1 + exp(-v))" if context.step.name == "QLinearSigmoid" else "v > 0 ? v : w0 * v"
    zeros = [string("y0 = 0;", x.dtype, shape=()) if z is None else z.reshape(()) for z in (zx, zy)]
    text = f"""
        float v = ((float)x0 - (float)x2) * x1; float r = {of};
        y0 = clamp((long)rint(r / x3) + (long)x4, {least}L, {most}L);"""
    numbers = [attributes.get("alpha", 0.01)] if "w0" in text else []
    given = [x, sx.reshape(()), zeros[0], sy.reshape(()), zeros[1]]
    return string(text, x.dtype, *given, *numbers)
