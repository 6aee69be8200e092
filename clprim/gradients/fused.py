"""The kernels of a `Grouped`'s gradient.

    ahead     partials, and values of groups, where the sums need them and they are not at hand
    groups    the sums, what is computed once a group, and the map of elements: one `Grouped`
    summed    gradients of what was broadcast

The operator's own reduction is part of the middle one where only its values need the partials.
Groups that have parts, such as channels, are summed part by part; the elements are read twice:

    early     a map of the parts: what the sums along them need
    inner     the sums along a part, of all elements
    sums      those of the group, of these
    groups    gradients of what is one value a group
    late      a map of the parts: what elements need
    elements  a map of the elements
    summed    gradients of what is one value a part
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.gradients.group_kernel import GroupKernel, derivation_of, names_in
from clprim.gradients.kernels import make
from clprim.gradients.request import Standing, is_array
from clprim.gradients.stages import REAL, SUM, GradientStage, StageMaker, kernel_of, own_reduction
from clprim.language.gradient.derive import Derivation
from clprim.language.gradient.groups import Grouping
from clprim.language.gradient.monomials import exchanged
from clprim.language.gradient.parts_of_groups import split_groups
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term
from clprim.language.grouped_definition import GroupedDefinition

Terms = Mapping[str, Term]
#: Parts of fewer elements are not worth tables of one value a part.
SMALLEST = 8
#: What is computed from partials, and these.
_COMPUTED = ("reduce_y", "group_y", "mean0", "variance0")


def inner_axes(
    whole: Sequence[int],
    axes: Sequence[int],
    repeated: Sequence[Sequence[int]],
    strides: Sequence[int] | None,
) -> tuple[int, ...]:
    """Returns the axes of a part: none where groups are better left whole."""
    if strides is None:
        return ()
    found = [d for d in axes if whole[d] > 1 and all(d in along for along in repeated)]
    if not repeated:
        # What lies between elements of a group parts it: a kept axis that is nearer in memory.
        order = sorted((d for d in range(len(whole)) if whole[d] > 1), key=lambda d: -strides[d])
        kept = [n for n, d in enumerate(order) if d not in axes]
        ends = order and order[-1] in axes and kept
        found = [d for d in order[: kept[-1]] if d in axes] if ends else []
    parts = math.prod(whole[d] for d in found)
    return tuple(sorted(found)) if parts >= SMALLEST else ()


@dataclass(frozen=True)
class GroupCall:
    """A call: its derivation, its arguments by name, and along which axes gradients are summed."""

    grouping: Grouping
    values: dict[str, Any]
    whole: tuple[int, ...]
    axes: tuple[int, ...]
    summed: Mapping[str, tuple[int, ...]]

    def one_of(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The shape of what is one value along axes."""
        return tuple(1 if d in axes else size for d, size in enumerate(self.whole))

    def stand(self, names: Iterable[str], axes: Sequence[int]) -> None:
        """Lets names stand for what a kernel will make, one value along axes."""
        dtype = np.dtype(REAL[self.grouping.real])
        self.values.update(dict.fromkeys(names, Standing(self.one_of(axes), dtype)))


class GroupStages:
    """Makes these kernels, each once."""

    def __init__(self, definition: GroupedDefinition) -> None:
        self.definition = definition
        self._maker = StageMaker()
        self._operators: dict[Any, Any] = {}

    def text(self, grouping: Grouping) -> str:
        """The derived strings."""
        sums = {f"sum{n}": term for n, term in enumerate(grouping.sums)}
        parts = []
        for title, terms in (
            ("// added up over a group", sums),
            ("// once a group", grouping.parts | grouping.groups),
            ("// of every element", grouping.elements),
        ):
            if terms:
                derivation = derivation_of(grouping, terms)
                real = f"typeof_{next(iter(terms))}"
                text = derivation.snippet([(n, n) for n in terms], real_name=real)
                parts.append(f"{title}\n{derivation.helpers(terms)}{text}")
        return "\n".join(parts)

    def reads(self, grouping: Grouping, name: str) -> bool:
        """Whether anything depends on a name."""
        roots = [*grouping.elements.values(), *grouping.groups.values()]
        parts, sums = _needed(grouping, roots)
        return name in names_in([*roots, *parts.values(), *sums.values()])

    def strings(self, grouping: Grouping, names: Mapping[str, str]) -> dict[str, Any]:
        """Returns the strings of one `Grouped` that computes all of it; see `GroupedGradient`."""
        needed = _needed(grouping, [*grouping.elements.values(), *grouping.groups.values()])
        kernel = GroupKernel(self.definition, grouping, names, needed, again=False)
        return kernel.texts(grouping.elements, [*grouping.groups], names)

    def made(
        self, call: GroupCall, inner: tuple[int, ...] = (), *, apart: bool = False
    ) -> list[GradientStage]:
        """Returns the kernels of a call."""
        grouping, values = call.grouping, call.values
        stages = self._ahead(call) if grouping.ahead else []
        elements = [n for n in call.summed if f"g{n}" in grouping.elements]
        full = [n for n in elements if not call.summed[n]]
        rest = [n for n in elements if call.summed[n]]
        later = [grouping.elements[f"g{n}"] for n in rest]
        roots = [grouping.elements[f"g{n}"] for n in full] + later
        parts, sums = _needed(grouping, [*roots, *grouping.groups.values()])
        gathered = [_gathered(name, call) for name in grouping.groups]
        if apart and sums:
            stages.append(self._sums(call, sums, call.axes))
            sums = {}
        if inner and sums:
            made = self._by_parts(call, inner, (parts, sums), full, rest)
            if made is not None:
                return [*stages, *made, *gathered]
        own = any(
            name not in values and name.startswith(_COMPUTED)
            for name in names_in([*parts.values(), *grouping.groups.values()])
        )
        grouped = own or bool(sums)
        if grouped:
            handed = [name for name in parts if name in names_in(later)]
            kernel = GroupKernel(self.definition, grouping, values, (parts, sums), own)
            kept = [*handed, *grouping.groups]
            stages.append(kernel.stage(self._operators, full, kept, call.whole, call.axes))
            call.stand(kept, call.axes)
        else:
            if full:
                terms = self._plain(grouping, full, parts)
                stages.append(self._maker.stage(terms, values, call.whole, (), full))
            stages += self._mapped(call, grouping.groups, call.axes)
        terms = self._plain(grouping, rest, {} if grouped else parts)
        places = {name: (call.whole, call.summed[name]) for name in rest}
        return [*stages, *self._maker.summed(terms, values, places), *gathered]

    def _by_parts(
        self,
        call: GroupCall,
        inner: tuple[int, ...],
        needed: tuple[Terms, Terms],
        full: Sequence[str],
        rest: Sequence[str],
    ) -> list[GradientStage] | None:
        """The kernels of groups that have parts, of which all values of groups are at hand."""
        grouping, values, whole = call.grouping, call.values, call.whole
        parts, sums = needed

        def constant(name: str) -> bool:
            value: Any = values.get(name)
            if is_array(value):
                shape = (1,) * (len(whole) - len(value.shape)) + value.shape
                return all(shape[d] == 1 for d in inner)
            return value is not None or name in parts or name in sums

        wanted, later = ([f"g{n}" for n in each] for each in (full, rest))
        found = split_groups(grouping, [*sums], wanted, later, constant)
        if found is None:
            return None
        # What is computed once a group is computed again where one value a part is.
        early, late, summed = (
            _computed_in(grouping, terms, parts)
            for terms in (found.early, found.late, found.summed)
        )
        stages = self._mapped(call, early, inner)
        stages.append(self._sums(call, found.inner, inner))
        if found.sums:
            stages.append(self._sums(call, found.sums, call.axes))
        stages += self._mapped(call, grouping.groups, call.axes)
        stages += self._mapped(call, late, inner)
        key = (grouping, "parts", *full, None, *rest, inner)
        terms = self._operators.get(key)
        if terms is None:
            terms = self._operators[key] = derivation_of(grouping, found.elements | summed)
        each = call.one_of(inner)
        places = {n: (each, tuple(d for d in call.summed[n] if each[d] > 1)) for n in rest}
        stages.append(self._maker.stage(terms, values, whole, (), full))
        return [*stages, *self._maker.summed(terms, values, places)]

    def _plain(self, grouping: Grouping, names: Sequence[str], parts: Terms) -> Derivation:
        """Gradients of elements, in which these parts are computed."""
        key = (grouping, "plain", *names, None, *parts)
        if key not in self._operators:
            terms = {f"g{n}": grouping.elements[f"g{n}"] for n in names}
            made = derivation_of(grouping, _computed_in(grouping, terms, parts))
            self._operators[key] = made
        found: Derivation = self._operators[key]
        return found

    def _ahead(self, call: GroupCall) -> list[GradientStage]:
        """The operator's own reduction, and the map of its partials to what sums need."""
        grouping, reducing = call.grouping, self.definition.reduction
        key = (grouping.real, "ahead")
        if key not in self._operators:
            self._operators[key] = own_reduction(reducing.definition, grouping.real)
        operands = (*(f"x{n}" for n in reducing.inputs), *(f"w{n}" for n in reducing.scalars))
        names = [f"reduce_y{n}" for n in range(reducing.definition.partials)]
        options = {"axis": call.axes, "keepdims": True}
        results = tuple((name, None) for name in names)
        stages = [GradientStage(self._operators[key], operands, options, results)]
        call.stand(names, call.axes)
        every = grouping.parts, grouping.elements, grouping.groups
        used = names_in([*grouping.sums, *(t for terms in every for t in terms.values())])
        wanted = [n for n in grouping.values if n.text in used and n.text not in call.values]
        terms = {leaf.text: grouping.of_partials(leaf) for leaf in wanted}
        return stages + self._mapped(call, terms, call.axes)

    def _mapped(self, call: GroupCall, terms: Terms, axes: Sequence[int]) -> list[GradientStage]:
        """A map of what is one value along axes, which stands for itself then."""
        if not terms:
            return []
        grouping, real = call.grouping, np.dtype(REAL[call.grouping.real])
        given = (self._operators, (grouping, "groups"), derivation_of(grouping, terms), call.values)
        operator, operands = kernel_of(
            *given, list(terms), result_type=real, name="gradient_values"
        )
        options, shown = {"shape": call.one_of(axes)}, tuple((name, None) for name in terms)
        call.stand(terms, axes)
        return [GradientStage(operator, operands, options, shown)]

    def _sums(self, call: GroupCall, terms: Terms, axes: tuple[int, ...]) -> GradientStage:
        """A reduction that adds terms up, which stand for themselves then."""
        grouping, real = call.grouping, np.dtype(REAL[call.grouping.real])
        key = (grouping, "sums", len(axes))
        given = (self._operators, key, derivation_of(grouping, terms), call.values, list(terms))
        operator, operands = kernel_of(*given, summed=True, result_type=real, name="gradient_sums")
        shown = tuple((name, None) for name in terms)
        call.stand(terms, axes)
        return GradientStage(operator, operands, {"axis": axes, "keepdims": True}, shown)


def _needed(grouping: Grouping, roots: Iterable[Term]) -> tuple[Terms, Terms]:
    """The parts and the sums that terms are computed from."""
    names = names_in(roots)
    parts = {name: term for name, term in grouping.parts.items() if name in names}
    names |= names_in(parts.values())
    sums = {f"sum{n}": t for n, t in enumerate(grouping.sums) if f"sum{n}" in names}
    return parts, sums


def _computed_in(grouping: Grouping, terms: Terms, parts: Terms) -> dict[str, Term]:
    """Terms in which parts are computed."""
    algebra = Algebra(grouping.terms)
    instead = {algebra.terms.leaf(n, grouping.real): t for n, t in parts.items()}
    return {n: exchanged(algebra, t, instead) for n, t in terms.items()}


def _gathered(name: str, call: GroupCall) -> GradientStage:
    """The gradient of what is one value a group, in its own shape and dtype."""
    argument, axes = call.values[name[1:]], call.summed[name[1:]]
    dtype = argument.dtype if is_array(argument) else np.dtype(REAL[call.grouping.real])
    shape = argument.shape if is_array(argument) else ()
    taken: dict[str, Any] = {"axis": axes, "keepdims": True} if axes else {}
    return GradientStage(_gathering(dtype, bool(axes)), (name,), taken, ((name, shape),))


@lru_cache(maxsize=64)
def _gathering(dtype: Any, summed: bool) -> Any:
    strings: dict[str, Any] = SUM if summed else {}
    kind = "Reduction" if summed else "Pointwise"
    return make(kind, "y0 = x0;", **strings, result_type=dtype, name="gradient")
