"""What a user defined as a `Grouped`: the snippets, and the kernels they make one by one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from clprim.language.check import check
from clprim.language.componentwise import is_componentwise
from clprim.language.definition import (
    POSITION,
    Accumulation,
    PointwiseDefinition,
    ReductionDefinition,
    check_accumulation,
    count_operands,
    define_pointwise,
    define_reduction,
    kernel_name,
    require_assigned,
)
from clprim.language.preamble import read_preamble
from clprim.language.rename import renamed
from clprim.language.snippet import Rules, Snippet

__all__ = ["GroupedDefinition", "Mapping", "Reducing", "define_grouped"]


@dataclass(frozen=True)
class Reducing:
    """The reduction that a `Grouped` begins with, as a definition of its own.

    Attributes:
        definition: With operands numbered anew.
        inputs, scalars: Which ``xN`` and ``wN`` of the whole they are.
    """

    definition: ReductionDefinition
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]


@dataclass(frozen=True)
class Mapping:
    """One of the maps of a `Grouped`, as a definition of its own.

    Attributes:
        definition: Its inputs are first those values of a group that it reads, then arrays.
        values: Which ``reduce_yN`` or ``group_yN`` it reads.
        inputs, scalars: Which ``xN`` and ``wN`` of the whole.
        count: Whether the number of a group's elements is a last scalar.
    """

    definition: PointwiseDefinition
    values: tuple[int, ...]
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]
    count: bool


@dataclass(frozen=True)
class GroupedDefinition:
    """A checked `Grouped`.

    Attributes:
        name: For kernels, profiles and messages.
        taken: The snippets that take elements into partials.
        finalize: Makes the group's values of the partials.
        each: The map of every element.
        preamble: OpenCL C put before the kernels.
        inputs, scalars, group_values, results: How many ``xN``, ``wN``, ``group_yN`` and ``yN``.
    """

    name: str
    taken: Accumulation
    finalize: Snippet
    each: Snippet
    preamble: str
    inputs: int
    scalars: int
    group_values: int
    results: int

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """Every snippet of the definition."""
        taken = self.taken
        return (taken.expr, taken.init, taken.step, taken.combine, self.finalize, self.each)

    @property
    def reduced(self) -> frozenset[int]:
        """Which ``xN`` the reduction reads."""
        taken = self.taken
        return frozenset().union(*(s.numbers("x") for s in (taken.expr, taken.step)))

    @property
    def finalized(self) -> frozenset[int]:
        """Which ``xN`` are read once a group."""
        return self.finalize.numbers("x")

    @property
    def mapped(self) -> frozenset[int]:
        """Which ``xN`` the map of every element reads."""
        return self.each.numbers("x")

    @cached_property
    def componentwise(self) -> bool:
        """Whether everything that runs once an element computes on vectors as on scalars."""
        taken = self.taken
        parts = (taken.expr, taken.init, taken.step, self.each)
        position = frozenset().union(*(s.used for s in parts)) & {"index", "reduce_item"}
        return not position and is_componentwise(*parts)

    @cached_property
    def combine_componentwise(self) -> bool:
        """Whether partials merge as vectors do."""
        return is_componentwise(self.taken.combine)

    @cached_property
    def reduction(self) -> Reducing:
        """The reduction by itself, whose results are the partials."""
        return self._reduction(None)

    @cached_property
    def reduction_to_values(self) -> Reducing | None:
        """The reduction whose results are the group's values, unless these depend on arrays."""
        if self.finalize.numbers("x"):
            return None
        names = {f"group_y{n}": f"y{n}" for n in range(self.group_values)}
        # A whole number in a reduction, in other kernels a real one: 1 / count is not 0.
        return self._reduction(names | {"count": "(typeof_y0)count"})

    def _reduction(self, finalize: dict[str, str] | None) -> Reducing:
        taken, preamble = self.taken, self.preamble
        parts = [taken.expr, taken.init, taken.step, taken.combine]
        if finalize is not None:
            parts.append(self.finalize)
        inputs, scalars = (_used(f, parts) for f in ("x", "w"))
        names = _numbered("x", inputs) | _numbered("w", scalars)
        texts = [renamed(part, names | (finalize or {})) for part in parts]
        definition = define_reduction(
            texts[0],
            init=texts[1],
            step=texts[2],
            combine=texts[3],
            finalize=None if finalize is None else texts[4],
            name=f"{self.name}_reduce",
            preamble=preamble,
        )
        return Reducing(definition, inputs, scalars)

    def values_map(self, copies: tuple[int, ...] = ()) -> Mapping:
        """The map of a group's partials to its values; ``copies`` of some are further results."""
        names = {f"group_y{n}": f"y{n}" for n in range(self.group_values)}
        again = "".join(
            f"\ny{self.group_values + n} = y{copied};" for n, copied in enumerate(copies)
        )
        return self._map(self.finalize, "reduce_y", names, again, f"{self.name}_values")

    @cached_property
    def elements_map(self) -> Mapping:
        """The map of every element."""
        return self._map(self.each, "group_y", {}, "", self.name)

    def _map(
        self, part: Snippet, family: str, names: dict[str, str], more: str, name: str
    ) -> Mapping:
        values = tuple(sorted(part.numbers(family)))
        inputs, scalars = (_used(f, [part]) for f in ("x", "w"))
        names = names | {f"{family}{v}": f"x{n}" for n, v in enumerate(values)}
        names |= {f"x{x}": f"x{len(values) + n}" for n, x in enumerate(inputs)}
        names |= _numbered("w", scalars)
        count = "count" in part.used
        if count:
            names["count"] = f"w{len(scalars)}"
        text = renamed(part, names) + more
        definition = define_pointwise(text, name=name, preamble=self.preamble, part=part.rules.part)
        return Mapping(definition, values, inputs, scalars, count)


def _used(family: str, parts: list[Snippet]) -> tuple[int, ...]:
    return tuple(sorted(frozenset().union(*(p.numbers(family) for p in parts))))


def _numbered(family: str, used: tuple[int, ...]) -> dict[str, str]:
    return {f"{family}{old}": f"{family}{new}" for new, old in enumerate(used)}


def define_grouped(
    expr: str,
    *,
    init: str,
    step: str,
    combine: str | None,
    finalize: str | None,
    each: str,
    name: str | None,
    preamble: str,
) -> GroupedDefinition:
    """Checks the snippets of a `Grouped`; see there for the arguments.

    Raises:
        DefinitionError: With the snippet's line and a caret.
    """
    owner = "Grouped"
    helpers = read_preamble(owner, preamble)
    taken = check_accumulation(owner, helpers, expr, init, step, combine)
    if finalize is None:
        finalize = "\n".join(f"group_y{n} = reduce_y{n};" for n in range(taken.partials))
    reads = frozenset(["reduce_y", "x", "w", "count"])
    finalized = check(Rules(owner, "finalize", reads, frozenset(["group_y"])), finalize, helpers)
    for n in sorted(finalized.numbers("reduce_y")):
        if n >= taken.partials:
            raise finalized.error(f"reduce_y{n}", f"init never assigns reduce_y{n}")
    values = require_assigned(finalized, "group_y")
    if values == 0:
        raise finalized.error("", "no value is assigned; expected group_y0 = …;")
    reads = frozenset(["x", "w", "group_y", *POSITION])
    mapped = check(Rules(owner, "each", reads, frozenset(["y"])), each, helpers)
    for n in sorted(mapped.numbers("group_y")):
        if n >= values:
            raise mapped.error(f"group_y{n}", f"a group has {values} values: group_y0, …")
    results = require_assigned(mapped, "y")
    if results == 0:
        raise mapped.error("", "no result is assigned; expected y0 = …;")
    parts = (taken.expr, taken.init, taken.step, taken.combine, finalized, mapped)
    if not any(s.numbers("x") for s in (taken.expr, taken.step)):
        raise taken.expr.error("", "a group needs at least one array: use x0")
    return GroupedDefinition(
        name=kernel_name(name, "grouped", helpers.names),
        taken=taken,
        finalize=finalized,
        each=mapped,
        preamble=helpers.text,
        inputs=count_operands(owner, "x", parts),
        scalars=count_operands(owner, "w", parts),
        group_values=values,
        results=results,
    )
