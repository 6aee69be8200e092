"""Copy fusion: copies run in the store of what makes their source, or of what has their shape.

    copy of a result       the convolution writes to where its only reader copies it
    copy beside one        what has the shape of a convolution's result is that one's second
                           result, as half of the channels is that passes by a unit of ShuffleNet
    copies of one shape    that lie alike are one kernel, as those of an interleaved `cat`

Results keep their bits, unless another strategy computes the convolution.
"""

from __future__ import annotations

from dataclasses import replace

from clprim.graph.graph import Graph, Node, replanned, same_place
from clprim.graph.passes.fuse.snippets import behind_epilogue, pointwise
from clprim.graph.passes.layout.moves import Move, moves_of, overlap
from clprim.graph.passes.rewrite import Rewrite
from clprim.plan.strides import Operand
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device

# Nodes between a copy and what it may run in.
_NEAR = 8
_PAIR = "y0 = x0; y1 = x1;"


def copy_fusion(graph: Graph, device: Device) -> Graph:
    """Moves copies into the stores of convolutions and of other copies."""
    rewrite, joins = Rewrite(graph, device), 0
    for n, node in enumerate(rewrite.nodes):
        move = None if node is None else _move_of(node)
        if move is None:
            continue
        found = _from_source(rewrite, n) or _beside(rewrite, n, move) or _paired(rewrite, n, move)
        if found is not None:
            other, made = found
            rewrite.join(min(n, other), max(n, other), made)
            joins += 1
    return rewrite.graph_with(f"copy fusion: {joins} copies run in other stores")


def _move_of(node: Node) -> Move | None:
    moves = moves_of(node)
    return moves[0] if moves is not None and len(moves) == 1 else None


def _from_source(rewrite: Rewrite, n: int) -> tuple[int, Node] | None:
    """Returns the convolution that makes what a node copies, written to where that goes."""
    node = rewrite.node(n)
    for maker, k in rewrite.lone_makers(n):
        before = rewrite.node(maker)
        if not _takes(before) or not same_place(before.writes[0], node.reads[k]):
            continue
        if before.writes[0].shape == node.writes[0].shape:
            made = replanned(rewrite.device, before, before.reads, node.writes)
            if made is not None and _strategy(made) == _strategy(before):
                return maker, made
    return None


def _beside(rewrite: Rewrite, n: int, move: Move) -> tuple[int, Node] | None:
    """Returns a near convolution whose result has the shape of a copy, with the copy in it."""
    nodes = rewrite.nodes
    for m in sorted(range(n - _NEAR, n + _NEAR + 1), key=lambda m: abs(m - n)):
        node = nodes[m] if 0 <= m < len(nodes) and m != n else None
        if node is None or not _takes(node) or not _alike(node.writes[0], move):
            continue
        used = (*node.reads, *node.writes)
        if overlap(used, move.write) or overlap(node.writes, move.read):
            continue
        if rewrite.can_sink(min(m, n), max(m, n)):
            made = _joined(rewrite.device, node, move)
            if made is not None:
                return m, made
    return None


def _strategy(node: Node) -> str:
    return node.plan.choice.strategy if node.plan.choice else ""


def _paired(rewrite: Rewrite, n: int, move: Move) -> tuple[int, Node] | None:
    """Returns a copy before a node that is of the same shape and strides, with that in it."""
    for m in range(n - 1, max(n - _NEAR, 0) - 1, -1):
        node = rewrite.nodes[m]
        other = None if node is None else _move_of(node)
        if node is None or other is None:
            continue
        pairs = zip(other, move, strict=True)
        alike = all(
            replace(a, memory=None, offset=0) == replace(b, memory=None, offset=0) for a, b in pairs
        )
        apart = not overlap(other, move.write) and not overlap((move.read,), other.write)
        if alike and apart and rewrite.can_sink(m, n):
            reads, writes = zip(other, move, strict=True)
            primitive = pointwise(_PAIR, tuple(w.dtype for w in writes), "", "copy")
            told = {"primitive": primitive, "numbers": (), "options": move.write.shape}
            made = replanned(rewrite.device, node, reads, writes, **told)
            if made is not None:
                return m, made
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
    options = behind_epilogue(node, lambda arrays, _: f"y1 = x{arrays};\n")
    reads, writes = (*node.reads, move.read), (*node.writes, move.write)
    return replanned(device, node, reads, writes, options=options)
