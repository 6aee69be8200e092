"""For Lightning: ``Trainer(strategy=clprim.torch.lightning.OneDevice())``."""
# ruff: noqa: D102 - methods are Lightning's

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.strategies import SingleDeviceStrategy

from clprim.torch import private


class OpenCLAccelerator(Accelerator):  # type: ignore[misc]
    """A kind of device, as Lightning wants to know it."""

    name = staticmethod(lambda: private.NAME)
    is_available = staticmethod(lambda: bool(torch.opencl.is_available()))
    auto_device_count = staticmethod(lambda: int(torch.opencl.device_count()))
    parse_devices = staticmethod(int)

    def setup_device(self, device: torch.device) -> None: ...

    def teardown(self) -> None: ...

    @staticmethod
    def get_parallel_devices(devices: int) -> list[torch.device]:
        return [torch.device(private.NAME, n) for n in range(devices)]


class OneDevice(SingleDeviceStrategy):  # type: ignore[misc]
    """Training on one device, ``opencl`` or a further one."""

    def __init__(self, device: Any = private.NAME, **options: Any) -> None:
        accelerator = OpenCLAccelerator()
        super().__init__(torch.device(device), accelerator=accelerator, **options)
