"""Attention, and its gradients, in one kernel each, where the device has a plan for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from clprim.arrays.array import new_dense
from clprim.arrays.memory import operand_of
from clprim.call.call import Call, bind
from clprim.call.signature import Calls
from clprim.plan.fused.attention import plan_attention
from clprim.plan.fused.attention_gradient import plan_attention_gradient, tiles_of
from clprim.runtime.device import current_device
from clprim.runtime.randomness import State

__all__ = ["Drop", "attend", "differentiate"]

_NAMES = ("y", "sums", "q", "k", "v", "mask")
_READ = ("q", "k", "v", "grad", "sums", "delta")
_WRITTEN = ("dq", "dk", "dv")

_calls: Calls[Call] = Calls()


class Drop(NamedTuple):
    """Which weights drop out.

    Attributes:
        rows: How many queries draw as one call.
        numbers: The probability to drop out, and what the others are multiplied with.
        state: That the first call draws from.
    """

    rows: int
    numbers: tuple[float, float]
    state: State


def attend(
    what: str,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    causal: bool,
    scale: float,
    out: Any,
    sums: Any,
    drop: Drop | None,
) -> bool:
    """Computes attention and the logarithm of each query's sum; see `plan_attention`.

    Args:
        what: The operator, for messages.
        query: (…, L, E).
        key: (…, S, E), of the dtype of the sums.
        value: (…, S, F), likewise.
        mask: (…, L, S), or None.
        causal: Whether query i sees keys up to i alone.
        scale: Of products.
        out: (…, L, F), written.
        sums: (…, L, 1), written.
        drop: Which weights drop out, if any do.

    Returns:
        Whether it did; if not, nothing was written.
    """
    device = current_device()
    inputs = (query, key, value) if mask is None else (query, key, value, mask)
    found, signature = _calls.look_up(device, inputs, (out, sums), (), (what, causal, _rows(drop)))
    if signature is None:
        return False
    if found is None:
        q, k, v, *masks = (operand_of(a) for a in inputs)
        results = operand_of(out), operand_of(sums)
        mask_operand = masks[0] if masks else None
        plan = plan_attention(q, k, v, *results, mask_operand, causal, _rows(drop), device.traits)
        if plan is None:
            return False
        found = bind(device, what, plan, _NAMES[: 2 + len(inputs)])
        _calls.remember(signature, found)
    found.run(device, (out, sums, *inputs), _numbers(scale, drop))
    return True


def _rows(drop: Drop | None) -> int:
    return 0 if drop is None else drop.rows


def _numbers(scale: float, drop: Drop | None) -> tuple[float, ...]:
    numbers = (scale * math.log2(math.e),)
    return numbers if drop is None else (*numbers, *drop.numbers, *drop.state)


def differentiate(
    what: str,
    given: Sequence[Any],
    mask: Any,
    causal: bool,
    scale: float,
    dtype: Any,
    drop: Drop | None,
) -> list[Any] | None:
    """Computes the gradients of attention; see `plan_attention_gradient`.

    Args:
        what: The operator, for messages.
        given: Queries (…, L, E), keys, values, the gradient in the result, and a column each of the
            logarithms of sums and of what `delta` is there; all of one wide dtype, not empty.
        mask: (…, L, S), or None.
        causal: Whether query i sees keys up to i alone.
        scale: Of products.
        dtype: Of the gradients in keys and values.
        drop: Which weights dropped out, if any did.

    Returns:
        Sums of the gradient in queries, (…, slices, L, E) of the wide dtype, and the gradients in
        keys and values, of every head of queries; None where the device has no plan.
    """
    device = current_device()
    query, _, value, *_ = given
    *batch, length, size = query.shape
    keys, features = value.shape[-2:]
    itemsize = query.dtype.itemsize
    tiles = tiles_of(query.shape, keys, features, itemsize, device.traits)
    if tiles is None:
        return None
    rows, room = tiles.partial
    dq = new_dense((*batch, tiles.slices * rows, room), query.dtype)
    dk = new_dense((*batch, keys, size), dtype)
    dv = new_dense((*batch, keys, features), dtype)
    inputs = tuple(given) if mask is None else (*given, mask)
    found, signature = _calls.look_up(device, inputs, (dq, dk, dv), (), (what, causal, _rows(drop)))
    if signature is None:
        return None
    if found is None:
        names = (*_READ, *_WRITTEN, *(() if mask is None else ("mask",)))
        arrays = [*given, dq, dk, dv] if mask is None else [*given, dq, dk, dv, mask]
        operands = {n: operand_of(a) for n, a in zip(names, arrays, strict=True)}
        plan = plan_attention_gradient(operands, tiles, causal, _rows(drop), device.traits)
        if plan is None:
            return None
        found = bind(device, what, plan, (*_WRITTEN, *_READ, *names[9:]))
        _calls.remember(signature, found)
    found.run(device, (dq, dk, dv, *inputs), _numbers(scale, drop))
    return [dq.reshape(*batch, tiles.slices, rows, room)[..., :length, :size], dk, dv]
