"""Normalisations."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import FLOAT32
from clprim.ops.shared.strings import places

_MICROSOFT = "com.microsoft"


@handler("BatchNormalization")
def _batch_norm(
    context: Any, x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: bool = False, spatial: bool = True,
    is_test: bool = False,
) -> Any:  # fmt: skip
    if not spatial:
        text = "y0 = (x0 - x1) / sqrt(x2 + w0) * x3 + x4;"
        return string(text, x.dtype, x, mean, var, scale, bias, epsilon)
    image = x if x.ndim == 4 else x.reshape((*x.shape[:2], math.prod(x.shape[2:]), 1))
    version = context.version
    old = version < 14 and (version >= 7 or not is_test) and context.wanted(1)
    if not (training_mode or old):
        return ops.batch_norm(image, mean, var, scale, bias, eps=epsilon).reshape(x.shape)
    along = (0, *range(2, x.ndim))
    batch, variance = ops.mean(x, along), ops.var(x, along, correction=0)
    y = ops.batch_norm(image, batch, variance, scale, bias, eps=epsilon).reshape(x.shape)
    text = "y0 = x0 * w0 + x1 * (1 - w0);"
    pairs = (mean, batch), (var, variance)
    return y, *(string(text, a.dtype, a, b, momentum) for a, b in pairs), batch, variance


@handler("InstanceNormalization")
def _instance_norm(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    return ops.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@handler("GroupNormalization")
def _group_norm(
    context: Any, x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5
) -> Any:
    if scale.shape[0] == num_groups != x.shape[1] and context.version < 21:  # one a group
        each = x.shape[1] // num_groups
        scale, bias = (ops.repeat_interleave(v, each) for v in (scale, bias))
    return ops.group_norm(x, num_groups, scale, bias, epsilon)


@handler("LayerNormalization")
def _layer_norm(
    context: Any, x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Any:
    shape = x.shape[axis % x.ndim :]
    scale, bias = _widened(scale, shape), _widened(bias, shape)
    if not context.wanted(1):
        return ops.layer_norm(x, shape, scale, bias, epsilon)
    y, *stats = ops.layer_norm(x, shape, scale, bias, epsilon, return_stats=True)
    lead = (*x.shape[: axis % x.ndim], *[1] * len(shape))
    return y, *(s.reshape(lead).astype(FLOAT32) for s in stats)


@handler("RMSNormalization", "SimplifiedLayerNormalization")
@handler("SimplifiedLayerNormalization", domain=_MICROSOFT)
def _rms_norm(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    shape = x.shape[axis % x.ndim :]
    return ops.rms_norm(x, shape, _widened(scale, shape), epsilon)


def _widened(v: Any, shape: tuple[int, ...]) -> Any:
    """Returns a scale or a bias of one line of elements."""
    return v if v is None or v.shape == shape else string("y0 = x0;", v.dtype, v, shape=shape)


@handler("LRN")
def _lrn(x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    before = (size - 1) // 2
    text = f"""
        typeof_x0 sum = 0;
        long first = max((long)coord(1) - {before}, 0L);
        long last = min((long)coord(1) + {size - 1 - before}, (long)size(1) - 1);
        for (long c = first; c <= last; ++c) {{
            typeof_x0 v = at_x0({places(x.ndim, {1: "c"})});
            sum += v * v;
        }}
        y0 = x0 / pow(w2 + w0 / {size} * sum, w1);"""
    return string(text, x.dtype, x, alpha, beta, bias)


@handler("LpNormalization")
def _lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    powers = ops.abs(x) if p == 1 else ops.square(x)
    norm = ops.sum(powers, axis, keepdims=True)
    text = "y0 = x1 == 0 ? 0 : x0 / x1;"
    return string(text, x.dtype, x, norm if p == 1 else ops.sqrt(norm))


@handler("SkipLayerNormalization", domain=_MICROSOFT)
def _skip_layer_norm(
    x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    total = _total(x, skip, bias)
    return ops.layer_norm(total, x.shape[-1:], gamma, beta, epsilon), None, None, total


@handler("SkipSimplifiedLayerNormalization", domain=_MICROSOFT)
def _skip_rms_norm(
    x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    total = _total(x, skip, bias)
    return ops.rms_norm(total, x.shape[-1:], gamma, epsilon), None, None, total


def _total(x: Any, skip: Any, bias: Any) -> Any:
    total = ops.add(x, skip)
    return total if bias is None else ops.add(total, bias)
