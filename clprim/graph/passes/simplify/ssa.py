"""Static single assignment: a buffer that is written anew in whole becomes another one."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np

from clprim.graph.graph import Buffer, Graph, Node, buffer_of, is_whole, planned, rebased, replanned
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device

_COPY = Pointwise("y0 = x0;", name="upload")


def copy_on_write(graph: Graph, device: Device) -> Graph:
    """Copies constants that stay to temporaries where a call writes to them, or returns them."""
    written = chain(*(node.written for node in graph.nodes), map(buffer_of, graph.outputs))
    own = {b: Buffer(b.nbytes) for b in written if b.frozen and b.nbytes}
    if not own:
        return graph
    nodes: list[Node] = []
    for buffer, new in own.items():
        dtype = np.dtype(np.uint8 if buffer.nbytes % 4 else np.uint32)
        shape = (buffer.nbytes // dtype.itemsize,)
        old, now = (Operand(shape, (dtype.itemsize,), 0, dtype, (b, 0)) for b in (buffer, new))
        nodes.append(planned(device, _COPY, (old,), (now,), (), shape))
    nodes += [node.rebased(own, own) for node in graph.nodes]
    outputs = tuple(rebased(o, own) for o in graph.outputs)
    note = f"copy on write: {len(own)} constants are copied in every call"
    return replace(graph.with_nodes(nodes, note), outputs=outputs)


def ssa(graph: Graph, device: Device) -> Graph:
    """Gives a result that overwrites a whole temporary, as `relu_` does, memory of its own."""
    now: dict[Buffer, Buffer] = {}
    written: set[Buffer] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        found = None
        again = [
            buffer_of(w)
            for w in node.writes
            if buffer_of(rebased(w, now)) in written and _replaces(node, w)
        ]
        if again:
            after = now | {buffer: Buffer(buffer.nbytes) for buffer in again}
            moved = replace(node.rebased(now), writes=node.rebased({}, after).writes)
            found = replanned(device, node, moved.reads, moved.writes)
            now = now if found is None else after
        found = node.rebased(now, now) if found is None else found
        written.update(map(buffer_of, found.writes))
        nodes.append(found)
    if not now:
        return graph
    outputs = tuple(rebased(o, now) for o in graph.outputs)
    return replace(graph.with_nodes(nodes), outputs=outputs)


def _replaces(node: Node, operand: Operand) -> bool:
    """Whether a node writes all of a temporary, whatever was there."""
    if buffer_of(operand).kind != "temporary" or not is_whole(operand):
        return False
    if isinstance(node.primitive, ContractionPrimitive):
        return not node.numbers[0]
    return isinstance(node.primitive, Pointwise)
