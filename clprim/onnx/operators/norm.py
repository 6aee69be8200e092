"""Normalisations."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import FLOAT32


@handler("BatchNormalization")
def _batch_norm(
    context: Any, attributes: Any, x: Any, scale: Any, bias: Any, mean: Any, var: Any
) -> Any:
    eps = attributes["epsilon"]
    training = attributes.get("training_mode") or (
        context.version < 14
        and (context.version >= 7 or not attributes.get("is_test"))
        and context.wanted(1)
    )
    if not attributes.get("spatial", 1):
        return string(
            "y0 = (x0 - x1) / sqrt(x2 + w0) * x3 + x4;", x.dtype, x, mean, var, scale, bias, eps
        )
    image = x if x.ndim == 4 else x.reshape((*x.shape[:2], math.prod(x.shape[2:]), 1))
    if not training:
        y = ops.batch_norm(image, mean, var, scale, bias, eps=eps)
        return y.reshape(x.shape)
    momentum = attributes["momentum"]
    along = (0, *range(2, x.ndim))
    batch = ops.mean(x, along)
    variance = ops.var(x, along, correction=0)
    y = ops.batch_norm(image, batch, variance, scale, bias, eps=eps).reshape(x.shape)
    old = [string("y0 = x0 * w0 + x1 * (1 - w0);", a.dtype, a, b, momentum)
           for a, b in ((mean, batch), (var, variance))]  # fmt: skip
    return y, *old, batch, variance


@handler("InstanceNormalization")
def _instance_norm(context: Any, attributes: Any, x: Any, scale: Any, bias: Any) -> Any:
    return ops.instance_norm(x, weight=scale, bias=bias, eps=attributes["epsilon"])


@handler("GroupNormalization")
def _group_norm(context: Any, attributes: Any, x: Any, scale: Any, bias: Any) -> Any:
    groups = attributes["num_groups"]
    if scale.shape[0] == groups != x.shape[1] and context.version < 21:  # one a group
        scale, bias = (ops.repeat_interleave(v, x.shape[1] // groups) for v in (scale, bias))
    return ops.group_norm(x, groups, scale, bias, attributes["epsilon"])


@handler("LayerNormalization")
def _layer_norm(context: Any, attributes: Any, x: Any, scale: Any, bias: Any = None) -> Any:
    axis = attributes["axis"] % x.ndim
    shape, eps = x.shape[axis:], attributes["epsilon"]
    scale, bias = _widened(scale, shape), _widened(bias, shape)
    if not context.wanted(1):
        return ops.layer_norm(x, shape, scale, bias, eps)
    y, *stats = ops.layer_norm(x, shape, scale, bias, eps, return_stats=True)
    lead = (*x.shape[:axis], *[1] * len(shape))
    return y, *(s.reshape(lead).astype(FLOAT32) for s in stats)


@handler("RMSNormalization")
def _rms_norm(context: Any, attributes: Any, x: Any, scale: Any) -> Any:
    shape = x.shape[attributes["axis"] % x.ndim :]
    return ops.rms_norm(x, shape, _widened(scale, shape), attributes["epsilon"])


def _widened(v: Any, shape: tuple[int, ...]) -> Any:
    """Returns a scale or a bias of one line of elements."""
    return v if v is None or v.shape == shape else string("y0 = x0;", v.dtype, v, shape=shape)


@handler("LRN")
def _lrn(context: Any, attributes: Any, x: Any) -> Any:
    size = attributes["size"]
    before = (size - 1) // 2
    rest = "".join(f", coord({d})" for d in range(2, x.ndim))
    text = f"""
        typeof_x0 sum = 0;
        long first = max((long)coord(1) - {before}, 0L);
        long last = min((long)coord(1) + {size - 1 - before}, (long)size(1) - 1);
        for (long c = first; c <= last; ++c) {{
            typeof_x0 v = at_x0(coord(0), c{rest});
            sum += v * v;
        }}
        y0 = x0 / pow(w2 + w0 / {size} * sum, w1);"""
    numbers = attributes["alpha"], attributes["beta"], attributes["bias"]
    return string(text, x.dtype, x, *numbers)


@handler("LpNormalization")
def _lp_normalization(context: Any, attributes: Any, x: Any) -> Any:
    axis, p = attributes["axis"], attributes["p"]
    if p == 1:
        norm = ops.sum(ops.abs(x), axis, keepdims=True)
    else:
        norm = ops.sqrt(ops.sum(ops.square(x), axis, keepdims=True))
    return string("y0 = x1 == 0 ? 0 : x0 / x1;", x.dtype, x, norm)


@handler("SkipLayerNormalization", domain="com.microsoft")
def _skip_layer_norm(
    context: Any, attributes: Any, x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None
) -> Any:
    total = ops.add(x, skip)
    total = total if bias is None else ops.add(total, bias)
    y = ops.layer_norm(total, x.shape[-1:], gamma, beta, attributes.get("epsilon", 1e-12))
    return y, None, None, total


@handler("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def _skip_rms_norm(
    context: Any, attributes: Any, x: Any, skip: Any, gamma: Any, bias: Any = None
) -> Any:
    total = ops.add(x, skip)
    total = total if bias is None else ops.add(total, bias)
    return (
        ops.rms_norm(total, x.shape[-1:], gamma, attributes.get("epsilon", 1e-12)),
        None,
        None,
        total,
    )


@handler("SimplifiedLayerNormalization")
@handler("SimplifiedLayerNormalization", domain="com.microsoft")
def _simplified(context: Any, attributes: Any, x: Any, scale: Any) -> Any:
    axis = attributes.get("axis", -1) % x.ndim
    return ops.rms_norm(x, x.shape[axis:], scale, attributes.get("epsilon", 1e-5))
