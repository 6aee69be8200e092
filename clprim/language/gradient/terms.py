"""Terms: what a value of a snippet is computed from, every term there once.

A term is an operator and the terms that it takes, so a snippet becomes a graph without a cycle, in
which equal parts are one part: common subexpressions need not be looked for.

Example:
    >>> terms = Terms("float")
    >>> x = terms.leaf("x0", "float")
    >>> terms.make("*", (x, x), "float") is terms.make("*", (x, x), "float")
    True
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from clprim.errors import DefinitionError
from clprim.language.gradient.ctypes import is_real

#: So many terms a gradient may have: what is longer, no compiler would take.
LIMIT = 20_000


class Term:
    """A value."""

    __slots__ = ("args", "ctype", "first", "hint", "number", "op", "text", "value")

    def __init__(
        self,
        op: str,
        args: tuple[Term, ...],
        ctype: str,
        text: str,
        value: float | int | None,
        number: int,
    ) -> None:
        self.op = op
        self.args = args
        self.ctype = ctype
        self.text = text
        self.value = value
        self.number = number
        self.hint = ""
        product = op in ("*", "/") and self.real
        self.first: Term | None = (args[0].first or args[0]) if product else None

    @property
    def real(self) -> bool:
        """Whether it is a real number, which may have a gradient."""
        return is_real(self.ctype)

    def __repr__(self) -> str:
        inner = self.text if self.value is None else str(self.value)
        return f"<{self.op} {inner}{' '.join(map(repr, self.args))}>"


class Terms:
    """All terms of one derivation."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.written: int | None = None
        self._all: dict[tuple[object, ...], Term] = {}

    def make(self, op: str, args: tuple[Term, ...], ctype: str, text: str = "") -> Term:
        """Returns the term, which is made if it is new."""
        key = (op, ctype, text, *args)
        found = self._all.get(key)
        if found is None:
            found = self._add(key, op, args, ctype, text, None)
        return found

    def known(self, op: str, args: tuple[Term, ...], ctype: str) -> Term | None:
        """Returns the term if there is one."""
        return self._all.get((op, ctype, "", *args))

    def leaf(self, text: str, ctype: str) -> Term:
        """Returns a name."""
        return self.make("name", (), ctype, text)

    def number(self, value: float | int, ctype: str = "", text: str = "") -> Term:
        """Returns a literal; without a type a real number."""
        ctype = ctype or self.real
        value = float(value) if is_real(ctype) else int(value)
        key = ("number", ctype, repr(value))
        found = self._all.get(key)
        if found is None:
            found = self._add(key, "number", (), ctype, text, value)
        return found

    def end_of_snippets(self) -> None:
        """Notes that all terms from here on are a gradient's."""
        if self.written is None:
            self.written = len(self._all)

    def _add(
        self,
        key: tuple[object, ...],
        op: str,
        args: tuple[Term, ...],
        ctype: str,
        text: str,
        value: float | int | None,
    ) -> Term:
        if len(self._all) >= LIMIT:
            raise DefinitionError(
                f"a gradient of more than {LIMIT:,} terms: unrolled loops and functions make it "
                "too long; give gradient= by hand"
            )
        found = Term(op, args, ctype, text, value, len(self._all))
        self._all[key] = found
        return found


def needed(roots: Collection[Term], known: Container[Term]) -> list[Term]:
    """Returns the terms to be computed where some are known: `below`, but not below these."""
    found: set[Term] = set()
    ahead = list(roots)
    while ahead:
        term = ahead.pop()
        if term not in found:
            found.add(term)
            if term not in known:
                ahead.extend(term.args)
    return [term for term in below(roots) if term in found]


def below(roots: Iterable[Term]) -> list[Term]:
    """Returns the terms that these are computed from, and these, each after what it takes."""
    found: list[Term] = []
    seen: set[Term] = set()
    ahead: list[tuple[Term, bool]] = [(root, False) for root in reversed(list(roots))]
    while ahead:
        term, done = ahead.pop()
        if done:
            found.append(term)
        elif term not in seen:
            seen.add(term)
            ahead.append((term, True))
            ahead.extend((a, False) for a in reversed(term.args) if a not in seen)
    return found
