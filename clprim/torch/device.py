"""``torch.opencl``: what PyTorch and its users ask a device's module for."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import torch

from clprim import random
from clprim.call.door import instance
from clprim.errors import DeviceError
from clprim.runtime.device import Device, devices
from clprim.torch import numbers, private
from clprim.torch.memory import placement, supports_bfloat16

_STATE = struct.Struct("<QQ")  # seed, number of calls


class QueueEvent:
    """A point in the queue, as `torch.cuda.Event`.

    Args:
        enable_timing: Whether `elapsed_time` will be asked for.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self._timing = enable_timing
        self._marker: Any = None
        self._done: float | None = None

    def record(self, stream: Any = None) -> None:
        """Puts the event behind all that was launched."""
        device = _current() if stream is None else _stream("record", stream).opened
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
            _stream("wait", stream)

    def query(self) -> bool:
        """Whether all before it is done."""
        complete = cl.command_execution_status.COMPLETE
        return self._marker is None or self._marker.command_execution_status == complete

    def synchronize(self) -> None:
        """Waits until all before it is done."""
        if self._marker is not None:
            self._marker.wait()

    def elapsed_time(self, end: QueueEvent) -> float:
        """Milliseconds from this event to a later one, by the host's clock.

        Raises:
            DeviceError: Made without ``enable_timing=True``, or not recorded.
        """
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


class QueueStream:
    """A device's one queue, in which everything runs in order; all its streams are this one."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.stream_id = 0
        self.opened = _opened(device)

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
        if _stream("wait_stream", stream) != self:
            stream.synchronize()

    def __enter__(self) -> QueueStream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _event(what: str, given: Any) -> QueueEvent:
    found: QueueEvent = instance(what, "event", given, QueueEvent, "a torch.opencl.Event")
    return found


def _stream(what: str, given: Any) -> QueueStream:
    found: QueueStream = instance(what, "stream", given, QueueStream, "a torch.opencl.Stream")
    return found


# What `torch.opencl.device` names, by thread and task.
_inside: ContextVar[int] = ContextVar("clprim_torch_device", default=0)


def _number(device: Any) -> int:
    """A device's number: given as one, as ``"opencl:1"``, or none for the one that is current."""
    if device is None:
        return _inside.get()
    if isinstance(device, int):
        return numbers.check(device)
    found = torch.device(device)
    if found.type != private.NAME:
        raise DeviceError(f"{device}: expected a number or {private.NAME}, as {private.NAME}:0")
    return numbers.check(found.index)


def _opened(device: Any) -> Device:
    return numbers.device(_number(device))


def _current() -> Device:
    return _opened(None)


class DeviceModule:
    """The module. ``opencl:0`` is clprim's current device, and what ``opencl`` alone stands for."""

    _initialized = True  # checkpoints keep random states of what says so

    def is_initialized(self) -> bool:
        """Whether it may be used: always."""
        return True

    def is_available(self) -> bool:
        """Whether there is an OpenCL device."""
        return bool(devices())

    def device_count(self) -> int:
        """How many devices tensors can be on."""
        return len(devices())

    def current_device(self) -> int:
        """The number of the device that this module's functions speak of: 0, but for `device`."""
        return _inside.get()

    def set_device(self, device: Any) -> None:
        """Takes 0: ``opencl`` alone always stands for it, as PyTorch has no way to change that.

        Raises:
            DeviceError: Another number.
        """
        if _number(device):
            raise DeviceError(
                f"set_device: {private.NAME} alone stands for {private.NAME}:0, got {device!r}; "
                f'write "{private.NAME}:{_number(device)}" where tensors are made, or let '
                "clprim.set_device choose which device number 0 is, before the first tensor"
            )

    @contextlib.contextmanager
    def device(self, device: Any) -> Iterator[None]:
        """A context in which this module's functions speak of a device; tensors name their own."""
        before = _inside.set(_number(device))
        try:
            yield
        finally:
            _inside.reset(before)

    def get_device_name(self, device: Any = None) -> str:
        """What the driver calls a device."""
        return _opened(device).name

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        """Name, ``total_memory`` in bytes and number of compute units."""
        found = _opened(device)
        return SimpleNamespace(
            name=found.name,
            total_memory=found.cl.global_mem_size,
            multi_processor_count=found.cl.max_compute_units,
        )

    Event, Stream = QueueEvent, QueueStream

    def current_stream(self, device: Any = None) -> QueueStream:
        """A device's one stream."""
        return QueueStream(device)

    default_stream = current_stream

    def stream(self, stream: QueueStream | None) -> QueueStream:
        """A context in which a stream is the current one; None leaves that as it is."""
        return QueueStream() if stream is None else _stream("stream", stream)

    def set_stream(self, stream: QueueStream) -> None:
        """Takes the one stream."""
        _stream("set_stream", stream)

    def is_bf16_supported(self) -> bool:
        """Whether tensors may be bfloat16: where the package ml_dtypes is there."""
        return supports_bfloat16()

    def synchronize(self, device: Any = None) -> None:
        """Waits until everything that was launched is done."""
        _opened(device).synchronize()

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors hold."""
        return placement.usage[_number(device)].now

    def max_memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors held at most since `reset_peak_memory_stats`."""
        return placement.usage[_number(device)].peak

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Lets `max_memory_allocated` begin anew."""
        usage = placement.usage[_number(device)]
        usage.peak = usage.now

    def empty_cache(self) -> None:
        """Gives memory that no tensor holds back to the driver."""
        for found in numbers.opened():
            found.pool.free_held()

    def manual_seed_all(self, seed: int) -> None:
        """Seeds the device's random numbers."""
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        """Seeds the device's random numbers."""
        random.seed(seed)

    def initial_seed(self) -> int:
        """The seed of the device's random numbers."""
        return random.get_state().seed

    def seed(self) -> None:
        """Seeds the device's random numbers with a number that PyTorch draws."""
        self.manual_seed(torch.seed())

    seed_all = seed

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        """What the next random numbers follow from, as bytes."""
        return torch.frombuffer(bytearray(_STATE.pack(*random.get_state())), dtype=torch.uint8)

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        """Takes what `get_rng_state` returned."""
        random.set_state(random.State(*_STATE.unpack(bytes(state.tolist()))))

    def get_rng_state_all(self) -> list[torch.Tensor]:
        """The one state that all devices have."""
        return [self.get_rng_state()]

    def set_rng_state_all(self, states: Iterable[torch.Tensor]) -> None:
        """Takes what `get_rng_state_all` returned."""
        for state in states:
            self.set_rng_state(state)

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Dtypes that autocast may choose."""
        return [torch.bfloat16, torch.float16]
