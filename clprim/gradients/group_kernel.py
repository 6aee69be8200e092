"""The kernel of a `Grouped`'s gradient that sums, computes once a group, and maps the elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clprim.gradients.kernels import make
from clprim.gradients.request import is_array
from clprim.gradients.stages import REAL, GradientStage, covers, lies_otherwise
from clprim.language.gradient.derive import Derivation
from clprim.language.gradient.groups import Grouping
from clprim.language.gradient.monomials import exchanged
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, below
from clprim.language.grouped_definition import GroupedDefinition
from clprim.language.rename import renamed


def names_in(terms: Iterable[Term]) -> set[str]:
    """The names that terms are computed from."""
    return {t.text for t in below(terms) if t.op == "name"}


def derivation_of(grouping: Grouping, terms: Mapping[str, Term]) -> Derivation:
    """Some terms, to be printed."""
    return Derivation(grouping.terms, dict(terms), {}, grouping.types, grouping.preamble)


class GroupKernel:
    """The `Grouped` that sums, computes once a group, and maps."""

    def __init__(
        self,
        definition: GroupedDefinition,
        grouping: Grouping,
        values: Mapping[str, Any],
        needed: tuple[Mapping[str, Term], Mapping[str, Term]],
        again: bool,
    ) -> None:
        self.definition, self.grouping, self.values = definition, grouping, values
        self.again, (parts, self.sums) = again, needed
        once = {**parts, **grouping.groups}
        self.once = {n: self._from_partials(t) for n, t in once.items()}

    def stage(
        self,
        operators: dict[Any, Any],
        full: Sequence[str],
        kept: Sequence[str],
        whole: tuple[int, ...],
        axes: tuple[int, ...],
    ) -> GradientStage:
        """Returns the kernel that makes these gradients, and keeps these values of a group."""
        grouping, values = self.grouping, self.values
        elements = {f"g{n}": grouping.elements[f"g{n}"] for n in full}
        used = names_in([*self.sums.values(), *self.once.values(), *elements.values()])
        if self.again:
            reducing = self.definition.reduction
            used |= {f"x{n}" for n in reducing.inputs} | {f"w{n}" for n in reducing.scalars}
        arrays = [n for n in values if n in used and is_array(values[n])]
        seen = {*arrays}
        if not covers(whole, [values[n].shape for n in arrays]):
            arrays = [n for n in values if is_array(values[n]) and (n in seen or n[0] == "x")]
        if full and lies_otherwise(whole, values[full[0]], [values[n] for n in arrays]):
            arrays = list(dict.fromkeys([full[0], *arrays]))
        scalars = [n for n in values if n in used and not is_array(values[n])]
        if "count" not in names_in(self.sums.values()):
            scalars = [n for n in scalars if n != "count"]
        dtypes = tuple(values[n].dtype for n in full)
        key = (grouping, *arrays, None, *scalars, None, *full, None, *kept, *dtypes)
        if key not in operators:
            written = {n: f"x{k}" for k, n in enumerate(arrays)}
            written |= {n: f"w{k}" for k, n in enumerate(scalars)}
            unread = [n for n in arrays if n not in seen]
            operators[key] = make(
                "Grouped",
                **self.texts(elements, kept, written, unread),
                result_type=dtypes or (np.dtype(np.float32),),
                partial_type=np.dtype(REAL[grouping.real]),
                name=f"{self.definition.name}_gradient",
            )
        results: list[Any] = [(f"g{n}", values[n].shape) for n in full] or [("nothing", None)]
        results += [(name, None) for name in kept]
        options = {"axis": axes, "keep": [n in kept for n in self._order(kept)]}
        return GradientStage(operators[key], (*arrays, *scalars), options, tuple(results))

    def _order(self, kept: Sequence[str]) -> list[str]:
        """Values of a group: those that are kept lead."""
        return [*kept, *(n for n in self.once if n not in kept)]

    def _from_partials(self, term: Term) -> Term:
        """A term of a group with what is not at hand in partials."""
        instead = {
            leaf: t for leaf, t in self.grouping.values.items() if leaf.text not in self.values
        }
        algebra = Algebra(self.grouping.terms)
        while any(t in instead for t in below([term])):
            term = exchanged(algebra, term, instead)
        return term

    def texts(
        self,
        elements: Mapping[str, Term],
        kept: Sequence[str],
        written: Mapping[str, str],
        unread: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Returns its strings, in which names are as they are written."""
        grouping, taken = self.grouping, self.definition.taken
        own_values = len(grouping.taken) if self.again else 0
        own_partials = taken.partials if self.again else 0
        init, step, combine = "", "", ""
        added = dict(self.sums)
        if self.again:
            added = {f"value{n}": t for n, t in enumerate(grouping.taken)} | added
            operands = {n: to for n, to in written.items() if n[0] in "xw"}
            texts = [renamed(s, operands) for s in (taken.init, taken.step, taken.combine)]
            init, step, combine = (f"{text}\n" for text in texts)
        for k in range(len(self.sums)):
            n, v = own_partials + k, own_values + k
            init += f"reduce_y{n} = 0; "
            step += f"reduce_y{n} += y{v};\n"
            combine += f"reduce_y{n} += other_y{n};\n"
        sums = {name: f"reduce_y{own_partials + n}" for n, name in enumerate(self.sums)}
        sums["count"] = "count"  # of its own
        values = {name: f"group_y{n}" for n, name in enumerate(self._order(kept))}
        each = "".join(f"(void){written[name]};\n" for name in unread)
        results = {name: f"y{n}" for n, name in enumerate(elements)}
        everything = {**added, **self.once, **elements}
        return {
            "expr": self._printed(added, {name: f"y{n}" for n, name in enumerate(added)}, written),
            "init": init,
            "step": step,
            "combine": combine,
            "finalize": self._printed(self.once, values, {**written, **sums}) or None,
            "each": each + (self._printed(elements, results, {**written, **values}) or "y0 = 0;"),
            "preamble": derivation_of(grouping, everything).helpers(list(everything)),
        }

    def _printed(
        self, terms: Mapping[str, Term], results: Mapping[str, str], names: Mapping[str, str]
    ) -> str:
        """Terms as statements that assign results."""
        if not results:
            return ""
        derivation = derivation_of(self.grouping, terms)
        assigned = [(to, name) for name, to in results.items()]
        real = f"typeof_{assigned[0][0]}"
        return derivation.snippet(assigned, lambda n: names.get(n, n), real_name=real)
