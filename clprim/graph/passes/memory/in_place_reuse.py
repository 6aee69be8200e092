"""In-place reuse: a result takes the place of an array that is read there for the last time.

So fewer bytes are alive at once, and what is written is in a near cache already.
"""

from __future__ import annotations

from clprim.graph.graph import Buffer, Graph, Node, buffer_of, replanned
from clprim.plan.strides import Operand
from clprim.primitives.fourier import Fourier
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device


def in_place_reuse(graph: Graph, device: Device) -> Graph:
    """Lets elementwise nodes, transforms and stores of contractions write over what they read."""
    uses, results, became = graph.uses, graph.results(), dict[Buffer, Buffer]()
    nodes: list[Node] = []
    for n, node in enumerate(graph.nodes):
        found = node
        for write in node.writes:
            new = buffer_of(write)
            if new.kind != "temporary" or uses.span(new)[0] != n:
                continue
            same = (buffer_of(read) for read in found.reads if read == write)
            old = next((b for b in same if _ends(found, b, write, results)), None)
            if old is None or uses.span(old)[1] != n or old.nbytes != new.nbytes:
                continue
            made = replanned(device, found, found.rebased({old: new}).reads, found.writes)
            if made is not None:
                found, became[old] = made, new
        nodes.append(found)
    if not became:
        return graph
    for old in reversed(became):  # what took a place may have lost it to another one
        became[old] = became.get(became[old], became[old])
    moved = [node.rebased(became, became) for node in nodes]
    return graph.with_nodes(moved, f"in-place reuse: {len(became)} results in the place of others")


def _ends(node: Node, buffer: Buffer, place: Operand, results: set[Buffer]) -> bool:
    """Whether a node reads a temporary nowhere but where it writes at the same time."""
    if buffer.kind != "temporary" or buffer in results:
        return False
    if any(buffer_of(write) is buffer for write in node.writes):
        return False
    numbers = [k for k, read in enumerate(node.reads) if buffer_of(read) is buffer]
    if any(node.reads[k] != place for k in numbers):
        return False
    if isinstance(node.primitive, Pointwise):
        asked = {lookup.array for lookup in node.primitive.definition.expr.lookups}
        return asked.isdisjoint(numbers)
    if isinstance(node.primitive, Fourier):
        return numbers == [0]
    # Behind both operands there are a bias, which has another shape, and what an epilogue reads.
    return isinstance(node.primitive, ContractionPrimitive) and min(numbers) > 1
