"""Values of a traced function as text: expressions of C, with the parentheses they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clprim.language.tree_expressions import CONDITIONAL, STRENGTH, UNARY, VALUE

if TYPE_CHECKING:
    from clprim.language.traced_value import Value

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
        return VALUE, names[id(value)]
    if budget[0] < 0:
        return VALUE, "…"

    def part(n: int, level: int) -> str:
        own, text = _level_text(value.parts[n], names, budget)
        return f"({text})" if own < level else text

    if value.kind == "name":
        level, text = VALUE, value.word
    elif value.kind == "sign":
        level, text = UNARY, value.word + part(0, UNARY + 1)
    elif value.kind == "call":
        level, text = (
            VALUE,
            f"{value.word}({', '.join(part(n, 0) for n in range(len(value.parts)))})",
        )
    elif value.kind == "choice":
        level, text = CONDITIONAL, f"{part(0, 4)} ? {part(1, 4)} : {part(2, 3)}"
    else:
        level = STRENGTH[value.word]
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
