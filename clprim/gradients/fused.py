"""The kernels of a `Grouped`'s gradient.

    ahead     partials, and values of groups, where the sums need them and they are not at hand
    groups    the sums, what is computed once a group, and the map of elements: one `Grouped`
    summed    gradients of what was broadcast

The operator's own reduction is part of the middle one where only its values need the partials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clprim.gradients.arguments import Standing, is_array
from clprim.gradients.kernels import make
from clprim.gradients.stages import REAL, Stage, StageMaker, covers, lies_otherwise
from clprim.language.gradient.derive import Derivation
from clprim.language.gradient.groups import Grouping
from clprim.language.gradient.monomials import exchanged
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.terms import Term, below
from clprim.language.grouped import GroupedDefinition
from clprim.language.rename import renamed

__all__ = ["GroupStages"]


def _names_in(terms: Iterable[Term]) -> set[str]:
    return {t.text for t in below(terms) if t.op == "name"}


def _derivation(grouping: Grouping, terms: Mapping[str, Term]) -> Derivation:
    """Some terms, to be printed."""
    return Derivation(grouping.terms, dict(terms), {}, grouping.types, grouping.preamble)


class GroupStages:
    """Makes these kernels, each once.

    Args:
        definition: Of the operator.
        what: Its gradient, for messages.
    """

    def __init__(self, definition: GroupedDefinition, what: str) -> None:
        self.definition = definition
        self._what = what
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
                derivation = _derivation(grouping, terms)
                real = f"typeof_{next(iter(terms))}"
                text = derivation.snippet([(n, n) for n in terms], real_name=real)
                parts.append(f"{title}\n{derivation.helpers(terms)}{text}")
        return "\n".join(parts)

    def reads(self, grouping: Grouping, name: str) -> bool:
        """Whether anything depends on a name."""
        roots = [*grouping.elements.values(), *grouping.groups.values()]
        parts, sums = self._needed(grouping, roots)
        used = _names_in([*roots, *parts.values(), *sums.values()])
        return name in used

    @staticmethod
    def _needed(
        grouping: Grouping, roots: Iterable[Term]
    ) -> tuple[dict[str, Term], dict[str, Term]]:
        """The parts and the sums that terms are computed from."""
        names = _names_in(roots)
        parts = {name: term for name, term in grouping.parts.items() if name in names}
        names |= _names_in(parts.values())
        sums = {f"sum{n}": t for n, t in enumerate(grouping.sums) if f"sum{n}" in names}
        return parts, sums

    def made(
        self,
        grouping: Grouping,
        values: dict[str, Any],
        whole: tuple[int, ...],
        axes: tuple[int, ...],
        summed: Mapping[str, tuple[int, ...]],
    ) -> list[Stage]:
        """Returns the kernels of a call.

        Args:
            grouping: The gradients.
            values: Arrays and numbers, by name; what kernels make is added as standing for itself.
            whole: The shape that arrays broadcast to.
            axes: Of a group.
            summed: Along which axes the gradient of each argument is summed.
        """
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
        again = any(
            name not in values and name.startswith(_COMPUTED)
            for name in _names_in([*parts.values(), *groups.values()])
        )
        if sums or again:
            handed = [name for name in parts if name in _names_in(later)]
            kernel = _Kernel(self, grouping, values, (parts, sums), again)
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
            found = self._operators[key] = _derivation(grouping, terms)
        result: Derivation = found
        return result

    def _ahead(
        self,
        grouping: Grouping,
        values: dict[str, Any],
        kept: tuple[int, ...],
        axes: tuple[int, ...],
    ) -> list[Stage]:
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
        stages = [Stage(operator, operands, {"axis": axes, "keepdims": True}, results)]
        standing = Standing(kept, real)
        values |= dict.fromkeys(names, standing)
        used = _names_in(
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
    ) -> list[Stage]:
        """A map of what is one value a group."""
        derivation = _derivation(grouping, terms)
        used = derivation.uses(list(terms))
        arrays = [n for n in values if n in used and is_array(values[n])]
        scalars = [n for n in values if n in used and not is_array(values[n])]
        key = (grouping, "groups", *terms, None, *arrays, None, *scalars)
        operator = self._operators.get(key)
        if operator is None:
            written = {n: f"x{k}" for k, n in enumerate(arrays)}
            written |= {n: f"w{k}" for k, n in enumerate(scalars)}
            results = [(f"y{k}", name) for k, name in enumerate(terms)]
            operator = self._operators[key] = make(
                "Pointwise",
                derivation.snippet(results, lambda n: written.get(n, n)),
                result_type=np.dtype(REAL[grouping.real]),
                preamble=derivation.helpers(list(terms)),
                name="gradient_values",
            )
        shown = tuple((name, None) for name in terms)
        return [Stage(operator, (*arrays, *scalars), {"shape": kept}, shown)]

    def _gathered(self, name: str, values: Mapping[str, Any], axes: tuple[int, ...]) -> Stage:
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
        return Stage(operator, (name,), taken, ((name, shape),))


class _Kernel:
    """The `Grouped` that sums, computes once a group, and maps.

    Args:
        stages: Of the gradient, where operators are kept.
        grouping: The gradients.
        values: Arrays and numbers, by name.
        needed: The parts and the sums that are.
        again: Whether the operator's own partials are, too.
    """

    def __init__(
        self,
        stages: GroupStages,
        grouping: Grouping,
        values: Mapping[str, Any],
        needed: tuple[Mapping[str, Term], Mapping[str, Term]],
        again: bool,
    ) -> None:
        self.operators = stages._operators
        self.definition = stages.definition
        self.grouping, self.values, self.again = grouping, values, again
        self.parts, self.sums = needed

    def stage(
        self,
        full: Sequence[str],
        kept: Sequence[str],
        whole: tuple[int, ...],
        axes: tuple[int, ...],
    ) -> Stage:
        """Returns the kernel that makes these gradients, and keeps these values of a group."""
        grouping, values = self.grouping, self.values
        elements = {f"g{n}": grouping.elements[f"g{n}"] for n in full}
        once = {n: self._from_partials(t) for n, t in {**self.parts, **grouping.groups}.items()}
        terms = [*self.sums.values(), *once.values(), *elements.values()]
        used = _names_in(terms)
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
        if "count" not in _names_in(self.sums.values()):
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
        return Stage(operator, (*arrays, *scalars), options, tuple(results))

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
        grouping, taken = self.grouping, self.definition.taken
        written = {n: f"x{k}" for k, n in enumerate(arrays)}
        written |= {n: f"w{k}" for k, n in enumerate(scalars)}
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
            each += _printed(grouping, elements, results, lambda n: (written | values).get(n, n))
        else:
            each += "y0 = 0;"
        everything = {**added, **once, **elements}
        return make(
            "Grouped",
            expr,
            init=init,
            step=step,
            combine=combine,
            finalize=finalize,
            each=each,
            result_type=dtypes or (np.dtype(np.float32),),
            partial_type=np.dtype(REAL[grouping.real]),
            preamble=_derivation(grouping, everything).helpers(list(everything)),
            name=f"{self.definition.name}_gradient",
        )


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
    derivation = _derivation(grouping, terms)
    return derivation.snippet(results, names, real_name=f"typeof_{results[0][0]}")


#: What is computed from partials, and these.
_COMPUTED = ("reduce_y", "group_y", "mean0", "variance0")
