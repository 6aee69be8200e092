"""What a user defined: the checked snippets of a `Pointwise` or a `Reduction`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from clprim.errors import DefinitionError, quoted
from clprim.language import names
from clprim.language.check_snippet import check
from clprim.language.combine import added_results, derive_combine, position_results, summed_results
from clprim.language.componentwise import (
    is_componentwise,
    is_pairs_componentwise,
    needs_float,
)
from clprim.language.lookups import LOOKUPS
from clprim.language.operands import RANDOM
from clprim.language.preamble import Preamble, read_preamble
from clprim.language.snippet import Rules, Snippet
from clprim.language.tree import Assign, Call, Declare, Evaluate, Name, flat, walk

POSITION = frozenset(["index", "coord", "size"])


@dataclass(frozen=True)
class PointwiseDefinition:
    """A checked `Pointwise`."""

    name: str
    expr: Snippet
    preamble: str
    inputs: int
    scalars: int
    results: int

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """Every snippet of the definition."""
        return (self.expr,)

    @cached_property
    def draws(self) -> bool:
        """Whether it draws random numbers: every call then takes others."""
        return self.expr.draws

    @cached_property
    def broadcast(self) -> tuple[int, ...]:
        """Numbers of the arrays whose shapes broadcast: all that are not only read at coordinates.

        All results have an element for each of theirs.
        """
        return tuple(n for n in range(self.inputs) if n not in self.expr.looked_up)

    @cached_property
    def componentwise(self) -> bool:
        """Whether the snippet computes on vectors what it computes on scalars."""
        return is_componentwise(self.expr) and not self.expr.used & {"index"}

    @cached_property
    def pairs_componentwise(self) -> bool:
        """Likewise of vectors of complex numbers, which are pairs of vectors."""
        return is_pairs_componentwise(self.expr)

    @cached_property
    def straight(self) -> bool:
        """Whether a loop over elements is one that any compiler makes vectors of.

        There are no jumps, loops or conditions but ``?:``, and no calls but ``coord`` and ``size``.
        """
        plain = all(isinstance(s, Declare | Evaluate) for s in flat(self.expr.statements))
        return plain and not any(
            isinstance(node, Call) and node.function not in ("coord", "size")
            for node in walk(self.expr.tree)
        )

    @cached_property
    def copies(self) -> bool:
        """Whether the snippet is ``y0 = x0`` and no more, so that bits may be moved as they are."""
        return self.results == 1 and self.copies_each

    @cached_property
    def copies_each(self) -> bool:
        """Whether the snippet is ``y0 = x0; y1 = x1; …`` and no more."""
        each = range(self.results)
        assigned = tuple(Evaluate(Assign(Name(f"y{k}"), "=", Name(f"x{k}"))) for k in each)
        return self.expr.statements == assigned

    @cached_property
    def needs_float(self) -> bool:
        """Whether vectors must be of a floating type."""
        return needs_float(self.expr)


@dataclass(frozen=True)
class ReductionDefinition:
    """A checked `Reduction`, or a `Scan`: the same, but every partial on the way is a result."""

    name: str
    expr: Snippet
    init: Snippet
    step: Snippet
    combine: Snippet
    finalize: Snippet | None
    preamble: str
    inputs: int
    scalars: int
    values: int
    partials: int
    results: int
    positions: frozenset[int]
    summed: frozenset[int]
    added: frozenset[int]
    values_are_partials: bool
    family: str = "reduce_y"

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """Every snippet of the definition."""
        parts = (self.expr, self.init, self.step, self.combine)
        return parts if self.finalize is None else (*parts, self.finalize)

    @cached_property
    def finalized(self) -> frozenset[int]:
        """Which ``xN`` a reduction's ``finalize`` reads, once a result."""
        return frozenset() if self.finalize is None else self.finalize.numbers("x")

    @cached_property
    def draws(self) -> bool:
        """Whether it draws random numbers: every call then takes others."""
        return any(snippet.draws for snippet in self.snippets)

    @cached_property
    def combine_componentwise(self) -> bool:
        """Whether ``combine`` computes on vectors what it computes on scalars."""
        return is_componentwise(self.combine)

    @cached_property
    def componentwise(self) -> bool:
        """Whether ``expr`` and ``step`` compute on vectors what they compute on scalars."""
        position = {"index", "reduce_item", "scan_item"} & (self.expr.used | self.step.used)
        return not position and is_componentwise(self.expr, self.init, self.step)

    @cached_property
    def needs_float(self) -> bool:
        """Whether vectors must be of a floating type."""
        return needs_float(self.expr, self.init, self.step, self.combine)


#: Operands of a family. Devices take 1,024 to 32,764 bytes of arguments, 8 an array; planning and
#: printing more would take seconds before a call is refused.
MOST_OPERANDS = 1024


def _require_few(snippet: Snippet, family: str, numbers: Collection[int]) -> None:
    highest = max(numbers, default=0)
    if highest >= MOST_OPERANDS:
        raise snippet.error(
            f"{family}{highest}",
            f"a definition takes {family}0 to {family}{MOST_OPERANDS - 1} at most",
        )


def count_operands(owner: str, family: str, snippets: tuple[Snippet, ...]) -> int:
    """Counts operands of a family; they must be numbered from 0 without a gap."""
    for snippet in snippets:
        _require_few(snippet, family, snippet.numbers(family))
    numbers = frozenset().union(*(s.numbers(family) for s in snippets))
    for n in range(len(numbers)):
        if n not in numbers:
            highest = f"{family}{max(numbers)}"
            used_in = next(s for s in snippets if max(numbers) in s.numbers(family))
            raise used_in.error(
                highest,
                f"{highest!r} is used but {family}{n!s} is not: operands are numbered from 0 "
                f"(an operand for its shape alone: (void){family}{n};)",
            )
    return len(numbers)


def require_assigned(snippet: Snippet, family: str, none: str = "") -> int:
    """Counts the results that a snippet assigns, from 0 without a gap; ``none`` refuses 0."""
    assigned = snippet.assigned_numbers(family)
    mentioned = snippet.numbers(family)
    _require_few(snippet, family, mentioned)
    for n in range(max(mentioned, default=-1) + 1):
        if n not in assigned:
            problem = f"{family}{n} is never assigned"
            if n in mentioned:
                raise snippet.error(f"{family}{n}", problem)
            raise snippet.error(f"{family}{max(mentioned)}", problem)
    if none and not assigned:
        raise snippet.error("", none)
    return len(assigned)


#: What is said where there is no result.
NO_RESULT = "no result is assigned; expected y0 = …;"


def define_pointwise(
    expr: str, *, name: str | None, preamble: str, part: str = "expr"
) -> PointwiseDefinition:
    """Checks the snippet of a `Pointwise`; see there for the arguments.

    ``part`` is what the snippet is called in messages.
    """
    owner = "Pointwise"
    helpers = read_preamble(owner, preamble)
    reads = frozenset(["x", "w", *POSITION, *LOOKUPS, *RANDOM])
    checked = check(Rules(owner, part, reads, frozenset(["y"])), expr, helpers)
    results = require_assigned(checked, "y", NO_RESULT)
    return PointwiseDefinition(
        name=kernel_name(name, "pointwise", helpers.names),
        expr=checked,
        preamble=helpers.text,
        inputs=count_operands(owner, "x", (checked,)),
        scalars=count_operands(owner, "w", (checked,)),
        results=results,
    )


@dataclass(frozen=True)
class Accumulation:
    """The checked snippets that take elements into partials."""

    expr: Snippet
    init: Snippet
    step: Snippet
    combine: Snippet
    values: int
    partials: int


def check_accumulation(
    owner: str,
    helpers: Preamble,
    expr: str,
    init: str,
    step: str,
    combine: str | None,
    *,
    family: str = "reduce_y",
    item: str = "reduce_item",
    draws: bool = False,
) -> Accumulation:
    """Checks the snippets that take elements into partials; see `clprim.Reduction` for them."""

    def part(name: str, text: str, reads: set[str], writes: set[str]) -> Snippet:
        rules = Rules(owner, name, frozenset(reads), frozenset(writes))
        return check(rules, text, helpers)

    elementwise = {"x", "w", item, *POSITION, *(RANDOM if draws else ())}
    expr_part = part("expr", expr, elementwise, {"y"})
    init_part = part("init", init, {"w"}, {family})
    step_part = part("step", step, elementwise, {family, "y"})

    values = require_assigned(expr_part, "y")
    none = f"no partial is started; expected {family}0 = …;"
    partials = require_assigned(init_part, family, none)
    unknown = f"init never assigns {family}{{n}}"
    step_part.require(family, range(partials), unknown)
    for n in range(partials):
        if n not in step_part.assigned_numbers(family):
            raise step_part.error("", f"step never updates {family}{n}, which init starts")
    step_part.require("y", range(values), "y{n} is never assigned by the expression")

    derived = combine is None
    text = derive_combine(expr_part, step_part) if combine is None else combine
    if text is None:
        raise step_part.error(
            "",
            "cannot derive how two partial results merge from this step; "
            f"give combine=, which takes other_yN into {family}N",
        )
    combine_part = part("combine", text, {"w", "other_y"}, {family})
    for either in (family, "other_y"):
        combine_part.require(either, range(partials), unknown)
    for n in range(partials):
        if n not in combine_part.assigned_numbers(family):
            if derived:
                raise step_part.error("", f"step never updates {family}{n}, which init starts")
            raise combine_part.error("", f"combine never merges other_y{n} into {family}{n}")
    return Accumulation(expr_part, init_part, step_part, combine_part, values, partials)


def define_reduction(
    expr: str,
    *,
    init: str,
    step: str,
    combine: str | None,
    finalize: str | None,
    name: str | None,
    preamble: str,
    scan: bool = False,
) -> ReductionDefinition:
    """Checks the snippets of a `Reduction`, or of a `Scan`; see there for the arguments."""
    owner, family, item = "Reduction", "reduce_y", "reduce_item"
    if scan:
        owner, family, item = "Scan", "scan_y", "scan_item"
    helpers = read_preamble(owner, preamble)
    taken = check_accumulation(
        owner, helpers, expr, init, step, combine, family=family, item=item, draws=True
    )
    partials = taken.partials
    finalize_part = None
    results = partials
    if finalize is not None:
        seen = (item, *POSITION) if scan else ("count",)
        reads = frozenset([family, "x", "w", *seen])
        finalize_part = check(Rules(owner, "finalize", reads, frozenset(["y"])), finalize, helpers)
        finalize_part.require(family, range(partials), f"init never assigns {family}{{n}}")
        results = require_assigned(finalize_part, "y", NO_RESULT)

    parts: tuple[Snippet, ...] = (taken.expr, taken.init, taken.step, taken.combine)
    parts = parts if finalize_part is None else (*parts, finalize_part)
    if not any(s.numbers("x") for s in (taken.expr, taken.step)):
        raise taken.expr.error("", f"a {owner.lower()} needs at least one array: use x0")
    return ReductionDefinition(
        name=kernel_name(name, owner.lower(), helpers.names),
        expr=taken.expr,
        init=taken.init,
        step=taken.step,
        combine=taken.combine,
        finalize=finalize_part,
        preamble=helpers.text,
        inputs=count_operands(owner, "x", parts),
        scalars=count_operands(owner, "w", parts),
        values=taken.values,
        partials=partials,
        results=results,
        positions=position_results(taken.expr, taken.step),
        summed=summed_results(taken.step),
        added=added_results(taken.combine),
        values_are_partials=finalize is None and taken.values <= partials,
        family=family,
    )


def is_taken(name: str) -> bool:
    """Whether OpenCL C has a name already."""
    given = names.BUILTINS | names.TYPES | names.KEYWORDS | names.QUALIFIERS | {*names.RESERVED}
    return name in given


def kernel_name(name: str | None, default: str, helpers: frozenset[str]) -> str:
    """Returns what a kernel is called: ``name``, or ``default`` where there is none."""
    if name is None:
        while default in helpers:
            default += "_"
        return default
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise DefinitionError(f"name={quoted(name)}: expected a C identifier for the kernel's name")
    if is_taken(name):
        raise DefinitionError(f"name={name!r} is a name of OpenCL C; choose another")
    if name in helpers:
        raise DefinitionError(f"name={name!r} is a name of the preamble; choose another")
    return name


class Definition(Protocol):
    """What a user defined, of whatever kind."""

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """All of them."""

    @property
    def preamble(self) -> str:
        """OpenCL C put before the kernels."""


def texts(definition: Definition) -> dict[str, str]:
    """Returns the user's text of every part, for the compiler's complaints."""
    parts = {s.rules.part: s.text for s in definition.snippets}
    parts |= {piece.part: piece.text for s in definition.snippets for piece in s.pieces}
    return {**parts, "preamble": definition.preamble}
