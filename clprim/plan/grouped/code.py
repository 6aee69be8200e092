"""What the templates in grouped/ print, and the kernel of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from clprim.dtypes import stored_type
from clprim.language.componentwise import is_componentwise
from clprim.language.grouped import GroupedDefinition, Near
from clprim.language.snippet import Snippet
from clprim.plan.grouped.loops import Loops, inputs_of
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import (
    Argument,
    Buffer,
    KernelCode,
    KernelPlan,
    OperandCode,
    Parameter,
    Scalar,
    ScalarCode,
)
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


def group_kernel(
    template: str,
    problem: Groups,
    loops: Loops,
    numbers: Mapping[str, int],
    widths: tuple[int, ...],
    items: int,
    traits: DeviceTraits,
    *,
    begun: int,
    unroll: int = 1,
    vectors: bool = False,
    ahead: bool = False,
    local: tuple[int, int] = (1, 1),
) -> KernelPlan:
    """Returns the kernel that a template prints."""
    definition, arrays, names = problem.definition, problem.arrays, problem.names
    run, value = loops.run, stored_type(problem.value).value
    operands = tuple(
        OperandCode.of(name, a.dtype, problem.value, step)
        for name, a, step in zip(names, arrays, run.strides, strict=True)
    )
    results = operands[: definition.results]
    written = len(arrays) - len(problem.inputs)
    scalars = tuple(ScalarCode(f"w{n}", value) for n in range(definition.scalars))
    parameters = [
        *(
            Parameter.memory(o.storage, f"{o.name}_memory", read_only=n >= written)
            for n, o in enumerate(operands)
        ),
        *(Parameter.number(value, w.name) for w in scalars),
        *(Parameter.number(loops.index, name) for name in numbers),
    ]
    elements = math.prod(problem.shape)
    near = definition.near if begun else None
    partials = tuple(partial_code(n, problem.value) for n in range(definition.taken.partials))
    printed = Printed()
    # ``count`` is a real number here, in `finalize` of a `Reduction` a whole one.
    families = dict.fromkeys(("x", "w", "y", "reduce_y", "other_y", "group_y", "count"), value)

    def text(snippet: Snippet | None) -> str:
        return printed.text(snippet, families)

    phases = _phases(definition, near, operands, partials, scalars, value, text)
    each = definition.each if near is None else near.finish
    moved = elements * sum(arrays[n].dtype.itemsize for n in loops.moving if run.strides[n])
    taken, snippets = definition.taken, definition.snippets
    code = RunsCode(
        name=definition.name,
        preamble=definition.preamble,
        parameters=tuple(parameters),
        index=loops.index,
        unified=unified_functions(snippets, definition.preamble, traits),
        doubles=value == "double",
        own=own_names(snippets, definition.preamble),
        value=value,
        widths=widths,
        unroll=unroll,
        arrays=operands,
        still=tuple(name for n, name in enumerate(names) if n not in loops.moving),
        phases=phases,
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
        begun=0 if near is None else begun,
        streaming=vectors and traits.streams(moved) and _aligned(loops, results, widths[0]),
        ahead=ahead,
        items=local,
    )
    arguments: list[Argument] = [Buffer(name) for name in names]
    arguments += [Scalar(n) for n in range(len(scalars))]
    arguments += numbers.values()
    flops = taken.expr.flops + taken.step.flops + definition.each.flops
    size = (items * local[0], local[1])
    return KernelPlan(template, code, tuple(arguments), size, local, moved, flops * elements)


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
