"""Checks one snippet when it is defined: every name known, nothing assigned but results."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter

from clprim.errors import DefinitionError, shorten
from clprim.language import hints, names
from clprim.language.composed import Composed, Piece
from clprim.language.cursor import Fault
from clprim.language.lookups import Lookup, lookup_of
from clprim.language.node import Span
from clprim.language.operands import (
    NUMBERED,
    PER_DIMENSION,
    RANDOM,
    is_engine_name,
    operand_number,
    without_prefix,
)
from clprim.language.parser import parse_snippet
from clprim.language.preamble import Preamble
from clprim.language.scopes import Enter, Known, Step, steps_below
from clprim.language.snippet import Rules, Snippet
from clprim.language.tokens import Token, caret_message, scan, with_newlines
from clprim.language.tree import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    Index,
    Jump,
    Member,
    Name,
    Node,
    Number,
    Opaque,
    Postfix,
    String,
    Type,
    Unary,
    walk,
)


def check(rules: Rules, text: object, preamble: Preamble | None = None) -> Snippet:
    """Checks ``text`` against ``rules`` and returns it with what it uses and assigns."""
    if not isinstance(text, str):
        raise DefinitionError(
            f"{rules.owner} {rules.part}: expected a string of OpenCL C, got {type(text).__name__}"
        )
    pieces = text.pieces if isinstance(text, Composed) else ()
    return _Checker(rules, with_newlines(text), preamble or Preamble(), pieces).run()


class _Checker:
    """One walk over the tree; knows the locals of every block it is in."""

    def __init__(
        self, rules: Rules, text: str, preamble: Preamble, pieces: tuple[Piece, ...]
    ) -> None:
        self.rules = rules
        self.text = text
        self.preamble = preamble
        self.pieces = pieces
        self.helpers = preamble.names
        self.tokens = scan(rules.owner, rules.part, text)
        self.code = tuple(token for token in self.tokens if token.kind != "comment")
        #: Locals of each block, whether they may be pointers, and the jumps that stay inside.
        self.scopes: list[tuple[dict[str, bool], frozenset[str]]] = [({}, frozenset())]
        self.used: set[str] = set()
        self.assigned: set[str] = set()
        self.dims: set[tuple[str, int]] = set()
        self.lookups: set[Lookup] = set()
        self.handed: set[Span] = set()  #: Where arguments of helpers stand.

    def fail(self, at: Token | Span, problem: str, length: int = 0) -> DefinitionError:
        """An error with carets under a token, or under ``length`` characters of a node."""
        span = at if isinstance(at, Span) else at.span
        owner, part = self.rules.owner, self.rules.part
        size = length or span.end - span.start
        return DefinitionError(caret_message(owner, part, self.text, span.start, size, problem))

    def run(self) -> Snippet:
        for before, token in zip((None, *self.code), self.code, strict=False):
            self.word(token, before)
        try:
            tree = parse_snippet(self.text, self.tokens, self.preamble)
        except Fault as fault:
            raise self.refused(fault) from None
        self.walk(tree.body)
        self.question()
        return Snippet(
            rules=self.rules,
            text=self.text,
            tokens=self.code,
            tree=tree,
            preamble=self.preamble,
            used=frozenset(self.used),
            assigned=frozenset(self.assigned),
            dims=frozenset(self.dims),
            lookups=frozenset(self.lookups),
            pieces=self.pieces,
        )

    def word(self, token: Token, before: Token | None) -> None:
        """Refuses words that no snippet may have anywhere."""
        text = token.text
        if token.kind == "directive":
            raise self.fail(token, hints.of_directive(text))
        if token.kind != "name" or (before is not None and before.text in (".", "->")):
            return
        if text in names.RESERVED:
            raise self.fail(token, f"{text!r} is reserved: {names.RESERVED[text]}")
        if text.startswith("cp_"):
            shown = shorten(text)
            raise self.fail(token, f"{shown!r} is reserved: names with cp_ belong to the engine")

    def refused(self, fault: Fault) -> DefinitionError:
        """The error for what is no C: an unknown name before or at that place says more."""
        self.walk(fault.before)
        for at in (fault.at - 1, fault.at):
            token = self.code[max(at, 0)]
            known = token.text in names.KEYWORDS | names.TYPES | names.QUALIFIERS
            known = known or is_engine_name(token.text) or self.is_known(token.text)
            if (
                token.kind == "name"
                and not known
                and (at == fault.at or token.text in hints.INSTEAD)
            ):
                return self.unknown(token.span, token.text)
        self.question()
        return self.fail(self.code[fault.at], fault.problem)

    def question(self) -> None:
        """Asks about a ``//`` that cuts an assignment short."""
        before = None
        for n, token in enumerate(self.tokens):
            if token.kind != "comment":
                before = token
            elif token.text.startswith("//"):
                after = next((t for t in self.tokens[n + 1 :] if t.kind != "comment"), None)
                asked = hints.quotient(before, token, after)
                if asked:
                    raise self.fail(token, asked, 2)

    # The walk

    def walk(self, nodes: Iterable[Node]) -> None:
        """Checks nodes and all below them, in the order of the text."""
        ahead: list[Step] = [*reversed([*nodes])]
        while ahead:
            step = ahead.pop()
            if isinstance(step, Enter):
                locals_, jumps = self.scopes[-1]
                self.scopes.append((dict(locals_), jumps | step.jumps))
            elif isinstance(step, Known):
                self.declare(step)
            elif isinstance(step, str):
                self.scopes.pop()
            else:
                self.node(step)
                ahead.extend(reversed(steps_below(step)))

    def node(self, node: Node) -> None:
        """Checks one node by itself."""
        match node:
            case Name(text):
                self.name(node.span, text)
            case Call(function, args):
                self.call(node, function, args)
            case Type():
                self.type(node)
            case Assign(target):
                self.change(target)
            case Unary("++" | "--" | "&", a) | Postfix(_, a):
                self.change(a)  # `&y1` hands the address to a function that assigns it
            case Index(Name(text) as array, _) | Index(_, Name(text) as array):
                if isinstance(node.a, Number) or array is node.a:
                    self.element(array)
            case Member(Name() as pointer, "->"):
                self.element(pointer)
            case Unary("*", a):
                self.pointed_at(node, a)
            case Binary(op, a, b) if op in hints.INTEGERS_ONLY:
                if hints.is_floating(a) or hints.is_floating(b):
                    at = self.operator(node, a, op)
                    raise self.fail(at, hints.INTEGERS_ONLY[op], len(op))
            case Jump(word) if word not in self.scopes[-1][1]:
                problem = f"{word!r} outside a loop would leave the engine's own loop"
                raise self.fail(node.span, problem, len(word))

    def operator(self, node: Node, a: Expr, op: str) -> Span:
        """Where the operator behind an operand stands."""
        for token in self.code:
            if token.start >= a.span.end and token.text == op:
                return token.span
        return node.span

    def name(self, span: Span, text: str) -> None:
        """Checks a name where its value is used."""
        if text in PER_DIMENSION:
            self.operand(span, text)
            raise self.fail(span, f"{text} takes one literal dimension: {text}(0)")
        if lookup_of(text):
            self.lookup(Call(text, (), span=span))
        if text in RANDOM:
            self.operand(span, text)
            raise self.fail(span, self.random_call(text))
        if is_engine_name(text):
            self.operand(span, text)
        elif not self.is_known(text):
            raise self.unknown(span, text)
        elif text in names.FUNCTIONS and not (
            text in self.helpers or text in self.scopes[-1][0] or span in self.handed
        ):  # a macro may call what it is handed
            raise self.fail(span, f"{text!r} is a function, written {text}(…)", len(text))

    def is_known(self, text: str) -> bool:
        return text in self.scopes[-1][0] or text in names.BUILTINS or text in self.helpers

    def unknown(self, span: Span, text: str) -> DefinitionError:
        number = text.lstrip("".join(NUMBERED) + "_")
        if number.isdecimal() and text[: -len(number)] in NUMBERED:
            what = (
                "operands are numbered without zeros"
                if number[0] == "0"
                else "operands end at 9999"
            )
            return self.fail(span, f"unknown name {shorten(text)!r}: {what}", len(text))
        families = self.rules.reads | self.rules.writes
        hint = hints.unknown_name(text, (*self.scopes[-1][0], *self.helpers), families)
        return self.fail(span, f"unknown name {shorten(text)!r}{hint}", len(text))

    def type(self, node: Type) -> None:
        """Records the operands whose types are taken."""
        at = attrgetter("start")
        first = bisect_left(self.code, node.span.start, key=at)
        for token in self.code[first : bisect_left(self.code, node.span.end, key=at)]:
            if token.text.startswith("typeof_"):
                if without_prefix(token.text) == token.text:
                    raise self.unknown(token.span, token.text)
                self.operand(token.span, token.text)

    def declare(self, known: Known) -> None:
        """Takes note of a local."""
        name = known.name
        if is_engine_name(name):
            raise self.fail(known.span, f"{name!r} is reserved: the engine declares it")
        if name:
            self.scopes[-1][0][name] = known.pointer

    def call(self, node: Call, function: str, args: tuple[Expr, ...]) -> None:
        """Checks a function, and `coord` and `size`, which take a literal."""
        if function in PER_DIMENSION:
            self.operand(node.span, function, len(function))
            self.dims.add((function, self.dimension(node, args)))
        elif lookup_of(function):
            self.lookup(node)
        elif function in RANDOM:
            self.operand(node.span, function, len(function))
            if len(args) != RANDOM[function]:
                raise self.fail(node.span, self.random_call(function), len(function))
        elif is_engine_name(function):
            self.operand(node.span, function, len(function))
            self.element(Name(function, span=node.span))
        elif not self.is_known(function):
            raise self.unknown(node.span, function)
        elif function in self.helpers:
            self.handed |= {a.span for a in args}
        elif not hints.takes_floats(function):
            return
        elif args and all(map(hints.is_integer, args)):
            first = f"(float)({args[0]})" if isinstance(args[0], Binary) else f"(float){args[0]}"
            problem = f"{function!r} takes floating values, these are integers; write {function}"
            more = "" if len(args) == 1 else ", …"
            raise self.fail(node.span, f"{problem}({first}{more})", len(function))

    @staticmethod
    def random_call(function: str) -> str:
        """How a function that draws is called."""
        written = "randint(from, to)" if function == "randint" else f"{function}()"
        return f"{function} is a function, written {written}"

    def dimension(self, node: Call, args: tuple[Expr, ...]) -> int:
        match args:
            case (Number(number),) if number.isdecimal() and len(number) < 4:
                return int(number)
            case (Unary("-", Number(number)),) if number.isdecimal() and len(number) < 4:
                return -int(number)
        function = node.function
        problem = f"{function} takes one literal dimension: {function}(0)"
        raise self.fail(node.span, problem, len(function))

    def lookup(self, node: Call) -> None:
        """Checks how an array is asked: with as many coordinates everywhere."""
        name, args = node.function, node.args
        function, array = lookup_of(name) or ("", 0)
        self.operand(node.span, name, len(name))
        self.used.add(f"x{array}")
        if function == "size":
            self.lookups.add(Lookup(function, array, self.dimension(node, args)))
            return
        if not args:
            problem = f"{name} takes a coordinate for every dimension of x{array}: none given"
            raise self.fail(node.span, problem, len(name))
        for other in self.lookups:
            if other.array == array and other.function != "size" and other.number != len(args):
                problem = (
                    f"{name} takes a coordinate for every dimension of x{array}: {len(args)} here, "
                    f"{other.number} elsewhere"
                )
                raise self.fail(node.span, problem, len(name))
        self.lookups.add(Lookup(function, array, len(args)))

    def change(self, target: Expr) -> None:
        """Checks what is assigned, or has its address taken: a result or a local."""
        if isinstance(target, Call) and lookup_of(target.function):
            problem = f"{target.function} reads; {self.rules.part} assigns yN and its own locals"
            raise self.fail(target.span, problem, len(target.function))
        while isinstance(target, Member | Index):
            if target.a.span == target.span or (isinstance(target, Member) and target.op == "->"):
                return
            target = target.a
        if not isinstance(target, Name) or not is_engine_name(target.text):
            return
        text = target.text
        family = self.operand(target.span, text)
        if family not in self.rules.writes:
            kind = "an input" if family in ("x", "w") else "not assigned here"
            allowed = ", ".join(f"{f}N" for f in sorted(self.rules.writes))
            problem = f"{text!r} is {kind}; {self.rules.part} assigns {allowed} and its own locals"
            raise self.fail(target.span, problem)
        self.assigned.add(text)

    def element(self, operand: Name) -> None:
        """Refuses to take a number for an array."""
        text = operand.text
        if not is_engine_name(text):
            return
        anywhere = text[0] == "x" and "at_x" in self.rules.reads
        hint = f"; at_{text}(i, j, …) reads that array anywhere" if anywhere else ""
        problem = f"{text!r} is one number, not an array{hint}"
        raise self.fail(operand.span, problem, len(text))

    def pointed_at(self, node: Unary, a: Expr) -> None:
        """Refuses ``*a`` of what is no pointer: most often it is a power, ``x0 ** 2``."""
        if any(map(self.may_point, walk(a))):
            return
        start = node.span.start
        if self.text[max(0, start - 1)] == "*":
            problem = "'**' is no operator of C; write x0 * x0, or pow(x0, 2)"
            raise self.fail(Span(start - 1, start + 1), problem)
        if isinstance(a, Name):
            self.element(a)

    def may_point(self, node: Node) -> bool:
        """Whether a pointer may come of a node."""
        match node:
            case Name(text):
                return self.scopes[-1][0].get(text, text in self.helpers)
            case Call(function):
                return function in self.helpers
            case Cast(Type(text), _):
                return "*" in text
            case Unary("&", _):
                return True
        return isinstance(node, Opaque | String)

    def operand(self, span: Span, text: str, length: int = 0) -> str:
        """Records a use of an engine's name, after checking that this part may use it."""
        plain = without_prefix(text)
        family = next((f for f in NUMBERED if operand_number(plain, f) is not None), plain)
        rules = self.rules
        if family not in rules.reads | rules.writes:
            known = sorted(f + "N" if f in NUMBERED else f for f in rules.reads | rules.writes)
            raise self.fail(
                span,
                f"{plain!r} is not available in {rules.part} of a {rules.owner}, "
                f"which knows {', '.join(known)}",
                length,
            )
        if family in NUMBERED and plain != f"{family}{operand_number(plain, family)}":
            raise self.unknown(span, plain)
        self.used |= {text, plain}
        return family
