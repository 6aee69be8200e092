"""Splits a snippet of OpenCL C into tokens that know their place, for checks and for carets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clprim.errors import DefinitionError

__all__ = ["Token", "caret_message", "tokenize"]


@dataclass(frozen=True)
class Token:
    """One token of a snippet.

    Attributes:
        kind: ``name``, ``number``, ``string``, ``op`` (operators and brackets) or ``directive``.
        text: The characters of the token.
        start: Offset of its first character in the snippet.
    """

    kind: str
    text: str
    start: int


_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<number>(?:0[xX](?:[0-9a-fA-F]*\.?[0-9a-fA-F]+|[0-9a-fA-F]+\.)[pP][+-]?\d+
                   |0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfFhH]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<directive>\#(?:[^\n\\]|\\.)*)
    | (?P<op><<=|>>=|\+\+|--|->|&&|\|\||[-+*/%&|^=!<>]=|<<|>>|/(?!\*)|[-+*%&|^=!<>~?:;,.(){}\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)

_CLOSING = {")": "(", "]": "[", "}": "{"}


def caret_message(owner: str, part: str, text: str, start: int, length: int, problem: str) -> str:
    """Returns ``problem`` with the snippet's line and a caret under the offending characters.

    Args:
        owner: The kind of operator, for the head line: ``Pointwise`` or ``Reduction``.
        part: Which snippet: ``expr``, ``init``, ``step``, ``combine``, ``finalize``, ``preamble``.
        text: The whole snippet.
        start: Offset of the first offending character.
        length: How many characters offend.
        problem: What is wrong, and what was expected.
    """
    line_number = text.count("\n", 0, start) + 1
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    column = start - line_start
    # Tabs stay in the caret line, so that the caret stands below its character in any terminal.
    indent = "".join("\t" if c == "\t" else " " for c in line[:column])
    marks = "^" * max(1, min(length, len(line) - column))
    return f"{owner} {part}, line {line_number}: {problem}\n    {line}\n    {indent}{marks}"


def tokenize(owner: str, part: str, text: str) -> tuple[Token, ...]:
    """Splits ``text`` into tokens and checks that its brackets are balanced.

    Args:
        owner: The kind of operator, for messages.
        part: Which snippet this is, for messages.
        text: OpenCL C statements; ``//`` and ``/* */`` comments and several lines are fine.

    Raises:
        DefinitionError: A character that C does not know, an unfinished comment or string, or a
            bracket without its partner.
    """

    def fail(start: int, length: int, problem: str) -> DefinitionError:
        return DefinitionError(caret_message(owner, part, text, start, length, problem))

    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            if text.startswith("/*", position):
                raise fail(position, 2, "this comment is never closed")
            if text[position] in "\"'":
                raise fail(position, 1, "this string is never closed")
            raise fail(position, 1, f"unexpected character {text[position]!r}")
        kind = match.lastgroup or ""
        if kind not in ("space", "comment"):
            tokens.append(Token(kind, match.group(), position))
        position = match.end()

    open_brackets: list[Token] = []
    for token in tokens:
        if token.kind != "op":
            continue
        if token.text in "([{":
            open_brackets.append(token)
        elif token.text in _CLOSING:
            if not open_brackets:
                raise fail(token.start, 1, f"unbalanced bracket: {token.text!r} closes nothing")
            opening = open_brackets.pop()
            if opening.text != _CLOSING[token.text]:
                raise fail(
                    token.start,
                    1,
                    f"unbalanced bracket: {token.text!r} closes {opening.text!r}",
                )
    if open_brackets:
        opening = open_brackets[-1]
        raise fail(opening.start, 1, f"unbalanced bracket: {opening.text!r} is never closed")
    return tuple(tokens)
