"""Images between nodes get the memory format that is cheapest over the whole graph.

Strides of intermediate results are free: whatever a program asked for, each becomes contiguous or
channels-last. Costs are bytes moved, as a device with wide vectors moves them:

    a convolution          its input and its result, less where both are channels-last, and much
                           more where they differ
    an elementwise node    what lies otherwise than its result
    a copy                 everything, where its ends differ; else it can go

What is given and what is returned stays as it is. Sums are added up in another order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from clprim.call.gate import GatePrimitive
from clprim.call.pieces import PiecesPrimitive
from clprim.call.product import ContractionPrimitive
from clprim.graph.graph import Buffer, Graph, Node, buffer_of, replanned
from clprim.graph.passes.moves import moves_of
from clprim.graph.relocation import Relocation, relocation
from clprim.grouped import Grouped
from clprim.plan.strides import Operand, dense_strides
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction
from clprim.runtime.device import Device

_LAST = (0, 2, 3, 1)
_CONVOLUTIONS = "conv2d", "conv_transpose2d"
# Of a convolution's bytes: what channels-last saves, and what it costs where formats differ.
_SAVED, _MIXED = 0.25, 3.0
# Sweeps in which images change one by one; each makes the graph cheaper.
_SWEEPS = 8


def formats(graph: Graph, device: Device) -> Graph:
    """Changes memory formats of temporaries on devices whose convolutions have a better one."""
    if not device.traits.is_cpu:
        return graph
    images = _images(graph)
    if not any(_is_convolution(node) for node in graph.nodes) or not images:
        return graph
    while True:
        found = _cheapest(graph, images)
        places = {b: _places(images[b], last) for b, last in found.items()}
        changed = {b: place for b, place in places.items() if place is not None}
        if not changed:
            return graph
        moved = [_moved(device, node, changed) for node in graph.nodes]
        nodes = [node for node in moved if node is not None]
        if len(nodes) == len(moved):
            return graph.with_nodes(nodes, f"formats: {len(changed)} images lie otherwise")
        # Images of nodes that refuse another format stay, and the rest is decided anew.
        stay = {
            buffer
            for node, other in zip(graph.nodes, moved, strict=True)
            if other is None
            for buffer in node.buffers()
        }
        images = {b: o for b, o in images.items() if b not in stay}


def _images(graph: Graph) -> dict[Buffer, Operand]:
    """Temporaries that may lie in another format: every node sees the whole of them, or views."""
    found, fixed = dict[Buffer, Operand](), {*map(buffer_of, graph.outputs)}
    convolved = {b for node in graph.nodes if _is_convolution(node) for b in node.buffers()}
    for node in graph.nodes:
        for operand in (*node.writes, *node.reads):
            if _is_image(operand):
                found.setdefault(buffer_of(operand), operand)
    for node in graph.nodes:
        known, product = _knows_formats(node), isinstance(node.primitive, ContractionPrimitive)
        for operand in (*node.writes, *node.reads):
            buffer = buffer_of(operand)
            whole = found.get(buffer)
            if whole is None or (
                (known or (product and buffer in convolved)) and _follows(operand, whole)
            ):
                continue
            fixed.add(buffer)
    return {b: o for b, o in found.items() if b not in fixed and b.kind == "temporary"}


def _follows(operand: Operand, whole: Operand) -> bool:
    """Whether an operand over an image has strides in the other format as well."""
    if operand == whole:
        return True
    places = _places(whole, not _is_last(whole))
    return places is not None and places(operand, operand.memory) is not None


def _places(whole: Operand, last: bool) -> Relocation | None:
    """Where elements of an image lie in a format; None where they lie so already."""
    to = _placed(whole, last)
    return None if to == whole else relocation(whole, to)


def _is_image(operand: Operand) -> bool:
    """Whether an operand is all of a piece of memory, in one of two formats that differ."""
    if operand.ndim != 4 or operand.size * operand.dtype.itemsize != buffer_of(operand).nbytes:
        return False
    _, channels, height, width = operand.shape
    differ = channels > 1 and height * width > 1
    return differ and any(_placed(operand, last) == operand for last in (False, True))


def _placed(operand: Operand, last: bool) -> Operand:
    order = _LAST if last else range(4)
    strides = dense_strides(operand.shape, operand.dtype.itemsize, order)
    return replace(operand, strides=strides)


def _knows_formats(node: Node) -> bool:
    """Whether a node computes the same whatever the strides of its arrays are."""
    kinds = Pointwise, Reduction, Grouped, PiecesPrimitive, GatePrimitive
    return _is_convolution(node) or isinstance(node.primitive, kinds)


def _is_convolution(node: Node) -> bool:
    primitive = node.primitive
    return isinstance(primitive, ContractionPrimitive) and primitive.what in _CONVOLUTIONS


class _Layout:
    """Which images are channels-last, and what the nodes that touch them cost."""

    def __init__(self, graph: Graph, images: dict[Buffer, Operand]) -> None:
        self.nodes, self.images = graph.nodes, images
        self.last = {b: _is_last(operand) for b, operand in images.items()}
        self.touching: dict[Buffer, list[int]] = {}
        for n, node in enumerate(graph.nodes):
            for buffer in dict.fromkeys(node.buffers()):
                self.touching.setdefault(buffer, []).append(n)

    def cost(self, nodes: Iterable[int]) -> float:
        """Bytes that some nodes move."""
        return sum(self._cost(self.nodes[n]) for n in nodes)

    def _is_last(self, operand: Operand) -> bool | None:
        """Whether an operand is channels-last; None where that makes no difference."""
        last = self.last.get(buffer_of(operand))
        return _is_last(operand) if last is None else last

    def _cost(self, node: Node) -> float:
        if not node.writes:
            return 0.0  # an optimizer's step, which changes what it reads
        result = node.writes[0]
        to = self._is_last(result)
        others = [o for o in node.reads if self._is_last(o) not in (None, to)]
        nbytes = result.size * result.dtype.itemsize
        if _is_convolution(node):
            x = self._is_last(node.reads[0])
            mixed = [o for o in others if o is not node.reads[0] and o is not node.reads[1]]
            cost = float(sum(o.size * o.dtype.itemsize for o in mixed))
            whole = nbytes + node.reads[0].size * node.reads[0].dtype.itemsize
            if x is not None and to is not None and x != to:
                return cost + whole + _MIXED * nbytes
            return cost + whole * (1 - _SAVED if to or (to is None and x) else 1)
        if to is None or not others:
            return 0.0
        cost = float(sum(o.size * o.dtype.itemsize for o in others))
        return 2 * cost if moves_of(node) is not None else cost


def _is_last(operand: Operand) -> bool | None:
    if operand.ndim != 4 or operand.shape[1] == 1 or operand.shape[2] * operand.shape[3] == 1:
        return None
    _, channel, row, column = operand.strides
    return channel < (column if operand.shape[3] > 1 else row)


def _cheapest(graph: Graph, images: dict[Buffer, Operand]) -> dict[Buffer, bool]:
    """Returns which images are channels-last at the least cost that was found."""
    layout, every = _Layout(graph, images), range(len(graph.nodes))
    given = {b: bool(last) for b, last in layout.last.items()}
    least, best = layout.cost(every), given
    for start in (given, dict.fromkeys(images, True), dict.fromkeys(images, False)):
        layout.last = dict(start)
        for _ in range(_SWEEPS):
            better = False
            for buffer in images:
                nodes = layout.touching[buffer]
                before = layout.cost(nodes)
                layout.last[buffer] = not layout.last[buffer]
                if layout.cost(nodes) < before:
                    better = True
                else:
                    layout.last[buffer] = not layout.last[buffer]
            if not better:
                break
        cost = layout.cost(every)
        if cost < least:
            least, best = cost, {b: bool(last) for b, last in layout.last.items()}
    return best


def _moved(device: Device, node: Node, changed: dict[Buffer, Relocation]) -> Node | None:
    """The same node over images in other formats; None where it cannot be."""
    if not any(buffer in changed for buffer in node.buffers()):
        return node

    def moved(operand: Operand) -> Operand | None:
        places = changed.get(buffer_of(operand))
        return operand if places is None else places(operand, operand.memory)

    reads, writes = ([*map(moved, operands)] for operands in (node.reads, node.writes))
    if None in (*reads, *writes):
        return None
    return replanned(device, node, reads, writes)  # type: ignore[arg-type]
