"""Outer reductions that are sums weighted by exponentials, beside the largest exponent.

What such a step does to its sums, one element after another, is known here, so that a kernel can
find the largest exponent of many elements first and then add up without scaling sums again: Dao
et al., "FlashAttention", 2022, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clprim.errors import DefinitionError
from clprim.language.check_snippet import check
from clprim.language.componentwise import is_componentwise
from clprim.language.definition import ReductionDefinition
from clprim.language.snippet import Rules, Snippet

if TYPE_CHECKING:
    from clprim.language.gradient.terms import Term

_RULES = Rules("Pairs", "outer", frozenset(["x", "w"]), frozenset(["y"]))


@dataclass(frozen=True)
class OnlineSoftmax:
    """What each partial of a reduction keeps."""

    maximum: int
    exponent: Snippet
    factors: tuple[Snippet | None, ...]
    componentwise: bool


def online_softmax(definition: ReductionDefinition, values: int) -> OnlineSoftmax | None:
    """Recognises such a reduction; None for another one."""
    # Derivatives are loaded when first asked for.
    from clprim.language.gradient.derive import Derivation
    from clprim.language.gradient.fold import kept_of

    if definition.positions or definition.draws:
        return None
    ctypes = {f"x{n}": "float" for n in range(definition.inputs)}
    ctypes |= {f"w{n}": "float" for n in range(definition.scalars)}
    try:
        kept, terms, types = kept_of(definition, "float", ctypes)
    except DefinitionError:
        return None
    largest = [n for n, k in enumerate(kept) if k.kind == "max"]
    if len(largest) != 1 or any(
        k.kind != "exponentials" or k.of != (largest[0],)
        for n, k in enumerate(kept)
        if n != largest[0]
    ):
        return None
    exponent = kept[largest[0]].element[0]
    if any(k.element[-1] is not exponent for k in kept):
        return None
    preamble = definition.expr.preamble

    def snippet(term: Term) -> Snippet:
        found = Derivation(terms, {"g": term}, {}, types, preamble)
        return check(_RULES, found.snippet([("y0", "g")], exact=True), preamble)

    try:
        exponents = snippet(exponent)
        factors = tuple(
            None if n == largest[0] or len(k.element) == 1 else snippet(k.element[0])
            for n, k in enumerate(kept)
        )
    except DefinitionError:
        return None
    if any(n >= values for n in exponents.numbers("x")):
        return None
    parts = (exponents, *(f for f in factors if f is not None))
    return OnlineSoftmax(largest[0], exponents, factors, is_componentwise(*parts))
