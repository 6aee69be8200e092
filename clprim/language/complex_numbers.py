"""Complex numbers in snippets: what has a complex operand is printed as arithmetic of pairs.

A complex number is a ``float2``, or a ``double2`` where anything is a double: ``x`` is its real
part and ``y`` its imaginary one. Types follow the tree. Sums and differences are those of vectors,
a real factor or divisor multiplies or divides both parts, and all else is a function of
``_complex.cl.jinja``. Statements that hold no complex number stay as the user wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from clprim.errors import ComplexError
from clprim.language import names
from clprim.language.definition import PointwiseDefinition, ReductionDefinition
from clprim.language.gradient import ctypes
from clprim.language.guards import DIVISIONS, Reader, Types
from clprim.language.node import Node, Span, children, fold, walk, with_children
from clprim.language.operands import operand_number, without_prefix
from clprim.language.snippet import Snippet
from clprim.language.tokens import caret_message
from clprim.language.tree import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Declare,
    DoWhile,
    Expr,
    For,
    If,
    Member,
    Name,
    Number,
    Opaque,
    Postfix,
    Switch,
    Ternary,
    Type,
    Unary,
    Variable,
    Vector,
    While,
)
from clprim.language.tree_expressions import Expression

#: The types of complex numbers, with those of their parts.
PARTS = {"float2": "float", "double2": "double"}
#: Functions of complex numbers with real results, and with complex ones.
_REAL_RESULTS = frozenset(["real", "imag", "abs", "arg"])
_FUNCTIONS = _REAL_RESULTS | frozenset(
    "conj exp log sqrt pow sin cos tan sinh cosh tanh reciprocal complex".split()
)
#: What those functions are made of, beside C's own.
_NEEDED = {
    "reciprocal": ("divide",),
    "sin": ("sinh",),
    "cos": ("cosh",),
    "tan": ("tanh",),
    "pow": ("multiply", "divide", "exp", "log"),
}
_ORDER = frozenset("< > <= >=".split())
_EQUAL = frozenset(["==", "!="])
_LOGIC = frozenset(["&&", "||", "!", "?:"])
_OPERATORS = frozenset([*"+-*/", *_EQUAL])
# A node as it is printed, and its type.
_Typed = tuple[Any, str | None]


def is_imaginary(number: str) -> bool:
    """Whether a literal is one of an imaginary number, as ``2i``."""
    return number.endswith("i")


@lru_cache(maxsize=1024)
def mentions_complex(snippet: Snippet) -> bool:
    """Whether a snippet computes with complex numbers, or may, whatever its operands are."""
    words = (snippet.words & names.COMPLEX) - snippet.preamble.names
    numbers = [token.text for token in snippet.tokens if token.kind == "number"]
    return bool(words) or any(map(is_imaginary, numbers))


def is_complex(snippet: Snippet, types: Types) -> bool:
    """Whether anything in a snippet whose operands have some types is, or may be, complex."""
    if any(kind in PARTS for _, kind in types) or mentions_complex(snippet):
        return True
    return "abs" in snippet.words and any(ctypes.is_real(kind) for _, kind in types)


@lru_cache(maxsize=1024)
def lowered(
    snippet: Snippet, types: Types, *, vectors: bool = False
) -> tuple[str, tuple[str, ...]]:
    """Returns what is printed of a snippet, and what that needs, as `KernelCode.guards`.

    For ``vectors`` too, which have all real parts first, it is of ``cp_pair`` and ``cp_part``.
    """
    printer = (_VectorPrinter if vectors else _Printer)(snippet, dict(types))
    tree, _ = fold(snippet.tree, printer.printed)
    edits = list(_edits(snippet, tree))
    return snippet.edited(edits), tuple(sorted(printer.guards))


@dataclass(frozen=True)
class ComplexOperands:
    """Which values, partials and results of a definition complex numbers go into, by number."""

    values: frozenset[int] = frozenset()
    partials: frozenset[int] = frozenset()
    results: frozenset[int] = frozenset()


@lru_cache(maxsize=1024)
def complex_operands(
    definition: PointwiseDefinition | ReductionDefinition, given: tuple[str, ...]
) -> ComplexOperands:
    """Finds them where arrays, and then numbers, have some types."""
    if PARTS.keys().isdisjoint(given) and not any(map(mentions_complex, definition.snippets)):
        return ComplexOperands()
    names_ = [f"x{n}" for n in range(definition.inputs)]
    names_ += [f"w{n}" for n in range(definition.scalars)]
    read = dict(zip(names_, given, strict=True))
    known = _given_complex(definition.expr, read, "y")
    values = _numbers(known, "y")
    if not isinstance(definition, ReductionDefinition):
        return ComplexOperands(results=values)
    family = definition.family
    before: dict[str, str] = {}
    while before != known:
        before = known
        for snippet in (definition.init, definition.step, definition.combine):
            known = _given_complex(snippet, known, family)
        partials = _numbers(known, family)
        known = known | {f"other_y{n}": known[f"{family}{n}"] for n in partials}
    if definition.finalize is None:
        return ComplexOperands(values, partials, partials)
    read |= {name: kind for name, kind in known.items() if name.startswith(family)}
    results = _numbers(_given_complex(definition.finalize, read, "y"), "y")
    return ComplexOperands(values, partials, results)


def _given_complex(snippet: Snippet, types: Mapping[str, str], family: str) -> dict[str, str]:
    """The types of operands, among them those of a family that complex numbers go into."""
    known = dict(types)
    own = {n for n in snippet.used | snippet.assigned if operand_number(n, family) is not None}
    while True:
        reader = _ComplexReader(snippet, known)
        given = {name for name, kind in reader.given_to(own) if kind in PARTS}
        found = {name for name in given if known.get(name) not in PARTS}
        if not found:
            return known
        known |= dict.fromkeys(found, reader.pair)


def _numbers(types: Mapping[str, str], family: str) -> frozenset[int]:
    found = {operand_number(name, family) for name, kind in types.items() if kind in PARTS}
    return frozenset(n for n in found if n is not None)


def _edits(snippet: Snippet, tree: Node) -> Iterable[tuple[int, int, str]]:
    """The outermost expressions that are printed otherwise, on as many lines as before."""
    ahead: list[tuple[Node, Node]] = [(snippet.tree, tree)]
    while ahead:
        old, new = ahead.pop()
        if old is new:
            continue
        if isinstance(old, Expression) and not isinstance(old, Opaque):
            lines = snippet.text.count("\n", *old.span)
            yield old.span.start, old.span.end, str(new) + "\n" * lines
        else:
            ahead.extend(zip(children(old), children(new), strict=True))


class _ComplexReader(Reader):
    """The types of a snippet's expressions where some are complex."""

    def __init__(self, snippet: Snippet, types: dict[str, str]) -> None:
        wide = any(kind in ("double", "double2") for kind in types.values())
        self.pair = "double2" if wide else "float2"
        super().__init__(snippet, types)

    @cached_property
    def declared_in(self) -> dict[str, list[tuple[Span, Span, str | None]]]:
        """Of names with several types each declaration, the statements around it, and its type."""
        found: dict[str, list[tuple[Span, Span, str | None]]] = {}
        scopes = [
            n.span for n in walk(self.snippet.tree) if isinstance(n, Block | For | If | While)
        ]
        for node in walk(self.snippet.tree):
            if isinstance(node, Declare):
                kind, at = self.of_words(node.type.text), node.span
                around = [s for s in scopes if s.start <= at.start < s.end]
                for v in node.variables:
                    if isinstance(v, Variable) and self.locals[v.name] is None:
                        own = None if v.pointer else kind
                        scope = max(around, default=Span(0, len(self.snippet.text)))
                        found.setdefault(v.name, []).append((at, scope, own))
        return found

    def nearest(self, node: Name) -> str | None:
        """The type of a variable of such a name: the last one before it that is known there."""
        start = node.span.start
        known = [d for d in self.declared_in[node.text] if d[0].start <= start < d[1].end]
        return max(known, key=lambda d: d[0])[2] if known else None

    def given_to(self, own: set[str]) -> list[tuple[str, str | None]]:
        """What results, and what has the type of one, are given."""
        found: list[tuple[str, str | None]] = []
        for node in walk(self.snippet.tree):
            match node:
                case Assign(Name(text), _, value) if text in own:
                    found.append((text, self.kind(value)))
                case Cast(Type(text), value) if (name := _operand_of(text)) in own:
                    found.append((name, self.kind(value)))
                case Declare(Type(text), variables) if (name := _operand_of(text)) in own:
                    given = [v.value for v in variables if isinstance(v, Variable)]
                    found += [(name, self.kind(value)) for value in given if value is not None]
        return found

    def kind_of(self, node: Node, given: Sequence[str | None]) -> str | None:
        """See `Reader.kind_of`."""
        match node:
            case Number(text) if is_imaginary(text):
                return self.pair
            case Name(text) if text in self.locals and self.locals[text] is None:
                return self.nearest(node)
            case Binary(op) if op in _EQUAL and any(kind in PARTS for kind in given):
                return "int"
            case Call(function) if self.is_own(function):
                return self.result(function, given)
        return super().kind_of(node, given)

    def is_own(self, function: str) -> bool:
        """Whether a function is one of complex numbers."""
        return function in _FUNCTIONS and function not in self.snippet.preamble.names

    def result(self, function: str, given: Sequence[str | None]) -> str | None:
        """The type of such a function's result."""
        paired = any(kind in PARTS for kind in given)
        if function == "complex" or (paired and function not in _REAL_RESULTS):
            return self.pair
        if paired:
            return PARTS[self.pair]
        if function in names.COMPLEX or (function == "abs" and ctypes.is_real(given[0] or "")):
            return given[0] if given else None
        return self.call(function, given)


class _Printer(_ComplexReader):
    """Prints a snippet's tree with complex numbers as pairs."""

    def __init__(self, snippet: Snippet, types: dict[str, str]) -> None:
        super().__init__(snippet, types)
        self.guards: set[str] = set()

    def refused(self, at: Span, problem: str) -> ComplexError:
        """An error with carets under a part of the snippet."""
        rules, text, size = self.snippet.rules, self.snippet.text, max(1, at.end - at.start)
        message = caret_message(rules.owner, rules.part, text, at.start, size, problem)
        return ComplexError(message, snippet=text)

    def function(self, name: str, *args: Any) -> Call:
        """A call of one of the functions that templates have for complex numbers."""
        for needed in (name, *_NEEDED.get(name, ())):
            self.guards.add(f"complex_{needed}_{self.pair}")
        return Call(f"cp_complex_{name}", args)

    def paired(self, value: _Typed) -> Any:
        """A value as a complex number."""
        node, kind = value
        return node if kind in PARTS else self.made(node, Number("0"))

    def made(self, re: Any, im: Any) -> Any:
        """A complex number of its parts."""
        return Vector(Type(self.pair), (re, im))

    def part(self, value: Any, number: int) -> Any:
        """A part of a complex number."""
        return Member(value, ".", "xy"[number])

    def spread(self, value: _Typed) -> Any:
        """A real number in both parts of a pair."""
        return Cast(Type(self.pair), value[0])

    def printed(self, node: Node, given: list[_Typed]) -> _Typed:
        """What is printed of a node, and its type."""
        new, kind = self.changed(node, given)
        return (new if new.span == node.span else replace(new, span=node.span)), kind

    def changed(self, node: Node, given: list[_Typed]) -> _Typed:
        """Likewise, of what is new without its place."""
        kind = self.kind_of(node, [kind for _, kind in given])
        if any(new is not old for (new, _), old in zip(given, children(node), strict=True)):
            node = with_children(node, (new for new, _ in given))
        match node:
            case Number(text) if is_imaginary(text):
                return self.made(Number("0"), Number(text[:-1])), kind
            case Call(function) if self.is_own(function):
                return self.of_numbers(node, given), kind
            case Variable() if node.value is not None:
                return node, given[-1][1]
            case Declare(Type(text)):
                return self.declared(node, self.of_words(text), given[1:]), kind
        if not any(kind in PARTS for _, kind in given):
            return self.whole(node, given), kind
        match node:
            case Binary() | Unary() | Postfix():
                return self.operator(node, given), kind
            case Assign():
                return self.assignment(node, given), kind
            case Ternary():
                self.condition(node.condition, given[0])
                return Ternary(node.condition, *map(self.paired, given[1:])), kind
            case Cast():
                return self.cast(node, *given), kind
            case Vector(_, elements):
                for element, (_, of) in zip(elements, given[1:], strict=True):
                    if of in PARTS:
                        raise self.refused(element.span, "a complex number is no part of a vector")
            case Call(function) if function in names.FUNCTIONS and not self.is_helper(function):
                raise self.refused(node.span, _no_function(function))
            case If() | While() | DoWhile() | For() | Switch():
                at = node.value if isinstance(node, Switch) else node.condition
                for new, of in given:
                    if new is at:
                        self.condition(new, (new, of))
        return node, kind

    def is_helper(self, function: str) -> bool:
        """Whether a function is one of the preamble."""
        return function in self.snippet.preamble.names

    def whole(self, node: Node, given: list[_Typed]) -> Node:
        """A quotient or a remainder of integers as their own function, others as they are."""
        match node:
            case Binary("/" | "%" as op, a, b) if kind := self.divided(a, b):
                self.guards.add(kind)
                return Call(DIVISIONS[op], (a, b))
        return node

    def condition(self, at: Any, value: _Typed) -> None:
        """Refuses a complex number where a condition is wanted."""
        if value[1] in PARTS:
            raise self.refused(at.span, "a complex number is no condition; write … != 0")

    def operator(self, node: Binary | Unary | Postfix, given: list[_Typed]) -> Node:
        """An operator with a complex operand."""
        op = node.op
        if op == "," or (isinstance(node, Unary) and op in ("+", "-", "&", "sizeof")):
            return node
        if op in _LOGIC:
            at = next(n for n, kind in given if kind in PARTS)
            self.condition(at, (at, self.pair))
        if len(given) < 2 or op not in _OPERATORS:
            why = "have no order" if op in _ORDER else f"have no {op!r}"
            raise self.refused(node.span, f"complex numbers {why}")
        a, b = given
        if op in _EQUAL:
            same = self.function("equal", self.paired(a), self.paired(b))
            return same if op == "==" else Unary("!", same)
        return self.arithmetic(op, a, b)

    def arithmetic(self, op: str, a: _Typed, b: _Typed) -> Expr:
        """A sum, a difference, a product or a quotient of which one at least is complex."""
        both = a[1] in PARTS and b[1] in PARTS
        if op in "+-":
            return Binary(op, self.paired(a), self.paired(b))
        if both or (op == "/" and b[1] in PARTS):
            name = "multiply" if op == "*" else "divide"
            return self.function(name, self.paired(a), self.paired(b))
        left, right = (n if kind in PARTS else self.spread((n, kind)) for n, kind in (a, b))
        return Binary(op, left, right)

    def assignment(self, node: Assign, given: list[_Typed]) -> Node:
        """An assignment to or of a complex number."""
        target, value = given
        if target[1] not in PARTS:
            problem = f"{node.target} is real, what it is given is complex; write real(…) or abs(…)"
            raise self.refused(node.span, problem)
        if node.op == "=":
            return Assign(node.target, "=", self.paired(value))
        op = node.op[:-1]
        if op not in ("+", "-", "*", "/"):
            raise self.refused(node.span, f"complex numbers have no {op!r}")
        if op in "+-":
            return Assign(node.target, node.op, self.paired(value))
        if value[1] not in PARTS:
            return Assign(node.target, node.op, self.spread(value))
        return Assign(node.target, "=", self.arithmetic(op, target, value))

    def declared(self, node: Declare, kind: str | None, given: list[_Typed]) -> Node:
        """A declaration, whose complex variables begin as such."""
        pairs = zip(node.variables, given, strict=True)
        variables = tuple(self.begun(node, kind, v, of) for v, (_, of) in pairs)
        changed = any(a is not b for a, b in zip(variables, node.variables, strict=True))
        return replace(node, variables=variables) if changed else node

    def begun(
        self, node: Declare, kind: str | None, variable: Variable | Opaque, of: str | None
    ) -> Variable | Opaque:
        """A variable of a type, and the type of the value that it begins with."""
        if not isinstance(variable, Variable) or variable.value is None:
            return variable
        if kind in PARTS and not variable.pointer and not variable.sizes:
            value = self.paired((variable.value, of))
            return variable if of in PARTS else replace(variable, value=value)
        if of in PARTS:
            problem = f"{variable.name} is {node.type.text}, what it is given is complex"
            raise self.refused(variable.span, problem)
        return variable

    def cast(self, node: Cast, to: _Typed, value: _Typed) -> Any:
        """A conversion to or of a complex number."""
        if to[1] in PARTS:
            return self.paired(value)
        if value[1] in PARTS and node.type.text != "void":
            problem = f"a complex number is no {node.type.text}; write real(…) or abs(…)"
            raise self.refused(node.span, problem)
        return node

    def of_numbers(self, node: Call, given: list[_Typed]) -> Any:
        """A function of complex numbers, or one that may be."""
        name, complex_ = node.function, any(kind in PARTS for _, kind in given)
        if name in names.COMPLEX or complex_:
            wanted = 2 if name in ("complex", "pow") else 1
            if len(given) != wanted:
                problem = f"{name} takes {wanted} argument{'s' * (wanted > 1)}, {len(given)} given"
                raise self.refused(node.span, problem)
        if name == "complex":
            if complex_:
                raise self.refused(node.span, "complex takes two real numbers: complex(re, im)")
            return self.made(given[0][0], given[1][0])
        if complex_:
            if name in ("real", "imag"):
                return self.part(given[0][0], name == "imag")
            return self.function(name, *map(self.paired, given))
        value, kind = given[0]
        if name in ("real", "conj"):
            return value
        if name == "imag":
            return Binary("*", Number("0"), value)
        if name == "arg":
            return self.function("arg", self.paired(given[0]))
        if name == "reciprocal":
            return Binary("/", Number("1"), value)
        if name == "abs" and ctypes.is_real(kind or ""):
            return Call("fabs", (value,))
        return node


class _VectorPrinter(_Printer):
    """Prints what is a vector of complex numbers as well, and of their parts."""

    def made(self, re: Any, im: Any) -> Any:
        """See `_Printer.made`."""
        parts = (Cast(Type("cp_part"), re), Cast(Type("cp_part"), im))
        return Vector(Type("cp_pair"), parts)

    def part(self, value: Any, number: int) -> Any:
        """See `_Printer.part`."""
        return Member(value, ".", ("lo", "hi")[number])

    def spread(self, value: _Typed) -> Any:
        """See `_Printer.spread`."""
        return self.function("both", Cast(Type("cp_part"), value[0]))

    def changed(self, node: Node, given: list[_Typed]) -> _Typed:
        """See `_Printer.changed`; a number of the call is the same in all lanes."""
        if isinstance(node, Name) and operand_number(node.text, "w") is not None:
            kind = self.kind_of(node, [])
            if kind in PARTS:
                return self.made(Member(node, ".", "x"), Member(node, ".", "y")), kind
        return super().changed(node, given)


def _no_function(function: str) -> str:
    instead = {"fabs": "abs", "hypot": "abs", "atan2": "arg"}.get(function)
    known = f"write {instead}" if instead else f"these do: {', '.join(sorted(_FUNCTIONS))}"
    return f"{function} takes no complex numbers; {known}"


def _operand_of(text: str) -> str:
    """The operand whose type words name, or no name."""
    words = [word for word in text.split() if word.startswith("typeof_")]
    return without_prefix(words[0]) if words else ""
