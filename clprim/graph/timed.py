"""How long each kernel of a replay runs, beside what the device was measured to do at best."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyopencl as cl

from clprim.arrays.memory import allocate_workspace
from clprim.errors import DeviceError
from clprim.graph.graph import Buffer, buffer_of
from clprim.graph.replay import Replay
from clprim.runtime import randomness
from clprim.runtime.device import Device
from clprim.runtime.profile import profile

_RUNS = 5


def seconds_of(device: Device, replay: Replay, given: Sequence[Any]) -> list[float]:
    """Returns the median run time of every kernel, by the device's own clock.

    Nothing that the caller sees changes: the graph writes to copies of its inputs, what else it
    writes is put back, and random numbers go on where they were.
    """
    names = [step.launch.parts()[-1].code.name for step in replay.steps]
    written = {buffer_of(o) for n in replay.graph.nodes for o in (*n.writes, *n.changed)}
    found: list[list[float]] = []
    with _kept(device, replay, written), randomness.at(randomness.get_state()):
        inputs = map(buffer_of, replay.graph.inputs)
        copied: dict[int, Any] = {}
        for buffer, memory in zip(inputs, given, strict=True):
            if buffer in written and id(memory) not in copied:
                copied[id(memory)] = _copy(device, memory, buffer.nbytes)
        memory = [copied.get(id(each), each) for each in given]
        for _ in range(_RUNS + 1):
            with profile(device) as seen:
                replay(memory)
            events = seen.events
            for n in range(len(events) - len(names) + 1):
                run = events[n : n + len(names)]
                if [event.name for event in run] == names:
                    found.append([event.seconds for event in run])
                    break
    if not found:
        raise DeviceError(f"{replay.graph.what}: no run could be timed on {device}")
    return [statistics.median(times) for times in zip(*found[1:] or found, strict=True)]


@contextmanager
def _kept(device: Device, replay: Replay, written: set[Buffer]) -> Iterator[None]:
    """Puts back what a block writes to arrays that the graph was not given."""
    there = [b for b in written if b.kind == "constant"]
    copies = [_copy(device, replay.memory_of(b, ()), b.nbytes) for b in there]
    try:
        yield
    finally:
        for buffer, copy in zip(there, copies, strict=True):
            memory = replay.memory_of(buffer, ())
            with device.lock:
                cl.enqueue_copy(device.queue, memory, copy, byte_count=buffer.nbytes)


def _copy(device: Device, memory: Any, nbytes: int) -> Any:
    (made,) = allocate_workspace(device, (max(nbytes, 1),))
    with device.lock:
        if nbytes:
            cl.enqueue_copy(device.queue, made, memory, byte_count=nbytes)
    return made
