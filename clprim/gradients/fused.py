"""The kernels of a `Grouped`'s gradient.

    ahead     partials, and values of groups, where the sums need them and they are not at hand
    groups    the sums, what is computed once a group, and the map of elements: one `Grouped`,
              or where groups have parts the kernels of `group_parts`
    summed    gradients of what was broadcast

The operator's own reduction is part of the middle one where only its values need the partials.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clprim.gradients.arguments import Standing, is_array
from clprim.gradients.group_kernel import GroupKernel, derivation_of, names_in
from clprim.gradients.group_parts import PartStages
from clprim.gradients.kernels import make
from clprim.gradients.stages import REAL, GradientStage, StageMaker, kernel_of
from clprim.language.gradient.derive import Derivation
from clprim.language.gradient.groups import Grouping
from clprim.language.gradient.monomials import exchanged
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term
from clprim.language.grouped_definition import GroupedDefinition


class GroupStages:
    """Makes these kernels, each once."""

    def __init__(self, definition: GroupedDefinition, what: str) -> None:
        self.definition = definition
        self._what = what
        self._maker = StageMaker()
        self._operators: dict[Any, Any] = {}
        self._of_parts = PartStages(self._maker, self._operators, self._of_groups)

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
        parts, sums = self._needed(grouping, roots)
        used = names_in([*roots, *parts.values(), *sums.values()])
        return name in used

    def strings(self, grouping: Grouping, names: Mapping[str, str]) -> dict[str, Any]:
        """Returns the strings of one `Grouped` that computes all of it; see `GroupedGradient`."""
        needed = self._needed(grouping, [*grouping.elements.values(), *grouping.groups.values()])
        return GroupKernel(self.definition, {}, grouping, names, needed, again=False).texts()

    @staticmethod
    def _needed(
        grouping: Grouping, roots: Iterable[Term]
    ) -> tuple[dict[str, Term], dict[str, Term]]:
        """The parts and the sums that terms are computed from."""
        names = names_in(roots)
        parts = {name: term for name, term in grouping.parts.items() if name in names}
        names |= names_in(parts.values())
        sums = {f"sum{n}": t for n, t in enumerate(grouping.sums) if f"sum{n}" in names}
        return parts, sums

    def made(
        self,
        grouping: Grouping,
        values: dict[str, Any],
        whole: tuple[int, ...],
        axes: tuple[int, ...],
        summed: Mapping[str, tuple[int, ...]],
        inner: tuple[int, ...] = (),
        *,
        apart: bool = False,
    ) -> list[GradientStage]:
        """Returns the kernels of a call."""
        kept = tuple(1 if d in axes else size for d, size in enumerate(whole))
        stages = self._ahead(grouping, values, kept, axes) if grouping.ahead else []
        standing = Standing(kept, np.dtype(REAL[grouping.real]))
        groups = dict(grouping.groups)
        full = [n for n in summed if f"g{n}" in grouping.elements and not summed[n]]
        rest = [n for n in summed if f"g{n}" in grouping.elements and summed[n]]
        later = [grouping.elements[f"g{n}"] for n in rest]
        parts, sums = self._needed(
            grouping, [*(grouping.elements[f"g{n}"] for n in full), *later, *groups.values()]
        )
        if apart and sums:
            stages.append(self._of_parts.sums(grouping, values, sums, axes))
            values |= dict.fromkeys(sums, standing)
            sums = {}
        if inner and sums:
            repeated = {n: summed[n] for n in rest}
            made = self._of_parts.made(
                grouping, values, whole, axes, inner, (parts, sums), full, repeated
            )
            if made is not None:
                stages += made
                return stages + [self._gathered(n, values, summed[n[1:]]) for n in groups]
        again = any(
            name not in values and name.startswith(_COMPUTED)
            for name in names_in([*parts.values(), *groups.values()])
        )
        if sums or again:
            handed = [name for name in parts if name in names_in(later)]
            kernel = GroupKernel(
                self.definition, self._operators, grouping, values, (parts, sums), again
            )
            stages.append(kernel.stage(full, [*handed, *groups], whole, axes))
            values |= dict.fromkeys([*handed, *groups], standing)
        elif full:
            terms = self._plain(grouping, full, parts)
            stages.append(self._maker.stage(terms, values, whole, (), full))
        if not (sums or again) and groups:
            stages += self._of_groups(grouping, values, groups, kept)
            values |= dict.fromkeys(groups, standing)
        together: dict[tuple[int, ...], list[str]] = {}
        for name in rest:
            together.setdefault(summed[name], []).append(name)
        terms = self._plain(grouping, rest, {} if sums or again else parts)
        for along, names in together.items():
            stages.append(self._maker.stage(terms, values, whole, along, names))
        for name in groups:
            stages.append(self._gathered(name, values, summed[name[1:]]))
        return stages

    def _plain(
        self, grouping: Grouping, names: Sequence[str], parts: Mapping[str, Term]
    ) -> Derivation:
        """Gradients of elements, in which these parts are computed."""
        key = (grouping, "plain", *names, None, *parts)
        found = self._operators.get(key)
        if found is None:
            algebra = Algebra(grouping.terms)
            instead = {algebra.terms.leaf(n, grouping.real): t for n, t in parts.items()}
            terms = {
                f"g{n}": exchanged(algebra, grouping.elements[f"g{n}"], instead) for n in names
            }
            found = self._operators[key] = derivation_of(grouping, terms)
        result: Derivation = found
        return result

    def _ahead(
        self,
        grouping: Grouping,
        values: dict[str, Any],
        kept: tuple[int, ...],
        axes: tuple[int, ...],
    ) -> list[GradientStage]:
        """The operator's own reduction, and the map of its partials to what sums need."""
        reducing = self.definition.reduction
        own = reducing.definition
        real = np.dtype(REAL[grouping.real])
        operator = self._operators.get((grouping.real, "ahead"))
        if operator is None:
            mentions = "".join(f" (void)x{n};" for n in range(own.inputs))
            mentions += "".join(f" (void)w{n};" for n in range(own.scalars))
            operator = make(
                "Reduction",
                own.expr.body + mentions,
                init=own.init.text,
                step=own.step.text,
                combine=own.combine.text,
                result_type=tuple(
                    np.dtype(np.int64) if n in own.positions else real for n in range(own.partials)
                ),
                preamble=own.preamble,
                name="gradient_partials",
            )
            self._operators[grouping.real, "ahead"] = operator
        operands = (*(f"x{n}" for n in reducing.inputs), *(f"w{n}" for n in reducing.scalars))
        names = [f"reduce_y{n}" for n in range(own.partials)]
        results = tuple((name, None) for name in names)
        stages = [GradientStage(operator, operands, {"axis": axes, "keepdims": True}, results)]
        standing = Standing(kept, real)
        values |= dict.fromkeys(names, standing)
        used = names_in(
            [
                *grouping.sums,
                *grouping.parts.values(),
                *grouping.elements.values(),
                *grouping.groups.values(),
            ]
        )
        wanted = [leaf for leaf in grouping.values if leaf.text in used and leaf.text not in values]
        if wanted:
            terms = {leaf.text: grouping.of_partials(leaf) for leaf in wanted}
            stages += self._of_groups(grouping, values, terms, kept)
            values |= dict.fromkeys(terms, standing)
        return stages

    def _of_groups(
        self,
        grouping: Grouping,
        values: Mapping[str, Any],
        terms: Mapping[str, Term],
        kept: tuple[int, ...],
    ) -> list[GradientStage]:
        """A map of what is one value a group."""
        derivation = derivation_of(grouping, terms)
        made = (self._operators, (grouping, "groups"), derivation, values, list(terms))
        real = np.dtype(REAL[grouping.real])
        operator, operands = kernel_of(*made, result_type=real, name="gradient_values")
        shown = tuple((name, None) for name in terms)
        return [GradientStage(operator, operands, {"shape": kept}, shown)]

    def _gathered(
        self, name: str, values: Mapping[str, Any], axes: tuple[int, ...]
    ) -> GradientStage:
        """The gradient of what is one value a group, in its own shape and dtype."""
        argument = values[name[1:]]
        dtype = argument.dtype if is_array(argument) else values[name].dtype
        shape = argument.shape if is_array(argument) else ()
        key = ("gathered", dtype, bool(axes))
        operator = self._operators.get(key)
        if operator is None:
            options = {"result_type": dtype, "name": "gradient"}
            operator = self._operators[key] = (
                make(
                    "Reduction",
                    "y0 = x0;",
                    init="reduce_y0 = 0;",
                    step="reduce_y0 += y0;",
                    **options,
                )
                if axes
                else make("Pointwise", "y0 = x0;", **options)
            )
        taken: dict[str, Any] = {"axis": axes, "keepdims": True} if axes else {}
        return GradientStage(operator, (name,), taken, ((name, shape),))


#: What is computed from partials, and these.
_COMPUTED = ("reduce_y", "group_y", "mean0", "variance0")
