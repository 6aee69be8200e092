"""Squeeze and excitation: a mean of planes and two products of few numbers become one kernel.

Sums are added up in another order: relative differences are some units in the last place of the
largest term of each sum.
"""

from __future__ import annotations

import math
from dataclasses import replace

from clprim.arrays.array import view_of
from clprim.errors import ClprimError
from clprim.graph.graph import Graph, Node, buffer_of, replanned, same_place
from clprim.graph.passes.layout.reshaping import reshaped
from clprim.graph.passes.rewrite import Rewrite
from clprim.graph.passes.simplify.constant_folding import array_of, constant_of, made_once
from clprim.plan.strides import Operand
from clprim.primitives.gate import GATE, Activations
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import Device


def squeeze_excitation(graph: Graph, device: Device) -> Graph:
    """Joins a mean and the two products behind it."""
    rewrite, found = Rewrite(graph, device), 0
    for n, node in enumerate(rewrite.nodes):
        if node is None or not _is_product(node):
            continue
        inner = rewrite.lone_maker(n)
        before = None if inner is None else rewrite.node(inner)
        if inner is None or before is None or not _is_product(before):
            continue
        read, made = before.reads[0], None
        mean = next((m for m, k in rewrite.lone_makers(inner) if k == 0), None)
        planes = None if mean is None else _planes(rewrite.node(mean), read)
        if mean is not None and planes is not None:
            made = _joined(device, planes, before, node)
            if made is not None:
                rewrite.put(mean, None)
        made = made or _joined(device, read, before, node)
        if made is not None:
            rewrite.join(inner, n, made)
            found += 1
    note = f"squeeze and excitation: {found} of two products each are one kernel"
    return rewrite.graph_with(note)


def _is_product(node: Node) -> bool:
    """Whether a node multiplies a vector of channels with a constant matrix."""
    if node.primitive.kind != "conv":
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


def _planes(node: Node, read: Operand) -> Operand | None:
    """Returns the images whose channels' plain means a node makes; None where it does not."""
    primitive = node.primitive
    if not isinstance(primitive, Reduction) or len(node.reads) != 1 or len(node.writes) != 1:
        return None
    (x,), y = node.reads, reshaped(node.writes[0], read.shape)
    told = {name: str(text).strip() for name, text in primitive.form.told.items()}
    means = (
        x.ndim > 2
        and node.problem.axes == (*range(2, x.ndim),)
        and y is not None
        and same_place(y, read)
        and not node.numbers
        and node.problem.scaling[0].kind == "plain"
        and not told["expr"]
        and told["init"] == "reduce_y0 = 0;"
        and told["step"] == "reduce_y0 += x0;"
        and told["finalize"] == "y0 = reduce_y0 / count;"
    )
    if not means or x.ndim == 4:
        return x if means else None
    return reshaped(x, (*x.shape[:2], 1, math.prod(x.shape[2:])))


def _joined(device: Device, x: Operand, a: Node, b: Node) -> Node | None:
    """Returns one node that does what both products do to the means of an array."""
    texts = Activations(a.options.epilogue, b.options.epilogue)
    try:
        inner, outer = (_matrix(device, n.reads[1], n is b) for n in (a, b))
    except (ClprimError, ValueError):
        return None
    reads = (x, inner, _flat(a.reads[2]), outer, _flat(b.reads[2]))
    told = {"primitive": GATE, "numbers": (), "options": texts, "kept": {}}
    return replanned(device, b, reads, b.writes, line=b.line or a.line, **told)


def _flat(bias: Operand) -> Operand:
    return replace(bias, shape=(bias.size,), strides=(bias.dtype.itemsize,))


def _matrix(device: Device, w: Operand, turned: bool) -> Operand:
    """Returns a weight as a dense matrix, transposed if it is to be turned."""

    def make() -> tuple[Operand]:
        array = array_of(device, w)
        order = (1, 0) if turned else (0, 1)
        shape, steps = (tuple(each[d] for d in order) for each in (w.shape, w.strides))
        return (constant_of(view_of(array, shape, steps, array.offset).copy()),)

    return made_once([w], ("gate", w, turned), make)[0]  # type: ignore[no-any-return]
