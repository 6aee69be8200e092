"""Copies between the host's memory and a device's, of arrays without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from clprim.dtypes import AnyDType
from clprim.errors import DeviceError
from clprim.runtime import tracing
from clprim.runtime.device import Device, device_of, wait_for


def upload(array: cl_array.Array, host: np.ndarray[Any, Any], device: Device) -> None:
    """Writes ``host``, whose axes come in the order of memory, to all of a device's array."""
    if not host.size:
        return
    if tracing.active.now is not None:
        tracing.active.now.uploaded(array, host, device)
        return
    flat = np.ascontiguousarray(host).view(np.uint8).reshape(-1)
    try:
        with device.lock:
            copied = cl.enqueue_copy(
                device.queue, cast(Any, array.base_data), flat, is_blocking=False
            )
        copied.wait()  # without the lock: other threads launch meanwhile
    except cl.Error as error:
        raise DeviceError(f"upload of shape {array.shape} to {device} failed: {error}") from error


def download(
    array: cl_array.Array, order: Sequence[int], queue: Any = None
) -> np.ndarray[Any, AnyDType]:
    """Returns an array's elements, which lie without gaps with axes in ``order``."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    if (trace := tracing.active.now) is not None:
        found: np.ndarray[Any, AnyDType] = trace.download(array, order)
        return found
    flat = np.empty(tuple(array.shape[d] for d in order), array.dtype)
    # Kernels run on the device's queue of the moment, which a profile replaces for a while.
    owner = device_of(array.context)
    own = array.queue if owner is None else owner.queue
    try:
        if queue is None:
            queue = own
        elif queue != own and own is not None:
            wait_for(own)
        for event in array.events:
            event.wait()
        cl.enqueue_copy(
            queue,
            flat.view(np.uint8).reshape(-1) if flat.ndim else flat.reshape(1).view(np.uint8),
            cast(Any, array.base_data),
            src_offset=array.offset,
            is_blocking=True,
        )
    except cl.Error as error:
        raise DeviceError(f"get: download of shape {array.shape} failed: {error}") from error
    return cast("np.ndarray[Any, AnyDType]", flat.transpose(np.argsort(order)))
