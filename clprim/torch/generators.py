"""``torch.Generator("opencl")``: one of the host, which draws the seeds of the device's numbers."""

from __future__ import annotations

from typing import Any

import torch

from clprim.torch import numbers, private


class DeviceGenerator(torch.Generator):  # type: ignore[misc]
    """What ``torch.Generator("opencl")`` makes; one seed gives the same numbers on every device."""

    def __new__(cls, number: int) -> Any:
        """Makes PyTorch's own for the host."""
        return super().__new__(cls)

    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def device(self) -> torch.device:
        """The device that it was made for."""
        return torch.device(private.NAME, self._number)

    def clone_state(self) -> Any:
        """Returns a generator that goes on from the same state."""
        return rebuild(self._number, self.get_state())

    def __reduce__(self) -> Any:
        return rebuild, (self._number, self.get_state())


def rebuild(number: int, state: torch.Tensor) -> DeviceGenerator:
    """Returns a generator with a state."""
    made = DeviceGenerator(number)
    made.set_state(state)
    return made


def register() -> None:
    """Lets ``torch.Generator`` make them."""
    private.make_generators(lambda device: DeviceGenerator(numbers.check(device.index)))
