"""Replay: a graph's kernels bound once, enqueued one after another with nothing looked up.

Temporaries share memory, which a replay keeps or takes anew with every call. The queue is in order
and its lock is held for a whole replay, so that these serve all threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

import pyopencl as cl

from clprim.arrays.array import Array, array_over
from clprim.arrays.memory import allocate_workspace, part_of
from clprim.call.call import misfit
from clprim.errors import ClprimError, DeviceError
from clprim.graph.graph import Buffer, Graph, buffer_of, layout_of
from clprim.graph.memory import allocations_of, grain_of, lives_of
from clprim.graph.one_launch import Aside, Spot, Walk, launches_of, ready, walks_of
from clprim.graph.steps import Step, build_all, present, steps_of
from clprim.runtime.device import Device, wait_for
from clprim.runtime.randomness import advance
from clprim.runtime.stats import counters

# Calls after which a graph is taken to be called again and again.
OFTEN = 100


class Replay:
    """A graph that is ready to run.

    Args:
        device: Where.
        graph: What.
        keep: Whether memory stays between calls.
        often: Whether it is going to be called again and again, so that one launch is asked for at
            once.
    """

    def __init__(
        self, device: Device, graph: Graph, *, keep: bool = True, often: bool = False
    ) -> None:
        self.graph, self._device = graph, device
        launches = launches_of(device, graph) if keep else "each"
        often = often and launches == "auto"
        self.steps = steps_of(device, graph.nodes, later=often or launches == "one")
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
        self.parts: Sequence[Step | Walk] = self.steps
        self._aside: Aside | None = None
        # Calls until it is asked (again) whether one launch is better; 0 where nobody asks.
        self._pause = 1 if often else OFTEN
        self._left = self._pause if launches == "auto" and len(self.steps) > 1 else 0
        if launches == "one":
            self.parts = ready(device, [*self._walks()])
        elif often:
            self._aside = Aside(device, self._walks())
            if self._aside.is_due:
                self.parts, self._left = self._aside.parts(), 0
            else:
                build_all([step.launch for step in self.steps])
        self._rows = [self._row(part) for part in self.parts]
        self._asking = Lock()
        self._queue: Any = None
        for operand in graph.inputs:
            if (buffer := buffer_of(operand)).kind == "input":
                buffer.memory = None  # the arrays that were traced over need not stay

    def _walks(self) -> Iterator[Step | Walk]:
        return walks_of(self._device, self.graph.what, self.steps, self._spot)

    @property
    def outlook(self) -> list[Walk]:
        """What may become one launch if it is called often enough."""
        return [part for part in self._walks() if isinstance(part, Walk)] if self._left else []

    def _reconsider(self) -> None:
        """Goes over to one launch where that pays, as soon as its programs are there."""
        with self._asking, suppress(ClprimError):
            if self._left or self.parts is not self.steps:  # another thread was here
                return
            self._aside = self._aside or Aside(self._device, self._walks())
            if not self._aside.is_due:
                self._left = self._pause
                return
            known = {id(step): row for step, row in zip(self.steps, self._rows, strict=True)}
            parts, self._aside = self._aside.parts(), None
            rows = [known.get(id(part)) or self._row(part) for part in parts]
            with self._device.lock:
                self.parts, self._rows = parts, rows

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
        if self._left:
            self._left = left = self._left - 1
            if not left:
                self._reconsider()
        memory = [*given, *allocate_workspace(device, self._sizes)]
        with device.lock:
            queue = device.queue
            if queue is not self._queue:
                if self._queue is not None:
                    wait_for(self._queue)
                self._queue = queue
            try:
                rows = self._rows
                for kernel, sizes, group, set_arg, plan, changing, before in rows:
                    for position, place in changing:
                        set_arg(position, memory[place])
                    if before is not None:
                        before()
                    event = cl.enqueue_nd_range_kernel(queue, kernel, sizes, group)
                    for profile in device.profiles:
                        profile.record(plan.code.name, event, plan.nbytes, plan.flops, plan.phases)
            except BaseException as error:
                for part in self.parts:
                    if isinstance(part, Walk):
                        part.lost()
                if not isinstance(error, cl.Error):
                    raise
                raise DeviceError(
                    f"{self.graph.what}: a kernel could not be launched on {device}: {error}"
                ) from error
        counters.launches += len(rows)
        return memory

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Launches every kernel by itself inside a ``with``: for who times them."""
        if len(self.parts) == len(self.steps):
            yield
            return
        build_all([step.launch for step in self.steps])
        whole, self._rows = self._rows, [self._row(step) for step in self.steps]
        left, self._left = self._left, 0
        try:
            yield
        finally:
            self._rows, self._left = whole, left

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
