"""Gradients of complex numbers: a run in which pairs are complex, and what is printed of it.

A complex number is differentiated as its two parts: of u + iv, a real and an imaginary gradient are
those of u and v. That is PyTorch's convention, the conjugate of Wirtinger's derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from clprim.language.complex_numbers import is_imaginary
from clprim.language.gradient import ctypes
from clprim.language.gradient.arithmetic import COMPARISONS
from clprim.language.gradient.derive import Derivation, derive, start, terms_of
from clprim.language.gradient.read import Run
from clprim.language.gradient.terms import Term
from clprim.language.gradient.values import ComplexRefusal, Value, Vector
from clprim.language.names import COMPLEX
from clprim.language.node import Node, walk
from clprim.language.preamble import Preamble
from clprim.language.snippet import Snippet
from clprim.language.tree import Member, Name

# Whole powers up to this one are products.
_PRODUCTS = 8
_TAKEN = COMPLEX | frozenset("abs exp log sqrt pow sin cos tan sinh cosh tanh".split())


def parts_of(name: str) -> tuple[str, str]:
    """What the parts of a complex operand are called."""
    return f"{name}.x", f"{name}.y"


class ComplexRun(Run):
    """A run in which vectors of two components are complex numbers."""

    def literal(self, text: str, node: Node) -> Any:
        """See `Expressions.literal`."""
        if is_imaginary(text):
            return self.pair(self.number(0, self.terms.real), super().literal(text[:-1], node))
        return super().literal(text, node)

    def pair(self, re: Term, im: Term) -> Vector:
        """A complex number of its parts."""
        real = self.terms.real
        return Vector(real, (self.cast(re, real), self.cast(im, real)))

    def parts(self, value: Value, node: Node) -> tuple[Term, Term]:
        """The parts of a number, complex or not."""
        if isinstance(value, Vector) and len(value.components) == 2:
            return value.components[0], value.components[1]
        if not isinstance(value, Term):
            self.refuse(node, f"{node} is no complex number")
        return self.cast(value, self.terms.real), self.number(0, self.terms.real)

    def refuse(self, node: Node, problem: str) -> NoReturn:
        """Refuses a part of the snippet for its complex numbers."""
        raise ComplexRefusal(problem, node.span, self.part)

    def converted(self, value: Value, ctype: str, node: Node) -> Value:
        """See `Arithmetic.converted`; a real number has no imaginary part."""
        if isinstance(value, Term) and ctype in ("float2", "double2"):
            return self.pair(*self.parts(value, node))
        return super().converted(value, ctype, node)

    def either_value(self, condition: Term, a: Value | None, b: Value | None) -> Value | None:
        """See `Arithmetic.either_value`."""
        zero = self.number(0, self.terms.real)
        if isinstance(a, Vector) and isinstance(b, Term):
            b = self.pair(b, zero)
        elif isinstance(b, Vector) and isinstance(a, Term):
            a = self.pair(a, zero)
        return super().either_value(condition, a, b)

    def binary(self, op: str, a: Value, b: Value, node: Node) -> Value:
        """See `Arithmetic.binary`."""
        if isinstance(a, Term) and isinstance(b, Term):
            return self.operate(op, a, b, node)
        (p, q), (r, s) = self.parts(a, node), self.parts(b, node)

        def of(op: str, left: Term, right: Term) -> Term:
            return self.operate(op, left, right, node)

        if op in ("==", "!="):
            same = self.algebra.both(of("==", p, r), of("==", q, s))
            return same if op == "==" else self.negation(same)
        if op in COMPARISONS:
            self.refuse(node, "complex numbers have no order")
        if op in ("+", "-"):
            return self.pair(of(op, p, r), of(op, q, s))
        if isinstance(b, Term):
            return self.pair(of(op, p, r), of(op, q, r))
        if op == "*":
            if isinstance(a, Term):
                return self.pair(of("*", p, r), of("*", p, s))
            real = of("-", of("*", p, r), of("*", q, s))
            return self.pair(real, of("+", of("*", p, s), of("*", q, r)))
        if op != "/":
            self.refuse(node, f"complex numbers have no {op!r}")
        square = of("+", of("*", r, r), of("*", s, s))
        real = of("+", of("*", p, r), of("*", q, s))
        imaginary = of("-", of("*", q, r), of("*", p, s))
        return self.pair(of("/", real, square), of("/", imaginary, square))

    def builtin(self, function: str, args: Sequence[Value], node: Node) -> Value:
        """See `FunctionCalls.builtin`."""
        paired = any(isinstance(a, Vector) for a in args)
        if function not in _TAKEN or not (paired or function in COMPLEX):
            if paired:
                self.refuse(node, f"{function} takes no complex numbers")
            return super().builtin(function, args, node)
        if len(args) != (2 if function in ("complex", "pow") else 1):
            self.fail(node, f"{function} takes other arguments than {len(args)}")
        parts = [self.parts(a, node) for a in args]
        if function == "complex":
            return self.pair(parts[0][0], parts[1][0])
        if function == "pow":
            return self._power(args[0], args[1], node)
        (x, y), one = parts[0], self.number(1, self.terms.real)
        if function in ("real", "imag", "conj"):
            if function == "conj":
                return self.pair(x, self._unary("-", y, node)) if paired else args[0]
            return x if function == "real" else y
        if function == "reciprocal":
            return self.binary("/", one, args[0], node)
        return self._function(function, x, y, node)

    def _power(self, a: Value, b: Value, node: Node) -> Value:
        exponent = b.value if isinstance(b, Term) else None
        if exponent is not None and exponent == int(exponent) and 1 <= exponent <= _PRODUCTS:
            found = a
            for _ in range(int(exponent) - 1):
                found = self.binary("*", found, a, node)
            return found
        return self.builtin(
            "exp", [self.binary("*", b, self.builtin("log", [a], node), node)], node
        )

    def _function(self, name: str, x: Term, y: Term, node: Node) -> Value:
        """A function of x + iy, of functions of its parts."""

        def f(function: str, *args: Term) -> Term:
            return self.call_plain(function, args, node)

        def of(op: str, left: Term, right: Term) -> Term:
            return self.operate(op, left, right, node)

        zero, one, half = (self.number(n, self.terms.real) for n in (0, 1, 0.5))
        if name == "abs":
            nothing = self.algebra.both(*(self.algebra.compare("==", p, zero) for p in (x, y)))
            return self.algebra.select(nothing, zero, f("hypot", x, y))
        if name == "arg":
            return f("atan2", y, x)
        if name == "log":
            return self.pair(f("log", f("hypot", x, y)), f("atan2", y, x))
        if name == "exp":
            return self.pair(*(of("*", f("exp", x), f(g, y)) for g in ("cos", "sin")))
        if name == "sqrt":
            size = f("sqrt", of("*", half, of("+", f("hypot", x, y), f("fabs", x))))
            rest = of("/", of("*", half, y), size)
            below = self.algebra.compare("<", y, zero)
            signed = (
                self.algebra.select(below, self._unary("-", p, node), p) for p in (rest, size)
            )
            turned = self.pair(*signed)
            right = self.algebra.compare(">=", x, zero)
            return self.selected(right, self.pair(size, rest), turned, node)
        if name in ("sin", "cos"):
            if name == "sin":
                return self.pair(
                    of("*", f("sin", x), f("cosh", y)), of("*", f("cos", x), f("sinh", y))
                )
            im = of("*", f("sin", x), f("sinh", y))
            return self.pair(of("*", f("cos", x), f("cosh", y)), self._unary("-", im, node))
        if name in ("sinh", "cosh"):
            other = "cosh" if name == "sinh" else "sinh"
            return self.pair(of("*", f(name, x), f("cos", y)), of("*", f(other, x), f("sin", y)))
        # Of tangents of the parts: nothing overflows.
        flat, steep = (f("tanh", x), f("tan", y)) if name == "tanh" else (f("tanh", y), f("tan", x))
        flat2, steep2 = of("*", flat, flat), of("*", steep, steep)
        below = of("+", one, of("*", flat2, steep2))
        long = of("/", of("*", flat, of("+", one, steep2)), below)
        short = of("/", of("*", steep, of("-", one, flat2)), below)
        return self.pair(long, short) if name == "tanh" else self.pair(short, long)


class ComplexDerivation(Derivation):
    """Gradients as terms, of complex operands those of both parts."""

    def _expanded(self, names: Iterable[str]) -> list[str]:
        return [part for n in names for part in ((n,) if n in self.gradients else parts_of(n))]

    def order(self, names: Iterable[str], saves: Iterable[str] = ()) -> list[Term]:
        """See `Derivation.order`."""
        return super().order(self._expanded(names), saves)

    def uses(self, names: Iterable[str], saves: Iterable[str] = ()) -> list[str]:
        """See `Derivation.uses`: operands, not their parts."""
        found = (text.partition(".")[0] for text in super().uses(names, saves))
        return list(dict.fromkeys(found))

    def snippet(
        self,
        results: Sequence[tuple[str, str]],
        names: Callable[[str], str] = str,
        saves: Iterable[str] = (),
        real_name: str = "",
        *,
        exact: bool = False,
    ) -> str:
        """See `Derivation.snippet`; parts are assigned one by one."""
        wanted: list[tuple[str, str]] = []
        for name, gradient in results:
            paired = gradient not in self.gradients
            wanted += (
                zip(parts_of(name), parts_of(gradient), strict=True)
                if paired
                else [(name, gradient)]
            )

        def renamed(name: str) -> str:
            operand, dot, part = name.partition(".")
            return f"{names(operand)}{dot}{part}"

        del real_name  # the type of a result, which may be a pair
        return super().snippet(wanted, renamed, saves, self.real, exact=exact)


def is_pair(ctype: str) -> bool:
    """Whether a type is one of complex numbers."""
    return ctypes.split_vector(ctype)[1] == 2


def flat_of(name: str, ctype: str) -> tuple[str, ...]:
    """An operand, or the parts of a complex one."""
    return parts_of(name) if is_pair(ctype) else (name,)


@lru_cache(maxsize=1024)
def pairs_in(snippet: Snippet) -> frozenset[str]:
    """The operands whose parts a snippet names, as ``x0.x``."""
    found = (n.a for n in walk(snippet.tree) if isinstance(n, Member))
    return frozenset(a.text for a in found if isinstance(a, Name))


def derive_pairs(
    snippet: Snippet,
    real: str,
    types: Mapping[str, str],
    results: Sequence[str],
    grads: Sequence[str],
    wrt: Sequence[str],
) -> ComplexDerivation:
    """Derives gradients of a snippet whose operands, or results, are complex.

    Args:
        snippet: It assigns ``y0``, ….
        real: The type of parts.
        types: Of what it reads, by name.
        results: Of what it assigns.
        grads: What is given as the gradient of each: ``array``, ``number``, ``none``.
        wrt: The operands whose gradients are wanted.
    """
    names = [f"y{n}" for n in range(len(results))]
    known = {**types, **dict(zip(names, results, strict=True))}
    run = start_pairs(snippet.preamble, real, known, [*types.items(), ("index", "long")])
    for name in names:
        run.target(name, known[name])
    terms_of(run, snippet)
    given: list[tuple[Term, Term]] = []
    for name, kind in zip(names, grads, strict=True):
        value = run.cells[name]
        if kind == "none" or value is None:
            continue
        whole = is_pair(known[name]) and kind == "array"
        gradients = parts_of(f"g{name}") if whole else (f"g{name}",)
        values = value.components if isinstance(value, Vector) else (value,)
        pairs = zip(values, gradients, strict=False)  # a number is a gradient of the real part
        given += [(v, run.terms.leaf(g, real)) for v, g in pairs if isinstance(v, Term)]
    parts = [part for n in wrt for part in flat_of(n, types[n])]
    return ComplexDerivation(
        run.terms, derive(run, [snippet], given, parts), {}, known, snippet.preamble
    )


def start_pairs(
    preamble: Preamble, real: str, types: Mapping[str, str], leaves: Iterable[tuple[str, str]]
) -> ComplexRun:
    """Returns a run in which nothing has been run; complex leaves are pairs of those of parts."""
    known = dict(leaves)
    flat = [(part, real if is_pair(t) else t) for n, t in known.items() for part in flat_of(n, t)]
    plain = start(preamble, real, types, flat)
    found: dict[str, Value] = dict(plain.leaves)
    for name, kind in known.items():
        if is_pair(kind):
            found[name] = Vector(real, tuple(plain.leaf(part) for part in parts_of(name)))
    return ComplexRun(
        plain.terms,
        dict(types),
        found,
        plain.functions,
        plain.macros,
        plain.constants,
        plain.preamble_names,
    )
