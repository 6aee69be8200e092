"""Chains and trees of elementwise nodes become one node, whose string is made of theirs.

Values between them are not stored, so that float16 and bfloat16 are not rounded there; all else
keeps its bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim.call.primitive import NoPlanError
from clprim.dtypes import AnyDType
from clprim.errors import ClprimError
from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, planned, same_place
from clprim.graph.passes.moves import fills_part
from clprim.graph.passes.strings import block, both_preambles, fresh, joined
from clprim.graph.passes.views import in_shape
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device

# Arrays of one kernel: with more, addresses spill registers and drivers refuse.
MOST_ARRAYS = 16
_DOUBLE = np.dtype(np.float64)


def elementwise(graph: Graph, device: Device) -> Graph:
    """Joins elementwise nodes with the elementwise nodes that read what they make."""
    nodes: list[Node | None] = [*graph.nodes]
    results, joins, uses = graph.results(), 0, Uses(nodes)
    for n in range(len(nodes)):
        again = True
        while again:
            again = False
            node = nodes[n]
            if node is None or not _is_elementwise(node):
                break
            for k in range(len(node.reads)):
                producer = uses.only_writer(buffer_of(node.reads[k]))
                if producer is None or producer >= n:
                    continue
                found = _fused(device, nodes, uses, producer, n, k, results)
                if found is not None:
                    uses.join(nodes, producer, n, found)
                    joins, again = joins + 1, True
                    break
    if not joins:
        return graph
    left = [node for node in nodes if node is not None]
    return graph.with_nodes(left, f"elementwise: {joins} nodes joined with their readers")


def _is_elementwise(node: Node) -> bool:
    return isinstance(node.primitive, Pointwise) and not (node.draws or fills_part(node))


def _fused(
    device: Device,
    nodes: list[Node | None],
    uses: Uses,
    first: int,
    second: int,
    k: int,
    results: set[Buffer],
) -> Node | None:
    """Returns one node for two, of which the second reads the first's result as array ``k``."""
    a, b = nodes[first], nodes[second]
    assert a is not None
    assert b is not None
    if not _is_elementwise(a):
        return None
    if movable(nodes, uses, first, second) is False:
        return None
    moved = in_shape(device, b, a.problem.shape)
    if moved is None:
        return None
    b = moved
    made = [i for i, w in enumerate(a.writes) if same_place(w, b.reads[k])]
    if not made or not _keeps_values(a.writes[made[0]].dtype, a, b):
        return None
    # What else reads the first node's results wants them stored.
    stored = [
        i
        for i, w in enumerate(a.writes)
        if buffer_of(w).kind != "temporary"
        or buffer_of(w) in results
        or any(r != second for r in uses.readers.get(buffer_of(w), ()))
        or any(not same_place(w, r) for r in b.reads if buffer_of(r) is buffer_of(w))
    ]
    return _joined(device, a, b, made[0], stored)


def movable(nodes: list[Node | None], uses: Uses, first: int, second: int) -> bool:
    """Whether a node can run where a later one does: nobody between minds."""
    node = nodes[first]
    assert node is not None
    for buffer in {buffer_of(w) for w in node.writes}:
        touched = (*uses.readers.get(buffer, ()), *uses.writers.get(buffer, ()))
        if any(first < n < second for n in touched):
            return False
    reads = {buffer_of(r) for r in node.reads}
    return not any(first < n < second for b in reads for n in uses.writers.get(b, ()))


def lone_producers(
    nodes: list[Node | None], uses: Uses, n: int, results: set[Buffer]
) -> list[tuple[int, int]]:
    """Returns whose result no node reads but the ``n``-th, as (node, array of the ``n``-th).

    All of them can run in its place.
    """
    node, found = nodes[n], []
    assert node is not None
    for k, read in enumerate(node.reads):
        buffer = buffer_of(read)
        producer = uses.only_writer(buffer)
        if producer is None or producer >= n or buffer in results:
            continue
        if uses.readers.get(buffer) == [n] and movable(nodes, uses, producer, n):
            found.append((producer, k))
    return found


def lone_producer(nodes: list[Node | None], uses: Uses, n: int, results: set[Buffer]) -> int | None:
    """Returns whose result the ``n``-th node is the only one to read, as its first operand."""
    node = nodes[n]
    assert node is not None
    for producer, k in lone_producers(nodes, uses, n, results):
        before = nodes[producer]
        if k == 0 and before is not None and same_place(before.writes[0], node.reads[0]):
            return producer
    return None


def _keeps_values(dtype: AnyDType, a: Node, b: Node) -> bool:
    """Whether a local of a dtype is what was stored, and literals mean the same in both strings."""
    if dtype.itemsize < 4 and dtype.kind in "biu":
        return False
    doubles = [
        any(o.dtype == _DOUBLE for o in (*n.reads, *n.writes)) or _DOUBLE in n.problem.scalars
        for n in (a, b)
    ]
    return doubles[0] == doubles[1]


def _joined(device: Device, a: Node, b: Node, made: int, stored: list[int]) -> Node | None:
    """Returns the node that computes both; None where it cannot be."""
    first, second = a.primitive.definition, b.primitive.definition  # type: ignore[attr-defined]
    reads: list[Any] = [*a.reads]
    names_a = {f"x{n}": f"x{n}" for n in range(len(a.reads))}
    names_b: dict[str, str] = {}
    local = fresh([first.expr.text, second.expr.text])
    locals_ = {i: f"{local}{'' if i == made else f'_{i}'}" for i in range(len(a.writes))}
    asked = {lookup.array for lookup in second.expr.lookups}
    for n, read in enumerate(b.reads):
        inside = [i for i, w in enumerate(a.writes) if same_place(w, read)]
        if inside and n not in asked:
            names_b[f"x{n}"] = locals_[inside[0]]
            continue
        if inside or any(buffer_of(w) is buffer_of(read) for w in a.writes):
            return None
        known = [m for m, r in enumerate(reads) if same_place(r, read)]
        if not known:
            known = [len(reads)]
            reads.append(read)
        names_b[f"x{n}"] = f"x{known[0]}"
    writes = [*b.writes, *(a.writes[i] for i in stored)]
    if len(reads) + len(writes) > MOST_ARRAYS:
        return None
    names_a |= {f"y{i}": name for i, name in locals_.items()}
    names_b |= {f"w{n}": f"w{n + len(a.numbers)}" for n in range(len(b.numbers))}
    kinds = {name: kind_of(a.writes[i].dtype, writes, reads) for i, name in locals_.items()}
    if None in kinds.values():
        return None
    types = {name: str(kind) for name, kind in kinds.items()}
    parts = [
        *(f"{types[name]} {name} = 0;\n" for name in locals_.values()),
        block(first.expr, names_a, types),
        block(second.expr, names_b, types),
        *(f"y{len(b.writes) + m} = {locals_[i]};\n" for m, i in enumerate(stored)),
    ]
    helpers = both_preambles(first.expr, second.expr)
    if helpers is None:
        return None
    name = first.name
    name = name if name.startswith("fused_") or name == "pointwise" else f"fused_{name}"
    try:
        primitive = pointwise(joined(parts), tuple(w.dtype for w in writes), helpers, name)
        numbers = (*a.numbers, *b.numbers)
        node = planned(
            device, primitive, reads, writes, numbers, b.problem.shape, line=b.line or a.line
        )
    except (ClprimError, NoPlanError, ValueError):
        return None
    same = node.problem.scalars == (*a.problem.scalars, *b.problem.scalars)
    return node if same else None


def kind_of(dtype: AnyDType, writes: Any, reads: Any) -> str | None:
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
