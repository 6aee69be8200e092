"""Graphs as bytes that the disk cache keeps: kernels that are planned and printed, and no more.

What comes back runs without a trace, a pass or a plan, on the device that it was made for. Unlike
what `clprim.graph.saved` writes it says nothing of what is computed, and other versions of this
library cannot read it. Of constants it has the names that the caller gives them, and the contents
of small ones.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from clprim.call.packed import PackedWeight
from clprim.call.primitive import Primitive
from clprim.errors import DefinitionError
from clprim.graph.graph import NOTHING, Buffer, Graph, Node, buffer_of
from clprim.graph.store import contents_of, fill
from clprim.plan.kernel import KernelPlan, PrintedCode
from clprim.runtime.device import Device
from clprim.runtime.source_cache import source_of

# Bytes of constants without a name; with more of them a graph is not kept.
MOST_BYTES = 16 << 20


class Frozen(Primitive):
    """Stands for a primitive: what is left of it are the names of its kernels' arrays."""

    def __init__(self, what: str, names: Sequence[str]) -> None:
        super().__init__(what)
        self._names = names

    def problem(self, request: Any, target: Any) -> Any:
        """Refuses, as it knows no other call."""
        raise DefinitionError(f"{self.what}: it is planned for one call alone")

    def plan(self, problem: Any, traits: Any) -> Any:
        """Refuses likewise."""
        return self.problem(problem, traits)

    def names(self, problem: Any) -> Sequence[str]:
        """See `Primitive.names`."""
        return self._names


def freeze(
    device: Device, graph: Graph, name_of: Callable[[Buffer], Any], beside: Any
) -> bytes | None:
    """Returns a graph that passes have planned as bytes; None of one with too large constants."""
    rows = [
        (n.primitive.what, (*n.primitive.names(n.problem),),
         replace(n.plan, stages=tuple(map(_printed, n.plan.stages))), n.reads, n.writes,
         n.numbers, n.line)
        for n in graph.nodes
    ]  # fmt: skip
    used = {b: None for n in graph.nodes for b in n.touched}
    used |= dict.fromkeys(map(buffer_of, graph.outputs))
    constants, total = [], 0
    for buffer in (b for b in used if b.kind == "constant"):
        name, data = name_of(buffer), b""
        if name is None:
            total += buffer.nbytes
            if total > MOST_BYTES or not buffer.frozen:
                return None
            if buffer.nbytes:
                data = contents_of(device, buffer)
        constants.append((buffer, name, data))
    whole = graph.what, graph.inputs, rows, graph.outputs, graph.notes, constants, beside
    return pickle.dumps(whole, pickle.HIGHEST_PROTOCOL)


def _printed(kernel: KernelPlan) -> KernelPlan:
    code, text = kernel.code, source_of(kernel.template, kernel.code)
    rest: Any = {"parameters": code.parameters, "index": code.index, "doubles": code.doubles}
    rest |= {"version": code.c_version, "built": code.options}
    printed = PrintedCode(name=code.name, **rest, text=text)
    return replace(kernel, code=printed)


def thaw(device: Device, data: bytes, constant: Callable[[Any], PackedWeight]) -> tuple[Graph, Any]:
    """Returns a graph, and what was kept with it.

    As a program that is on disk, what is read is run: it comes of a folder of the user's own.
    """
    what, inputs, rows, outputs, notes, constants, beside = pickle.loads(data)
    for buffer, name, content in constants:
        if name is not None:
            buffer.weight = constant(name)
            buffer.memory = buffer.weight.array.base_data
        elif content:
            fill(device, buffer, content)
    nodes = tuple(
        Node(Frozen(kind, names), reads, writes, numbers, None, NOTHING, None, plan, line)
        for kind, names, plan, reads, writes, numbers, line in rows
    )
    return Graph(what, inputs, nodes, outputs, notes), beside
