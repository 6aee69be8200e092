"""Replay: a graph's kernels bound once, enqueued one after another with nothing looked up.

Temporaries share memory, which a replay keeps or takes anew with every call. The queue is in order
and its lock is held for a whole replay, so that these serve all threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyopencl as cl

from clprim.arrays.array import Array, array_over
from clprim.arrays.memory import allocate_workspace, part_of
from clprim.call.call import misfit
from clprim.errors import DeviceError
from clprim.graph.graph import Buffer, Graph, buffer_of, layout_of
from clprim.graph.memory import allocations_of, grain_of, lives_of
from clprim.graph.one_launch import Spot, Walk, is_walked, ready, walks_of
from clprim.graph.steps import Step, build_all, present, steps_of
from clprim.runtime.device import Device, wait_for
from clprim.runtime.randomness import advance
from clprim.runtime.stats import counters


class Replay:
    """A graph that is ready to run."""

    def __init__(self, device: Device, graph: Graph, *, keep: bool = True) -> None:
        self.graph, self._device = graph, device
        walks = keep and is_walked(device, graph)
        self.steps = steps_of(device, graph.nodes, later=walks)
        made = [*dict.fromkeys(b for b in map(buffer_of, graph.outputs) if b.kind == "temporary")]
        self._sizes = tuple(buffer.nbytes for buffer in made)
        taken = ([buffer for _, buffer in step.buffers] for step in self.steps)
        grain = grain_of(device) if keep else 0
        self.allocations = allocations_of(lives_of(taken, made), grain)
        self._places = {buffer: n for n, buffer in enumerate(map(buffer_of, graph.inputs))}
        given = len(graph.inputs)
        self._places |= {buffer: given + n for n, buffer in enumerate(made)}
        if keep:
            self._whole = allocate_workspace(device, self.allocations.sizes)
            self._temporaries = {
                buffer: part_of(self._whole[n], begin, buffer.nbytes) if grain else self._whole[n]
                for buffer, (n, begin) in self.allocations.of.items()
            }
        else:
            begin = given + len(made)
            self._places |= {buffer: begin + n for buffer, (n, _) in self.allocations.of.items()}
            self._sizes += self.allocations.sizes
        self._outputs = [
            (self._places.get(buffer_of(o)), buffer_of(o).memory, layout_of(o))
            for o in graph.outputs
        ]
        parts = walks_of(device, graph.what, self.steps, self._spot) if walks else self.steps
        self.parts: Sequence[Step | Walk] = ready(device, [*parts])
        self._rows = [self._row(part) for part in self.parts]
        self._queue: Any = None
        for operand in graph.inputs:
            if (buffer := buffer_of(operand)).kind == "input":
                buffer.memory = None  # the arrays that were traced over need not stay

    def _spot(self, buffer: Buffer) -> Spot:
        """Returns where a buffer lies."""
        place = self._places.get(buffer)
        if place is not None:
            return Spot(None, place, 0)
        if buffer.kind == "constant":
            return Spot(buffer.memory, None, 0)
        number, begin = self.allocations.of[buffer]
        return Spot(self._whole[number], None, begin)

    def _row(self, step: Step | Walk) -> tuple[Any, ...]:
        """Binds what stays, and returns what a replay needs of a launch."""
        if isinstance(step, Walk):
            changing = step.bind()
            return (*step.launch.parts(), tuple(changing), step.begin)
        launch, changing = step.launch, []
        for position, buffer in step.buffers:
            place = self._places.get(buffer)
            if place is not None:
                changing.append((position, place))
                continue
            constant = buffer.kind == "constant"
            memory = buffer.memory if constant else self._temporaries[buffer]
            launch.set_buffer(position, present(step, buffer, memory))
        if not step.draws:
            try:
                launch.set_numbers(step.numbers)
            except (TypeError, ValueError, OverflowError, RuntimeError) as error:
                raise misfit(step.node.primitive.what, step.numbers, error) from error
            return (*launch.parts(), tuple(changing), None)

        def draw() -> None:
            launch.set_numbers((*step.numbers, *advance()))

        return (*launch.parts(), tuple(changing), draw)

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Enqueues the kernels."""
        device = self._device
        memory = [*given, *allocate_workspace(device, self._sizes)]
        with device.lock:
            queue = device.queue
            if queue is not self._queue:
                if self._queue is not None:
                    wait_for(self._queue)
                self._queue = queue
            try:
                for kernel, sizes, group, set_arg, plan, changing, before in self._rows:
                    for position, place in changing:
                        set_arg(position, memory[place])
                    if before is not None:
                        before()
                    event = cl.enqueue_nd_range_kernel(queue, kernel, sizes, group)
                    for profile in device.profiles:
                        profile.record(plan.code.name, event, plan.nbytes, plan.flops)
            except BaseException as error:
                for part in self.parts:
                    if isinstance(part, Walk):
                        part.lost()
                if not isinstance(error, cl.Error):
                    raise
                raise DeviceError(
                    f"{self.graph.what}: a kernel could not be launched on {device}: {error}"
                ) from error
        counters.launches += len(self._rows)
        return memory

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Launches every kernel by itself inside a ``with``: for who times them."""
        if len(self.parts) == len(self.steps):
            yield
            return
        build_all([step.launch for step in self.steps])
        whole, self._rows = self._rows, [self._row(step) for step in self.steps]
        try:
            yield
        finally:
            self._rows = whole

    def memory_of(self, buffer: Buffer, memory: Sequence[Any]) -> Any:
        """Returns the memory of an input, a result or a constant after a replay."""
        place = self._places.get(buffer)
        return buffer.memory if place is None else memory[place]

    def results(self, memory: Sequence[Any]) -> list[Array]:
        """Returns the results as arrays, after a replay."""
        device = self._device
        return [
            array_over(device, fixed if place is None else memory[place], *where)
            for place, fixed, where in self._outputs
        ]
