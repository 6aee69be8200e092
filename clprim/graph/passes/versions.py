"""Temporaries that are written anew in whole become others, so that each has one writer."""

from __future__ import annotations

from dataclasses import replace

from clprim.graph.graph import Buffer, Graph, Node, buffer_of, replanned
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device


def versions(graph: Graph, device: Device) -> Graph:
    """Gives a result that overwrites a whole temporary, as `relu_` does, memory of its own."""
    now: dict[Buffer, Buffer] = {}
    written: set[Buffer] = set()
    nodes: list[Node] = []

    def moved(operand: Operand) -> Operand:
        buffer = buffer_of(operand)
        return replace(operand, memory=(now[buffer], 0)) if buffer in now else operand

    for node in graph.nodes:
        reads = tuple(map(moved, node.reads))
        again = [w for w in node.writes if buffer_of(moved(w)) in written and _replaces(node, w)]
        before = dict(now)
        for operand in again:
            now[buffer_of(operand)] = Buffer(buffer_of(operand).nbytes)
        found = replanned(device, node, reads, tuple(map(moved, node.writes))) if again else None
        if found is None:
            now.clear()
            now.update(before)
            found = replace(node, reads=reads, writes=tuple(map(moved, node.writes)))
        written.update(map(buffer_of, found.writes))
        nodes.append(found)
    if not now:
        return graph
    return replace(graph.with_nodes(nodes), outputs=tuple(map(moved, graph.outputs)))


def _replaces(node: Node, operand: Operand) -> bool:
    """Whether a node writes all of a temporary, whatever was there."""
    buffer = buffer_of(operand)
    if buffer.kind != "temporary" or operand.size * operand.dtype.itemsize != buffer.nbytes:
        return False
    if isinstance(node.primitive, ContractionPrimitive):
        return not node.numbers[0]
    return isinstance(node.primitive, Pointwise)
