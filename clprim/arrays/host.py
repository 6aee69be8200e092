"""Arrays of a device that computes in the host's memory, seen from the host without a copy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from clprim.arrays.memory import join
from clprim.runtime import tracing
from clprim.runtime.device import Device, device_of


class _Memory:
    """What NumPy reads an array of; it keeps the device's memory alive."""

    def __init__(self, array: cl_array.Array, address: int) -> None:
        self._array = array
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}",
        }


def host_view(array: cl_array.Array) -> np.ndarray[Any, Any] | None:
    """Returns a NumPy array over the memory of a device array, or None where the host has none.

    Waits until everything launched on the device is done. What either side writes the other one
    sees; kernels launched from then on write while the host goes on.
    """
    device = device_of(array.context)
    if device is None or not array.size or not _computes_in_the_hosts_memory(device):
        return None
    tracing.end_any("memory that the host shares")
    join(array, device)
    device.synchronize()
    try:
        address = _address(device, array.base_data)
    except (cl.Error, TypeError, AttributeError):  # such as an allocation that is no buffer
        return None
    return np.asarray(_Memory(array, address + array.offset)).view(array.dtype)


def _address(device: Device, buffer: Any) -> int:
    """Returns where a buffer lies. To map it moves nothing, as the device has no other memory."""
    flags: Any = cl.map_flags.READ | cl.map_flags.WRITE
    with device.lock:
        queue = device.queue
        shape, bytes_ = (buffer.size,), np.dtype(np.uint8)
        mapped, _ = cl.enqueue_map_buffer(queue, buffer, flags, 0, shape, bytes_)
        address = int(mapped.ctypes.data)
        mapped.base.release(queue)
    return address


@lru_cache(maxsize=64)
def _computes_in_the_hosts_memory(device: Device) -> bool:
    """Whether what the device writes is there at once for the host, and the other way round.

    Drivers of CPUs may map a copy. So a buffer stays mapped while the device writes to it and
    reads it, which no program may rely on and only memory that is shared shows.
    """
    if device.type != "cpu":
        return False
    flags: Any = cl.map_flags.READ | cl.map_flags.WRITE
    given, found = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    try:
        queue = cl.CommandQueue(device.context, device.cl)
        buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, given.nbytes)
        mapped, _ = cl.enqueue_map_buffer(queue, buffer, flags, 0, given.shape, given.dtype)
        cl.enqueue_copy(queue, buffer, given, is_blocking=True)
        seen = bool((mapped == given).all())
        mapped[...] = given[::-1]
        cl.enqueue_copy(queue, found, buffer, is_blocking=True)
        mapped.base.release(queue)
        queue.finish()
    except cl.Error:
        return False
    return seen and bool((found == given[::-1]).all())
