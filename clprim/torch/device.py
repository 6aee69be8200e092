"""``torch.opencl``: what PyTorch and its users ask a device's module for."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from clprim import random
from clprim.runtime.device import current_device, devices
from clprim.runtime.device import synchronize as wait
from clprim.torch.memory import usage

__all__ = ["DeviceModule"]

_STATE = struct.Struct("<QQ")  # seed, number of calls


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
            raise RuntimeError(f"opencl:{number}: there is one device, opencl:0")

    @contextlib.contextmanager
    def device(self, device: Any) -> Iterator[None]:
        """A context in which a device is the current one."""
        self.set_device(device)
        yield

    def get_device_name(self, device: Any = None) -> str:
        """What the driver calls the device."""
        return current_device().name

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
