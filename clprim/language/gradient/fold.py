"""The gradient of a reduction: what results hand to their partials, and these to elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clprim.errors import DefinitionError
from clprim.language.definition import ReductionDefinition
from clprim.language.gradient.by_hand import HandWritten
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
        found = self.elements.gradients
        return frozenset(name for name in self.late if found[f"g{name}"].value == 0)


def derive_reduction(
    definition: ReductionDefinition,
    real: str,
    ctypes: Mapping[str, str],
    grads: Sequence[str],
    wrt: Sequence[str],
    *,
    lenient: bool = False,
) -> Folded:
    """Derives gradients of a `Reduction`."""
    return _Fold(definition, real, ctypes, lenient).gradients(grads, wrt)


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
        self, definition: ReductionDefinition, real: str, ctypes: Mapping[str, str], lenient: bool
    ) -> None:
        self.definition = definition
        names = [f"y{n}" for n in range(definition.results)]
        leaves = [*ctypes.items(), ("count", "long"), *((f"g{name}", real) for name in names)]
        leaves += [(f"{f}{n}", real) for n in range(definition.partials) for f in _FAMILIES]
        types = {**ctypes, **dict.fromkeys(names, real)}
        inputs = [f"x{n}" for n in range(definition.inputs)]
        how: Any = {"real": real, "lenient": lenient}
        super().__init__(definition, definition.positions, types, leaves, inputs, **how)
        self.results = list(self.partials)
        if definition.finalize is not None:
            self.results = [t for t in self.ran(definition.finalize, names) if t is not None]

    def gradients(self, grads: Sequence[str], wrt: Sequence[str]) -> Folded:
        """All of it."""
        run, snippets = self.run, self.definition.snippets
        given = [
            (result, self.run.leaf(f"gy{n}"))
            for n, (result, kind) in enumerate(zip(self.results, grads, strict=True))
            if kind != "none"
        ]
        once = {f"x{n}" for n in self.definition.finalized}
        numbers = [self.run.leaf(name) for name in wrt if name[0] == "w" or name in once]
        reverse = Reverse(run.terms, run.reasons)
        try:
            handed = reverse.gradients(given, [*self.partials, *numbers])
            outputs, parts, taken = self.handed([handed[p] for p in self.partials])
            leaves = [self.run.leaf(name) for name in wrt]
            found = reverse.gradients(parts, leaves)
        except Refusal as refusal:
            raise refused(refusal, snippets) from None
        late = []
        for leaf in numbers:
            if handed[leaf].value != 0:
                outputs[f"g{leaf.text}"] = handed[leaf]
                late.append(leaf.text)
        elements = {f"g{leaf.text}": found[leaf] for leaf in leaves}
        values = {f"y{n}": term for n, term in enumerate(self.results)}
        preamble = self.definition.expr.preamble

        def derivation(gradients: dict[str, Term]) -> Derivation:
            return Derivation(run.terms, gradients, values, self.types, preamble)

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
            outputs[f"{family}{n}"] = gradient
            return self.run.leaf(f"{family}{n}")

        # Sums of exponentials depend on their maximum, which takes its share before it hands on.
        order = sorted(range(len(handed)), key=lambda n: self.kept[n].kind in ("max", "min"))
        for n in order:
            kept, g = self.kept[n], handed[n]
            if g.value == 0 or kept.kind in ("count", "position"):
                continue
            own, elements = self.partials[n], kept.element
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
        name = self.names[n]
        return self.definition.step.error(
            name,
            f"what {name} keeps has no gradient that is known: it is no sum, no product, no "
            "greatest or least element, no mean, variance or sum of exponentials beside its "
            'maximum; give gradient="…" by hand',
        )


#: What results hand to elements, and what was counted of these: ties, zeros and their sum, the
#: product of others.
_FAMILIES = ("ay", "by", "cy", "ties", "zeros", "nulls", "rest")
