"""Traces: calls of primitives that are noted instead of launched, over memory that is not there.

Inside a trace arrays are allocated over symbols. Views of them are what they are elsewhere, and
`run` adds a node where it would have launched kernels. What the host reads or writes, and what
draws random numbers, ends the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clprim.call.call import Call, Once, Stage
from clprim.call.packed import PackedWeight
from clprim.runtime import tracing


class Symbol:
    """Memory that traced kernels write and read, and that nobody has allocated.

    Attributes:
        size: Bytes.
    """

    __slots__ = ("__weakref__", "size")

    def __init__(self, size: int) -> None:
        self.size = size


@dataclass(frozen=True)
class Node:
    """A call of a primitive.

    Attributes:
        primitive: Which.
        call: As it was planned.
        results: Arrays that it writes.
        arrays: Arrays that it reads.
        numbers: Its run-time scalars.
        options: What else it was told.
    """

    primitive: Any
    call: Call
    results: tuple[Any, ...]
    arrays: tuple[Any, ...]
    numbers: tuple[Any, ...]
    options: Any


@dataclass
class Trace:
    """Calls in the order of the program.

    Attributes:
        nodes: The calls.
    """

    nodes: list[Node] = field(default_factory=list)

    @staticmethod
    def allocate(nbytes: int) -> Symbol:
        """Returns memory for a new array."""
        return Symbol(nbytes)

    def note(
        self,
        primitive: Any,
        call: Call,
        results: tuple[Any, ...],
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        options: Any,
        kept: Mapping[str, PackedWeight],
    ) -> None:
        """Adds a call; `clprim.call.primitive.run` does so.

        Raises:
            TraceEndedError: It draws random numbers, or reads a weight that stays packed.
        """
        if call.draws:
            tracing.end("a draw of random numbers")
        if kept:
            tracing.end("a weight that stays packed")
        self.nodes.append(Node(primitive, call, results, tuple(arrays), tuple(numbers), options))


def traced(function: Callable[[], Any]) -> tuple[Trace, Any]:
    """Calls a function and returns what it would have launched, and what it returned.

    Raises:
        TraceEndedError: It did something that no trace can note.
    """
    trace = Trace()
    with tracing.switched_to(trace):
        result = function()
    return trace, result


def composed(what: str, trace: Trace, arrays: Sequence[Any]) -> tuple[Call, dict[int, int]] | None:
    """Returns the calls of a trace as one, and where each buffer lies in its list.

    Args:
        what: For messages.
        trace: Which.
        arrays: That are given with every call; all other memory is the call's workspace.

    Returns:
        None where a node reads memory that is neither given nor written before.
    """
    places: dict[int, int] = {}
    for n, array in enumerate(arrays):
        places.setdefault(id(array.base_data), n)
    sizes: list[int] = []

    def room(nbytes: int) -> int:
        sizes.append(nbytes)
        return len(arrays) + len(sizes) - 1

    stages: list[Stage] = []
    for node in trace.nodes:
        slots: list[int] = []
        for array in (*node.results, *node.arrays):
            memory = array.base_data
            if id(memory) not in places:
                if type(memory) is not Symbol and array.size:
                    return None
                places[id(memory)] = room(memory.size if array.size else 1)
            slots.append(places[id(memory)])
        call = node.call
        for made in call.once:
            slots.append(room(made.nbytes))
            stages.append(_moved(made, slots, ()))
        slots += [room(nbytes) for nbytes in call.workspace]
        for stage in call.stages:
            numbers = node.numbers if stage.numbers is None else stage.numbers
            stages.append(_moved(stage, slots, numbers))
    return Call(what, tuple(stages), workspace=tuple(sizes)), places


def _moved(kernel: Stage | Once, slots: Sequence[int], numbers: Sequence[Any]) -> Stage:
    """A kernel of one call as one of another, in whose list buffers lie elsewhere."""
    places = tuple((argument, slots[place]) for argument, place in kernel.places)
    return Stage(kernel.launch, places, numbers)
