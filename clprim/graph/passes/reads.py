"""An elementwise node runs where the node that reads its result takes elements in.

    1×1 convolutions       batch norm and ReLU, as in DenseNet, and channels that a gate scales.
                           What is read beside the images varies with channels and images alone.
                           CPUs only, whose convolutions copy what they read to near memory.
    groups, reductions     sums before a norm, masks and scales before softmax, gradients of
                           activations before those of norms, products that are added up. Where
                           others want what is made as well, groups store it, or compute it again
                           of what they read anyway, as gradients of batch norms what was activated.
                           Only where the same kernel computes them and no more is read; windows
                           of a pooling overlap.

Results keep their bits, unless another strategy computes a convolution's sums.
"""

from __future__ import annotations

from clprim.call.primitive import NoPlanError
from clprim.errors import ClprimError
from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, planned, same_place
from clprim.graph.passes.elementwise import lone_producers, movable
from clprim.graph.passes.groups import is_free, is_taken, read
from clprim.graph.passes.strings import on_value
from clprim.graph.passes.unread import storing
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device


def reads(graph: Graph, device: Device) -> Graph:
    """Moves elementwise nodes into the reading of convolutions, groups and reductions."""
    nodes: list[Node | None] = [*graph.nodes]
    results, joins, uses = graph.results(), 0, Uses(nodes)
    for n, node in enumerate(nodes):
        if node is not None and is_taken(node):
            while _into(device, nodes, uses, n, results):
                joins += 1
        if node is None or not device.traits.is_cpu or not _takes(node):
            continue
        for producer, k in lone_producers(nodes, uses, n, results):
            before = nodes[producer]
            assert before is not None
            made = _read(device, before, node) if k == 0 else None
            if made is not None:
                uses.join(nodes, producer, n, made)
                joins += 1
                break
    if not joins:
        return graph
    left = [node for node in nodes if node is not None]
    return graph.with_nodes(left, f"reads: {joins} elementwise nodes run where their readers read")


def _into(
    device: Device, nodes: list[Node | None], uses: Uses, n: int, results: set[Buffer]
) -> bool:
    """Moves a node that makes something of what groups, or a reduction, read into them."""
    node = nodes[n]
    assert node is not None
    for buffer in dict.fromkeys(map(buffer_of, node.reads)):
        producer = uses.only_writer(buffer)
        before = None if producer is None or producer >= n else nodes[producer]
        if producer is None or before is None:
            continue
        if movable(nodes, uses, producer, n):
            again = buffer in results or uses.readers.get(buffer) != [n]
            made = read(device, before, node, again=again)
            if made is not None:
                uses.join(nodes, producer, n, made)
                return True
        if _again(device, nodes, uses, producer, n, buffer, results):
            return True
    return False


def _again(
    device: Device,
    nodes: list[Node | None],
    uses: Uses,
    first: int,
    second: int,
    buffer: Buffer,
    results: set[Buffer],
) -> bool:
    """Computes a result of an elementwise node once more where groups, or a reduction, read it.

    It is not stored any more where nobody else wants it.
    """
    before, node = nodes[first], nodes[second]
    assert before is not None
    assert node is not None
    if not isinstance(before.primitive, Pointwise):
        return False
    kept = [n for n, w in enumerate(before.writes) if buffer_of(w) is buffer]
    others = [n for n in range(len(before.writes)) if n not in kept]
    alone = storing(device, before, kept) if others else before
    if alone is None or not is_free(alone, node):
        return False
    if any(first <= n < second for r in alone.reads for n in uses.writers.get(buffer_of(r), ())):
        return False
    made = read(device, alone, node, again=False)
    if made is None:
        return False
    uses.change(second, node, made)
    nodes[second] = made
    if buffer in results or buffer in uses.readers:
        return True
    left = storing(device, before, others) if others else None
    if left is not None or not others:
        uses.change(first, before, left)
        nodes[first] = left
    return True


def _takes(node: Node) -> bool:
    """Whether a node is a convolution that reads every pixel by itself."""
    if not isinstance(node.primitive, ContractionPrimitive) or node.primitive.what != "conv2d":
        return False
    told, x, w = node.options, *node.reads[:2]
    return (
        told.prologue is None
        and told.depth_to_space is None
        and told.algorithm == "auto"
        and w.shape[2:] == (1, 1) != x.shape[2:]
        and sum(same_place(r, x) for r in node.reads) == 1
    )


def _read(device: Device, a: Node, b: Node) -> Node | None:
    """Returns a convolution that does what comes before it; None where it cannot."""
    if not isinstance(a.primitive, Pointwise) or len(a.writes) != 1 or a.numbers:
        return None
    definition, x = a.primitive.definition, a.writes[0]
    images = [n for n, r in enumerate(a.reads) if r.shape == x.shape]
    fits = (
        same_place(x, b.reads[0])
        and a.problem.shape == x.shape
        and len(images) == 1
        and all(r.dtype == x.dtype for r in a.reads)
        and all(r.shape[-2:] == (1, 1) for r in a.reads if r.shape != x.shape)
        and not (definition.expr.lookups or definition.expr.dims or definition.preamble)
        and not (definition.draws or "index" in definition.expr.used)
    )
    if not fits:
        return None
    (k,) = images
    told = b.options._replace(prologue=on_value(definition.expr, k), algorithm="in_place")
    given = (a.reads[k], *b.reads[1:], *a.reads[:k], *a.reads[k + 1 :])
    try:
        return planned(
            device, b.primitive, given, b.writes, b.numbers, told, b.kept, b.line or a.line
        )
    except (ClprimError, NoPlanError, ValueError):
        return None
