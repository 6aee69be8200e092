"""Kernels in a row as one launch, whose work-groups walk them as phases.

Of a phase a walker knows which others must have ended: those that wrote what it reads, and those
that read or wrote the memory that it writes, which temporaries share.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from clprim.arrays.array import allocated
from clprim.arrays.transfer import upload
from clprim.call.call import misfit
from clprim.call.launch import Launch
from clprim.errors import BuildError, DeviceError
from clprim.graph.graph import Buffer, Graph
from clprim.graph.steps import Step, build_all
from clprim.options import current_options
from clprim.plan.launch.body import Body, body_of
from clprim.plan.launch.walker import (
    Phase,
    counters,
    table_of,
    tiling,
    walker_code,
    walker_plan,
)
from clprim.runtime.device import Device
from clprim.runtime.source_cache import source_of

_BYTE = np.dtype(np.uint8)
# Bound: kernels whose text a walker holds, which one thread compiles.
_BODIES = 48
# Pieces of memory of the smallest walkers; larger ones have twice as many, and so on.
_FEW = 16
# Bytes of a walker's arguments beside memory.
_BESIDE = 64


class Spot(NamedTuple):
    """Where a buffer lies: in which memory, or that of which place of a call, from which byte."""

    memory: Any
    place: int | None
    begin: int

    @property
    def key(self) -> tuple[int, int]:
        """What tells pieces of memory apart."""
        return (0, id(self.memory)) if self.place is None else (1, self.place)


Spots = Callable[[Buffer], Spot]


class Walk:
    """Steps that are one launch: phases, the table of them, and their counters.

    Counters go on from launch to launch, so a launch must be counted exactly where it is enqueued.
    """

    def __init__(
        self, device: Device, what: str, steps: Sequence[Step], bodies: Sequence[Body], spots: Spots
    ) -> None:
        self._device, self._epoch, self._stale = device, 0, True
        self.steps = steps
        self._memories: dict[tuple[int, int], Spot] = {}
        waits = waits_of(steps, spots)
        self.phases = [self._phase(*each, spots) for each in zip(steps, bodies, waits, strict=True)]
        kernel = self.phases[0].kernel
        self.groups = groups_of(device)
        self.code = walker_code(
            bodies,
            _room(device, len(self._memories)),
            items_of(device),
            device.traits,
            doubles=kernel.code.doubles,
        )
        snippets: dict[str, str] = {}
        for step in steps:
            snippets |= step.node.primitive.snippets(step.node.problem)
        plan = walker_plan(self.code, self.phases, self.groups)
        self.launch = Launch(device, plan, title=what, snippets=snippets, later=True)

    def _phase(self, step: Step, body: Body, waits: tuple[int, ...], spots: Spots) -> Phase:
        places, known = {}, self._memories
        for name, (_, buffer) in zip(step.launch.buffers, step.buffers, strict=True):
            spot = spots(buffer)
            known.setdefault(spot.key, spot)
            places[name] = [*known].index(spot.key), spot.begin
        return Phase(step.launch.plan, body, step.numbers, places, waits)

    def bind(self) -> list[tuple[int, int]]:
        """Binds all memory that stays; returns which arguments are memory of which place."""
        try:
            table = table_of(self.code, self.phases, self.groups)
        except (TypeError, ValueError, OverflowError, RuntimeError, struct.error) as error:
            raise misfit(self.steps[0].node.primitive.what, (), error) from error
        sizes = len(table), 4 * counters(self.code, len(self.phases), self.groups)
        self._own = [allocated(self._device, (n,), _BYTE, (1,), n) for n in sizes]
        upload(self._own[0], np.frombuffer(table, np.uint8), self._device)
        launch, known = self.launch, [*self._memories.values()]
        (table_at, _), (counters_at, _), *free = launch.places(dict.fromkeys(launch.buffers, 0))
        launch.set_buffer(table_at, self._own[0].base_data)
        launch.set_buffer(counters_at, self._own[1].base_data)
        changing = []
        for n, (position, _) in enumerate(free):
            spot = known[min(n, len(known) - 1)]
            if spot.place is None:
                launch.set_buffer(position, spot.memory)
            else:
                changing.append((position, spot.place))
        return changing

    def begin(self) -> None:
        """Counts a launch, which is enqueued next; counters begin anew where one was lost."""
        if self._stale:
            own, zero = self._own[1], np.zeros(1, np.uint32)
            memory: Any = own.base_data
            cl.enqueue_fill_buffer(self._device.queue, memory, zero, 0, own.size)
            self._epoch, self._stale = 0, False
        self.launch.set_numbers((self._epoch,))
        self._epoch = (self._epoch + 1) & 0xFFFFFFFF

    def lost(self) -> None:
        """Is told that nobody knows whether the launch was enqueued."""
        self._stale = True

    def tiles(self) -> list[int]:
        """How many tiles each phase has."""
        return [tiling(phase, self.groups, self.code.items)[1] for phase in self.phases]


def is_walked(device: Device, graph: Graph) -> bool:
    """Whether as much of a graph as can be is one launch."""
    launches = graph.launches if graph.launches != "auto" else current_options().launches
    return launches == "one" and device.traits.walks


def items_of(device: Device) -> int:
    """Returns how many work-items the groups of a device's walkers have."""
    return 1 if device.traits.is_cpu else 256


def groups_of(device: Device) -> int:
    """Returns how many work-groups walk: as many as run side by side."""
    units = device.traits.compute_units
    if not device.traits.is_cpu or not hasattr(os, "sched_getaffinity"):
        return units
    return min(units, len(os.sched_getaffinity(0)))


def _room(device: Device, memories: int) -> int:
    """Returns how many pieces of memory a walker takes that serves so many."""
    room = _FEW
    while room < memories:
        room *= 2
    return min(room, _most(device))


def _most(device: Device) -> int:
    return (device.cl.max_parameter_size - _BESIDE) // 8


def waits_of(steps: Sequence[Step], spots: Spots) -> list[tuple[int, ...]]:
    """Returns of every step which others must have ended, but for those that these wait for."""
    touched: dict[tuple[int, int], list[tuple[int, int, bool, int]]] = {}
    ended: list[set[int]] = []
    found: list[tuple[int, ...]] = []
    for n, step in enumerate(steps):
        before: set[int] = set()
        mine = []
        for (_, buffer), written in zip(step.buffers, step.launch.written, strict=True):
            spot = spots(buffer)
            begin, end = spot.begin, spot.begin + buffer.nbytes
            others = touched.setdefault(spot.key, [])
            for low, high, wrote, m in others:
                if (wrote or written) and low < end and begin < high:
                    before.add(m)
            mine.append((others, (begin, end, written, n)))
        for others, span in mine:
            others.append(span)
        implied = set().union(*(ended[m] for m in before))
        found.append(tuple(sorted(before - implied)))
        ended.append(before | implied)
    return found


def walks_of(
    device: Device, what: str, steps: Sequence[Step], spots: Spots
) -> Iterator[Step | Walk]:
    """Yields steps in order, those in a row that can be one launch as one."""
    items, most = items_of(device), _most(device)
    run: list[tuple[Step, Body]] = []
    memories: set[tuple[int, int]] = set()

    def finished() -> Iterator[Step | Walk]:
        taken, bodies = [step for step, _ in run], [body for _, body in run]
        run.clear()
        memories.clear()
        yield from [Walk(device, what, taken, bodies, spots)] if len(taken) > 1 else taken

    for step in steps:
        kernel = step.launch.plan
        body = body_of(kernel, source_of(kernel.template, kernel.code), items)
        if body is None or step.draws:
            yield from finished()
            yield step
            continue
        keys = {spots(buffer).key for _, buffer in step.buffers}
        other = bool(run) and run[0][0].launch.plan.code.doubles != kernel.code.doubles
        if other or len(memories | keys) > most or len({body, *(b for _, b in run)}) > _BODIES:
            yield from finished()
        run.append((step, body))
        memories |= keys
    yield from finished()


def ready(device: Device, parts: Sequence[Step | Walk]) -> list[Step | Walk]:
    """Builds launches; the steps of one that the compiler does not take are launched apart."""
    try:
        build_all([part.launch for part in parts])
    except (BuildError, DeviceError):
        found: list[Step | Walk] = []
        for part in parts:
            found += part.steps if isinstance(part, Walk) else [part]
        if len(found) == len(parts):
            raise
        return ready(device, found)
    return [*parts]
