"""What depends on constants alone is computed once, and weights that stay are packed once."""

from __future__ import annotations

from dataclasses import replace

from clprim.arrays.array import Array, array_over
from clprim.arrays.memory import allocate_workspace
from clprim.call.packed import PackedWeight
from clprim.call.primitive import NoPlanError
from clprim.call.product import ContractionPrimitive
from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, planned
from clprim.graph.steps import steps_of
from clprim.graph.store import kept_with
from clprim.plan.strides import Operand
from clprim.runtime.device import Device


def constants(graph: Graph, device: Device) -> Graph:
    """Runs nodes that read nothing but constants that stay."""
    writers = Uses(graph.nodes).writers
    nodes: list[Node] = []
    made: dict[Buffer, Buffer] = {}
    for node in graph.nodes:
        moved = reading(node, made)
        reads = [buffer_of(r) for r in moved.reads]
        writes = [buffer_of(w) for w in node.writes]
        alone = all(b.kind == "temporary" and len(writers[b]) == 1 for b in writes)
        if reads and alone and not (node.draws or node.changed) and all(b.frozen for b in reads):
            made.update(zip(writes, computed(device, moved), strict=True))
        else:
            nodes.append(moved)
    if not made:
        return graph
    outputs = tuple(_placed(o, made) for o in graph.outputs)
    note = f"constants: {len(graph.nodes) - len(nodes)} nodes run once"
    return replace(graph.with_nodes(nodes, note), outputs=outputs)


def packed(graph: Graph, device: Device) -> Graph:
    """Lets contractions keep what kernels make of weights that are constants."""
    return graph.with_nodes([_packed(device, node) for node in graph.nodes])


def computed(device: Device, node: Node) -> list[Buffer]:
    """Returns what a node makes of constants, computed now or before.

    Raises:
        ClprimError: What launching it raises.
    """
    weights = [buffer_of(r).weight for r in node.reads]
    key = node.primitive, node.options, repr(node.numbers), node.reads, node.writes
    known = [w for w in weights if w is not None]
    try:
        return [*kept_with(known, key, lambda: _run(device, node))]
    except TypeError:  # options that cannot be hashed
        return _run(device, node)


def _run(device: Device, node: Node) -> list[Buffer]:
    memory = {buffer_of(r): buffer_of(r).memory for r in node.reads}
    made = [Buffer(buffer_of(w).nbytes, "constant") for w in node.writes]
    for operand, new in zip(node.writes, made, strict=True):
        (new.memory,) = allocate_workspace(device, (new.nbytes,))
        memory[buffer_of(operand)] = new.memory
        new.weight = PackedWeight(array_of(device, operand, new))
    for step in steps_of(device, (node,)):
        for _, buffer in step.buffers:
            if buffer not in memory:
                (found,) = allocate_workspace(device, (buffer.nbytes,))
                memory[buffer] = buffer.memory if buffer.kind == "constant" else found
        places = tuple((position, n) for n, (position, _) in enumerate(step.buffers))
        step.launch.enqueue([memory[b] for _, b in step.buffers], places, step.numbers)
    return made


def array_of(device: Device, operand: Operand, buffer: Buffer) -> Array:
    """Returns an operand of a constant as an array."""
    where = operand.shape, operand.dtype, operand.strides, operand.offset, operand.size
    return array_over(device, buffer.memory, *where)


def constant_of(array: Array) -> Operand:
    """Returns a new array as an operand over a constant that stays."""
    buffer = Buffer(array.nbytes, "constant", array.base_data)
    buffer.weight = PackedWeight(array)
    return Operand(array.shape, array.strides, array.offset, array.dtype, (buffer, 0))


def _placed(operand: Operand, made: dict[Buffer, Buffer]) -> Operand:
    buffer = buffer_of(operand)
    return replace(operand, memory=(made[buffer], 0)) if buffer in made else operand


def reading(node: Node, made: dict[Buffer, Buffer]) -> Node:
    """The same node, which reads constants where it read what they are made of."""
    if not any(buffer_of(r) in made for r in node.reads):
        return node
    return replace(node, reads=tuple(_placed(r, made) for r in node.reads))


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
