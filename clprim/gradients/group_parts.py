"""The kernels of a `Grouped`'s gradient whose groups have parts, such as channels.

    early     a map of the parts: what the sums along them need
    inner     the sums along a part, of all elements
    sums      those of the group, of these
    groups    gradients of what is one value a group
    late      a map of the parts: what elements need
    elements  a map of the elements
    summed    gradients of what is one value a part

The elements are read twice, whatever is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clprim.gradients.arguments import Standing, is_array
from clprim.gradients.group_kernel import derivation_of
from clprim.gradients.stages import REAL, GradientStage, StageMaker, kernel_of
from clprim.language.gradient.groups import Grouping
from clprim.language.gradient.monomials import exchanged
from clprim.language.gradient.parts_of_groups import split_groups
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term

#: Parts of fewer elements are not worth tables of one value a part.
SMALLEST = 8


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


class PartStages:
    """Makes these kernels, each once."""

    def __init__(
        self,
        maker: StageMaker,
        operators: dict[Any, Any],
        mapped: Callable[..., list[GradientStage]],
    ) -> None:
        self._maker, self._operators, self._mapped = maker, operators, mapped

    def made(
        self,
        grouping: Grouping,
        values: dict[str, Any],
        whole: tuple[int, ...],
        axes: tuple[int, ...],
        inner: tuple[int, ...],
        needed: tuple[Mapping[str, Term], Mapping[str, Term]],
        full: Sequence[str],
        rest: Mapping[str, tuple[int, ...]],
    ) -> list[GradientStage] | None:
        """Returns the kernels of a call, of which all values of groups are at hand."""
        kept = tuple(1 if d in axes else size for d, size in enumerate(whole))
        each = tuple(1 if d in inner else size for d, size in enumerate(whole))
        parts, sums = needed

        def constant(name: str) -> bool:
            value: Any = values.get(name)
            if is_array(value):
                shape = (1,) * (len(whole) - len(value.shape)) + value.shape
                return all(shape[d] == 1 for d in inner)
            return value is not None or name in parts or name in sums

        found = split_groups(
            grouping, [*sums], [f"g{n}" for n in full], [f"g{n}" for n in rest], constant
        )
        if found is None:
            return None
        # What is computed once a group is computed again where one value a part is.
        algebra = Algebra(grouping.terms)
        instead = {algebra.terms.leaf(n, grouping.real): t for n, t in parts.items()}
        early, late, summed = (
            {n: exchanged(algebra, t, instead) for n, t in terms.items()}
            for terms in (found.early, found.late, found.summed)
        )
        real = np.dtype(REAL[grouping.real])
        of_part, of_group = Standing(each, real), Standing(kept, real)
        stages = []
        if early:
            stages += self._mapped(grouping, values, early, each)
            values |= dict.fromkeys(early, of_part)
        stages.append(self.sums(grouping, values, found.inner, inner))
        values |= dict.fromkeys(found.inner, of_part)
        if found.sums:
            stages.append(self.sums(grouping, values, found.sums, axes))
            values |= dict.fromkeys(found.sums, of_group)
        if grouping.groups:
            stages += self._mapped(grouping, values, grouping.groups, kept)
            values |= dict.fromkeys(grouping.groups, of_group)
        if late:
            stages += self._mapped(grouping, values, late, each)
            values |= dict.fromkeys(late, of_part)
        key = (grouping, "parts", *full, None, *rest, inner)
        terms = self._operators.get(key)
        if terms is None:
            terms = derivation_of(grouping, found.elements | summed)
            self._operators[key] = terms
        stages.append(self._maker.stage(terms, values, whole, (), full))
        together: dict[tuple[int, ...], list[str]] = {}
        for name, along in rest.items():
            together.setdefault(tuple(d for d in along if each[d] > 1), []).append(name)
        for along, names in together.items():
            stages.append(self._maker.stage(terms, values, each, along, names))
        return stages

    def sums(
        self,
        grouping: Grouping,
        values: Mapping[str, Any],
        terms: Mapping[str, Term],
        axes: tuple[int, ...],
    ) -> GradientStage:
        """A reduction that adds terms up."""
        derivation = derivation_of(grouping, terms)
        made = (self._operators, (grouping, "sums", len(axes)), derivation, values, list(terms))
        real = np.dtype(REAL[grouping.real])
        operator, operands = kernel_of(*made, summed=True, result_type=real, name="gradient_sums")
        shown = tuple((name, None) for name in terms)
        options = {"axis": axes, "keepdims": True}
        return GradientStage(operator, operands, options, shown)
