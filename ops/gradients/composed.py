"""Operators as programs of others, whose gradients have gradients themselves.

They take the place of kernels of their own where a gradient of a gradient is asked for. Each is
given the arguments of a call, as attributes, and returns its result, or None where it does not
know that call.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.creation import asarray
from clprim.language.epilogue_snippet import appended, define_epilogue
from clprim.ops.shared.dims import one_axis
from clprim.ops.shared.epilogue import split_arguments
from clprim.ops.shared.strings import kernel


def _standardized(c: Any, x: Any, axes: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    variance, mean = ops.var_mean(x, axes, correction=0, keepdims=True)
    return _scaled(c, ((x - mean) * ops.rsqrt(variance + c.eps)).reshape(c.x.shape), shape)


def _scaled(c: Any, y: Any, shape: tuple[int, ...]) -> Any:
    y = y if c.weight is None else y * c.weight.reshape(shape)
    return y if getattr(c, "bias", None) is None else y + c.bias.reshape(shape)


def _last(c: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = c.normalized_shape if isinstance(c.normalized_shape, (tuple, list)) else ()
    count = len(shape) or 1
    return tuple(range(c.x.ndim - count, c.x.ndim)), c.x.shape[c.x.ndim - count :]


def layer_norm(c: Any) -> Any:
    """See `clprim.ops.layer_norm`."""
    return None if c.return_stats else _standardized(c, c.x, *_last(c))


def rms_norm(c: Any) -> Any:
    """See `clprim.ops.rms_norm`."""
    if c.return_stats:
        return None
    axes, shape = _last(c)
    eps = np.finfo(c.x.dtype).eps if c.eps is None else c.eps
    return _scaled(c, c.x * ops.rsqrt(ops.mean(c.x * c.x, axes, keepdims=True) + eps), shape)


def group_norm(c: Any) -> Any:
    """See `clprim.ops.group_norm`."""
    return None if c.return_stats else _groups(c, c.num_groups)


def instance_norm(c: Any) -> Any:
    """See `clprim.ops.instance_norm`."""
    alone = c.use_input_stats and c.running_mean is None and not c.return_stats
    return _groups(c, c.x.shape[1]) if alone else None


def _groups(c: Any, groups: int) -> Any:
    n, channels, *rest = c.x.shape
    whole = c.x.reshape(n, groups, math.prod((channels, *rest)) // groups)
    return _standardized(c, whole, (2,), (channels, *(1 for _ in rest)))


def batch_norm_train(c: Any) -> Any:
    """See `clprim.ops.batch_norm_train`."""
    x, axes = c.x, (0, *range(2, c.x.ndim))
    if c.momentum is None or c.num_batches_tracked is not None or not x.size:
        return None
    variance, mean = ops.var_mean(x, axes, correction=0, keepdims=True)
    rstd = ops.rsqrt(variance + c.eps)
    flat = [a.reshape(-1) for a in (mean, rstd, variance)]
    if c.running_mean is not None:
        count = x.size // x.shape[1]
        unbiased = flat[2] * (count / (count - 1))
        for running, batch in ((c.running_mean, flat[0]), (c.running_var, unbiased)):
            ops.lerp(running, batch.astype(running.dtype), c.momentum, out=running)
    return _scaled(c, (x - mean) * rstd, mean.shape[1:]), *flat[:2]


def _swapped(x: Any, at: int) -> Any:
    order = [*range(x.ndim)]
    order[at], order[-1] = order[-1], order[at]
    return x.transpose(*order)


def _up_to(x: Any, at: int, other: float) -> Any:
    """Of every place along an axis, a row with the elements up to it, and a number behind them."""
    n = x.shape[at]
    line = _swapped(x, at)[..., None, :]
    return ops.where(asarray(np.tri(n, dtype=bool)), line, other)


def cumprod(c: Any) -> Any:
    """See `clprim.ops.cumprod`."""
    if c.dtype is not None or c.exclusive or c.reverse or not c.x.ndim:
        return None
    at = one_axis("cumprod", c.x, c.dim, c.axis)
    return _swapped(ops.prod(_up_to(c.x, at, 1), -1), at)


def logcumsumexp(c: Any) -> Any:
    """See `clprim.ops.logcumsumexp`."""
    if not c.x.ndim:
        return None
    at = one_axis("logcumsumexp", c.x, c.dim, c.axis)
    return _swapped(ops.logsumexp(_up_to(c.x, at, -math.inf), -1), at)


def scaled_dot_product_attention(c: Any) -> Any:
    """See `clprim.ops.scaled_dot_product_attention`."""
    q, k, v = c.query, c.key, c.value
    if c.return_stats or c.dropout_p:
        return None
    if c.enable_gqa and k.shape[-3] != q.shape[-3]:
        heads = asarray(np.arange(q.shape[-3]) // (q.shape[-3] // k.shape[-3]))
        k, v = (ops.index_select(a, a.ndim - 3, heads) for a in (k, v))
    scores = ops.matmul(q, k, transpose_b=True)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if c.scale is None else c.scale)
    if c.score is not None:
        arrays, numbers = split_arguments(c.score_args)
        snippet = define_epilogue("scaled_dot_product_attention", c.score, part="score")
        text = appended("y0 = x0;", snippet, 1, 0)
        scores = kernel(text, "attention_score", scores.dtype)(
            scores, *arrays, *map(float, numbers)
        )
    mask = asarray(np.tri(*scores.shape[-2:], dtype=bool)) if c.is_causal else c.attn_mask
    if mask is not None and mask.dtype.kind == "b":
        scores = ops.where(mask, scores, -math.inf)
    elif mask is not None:
        scores = scores + mask
    return ops.matmul(ops.softmax(scores, -1), v)
