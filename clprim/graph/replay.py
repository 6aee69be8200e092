"""Replay: a graph's kernels bound once, enqueued one after another with nothing looked up.

Temporaries share memory, which a replay keeps or takes anew with every call. The queue is in order
and its lock is held for a whole replay, so that these serve all threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from clprim.arrays.array import Array, array_over
from clprim.arrays.memory import allocate_workspace, part_of
from clprim.call.call import misfit
from clprim.errors import DeviceError
from clprim.graph.graph import Buffer, Graph, buffer_of, layout_of
from clprim.graph.memory import allocations_of, grain_of, lives_of
from clprim.graph.steps import Step, present, steps_of
from clprim.runtime.device import Device, wait_for
from clprim.runtime.randomness import advance
from clprim.runtime.stats import counters


class Replay:
    """A graph that is ready to run."""

    def __init__(self, device: Device, graph: Graph, *, keep: bool = True) -> None:
        self.graph, self._device = graph, device
        self.steps = steps_of(device, graph.nodes)
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
        self._rows = [self._row(step) for step in self.steps]
        self._queue: Any = None
        for operand in graph.inputs:
            if (buffer := buffer_of(operand)).kind == "input":
                buffer.memory = None  # the arrays that were traced over need not stay

    def _row(self, step: Step) -> tuple[Any, ...]:
        """Binds what stays, and returns what a replay needs of a step."""
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
        return (*launch.parts(), tuple(changing), step if step.draws else None)

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
                for kernel, sizes, group, set_arg, plan, changing, draws in self._rows:
                    for position, place in changing:
                        set_arg(position, memory[place])
                    if draws is not None:
                        draws.launch.set_numbers((*draws.numbers, *advance()))
                    event = cl.enqueue_nd_range_kernel(queue, kernel, sizes, group)
                    for profile in device.profiles:
                        profile.record(plan.code.name, event, plan.nbytes, plan.flops)
            except cl.Error as error:
                raise DeviceError(
                    f"{self.graph.what}: a kernel could not be launched on {device}: {error}"
                ) from error
        counters.launches += len(self._rows)
        return memory

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
