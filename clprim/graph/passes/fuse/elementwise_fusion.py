"""Elementwise fusion: chains and trees of nodes become one, whose string is made of theirs.

Values between them are not stored, so that float16 and bfloat16 are not rounded there; all else
keeps its bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.dtypes import AnyDType
from clprim.errors import ClprimError
from clprim.graph.graph import Graph, Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.snippets import (
    MOST_ARRAYS,
    block,
    both_preambles,
    fresh,
    joined,
    kind_of,
    number_in,
    pointwise,
)
from clprim.graph.passes.layout.moves import fills_part
from clprim.graph.passes.layout.reshaping import in_shape
from clprim.graph.passes.rewrite import Rewrite
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device

_DOUBLES = (np.dtype(np.float64), np.dtype(np.complex128))


def elementwise_fusion(graph: Graph, device: Device) -> Graph:
    """Joins elementwise nodes with the elementwise nodes that read what they make."""
    rewrite, joins = Rewrite(graph, device), 0
    for n in range(len(rewrite.nodes)):
        while _join(rewrite, n):
            joins += 1
    return rewrite.graph_with(f"elementwise fusion: {joins} nodes joined with their readers")


def _join(rewrite: Rewrite, n: int) -> bool:
    node = rewrite.nodes[n]
    if node is None or not _is_elementwise(node):
        return False
    for maker, k in rewrite.makers(n):
        found = _fused(rewrite, maker, n, k)
        if found is not None:
            rewrite.join(maker, n, found)
            return True
    return False


def _is_elementwise(node: Node) -> bool:
    return isinstance(node.primitive, Pointwise) and not (node.draws or fills_part(node))


def _fused(rewrite: Rewrite, first: int, second: int, k: int) -> Node | None:
    """Returns one node for two, of which the second reads the first's result as array ``k``."""
    a = rewrite.node(first)
    if not _is_elementwise(a) or not rewrite.can_sink(first, second):
        return None
    b = in_shape(rewrite.device, rewrite.node(second), a.problem.shape)
    if b is None:
        return None
    made = [i for i, w in enumerate(a.writes) if same_place(w, b.reads[k])]
    if not made or not _keeps_values(a.writes[made[0]].dtype, a, b):
        return None
    # What else reads the first node's results wants them stored.
    stored = [
        i
        for i, w in enumerate(a.writes)
        if buffer_of(w).kind != "temporary"
        or buffer_of(w) in rewrite.results
        or any(r != second for r in rewrite.uses.readers.get(buffer_of(w), ()))
        or any(not same_place(w, r) for r in b.reads if buffer_of(r) is buffer_of(w))
    ]
    return _joined(rewrite.device, a, b, made[0], stored)


def _keeps_values(dtype: AnyDType, a: Node, b: Node) -> bool:
    """Whether a local of a dtype is what was stored, and literals mean the same in both strings."""
    if dtype.itemsize < 4 and dtype.kind in "biu":
        return False
    doubles = [
        any(d in _DOUBLES for d in (*(o.dtype for o in (*n.reads, *n.writes)), *n.problem.scalars))
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
        names_b[f"x{n}"] = f"x{number_in(reads, read)}"
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
    except (ClprimError, ValueError):
        return None
    numbers, line = (*a.numbers, *b.numbers), b.line or a.line
    told = {"primitive": primitive, "numbers": numbers, "options": b.problem.shape, "line": line}
    node = replanned(device, b, reads, writes, **told)
    scalars = (*a.problem.scalars, *b.problem.scalars)
    return node if node is not None and node.problem.scalars == scalars else None
