"""What a variable of a snippet may hold while the snippet is run on terms."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.language.gradient.terms import Term
from clprim.language.node import Span

_NOWHERE = Span(0, 0)


class Refusal(Exception):  # noqa: N818 — an answer, not an error
    """Something in a snippet has no gradient, or none that is known here."""

    def __init__(self, problem: str, span: Span = _NOWHERE, part: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.span = span
        self.part = part


class ComplexRefusal(Refusal):
    """Such an answer to what complex numbers do not have."""


@dataclass(frozen=True)
class Vector:
    """A value of OpenCL's vector types, component by component."""

    ctype: str
    components: tuple[Term, ...]


@dataclass(frozen=True)
class Elements:
    """A local array; None where nothing was assigned."""

    ctype: str
    elements: tuple[Value | None, ...]


@dataclass(frozen=True)
class Reference:
    """A pointer to a variable."""

    cell: str


Value = Term | Vector | Elements | Reference
