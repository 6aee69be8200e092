"""Splits a snippet of OpenCL C into tokens that know their place, for checks and for carets.

A line ends where the compiler ends it, at a newline; `with_newlines` makes one of a carriage
return. What would let the compiler read other tokens than these, such as a comment that goes on
behind a backslash, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clprim.errors import DefinitionError
from clprim.language.node import Span

#: At most so many characters of a line are quoted.
_QUOTED = 200


@dataclass(frozen=True)
class Token:
    """One token of a snippet."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset behind its last character."""
        return self.start + len(self.text)

    @property
    def span(self) -> Span:
        """Where it stands."""
        return Span(self.start, self.end)


_STRING = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*\'"""
_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\n\v\f]+)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<number>(?:0[xX](?:[0-9a-fA-F]*\.?[0-9a-fA-F]+|[0-9a-fA-F]+\.)[pP][+-]?\d+
                   |0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:i(?!\w)|[uUlLfFhH]*))
    | (?P<string>{_STRING})
    | (?P<directive>\#(?:\\[ \t]*\n|{_STRING}|//[^\n]*|/\*.*?\*/|[^\n])*)
    | (?P<op><<=|>>=|\+\+|--|->|&&|\|\||[-+*/%&|^=!<>]=|<<|>>|/(?!\*)|[-+*%&|^=!<>~?:;,.(){{}}\[\]])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
#: What the compiler reads otherwise than it looks, and why.
_TRAPS = (
    (re.compile(r"\?\?/"), "'??/' is a backslash to C; write '? ?/'"),
    (re.compile(r"\0"), "unexpected character '\\x00'"),
    (re.compile(r"#line @"), "'#line @' marks where generated code goes on"),
)
_SPLICE = {
    "//": (re.compile(r"\\[ \t\v\f]*\Z"), "a backslash here makes the next line a comment, too"),
    "/*": (re.compile(r"\\[ \t\v\f]*\n/"), "a backslash here lets the comment end below"),
    "#": (re.compile(r"\\[ \t\v\f]*\Z"), "a backslash here takes in what follows"),
}
_CLOSING = {")": "(", "]": "[", "}": "{"}


def with_newlines(text: str) -> str:
    """Returns a text whose lines end in a newline each, whichever way they ended before."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def quote(line: str, column: int, length: int) -> tuple[str, str]:
    """Returns a line of a snippet and the carets below it; of a long line the part around them."""
    line = "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)
    first = max(0, min(column - _QUOTED // 2, len(line) - _QUOTED))
    before, after = "…" * (first > 0), "…" * (first + _QUOTED < len(line))
    line, column = line[first : first + _QUOTED], column - first
    # Tabs stay in the caret line, so that the caret stands below its character in any terminal.
    indent = "".join("\t" if c == "\t" else " " for c in before + line[:column])
    marks = "^" * max(1, min(length, len(line) - column))
    return f"{before}{line}{after}", f"{indent}{marks}"


def caret_message(owner: str, part: str, text: str, start: int, length: int, problem: str) -> str:
    """Returns ``problem`` with the snippet's line and a caret under the offending characters."""
    line_number = text.count("\n", 0, start) + 1
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    quoted, marks = quote(line, start - line_start, length)
    return f"{owner} {part}, line {line_number}: {problem}\n    {quoted}\n    {marks}"


def pieces(text: str) -> Iterator[Token]:
    """Yields the tokens of any text, comments among them, and passes over what is none."""
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "space":
            yield Token(match.lastgroup or "", match.group(), match.start())


def tokenize(owner: str, part: str, text: str) -> tuple[Token, ...]:
    """Returns the tokens of `scan` without the comments."""
    return tuple(token for token in scan(owner, part, text) if token.kind != "comment")


def scan(owner: str, part: str, text: str) -> tuple[Token, ...]:
    """Splits text into tokens, comments among them, and checks that its brackets are balanced."""

    def fail(start: int, length: int, problem: str) -> DefinitionError:
        return DefinitionError(caret_message(owner, part, text, start, length, problem))

    for trap, problem in _TRAPS:
        trapped = trap.search(text)
        if trapped:
            raise fail(trapped.start(), len(trapped.group()), problem)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise fail(error.start, 1, f"unexpected character {text[error.start]!r}") from None

    tokens: list[Token] = []
    open_brackets: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            if text.startswith("/*", position):
                raise fail(position, 2, "this comment is never closed")
            if text[position] in "\"'":
                raise fail(position, 1, "this string is never closed")
            raise fail(position, 1, f"unexpected character {text[position]!r}")
        kind, position = match.lastgroup or "", match.end()
        if kind == "space":
            continue
        token = Token(kind, match.group(), match.start())
        tokens.append(token)
        if kind in ("comment", "directive"):
            splice, problem = _SPLICE["#" if kind == "directive" else token.text[:2]]
            joined = splice.search(token.text)
            if joined:
                raise fail(token.start + joined.start(), 1, problem)
        elif token.text in ("(", "[", "{"):
            open_brackets.append(token)
        elif token.text in _CLOSING:
            if not open_brackets:
                raise fail(token.start, 1, f"unbalanced bracket: {token.text!r} closes nothing")
            opening = open_brackets.pop()
            if opening.text != _CLOSING[token.text]:
                problem = f"unbalanced bracket: {token.text!r} closes {opening.text!r}"
                raise fail(token.start, 1, problem)
    if open_brackets:
        opening = open_brackets[-1]
        raise fail(opening.start, 1, f"unbalanced bracket: {opening.text!r} is never closed")
    return tuple(tokens)
