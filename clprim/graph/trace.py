"""Traces: a function is called over memory that is not there, and what it would launch is noted.

Inside a trace arrays lie over buffers that nobody has allocated, views of them are what they are
elsewhere, and `clprim.call.primitive.run` adds a node where it would have launched kernels. What
the host reads ends the trace, with the line of the program that did it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_array
from clprim.arrays.memory import join, memory_relation
from clprim.call.packed import PackedWeight
from clprim.call.primitive import Primitive, request_of
from clprim.call.scalars import as_numbers
from clprim.graph.graph import NOTHING, Buffer, Graph, Node, planning_of
from clprim.graph.signature import LEAVES, Leaves, form_of
from clprim.graph.spans import Span
from clprim.graph.store import fill
from clprim.options import current_options
from clprim.plan.strides import Operand
from clprim.runtime import tracing
from clprim.runtime.device import Device


class Trace:
    """Calls in the order of the program."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.nodes: list[Node] = []
        self.spans: dict[int, Span] | None = None
        self.budget: int | None = None
        self.depth = 0
        self._known: dict[int, Buffer] = {}
        self._alive: list[Any] = []  # as long as an id stands for memory
        for array in arrays:
            self._buffer(array, "input")

    @staticmethod
    def allocate(nbytes: int) -> Buffer:
        """Returns memory for a new array."""
        return Buffer(nbytes)

    def uploaded(self, array: Any, host: np.ndarray[Any, Any], device: Device) -> None:
        """Makes a new array's memory a constant, as what the host has will not change."""
        buffer = array.base_data
        if not isinstance(buffer, Buffer):
            tracing.end("an upload to memory that is there")
        with tracing.switched_to(None):
            fill(device, buffer, np.ascontiguousarray(host).view(np.uint8).reshape(-1))
        buffer.kind = "constant"

    def download(self, array: Any, order: Sequence[int]) -> np.ndarray[Any, Any]:
        """Ends the trace, as nobody knows what an array will hold."""
        del array, order
        tracing.end("a download")

    def operand(self, array: Any) -> Operand:
        """Returns where an array lies."""
        where = self._buffer(array, "constant"), 0
        return Operand(array.shape, array.strides, array.offset, array.dtype, where)

    def _buffer(self, array: Any, kind: str) -> Buffer:
        memory = array.base_data
        if isinstance(memory, Buffer):
            return memory
        found = self._known.get(id(memory))
        if found is None:
            for other in self._alive:
                if memory_relation(memory, other) is not None:
                    tracing.end("arrays over overlapping parts of one piece of memory")
            found = Buffer(getattr(memory, "size", 0), kind, memory)
            self._known[id(memory)] = found
            self._alive.append(memory)
        return found

    def _stays(self, weight: PackedWeight) -> bool:
        """Whether a kept weight is a constant; one that was packed in the trace is none."""
        buffer = self._buffer(weight.array, "constant")
        if buffer.kind == "constant" and buffer.weight is None:
            buffer.weight = weight
        return buffer.kind == "constant"

    def run(
        self,
        primitive: Primitive,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: tuple[Any, ...],
        options: Any,
        kept: Mapping[str, PackedWeight],
    ) -> tuple[Array, ...]:
        """Adds a call and returns its results: `clprim.call.primitive.run` in a trace."""
        numbers = tuple(as_numbers(numbers))
        kept = {name: weight for name, weight in kept.items() if self._stays(weight)} or NOTHING
        request = request_of(primitive, device, arrays, numbers, outs, options, kept)
        problem = primitive.problem(request, device)
        plan = planning_of(primitive, problem, device)
        given = iter(outs)
        results = tuple(
            new_array(device, r.shape, r.dtype, r.strides, r.size)
            if r.memory is None
            else next(given)
            for r in primitive.outputs(problem)
        )
        if plan is None:
            return results
        for array in (*arrays, *outs):
            if not isinstance(array.base_data, Buffer):
                join(array, device)
        reads, writes = (tuple(map(self.operand, each)) for each in (arrays, results))
        line = tracing.line()
        rest = numbers, options, kept, problem, plan, line
        self.nodes.append(Node(primitive, reads, writes, *rest))
        return results


@contextmanager
def uncollected() -> Iterator[None]:
    """Looks for no cycles of objects inside a ``with``, where many are made that stay."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@uncollected()
def traced(
    what: str, function: Callable[[], Any], arrays: Sequence[Any], leaves: Leaves = LEAVES
) -> tuple[Trace, Graph, Any]:
    """Calls a function and returns what it would have launched, and the form of its results."""
    with tracing.switched_to(None):
        trace = Trace(arrays)
    with tracing.switched_to(trace):
        result = function()
    form, made = form_of(what, result, arrays, leaves)
    inputs, outputs = (tuple(map(trace.operand, each)) for each in (arrays, made))
    launches = current_options().launches
    graph = Graph(what, inputs, tuple(trace.nodes), outputs, budget=trace.budget, launches=launches)
    return trace, graph, form
