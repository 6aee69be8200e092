"""The kernel of a `Grouped`'s gradient that sums, computes once a group, and maps the elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clprim.gradients.arguments import is_array
from clprim.gradients.kernels import make
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
        operators: dict[Any, Any],
        grouping: Grouping,
        values: Mapping[str, Any],
        needed: tuple[Mapping[str, Term], Mapping[str, Term]],
        again: bool,
    ) -> None:
        self.definition, self.operators = definition, operators
        self.grouping, self.values, self.again = grouping, values, again
        self.parts, self.sums = needed

    def stage(
        self,
        full: Sequence[str],
        kept: Sequence[str],
        whole: tuple[int, ...],
        axes: tuple[int, ...],
    ) -> GradientStage:
        """Returns the kernel that makes these gradients, and keeps these values of a group."""
        grouping, values = self.grouping, self.values
        elements = {f"g{n}": grouping.elements[f"g{n}"] for n in full}
        once = {n: self._from_partials(t) for n, t in {**self.parts, **grouping.groups}.items()}
        terms = [*self.sums.values(), *once.values(), *elements.values()]
        used = names_in(terms)
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
        operator = self.operators.get(key)
        if operator is None:
            unread = [n for n in arrays if n not in seen]
            operator = self._operator(elements, once, kept, arrays, scalars, unread, dtypes)
            self.operators[key] = operator
        order = [*kept, *(n for n in once if n not in kept)]
        keep = [n in kept for n in order]
        results: list[tuple[str, tuple[int, ...] | None]] = [
            (f"g{n}", values[n].shape) for n in full
        ]
        results = results or [("nothing", None)]
        results += [(name, None) for name in kept]
        options = {"axis": axes, "keep": keep}
        return GradientStage(operator, (*arrays, *scalars), options, tuple(results))

    def _from_partials(self, term: Term) -> Term:
        """A term of a group with what is not at hand in partials."""
        instead = {
            leaf: t for leaf, t in self.grouping.values.items() if leaf.text not in self.values
        }
        algebra = Algebra(self.grouping.terms)
        while any(t in instead for t in below([term])):
            term = exchanged(algebra, term, instead)
        return term

    def _operator(
        self,
        elements: Mapping[str, Term],
        once: Mapping[str, Term],
        kept: Sequence[str],
        arrays: Sequence[str],
        scalars: Sequence[str],
        unread: Sequence[str],
        dtypes: tuple[Any, ...],
    ) -> Any:
        """Defines the kernel."""
        written = {n: f"x{k}" for k, n in enumerate(arrays)}
        written |= {n: f"w{k}" for k, n in enumerate(scalars)}
        return make(
            "Grouped",
            **self._texts(elements, once, kept, written, unread),
            result_type=dtypes or (np.dtype(np.float32),),
            partial_type=np.dtype(REAL[self.grouping.real]),
            name=f"{self.definition.name}_gradient",
        )

    def texts(self) -> dict[str, Any]:
        """Its strings: operands are called as ``values`` says, values of a group lead."""
        grouping = self.grouping
        once = {n: self._from_partials(t) for n, t in {**self.parts, **grouping.groups}.items()}
        return self._texts(grouping.elements, once, [*grouping.groups], self.values, ())

    def _texts(
        self,
        elements: Mapping[str, Term],
        once: Mapping[str, Term],
        kept: Sequence[str],
        written: Mapping[str, str],
        unread: Sequence[str],
    ) -> dict[str, Any]:
        """The strings of the kernel."""
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
        results = [(f"y{n}", name) for n, name in enumerate(added)]
        expr = _printed(grouping, added, results, lambda n: written.get(n, n))
        sums = {name: f"reduce_y{own_partials + n}" for n, name in enumerate(self.sums)}
        order = [*kept, *(n for n in once if n not in kept)]
        values = {name: f"group_y{n}" for n, name in enumerate(order)}
        results = [(values[name], name) for name in order]
        finalize = None
        if results:
            finalize = _printed(
                grouping,
                once,
                results,
                lambda n: (sums | {"count": "count"} | _less(written)).get(n, n),
            )
        results = [(f"y{n}", name) for n, name in enumerate(elements)]
        each = "".join(f"(void){written[name]};\n" for name in unread)
        if elements:
            each += _printed(
                grouping, elements, results, lambda n: ({**written, **values}).get(n, n)
            )
        else:
            each += "y0 = 0;"
        everything = {**added, **once, **elements}
        return {
            "expr": expr,
            "init": init,
            "step": step,
            "combine": combine,
            "finalize": finalize,
            "each": each,
            "preamble": derivation_of(grouping, everything).helpers(list(everything)),
        }


def _less(written: Mapping[str, str]) -> dict[str, str]:
    """Names in ``finalize``, which has a count of its own."""
    return {name: to for name, to in written.items() if name != "count"}


def _printed(
    grouping: Grouping,
    terms: Mapping[str, Term],
    results: Sequence[tuple[str, str]],
    names: Callable[[str], str],
) -> str:
    """Terms as statements."""
    if not results:
        return ""
    derivation = derivation_of(grouping, terms)
    return derivation.snippet(results, names, real_name=f"typeof_{results[0][0]}")
