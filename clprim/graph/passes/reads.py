"""An elementwise node runs where the convolution of pixels that reads its result takes elements in.

Batch norm and ReLU before a 1×1 convolution, as in DenseNet, and channels that a gate scales. What
it reads beside the images varies with channels and images alone. CPUs only, whose convolutions copy
what they read to near memory. Results keep their bits, unless another strategy computes the sums.
"""

from __future__ import annotations

from clprim.call.primitive import NoPlanError
from clprim.call.product import ContractionPrimitive
from clprim.errors import ClprimError
from clprim.graph.graph import Graph, Node, Uses, planned, same_place
from clprim.graph.passes.elementwise import lone_producers
from clprim.graph.passes.strings import on_value
from clprim.pointwise import Pointwise
from clprim.runtime.device import Device


def reads(graph: Graph, device: Device) -> Graph:
    """Moves elementwise nodes into the reading of convolutions."""
    if not device.traits.is_cpu:
        return graph
    nodes: list[Node | None] = [*graph.nodes]
    results, joins, uses = graph.results(), 0, Uses(nodes)
    for n, node in enumerate(nodes):
        if node is None or not _takes(node):
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
