"""Plans a `Grouped` pass by pass: a reduction, a map of the groups' values, a map of the elements.

    partials   reduce x along the axes                      one value a group
    values     of the partials, and of arrays a group       one value a group
    elements   of x again, and of the values                of the shape of x

Tables of a value a group are read along with x. Where the fastest axis of memory is a short one of
the group, as channels of a group are in NHWC, a table that repeats its values along it makes long
rows of short ones; it then has a value for every channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.dtypes import AnyDType
from clprim.language.grouped_definition import Mapping, Reducing
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import Argument, KernelPlan, Plan, Scalar
from clprim.plan.pointwise.family import POINTWISE
from clprim.plan.pointwise.planner import Mapped
from clprim.plan.pointwise.schedule import SHORT_ROW
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.planner import plan_reduction
from clprim.plan.reduction.problem import Reduced
from clprim.plan.strides import Operand, broadcast_strides, dense_strides, memory_order
from clprim.traits import DeviceTraits

# A table takes at most this part of the elements.
TABLE_PART = 16


@dataclass(frozen=True)
class _Table:
    """An array of the call, or of its workspace: where it lies, and the name of its buffer."""

    operand: Operand
    buffer: str


def plan_passes(problem: Groups, traits: DeviceTraits) -> Plan:
    """Plans the passes; those that have nothing to compute are left out."""
    return _Planner(problem, traits).plan()


class _Planner:
    def __init__(self, problem: Groups, traits: DeviceTraits) -> None:
        self.problem, self.traits = problem, traits
        self.definition = problem.definition
        self.workspace: dict[str, tuple[int, AnyDType]] = {}
        self.stages: list[KernelPlan] = []
        arrays = [_Table(*pair) for pair in zip(problem.arrays, problem.names, strict=True)]
        first = len(arrays) - len(problem.inputs)
        self.inputs = arrays[first:]
        self.results = arrays[: len(problem.results)]
        reached = [x.operand for x in (*self.results, *self.inputs)]
        self.moved = sum(x.size * x.dtype.itemsize for x in reached)
        kept = iter(arrays[len(problem.results) : first])
        self.kept = [None if k is None else next(kept) for k in problem.kept]
        shape = problem.shape
        self.one_each = tuple(1 if d in problem.axes else n for d, n in enumerate(shape))
        self.count = math.prod(shape[d] for d in problem.axes)
        self.order = memory_order(shape, [broadcast_strides(a, shape) for a in problem.inputs])

    def plan(self) -> Plan:
        problem = self.problem
        if math.prod(self.one_each):
            values = self._values()
            if math.prod(problem.shape):
                elements = self.definition.elements_map
                self._map(elements, problem.shape, values, self.results)
        return Plan(tuple(self.stages), self.workspace)

    def _values(self) -> list[_Table]:
        """Plans what gives every group its values, and returns their tables."""
        definition, problem = self.definition, self.problem
        spread, types = self._spread(), problem.values
        kept = zip(self.kept, types, strict=True)
        own = [k if k is not None and k.operand.dtype == value else None for k, value in kept]
        copied = tuple(n for n, k in enumerate(self.kept) if k is not None and own[n] is None)
        # There ``count`` becomes a number of y0's type, which is to be real.
        whole = not problem.pairs.values or "count" not in definition.finalize.used
        if spread == self.one_each and not copied and whole:
            tables = self._tables(spread, own)
            self._reduce(definition.reduction_to_values, tables)
            return tables
        partials = [self._table(self.one_each, value) for value in problem.partials]
        self._reduce(definition.reduction, partials)
        if spread == self.one_each:
            tables = self._tables(spread, own)
            copies = [k for n in copied if (k := self.kept[n]) is not None]
            self._map(definition.values_map(copied), spread, partials, [*tables, *copies])
            return tables
        tables = [self._table(spread, value) for value in types]
        self._map(definition.values_map(), spread, partials, tables)
        if any(self.kept):
            # After the tables: what is kept may take the place of an array that both read.
            rest = self._tables(self.one_each, self.kept)
            self._map(definition.values_map(), self.one_each, partials, rest)
        return tables

    def _spread(self) -> tuple[int, ...]:
        """Returns the shape of tables that the map of elements reads."""
        problem, shape = self.problem, list(self.one_each)
        inner = [d for d in self.order if problem.shape[d] > 1]
        row = 1
        while inner and inner[-1] in problem.axes:
            d = inner.pop()
            shape[d] = problem.shape[d]
            row *= problem.shape[d]
        elements = math.prod(problem.shape)
        pays = 1 < row < SHORT_ROW and math.prod(shape) * TABLE_PART <= elements
        return tuple(shape) if pays else self.one_each

    def _tables(self, shape: tuple[int, ...], given: Sequence[_Table | None]) -> list[_Table]:
        """Takes memory for those values of groups that have none."""
        pairs = zip(given, self.problem.values, strict=True)
        return [k or self._table(shape, value) for k, value in pairs]

    def _table(self, shape: tuple[int, ...], value: AnyDType) -> _Table:
        """Takes memory for one value a group."""
        strides = dense_strides(shape, value.itemsize, self.order)
        buffer = f"table{len(self.workspace)}"
        self.workspace[buffer] = (math.prod(shape), value)
        return _Table(Operand(shape, strides, 0, value), buffer)

    def _reduce(self, part: Reducing, results: Sequence[_Table]) -> None:
        problem = self.problem
        inputs = [self.inputs[n] for n in part.inputs]
        reduced = Reduced(
            part.definition,
            problem.shape,
            problem.axes,
            tuple(r.operand for r in results),
            tuple(x.operand for x in inputs),
            tuple(problem.scalars[n] for n in part.scalars),
            problem.partials,
            (Scaling(),) * len(results),
            moved=self.moved,
        )
        found = plan_reduction(reduced, self.traits)
        self.workspace.update(found.workspace)
        names = _names(results, inputs)
        self.stages += [_bound(stage, names, part.scalars) for stage in found.stages]

    def _map(
        self,
        part: Mapping,
        shape: tuple[int, ...],
        values: Sequence[_Table],
        results: Sequence[_Table],
    ) -> None:
        problem = self.problem
        inputs = [*(values[n] for n in part.values), *(self.inputs[n] for n in part.inputs)]
        scalars = tuple(problem.scalars[n] for n in part.scalars)
        mapped = Mapped(
            part.definition,
            shape,
            tuple(r.operand for r in results),
            tuple(x.operand for x in inputs),
            (*scalars, problem.value) if part.count else scalars,
        )
        found = POINTWISE.plan(mapped, self.traits).main
        numbers = (*part.scalars, None) if part.count else part.scalars
        self.stages.append(_bound(found, _names(results, inputs), numbers, self.count))


def _names(results: Sequence[_Table], inputs: Sequence[_Table]) -> dict[str, str]:
    """Returns the buffers of the whole by the names of a part's operands."""
    names = {f"y{n}": table.buffer for n, table in enumerate(results)}
    return names | {f"x{n}": table.buffer for n, table in enumerate(inputs)}


def _bound(
    plan: KernelPlan, names: dict[str, str], scalars: Sequence[int | None], count: int = 0
) -> KernelPlan:
    """Returns a part's plan with buffers and numbers of the whole; None stands for the count."""

    def bound(argument: Argument) -> Argument:
        if not isinstance(argument, Scalar):
            return argument
        number = scalars[argument.number]
        return count if number is None else Scalar(number)

    plan = plan.renamed(names)
    return replace(plan, arguments=tuple(map(bound, plan.arguments)))
