"""Runs the kernels that find the order of keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.call.call import Call, bind
from clprim.call.signature import Calls
from clprim.errors import ShapeError
from clprim.plan.sort.planner import plan_order
from clprim.plan.sort.select import ORDERED, plan_select, selects
from clprim.runtime.device import current_device

_calls: Calls[Call] = Calls()
_first: Calls[Call] = Calls()


def order_of_keys(what: str, keys: Any, bits: int) -> Array:
    """Returns which elements come first along the last axis, as int32; of equal keys the first.

    Args:
        what: The operator, for messages.
        keys: uint32 or uint64, C-contiguous, not empty. They are lost.
        bits: Lowest bits of a key that may be set.

    Raises:
        ShapeError: Lines of 2³¹ elements or more.
    """
    device = current_device()
    length = keys.shape[-1]
    if length >= 2**31 - 1:
        raise ShapeError(f"{what}: {length} elements along an axis: at most 2³¹ − 2 are sorted")
    call, signature = _calls.look_up(device, (keys,), (), (), bits)
    if call is None:
        lines = math.prod(keys.shape[:-1])
        plan = plan_order(lines, length, bits, keys.dtype.itemsize, device.traits)
        call = bind(device, what, plan, ("order", "keys"))
        _calls.remember(signature, call)
    order = new_dense(keys.shape, np.dtype(np.int32))
    call.run(device, (order, keys))
    return order


def first_of_keys(what: str, keys: Any, bits: int, k: int) -> tuple[Array, Array | None]:
    """Returns (places, order) of the first ``k`` along the last axis, both int32.

    ``order`` says which of the places comes first; it is None where they are in order.

    Args:
        what: The operator, for messages.
        keys: uint32 or uint64, C-contiguous, not empty. They are lost.
        bits: Lowest bits of a key that may be set.
        k: How many are asked for, from 1 up to the length.

    Raises:
        ShapeError: Lines of 2³¹ elements or more.
    """
    device = current_device()
    length = keys.shape[-1]
    if not selects(length, k, device.traits):
        return order_of_keys(what, keys, bits)[..., :k], None
    call, signature = _first.look_up(device, (keys,), (), (), (bits, k))
    arrays = [
        new_dense((*keys.shape[:-1], k), np.dtype(np.int32)) for _ in range(1 + (k > ORDERED))
    ]
    if call is None:
        lines = math.prod(keys.shape[:-1])
        plan = plan_select(lines, length, k, bits, keys.dtype.itemsize, device.traits)
        call = bind(device, what, plan, (*("places", "order")[: len(arrays)], "keys"))
        _first.remember(signature, call)
    call.run(device, (*arrays, keys))
    return arrays[0], arrays[1] if len(arrays) > 1 else None
