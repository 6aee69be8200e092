"""Squeeze and excitation, a mean of planes and two products of few numbers, becomes one kernel.

Sums are added up in another order: relative differences are some units in the last place of the
largest term of each sum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clprim.arrays.array import view_of
from clprim.call.primitive import NoPlanError
from clprim.errors import ClprimError
from clprim.graph.graph import Graph, Node, Uses, buffer_of, planned, same_place
from clprim.graph.passes.constants import array_of, constant_of
from clprim.graph.passes.elementwise import lone_producer
from clprim.graph.store import kept_with
from clprim.plan.strides import Operand
from clprim.primitives.gate import GATE, Activations
from clprim.primitives.product import ContractionPrimitive
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import Device

_PLANES = (2, 3)


def gates(graph: Graph, device: Device) -> Graph:
    """Joins a mean and the two products behind it."""
    nodes: list[Node | None] = [*graph.nodes]
    results, found, uses = graph.results(), 0, Uses(nodes)
    for n, node in enumerate(nodes):
        if node is None or not _is_product(node):
            continue
        inner = lone_producer(nodes, uses, n, results)
        before = None if inner is None else nodes[inner]
        if inner is None or before is None or not _is_product(before):
            continue
        mean = lone_producer(nodes, uses, inner, results)
        first = None if mean is None else nodes[mean]
        read, made = before.reads[0], None
        if first is not None and _is_mean(first) and same_place(first.writes[0], read):
            made = _joined(device, first.reads[0], before, node)
        if made is None:
            mean, made = None, _joined(device, read, before, node)
        if made is not None:
            if mean is not None:
                uses.change(mean, nodes[mean], None)
                nodes[mean] = None
            uses.join(nodes, inner, n, made)
            found += 1
    if not found:
        return graph
    left = [node for node in nodes if node is not None]
    return graph.with_nodes(left, f"gates: {found} of two products each are one kernel")


def _is_product(node: Node) -> bool:
    """Whether a node multiplies a vector of channels with a constant matrix."""
    if not isinstance(node.primitive, ContractionPrimitive) or node.primitive.what != "conv2d":
        return False
    told, w = node.options, node.reads[1]
    (y,), x = node.writes[:1], node.reads[0]
    return (
        told.bias
        and told.groups == 1
        and told.depth_to_space is None
        and len(node.writes) == 1
        and len(node.reads) == 3
        and node.numbers == (0,)
        and w.shape[2:] == (1, 1) == x.shape[2:] == y.shape[2:]
        and all(buffer_of(r).frozen for r in node.reads[1:])
    )


def _is_mean(node: Node) -> bool:
    """Whether a node is a plain mean of planes."""
    primitive = node.primitive
    if not isinstance(primitive, Reduction) or node.problem.axes != _PLANES:
        return False
    form = primitive.form
    told = {name: str(text).strip() for name, text in form.told.items()}
    one = len(node.reads) == len(node.writes) == 1 and node.reads[0].ndim == 4
    return (
        one
        and not node.numbers
        and node.problem.scaling[0].kind == "plain"
        and not told["expr"]
        and told["init"] == "reduce_y0 = 0;"
        and told["step"] == "reduce_y0 += x0;"
        and told["finalize"] == "y0 = reduce_y0 / count;"
    )


def _joined(device: Device, x: Operand, a: Node, b: Node) -> Node | None:
    """Returns one node that does what both products do to the means of an array."""
    texts = Activations(a.options.epilogue, b.options.epilogue)
    try:
        inner, outer = (_matrix(device, n.reads[1], n is b) for n in (a, b))
        reads = (x, inner, _flat(a.reads[2]), outer, _flat(b.reads[2]))
        return planned(device, GATE, reads, b.writes, (), texts, line=b.line or a.line)
    except (ClprimError, NoPlanError, ValueError):
        return None


def _flat(bias: Operand) -> Operand:
    return replace(bias, shape=(bias.size,), strides=(bias.dtype.itemsize,))


def _matrix(device: Device, w: Operand, turned: bool) -> Operand:
    """Returns a weight as a dense matrix, transposed if it is to be turned."""
    weight: Any = buffer_of(w).weight

    def make() -> tuple[Operand]:
        array = array_of(device, w, buffer_of(w))
        order = (1, 0) if turned else (0, 1)
        shape, steps = (tuple(each[d] for d in order) for each in (w.shape, w.strides))
        return (constant_of(view_of(array, shape, steps, array.offset).copy()),)

    return kept_with([weight], ("gate", w, turned), make)[0]  # type: ignore[no-any-return]
