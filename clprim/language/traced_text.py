"""Values of a traced function as text: expressions of C, with the parentheses they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clprim.language.traced_value import Value

# How tightly C binds: names and calls, signs, then the operators from products on.
_NAME, _SIGN, _TERNARY = 16, 14, 3
_LEVELS = {
    "*": 13,
    "/": 13,
    "+": 12,
    "-": 12,
    "<<": 11,
    ">>": 11,
    "<": 10,
    "<=": 10,
    ">": 10,
    ">=": 10,
    "==": 9,
    "!=": 9,
    "&": 8,
    "^": 7,
    "|": 6,
    "&&": 5,
    "||": 4,
}
# A snippet is for people to read, too.
LONGEST = 20_000


def in_order(value: Value, uses: dict[int, int], order: list[Value]) -> None:
    """Counts how often each value is used, and lists them after what they are made of."""
    stack = [(value, False)]
    while stack:
        current, seen = stack.pop()
        if seen:
            order.append(current)
            continue
        uses[id(current)] = uses.get(id(current), 0) + 1
        if uses[id(current)] == 1:
            stack.append((current, True))
            stack += [(part, False) for part in current.parts]


def text_of(value: Value, names: dict[int, str], budget: list[int] | None = None) -> str:
    """Returns an expression; of values that have names, as locals do, these."""
    return _level_text(value, names, [LONGEST] if budget is None else budget)[1]


def _level_text(value: Value, names: dict[int, str], budget: list[int]) -> tuple[int, str]:
    """Returns how tightly a value's text binds, and the text."""
    if id(value) in names:
        return _NAME, names[id(value)]
    if budget[0] < 0:
        return _NAME, "…"

    def part(n: int, level: int) -> str:
        own, text = _level_text(value.parts[n], names, budget)
        return f"({text})" if own < level else text

    if value.kind == "name":
        level, text = _NAME, value.word
    elif value.kind == "sign":
        level, text = _SIGN, value.word + part(0, _SIGN + 1)
    elif value.kind == "call":
        level, text = (
            _NAME,
            f"{value.word}({', '.join(part(n, 0) for n in range(len(value.parts)))})",
        )
    elif value.kind == "choice":
        level, text = _TERNARY, f"{part(0, 4)} ? {part(1, 4)} : {part(2, 3)}"
    else:
        level = _LEVELS[value.word]
        # Sums of sums keep their order, and what people get wrong has parentheses.
        left = level if value.word in "+-*/" else 9 if value.word in ("&&", "||") else 12
        if value.word in ("&&", "||") and value.parts[0].word == value.word:
            left = level
        text = f"{part(0, left)} {value.word} {part(1, max(level + 1, left))}"
    budget[0] -= len(value.word)
    return level, text


def shown(value: Value) -> str:
    """Returns the beginning of an expression, for messages."""
    text = text_of(value, {}, [200])
    return text if len(text) <= 60 else text[:57] + "..."
