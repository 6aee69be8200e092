"""What a user defined: the checked snippets of a `Pointwise` or a `Reduction`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from clprim.errors import DefinitionError
from clprim.language import names
from clprim.language.check import check
from clprim.language.combine import derive_combine, position_results, summed_results
from clprim.language.componentwise import is_componentwise, needs_float
from clprim.language.lookups import LOOKUPS
from clprim.language.preamble import read_preamble
from clprim.language.snippet import Rules, Snippet
from clprim.language.tree import Assign, Evaluate, Name

__all__ = [
    "PointwiseDefinition",
    "ReductionDefinition",
    "define_pointwise",
    "define_reduction",
    "texts",
]

_POSITION = frozenset(["index", "coord", "size"])


@dataclass(frozen=True)
class PointwiseDefinition:
    """A checked `Pointwise`.

    Attributes:
        name: For kernels, profiles and messages.
        expr: The snippet, run once an element.
        preamble: OpenCL C put before the kernel.
        inputs, scalars, results: How many ``xN``, ``wN`` and ``yN`` there are.
    """

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
    def copies(self) -> bool:
        """Whether the snippet is ``y0 = x0`` and no more, so that bits may be moved as they are."""
        return self.expr.statements == (Evaluate(Assign(Name("y0"), "=", Name("x0"))),)

    @cached_property
    def needs_float(self) -> bool:
        """Whether vectors must be of a floating type."""
        return needs_float(self.expr)


@dataclass(frozen=True)
class ReductionDefinition:
    """A checked `Reduction`.

    Attributes:
        name: For kernels, profiles and messages.
        expr, init, step, combine: The snippets; ``combine`` is never missing, it may be derived.
        finalize: The snippet that makes results of partials; None where they are the results.
        preamble: OpenCL C put before the kernel.
        inputs, scalars, values, partials, results: How many ``xN``, ``wN``, ``yN`` an element,
            ``reduce_yN``, and results there are.
        positions: Partials that hold an element's position.
        summed: Partials that add up or multiply, which NumPy widens for small integers.
    """

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

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """Every snippet of the definition."""
        parts = (self.expr, self.init, self.step, self.combine)
        return parts if self.finalize is None else (*parts, self.finalize)

    @cached_property
    def combine_componentwise(self) -> bool:
        """Whether ``combine`` computes on vectors what it computes on scalars."""
        return is_componentwise(self.combine)

    @cached_property
    def componentwise(self) -> bool:
        """Whether ``expr`` and ``step`` compute on vectors what they compute on scalars."""
        position = {"index", "reduce_item"} & (self.expr.used | self.step.used)
        return not position and is_componentwise(self.expr, self.init, self.step)

    @cached_property
    def needs_float(self) -> bool:
        """Whether vectors must be of a floating type."""
        return needs_float(self.expr, self.init, self.step, self.combine)


def _count(owner: str, family: str, snippets: tuple[Snippet, ...]) -> int:
    """Counts operands of a family; they must be numbered from 0 without a gap."""
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


def _require_assigned(snippet: Snippet, family: str) -> int:
    """Counts the results that a snippet assigns, from 0 without a gap."""
    assigned = snippet.assigned_numbers(family)
    mentioned = snippet.numbers(family)
    for n in range(max(mentioned, default=-1) + 1):
        if n not in assigned:
            problem = f"{family}{n} is never assigned"
            if n in mentioned:
                raise snippet.error(f"{family}{n}", problem)
            raise snippet.error(f"{family}{max(mentioned)}", problem)
    return len(assigned)


def define_pointwise(expr: str, *, name: str | None, preamble: str) -> PointwiseDefinition:
    """Checks the snippet of a `Pointwise`; see there for the arguments.

    Raises:
        DefinitionError: With the snippet's line and a caret.
    """
    owner = "Pointwise"
    helpers = read_preamble(owner, preamble)
    reads = frozenset(["x", "w", *_POSITION, *LOOKUPS])
    checked = check(Rules(owner, "expr", reads, frozenset(["y"])), expr, helpers)
    results = _require_assigned(checked, "y")
    if results == 0:
        raise checked.error("", "no result is assigned; expected y0 = …;")
    return PointwiseDefinition(
        name=_kernel_name(name, "pointwise", helpers.names),
        expr=checked,
        preamble=helpers.text,
        inputs=_count(owner, "x", (checked,)),
        scalars=_count(owner, "w", (checked,)),
        results=results,
    )


def define_reduction(
    expr: str,
    *,
    init: str,
    step: str,
    combine: str | None,
    finalize: str | None,
    name: str | None,
    preamble: str,
) -> ReductionDefinition:
    """Checks the snippets of a `Reduction`; see there for the arguments.

    Raises:
        DefinitionError: With the snippet's line and a caret.
    """
    owner = "Reduction"
    helpers = read_preamble(owner, preamble)

    def part(name: str, text: str, reads: set[str], writes: set[str]) -> Snippet:
        rules = Rules(owner, name, frozenset(reads), frozenset(writes))
        return check(rules, text, helpers)

    elementwise = {"x", "w", "reduce_item", *_POSITION}
    expr_part = part("expr", expr, elementwise, {"y"})
    init_part = part("init", init, {"w"}, {"reduce_y"})
    step_part = part("step", step, elementwise, {"reduce_y", "y"})

    values = _require_assigned(expr_part, "y")
    partials = _require_assigned(init_part, "reduce_y")
    if partials == 0:
        raise init_part.error("", "no partial is started; expected reduce_y0 = …;")
    for n in sorted(step_part.numbers("reduce_y")):
        if n >= partials:
            raise step_part.error(f"reduce_y{n}", f"init never assigns reduce_y{n}")
    for n in range(partials):
        if n not in step_part.assigned_numbers("reduce_y"):
            raise step_part.error("", f"step never updates reduce_y{n}, which init starts")
    for n in sorted(step_part.numbers("y")):
        if n >= values:
            raise step_part.error(f"y{n}", f"y{n} is never assigned by the expression")

    derived = combine is None
    text = derive_combine(expr_part, step_part) if combine is None else combine
    if text is None:
        raise step_part.error(
            "",
            "cannot derive how two partial results merge from this step; "
            "give combine=, which takes other_yN into reduce_yN",
        )
    combine_part = part("combine", text, {"w", "other_y"}, {"reduce_y"})
    for family in ("reduce_y", "other_y"):
        for n in sorted(combine_part.numbers(family)):
            if n >= partials:
                raise combine_part.error(f"{family}{n}", f"init never assigns reduce_y{n}")
    for n in range(partials):
        if n not in combine_part.assigned_numbers("reduce_y"):
            if derived:
                raise step_part.error("", f"step never updates reduce_y{n}, which init starts")
            raise combine_part.error("", f"combine never merges other_y{n} into reduce_y{n}")

    finalize_part = None
    results = partials
    if finalize is not None:
        finalize_part = part("finalize", finalize, {"reduce_y", "w", "count"}, {"y"})
        for n in sorted(finalize_part.numbers("reduce_y")):
            if n >= partials:
                raise finalize_part.error(f"reduce_y{n}", f"init never assigns reduce_y{n}")
        results = _require_assigned(finalize_part, "y")
        if results == 0:
            raise finalize_part.error("", "no result is assigned; expected y0 = …;")

    parts: tuple[Snippet, ...] = (expr_part, init_part, step_part, combine_part)
    parts = parts if finalize_part is None else (*parts, finalize_part)
    inputs = _count(owner, "x", parts)
    if inputs == 0:
        raise expr_part.error("", "a reduction needs at least one array: use x0")
    return ReductionDefinition(
        name=_kernel_name(name, "reduction", helpers.names),
        expr=expr_part,
        init=init_part,
        step=step_part,
        combine=combine_part,
        finalize=finalize_part,
        preamble=helpers.text,
        inputs=inputs,
        scalars=_count(owner, "w", parts),
        values=values,
        partials=partials,
        results=results,
        positions=position_results(expr_part, step_part),
        summed=summed_results(step_part),
    )


def _kernel_name(name: str | None, default: str, helpers: frozenset[str]) -> str:
    if name is None:
        while default in helpers:
            default += "_"
        return default
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise DefinitionError(f"name={name!r}: expected a C identifier for the kernel's name")
    given = names.BUILTINS | names.TYPES | names.KEYWORDS | names.QUALIFIERS | {*names.RESERVED}
    if name in given:
        raise DefinitionError(f"name={name!r} is a name of OpenCL C; choose another")
    if name in helpers:
        raise DefinitionError(f"name={name!r} is a name of the preamble; choose another")
    return name


def texts(definition: PointwiseDefinition | ReductionDefinition) -> dict[str, str]:
    """Returns the user's text of every part, for the compiler's complaints."""
    parts = {s.rules.part: s.text for s in definition.snippets}
    return {**parts, "preamble": definition.preamble}
