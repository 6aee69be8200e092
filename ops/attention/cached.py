"""Attention over a cache: lengths of keys, a past, windows; scores that are capped or given out."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from clprim.arrays.array import Array
from clprim.errors import DefinitionError, ShapeError
from clprim.ops.attention.problem import Problem
from clprim.ops.attention.scaled_dot_product import _as
from clprim.ops.attention.score import Score
from clprim.ops.index.gather import check_index
from clprim.ops.product.matmul import matmul
from clprim.ops.reduction.softmax import softmax
from clprim.ops.registry import operator
from clprim.ops.shape.join import cat
from clprim.ops.shared.checks import check_shape, real
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel

_WHAT = "cached_attention"
_BOOL = np.dtype(np.bool_)
_SCORES = ("products", "capped", "masked", "weights")


@operator(gradient="in `value_and_grad`, as its parts have one", sample="x, x, x")
def cached_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    is_causal: bool = False,
    past: Any = 0,
    lengths: Any = None,
    window: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    sink: Any = None,
    score: str | None = None,
    score_args: Any = (),
    scores: Literal["products", "capped", "masked", "weights"] | None = None,
) -> Array | tuple[Array, Array]:
    """Returns softmax(cap(query keyᵀ · scale) + mask) value, where cap(s) is c · tanh(s / c).

    Without a cap and sinks, and where no scores are asked for, it is `scaled_dot_product_attention`
    with one mask; else all scores are in memory at a time.

    Args:
        query: (N, heads, L, E).
        key: (N, heads, S, E).
        value: (N, heads, S, F).
        mask: What broadcasts to (N, heads, L, S): bool, where a query sees a key, or numbers to be
            added. A query that sees no key gets zeros.
        scale: By default 1 / √E.
        softcap: c, at which scores are capped (Gemma 2, 2024); 0 is none.
        is_causal: Whether a query sees keys up to its own place alone.
        past: The place of the first query among the keys, or integers (N,): of each batch.
        lengths: Integers (N,): keys from there on are padding, which nothing sees.
        window: How many keys before and behind its own place a query sees; -1 is all.
        enable_gqa: Whether several heads of queries may share one of keys and values.
        sink: Numbers (heads,): of each head one more score, whose key has no value (Xiao and others
            2023): its weight is lost to the others.
        score: A snippet on ``y0``, a score before the mask, as `scaled_dot_product_attention` has
            it, run before the cap; ``coord(-2)`` is the query's place among the keys.
        score_args: Arrays, which broadcast to (N, heads, L, S), then numbers.
        scores: Which scores to return as well, (N, heads, L, S): scaled products, those with the
            cap, those with the mask, or weights.

    Returns:
        (N, heads, L, F), or a tuple of it and scores.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> q = cp.asarray(np.zeros((1, 1, 2, 4), np.float32))
        >>> v = cp.asarray(np.float32([[[[1, 2], [3, 4]]]]))
        >>> ops.cached_attention(q, q, v, lengths=cp.asarray(np.int64([1]))).get()
        array([[[[1., 2.],
                 [1., 2.]]]], dtype=float32)
    """
    cap = real(_WHAT, "softcap", softcap)
    if not cap >= 0 or not math.isfinite(cap):
        raise DefinitionError(f"{_WHAT}: softcap={softcap}: expected a number of at least 0")
    if scores is not None and scores not in _SCORES:
        raise DefinitionError(f"{_WHAT}: scores={scores!r}: expected one of {', '.join(_SCORES)}")
    p = Problem(_WHAT, (query, key, value), mask, 0.0, False, scale, enable_gqa)
    p.scored(_WHAT, score, score_args)
    if query.ndim != 4:
        raise ShapeError(f"{_WHAT}: query has shape {query.shape}, expected (N, heads, L, E)")
    seen = _seen(p.full, is_causal, past, lengths, window)
    causal = is_causal and mask is None and lengths is None and max(window) < 0 and _none(past)
    if sink is not None:
        check_shape(_WHAT, "sink", sink, p.full[1:2])
    whole_scores = bool(cap) or any(a is not None for a in (score, scores, sink))
    if whole_scores or not causal:
        mask = _masked(p.full, mask, *seen)
    if not whole_scores:
        from clprim import ops  # whose operator a trace knows the gradient of

        given = query, key, value, mask, 0.0, causal, scale, enable_gqa
        return ops.scaled_dot_product_attention(*given)
    queries, keys, values = (_as(a, p.wide) for a in (p.query, p.key, p.value))
    products = matmul(queries, keys, transpose_b=True)
    if p.score is None:
        products = _run("y0 = x0 * w0;", p.wide, products, p.scale)
    else:
        products = _scored(p.score, p, products, past)
    products = products.reshape(p.full)
    capped = _run("y0 = w0 * tanh(x0 / w0);", p.wide, products, cap) if cap else products
    masked = capped
    if mask is not None:
        text = "y0 = x1 ? x0 : -INFINITY;" if mask.dtype.kind == "b" else "y0 = x0 + x1;"
        masked = _run(text, p.wide, capped, mask)
    if sink is None:
        weights = softmax(masked, -1)
    else:
        one = (*p.full[:-1], 1)
        more = _run("y0 = x0;", p.wide, _as(sink, p.wide).reshape((1, -1, 1, 1)), shape=one)
        weights = softmax(cat([masked, more], -1), -1)[..., :-1]
    weights = _run("y0 = x1 == -INFINITY ? 0 : x0;", p.wide, weights, masked)
    result = matmul(p.split(weights), values).reshape((*query.shape[:-1], value.shape[-1]))
    result = _as(result, p.dtype)
    if scores is None:
        return result
    return result, _as((products, capped, masked, weights)[_SCORES.index(scores)], p.dtype)


def _scored(score: Score, p: Problem, products: Any, past: Any) -> Array:
    """Returns what the string makes of scaled products, whose first query is at a place."""
    if not hasattr(past, "dtype"):
        given = *score.thin, *score.told_to(p.scale, past)
        return _run(score.pointwise, p.wide, products, *given)
    first = past.reshape((-1, *(1,) * (products.ndim - 1)))
    text = score.composed("(void)x1; y0 = x0 * w0;", 2, "(long)x1")
    return _run(text, p.wide, products, first, *score.thin, *score.told_to(p.scale, None))


def _none(past: Any) -> bool:
    return not hasattr(past, "dtype") and past == 0


def _run(text: str, dtype: Any, *args: Any, shape: Any = None) -> Array:
    return kernel(text, _WHAT, dtype)(*args, shape=shape)


def _seen(full: Any, causal: bool, past: Any, lengths: Any, window: Any) -> list[Any]:
    """Returns C that says whether a query sees a key, and what it reads; nothing where all do."""
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise DefinitionError(f"{_WHAT}: window={window!r}: expected two numbers")
    before, behind = (whole(_WHAT, "window", n, -1) for n in window)
    past = past if hasattr(past, "dtype") else whole(_WHAT, "past", past, 0)
    arrays: list[Any] = []

    def number(label: str, value: Any) -> str:
        check_index(_WHAT, label, value)
        if value.size not in (1, full[0]) or value.ndim > 1:
            raise ShapeError(f"{_WHAT}: {label} has shape {value.shape}, expected ({full[0]},)")
        arrays.append(value.reshape((-1, *[1] * (len(full) - 1))))
        return f"(long)x{len(arrays) - 1}"

    rules = [] if lengths is None else [f"j < {number('lengths', lengths)}"]
    if causal or max(before, behind) >= 0:
        at = number("past", past) if hasattr(past, "dtype") else past
        rules += ["j <= i + at"] if causal else []
        rules += [f"j >= i + at - {before}"] if before >= 0 else []
        rules += [f"j <= i + at + {behind}"] if behind >= 0 else []
        return [f"long i = coord(-2), j = coord(-1), at = {at};", " && ".join(rules), arrays]
    return ["long j = coord(-1);", rules[0], arrays] if rules else []


def _masked(full: Any, mask: Any, places: str = "", rule: str = "", arrays: Any = ()) -> Any:
    """Returns a mask that hides what a rule does, too."""
    if not rule:
        return mask
    shape, name = (full[0] if arrays else 1, 1, *full[-2:]), f"x{len(arrays)}"
    if mask is None:
        return _run(f"{places} y0 = {rule};", _BOOL, *arrays, shape=shape)
    shape = np.broadcast_shapes(shape, mask.shape)
    hidden = f"{name} && {rule}" if mask.dtype.kind == "b" else f"{rule} ? {name} : -INFINITY"
    return _run(f"{places} y0 = {hidden};", mask.dtype, *arrays, mask, shape=shape)
