"""``torch.opencl``: what PyTorch and its users ask a device's module for."""

from __future__ import annotations

import contextlib
import re
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from clprim import random
from clprim.errors import DeviceError
from clprim.runtime.device import devices
from clprim.text_table import format_table
from clprim.torch import numbers, private
from clprim.torch.streams import (
    QueueEvent,
    QueueStream,
    current,
    inside,
    number_of,
    opened,
    stream_given,
)
from clprim.torch.tensors import placement, supports_bfloat16, torch_dtypes

_STATE = struct.Struct("<QQ")  # seed, number of calls


class DeviceModule:
    """The module. ``opencl:0`` is clprim's current device, and what ``opencl`` alone stands for."""

    _initialized = True  # checkpoints keep random states of what says so

    def __init__(self) -> None:
        self._reserved: dict[int, int] = defaultdict(int)

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
        return inside.get()

    def set_device(self, device: Any) -> None:
        """Takes 0: ``opencl`` alone always stands for it, as PyTorch has no way to change that.

        Raises:
            DeviceError: Another number.
        """
        if number_of(device):
            raise DeviceError(
                f"set_device: {private.NAME} alone stands for {private.NAME}:0, got {device!r}; "
                f'write "{private.NAME}:{number_of(device)}" where tensors are made, or let '
                "clprim.set_device choose which device number 0 is, before the first tensor"
            )

    @contextlib.contextmanager
    def device(self, device: Any) -> Iterator[None]:
        """A context in which this module's functions speak of a device; tensors name their own."""
        before = inside.set(number_of(device))
        try:
            yield
        finally:
            inside.reset(before)

    def get_device_name(self, device: Any = None) -> str:
        """What the driver calls a device."""
        return opened(device).name

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        """Name, ``total_memory`` in bytes and number of compute units."""
        found = opened(device)
        return SimpleNamespace(
            name=found.name,
            total_memory=found.cl.global_mem_size,
            multi_processor_count=found.cl.max_compute_units,
        )

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """The version of OpenCL that a device supports, as (3, 0)."""
        found = re.search(r"(\d+)\.(\d+)", opened(device).version)
        return (int(found[1]), int(found[2])) if found else (1, 2)

    Event, Stream = QueueEvent, QueueStream

    def current_stream(self, device: Any = None) -> QueueStream:
        """A device's one stream."""
        return current(device)

    default_stream = current_stream

    def stream(self, stream: QueueStream | None) -> QueueStream:
        """A context in which a stream is the current one; None leaves that as it is."""
        return QueueStream() if stream is None else stream_given("stream", stream)

    def set_stream(self, stream: QueueStream) -> None:
        """Takes the one stream."""
        stream_given("set_stream", stream)

    def is_bf16_supported(self) -> bool:
        """Whether tensors may be bfloat16: where the package ml_dtypes is there."""
        return supports_bfloat16()

    def synchronize(self, device: Any = None) -> None:
        """Waits until everything that was launched is done."""
        opened(device).synchronize()

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors hold."""
        return placement.usage[number_of(device)].now

    def max_memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors held at most since `reset_peak_memory_stats`."""
        return placement.usage[number_of(device)].peak

    def memory_reserved(self, device: Any = None) -> int:
        """Bytes that were taken from the driver: tensors', arrays' and what waits to be used."""
        return int(opened(device).pool.managed_bytes)

    def max_memory_reserved(self, device: Any = None) -> int:
        """Bytes that were taken from the driver at most since `reset_peak_memory_stats`."""
        number = number_of(device)
        # Only `empty_cache` gives some back.
        found = max(self._reserved[number], self.memory_reserved(number))
        self._reserved[number] = found
        return found

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Bytes that this process has not taken, and all that there are.

        What other programs take is not known to OpenCL.
        """
        total = int(opened(device).cl.global_mem_size)
        return max(0, total - self.memory_reserved(device)), total

    def memory_stats(self, device: Any = None) -> OrderedDict[str, int]:
        """What is allocated and reserved, now and at most, by PyTorch's names of these."""
        stats = self.memory_stats_as_nested_dict(device)
        flat = {
            f"{name}.all.{when}": value
            for name, found in stats.items()
            for when, value in found["all"].items()
        }
        return OrderedDict(sorted(flat.items()))

    def memory_stats_as_nested_dict(self, device: Any = None) -> dict[str, Any]:
        """What `memory_stats` returns, dictionaries in dictionaries."""
        usage, pool = placement.usage[number_of(device)], opened(device).pool
        return {
            "allocated_bytes": {"all": {"current": usage.now, "peak": usage.peak}},
            "reserved_bytes": {
                "all": {
                    "current": self.memory_reserved(device),
                    "peak": self.max_memory_reserved(device),
                }
            },
            "segment": {"all": {"current": pool.held_blocks + pool.active_blocks}},
        }

    def memory_summary(self, device: Any = None, abbreviated: bool = False) -> str:
        """The numbers of `memory_stats` as a table, in bytes."""
        rows = [[name, f"{value:,}"] for name, value in self.memory_stats(device).items()]
        return format_table(["", opened(device).name], rows)

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Lets `max_memory_allocated` and `max_memory_reserved` begin anew."""
        number = number_of(device)
        usage = placement.usage[number]
        usage.peak = usage.now
        self._reserved[number] = 0

    def empty_cache(self) -> None:
        """Gives memory that no tensor holds back to the driver."""
        for number, found in enumerate(numbers.opened()):
            self.max_memory_reserved(number)
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


def serve_accelerator(module: DeviceModule) -> None:
    """Lets functions of `torch.accelerator` do what those of the device's module do."""
    private.replace_accelerator(
        {
            "isAllocatorInitialized": lambda: True,
            "emptyCache": module.empty_cache,
            "emptyHostCache": lambda: None,
            "getDeviceStats": module.memory_stats_as_nested_dict,
            "resetPeakStats": module.reset_peak_memory_stats,
            "resetAccumulatedStats": lambda device: None,
            "getMemoryInfo": module.mem_get_info,
            "getDeviceCapability": lambda device: {"supported_dtypes": torch_dtypes()},
            "getDeviceIndex": module.current_device,
            "setDeviceIndex": module.set_device,
            "getStream": module.current_stream,
            "setStream": module.set_stream,
            "synchronizeDevice": module.synchronize,
        }
    )
