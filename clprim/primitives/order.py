"""The order of keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array
from clprim.call.forms import register_form
from clprim.call.primitive import Primitive, Request, Target, run
from clprim.errors import ShapeError
from clprim.plan.kernel import Plan
from clprim.plan.sort.family import ORDERS
from clprim.plan.sort.planner import Keys
from clprim.plan.sort.select import FIRST, ORDERED, Least, selects
from clprim.plan.strides import Operand, dense_strides
from clprim.runtime.device import current_device
from clprim.traits import DeviceTraits

_INT32 = np.dtype(np.int32)


class _Problem(NamedTuple):
    """What a call computes."""

    results: tuple[Operand, ...]
    keys: Keys
    k: int = 0  # How many of a line's are asked for, where that is not all


def _keys(operand: Operand, bits: int) -> Keys:
    *batch, length = operand.shape
    return Keys(math.prod(batch), length, bits, operand.dtype.itemsize)


class _Order(Primitive):
    """Which elements come first along the last axis, of all; options are the bits."""

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        del target
        (keys,) = request.operands
        return _Problem((_places(keys.shape),), _keys(keys, request.options))

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        return ORDERS.plan(problem.keys, traits)

    def names(self, problem: _Problem) -> Sequence[str]:
        """The result, and the keys."""
        del problem
        return "order", "keys"


class _First(Primitive):
    """Which elements come first along the last axis; options are the bits, and how many."""

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        del target
        (keys,), (bits, k) = request.operands, request.options
        place = _places((*keys.shape[:-1], k))
        return _Problem((place,) * (1 + (k > ORDERED)), _keys(keys, bits), k)

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        return FIRST.plan(Least(problem.keys, problem.k), traits)

    def names(self, problem: _Problem) -> Sequence[str]:
        """The results, and the keys."""
        return *("places", "order")[: len(problem.results)], "keys"


def _places(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, dense_strides(shape, 4, range(len(shape))), 0, _INT32)


_order, _first = _Order("order"), _First("first")
register_form("order", lambda: _order)
register_form("first", lambda: _first)


def order_of_keys(what: str, keys: Any, bits: int) -> Array:
    """Returns which elements come first along the last axis, as int32; of equal keys the first."""
    _check_length(what, keys)
    return run(_order, (keys,), options=bits)[0]


def first_of_keys(what: str, keys: Any, bits: int, k: int) -> tuple[Array, Array | None]:
    """Returns (places, order) of the first ``k`` along the last axis, both int32.

    ``order`` says which of the places comes first; it is None where they are in order.
    """
    if not selects(keys.shape[-1], k, current_device().traits):
        return order_of_keys(what, keys, bits)[..., :k], None
    places, *order = run(_first, (keys,), options=(bits, k))
    return places, order[0] if order else None


def _check_length(what: str, keys: Any) -> None:
    length = keys.shape[-1]
    if length >= 2**31 - 1:
        raise ShapeError(f"{what}: {length} elements along an axis: at most 2³¹ − 2 are sorted")
