"""What depends on constants alone is computed once, and weights that stay are packed once."""

from __future__ import annotations

from dataclasses import replace

from clprim.arrays.array import allocated
from clprim.call.packed import PackedWeight
from clprim.call.primitive import NoPlanError
from clprim.call.product import ContractionPrimitive
from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, planned
from clprim.graph.replay import Replay
from clprim.plan.strides import Operand
from clprim.runtime.device import Device


def constants(graph: Graph, device: Device) -> Graph:
    """Runs nodes that read nothing but constants that stay, and keeps packed weights."""
    writers = Uses(graph.nodes).writers
    known: list[Node] = []
    nodes: list[Node] = []
    made: dict[Buffer, Buffer] = {}
    for node in graph.nodes:
        reads = [buffer_of(r) for r in node.reads]
        writes = [buffer_of(w) for w in node.writes]
        alone = all(b.kind == "temporary" and len(writers[b]) == 1 for b in writes)
        if reads and alone and not node.draws and all(b.frozen or b in made for b in reads):
            known.append(node)
            made |= {b: Buffer(b.nbytes, "constant") for b in writes}
        else:
            nodes.append(node)
    if known:
        _run(device, graph.what, known, made)
    found = [_packed(device, _moved(node, made)) for node in nodes]
    notes = [f"constants: {len(known)} nodes run once"] if known else []
    outputs = tuple(_placed(o, made) for o in graph.outputs)
    return replace(graph.with_nodes(found, *notes), outputs=outputs)


def _run(device: Device, what: str, known: list[Node], made: dict[Buffer, Buffer]) -> None:
    """Runs nodes, and gives their results to constants."""
    outputs = tuple(w for node in known for w in node.writes)
    replay = Replay(device, Graph(what, (), tuple(known), outputs))
    memory = replay(())
    for operand in outputs:
        old = buffer_of(operand)
        new, size = made[old], operand.size
        new.memory = replay.memory_of(old, memory)
        array = allocated(device, operand.shape, operand.dtype, operand.strides, 0 * size)
        array.base_data = new.memory
        new.weight = PackedWeight(array)


def _placed(operand: Operand, made: dict[Buffer, Buffer]) -> Operand:
    buffer = buffer_of(operand)
    return replace(operand, memory=(made[buffer], 0)) if buffer in made else operand


def _moved(node: Node, made: dict[Buffer, Buffer]) -> Node:
    """The same node, which reads constants where it read what they are made of."""
    if not any(buffer_of(r) in made for r in node.reads):
        return node
    reads = tuple(_placed(r, made) for r in node.reads)
    return replace(node, reads=reads)


def _packed(device: Device, node: Node) -> Node:
    """The same node, whose weight stays packed where it is a constant."""
    if not isinstance(node.primitive, ContractionPrimitive) or node.kept:
        return node
    weight = buffer_of(node.reads[1]).weight
    if weight is None:
        return node
    rest = node.numbers, node.options, {"w": weight}, node.line
    try:
        return planned(device, node.primitive, node.reads, node.writes, *rest)
    except NoPlanError:
        return node
