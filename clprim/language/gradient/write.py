"""Prints terms as a snippet: straight-line code, a local for what is used twice or long.

It is written so that whole vectors can compute it where they could compute the terms: locals are
declared by ``typeof_…``, selections are ``?:``, and conditions stand nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from clprim.language.gradient.arithmetic import COMPARISONS, LOGIC
from clprim.language.gradient.ctypes import is_real
from clprim.language.gradient.terms import Term, below, needed
from clprim.language.lookups import lookup_of
from clprim.language.tree import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Evaluate,
    Expr,
    Index,
    Name,
    Number,
    Ternary,
    Type,
    Unary,
    Variable,
)

#: What is longer, or nested more deeply, gets a local.
_LONGEST, _DEEPEST = 14, 9
_SUFFIX = {"uint": "u", "long": "l", "ulong": "ul"}


def write(
    results: Sequence[tuple[str, Term]],
    *,
    real: str,
    real_name: str,
    names: Callable[[str], str],
    known: Mapping[Term, str] | None = None,
    taken: Iterable[str] = (),
) -> list[str]:
    """Returns statements that compute terms."""
    return _Writer(results, real, real_name, names, known or {}, {*taken}).lines()


@dataclass
class _Writer:
    results: Sequence[tuple[str, Term]]
    real: str
    real_name: str
    names: Callable[[str], str]
    known: Mapping[Term, str]
    taken: set[str]

    def __post_init__(self) -> None:
        self.printed: dict[Term, Expr] = {term: Name(name) for term, name in self.known.items()}
        self.taken |= {name for name, _ in self.results}
        self.locals: dict[Term, str] = {}
        self.numbers: dict[str, int] = {}

    def lines(self) -> list[str]:
        """All statements."""
        roots = [term for _, term in self.results]
        order = needed(roots, self.printed)
        self.taken.update(self.names(t.text) for t in order if t.op == "name")
        uses: dict[Term, int] = {}
        for term in order:
            for a in term.args if term not in self.printed else ():
                uses[a] = uses.get(a, 0) + 1
        for root in roots:
            uses[root] = uses.get(root, 0) + 1
        alone = {root for root in roots if uses[root] == 1}
        found: list[str] = []
        size: dict[Term, int] = {}
        depth: dict[Term, int] = {}
        trapping: set[Term] = set()
        for term in order:
            if term in self.printed or not term.args:
                continue
            # What may trap must not be computed where it was not.
            if _may_trap(term) or any(a in trapping for a in term.args):
                trapping.add(term)
            inner = [a for a in term.args if a not in self.locals]
            size[term] = 1 + sum(size.get(a, 0) for a in inner)
            depth[term] = 1 + max((depth.get(a, 0) for a in inner), default=0)
            plain = term.op in COMPARISONS or term.op in LOGIC or term in trapping
            plain = plain or term in alone
            if plain or not self._worth(term, uses[term], size[term], depth[term]):
                continue
            expression = self.tree(term)
            name = self._new_name(term)
            kind = self.real_name if term.ctype == self.real else term.ctype
            found.append(str(Declare(Type(kind), (Variable(name, (), expression),))))
            self.locals[term] = name
            self.printed[term] = Name(name)
        for name, term in self.results:
            found.append(str(Evaluate(Assign(Name(name), "=", self.tree(term)))))
        return found

    def _worth(self, term: Term, uses: int, size: int, depth: int) -> bool:
        if uses > 1:
            return not (term.op in ("neg", "cast") and not term.args[0].args)
        return size > _LONGEST or depth > _DEEPEST

    def _new_name(self, term: Term) -> str:
        name = term.hint or "t0"
        n = self.numbers.get(term.hint, 0)  # all up to here are taken
        while name in self.taken:
            n += 1
            name = f"{term.hint}_{n}" if term.hint else f"t{n}"
        self.numbers[term.hint] = n
        self.taken.add(name)
        return name

    def tree(self, term: Term) -> Expr:
        """A term as a tree of C."""
        found = self.printed.get(term)
        return self._tree(term) if found is None else found

    def _tree(self, term: Term) -> Expr:
        args = term.args
        match term.op:
            case "name":
                return Name(self.names(term.text))
            case "number":
                return self._number(term, plain=True)
            case "neg":
                return Unary("-", self._operand(args[0]))
            case "!" | "~":
                return Unary(term.op, self.tree(args[0]))
            case "cast":
                kind = self.real_name if term.ctype == self.real else term.ctype
                return Cast(Type(kind), self._operand(args[0]))
            case "?:":
                return self._selection(term)
            case "index":
                return Index(self.tree(args[0]), self.tree(args[1]))
            case "call" if (lookup := lookup_of(term.text)) is not None:
                array = self.names(args[0].text)
                return Call(f"{lookup[0]}_{array}", tuple(self.tree(a) for a in args[1:]))
            case "call":
                plain = any(t.real and t.value is None for t in args)
                return Call(term.text, tuple(self._operand(a, plain) for a in args))
            case op:
                a, b = args
                plain = any(t.real and t.value is None for t in args)
                return Binary(op, self._operand(a, plain), self._operand(b, plain))

    def _operand(self, term: Term, plain: bool = False) -> Expr:
        return self._number(term, plain=plain) if term.op == "number" else self.tree(term)

    def _selection(self, term: Term) -> Expr:
        c, a, b = term.args
        first, second = self.tree(a), self.tree(b)
        if is_real(term.ctype) and not (self._is_vector(a) or self._is_vector(b)):
            first = Cast(Type(self.real_name), first)
        return Ternary(self.tree(c), first, second)

    def _is_vector(self, term: Term) -> bool:
        """Whether a term has a value a component, if the elements are computed as vectors."""
        return any(
            t in self.locals or (t.op == "name" and t.text[:1] in "xyrg") for t in below([term])
        )

    def _number(self, term: Term, *, plain: bool) -> Expr:
        """A literal; a real one may be plain (``2``) beside a real operand."""
        value = term.value
        assert value is not None
        if not term.real:
            digits = str(abs(int(value))) + _SUFFIX.get(term.ctype, "")
            return Unary("-", Number(digits)) if value < 0 else Number(digits)
        if math.isnan(value):
            return Name("NAN")
        negative = math.copysign(1, value) < 0
        found: Expr
        if math.isinf(value):
            found = Name("INFINITY")
        elif term.text.startswith("M_"):
            text = term.text.removesuffix("_F")
            found = Name(f"{text}_F" if self.real == "float" else text)
        elif term.text and term.text[-1] not in "hH":
            found = Number(term.text)
        elif plain and value == int(value) and abs(value) < 2**24:
            found = Number(str(abs(int(value))))
        else:
            found = Number(repr(abs(value)))
        return Unary("-", found) if negative else found


def _may_trap(term: Term) -> bool:
    whole = term.op in ("/", "%") and not term.real
    return term.op == "index" or (whole and not term.args[1].value)
