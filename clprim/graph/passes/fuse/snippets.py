"""Snippets of several nodes as one: each keeps its own lines, in braces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from clprim.dtypes import AnyDType
from clprim.graph.graph import Node, same_place
from clprim.language.composed import Composed, Piece
from clprim.language.epilogue_snippet import define_epilogue
from clprim.language.rename import renamed
from clprim.language.snippet import Snippet
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise

# Arrays of one kernel: with more, addresses spill registers and drivers refuse.
MOST_ARRAYS = 16
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def fresh(texts: Sequence[str]) -> str:
    """Returns the name of a local that none of some texts has."""
    n = 0
    while any(f"fused_{n}" in text for text in texts):
        n += 1
    return f"fused_{n}"


def block(snippet: Snippet, names: Mapping[str, str], kinds: Mapping[str, str]) -> Composed:
    """Returns a snippet in braces, with other names for operands."""
    text = renamed(snippet, names)
    found = str(text)
    for name, kind in kinds.items():
        found = found.replace(f"typeof_{name}", kind)
    return joined(["{\n", Composed(found, text.pieces), "\n}\n"])


def on_value(snippet: Snippet, k: int, arrays: int = 0, numbers: int = 0) -> Composed:
    """Returns a snippet as one on ``y0``, which its array ``k`` is then."""
    local = fresh([snippet.text])
    names = {f"x{n}": f"x{arrays + n - (n > k)}" for n in snippet.numbers("x")}
    names |= {f"w{n}": f"w{numbers + n}" for n in snippet.numbers("w")} | {f"x{k}": local}
    body = block(snippet, names, {local: "typeof_y0"})
    return joined(["{\n", f"typeof_y0 {local} = y0;\n", body, "}\n"])


def behind_epilogue(node: Node, after: Callable[[int, int], str]) -> Any:
    """Returns the options of a contraction that does more where it stores.

    ``after`` gets how many arrays and numbers the epilogue before it reads.
    """
    old = node.options.epilogue
    before = None if old is None else define_epilogue(node.primitive.what, old)
    counts = (max(before.numbers(f) if before else (), default=-1) + 1 for f in "xw")
    first = [block(before, {}, {})] if before else []
    return node.options._replace(epilogue=joined([*first, after(*counts)]))


def both_preambles(a: Snippet, b: Snippet) -> str | None:
    """Returns one preamble for two snippets; None where a word of one means something else then."""
    one, other = a.preamble, b.preamble
    if one.text == other.text:
        return one.text
    if one.includes or other.includes:  # nobody knows their names
        return None
    if _holds(one.text, other.text):
        return None if (one.names - other.names) & _words(b.text) else one.text
    if _holds(other.text, one.text):
        return None if (other.names - one.names) & _words(a.text) else other.text
    if one.names & _words(b.text, other.text) or other.names & _words(a.text, one.text):
        return None
    return f"{one.text}\n{other.text}"


def _holds(text: str, part: str) -> bool:
    """Whether all lines of a text stand in another one."""
    lines, parts = text.split("\n"), part.split("\n")
    return not part or any(lines[n : n + len(parts)] == parts for n in range(len(lines)))


def _words(*texts: str) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text)}


def joined(parts: Sequence[str]) -> Composed:
    """Returns texts one after another, whose lines are still those of their snippets."""
    text, pieces = "", list[Piece]()
    for part in parts:
        line = text.count("\n")
        for piece in part.pieces if isinstance(part, Composed) else ():
            name = piece.part if not pieces else f"{piece.part.split(' ')[0]} {len(pieces) + 1}"
            pieces.append(Piece(line + piece.line, name, piece.text))
        text += part
    return Composed(text, tuple(pieces))


def number_in(reads: list[Operand], operand: Operand) -> int:
    """Returns an operand's number among what a node reads, behind which it goes if it is new."""
    known = (m for m, read in enumerate(reads) if same_place(read, operand))
    found = next(known, len(reads))
    if found == len(reads):
        reads.append(operand)
    return found


def knows_no_place(definition: Any) -> bool:
    """Whether a string sees nothing of its arrays but the elements in its place."""
    expr = definition.expr
    return not (expr.lookups or expr.dims or definition.draws or "index" in expr.used)


def kind_of(dtype: AnyDType, writes: Sequence[Operand], reads: Sequence[Operand]) -> str | None:
    """Returns the type of a local of a dtype: that of an array beside it; None for odd ones."""
    for letter, operands in (("y", writes), ("x", reads)):
        for n, operand in enumerate(operands):
            if operand.dtype == dtype:
                return f"typeof_{letter}{n}"
    return {"float32": "float", "float64": "double", "int32": "int", "int64": "long"}.get(
        str(dtype)
    )


@lru_cache(maxsize=1024)
def pointwise(text: Any, types: tuple[AnyDType, ...], preamble: str, name: str) -> Pointwise:
    """Returns the primitive of a string that a pass has made."""
    return Pointwise(text, result_type=types, preamble=preamble, name=name)
