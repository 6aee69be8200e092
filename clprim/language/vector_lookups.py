"""Decides whether a snippet computes neighbours along one dimension as one vector.

``coord(d)`` of that dimension differs from lane to lane, and only says where ``at_x0(…)`` reads:
there, neighbours lie side by side, and one vector is loaded. All else that is no vector is the same
for all lanes: other coordinates, sizes, scalars, what loops count and conditions ask. So windows of
channels-last images, say, run over whole vectors of channels. Only what is known to agree is
accepted; a snippet that is refused runs element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from clprim.language.componentwise import COMPARISONS, Differs, require
from clprim.language.lookups import lookup_of
from clprim.language.names import BUILTINS, COMPONENTWISE
from clprim.language.operands import operand_number, without_prefix
from clprim.language.snippet import Snippet
from clprim.language.tree import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Declare,
    Evaluate,
    Expr,
    For,
    If,
    Jump,
    Name,
    Node,
    Number,
    Postfix,
    Statement,
    Ternary,
    Type,
    Unary,
    Variable,
    fold,
)

_INTEGERS = frozenset("int uint long ulong short ushort char uchar bool size_t".split())
_UNIFORM_TYPES = _INTEGERS | {"float"}
_ARITHMETIC = frozenset("+ - * /".split())
_ASSIGNING = frozenset("= += -= *= /=".split())


class _Kind(Enum):
    UNIFORM = "the same for all lanes"
    LANE = "coordinates that follow each other"
    VECTOR = "a value for every lane"
    MASK = "a comparison of vectors, so only a condition may hold it"


@dataclass(frozen=True)
class Lanes:
    """What is known of the operands where neighbours are to become a vector."""

    axis: int
    ndim: int
    uniform: frozenset[int]
    neighbours: Mapping[int, int | None]


def vector_lookups(snippet: Snippet, lanes: Lanes) -> frozenset[int] | None:
    """Returns the arrays that are read a vector at a time; None where elements run by themselves.

    This holds for vectors of one floating type; the plan checks that, as dtypes are not known here.
    """
    # Which arrays are vectors must be known before their types are met: assume, then confirm.
    vectors = frozenset(n for n, d in lanes.neighbours.items() if d is not None)
    while True:
        walk = _Walk(lanes, vectors)
        try:
            walk.statements(snippet.statements)
        except Differs:
            return None
        if walk.uniform_reads & walk.vector_reads:
            return None
        if walk.vector_reads == vectors:
            return vectors
        if not walk.vector_reads < vectors:
            return None
        vectors = frozenset(walk.vector_reads)


@dataclass
class _Walk:
    lanes: Lanes
    vectors: frozenset[int]
    locals: dict[str, _Kind] = field(default_factory=dict)
    vector_reads: set[int] = field(default_factory=set)
    uniform_reads: set[int] = field(default_factory=set)

    def statements(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Declare(Type() as kind, variables):
                of = self.of_type(kind)
                for variable in variables:
                    match variable:
                        case Variable(name, (), value, ""):
                            if value is not None:
                                self.gives(of, self.kind(value))
                            require(self.locals.setdefault(name, of) is of)
                        case _:
                            raise Differs
            case Evaluate(value):
                self.evaluate(value)
            case Block(body):
                self.statements(body)
            case If(condition, then, otherwise):
                self.uniform(condition)
                self.statements(then)
                self.statements(otherwise)
            case For(start, condition, step, body):
                if start is not None:
                    self.statement(start)
                if condition is not None:
                    self.uniform(condition)
                if step is not None:
                    self.evaluate(step)
                self.statements(body)
            case Jump("break" | "continue"):
                pass
            case _:
                raise Differs

    def evaluate(self, value: Expr) -> None:
        match value:
            case Assign(Name(text), op, given) if op in _ASSIGNING:
                self.gives(self.name(text), self.kind(given))
            case Unary("++" | "--", Name(text)) | Postfix(_, Name(text)):
                require(self.locals.get(text) is _Kind.UNIFORM)
            case Cast(Type("void"), _):
                pass
            case _:
                raise Differs

    def gives(self, target: _Kind, value: _Kind) -> None:
        """Whether a variable may take a value: numbers become vectors, but never the other way."""
        require(value is target or (target is _Kind.VECTOR and value is _Kind.UNIFORM))
        require(target in (_Kind.UNIFORM, _Kind.VECTOR))

    def uniform(self, condition: Expr) -> None:
        require(self.kind(condition) is _Kind.UNIFORM)

    def of_type(self, node: Type) -> _Kind:
        if node.text in _UNIFORM_TYPES:
            return _Kind.UNIFORM
        operand = without_prefix(node.text)
        if operand == node.text:
            raise Differs
        array = operand_number(operand, "x")
        if operand_number(operand, "y") is not None:
            return _Kind.VECTOR
        if array is None:
            return _Kind.UNIFORM  # of a scalar
        looked_up = array in self.lanes.neighbours
        vector = array in self.vectors if looked_up else array not in self.lanes.uniform
        return _Kind.VECTOR if vector else _Kind.UNIFORM

    def name(self, text: str) -> _Kind:
        if text in self.locals:
            return self.locals[text]
        if operand_number(text, "y") is not None:
            return _Kind.VECTOR
        array = operand_number(text, "x")
        if array is not None:
            return _Kind.UNIFORM if array in self.lanes.uniform else _Kind.VECTOR
        require(operand_number(text, "w") is not None or text in BUILTINS)
        return _Kind.UNIFORM

    def kind(self, value: Expr) -> _Kind:
        return fold(value, self.kind_of)

    def kind_of(self, node: Node, given: list[_Kind]) -> _Kind:
        """The kind of a node whose operands are of these kinds."""
        kinds = {*given}
        match node:
            case Number():
                return _Kind.UNIFORM
            case Name(text):
                return self.name(text)
            case Type():
                return self.of_type(node)
            case Call(function, args):
                return self.call(function, args, given)
            case Cast(Type(text)):
                return self.cast(text, *given)
            case Unary("!"):
                require(kinds <= {_Kind.MASK, _Kind.UNIFORM})
                return given[0]
            case Unary("-" | "+"):
                require(kinds <= {_Kind.VECTOR, _Kind.UNIFORM})
                return given[0]
            case Ternary():
                condition, *arms = given
                require({*arms} <= {_Kind.VECTOR, _Kind.UNIFORM})
                # Compilers disagree on a number that chooses between vectors: clang 15 takes its
                # sign bit, as that of a vector, and so never finds a comparison of numbers true.
                vectors = _Kind.VECTOR in arms
                require(condition is (_Kind.MASK if vectors else _Kind.UNIFORM))
                return _Kind.VECTOR if vectors else _Kind.UNIFORM
            case Binary(op):
                return self.binary(op, given)
        raise Differs

    def binary(self, op: str, given: list[_Kind]) -> _Kind:
        kinds = {*given}
        if kinds == {_Kind.UNIFORM}:
            return _Kind.UNIFORM
        if op in ("&&", "||"):
            require(kinds == {_Kind.MASK})
            return _Kind.MASK
        if _Kind.LANE in kinds:
            steps = op == "+" or (op == "-" and given[0] is _Kind.LANE)
            require(steps and kinds == {_Kind.LANE, _Kind.UNIFORM})
            return _Kind.LANE
        require(kinds <= {_Kind.VECTOR, _Kind.UNIFORM})
        if op in COMPARISONS:
            return _Kind.MASK
        require(op in _ARITHMETIC)
        return _Kind.VECTOR

    def cast(self, text: str, to: _Kind, given: _Kind) -> _Kind:
        if given is _Kind.LANE:
            require(text in ("int", "long"))
            return _Kind.LANE
        self.gives(to, given)
        return to

    def call(self, function: str, args: Sequence[Expr], given: list[_Kind]) -> _Kind:
        if function in ("coord", "size"):
            d = int(str(args[0]).replace(" ", ""))
            here = function == "coord" and d % self.lanes.ndim == self.lanes.axis
            return _Kind.LANE if here else _Kind.UNIFORM
        lookup = lookup_of(function)
        kinds = {*given}
        if lookup is None:
            if kinds <= {_Kind.UNIFORM}:
                return _Kind.UNIFORM
            require(function in COMPONENTWISE and kinds <= {_Kind.UNIFORM, _Kind.VECTOR})
            return _Kind.VECTOR
        name, array = lookup
        if name != "at":
            require(kinds <= {_Kind.UNIFORM})
            return _Kind.UNIFORM
        if kinds <= {_Kind.UNIFORM}:
            self.uniform_reads.add(array)
            return _Kind.UNIFORM
        expected = [_Kind.UNIFORM] * len(given)
        side = self.lanes.neighbours.get(array)
        require(side is not None)
        expected[side or 0] = _Kind.LANE
        require(given == expected)
        self.vector_reads.add(array)
        return _Kind.VECTOR
