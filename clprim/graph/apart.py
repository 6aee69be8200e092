"""Which elementwise kernels of a graph run by themselves, and what kept each out of a neighbour."""

from __future__ import annotations

from collections.abc import Callable

from clprim.graph.graph import Graph, Uses, buffer_of
from clprim.graph.passes.layout.moves import moves_of
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise

_Name = Callable[[Operand], str]


def apart(graph: Graph, names: _Name) -> list[str]:
    """Returns a line for every elementwise node and copy: why no other kernel runs it."""
    uses, results = graph.uses, graph.results()
    found: list[str] = []
    for n, node in enumerate(graph.nodes):
        if not isinstance(node.primitive, Pointwise) and moves_of(node) is None:
            continue
        reasons: dict[str, None] = {}
        if node.draws:
            reasons["it draws random numbers"] = None
        for read in node.reads:
            reasons[_before(graph, uses, n, read, names)] = None
        for write in node.writes:
            buffer = buffer_of(write)
            if buffer in results or buffer.kind != "temporary":
                reasons[f"{names(write)} is a result"] = None
            else:
                readers = [m for m in uses.readers.get(buffer, ()) if m != n]
                reasons[_behind(graph, readers, write, names)] = None
        what = ", ".join(map(names, node.writes))
        found.append(f"{node.primitive.what} of {what} stands alone: {'; '.join(reasons)}")
    return found


def _before(graph: Graph, uses: Uses, n: int, read: Operand, names: _Name) -> str:
    """Why the kernel that makes an operand does not run the ``n``-th node as well."""
    buffer, name = buffer_of(read), names(read)
    if buffer.kind != "temporary":
        return f"{name} is given"
    writers = [m for m in uses.writers.get(buffer, ()) if m != n]
    if len(writers) != 1:
        return f"{name} is written by {len(writers)} kernels"
    readers = len(uses.readers.get(buffer, ()))
    if readers > 1:
        return f"{name} is read by {readers} kernels"
    over = any(buffer_of(write) is buffer for write in graph.nodes[n].writes)
    if buffer in graph.results() and not over:
        return f"{name} is a result"
    maker = graph.nodes[writers[0]]
    if maker.writes[0].shape != graph.nodes[n].problem.shape:
        return f"{maker.primitive.what} makes {name} in another shape"
    return f"{maker.primitive.what} takes no string of this kind"


def _behind(graph: Graph, readers: list[int], write: Operand, names: _Name) -> str:
    """Why the kernel that reads a result does not compute it."""
    if len(readers) != 1:
        return f"{names(write)} is read by {len(readers)} kernels"
    return f"{graph.nodes[readers[0]].primitive.what} reads {names(write)} from memory"
