"""Reads snippets and preambles into trees, and says where they stop being C.

It knows what a statement looks like, and nothing of what it means: types, numbers of arguments
and places that can be assigned are for others to judge. A macro may stand for anything at all, so
a statement with one that is no C as it stands is kept as it is (`Opaque`).
"""

from __future__ import annotations

from clprim.language.cursor import Fault, Words
from clprim.language.node import Span
from clprim.language.parse_expressions import Expressions
from clprim.language.tokens import Token
from clprim.language.tree import (
    CONDITIONAL,
    Assign,
    Block,
    Case,
    Declare,
    DoWhile,
    Evaluate,
    Expr,
    For,
    Function,
    If,
    Jump,
    Name,
    Opaque,
    Parameter,
    Statement,
    Switch,
    Tree,
    Type,
    Variable,
    While,
)

_NOTHING = Words()
_CHANGING = frozenset("= += -= *= /= %= &= |= ^= <<= >>= ++ --".split())


def parse_snippet(text: str, tokens: tuple[Token, ...], words: Words = _NOTHING) -> Tree:
    """Returns the tree of a snippet."""
    parser, comments = _parser(text, tokens, words)
    return Tree(parser.statements(), comments=comments, span=Span(0, len(text)))


def parse_preamble(text: str, tokens: tuple[Token, ...], words: Words) -> tuple[Tree, Words]:
    """Returns the tree of a preamble, and its words with the types that it declares.

    What is no C, or no function, declaration or directive, is opaque: it is the compiler's.
    """
    parser, comments = _parser(text, tokens, words)
    tree = Tree(parser.externals(), comments=comments, span=Span(0, len(text)))
    return tree, Words(words.names, parser.words.types, words.opaque)


def parse_value(text: str, tokens: tuple[Token, ...]) -> Expr | Type | None:
    """Returns what a macro stands for, where that is one operand or a type, else None."""
    parser, _ = _parser(text, tokens, _NOTHING)
    try:
        found = parser.type_name() if parser.is_type() else parser.operand()
    except Fault:
        return None
    return None if parser.text else found


def _parser(text: str, tokens: tuple[Token, ...], words: Words) -> tuple[_Parser, tuple[Span, ...]]:
    code = tuple(token for token in tokens if token.kind != "comment")
    return _Parser(text, code, words), tuple(t.span for t in tokens if t.kind == "comment")


class _Parser(Expressions):
    """Statements, and what stands outside of functions."""

    def statements(self) -> tuple[Statement, ...]:
        """A whole snippet."""
        found: list[Statement] = []
        opaque = any(text in self.words.opaque for text in self.texts)
        while self.text:
            start, depth = self.at, self.depth
            done = len(found)
            try:
                self.statement(found)
            except (Fault, RecursionError) as error:
                fault = error if isinstance(error, Fault) else self.too_deep()
                del found[done:]
                if not opaque:
                    fault.before = tuple(found)
                    raise fault from None
                self.at, self.depth = start, depth
                found.append(self.opaque_statement())
        return tuple(found)

    def opaque_statement(self) -> Opaque:
        """Tokens up to the end of a statement: the names in them, and those that they change."""
        start = self.at
        self.skip()
        parts: list[Name | Assign] = []
        declares: list[str] = []
        for n, token in enumerate(self.tokens[start : self.at], start):
            before, after = self.texts[n - 1] if n else "", self.texts[n + 1]
            if token.kind != "name" or before in (".", "->"):
                continue
            name = Name(token.text, span=token.span)
            if before in self.types or before.startswith("typeof_"):
                declares.append(token.text)
            elif after in _CHANGING or before in ("++", "--"):
                parts.append(Assign(name, "=", Opaque(""), span=token.span))
            elif token.text not in self.types and token.text not in self.words.names:
                parts.append(name)
        return Opaque(self.source(start), tuple(parts), tuple(declares), span=self.span(start))

    def skip(self) -> None:
        """Goes behind a ``;``, or behind a ``}`` that a block ends with."""
        depth = 0
        while self.text:
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.text, 0)
            self.at += 1
            if depth <= 0 and self.texts[self.at - 1] in (";", "}"):
                return

    def statement(self, into: list[Statement]) -> None:
        """The next statement; a label is one by itself."""
        start = self.at
        found: Statement
        match self.text:
            case "{":
                into.append(self.block())
                return
            case ";":
                self.at += 1
                return
            case "if":
                found = self.if_chain()
            case "while":
                self.at += 1
                condition = self.head()
                found = While(condition, self.body(), span=self.span(start))
            case "switch":
                self.at += 1
                value = self.head()
                found = Switch(value, self.body(), span=self.span(start))
            case "do":
                self.at += 1
                body = self.body()
                self.expect("while")
                condition = self.head()
                self.end()
                found = DoWhile(body, condition, span=self.span(start))
            case "for":
                found = self.loop()
            case "case" | "default":
                self.label(into)
                return
            case "break" | "continue":
                word = self.text
                self.at += 1
                found = Jump(word, span=self.span(start))
                self.end()
            case "return":
                self.at += 1
                found = Jump("return", self.maybe(";"), span=self.span(start))
                self.end()
            case "else":
                raise Fault(self.at, "this 'else' follows no 'if'")
            case "":
                self.fail("a statement")
            case name if self.is_name and self.texts[self.at + 1] == ":":
                self.at += 2
                into.append(Opaque(f"{name}:;", span=self.span(start)))
                self.labelled(into)
                return
            case _:
                found = self.simple()
                self.end()
        into.append(found)

    def block(self) -> Block:
        """Statements in braces."""
        self.deeper()
        start = self.at
        found: list[Statement] = []
        self.expect("{")
        while self.text not in ("}", ""):
            self.statement(found)
        self.expect("}")
        self.depth -= 1
        return Block(tuple(found), span=self.span(start))

    def body(self) -> tuple[Statement, ...]:
        """What a condition or a loop governs."""
        if self.text == "{":
            return self.block().body
        self.deeper()
        found: list[Statement] = []
        self.statement(found)
        self.depth -= 1
        return tuple(found)

    def head(self) -> Expr:
        """What follows a keyword in parentheses."""
        self.expect("(")
        found = self.expression()
        self.expect(")", "an operator or ")
        return found

    def maybe(self, end: str) -> Expr | None:
        """An expression that may be missing."""
        return None if self.text == end else self.expression()

    def if_chain(self) -> If:
        """``if … else if … else …``, however long."""
        links: list[tuple[int, Expr, tuple[Statement, ...]]] = []
        otherwise: tuple[Statement, ...] = ()
        while True:
            start = self.at
            self.at += 1
            condition = self.head()
            links.append((start, condition, self.body()))
            if not self.take("else"):
                break
            if self.text != "if":
                otherwise = self.body()
                break
        found: If | None = None
        for start, condition, then in reversed(links):
            found = If(condition, then, otherwise, span=self.span(start))
            otherwise = (found,)
        assert found is not None
        return found

    def loop(self) -> For:
        """``for (int i = 0; i < 3; i++) …``."""
        start = self.at
        self.at += 1
        self.expect("(")
        begin = None if self.text == ";" else self.simple()
        self.expect(";", "an operator or ")
        condition = self.maybe(";")
        self.expect(";", "an operator or ")
        step = self.maybe(")")
        self.expect(")", "an operator or ")
        return For(begin, condition, step, self.body(), span=self.span(start))

    def label(self, into: list[Statement]) -> None:
        """``case 1:``, ``case 1 ... 3:``, ``default:``, however many, and what follows."""
        while self.text in ("case", "default"):
            start = self.at
            value = last = None
            if not self.take("default"):
                self.at += 1
                value = self.expression(CONDITIONAL)
                if self.text == ".":
                    for _ in range(3):
                        self.expect(".")
                    last = self.expression(CONDITIONAL)
            self.expect(":")
            into.append(Case(value, last, span=self.span(start)))
        self.labelled(into)

    def labelled(self, into: list[Statement]) -> None:
        """The statement that a label must have, but at the end of a block."""
        if self.text not in ("}", ""):
            self.deeper()
            self.statement(into)
            self.depth -= 1

    def end(self) -> None:
        """A semicolon."""
        # The last one of a snippet may be left out, where none of its statements ends by '}'.
        if not self.take(";") and (self.text or self.texts[self.at - 1] == "}"):
            self.fail("an operator or ';'")

    def simple(self) -> Declare | Evaluate | Opaque:
        """A declaration or an expression, without its semicolon."""
        start = self.at
        if not (self.is_type() or self.text == "typedef"):
            value = self.expression()
            return Evaluate(value, span=self.span(start))
        return self.declaration(start, self.type())

    def declaration(self, start: int, kind: Type) -> Declare | Opaque:
        """What follows a type: ``a = 1, *b``; of ``typedef`` it is kept as it is."""
        variables: list[Variable | Opaque] = []
        while self.text not in (";", ""):  # struct pair { float a, b; };
            first = self.at
            variables.append(self.initialised(self.declarator(), first))
            if not self.take(","):
                break
        if "typedef" not in kind.text.split():
            return Declare(kind, tuple(variables), span=self.span(start))
        names = [v.name if isinstance(v, Variable) else "".join(v.declares) for v in variables]
        self.words = Words(self.words.names, self.words.types | {*names}, self.words.opaque)
        self.types |= {*names}
        declares = (*kind.declares, *names)
        return Opaque(self.source(start) + ";", kind.parts, declares, span=self.span(start))

    # Preambles

    def externals(self) -> tuple[Statement | Function, ...]:
        """A whole preamble; what is not understood is skipped to its end."""
        found: list[Statement | Function] = []
        while self.text:
            start = self.at
            if self.kind == "directive":
                self.at += 1
                found.append(Opaque(self.source(start), span=self.span(start)))
                continue
            try:
                external = self.external()
            except (Fault, RecursionError):
                self.at, self.depth = start, 0
                self.skip()
                external = Opaque(self.source(start), span=self.span(start))
            found.append(external)
        return tuple(found)

    def external(self) -> Statement | Function:
        """A function or a declaration."""
        start = self.at
        kind = self.type()
        first = self.at
        while self.take("*"):
            pass
        returned = kind if self.at == first else Type(self.source(start), span=self.span(start))
        if not (self.is_name and self.texts[self.at + 1] == "("):
            self.at = first
            declared = self.declaration(start, kind)
            self.expect(";")
            return declared
        name = self.expect_name()
        self.at += 1
        parameters: tuple[Parameter, ...] = self.parameters()
        self.expect(")")
        if self.text != "{":
            self.expect(";")
            return Opaque(self.source(start), (), (name,), span=self.span(start))
        body = self.block().body
        return Function(returned, name, parameters, body, span=self.span(start))
