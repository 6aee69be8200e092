"""Runs a `Pointwise` on several lists of arrays by as few kernels as their arguments fit into."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

from clprim import dtypes
from clprim.arrays.memory import is_dense, join, memory_of, operand_of
from clprim.call.arguments import check_array, check_out
from clprim.call.call import Call, bind
from clprim.call.scalars import scalar_dtypes, weaken
from clprim.call.signature import Calls
from clprim.language.definition import PointwiseDefinition, texts
from clprim.plan.kernel import Plan
from clprim.plan.pointwise.lists import lists_that_fit, plan_lists
from clprim.runtime.device import Device, current_device

Lists = Sequence[Sequence[Any]]

# With a call goes the definition that its key has the number of.
_calls: Calls[tuple[tuple[int, ...], Call, PointwiseDefinition]] = Calls()


def run_lists(
    what: str,
    definition: PointwiseDefinition,
    lists: Lists,
    written: Sequence[int],
    numbers: Sequence[Any],
    shared: int = 0,
) -> list[int]:
    """Runs the kernel on every list that it can take.

    Args:
        what: The operator, for messages.
        definition: The snippet; it reads no array at coordinates.
        lists: For each list its arrays x0, x1, …, of one shape.
        written: Number of the array that y0, y1, … are written to.
        numbers: The run-time scalars.
        shared: How many arrays, the last ones of each list, are of one element for all of it.

    Returns:
        The numbers of the lists that are left: of arrays with gaps, say.
    """
    device = current_device()
    arrays = [a for row in lists for a in row]
    if any(a.context != device.context for a in arrays):
        return [*range(len(lists))]  # who runs them says so
    places = [memory_of(a.base_data) for a in arrays]
    numbered = {memory: n for n, (memory, _) in enumerate(reversed(places))}
    signature: Hashable = (
        id(definition),
        device.index,
        tuple(written),
        len(lists),
        shared,
        *((a.shape, a.strides, a.dtype, a.offset) for a in arrays),
        *((numbered[memory], start) for memory, start in places),
        *map(type, numbers),
    )
    for a in arrays:
        if a.queue is not device.queue:
            join(a, device)
    found = _calls.get(signature)
    if found is None:
        prepared = _prepare(device, what, definition, lists, places, written, numbers, shared)
        found = (*prepared, definition)
        _calls.remember(signature, found)
    taken, call, _ = found
    call.run(device, [a for k in taken for a in lists[k]], numbers)
    rest = {*taken}
    return [k for k in range(len(lists)) if k not in rest]


def _prepare(
    device: Device,
    what: str,
    definition: PointwiseDefinition,
    lists: Lists,
    places: Sequence[tuple[Hashable, int]],
    written: Sequence[int],
    numbers: Sequence[Any],
    shared: int,
) -> tuple[tuple[int, ...], Call]:
    taken: list[int] = []
    stages = []
    width = definition.inputs
    if _apart(lists, places, written):
        taken = [k for k, row in enumerate(lists) if _is_line(row)]
    taken.sort(key=lambda k: [str(a.dtype) for a in lists[k]])
    most = lists_that_fit(definition)
    for _, same in itertools.groupby(taken, key=lambda k: [a.dtype for a in lists[k]]):
        every = [*same]
        for chunk in (every[n : n + most] for n in range(0, len(every), most)):
            rows = [[operand_of(a) for a in lists[k]] for k in chunk]
            stored = [a.dtype for a in rows[0]]
            types = scalar_dtypes(what, numbers, stored)
            results = [stored[n] for n in written]
            types = weaken(numbers, types, stored, results, device.traits.fp64)
            dtypes.require_supported([*stored, *types], device.traits, str(device))
            for n, x in enumerate(lists[chunk[0]]):
                check_array(what, f"x{n}", x, device)
            promoted = dtypes.promote([*stored, *types])
            for n, x in enumerate(written):
                array = lists[chunk[0]][x]
                check_out(what, n, array, array.shape, promoted)
            kernel = plan_lists(definition, rows, written, types, device.traits, shared)
            called = {f"{n}x{x}": f"{k}x{x}" for n, k in enumerate(chunk) for x in range(width)}
            stages.append(kernel.renamed(called))
    names = [f"{k}x{n}" for k in taken for n in range(width)]
    kernels = Plan(tuple(stages)) if stages else None
    return tuple(taken), bind(device, what, kernels, names, (), texts(definition))


def _is_line(row: Sequence[Any]) -> bool:
    """Whether a list's arrays have elements, and these lie without gaps below 2³¹."""
    return row[0].size > 0 and all(
        is_dense(a, range(a.ndim)) and a.offset // a.dtype.itemsize + a.size < 2**31 - 2**20
        for a in row
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
