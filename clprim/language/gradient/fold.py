"""The gradient of a reduction: what results hand to their partials, and these to elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clprim.errors import DefinitionError
from clprim.language.complex_numbers import ComplexOperands, mentions_complex
from clprim.language.definition import ReductionDefinition
from clprim.language.gradient.by_hand import HandWritten
from clprim.language.gradient.complex_run import ComplexDerivation, flat_of, is_pair
from clprim.language.gradient.derive import Derivation, refused
from clprim.language.gradient.reverse import Reverse
from clprim.language.gradient.simplify import Algebra
from clprim.language.gradient.steps import Accumulated
from clprim.language.gradient.terms import Term, Terms, below
from clprim.language.gradient.trials import Kept
from clprim.language.gradient.values import Refusal

#: What is handed to every element as it is, if it takes no more operators than this.
_SHORT = 3


@dataclass(eq=False)
class Folded:
    """Gradients of a reduction."""

    kept: list[Kept]
    outputs: Derivation
    elements: Derivation | HandWritten
    taken: Derivation
    late: tuple[str, ...] = field(default=())

    @property
    def late_alone(self) -> frozenset[str]:
        """Those of them that no element depends on."""
        if isinstance(self.elements, HandWritten):
            return frozenset()
        found, types = self.elements.gradients, self.elements.types
        return frozenset(
            name
            for name in self.late
            if all(found[f"g{part}"].value == 0 for part in flat_of(name, types[name]))
        )


def derive_reduction(
    definition: ReductionDefinition,
    real: str,
    ctypes: Mapping[str, str],
    grads: Sequence[str],
    wrt: Sequence[str],
    *,
    lenient: bool = False,
    pairs: ComplexOperands | None = None,
) -> Folded:
    """Derives gradients of a `Reduction`."""
    return _Fold(definition, real, ctypes, lenient, pairs).gradients(grads, wrt)


def kept_of(
    definition: ReductionDefinition, real: str, ctypes: Mapping[str, str]
) -> tuple[list[Kept], Terms, Mapping[str, str]]:
    """Returns what partials keep, where terms of it are, and the types of what these name."""
    fold = _Fold(definition, real, ctypes, False)
    return fold.kept, fold.run.terms, fold.types


def shares(
    algebra: Algebra, kept: Kept, partials: Sequence[Term], own: Term, shared: Term
) -> list[tuple[Term, Term]]:
    """What a partial hands to the terms that it takes of an element."""
    if kept.kind == "sum":
        return [(kept.element[0], shared)]
    if kept.kind == "deviations":
        a, b = kept.element
        around = [partials[k] for k in kept.of]
        return [
            (a, algebra.mul(shared, algebra.sub(b, around[1]))),
            (b, algebra.mul(shared, algebra.sub(a, around[0]))),
        ]
    difference = algebra.sub(kept.element[-1], partials[kept.of[0]])
    share = algebra.mul(shared, algebra.terms.make("call", (difference,), own.ctype, "exp"))
    if len(kept.element) == 1:
        return [(kept.element[0], share)]
    weight, exponent = kept.element
    return [(weight, share), (exponent, algebra.mul(share, weight))]


class _Fold(Accumulated):
    def __init__(
        self,
        definition: ReductionDefinition,
        real: str,
        ctypes: Mapping[str, str],
        lenient: bool,
        pairs: ComplexOperands | None = None,
    ) -> None:
        self.definition = definition
        pairs = pairs or ComplexOperands()
        names = [f"y{n}" for n in range(definition.results)]
        kinds = {f"y{n}": f"{real}2" if n in pairs.results else real for n in range(len(names))}
        values = {f"y{n}": f"{real}2" for n in pairs.values}
        types = {**ctypes, **dict.fromkeys(names, real), **values}
        inputs = [f"x{n}" for n in range(definition.inputs)]
        self.pairs = any(map(is_pair, (*types.values(), *kinds.values()))) or bool(pairs.partials)
        self.pairs |= any(map(mentions_complex, definition.snippets))
        leaves = [*ctypes.items(), ("count", "long"), *((f"g{n}", t) for n, t in kinds.items())]
        parts = ("", "x", "y") if self.pairs else ("",)
        numbers = [f"{n}{part}" for n in range(definition.partials) for part in parts]
        leaves += [(f"{f}{n}", real) for n in numbers for f in _FAMILIES]
        how: Any = {"real": real, "lenient": lenient}
        if self.pairs:
            how["pairs"] = [f"reduce_y{n}" for n in pairs.partials]
        super().__init__(definition, definition.positions, types, leaves, inputs, **how)
        self.results = list(self.partials)
        self.types = {**self.types, **kinds}
        self.run.types |= kinds
        if definition.finalize is not None:
            self.results = [t for t in self.ran(definition.finalize, names) if t is not None]

    def gradients(self, grads: Sequence[str], wrt: Sequence[str]) -> Folded:
        """All of it."""
        run, snippets = self.run, self.definition.snippets
        results, given = iter(self.results), list[tuple[Term, Term]]()
        for n, kind in enumerate(grads):
            for m, part in enumerate(flat_of(f"gy{n}", self.types[f"y{n}"])):
                result = next(results)
                if kind == "array" or (kind == "number" and not m):
                    leaf = f"gy{n}" if kind == "number" else part
                    given.append((result, run.terms.leaf(leaf, run.terms.real)))
        once = {f"x{n}" for n in self.definition.finalized}
        apart = [name for name in wrt if name[0] == "w" or name in once]
        numbers = [run.leaf(name) for name in self.flat(apart)]
        reverse = Reverse(run.terms, run.reasons)
        try:
            handed = reverse.gradients(given, [*self.partials, *numbers])
            outputs, parts, taken = self.handed([handed[p] for p in self.partials])
            leaves = [run.leaf(name) for name in self.flat(wrt)]
            found = reverse.gradients(parts, leaves)
        except Refusal as refusal:
            raise refused(refusal, snippets) from None
        late = []
        for name in apart:
            own = [run.leaf(part) for part in self.flat([name])]
            if any(handed[leaf].value != 0 for leaf in own):
                outputs |= {f"g{leaf.text}": handed[leaf] for leaf in own}
                late.append(name)
        elements = {f"g{leaf.text}": found[leaf] for leaf in leaves}
        values = {} if self.pairs else {f"y{n}": term for n, term in enumerate(self.results)}
        preamble = self.definition.expr.preamble
        derived: type[Derivation] = ComplexDerivation if self.pairs else Derivation

        def derivation(gradients: dict[str, Term]) -> Derivation:
            return derived(run.terms, gradients, values, self.types, preamble)

        return Folded(
            self.kept, derivation(outputs), derivation(elements), derivation(taken), tuple(late)
        )

    def handed(
        self, handed: list[Term]
    ) -> tuple[dict[str, Term], list[tuple[Term, Term]], dict[str, Term]]:
        """What results hand to partials as ``ayN``, and these to what they took of an element."""
        algebra, make = self.algebra, self.run.terms.make
        outputs: dict[str, Term] = {}
        parts: list[tuple[Term, Term]] = []
        taken: dict[str, Term] = {}

        def passed(n: int, gradient: Term, family: str = "ay") -> Term:
            if self.is_short(gradient):
                return gradient
            name = f"{family}{self.labels[n][len('reduce_y') :].replace('.', '')}"
            outputs[name] = gradient
            return self.run.leaf(name)

        # Sums of exponentials depend on their maximum, which takes its share before it hands on.
        order = sorted(range(len(handed)), key=lambda n: self.kept[n].kind in ("max", "min"))
        for n in order:
            kept, g = self.kept[n], handed[n]
            if g.value == 0 or kept.kind in ("count", "position"):
                continue
            own, elements = self.partials[n], kept.element
            if kept.kind not in ("sum", "mean") and len(self.labels) > len(self.names):
                raise self.not_understood(n)
            match kept.kind:
                case "sum" | "deviations":
                    parts += shares(algebra, kept, self.partials, own, passed(n, g))
                case "mean":
                    parts.append((elements[0], passed(n, algebra.div(g, self.run.leaf("count")))))
                case "product":
                    taken[f"e{n}"] = elements[0]
                    parts.append((elements[0], self.of_product(n, elements[0], g, outputs)))
                case "max" | "min":
                    taken[f"e{n}"] = elements[0]
                    outputs[f"ay{n}"] = algebra.div(g, self.run.leaf(f"ties{n}"))
                    won = make("==", (elements[0], own), "int")
                    share = algebra.select(won, self.run.leaf(f"ay{n}"), algebra.zero)
                    parts.append((elements[0], share))
                case "winner":
                    place = self.position_beside(n)
                    won = make("==", (place[0], place[1]), "int")
                    parts.append((elements[0], algebra.select(won, passed(n, g), algebra.zero)))
                case "exponentials":
                    top = kept.of[0]
                    parts += shares(algebra, kept, self.partials, own, passed(n, g))
                    whole = g.args[0] if g.op == "/" and g.args[1] is own else None
                    moved = algebra.mul(g, own) if whole is None else whole
                    same = moved is handed[top]
                    handed[top] = algebra.zero if same else algebra.sub(handed[top], moved)
                case _:
                    raise self.not_understood(n)
        return outputs, parts, taken

    def of_product(self, n: int, element: Term, g: Term, outputs: dict[str, Term]) -> Term:
        """What a product hands to an element, of which as many as three cases differ by zeros."""
        algebra, make = self.algebra, self.run.terms.make
        families = ("rest", "zeros", "nulls", "ay", "by", "cy")
        rest, zeros, nulls, a, b, c = (self.run.leaf(f"{name}{n}") for name in families)
        product, zero = algebra.mul(g, rest), algebra.zero
        none, alone, two = (make("==", (zeros, algebra.number(k)), "int") for k in (0.0, 1.0, 2.0))
        # The sum of the elements that are 0 stands for one that is alone, or for the other of two:
        # it is 0, but its slope is that of the product.
        one = algebra.select(alone, algebra.mul(product, nulls), zero)
        outputs[f"ay{n}"] = algebra.select(none, product, one)
        outputs[f"by{n}"] = algebra.select(alone, product, zero)
        outputs[f"cy{n}"] = algebra.select(two, product, zero)
        is_zero = make("==", (element, zero), "int")
        other = algebra.add(b, algebra.mul(c, algebra.sub(nulls, element)))
        return algebra.select(is_zero, other, algebra.div(a, element))

    def is_short(self, term: Term) -> bool:
        """Whether an element may compute it for itself."""
        order = [t for t in below([term]) if t.args]
        plain = all(t.op in ("+", "-", "*", "/", "neg") for t in order)
        names = {t.text for t in below([term]) if t.op == "name"}
        beside = any(name.startswith(("reduce_y", *_FAMILIES)) for name in names)
        return plain and len(order) <= _SHORT and not beside

    def position_beside(self, n: int) -> tuple[Term, Term]:
        """The position that was kept where the partial was taken, and that of the element."""
        for m, kept in enumerate(self.kept):
            if kept.kind == "position" and kept.of == self.kept[n].of:
                return kept.element[0], self.partials[m]
        raise self.not_understood(n)

    def not_understood(self, n: int) -> DefinitionError:
        """Says that nothing is known of what a step keeps."""
        name = self.labels[n].partition(".")[0]
        return self.definition.step.error(
            name,
            f"what {name} keeps has no gradient that is known: it is no sum, no product, no "
            "greatest or least element, no mean, variance or sum of exponentials beside its "
            'maximum; give gradient="…" by hand',
        )


#: What results hand to elements, and what was counted of these: ties, zeros and their sum, the
#: product of others.
_FAMILIES = ("ay", "by", "cy", "ties", "zeros", "nulls", "rest")
