"""What a user defined as a `Grouped`: the snippets, and the kernels they make one by one."""

from __future__ import annotations

from collections.abc import Mapping as Strings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from clprim.errors import DefinitionError, quoted
from clprim.language.check_snippet import check
from clprim.language.combine import derive_combine
from clprim.language.complex_numbers import (
    PARTS,
    ComplexOperands,
    complex_operands,
    lowered,
    mentions_complex,
)
from clprim.language.componentwise import is_componentwise
from clprim.language.definition import (
    NO_RESULT,
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
from clprim.language.preamble import Preamble, read_preamble
from clprim.language.rename import renamed
from clprim.language.snippet import Rules, Snippet

_NEAR = ("first", "begin", "step", "finish")


@dataclass(frozen=True)
class Reducing:
    """The reduction that a `Grouped` begins with, as a definition of its own."""

    definition: ReductionDefinition
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]


@dataclass(frozen=True)
class Mapping:
    """One of the maps of a `Grouped`, as a definition of its own."""

    definition: PointwiseDefinition
    values: tuple[int, ...]
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]
    count: bool


@dataclass(frozen=True)
class Near:
    """The strings of another way, for elements that can be read again and results that are kept."""

    first: tuple[Snippet, Snippet] | None
    begin: Snippet
    step: tuple[Snippet, Snippet]
    finish: Snippet
    known: frozenset[int]

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """Every one of them."""
        return (*(self.first or ()), self.begin, *self.step, self.finish)

    @cached_property
    def componentwise(self) -> bool:
        """Whether everything that runs once an element computes on vectors as on scalars."""
        first = () if self.first is None else self.first[:1]
        return is_componentwise(*first, self.begin, self.step[0], self.finish)


@dataclass(frozen=True)
class GroupedDefinition:
    """A checked `Grouped`."""

    name: str
    taken: Accumulation
    finalize: Snippet
    each: Snippet
    preamble: str
    inputs: int
    scalars: int
    group_values: int
    results: int
    near: Near | None = None

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """Every snippet of the definition."""
        taken, near = self.taken, () if self.near is None else self.near.snippets
        return (taken.expr, taken.init, taken.step, taken.combine, self.finalize, self.each, *near)

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
    def reduction(self) -> Reducing:
        """The reduction by itself, whose results are the partials."""
        return self._reduction(None)

    @cached_property
    def reduction_to_values(self) -> Reducing:
        """The reduction whose results are the group's values."""
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

    @cached_property
    def mentions_complex(self) -> bool:
        """Whether its strings compute with complex numbers, whatever its operands are."""
        return any(map(mentions_complex, self.snippets))

    def complex_operands(
        self, given: tuple[str, ...], results: tuple[str, ...] = ()
    ) -> ComplexOperands:
        """Finds values of a group, partials and results where arrays and numbers have some types.

        Each is a complex number where the definition that computes it by itself says so. What has
        no meaning of them is refused here, in the user's strings; ``results`` may have own types.
        """
        if not self.mentions_complex and PARTS.keys().isdisjoint((*given, *results)):
            return ComplexOperands()
        pair = "float2" if {"double", "double2"}.isdisjoint(given) else "double2"

        def kinds(paired: frozenset[int], count: int) -> list[str]:
            return [pair if n in paired else PARTS[pair] for n in range(count)]

        def found(part: Reducing | Mapping, before: Sequence[str] = ()) -> ComplexOperands:
            read = [given[n] for n in part.inputs] + [given[self.inputs + n] for n in part.scalars]
            if isinstance(part, Mapping):
                read = [*(before[n] for n in part.values), *read, *[PARTS[pair]] * part.count]
            return complex_operands(part.definition, tuple(read))

        taken, reduced = self.taken, found(self.reduction)
        partials = kinds(reduced.partials, taken.partials)
        values = found(self.values_map(), partials).results
        of_groups = kinds(values, self.group_values)
        elements = found(self.elements_map, of_groups).results
        names = [f"x{n}" for n in range(self.inputs)] + [f"w{n}" for n in range(self.scalars)]
        types = dict(zip(names, given, strict=True)) | {"count": PARTS[pair]}
        for family, of in (("reduce_y", partials), ("other_y", partials), ("group_y", of_groups)):
            types |= {f"{family}{n}": kind for n, kind in enumerate(of)}
        own = {f"y{n}": kind for n, kind in enumerate(kinds(reduced.values, taken.values))}
        for snippet in (taken.expr, taken.init, taken.step, taken.combine):
            lowered(snippet, tuple((types | own).items()))
        lowered(self.finalize, tuple(types.items()))
        own = {f"y{n}": k for n, k in enumerate(results or kinds(elements, self.results))}
        lowered(self.each, tuple((types | own).items()))
        return ComplexOperands(values, reduced.partials, elements)

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
    near: Strings[str, str] | None = None,
) -> GroupedDefinition:
    """Checks the snippets of a `Grouped`; see there for the arguments."""
    owner = "Grouped"
    helpers = read_preamble(owner, preamble)
    taken = check_accumulation(owner, helpers, expr, init, step, combine)
    if finalize is None:
        finalize = "\n".join(f"group_y{n} = reduce_y{n};" for n in range(taken.partials))
    reads = frozenset(["reduce_y", "x", "w", "count"])
    finalized = check(Rules(owner, "finalize", reads, frozenset(["group_y"])), finalize, helpers)
    finalized.require("reduce_y", range(taken.partials), "init never assigns reduce_y{n}")
    none = "no value is assigned; expected group_y0 = …;"
    values = require_assigned(finalized, "group_y", none)
    reads = frozenset(["x", "w", "group_y", *POSITION])
    mapped = check(Rules(owner, "each", reads, frozenset(["y"])), each, helpers)
    mapped.require("group_y", range(values), f"a group has {values} values: group_y0, …")
    results = require_assigned(mapped, "y", NO_RESULT)
    parts = (taken.expr, taken.init, taken.step, taken.combine, finalized, mapped)
    if not any(s.numbers("x") for s in (taken.expr, taken.step)):
        raise taken.expr.error("", "a group needs at least one array: use x0")
    definition = GroupedDefinition(
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
    if near is None:
        return definition
    way = _near(definition, near, helpers)
    return replace(definition, near=way if way.componentwise else None)


def _near(whole: GroupedDefinition, given: object, helpers: Preamble) -> Near:
    """Checks ``near``, of a definition that is checked without it."""
    if (
        not isinstance(given, Strings)
        or not {"begin", "step", "finish"} <= {*given}
        or not {*given} <= {*_NEAR}
    ):
        shown = sorted(map(str, given)) if isinstance(given, Strings) else quoted(given)
        raise DefinitionError(
            f"Grouped near={shown}: expected a dict of the strings begin, step and finish, and "
            "first where something is to be known ahead"
        )
    owner, partials = "Grouped", whole.taken.partials
    arrays, numbers = whole.reduced | whole.mapped, frozenset(range(whole.scalars))

    def part(name: str, reads: set[str], writes: str) -> Snippet:
        rules = Rules(owner, f"near_{name}", frozenset({"x", "w"} | reads), frozenset([writes]))
        checked = check(rules, given.get(name, ""), helpers)
        for family, known in (("x", arrays), ("w", numbers)):
            checked.require(family, known, f"{family}{{n}} is read by none of expr, step and each")
        checked.require("y", range(whole.results), "each never assigns y{n}")
        return checked

    def merged(before: Snippet, step: Snippet) -> tuple[Snippet, Snippet]:
        text = derive_combine(before, step)
        if text is None:
            raise step.error("", "cannot derive how two partial results merge from this step")
        rules = Rules(
            owner, f"{step.rules.part}_combine", frozenset(["other_y"]), frozenset(["reduce_y"])
        )
        return step, check(rules, text, helpers)

    first, begin = part("first", set(), "reduce_y"), part("begin", {"reduce_y"}, "y")
    step, finish = part("step", {"y"}, "reduce_y"), part("finish", {"group_y"}, "y")
    known = first.assigned_numbers("reduce_y")
    own = known & {*range(partials)}
    first.require("reduce_y", own, "reduce_y{n} is not one that it takes elements into")
    begin.require("reduce_y", known, "near_first does not find reduce_y{n}")
    rest = frozenset(range(partials)) - known
    step.require("reduce_y", rest, "reduce_y{n} is none that near_first leaves to it")
    for n in sorted(rest - step.assigned_numbers("reduce_y")):
        raise step.error("", f"neither near_first nor this step updates reduce_y{n}")
    for n in range(whole.results):
        if n not in begin.assigned_numbers("y"):
            raise begin.error("", f"y{n} is never begun; expected y{n} = …;")
    count = whole.group_values
    finish.require("group_y", range(count), f"a group has {count} values: group_y0, …")
    return Near(
        first=merged(begin, first) if known else None,
        begin=begin,
        step=merged(begin, step),
        finish=finish,
        known=known,
    )
