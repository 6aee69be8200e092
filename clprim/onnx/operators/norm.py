"""Normalisations."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Run, family, handler, node
from clprim.onnx.values import FLOAT32
from clprim.ops.registry import OnnxOperator
from clprim.ops.shared.strings import places


@node("""BatchNormalization(x, scale, bias, mean, var) epsilon=1e-05 momentum=0.9
    training_mode=False spatial=True is_test=False @5""")
def _batch_norm(context: Any, n: Any) -> Any:
    x, scale, bias, mean, var, epsilon = n.x, n.scale, n.bias, n.mean, n.var, n.epsilon
    if not n.spatial:
        text = "y0 = (x0 - x1) / sqrt(x2 + w0) * x3 + x4;"
        return string(text, x.dtype, x, mean, var, scale, bias, epsilon)
    image = x if x.ndim == 4 else x.reshape((*x.shape[:2], math.prod(x.shape[2:]), 1))
    version = context.version
    old = version < 14 and (version >= 7 or not n.is_test) and context.wanted(1)
    if not (n.training_mode or old):
        return ops.batch_norm(image, mean, var, scale, bias, eps=epsilon).reshape(x.shape)
    along = (0, *range(2, x.ndim))
    batch, variance = ops.mean(x, along), ops.var(x, along, correction=0)
    y = ops.batch_norm(image, batch, variance, scale, bias, eps=epsilon).reshape(x.shape)
    text = "y0 = x0 * w0 + x1 * (1 - w0);"
    pairs = (mean, batch), (var, variance)
    return y, *(string(text, a.dtype, a, b, n.momentum) for a, b in pairs), batch, variance


@family("repeated")
def _repeated(known: OnnxOperator, inner: Run) -> Run:
    """With a scale and a bias of each group, before opset 21."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        groups, channels = told["num_groups"], arrays["x"].shape[1]
        if arrays["weight"].shape[0] == groups != channels and context.version < 21:
            for name in ("weight", "bias"):
                arrays[name] = ops.repeat_interleave(arrays[name], channels // groups)
        return inner(context, arrays, told)

    return run


@family("trailing", takes="axis")
def _trailing(known: OnnxOperator, inner: Run) -> Run:
    """Of all axes from one on, with statistics as float32 where they are wanted."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        x, stats = arrays["x"], context.wanted(1) or context.wanted(2)
        axis = told.get("axis", -1) % x.ndim
        shape, gains = x.shape[axis:], {n: v for n, v in arrays.items() if n != "x"}
        lines = {n: _line(v, shape) for n, v in gains.items()}
        inside = all(line is not None for line in lines.values())
        found = inner(context, {"x": x, **(lines if inside else {})}, told,
                      normalized_shape=shape, return_stats=stats)  # fmt: skip
        y, *found = found if stats else (found,)
        if not inside:
            y = ops.mul(y, gains["weight"])
            y = ops.add(y, gains["bias"]) if "bias" in gains else y
        lead = (*x.shape[:axis], *[1] * len(shape))
        return y, *(s.reshape(lead).astype(FLOAT32) for s in found)

    return run


@family("skip")
def _skip(known: OnnxOperator, inner: Run) -> Run:
    """Of a sum: mean (0 where there is none), 1 by the deviation, and the sum follow."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        given = (arrays.pop(n, None) for n in ("x", "skip", "added"))
        total = reduce(ops.add, [v for v in given if v is not None])
        y, *stats = inner(context, {"x": total, **arrays}, told)
        if len(stats) == 1:
            stats.insert(0, string("(void)x0; y0 = 0;", FLOAT32, *stats))
        return y, *(stats or (None, None)), total

    return run


def _line(v: Any, shape: tuple[int, ...]) -> Any:
    """Returns a scale or a bias as one line of elements; None where lines have their own."""
    if v.shape == shape:
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


@node("""com.microsoft::EmbedLayerNormalization(
    words, segments, word, position, segment, gamma, beta, mask, places)
    epsilon=1e-12 -mask_index_type @3""")
def _embed_layer_norm(context: Any, n: Any) -> Any:
    batch, length = n.words.shape
    behind = n.position[:length] if n.places is None else ops.embedding(n.places, n.position)
    total = ops.add(ops.embedding(n.words, n.word), behind)
    total = total if n.segments is None else ops.add(total, ops.embedding(n.segments, n.segment))
    if n.mask is None:
        count = string("y0 = 0;", np.int32, shape=(batch,))
    else:
        count = ops.sum(string("y0 = x0 == 1;", np.int32, n.mask), 1, dtype=np.int32)
    return ops.layer_norm(total, total.shape[-1:], n.gamma, n.beta, n.epsilon), count, total
