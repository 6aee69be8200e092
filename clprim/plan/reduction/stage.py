"""The operands of a `Reduction` or a `Scan`, and one kernel of a reduction.

How the loops are cut is decided in `clprim.plan.reduction.planner`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from clprim.dtypes import (
    AnyDType,
    paired_dtype,
    promote,
    stored_type,
    value_dtype,
)
from clprim.language.complex_numbers import complex_operands
from clprim.language.componentwise import is_componentwise, needs_float
from clprim.language.definition import ReductionDefinition
from clprim.plan.kernel import Argument, KernelPlan, OperandCode, ScalarCode
from clprim.plan.machine import STEPS
from clprim.plan.parameters import Arguments
from clprim.plan.reduction.code import (
    KernelLoops,
    PartialCode,
    ReductionCode,
    Scaling,
    partial_code,
)
from clprim.plan.reduction.schedule import Schedule
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.plan.strides import Dim, Operand
from clprim.traits import DeviceTraits

#: What the second stage's name ends with.
FINISH = "_finish"
# Bound: additions one after another that go up no level. Of six equal numbers 1e-7 may be lost, of
# eight 1.5e-7, and with what merging loses 2.4e-7.
FIRST_CHAIN = 6
# Bound: of pairs, whose accumulators fill the registers and go up a level through memory.
PAIRS_CHAIN = 32
# Bound: levels of four additions each, of which equal numbers lose nothing by rounding; one more
# brings chains to an end. Of longer ones the last level keeps what it loses.
LEVELS = 3


def levels_of_pairs(steps: int, chain: int) -> tuple[int, bool]:
    """How many levels chains of so many steps have, and whether the last keeps what is lost."""
    levels = next((n for n in (0, 1, 2) if steps <= chain * 4**n), None)
    return (LEVELS, True) if levels is None else (levels, False)


@dataclass(frozen=True)
class Stage:
    """One kernel of a reduction."""

    schedule: Schedule
    loops: KernelLoops
    partial: bool  # Whether another one goes on from what it stores
    nbytes: int  # These as in `KernelPlan`
    flops: int
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None  # The schedule's where left out
    kinds: tuple[str, ...] = ()  # See `ReductionCode`
    packed: tuple[str, ...] = ()


def added_names(
    definition: ReductionDefinition, codes: Sequence[PartialCode], dtypes: Sequence[AnyDType]
) -> tuple[str, ...]:
    """Returns the partials of floats that merge by addition."""
    pairs = enumerate(zip(codes, dtypes, strict=True))
    return tuple(p.name for n, (p, d) in pairs if n in definition.added and d.kind not in "biu")


@dataclass
class Folding:
    """One call of a `Reduction` or a `Scan`: its operands, and what its kernels have in common."""

    definition: ReductionDefinition
    results: Sequence[Operand]
    inputs: Sequence[Operand]
    scalars: Sequence[AnyDType]  # dtypes of the run-time scalars
    partials: Sequence[AnyDType]
    scaling: Sequence[Scaling]
    traits: DeviceTraits

    def __post_init__(self) -> None:
        definition, results, inputs = self.definition, self.results, self.inputs
        scalars, partials, scaling = self.scalars, self.partials, self.scaling
        everything = [*(a.dtype for a in (*results, *inputs)), *partials, *scalars]
        self.result_codes = tuple(
            OperandCode.of(
                f"y{n}",
                r.dtype,
                r.dtype if r.dtype.kind in "iub" else value_dtype(r.dtype, everything),
                -1,  # known only once the loops are sorted
            )
            for n, r in enumerate(results)
        )
        self.scalar_codes = tuple(
            ScalarCode(f"w{n}", stored_type(value_dtype(d, everything)).value)
            for n, d in enumerate(scalars)
        )
        self.input_values = [value_dtype(a.dtype, everything) for a in inputs]
        self.partial_codes = tuple(
            partial_code(n, d, definition.family) for n, d in enumerate(partials)
        )
        read = [stored_type(d).value for d in self.input_values]
        pairs = complex_operands(definition, (*read, *(w.value for w in self.scalar_codes))).values
        element = value_dtype(promote([a.dtype for a in inputs]), everything)
        self.values = tuple(
            (
                f"y{n}",
                stored_type(
                    partials[n]
                    if definition.values_are_partials
                    else paired_dtype(element, n in pairs)
                ).value,
            )
            for n in range(definition.values)
        )
        self.scale_types = tuple(
            (s.kind, "" if s.dtype is None else stored_type(s.dtype).value) for s in scaling
        )
        self.doubles = not {"double", "double2"}.isdisjoint(
            {
                *(o.value for o in self.result_codes),
                *(stored_type(v).value for v in self.input_values),
                *(p.value for p in self.partial_codes),
                *(s.value for s in self.scalar_codes),
                *(t for _, t in self.scale_types),
            }
        )

    def vector_type(self) -> str | None:
        """The one type that everything is calculated in, where vectors compute as elements do."""
        definition = self.definition
        types = {
            *(stored_type(v).value for v in self.input_values),
            *(p.value for p in self.partial_codes),
            *(t for _, t in self.values),
            *(s.value for s in self.scalar_codes),
        }
        value = next(iter(types))
        if len(types) > 1 or value not in ("int", "uint", "long", "ulong", "float", "double"):
            return None
        if definition.needs_float and value not in ("float", "double"):
            return None
        # bool has no vectors in memory.
        if not definition.componentwise or any(a.dtype.kind == "b" for a in self.inputs):
            return None
        return value

    @cached_property
    def summed(self) -> tuple[int, ...]:
        """Numbers of the partials that are sums of floats."""
        summed = self.definition.summed
        return tuple(n for n in sorted(summed) if self.partials[n].kind not in "biu")

    def texts(self, *, finalized: bool = True) -> dict[str, Any]:
        """Returns the snippets as they are printed, by name, and the types that they divide in."""
        definition, printed = self.definition, Printed()
        inputs = {f"x{n}": stored_type(d).value for n, d in enumerate(self.input_values)}
        partials = {p.name: p.value for p in self.partial_codes}
        known = inputs | partials | {w.name: w.value for w in self.scalar_codes}
        others = {p.other: p.value for p in self.partial_codes}
        results = {y.name: y.value for y in self.result_codes}
        if finalized:
            if definition.finalize is None:
                printed.cast((p.value for p in self.partial_codes), results.values())
            printed.cast((t for _, t in self.scale_types), results.values())
        return {
            "expr": printed.text(definition.expr, known | dict(self.values)),
            "init": printed.text(definition.init, known),
            "step": printed.text(definition.step, known | dict(self.values)),
            "combine": printed.text(definition.combine, known | others),
            "finalize": printed.text(definition.finalize if finalized else None, known | results),
            "guards": printed.guards,
        }

    def _levels(self, schedule: Schedule) -> tuple[int, bool, bool]:
        """How many levels of accumulators, whether the last keeps what is lost, steps by four."""
        template = schedule.template
        vectors = self.definition.combine_componentwise or schedule.vector == 1
        if not self.summed or not vectors or schedule.exact:
            return 0, False, False
        if template == "reduction/finish":
            return LEVELS, True, False
        side_by_side = {
            "reduction/columns": 1,
            "reduction/inner": schedule.vector * schedule.unroll * schedule.lanes,
            "reduction/lanes": schedule.rows,
            "reduction/narrow": schedule.vector,
            "reduction/pairs": 1,
            "reduction/pairs_local": 1,
        }[template]
        steps = schedule.chunk // side_by_side
        if "pairs" in template:  # many accumulators, and few kernels for all lengths
            return (*levels_of_pairs(steps, PAIRS_CHAIN), False)
        if template == "reduction/lanes":  # one kernel is to serve all lengths but very few
            return (LEVELS, True, False) if 2 * steps > FIRST_CHAIN else (0, False, False)
        # Batches differ in rows of columns, and GPUs cut rows by their number: few kernels serve
        # all lengths.
        several: tuple[int, ...] = (0,)
        fours = schedule.fours
        if self.traits.is_cpu:
            columns = template == "reduction/columns"
            several = (0, 1, 3, LEVELS + 1) if columns else (0, 1, 2, LEVELS + 1)
        if fours:
            several = (0, 2, LEVELS)
        chain = 4 * FIRST_CHAIN if fours else FIRST_CHAIN
        levels = next((n for n in several if steps <= chain * 4**n), None)
        return (LEVELS, True, fours) if levels is None else (levels, False, fours)

    def operands(self, along: Dim, across: Dim) -> tuple[tuple[OperandCode, ...], ...]:
        """Returns inputs and results, which are followed along a loop each."""
        inputs = tuple(
            OperandCode.of(f"x{k}", a.dtype, value, along.strides[k])
            for k, (a, value) in enumerate(zip(self.inputs, self.input_values, strict=True))
        )
        results = tuple(
            replace(y, inner="one" if across.strides[len(inputs) + n] == 1 else "any")
            for n, y in enumerate(self.result_codes)
        )
        return inputs, results

    def common(
        self, loops: KernelLoops, suffix: str, *, partial: bool, between: bool
    ) -> tuple[dict[str, Any], tuple[Argument, ...]]:
        """Returns what templates of reductions and scans print alike, and the arguments.

        Partials lie in memory ``between`` two stages, which a ``partial`` one writes.
        """
        definition, found = self.definition, Arguments(loops.index)
        draws = definition.draws and suffix != FINISH
        results = () if partial else loops.results
        for y in results:
            found.memory(y.storage, f"{y.name}_memory", read_only=False)
        for x in loops.inputs:
            found.memory(x.storage, f"{x.name}_memory")
        for p in self.partial_codes if between else ():
            found.memory(p.storage, f"{p.name}_memory", read_only=not partial)
        found.scalars(self.scalar_codes)
        if draws:
            found.random()
        number = len(self.scalar_codes)
        for n, (kind, type_name) in enumerate(() if partial else self.scale_types):
            for factor in {"plain": (), "scaled": ("alpha",)}.get(kind, ("alpha", "beta")):
                found.scalar(type_name, f"{factor}{n}", number)
                number += 1
        if not loops.baked:
            found.numbers(**dict(loops.numbers))
        fields = {
            "name": definition.name + suffix,
            "preamble": definition.preamble,
            "parameters": tuple(found.parameters),
            "constants": loops.numbers if loops.baked else (),
            "index": loops.index,
            "unified": unified_functions(definition.snippets, definition.preamble, self.traits),
            "doubles": self.doubles,
            "own": own_names(definition.snippets, definition.preamble),
            "results": results,
            "inputs": loops.inputs,
            "partials": self.partial_codes,
            "values": self.values,
            "scalars": self.scalar_codes,
            "positions": loops.positions,
            "coords": loops.coords,
            "sizes": loops.sizes,
            "kept": loops.kept,
            "random": draws,
        }
        return fields | self.texts(finalized=not partial), tuple(found.arguments)

    def kernel(self, stage: Stage) -> KernelPlan:
        """Plans one kernel of a reduction."""
        schedule, loops, partial, kinds = stage.schedule, stage.loops, stage.partial, stage.kinds
        finish = schedule.template == "reduction/finish"
        suffix = FINISH if finish else ""
        common, arguments = self.common(loops, suffix, partial=partial, between=partial or finish)
        store_tiles = self._stores_tiles(schedule, loops.results, partial=partial)
        written = sum(r.size * r.dtype.itemsize for r in self.results)
        vectors = bool(kinds) and self._finishes_vectors(schedule, loops.results)
        stored = all(y.load == "direct" for y in loops.results)
        whole = not partial and (store_tiles or (vectors and stored))
        levels, endless, fours = self._levels(schedule)
        definition = self.definition
        code = ReductionCode(
            **common,
            scaling=() if partial else self.scale_types,
            reduced=loops.reduced,
            vector=schedule.vector,
            unroll=schedule.unroll,
            lanes=schedule.lanes,
            rows=schedule.rows,
            combine_vectors=definition.combine_componentwise,
            partial=partial,
            row_a_split=schedule.row_a_split,
            exact=schedule.exact,
            store_tiles=store_tiles,
            levels=levels,
            quads=levels >= LEVELS,  # few steps are left over
            fours=fours,
            endless=endless,
            added=added_names(definition, self.partial_codes, self.partials),
            streaming=whole and self.traits.streams(written),
            still=loops.still,
            finalized=() if partial else tuple(f"x{n}" for n in sorted(definition.finalized)),
            tall=schedule.tall,
            kinds=kinds,
            packed=stage.packed,
            steps=STEPS if schedule.template == "reduction/pairs_local" else 0,
            chain=PAIRS_CHAIN if kinds else FIRST_CHAIN,
            vector_finish=vectors,
        )
        local = stage.local_size or (schedule.lanes, schedule.rows)
        sizes = stage.global_size, local, stage.nbytes, stage.flops
        return KernelPlan(schedule.template, code, arguments, *sizes)

    def _stores_tiles(
        self, schedule: Schedule, results: Sequence[OperandCode], *, partial: bool
    ) -> bool:
        """Whether vectors of sums are stored as they are."""
        if schedule.template != "reduction/columns" or schedule.vector == 1:
            return False
        if partial:
            return True
        return (
            self.definition.finalize is None
            and all(
                y.inner == "one" and y.load == "direct" and y.storage == y.value == p.value
                for y, p in zip(results, self.partial_codes, strict=False)
            )
            and all(s.kind == "plain" for s in self.scaling)
        )

    def _finishes_vectors(self, schedule: Schedule, results: Sequence[OperandCode]) -> bool:
        """Whether results of pairs are computed and stored a vector at a time."""
        finalize, value = self.definition.finalize, self.vector_type()
        if schedule.vector == 1 or any(s.kind != "plain" for s in self.scaling):
            return False
        if finalize is not None and (
            self.definition.finalized
            or "count" in finalize.used
            or not is_componentwise(finalize)
            or (needs_float(finalize) and value not in ("float", "double"))
        ):
            return False
        return all(y.inner == "one" and y.value == value and y.load != "bool" for y in results)
