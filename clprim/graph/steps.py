"""From nodes to steps: kernels that are built, and which buffers each of them takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from clprim.arrays.memory import allocate_workspace
from clprim.call.call import Call, Once
from clprim.call.launch import Launch
from clprim.call.packed import PackedWeight
from clprim.call.primitive import built
from clprim.errors import DeviceError
from clprim.graph.graph import Buffer, Node, buffer_of
from clprim.graph.store import collect
from clprim.plan.kernel import Plan
from clprim.runtime.device import Device
from clprim.runtime.progress import waiting
from clprim.runtime.randomness import advance

T = TypeVar("T")
U = TypeVar("U")

# Seconds of building before a bar shows how far it is.
_PATIENCE = 2.0


class Step(NamedTuple):
    """A kernel of a graph."""

    launch: Launch
    buffers: tuple[tuple[int, Buffer], ...]
    numbers: Sequence[Any]
    draws: bool
    node: Node


class Packing(NamedTuple):
    """What a kernel made of a weight that stays; see `clprim.graph.store.Kept`."""

    once: Once
    given: list[Any]
    made: Any
    weight: PackedWeight

    def renew(self) -> None:
        """Makes it again, in the same memory."""
        self.once.launch.enqueue([*self.given, self.made], self.once.places, ())

    def sources(self) -> Iterator[PackedWeight]:
        """Yields the weight."""
        yield self.weight


def _by_all_cores(function: Callable[[T], U], given: Iterable[T], count: int) -> Iterator[U]:
    """Yields what a function makes of each, in order; it builds, which all cores do at once."""
    if count < 2:  # not worth a thread
        yield from map(function, given)
        return
    with (
        waiting("building kernels", count, patience=_PATIENCE) as done,
        ThreadPoolExecutor(os.cpu_count() or 1) as threads,
    ):

        def counted(each: T) -> U:
            found = function(each)
            done()
            return found

        # This thread makes what is given one after another while others build.
        yield from threads.map(counted, given)


def build_all(launches: Sequence[Launch]) -> None:
    """Builds kernels that were left for later."""
    unbuilt = [launch for launch in launches if not launch.is_built]
    for _ in _by_all_cores(Launch.build, unbuilt, len(unbuilt)):
        pass


def steps_of(device: Device, nodes: Sequence[Node], *, later: bool = False) -> list[Step]:
    """Returns the kernels of nodes in order, which are built, or left for later.

    What kernels make of weights that stay is made now, and kept with the weights.
    """

    def call_of(node: Node, plan: Plan) -> Call:
        results = node.writes
        return built(device, node.primitive, node.problem, plan, results, later=later)

    planned = ((node, node.plan) for node in nodes)
    calls = _by_all_cores(lambda both: call_of(*both), planned, len(nodes))
    steps: list[Step] = []
    for node, call in zip(nodes, calls, strict=True):
        slots = [*map(buffer_of, (*node.writes, *node.reads))]
        names = node.primitive.names(node.problem)
        for made in call.once:
            weight = slots[[*names].index(made.weight)]
            if weight.weight is None:
                slots.append(Buffer(made.nbytes))
                places = tuple((argument, slots[place]) for argument, place in made.places)
                steps.append(Step(made.launch, places, (), False, node))
                continue
            memory: Any = weight.weight.kept.get(made.key)
            given = [buffer.memory for buffer in slots]
            if memory is None:
                memory = made.make(device, given, weight.weight)
            collect(Packing(made, given, memory, weight.weight))
            slots.append(Buffer(made.nbytes, "constant", memory))
        slots += [Buffer(nbytes) for nbytes in call.workspace]
        for stage in call.stages:
            places = tuple((argument, slots[place]) for argument, place in stage.places)
            numbers = node.numbers if stage.numbers is None else stage.numbers
            steps.append(Step(stage.launch, places, numbers, call.draws, node))
    return steps


def present(step: Step, buffer: Buffer, memory: Any) -> Any:
    """Returns the memory of a buffer, which a kernel is about to take."""
    if memory is None and buffer.nbytes:
        raise DeviceError(
            f"{step.node.primitive.what}: {buffer!r} has no memory when its kernel is launched, "
            "which is a fault of clprim's: please report it"
        )
    return memory


def enqueue(device: Device, steps: Sequence[Step], memory: dict[Buffer, Any]) -> None:
    """Runs kernels once, each temporary in memory of its own."""
    for step in steps:
        for _, buffer in step.buffers:
            if buffer not in memory:
                (found,) = allocate_workspace(device, (max(buffer.nbytes, 1),))
                memory[buffer] = buffer.memory if buffer.kind == "constant" else found
        places = tuple((position, n) for n, (position, _) in enumerate(step.buffers))
        numbers = (*step.numbers, *advance()) if step.draws else step.numbers
        taken = [present(step, b, memory[b]) for _, b in step.buffers]
        step.launch.enqueue(taken, places, numbers)
