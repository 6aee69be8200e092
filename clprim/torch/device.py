"""``torch.opencl``: what PyTorch and its users ask a device's module for."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import torch

from clprim import random
from clprim.errors import DeviceError
from clprim.runtime.device import current_device, devices
from clprim.runtime.device import synchronize as wait
from clprim.torch.memory import supports_bfloat16, usage

__all__ = ["DeviceModule"]

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
        self._done = None
        self._marker = marker = cl.enqueue_marker(current_device().queue)
        if self._timing:

            def done(_: int) -> None:
                if self._marker is marker:
                    self._done = time.perf_counter()

            marker.set_callback(cl.command_execution_status.COMPLETE, done)
        current_device().queue.flush()

    def wait(self, stream: Any = None) -> None:
        """Makes what is launched next wait: it does so already, in the one queue."""

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
        for event in (self, end):
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
    """The device's one queue, in which everything runs in order; all streams are this one."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.stream_id = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueStream)

    def __hash__(self) -> int:
        return 0

    def synchronize(self) -> None:
        """Waits until everything that was launched is done."""
        wait()

    def query(self) -> bool:
        """Whether everything that was launched is done."""
        event = self.record_event()
        return event.query()

    def record_event(self, event: QueueEvent | None = None) -> QueueEvent:
        """Puts an event behind all that was launched."""
        event = QueueEvent() if event is None else event
        event.record()
        return event

    def wait_event(self, event: QueueEvent) -> None:
        """Does nothing: the queue is in order."""

    def wait_stream(self, stream: QueueStream) -> None:
        """Does nothing: there is one queue."""

    def __enter__(self) -> QueueStream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class DeviceModule:
    """The module: one device, clprim's current one at the time of the import."""

    def is_initialized(self) -> bool:
        """Whether it may be used: always."""
        return True

    def is_available(self) -> bool:
        """Whether there is an OpenCL device."""
        return bool(devices())

    def device_count(self) -> int:
        """How many devices tensors can be on: one."""
        return min(1, len(devices()))

    def current_device(self) -> int:
        """The number of the device that tensors are on."""
        return 0

    def set_device(self, device: Any) -> None:
        """Takes 0, the only one; `clprim.set_device` chooses which that is."""
        number = torch.device(device).index if not isinstance(device, int) else device
        if number not in (None, 0):
            raise DeviceError(f"opencl:{number}: there is one device, opencl:0")

    @contextlib.contextmanager
    def device(self, device: Any) -> Iterator[None]:
        """A context in which a device is the current one."""
        self.set_device(device)
        yield

    def get_device_name(self, device: Any = None) -> str:
        """What the driver calls the device."""
        return current_device().name

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        """Name, ``total_memory`` in bytes and number of compute units."""
        found = current_device()
        return SimpleNamespace(
            name=found.name,
            total_memory=found.cl.global_mem_size,
            multi_processor_count=found.cl.max_compute_units,
        )

    Event, Stream = QueueEvent, QueueStream

    def current_stream(self, device: Any = None) -> QueueStream:
        """The one stream."""
        return QueueStream()

    default_stream = current_stream

    def stream(self, stream: QueueStream) -> QueueStream:
        """A context in which a stream is the current one."""
        return stream

    def set_stream(self, stream: QueueStream) -> None:
        """Takes the one stream."""

    def is_bf16_supported(self) -> bool:
        """Whether tensors may be bfloat16: where the package ml_dtypes is there."""
        return supports_bfloat16()

    def synchronize(self, device: Any = None) -> None:
        """Waits until everything that was launched is done."""
        wait()

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors hold."""
        return usage.now

    def max_memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors held at most since `reset_peak_memory_stats`."""
        return usage.peak

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Lets `max_memory_allocated` begin anew."""
        usage.peak = usage.now

    def empty_cache(self) -> None:
        """Gives memory that no tensor holds back to the driver."""
        current_device().pool.free_held()

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
        """The state of every device."""
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
