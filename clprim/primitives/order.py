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
from clprim.plan.sort.planner import plan_order
from clprim.plan.sort.select import ORDERED, plan_select, selects
from clprim.plan.strides import Operand, dense_strides
from clprim.runtime.device import current_device
from clprim.traits import DeviceTraits

_INT32 = np.dtype(np.int32)


class _Keys(NamedTuple):
    """What a call computes."""

    results: tuple[Operand, ...]
    keys: Operand
    bits: int

    @property
    def lines(self) -> tuple[int, int]:
        """How many there are, and their length."""
        *batch, length = self.keys.shape
        return math.prod(batch), length


class _Order(Primitive):
    """Which elements come first along the last axis, of all; options are the bits."""

    def problem(self, request: Request, target: Target) -> _Keys:
        """See `Primitive.problem`."""
        del target
        (keys,) = request.operands
        return _Keys((_places(keys.shape),), keys, request.options)

    def plan(self, problem: _Keys, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        return plan_order(*problem.lines, problem.bits, problem.keys.dtype.itemsize, traits)

    def names(self, problem: _Keys) -> Sequence[str]:
        """The result, and the keys."""
        del problem
        return "order", "keys"


class _First(Primitive):
    """Which elements come first along the last axis; options are the bits, and how many."""

    def problem(self, request: Request, target: Target) -> _Keys:
        """See `Primitive.problem`."""
        del target
        (keys,), (bits, k) = request.operands, request.options
        place = _places((*keys.shape[:-1], k))
        return _Keys((place,) * (1 + (k > ORDERED)), keys, bits)

    def plan(self, problem: _Keys, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        k, size = problem.results[0].shape[-1], problem.keys.dtype.itemsize
        return plan_select(*problem.lines, k, problem.bits, size, traits)

    def names(self, problem: _Keys) -> Sequence[str]:
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
