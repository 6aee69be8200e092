"""Writing at indices, line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from clprim.arrays.array import array_over, view_of
from clprim.arrays.memory import memory_relation
from clprim.call.forms import register_form
from clprim.call.primitive import NoPlanError, Primitive, Request, Target, able, planned_by, run
from clprim.dtypes import real_dtype
from clprim.plan.index.family import LINES
from clprim.plan.index.lines import Taken
from clprim.plan.kernel import Buffer, Plan
from clprim.plan.strides import Operand
from clprim.runtime.device import current_device
from clprim.traits import DeviceTraits


class _Options(NamedTuple):
    """What a call is told beside its arrays."""

    axis: int
    how: str


class _Problem(NamedTuple):
    """What a call computes: a result, and index, source and perhaps what the result is before.

    That may be there already: then it is the result itself.
    """

    results: tuple[Operand, ...]
    arrays: tuple[Operand, ...]
    options: _Options
    there: bool


class _Lines(Primitive):
    """Takes elements in where an index says; a third array is copied before."""

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        del target
        (y,), (_, _, *own) = request.outs, request.operands
        there = own == [y] and None not in (y.memory, own[0].memory) and own[0].memory == y.memory
        return _Problem(request.outs, request.operands, request.options, there)

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        (y,), (index, source, *own), (axis, how), there = problem
        own = [] if there else own
        plan = planned_by(LINES, Taken(y, index, source, axis, how, *own), traits)
        if own and all(Buffer("x") not in s.arguments for s in plan.stages):
            raise NoPlanError
        return plan

    def names(self, problem: _Problem) -> Sequence[str]:
        """The result, then what is read."""
        return "y", *("index", "source", "x")[: len(problem.arrays)]


_lines = _Lines("lines")
register_form("lines", lambda: _lines, _Options)


def takes_lines(primitive: Primitive) -> bool:
    """Whether a primitive is that of `take_lines`."""
    return primitive is _lines


def _parts(x: Any) -> Any:
    """Real and imaginary parts of complex numbers, in a last dimension."""
    part = real_dtype(x.dtype)
    where = (*x.shape, 2), part, (*x.strides, part.itemsize), x.offset, 2 * x.size
    return array_over(current_device(), x.base_data, *where)


def take_lines(
    what: str,
    y: Any,
    index: Any,
    source: Any,
    axis: int,
    how: str,
    before: Callable[[], object],
    own: Any = None,
) -> bool:
    """Takes elements of ``source`` into ``y`` where ``index`` says; see `plan_lines`."""
    if y.dtype.kind == "c" and how in ("sum", "last"):  # part by part
        y, source, own = (None if a is None else _parts(a) for a in (y, source, own))
        index = view_of(index, (*index.shape, 2), (*index.strides, 0), index.offset)
    if any(memory_relation(y.base_data, a.base_data) for a in (index, source)):
        return False  # what is written is read later
    if own is not None and memory_relation(y.base_data, own.base_data):
        own = None
    options = _Options(axis, how)
    if own is not None and able(_lines, (index, source, own), (), (y,), options):
        run(_lines, (index, source, own), (), (y,), options)
        return True
    if not able(_lines, (index, source), (), (y,), options):
        return False
    before()
    run(_lines, (index, source), (), (y,), options)
    return True
