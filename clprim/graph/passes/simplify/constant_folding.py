"""Constant folding: what depends on constants alone is computed once; weights are packed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from clprim.arrays.array import Array, array_over
from clprim.arrays.memory import allocate_workspace
from clprim.call.packed import PackedWeight
from clprim.graph.graph import Buffer, Graph, Node, buffer_of, layout_of, replanned
from clprim.graph.steps import enqueue, steps_of
from clprim.graph.store import Written, collect, kept_with
from clprim.plan.strides import Operand
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device

_BYTES = np.dtype(np.uint8)


def constant_folding(graph: Graph, device: Device) -> Graph:
    """Runs nodes that read nothing but constants that stay, and what such nodes make."""
    known = _known(graph)
    if not known:
        return graph
    uses, made = graph.uses, dict[Buffer, Buffer]()
    nodes: list[Node] = []
    for n, node in enumerate(graph.nodes):
        if n in known:
            # What nobody has written yet holds anything, in memory of its own.
            for buffer in node.read:
                if buffer.kind == "temporary" and buffer not in made:
                    made[buffer] = _constant(device, buffer.nbytes)
        moved = node.rebased(made)
        if n not in known:
            nodes.append(moved)
            continue
        writes = [buffer_of(w) for w in node.writes]
        if any(b in made or len(uses.writers[b]) > 1 for b in writes):
            for buffer in writes:
                if buffer not in made:
                    made[buffer] = _constant(device, buffer.nbytes)
            collect(_written(device, moved, {b: made[b].memory for b in writes}))
        else:
            made.update(zip(writes, _computed(device, moved), strict=True))
    return graph.with_nodes(nodes, f"constant folding: {len(known)} nodes run once")


def _known(graph: Graph) -> set[int]:
    """Numbers of the nodes that run once.

    What they write nobody else writes, or reads before it is whole, and no call returns it.
    """
    uses, results = graph.uses, graph.results()
    found = {n for n, node in enumerate(graph.nodes) if not (node.draws or node.changed)}
    before = -1
    while len(found) != before:
        before = len(found)
        for n in sorted(found):
            node = graph.nodes[n]
            writes = [buffer_of(w) for w in node.writes]
            alone = all(
                b.kind == "temporary"
                and b not in results
                and found.issuperset(uses.writers[b])
                and all(r in found or r > uses.writers[b][-1] for r in uses.readers.get(b, ()))
                for b in writes
            )
            fixed = all(
                b.frozen or (b in uses.writers and found.issuperset(uses.writers[b]))
                for b in node.read
            )
            if not (alone and fixed):
                found.discard(n)
    return found


def _constant(device: Device, nbytes: int) -> Buffer:
    """A constant that stays, whose memory is still to be written."""
    buffer = Buffer(nbytes, "constant")
    (buffer.memory,) = allocate_workspace(device, (max(nbytes, 1),))
    whole = Operand((nbytes,), (1,), 0, _BYTES, (buffer, 0))
    buffer.weight = PackedWeight(array_of(device, whole))
    return buffer


def weight_packing(graph: Graph, device: Device) -> Graph:
    """Lets contractions keep what kernels make of weights that are constants."""
    return graph.with_nodes([_packed(device, node) for node in graph.nodes])


def _computed(device: Device, node: Node) -> list[Buffer]:
    """Returns what a node makes of constants, computed now or before."""

    def make() -> list[Buffer]:
        made = [_constant(device, buffer_of(w).nbytes) for w in node.writes]
        memory = [buffer.memory for buffer in made]
        _run(device, node, dict(zip(map(buffer_of, node.writes), memory, strict=True)))
        return made

    key = node.primitive, node.options, repr(node.numbers), node.reads, node.writes
    return [*made_once(node.reads, key, make)]


def made_once(constants: Iterable[Operand], key: Hashable, make: Callable[[], Any]) -> Any:
    """Returns what is made of constants, now or before."""
    weights = [w for o in constants if (w := buffer_of(o).weight) is not None]
    return kept_with(weights, key, make) if weights else make()


def _written(device: Device, node: Node, written: dict[Buffer, Any]) -> Written:
    """Launches a node, and returns what does so again."""
    weights = [weight for r in node.reads if (weight := buffer_of(r).weight) is not None]
    return Written(weights, lambda: _run(device, node, written))


def _run(device: Device, node: Node, written: dict[Buffer, Any]) -> None:
    """Launches a node, whose results go to the memory of their buffers."""
    memory = {buffer: buffer.memory for buffer in node.read} | written
    enqueue(device, steps_of(device, (node,)), memory)


def array_of(device: Device, operand: Operand) -> Array:
    """Returns an operand of a constant as an array."""
    return array_over(device, buffer_of(operand).memory, *layout_of(operand))


def constant_of(array: Array) -> Operand:
    """Returns a new array as an operand over a constant that stays."""
    buffer = Buffer(array.nbytes, "constant", array.base_data)
    buffer.weight = PackedWeight(array)
    return Operand(array.shape, array.strides, array.offset, array.dtype, (buffer, 0))


def _packed(device: Device, node: Node) -> Node:
    """The same node, whose weight stays packed where it is a constant."""
    if not isinstance(node.primitive, ContractionPrimitive) or node.kept:
        return node
    reads, options = node.reads, node.options
    if getattr(options, "swap", False) and buffer_of(reads[0]).frozen:
        # The larger operand is gathered where neither stays.
        reads, options = (reads[1], reads[0], *reads[2:]), options._replace(swap=False)
    weight = buffer_of(reads[1]).weight
    if weight is None:
        return node
    told = {"options": options, "kept": {"w": weight}}
    return replanned(device, node, reads, node.writes, **told) or node
