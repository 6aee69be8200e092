"""What the templates in grouped/ print, and the kernel of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from clprim.dtypes import stored_type
from clprim.language.componentwise import is_componentwise
from clprim.language.grouped_definition import GroupedDefinition, Near
from clprim.language.snippet import Snippet
from clprim.plan.grouped.problem import Groups, Loops, inputs_of
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, Plan, ScalarCode
from clprim.plan.parameters import Arguments
from clprim.plan.reduction.code import PartialCode, partial_code
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class PhaseCode:
    """One walk over a group, which takes elements into partials."""

    parts: tuple[str, str, str]  # Names of the snippets ``expr``, ``step`` and ``combine``
    expr: str  # They, and what starts partials
    step: str
    combine: str
    init: str
    merge: str  # The function that ``combine`` becomes
    combine_vectors: bool  # Whether partials merge as vectors
    partials: tuple[PartialCode, ...]
    scalars: tuple[ScalarCode, ...]
    known: tuple[str, ...]  # Names of the partials that an earlier walk has found
    values: tuple[tuple[str, str], ...]  # Names and types of what ``expr`` assigns
    inputs: tuple[OperandCode, ...]

    positions: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunsCode(KernelCode):
    """What grouped/runs.cl.jinja prints; the reduction's part of it as `ReductionCode` has it."""

    value: str  # Type that is calculated in
    # Elements of a vector, and of shorter ones for what is left of a run; the last is 1
    widths: tuple[int, ...]
    unroll: int  # Independent partials of a run
    # All operands by name; ``inner`` is the step to the next lane of a vector
    arrays: tuple[OperandCode, ...]
    still: tuple[str, ...]  # Names of those that have one element a group
    phases: tuple[PhaseCode, ...]  # The walks of the reduction
    results: tuple[OperandCode, ...]
    finalized: tuple[str, ...]  # Names of the inputs that ``finalize`` and ``each`` read
    mapped: tuple[str, ...]
    kept: tuple[tuple[int, str], ...]  # Names of the values that are stored, by number
    group_values: int  # How many values a group has
    partials: tuple[PartialCode, ...]  # The reduction's, and what their names are
    scalars: tuple[ScalarCode, ...]
    init: str
    finalize: str
    each: str
    each_part: str  # What the last one is called
    # Elements there is room for of each result that the last walk begins; 0 where none is
    begun: int
    streaming: bool  # Whether stores are streaming (non-temporal)
    ahead: bool  # Whether the next run is prefetched while one is reduced
    items: tuple[int, int]  # Work-items of a group, and groups of a work-group

    positions: tuple[str, ...] = ()
    coords: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()

    @property
    def vector(self) -> int:
        """Elements of a vector."""
        return self.widths[0]

    @property
    def named(self) -> dict[str, OperandCode]:
        """The operands by name."""
        return {a.name: a for a in self.arrays}


@dataclass(frozen=True)
class Shares:
    """What a strategy decides: a template, and how groups are shared out."""

    template: str
    numbers: Mapping[str, int]  # Sizes, starts and strides by name
    widths: tuple[int, ...]  # See `RunsCode`
    items: int  # Work-items, or on a GPU work-groups
    begun: int = 0
    unroll: int = 1
    vectors: bool = False
    ahead: bool = False
    local: tuple[int, int] = (1, 1)


def group_plan(problem: Groups, loops: Loops, shares: Shares, traits: DeviceTraits) -> Plan:
    """Returns the kernel that a template prints."""
    definition, arrays, names = problem.definition, problem.arrays, problem.names
    taken, snippets = definition.taken, definition.snippets
    run, value = loops.run, stored_type(problem.value).value
    operands = tuple(
        OperandCode.of(name, a.dtype, problem.value, step)
        for name, a, step in zip(names, arrays, run.strides, strict=True)
    )
    results = operands[: definition.results]
    scalars = tuple(ScalarCode(f"w{n}", value) for n in range(definition.scalars))
    found = Arguments(loops.index)
    for o in operands:
        found.memory(o.storage, f"{o.name}_memory", read_only=o.name.startswith("x"))
    found.scalars(scalars)
    found.numbers(**shares.numbers)
    near = definition.near if shares.begun else None
    partials = tuple(partial_code(n, problem.value) for n in range(taken.partials))
    printed = Printed()
    # ``count`` is a real number here, in `finalize` of a `Reduction` a whole one.
    families = dict.fromkeys(("x", "w", "y", "reduce_y", "other_y", "group_y", "count"), value)

    def text(snippet: Snippet | None) -> str:
        return printed.text(snippet, families)

    each = definition.each if near is None else near.finish
    elements = math.prod(problem.shape)
    moved = elements * sum(arrays[n].dtype.itemsize for n in loops.moving if run.strides[n])
    aligned = shares.vectors and _aligned(loops, results, shares.widths[0])
    code = RunsCode(
        name=definition.name,
        preamble=definition.preamble,
        parameters=tuple(found.parameters),
        index=loops.index,
        unified=unified_functions(snippets, definition.preamble, traits),
        doubles=value == "double",
        own=own_names(snippets, definition.preamble),
        value=value,
        widths=shares.widths,
        unroll=shares.unroll,
        arrays=operands,
        still=tuple(name for n, name in enumerate(names) if n not in loops.moving),
        phases=_phases(definition, near, operands, partials, scalars, value, text),
        results=results,
        finalized=inputs_of(definition.finalized),
        mapped=inputs_of(each.numbers("x")),
        kept=tuple((n, f"group_y{n}") for n, k in enumerate(problem.kept) if k is not None),
        group_values=definition.group_values,
        partials=partials,
        scalars=scalars,
        init=text(taken.init),
        finalize=text(definition.finalize),
        each=text(each),
        guards=printed.guards,
        each_part=each.rules.part,
        begun=0 if near is None else shares.begun,
        streaming=aligned and traits.streams(moved),
        ahead=shares.ahead,
        items=shares.local,
    )
    flops = (taken.expr.flops + taken.step.flops + definition.each.flops) * elements
    size = (shares.items * shares.local[0], shares.local[1])
    given = tuple(found.arguments)
    return Plan((KernelPlan(shares.template, code, given, size, shares.local, moved, flops),))


def _phases(
    definition: GroupedDefinition,
    near: Near | None,
    operands: tuple[OperandCode, ...],
    partials: tuple[PartialCode, ...],
    scalars: tuple[ScalarCode, ...],
    value: str,
    text: Callable[[Snippet | None], str],
) -> tuple[PhaseCode, ...]:
    """Returns the walks of the reduction: one, or those of ``near``."""
    taken = definition.taken

    def phase(
        expr: Snippet | None,
        step: Snippet,
        combine: Snippet,
        values: int,
        known: Collection[int] = (),
        merge: str = "take_partial",
    ) -> PhaseCode:
        read = step.numbers("x") | (frozenset() if expr is None else expr.numbers("x"))
        return PhaseCode(
            parts=("" if expr is None else expr.rules.part, step.rules.part, combine.rules.part),
            expr=text(expr),
            step=text(step),
            combine=text(combine),
            init=text(taken.init),
            merge=merge,
            combine_vectors=is_componentwise(combine),
            partials=partials,
            scalars=scalars,
            known=tuple(f"reduce_y{n}" for n in sorted(known)),
            values=tuple((f"y{n}", value) for n in range(values)),
            inputs=tuple(o for o in operands if o.name in inputs_of(read)),
        )

    if near is None:
        return (phase(taken.expr, taken.step, taken.combine, taken.values),)
    first = () if near.first is None else (phase(None, *near.first, 0, (), "take_first"),)
    return (*first, phase(near.begin, *near.step, definition.results, near.known))


def _aligned(loops: Loops, results: tuple[OperandCode, ...], width: int) -> bool:
    """Whether the vectors of results are those of memory, and lie where these begin."""
    places = [loops.run.size]
    for n in range(len(results)):
        places += [loops.starts[n], *(d.strides[n] for d in (loops.outer, loops.group, loops.row))]
    aligned = width > 1 and all(place % width == 0 for place in places)
    return aligned and all(r.load == "direct" and r.storage == r.value for r in results)
