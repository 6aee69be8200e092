"""Copies that are left run in a store: of what makes their source, or of what has their shape.

    copy of a result       the convolution writes to where its only reader copies it
    copy beside one        what has the shape of a convolution's result is that one's second
                           result, as half of the channels is that passes by a unit of ShuffleNet
    copies of one shape    that lie alike are one kernel, as those of an interleaved `cat`

Results keep their bits, unless another strategy computes the convolution.
"""

from __future__ import annotations

from dataclasses import replace

from clprim.call.primitive import NoPlanError
from clprim.errors import ClprimError
from clprim.graph.graph import Buffer, Graph, Node, Uses, planned, replanned, same_place
from clprim.graph.passes.elementwise import lone_producers, movable, pointwise
from clprim.graph.passes.moves import Move, moves_of, overlap
from clprim.graph.passes.strings import block, joined
from clprim.language.epilogue import define_epilogue
from clprim.plan.strides import Operand
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device

# Nodes between a copy and what it may run in.
_NEAR = 8
_PAIR = "y0 = x0; y1 = x1;"


def copies(graph: Graph, device: Device) -> Graph:
    """Moves copies into the stores of convolutions and of other copies."""
    nodes: list[Node | None] = [*graph.nodes]
    results, joins, uses = graph.results(), 0, Uses(nodes)
    for n, node in enumerate(nodes):
        moves = moves_of(node) if node is not None else None
        if node is None or moves is None or len(moves) != 1:
            continue
        found = _from_source(device, nodes, uses, n, results)
        found = found or _beside(device, nodes, uses, n, moves[0])
        found = found or _paired(device, nodes, uses, n, moves[0])
        if found is not None:
            other, made = found
            uses.join(nodes, min(n, other), max(n, other), made)
            joins += 1
    if not joins:
        return graph
    left = [node for node in nodes if node is not None]
    return graph.with_nodes(left, f"copies: {joins} copies run in other stores")


def _from_source(
    device: Device, nodes: list[Node | None], uses: Uses, n: int, results: set[Buffer]
) -> tuple[int, Node] | None:
    """Returns the convolution that makes what a node copies, written to where that goes."""
    node = nodes[n]
    assert node is not None
    for producer, k in lone_producers(nodes, uses, n, results):
        before = nodes[producer]
        if before is None or not _takes(before) or not same_place(before.writes[0], node.reads[k]):
            continue
        if before.writes[0].shape == node.writes[0].shape:
            made = replanned(device, before, before.reads, node.writes)
            if made is not None and _strategy(made) == _strategy(before):
                return producer, made
    return None


def _beside(
    device: Device, nodes: list[Node | None], uses: Uses, n: int, move: Move
) -> tuple[int, Node] | None:
    """Returns a near convolution whose result has the shape of a copy, with the copy in it."""
    for m in sorted(range(n - _NEAR, n + _NEAR + 1), key=lambda m: abs(m - n)):
        node = nodes[m] if 0 <= m < len(nodes) and m != n else None
        if node is None or not _takes(node) or not _alike(node.writes[0], move):
            continue
        used = (*node.reads, *node.writes)
        if overlap(used, move.write) or overlap(node.writes, move.read):
            continue
        if movable(nodes, uses, min(m, n), max(m, n)):
            made = _joined(device, node, move)
            if made is not None:
                return m, made
    return None


def _strategy(node: Node) -> str:
    return node.plan.choice.strategy if node.plan.choice else ""


def _paired(
    device: Device, nodes: list[Node | None], uses: Uses, n: int, move: Move
) -> tuple[int, Node] | None:
    """Returns a copy before a node that is of the same shape and strides, with that in it."""
    for m in range(n - 1, max(n - _NEAR, 0) - 1, -1):
        node = nodes[m]
        moves = moves_of(node) if node is not None else None
        if node is None or moves is None or len(moves) != 1:
            continue
        (other,) = moves
        pairs = zip(other, move, strict=True)
        alike = all(
            replace(a, memory=None, offset=0) == replace(b, memory=None, offset=0) for a, b in pairs
        )
        apart = not overlap(other, move.write) and not overlap((move.read,), other.write)
        if alike and apart and movable(nodes, uses, m, n):
            reads, writes = zip(other, move, strict=True)
            types = tuple(w.dtype for w in writes)
            primitive = pointwise(_PAIR, types, "", "copy")
            try:
                line = node.line
                return m, planned(device, primitive, reads, writes, (), move.write.shape, line=line)
            except (ClprimError, NoPlanError, ValueError):
                continue
    return None


def _takes(node: Node) -> bool:
    return (
        isinstance(node.primitive, ContractionPrimitive)
        and hasattr(node.options, "epilogue")
        and len(node.writes) == 1
        and not node.numbers[0]
    )


def _alike(result: Operand, move: Move) -> bool:
    """Whether a result, and both ends of a copy, are walked alike."""
    arrays = (result, *move)
    if any(a.shape != result.shape or a.dtype != result.dtype for a in arrays):
        return False
    if result.dtype.kind in "biu":
        return False  # sums may be of another type than what is copied
    steps = [[s for s, size in zip(a.strides, a.shape, strict=True) if size > 1] for a in arrays]
    nearest = {min(range(len(each)), key=each.__getitem__, default=0) for each in steps}
    # Vectors are stored where they lie side by side in every array.
    return len(nearest) == 1 and all(min(s, default=1) == result.dtype.itemsize for s in steps)


def _joined(device: Device, node: Node, move: Move) -> Node | None:
    """Returns a convolution that copies as well."""
    owner, options = node.primitive.what, node.options
    before = None if options.epilogue is None else define_epilogue(owner, options.epilogue)
    arrays = max((before.numbers("x") if before else ()), default=-1) + 1
    first = [block(before, {}, {})] if before else []
    text = joined([*first, f"y1 = x{arrays};\n"])
    told = options._replace(epilogue=text)
    reads = (*node.reads, move.read)
    rest = node.numbers, told, node.kept, node.line
    try:
        return planned(device, node.primitive, reads, (*node.writes, move.write), *rest)
    except (ClprimError, NoPlanError, ValueError):
        return None
