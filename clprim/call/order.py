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
from clprim.runtime.device import current_device
from clprim.runtime.stats import counters

__all__ = ["order_of_keys"]

_calls: Calls[Call] = Calls()


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
        counters.plans += 1
        _calls.remember(signature, call)
    order = new_dense(keys.shape, np.dtype(np.int32))
    call.run(device, (order, keys))
    return order
