"""Groups as loops over memory: where the elements of a group lie in runs of one axis or two."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from clprim.dtypes import value_dtype
from clprim.plan.grouped.problem import Groups
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Space, broadcast_strides, collapse, memory_order
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Loops:
    """What a group is in memory."""

    outer: Dim  # The groups, along one axis or two
    group: Dim
    row: Dim  # Elements of a group: runs of neighbours, and how often there is one
    run: Dim
    starts: tuple[int, ...]  # Of all arrays, in elements
    index: str  # Type that reaches every element

    @property
    def groups(self) -> int:
        """How many."""
        return self.outer.size * self.group.size

    @property
    def moving(self) -> list[int]:
        """Numbers of the arrays that have more than one element a group."""
        return [n for n in range(len(self.starts)) if self.run.strides[n] or self.row.strides[n]]


def loops_of(problem: Groups, traits: DeviceTraits) -> Loops | None:
    """Returns the loops, if vectors do and what is reduced are runs of one axis or two."""
    definition = problem.definition
    if not (definition.componentwise and problem.value.kind == "f"):
        return None
    dtypes = [*(a.dtype for a in problem.arrays), *problem.scalars]
    if any(d.kind in "biu" or value_dtype(d, [d]) != problem.value for d in dtypes):
        return None
    strides = [broadcast_strides(a, problem.shape) for a in problem.arrays]
    read = min(problem.definition.reduced)
    first = broadcast_strides(problem.inputs[read], problem.shape)
    order = memory_order(problem.shape, [first])
    dims = (Dim(problem.shape[d], tuple(s[d] for s in strides), d in problem.axes) for d in order)
    starts = tuple(a.in_elements(a.offset) for a in problem.arrays)
    space = collapse(Space(tuple(dims), starts), flip=False)
    kept, reduced = space.select(reduced=False), space.select(reduced=True)
    if len(kept) > 2 or not 1 <= len(reduced) <= 2 or not space.dims[-1].reduced:
        return None
    once = Dim(1, (0,) * len(starts))
    outer, group = (once, once, *kept)[-2:]
    row, run = (once, *reduced)[-2:]
    return Loops(outer, group, row, run, space.offsets, index_type(space, traits=traits))


def walk_together(problem: Groups, loops: Loops) -> bool:
    """Whether arrays of more than one element a group have neighbours where a run has."""
    names, moving = problem.names, loops.moving
    once = inputs_of(problem.definition.finalized)
    if any(names[n] in once for n in moving):
        return False
    read = {
        *inputs_of(problem.definition.reduced),
        *(f"y{n}" for n in range(len(problem.results))),
    }
    return all(loops.run.strides[n] in ((1,) if names[n] in read else (0, 1)) for n in moving)


def places_of(problem: Groups, loops: Loops) -> dict[str, int]:
    """Sizes of the loops and strides of all arrays, as kernels of runs take them."""
    row, group, moving = loops.row, loops.group, loops.moving
    numbers = {
        "groups": loops.groups,
        "inner_groups": group.size,
        "rows": row.size,
        "n": loops.run.size,
    }
    for n, name in enumerate(problem.names):
        numbers[f"{name}_start"] = loops.starts[n]
        numbers[f"{name}_outer"] = loops.outer.strides[n]
        numbers[f"{name}_group"] = group.strides[n]
        if n in moving:
            # The next run is the next group's where a group is one: softmax prefetches it.
            numbers[f"{name}_row"] = (row if row.size > 1 else group).strides[n]
    return numbers


def inputs_of(numbers: Collection[int]) -> tuple[str, ...]:
    """Their names."""
    return tuple(f"x{n}" for n in sorted(numbers))
