"""Graphs as bytes that the disk cache keeps: kernels that are planned and printed, and no more.

What comes back runs without a trace, a pass or a plan, on the device that it was made for. Unlike
what `clprim.graph.saved` writes it says nothing of what is computed, and other versions of this
library cannot read it. Of constants it has the names that the caller gives them, and the contents
of small ones.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clprim.arrays.array import allocated
from clprim.arrays.transfer import download, upload
from clprim.call.packed import PackedWeight
from clprim.call.primitive import Primitive
from clprim.errors import DefinitionError
from clprim.graph.graph import NOTHING, Buffer, Graph, Node
from clprim.graph.passes.simplify.constant_folding import array_of
from clprim.plan.kernel import KernelPlan, Plan, PrintedCode
from clprim.plan.strides import Operand
from clprim.runtime.device import Device
from clprim.runtime.source_cache import source_of

# Bytes of constants without a name; with more of them a graph is not kept.
MOST_BYTES = 16 << 20
_BYTES = np.dtype(np.uint8)


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
    buffers: dict[Buffer, int] = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> int | None:
            return buffers.setdefault(value, len(buffers)) if type(value) is Buffer else None

    rows = [
        (n.primitive.what, (*n.primitive.names(n.problem),), _printed(n.plan), n.reads, n.writes,
         n.numbers, n.line)
        for n in graph.nodes
    ]  # fmt: skip
    file = io.BytesIO()
    Pickler(file, pickle.HIGHEST_PROTOCOL).dump(
        (graph.what, graph.inputs, rows, graph.outputs, graph.notes, beside)
    )
    table, total = [], 0
    for buffer in buffers:
        name = name_of(buffer) if buffer.kind == "constant" else None
        data = None
        if buffer.kind == "constant" and name is None:
            total += buffer.nbytes
            if total > MOST_BYTES or not buffer.frozen:
                return None
            whole = Operand((buffer.nbytes,), (1,), 0, _BYTES)
            if buffer.nbytes:
                data = download(array_of(device, whole, buffer), (0,)).tobytes()
        table.append((buffer.kind, buffer.nbytes, name, data))
    return pickle.dumps((table, file.getvalue()), pickle.HIGHEST_PROTOCOL)


def _printed(plan: Plan) -> Plan:
    return replace(plan, stages=tuple(map(_printed_kernel, plan.stages)))


def _printed_kernel(kernel: KernelPlan) -> KernelPlan:
    code, text = kernel.code, source_of(kernel.template, kernel.code)
    rest: Any = {"parameters": code.parameters, "index": code.index, "doubles": code.doubles}
    printed = PrintedCode(name=code.name, **rest, text=text, version=code.c_version)
    return replace(kernel, code=printed)


def thaw(device: Device, data: bytes, constant: Callable[[Any], PackedWeight]) -> tuple[Graph, Any]:
    """Returns a graph, and what was kept with it.

    As a program that is on disk, what is read is run: it comes of a folder of the user's own.
    """
    table, rest = _Unpickler(io.BytesIO(data), []).load()
    buffers = [Buffer(nbytes, kind) for kind, nbytes, _, _ in table]
    for buffer, (kind, nbytes, name, content) in zip(buffers, table, strict=True):
        if kind != "constant" or (name is None and not nbytes):
            continue
        if name is not None:
            weight = constant(name)
        else:
            array = allocated(device, (nbytes,), _BYTES, (1,), nbytes)
            upload(array, np.frombuffer(content, _BYTES), device)
            weight = PackedWeight(array)
        buffer.memory, buffer.weight = weight.array.base_data, weight
    what, inputs, rows, outputs, notes, beside = _Unpickler(io.BytesIO(rest), buffers).load()
    nodes = tuple(
        Node(Frozen(kind, names), reads, writes, numbers, None, NOTHING, None, plan, line)
        for kind, names, plan, reads, writes, numbers, line in rows
    )
    return Graph(what, inputs, nodes, outputs, notes), beside


class _Unpickler(pickle.Unpickler):
    """Reads buffers by their numbers."""

    def __init__(self, file: Any, buffers: Sequence[Buffer]) -> None:
        super().__init__(file)
        self._buffers = buffers

    def persistent_load(self, number: Any) -> Buffer:
        found: Buffer = self._buffers[number]
        return found
