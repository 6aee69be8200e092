"""What a function uploads and then writes to, or returns, is made anew in every call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clprim.graph.graph import Buffer, Graph, Node, buffer_of, planned
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device

_COPY = Pointwise("y0 = x0;", name="upload")


def uploads(graph: Graph, device: Device) -> Graph:
    """Copies constants that stay to temporaries, where somebody may write to them."""
    written = [o for node in graph.nodes for o in (*node.writes, *node.changed)]
    touched = map(buffer_of, (*written, *graph.outputs))
    changing = [b for b in touched if b.frozen and b.nbytes]
    if not changing:
        return graph
    own = {buffer: Buffer(buffer.nbytes) for buffer in changing}

    def moved(operand: Operand) -> Operand:
        buffer = buffer_of(operand)
        return replace(operand, memory=(own[buffer], 0)) if buffer in own else operand

    nodes: list[Node] = []
    for buffer, new in own.items():
        dtype = np.dtype(np.uint8 if buffer.nbytes % 4 else np.uint32)
        shape = (buffer.nbytes // dtype.itemsize,)
        old, now = (Operand(shape, (dtype.itemsize,), 0, dtype, (b, 0)) for b in (buffer, new))
        nodes.append(planned(device, _COPY, (old,), (now,), (), shape))
    for node in graph.nodes:
        reads, writes = (tuple(map(moved, each)) for each in (node.reads, node.writes))
        nodes.append(replace(node, reads=reads, writes=writes))
    outputs = tuple(map(moved, graph.outputs))
    note = f"uploads: {len(own)} are copied in every call"
    return replace(graph.with_nodes(nodes, note), outputs=outputs)
