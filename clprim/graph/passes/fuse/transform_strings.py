"""Strings of Fourier transforms, which elementwise nodes around them become.

What makes the numbers that a transform reads is its string on these, what follows the result is the
one on what it writes. Where its kernels run no such string the nodes stay apart.
"""

from __future__ import annotations

from typing import Any

from clprim.dtypes import complex_dtype, real_dtype
from clprim.graph.graph import Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.snippets import knows_no_place, number_in
from clprim.graph.passes.layout.reshaping import broadcast, in_place_of
from clprim.language.composed import Composed
from clprim.language.rename import renamed
from clprim.plan.strides import Operand
from clprim.primitives.fourier import Options
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device


def with_store(device: Device, a: Node, b: Node, k: int) -> Node | None:
    """Returns a transform whose results an elementwise node maps before they are stored."""
    options: Options = a.options
    (y,) = a.writes
    if options.store or options.pairs or not _is_string(b) or y.shape != b.problem.shape:
        return None
    arrays: list[Operand] = []
    text = _text(b, b.reads[k], arrays)
    if not same_place(b.reads[k], y) or any(buffer_of(r) is buffer_of(y) for r in arrays):
        return None
    told: dict[str, Any] = {"options": options._replace(store=text), "line": b.line or a.line}
    told["numbers"] = *a.numbers, *b.numbers
    made = replanned(device, a, (*a.reads, *arrays), b.writes, **told)
    return _alike(made, "store", b)


def with_load(device: Device, a: Node, b: Node) -> Node | None:
    """Returns a transform of what an elementwise node makes."""
    options: Options = b.options
    x, table, *others = b.reads
    if options.load or options.pairs or not _is_string(a) or x.size > a.writes[0].size:
        return None
    before = in_place_of(device, a, a.writes[0], x)
    if before is None or not same_place(before.writes[0], x):
        return None
    if before.problem.shape != x.shape or any(buffer_of(r) is buffer_of(x) for r in others):
        return None
    parts = real_dtype(x.dtype)
    first = [r for r in before.reads if r.dtype in (parts, complex_dtype(parts))]
    if not first:
        return None
    read = max(first, key=lambda r: r.size)
    arrays: list[Operand] = []
    load = options._replace(
        load=_text(before, read, arrays), arrays=len(arrays), numbers=len(before.numbers)
    )
    reads = broadcast(read, x.shape), table, *arrays, *others
    numbers = b.numbers[0], *before.numbers, *b.numbers[1:]
    made = replanned(device, b, reads, b.writes, options=load, numbers=numbers)
    return _alike(made, "load", before)


def _is_string(node: Node) -> bool:
    """Whether a node is a string that a transform can have."""
    if not isinstance(node.primitive, Pointwise) or len(node.writes) != 1:
        return False
    definition = node.primitive.definition
    return knows_no_place(definition) and not definition.preamble


def _text(node: Node, first: Operand, arrays: list[Operand]) -> Composed:
    """Returns a node's string with an operand as ``x0``; what else it reads joins some arrays."""
    names = {
        f"x{n}": "x0" if same_place(read, first) else f"x{number_in(arrays, read) + 1}"
        for n, read in enumerate(node.reads)
    }
    return renamed(node.primitive.definition.expr, names)  # type: ignore[attr-defined]


def _alike(made: Node | None, part: str, string: Node) -> Node | None:
    """A transform whose string makes of what it reads what the node that it was made."""
    if made is None:
        return None
    found = getattr(made.problem.transform, part)
    same = found.y == string.writes[0].dtype and found.scalars == string.problem.scalars
    return made if same else None
