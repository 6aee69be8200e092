"""What a `Grouped` is to compute, and groups as loops over memory, in runs of one axis or two."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from clprim.dtypes import AnyDType, paired_dtype, value_dtype
from clprim.language.complex_numbers import ComplexOperands
from clprim.language.definition import Accumulation
from clprim.language.grouped_definition import GroupedDefinition
from clprim.plan.reduction.problem import Folds
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Operand, Space, broadcast_strides, collapse, memory_order


@dataclass(frozen=True)
class Groups(Folds):
    """One call."""

    definition: GroupedDefinition
    shape: tuple[int, ...]
    axes: tuple[int, ...]  # That a group extends along, sorted
    # dtype that partials and values of a group have, or their parts, and maps calculate in
    value: AnyDType
    inputs: tuple[Operand, ...]  # The arrays, which broadcast to ``shape``
    scalars: tuple[AnyDType, ...]
    results: tuple[Operand, ...]  # Where the elements go, of ``shape``
    # Where the values of groups go, with size 1 along ``axes``; None for those that nobody wants
    kept: tuple[Operand | None, ...]
    # Which partials and values are complex
    pairs: ComplexOperands = field(default_factory=ComplexOperands)

    def __str__(self) -> str:
        sizes = "×".join(map(str, self.shape))
        return f"{sizes} in groups along {', '.join(map(str, self.axes))}"

    @property
    def fold(self) -> Accumulation:
        """What takes elements in."""
        return self.definition.taken

    @property
    def partials(self) -> tuple[AnyDType, ...]:
        """Dtypes of what is accumulated."""
        pairs = self.pairs.partials
        return tuple(paired_dtype(self.value, n in pairs) for n in range(self.fold.partials))

    @property
    def values(self) -> tuple[AnyDType, ...]:
        """Dtypes of a group's values."""
        pairs, count = self.pairs.values, self.definition.group_values
        return tuple(paired_dtype(self.value, n in pairs) for n in range(count))

    @property
    def arrays(self) -> tuple[Operand, ...]:
        """All of them, as a call gives them: results, kept values, inputs."""
        return (*self.results, *(k for k in self.kept if k is not None), *self.inputs)

    @property
    def names(self) -> list[str]:
        """Of all arrays, in that order."""
        kept = [f"group_y{n}" for n, k in enumerate(self.kept) if k is not None]
        results = [f"y{n}" for n in range(len(self.results))]
        return [*results, *kept, *(f"x{n}" for n in range(len(self.inputs)))]

    @cached_property
    def loops(self) -> Loops | None:
        """The loops, if vectors do and what is reduced are runs of one axis or two."""
        definition = self.definition
        dtypes = [*(a.dtype for a in self.arrays), *self.scalars]
        vectors = definition.componentwise and not definition.mentions_complex
        if not (math.prod(self.shape) and vectors and self.value.kind == "f"):
            return None
        if any(d.kind in "biu" or value_dtype(d, [d]) != self.value for d in dtypes):
            return None
        strides = [broadcast_strides(a, self.shape) for a in self.arrays]
        first = broadcast_strides(self.inputs[min(definition.reduced)], self.shape)
        order = memory_order(self.shape, [first])
        dims = (Dim(self.shape[d], tuple(s[d] for s in strides), d in self.axes) for d in order)
        starts = tuple(a.in_elements(a.offset) for a in self.arrays)
        space = collapse(Space(tuple(dims), starts), flip=False)
        kept, reduced = space.select(reduced=False), space.select(reduced=True)
        if len(kept) > 2 or not 1 <= len(reduced) <= 2 or not space.dims[-1].reduced:
            return None
        once = Dim(1, (0,) * len(starts))
        outer, group = (once, once, *kept)[-2:]
        row, run = (once, *reduced)[-2:]
        return Loops(self, outer, group, row, run, space.offsets, index_type(space))


@dataclass(frozen=True)
class Loops:
    """What a group is in memory."""

    problem: Groups
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
    def size(self) -> int:
        """Elements of a group."""
        return self.row.size * self.run.size

    @property
    def moving(self) -> list[int]:
        """Numbers of the arrays that have more than one element a group."""
        return [n for n in range(len(self.starts)) if self.run.strides[n] or self.row.strides[n]]

    @property
    def reduced_bytes(self) -> int:
        """Bytes of a group that are reduced: what a cache is to hold until they are mapped."""
        problem, reduced = self.problem, inputs_of(self.problem.definition.reduced)
        read = (n for n in self.moving if problem.names[n] in reduced)
        return self.size * sum(problem.arrays[n].dtype.itemsize for n in read)

    @cached_property
    def together(self) -> bool:
        """Whether arrays of more than one element a group have neighbours where a run has."""
        problem, names = self.problem, self.problem.names
        once = inputs_of(problem.definition.finalized)
        if any(names[n] in once for n in self.moving):
            return False
        results = (f"y{n}" for n in range(len(problem.results)))
        dense = {*inputs_of(problem.definition.reduced), *results}
        steps = self.run.strides
        return all(steps[n] in ((1,) if names[n] in dense else (0, 1)) for n in self.moving)

    @property
    def places(self) -> dict[str, int]:
        """Sizes of the loops and strides of all arrays, as kernels of runs take them."""
        row, group, moving = self.row, self.group, self.moving
        numbers = {
            "groups": self.groups,
            "inner_groups": group.size,
            "rows": row.size,
            "n": self.run.size,
        }
        for n, name in enumerate(self.problem.names):
            numbers[f"{name}_start"] = self.starts[n]
            numbers[f"{name}_outer"] = self.outer.strides[n]
            numbers[f"{name}_group"] = group.strides[n]
            if n in moving:
                # The next run is the next group's where a group is one: softmax prefetches it.
                numbers[f"{name}_row"] = (row if row.size > 1 else group).strides[n]
        return numbers


def inputs_of(numbers: Collection[int]) -> tuple[str, ...]:
    """Their names."""
    return tuple(f"x{n}" for n in sorted(numbers))
