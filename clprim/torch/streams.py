"""Events and streams of the device's one queue, and which device functions speak of."""

from __future__ import annotations

import time
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import pyopencl as cl
import torch

from clprim.arrays.validation import instance
from clprim.errors import DeviceError
from clprim.runtime.device import Device
from clprim.torch import numbers, private

# What `torch.opencl.device` names, by thread and task.
inside: ContextVar[int] = ContextVar("clprim_torch_device", default=0)


def number_of(device: Any) -> int:
    """A device's number: given as one, as ``"opencl:1"``, or none for the one that is current."""
    if device is None:
        return inside.get()
    if isinstance(device, int):
        return numbers.check(device)
    found = torch.device(device)
    if found.type != private.NAME:
        raise DeviceError(f"{device}: expected a number or {private.NAME}, as {private.NAME}:0")
    return numbers.check(found.index)


def opened(device: Any) -> Device:
    """Returns clprim's device of a number or name."""
    return numbers.device(number_of(device))


class QueueEvent:
    """A point in the queue, as `torch.cuda.Event`."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self._timing = enable_timing
        self._marker: Any = None
        self._done: float | None = None

    def record(self, stream: Any = None) -> None:
        """Puts the event behind all that was launched."""
        device = opened(None) if stream is None else stream_given("record", stream).opened
        self._done = None
        self._marker = marker = cl.enqueue_marker(device.queue)
        if self._timing:

            def done(_: int) -> None:
                if self._marker is marker:
                    self._done = time.perf_counter()

            marker.set_callback(cl.command_execution_status.COMPLETE, done)
        device.queue.flush()

    def wait(self, stream: Any = None) -> None:
        """Makes what is launched next wait: it does so already, in the one queue."""
        if stream is not None:
            stream_given("wait", stream)

    def query(self) -> bool:
        """Whether all before it is done."""
        complete = cl.command_execution_status.COMPLETE
        return self._marker is None or self._marker.command_execution_status == complete

    def synchronize(self) -> None:
        """Waits until all before it is done."""
        if self._marker is not None:
            self._marker.wait()

    def elapsed_time(self, end: QueueEvent) -> float:
        """Milliseconds from this event to a later one, by the host's clock."""
        for event in (self, _event("elapsed_time", end)):
            if not event._timing or event._marker is None:
                raise DeviceError(
                    "elapsed_time: both events must be made with enable_timing=True and recorded"
                )
            event.synchronize()
            while event._done is None:  # the driver calls back a moment later
                time.sleep(0)
        assert self._done is not None and end._done is not None
        return (end._done - self._done) * 1e3


class QueueStream(torch.Stream):  # type: ignore[misc]
    """A device's one queue, in which everything runs in order; all its streams are this one."""

    def __new__(cls, device: Any = None, priority: int = 0) -> QueueStream:
        """Makes PyTorch's own of number 0: operators take no other kind."""
        where = {"device_index": number_of(device), "device_type": private.TYPE.value}
        made: QueueStream = super().__new__(cls, stream_id=0, **where)
        return made

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.opened = opened(device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueStream) and self.opened == other.opened

    def __hash__(self) -> int:
        return hash(self.opened)

    def synchronize(self) -> None:
        """Waits until everything that was launched is done."""
        self.opened.synchronize()

    def query(self) -> bool:
        """Whether everything that was launched is done."""
        event = self.record_event()
        return event.query()

    def record_event(self, event: QueueEvent | None = None) -> QueueEvent:
        """Puts an event behind all that was launched."""
        event = QueueEvent() if event is None else _event("record_event", event)
        event.record(self)
        return event

    def wait_event(self, event: QueueEvent) -> None:
        """Does nothing: the queue is in order."""
        _event("wait_event", event)
        if event._marker is not None and event._marker.context != self.opened.context:
            event.synchronize()

    def wait_stream(self, stream: QueueStream) -> None:
        """Does nothing where it is the same queue; else the host waits for the other one."""
        if stream_given("wait_stream", stream) != self:
            stream.synchronize()

    def __enter__(self) -> QueueStream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def current(device: Any = None) -> QueueStream:
    """Returns a device's one stream, which is made once."""
    number = inside.get() if device is None else number_of(device)
    return _made(number, numbers.device(number))


@lru_cache
def _made(number: int, opened: Device) -> QueueStream:
    del opened  # which device has a number may change until there are tensors
    return QueueStream(number)


def _event(what: str, given: Any) -> QueueEvent:
    found: QueueEvent = instance(what, "event", given, QueueEvent, "a torch.opencl.Event")
    return found


def stream_given(what: str, given: Any) -> QueueStream:
    """Returns a stream that a function was given."""
    found: QueueStream = instance(what, "stream", given, QueueStream, "a torch.opencl.Stream")
    return found
