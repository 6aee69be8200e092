"""A `Pointwise` on several lists of arrays by as few kernels as their arguments fit into."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from clprim import dtypes
from clprim.arrays.memory import is_dense, memory_of
from clprim.call.arguments import check_out
from clprim.call.primitive import Primitive, Request, Target, run
from clprim.call.scalars import scalar_dtypes, weaken
from clprim.call.signature import Calls
from clprim.language.definition import PointwiseDefinition, texts
from clprim.plan.kernel import Plan
from clprim.plan.pointwise.lists import lists_that_fit, plan_lists
from clprim.plan.strides import REACH, Operand
from clprim.runtime.device import current_device
from clprim.traits import DeviceTraits

Lists = Sequence[Sequence[Any]]


class _Options(NamedTuple):
    """What a call is told beside arrays and numbers."""

    written: tuple[int, ...]
    shared: int
    width: int


class _Problem(NamedTuple):
    """What a call computes: the string on every list, and dtypes of the numbers for each."""

    lists: tuple[tuple[Operand, ...], ...]
    types: tuple[tuple[Any, ...], ...]
    options: _Options
    results: tuple[Operand, ...] = ()


class _Lists(Primitive):
    """A `Pointwise` on several lists of arrays, some of which it writes."""

    def __init__(self, what: str, definition: PointwiseDefinition) -> None:
        super().__init__(what, "lists")
        self.definition = definition
        self.taken: Calls[tuple[int, ...]] = Calls()

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        options: _Options = request.options
        what, traits, width = self.what, target.traits, options.width
        ends = range(0, len(request.operands), width)
        lists = tuple(request.operands[n : n + width] for n in ends)
        found = []
        for row in lists:
            stored = [a.dtype for a in row]
            types = scalar_dtypes(what, request.numbers, stored)
            results = [stored[n] for n in options.written]
            types = weaken(request.numbers, types, stored, results, traits.fp64)
            dtypes.require_supported([*stored, *types], traits, str(target))
            promoted = dtypes.promote([*stored, *types])
            for n, x in enumerate(options.written):
                check_out(what, n, row[x], row[x].shape, promoted)
            found.append(tuple(types))
        return _Problem(lists, tuple(found), options)

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        lists, types, (written, shared, width), _ = problem
        most = lists_that_fit(self.definition)
        stages = []
        same = itertools.groupby(range(len(lists)), key=lambda k: [a.dtype for a in lists[k]])
        for every in (list(group) for _, group in same):
            for chunk in (every[n : n + most] for n in range(0, len(every), most)):
                rows = [lists[k] for k in chunk]
                how = written, types[chunk[0]], traits, shared
                kernel = plan_lists(self.definition, rows, *how)
                places = itertools.product(enumerate(chunk), range(width))
                stages.append(kernel.renamed({f"{n}x{x}": f"{k}x{x}" for (n, k), x in places}))
        return Plan(tuple(stages)) if stages else None

    def names(self, problem: _Problem) -> Sequence[str]:
        """Those of every list."""
        return [f"{k}x{n}" for k, row in enumerate(problem.lists) for n in range(len(row))]

    def snippets(self, problem: _Problem) -> Mapping[str, str]:
        """The string."""
        del problem
        return texts(self.definition)


# By the number of the definition, which lives as long as the primitive.
_known: dict[tuple[str, int], _Lists] = {}


def run_lists(
    what: str,
    definition: PointwiseDefinition,
    lists: Lists,
    written: Sequence[int],
    numbers: Sequence[Any],
    shared: int = 0,
) -> list[int]:
    """Runs the kernel on every list that it can take."""
    device = current_device()
    arrays = [a for row in lists for a in row]
    if any(a.context != device.context for a in arrays):
        return [*range(len(lists))]  # who runs them says so
    places = [memory_of(a.base_data) for a in arrays]
    numbered = {memory: n for n, (memory, _) in enumerate(reversed(places))}
    primitive = _known.setdefault((what, id(definition)), _Lists(what, definition))
    width = definition.inputs
    key: Hashable = (
        device.index,
        tuple(written),
        len(lists),
        shared,
        *((a.shape, a.strides, a.dtype, a.offset) for a in arrays),
        *((numbered[memory], start) for memory, start in places),
    )
    taken = primitive.taken.get(key)
    if taken is None:
        apart = _apart(lists, places, written)
        order = [k for k, row in enumerate(lists) if apart and _is_line(row)]
        taken = tuple(sorted(order, key=lambda k: [str(a.dtype) for a in lists[k]]))
        primitive.taken.remember(key, taken)
    if taken:
        options = _Options(tuple(written), shared, width)
        run(primitive, [a for k in taken for a in lists[k]], numbers, (), options, key)
    rest = {*taken}
    return [k for k in range(len(lists)) if k not in rest]


def _is_line(row: Sequence[Any]) -> bool:
    """Whether a list's arrays have elements, and these lie without gaps below 2³¹."""
    return row[0].size > 0 and all(
        is_dense(a, range(a.ndim)) and a.offset // a.dtype.itemsize + a.size < REACH for a in row
    )


def _apart(lists: Lists, places: Sequence[tuple[Hashable, int]], written: Sequence[int]) -> bool:
    """Whether what a list writes is no other's: one parameter twice is stepped twice, in order."""
    ends: dict[Hashable, list[tuple[int, int, bool, int]]] = {}
    at = iter(places)
    for k, row in enumerate(lists):
        for n, array in enumerate(row):
            memory, start = next(at)
            begin = start + array.offset
            entry = (begin, begin + array.size * array.dtype.itemsize, n in written, k)
            ends.setdefault(memory, []).append(entry)
    for pieces in ends.values():
        reach, writes = -1, False
        for begin, end, write, _ in sorted(pieces):
            if begin < reach and (write or writes):
                return False
            writes = write or (writes and begin < reach)
            reach = max(reach, end)
    return True
