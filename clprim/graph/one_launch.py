"""Kernels in a row as one launch, whose work-groups walk them as phases.

Of a phase a walker knows which others must have ended: those that wrote what it reads, and those
that read or wrote the memory that it writes, which temporaries share.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
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
from clprim.plan.launch.body import Body, body_of, group_of
from clprim.plan.launch.gain import WORTH, gain
from clprim.plan.launch.walker import (
    ITEMS,
    UNIT_GROUPS,
    Phase,
    counters,
    table_of,
    tiling,
    walker_code,
    walker_plan,
)
from clprim.runtime.device import Device
from clprim.runtime.program import build_aside, is_kept
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
        self,
        device: Device,
        what: str,
        steps: Sequence[Step],
        bodies: Sequence[Body],
        spots: Spots,
        items: int,
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
            items,
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

    def has_room(self) -> bool:
        """Whether groups of the kernel, which is built, have local memory and registers enough."""
        kernel, _, group, *_ = self.launch.parts()
        asked, device = cl.kernel_work_group_info, self._device
        local = kernel.get_work_group_info(asked.LOCAL_MEM_SIZE, device.cl)
        most = kernel.get_work_group_info(asked.WORK_GROUP_SIZE, device.cl)
        return bool(local <= device.traits.local_memory and math.prod(group) <= most)

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
        stays = next((spot for spot in known if spot.place is None), known[0])
        changing = []
        for n, (position, _) in enumerate(free):
            spot = known[n] if n < len(known) else stays
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

    @contextmanager
    def first(self, phases: int) -> Iterator[None]:
        """Ends launches inside a ``with`` behind so many phases: for who times them."""
        self.launch.set_number("walk_phases", phases)
        try:
            yield
        finally:
            self.launch.set_number("walk_phases", len(self.phases))
            self.lost()  # of the others counters have not gone on

    @property
    def gain(self) -> float:
        """What part of their time its kernels are spared, by cost."""
        return gain(self.phases, self._device.traits)

    def tiles(self) -> list[int]:
        """How many tiles each phase has."""
        return [tiling(phase, self.groups, self.code.items)[1] for phase in self.phases]


def launches_of(device: Device, graph: Graph) -> str:
    """Returns how a graph's kernels are launched on a device, in `clprim.options`' words."""
    launches = graph.launches if graph.launches != "auto" else current_options().launches
    return launches if device.traits.walks else "each"


def groups_of(device: Device) -> int:
    """Returns how many work-groups walk: as many as run side by side."""
    units = device.traits.compute_units
    if not device.traits.is_cpu:
        return UNIT_GROUPS * units
    return min(units, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else units


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
    """Yields steps in order, those in a row that can be one launch as one.

    Groups of a launch have as many work-items as its first kernel whose work-items share something.
    """
    traits, most = device.traits, _most(device)
    fixed = 1 if traits.is_cpu else 0
    run: list[tuple[Step, str]] = []
    memories: set[tuple[int, int]] = set()
    items = fixed

    def finished() -> Iterator[Step | Walk]:
        taken = [step for step, _ in run]
        if len(taken) > 1:
            size = items or min(ITEMS, traits.max_work_group_size)
            found = (body_of(step.launch.plan, text, size) for step, text in run)
            yield Walk(device, what, taken, [b for b in found if b is not None], spots, size)
        else:
            yield from taken
        run.clear()
        memories.clear()

    for step in steps:
        kernel = step.launch.plan
        text = source_of(kernel.template, kernel.code)
        group = None if step.draws else group_of(kernel, text)
        if group is None or (fixed and group > fixed):
            yield from finished()
            yield step
            items = fixed
            continue
        keys = {spots(buffer).key for _, buffer in step.buffers}
        other = bool(run) and run[0][0].launch.plan.code.doubles != kernel.code.doubles
        other = other or bool(group and items and group != items)
        if other or len(memories | keys) > most or len({text, *(t for _, t in run)}) > _BODIES:
            yield from finished()
            items = fixed
        items = items or group
        run.append((step, text))
        memories |= keys
    yield from finished()


class Aside:
    """Launches that take the place of a graph's kernels when their programs are built.

    A child process builds them: calls go on as they are, and no process waits for what another one
    has built before.
    """

    def __init__(self, device: Device, parts: Iterable[Step | Walk]) -> None:
        self._device = device
        # What gains too little is launched apart.
        self._parts: list[Step | Walk] = []
        for part in parts:
            self._parts += part.steps if isinstance(part, Walk) and part.gain < WORTH else [part]
        self._walks = [part for part in self._parts if isinstance(part, Walk)]
        self._thread: Thread | None = None

    @property
    def is_due(self) -> bool:
        """Whether nobody is building; who asks first begins it, where something is to be built."""
        if self._thread is None and not all(map(self._is_kept, self._walks)):
            self._thread = build_aside(self._device, [w.launch.program for w in self._walks])
        return self._thread is None or not self._thread.is_alive()

    def parts(self) -> list[Step | Walk]:
        """Returns the launches, which are built; what no child could build is apart."""
        found: list[Step | Walk] = []
        for part in self._parts:
            found += part.steps if isinstance(part, Walk) and not self._is_kept(part) else [part]
        return ready(self._device, found)

    def _is_kept(self, walk: Walk) -> bool:
        return is_kept(self._device, *walk.launch.program)


def ready(device: Device, parts: Sequence[Step | Walk]) -> list[Step | Walk]:
    """Builds launches; steps of one that the compiler or the device does not take are apart."""
    walks = [part for part in parts if isinstance(part, Walk)]
    try:
        build_all([part.launch for part in parts])
    except (BuildError, DeviceError):
        if not walks:
            raise
        refused = walks
    else:
        refused = [walk for walk in walks if not walk.has_room()]
    if not refused:
        return [*parts]
    found: list[Step | Walk] = []
    for part in parts:
        found += part.steps if isinstance(part, Walk) and part in refused else [part]
    return ready(device, found)
