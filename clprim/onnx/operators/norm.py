"""Normalisations."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import FLOAT32
from clprim.ops.shared.strings import places

_MICROSOFT = "com.microsoft"


@handler("BatchNormalization", makes=5)
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


@handler("GroupNormalization")
def _group_norm(
    context: Any, x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5
) -> Any:
    if scale.shape[0] == num_groups != x.shape[1] and context.version < 21:  # one a group
        each = x.shape[1] // num_groups
        scale, bias = (ops.repeat_interleave(v, each) for v in (scale, bias))
    return ops.group_norm(x, num_groups, scale, bias, epsilon)


@handler("LayerNormalization", makes=3)
def _layer_norm(
    context: Any, x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Any:
    return _normalized(ops.layer_norm, x, [scale, bias], axis, epsilon, _asked(context))


@handler("RMSNormalization")
@handler("SimplifiedLayerNormalization", makes=2)
@handler("SimplifiedLayerNormalization", domain=_MICROSOFT, makes=2)
def _rms_norm(context: Any, x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    return _normalized(ops.rms_norm, x, [scale], axis, epsilon, _asked(context))


def _asked(context: Any) -> bool:
    """Whether statistics are asked for."""
    return context.wanted(1) or context.wanted(2)


def _normalized(norm: Any, x: Any, gains: list[Any], axis: int, epsilon: float, stats: bool) -> Any:
    """Returns a norm of an array, and its statistics as float32 if they are asked for."""
    axis %= x.ndim
    shape, given = x.shape[axis:], [_line(v, x.shape[axis:]) for v in gains]
    inside = all((v is None) == (line is None) for v, line in zip(gains, given, strict=True))
    given = given if inside else [None] * len(gains)
    y, *found = norm(x, shape, *given, epsilon, return_stats=True) if stats else (
        norm(x, shape, *given, epsilon),)  # fmt: skip
    if not inside:
        scale, bias = (*gains, None)[:2]
        y = ops.mul(y, scale)
        y = y if bias is None else ops.add(y, bias)
    lead = (*x.shape[:axis], *[1] * len(shape))
    return y, *(s.reshape(lead).astype(FLOAT32) for s in found)


def _line(v: Any, shape: tuple[int, ...]) -> Any:
    """Returns a scale or a bias as one line of elements; None where lines have their own."""
    if v is None or v.shape == shape:
        return v
    before = max(v.ndim - len(shape), 0)
    if any(n != 1 for n in v.shape[:before]):
        return None
    return string("y0 = x0;", v.dtype, v.reshape(v.shape[before:]), shape=shape)


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


@handler("SkipLayerNormalization", domain=_MICROSOFT, makes=4)
def _skip_layer_norm(
    context: Any, x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *,
    epsilon: float = 1e-12,
) -> Any:  # fmt: skip
    return _of_sum(context, ops.layer_norm, (x, skip, bias), [gamma, beta], epsilon)


@handler("SkipSimplifiedLayerNormalization", domain=_MICROSOFT, makes=4)
def _skip_rms_norm(
    context: Any, x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    return _of_sum(context, ops.rms_norm, (x, skip, bias), [gamma], epsilon)


def _of_sum(context: Any, norm: Any, parts: Any, gains: list[Any], epsilon: float) -> Any:
    """Returns the norm of a sum, mean (0 where there is none), 1 by the deviation, and the sum."""
    total = reduce(ops.add, [v for v in parts if v is not None])
    y, *stats = _normalized(norm, total, gains, -1, epsilon, _asked(context))
    if len(stats) == 1:
        stats.insert(0, string("(void)x0; y0 = 0;", FLOAT32, *stats))
    return y, *(stats or (None, None)), total


@handler("EmbedLayerNormalization", domain=_MICROSOFT, makes=3, idle="mask_index_type")
def _embed_layer_norm(
    words: Any, segments: Any = None, word: Any = None, position: Any = None, segment: Any = None,
    gamma: Any = None, beta: Any = None, mask: Any = None, places: Any = None, *,
    epsilon: float = 1e-12,
) -> Any:  # fmt: skip
    batch, length = words.shape
    behind = position[:length] if places is None else ops.embedding(places, position)
    total = ops.add(ops.embedding(words, word), behind)
    total = total if segments is None else ops.add(total, ops.embedding(segments, segment))
    if mask is None:
        count = string("y0 = 0;", np.int32, shape=(batch,))
    else:
        count = ops.sum(string("y0 = x0 == 1;", np.int32, mask), 1, dtype=np.int32)
    return ops.layer_norm(total, total.shape[-1:], gamma, beta, epsilon), count, total
