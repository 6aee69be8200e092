"""Attention, and its gradients, in one kernel each, where the device has a plan for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from clprim.arrays.array import new_dense, view_of
from clprim.call.primitive import NoPlanError, Primitive, run
from clprim.dtypes import AnyDType, stored_type
from clprim.ops.attention.problem import Problem
from clprim.ops.attention.score import Score
from clprim.ops.shared.exponentials import exponentials
from clprim.plan.fused.attention_few import FEW, slices_of
from clprim.plan.fused.attention_gradient import tiles_of
from clprim.plan.strides import Operand
from clprim.primitives.attention import (
    ATTENTION,
    FEW_QUERIES,
    GRADIENT,
    UNIT_GRADIENT,
    Options,
)
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import Device, current_device
from clprim.runtime.randomness import State


def _join(parts: Sequence[str], finalize: str) -> Reduction:
    """Adds up parts of slices, of which x0 is the largest score, and x1 sums exponentials below."""
    return Reduction("", **exponentials("x0", 0, parts), finalize=finalize, name="attention_slices")


# A query that sees no key has no weights.
_logarithm = _join(["x1"], "y0 = reduce_y0 + log(reduce_y1);")
_joined = _join(["x1", "x2"], "y0 = reduce_y1 == 0 ? 0 : reduce_y2 / reduce_y1;")


class Drop(NamedTuple):
    """Which weights drop out."""

    rows: int
    numbers: tuple[float, float]
    state: State


def attend(p: Problem, key: Any, value: Any, results: tuple[Any, Any], drop: Drop | None) -> bool:
    """Computes attention and the logarithm of each query's sum; see `plan_attention`."""
    inputs = (p.query, key, value) if p.mask is None else (p.query, key, value, p.mask)
    options = Options(p.causal, _rows(drop))
    return _ran(ATTENTION, inputs, _numbers(p.scale, drop), results, options, p.score)


def attend_static(
    given: Sequence[Any],
    causal: bool,
    numbers: tuple[float, int, float],
    out: Any,
    sums: Any,
    score: Score | None = None,
) -> bool:
    """Likewise of the first keys, as many as lengths say; a window and a cap are numbers.

    What is given are queries, keys, values, lengths and perhaps a slope and a sink of each query.
    """
    last = not causal or given[0].shape[-2] == 1
    if last and attend_few(given, numbers, out, sums, score):
        return True
    return _ran(ATTENTION, given, numbers, (out, sums), Options(causal), score)


def attend_few(
    given: Sequence[Any],
    numbers: tuple[float, ...],
    out: Any,
    sums: Any,
    score: Score | None = None,
) -> bool:
    """Likewise of few queries, keys, values, a mask as they are stored; see `plan_attention_few`.

    What is given, and numbers, may be those of `attend_static`.
    """
    device = current_device()
    query, key, value, *more = (a for a in given if a is not None)
    one = query.ndim > 3 and query.shape[-2] == key.shape[-3] == 1
    if one and query.shape[-3] <= FEW and score is None:
        # Heads that share keys are queries of one.
        query, key, value, out, sums = (
            a[..., 0, :, :] if a.shape[-3] == 1 else a[..., 0, :]
            for a in (query, key, value, out, sums)
        )
        more = [a[..., 0, :] for a in more]
    slices = _slices(device, *[(a.shape, a.strides, a.dtype) for a in (query, key, value)])
    if not slices:
        return False
    results = out, sums
    if slices > 1:
        pair = (*sums.shape[:-1], 2)
        results = (
            new_dense((slices, *out.shape), sums.dtype),
            new_dense((slices, *pair), sums.dtype),
        )
    given, options = (query, key, value, *more), Options(slices=slices)
    if not _ran(FEW_QUERIES, given, numbers, results, options, score):
        return False
    if slices > 1:
        most, total = results[1][..., :1], results[1][..., 1:]
        _logarithm(most, total, axis=0, out=sums)
        _joined(most, total, results[0], axis=0, out=out)
    return True


@lru_cache(maxsize=1024)
def _slices(device: Device, *arrays: tuple[tuple[int, ...], tuple[int, ...], AnyDType]) -> int:
    """Slices of keys, of queries, keys and values of these shapes, strides and dtypes."""
    q, k, v = (Operand(shape, strides, 0, dtype) for shape, strides, dtype in arrays)
    return slices_of(q, k, v, device.traits)


def _ran(
    primitive: Primitive,
    arrays: Sequence[Any],
    numbers: tuple[float, ...],
    outs: tuple[Any, ...],
    options: Options,
    score: Score | None,
    real: str | None = None,
) -> bool:
    """Runs a primitive; returns whether the device has a plan for it.

    Gradients are of scores in a type, ``real``.
    """
    if score is not None:
        options = options._replace(score=score.told(len(numbers), real))
        arrays, numbers = (*arrays, *score.arrays), (*numbers, *score.numbers)
    try:
        run(primitive, arrays, numbers, outs, options)
    except NoPlanError:
        return False
    return True


def _rows(drop: Drop | None) -> int:
    return 0 if drop is None else drop.rows


def _numbers(scale: float, drop: Drop | None) -> tuple[float, ...]:
    numbers = (scale,)
    return numbers if drop is None else (*numbers, *drop.numbers, *drop.state)


def differentiate(
    p: Problem, given: Sequence[Any], dtype: Any, drop: Drop | None, dmask: Any
) -> list[Any] | None:
    """Computes the gradients of attention; see `plan_attention_gradient`."""
    device, mask = current_device(), p.mask
    shared, back = 1, None
    if dmask is not None:
        given, mask, dmask, shared, back = _shared_last(given, mask, dmask)
    query, _, value, *_ = given
    *batch, length, size = query.shape
    keys, features = value.shape[-2:]
    tiles = tiles_of(query.shape, keys, features, query.dtype.itemsize, device.traits, shared)
    if tiles is None:
        return None
    rows, room = tiles.partial
    dq = new_dense((*batch, tiles.slices * rows, room), query.dtype)
    dk = new_dense((*batch, keys, size), dtype)
    dv = new_dense((*batch, keys, features), dtype)
    inputs = tuple(given) if mask is None else (*given, mask)
    results = (dq, dk, dv) if dmask is None else (dq, dk, dv, dmask)
    options, numbers = Options(p.causal, _rows(drop), shared=shared), _numbers(p.scale, drop)
    real = stored_type(query.dtype).value
    if not _ran(GRADIENT, inputs, numbers, results, options, p.score, real):
        return None
    parts = [dq.reshape(*batch, tiles.slices, rows, room)[..., :length, :size], dk, dv]
    if back is not None:
        parts = [_turned(a, back) for a in parts]
    return parts


def differentiate_by_units(
    p: Problem, given: Sequence[Any], dtype: Any, drop: Drop | None, dmask: Any
) -> list[Any] | None:
    """Likewise of what is stored; see `plan_attention_matrix_gradient`."""
    query, key, value, *_ = given
    batch = query.shape[:-2]
    shapes = query.shape, (*batch, *key.shape[-2:]), (*batch, *value.shape[-2:])
    types = query.dtype, dtype, dtype
    results = tuple(new_dense(s, d) for s, d in zip(shapes, types, strict=True))
    inputs = tuple(given) if p.mask is None else (*given, p.mask)
    written = results if dmask is None else (*results, dmask)
    options, numbers = Options(p.causal, _rows(drop)), _numbers(p.scale, drop)
    ran = _ran(UNIT_GRADIENT, inputs, numbers, written, options, p.score, "float")
    return [*results] if ran else None


def _turned(array: Any, order: Sequence[int]) -> Any:
    """An array with heads' dimensions in another order."""
    return array.transpose(*order, *range(len(order), array.ndim))


def _shared_last(given: Sequence[Any], mask: Any, dmask: Any) -> tuple[Any, ...]:
    """Puts dimensions of heads that share a mask last."""
    every, ones = mask.shape[:-2], dmask.shape[:-2]
    order = sorted(range(len(every)), key=lambda d: ones[d] < every[d])
    steps = [
        0 if n < m else s for n, m, s in zip(dmask.shape, mask.shape, dmask.strides, strict=True)
    ]
    arrays = *given, mask, view_of(dmask, mask.shape, tuple(steps), dmask.offset)
    *given, mask, dmask = (_turned(a, order) for a in arrays)
    shared = math.prod(every) // math.prod(ones)
    return given, mask, dmask, shared, sorted(range(len(order)), key=order.__getitem__)
