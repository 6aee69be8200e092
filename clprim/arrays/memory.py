"""Where arrays of any maker lie in a device's memory, and memory between kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.tools import PooledBuffer

from clprim.errors import DeviceError
from clprim.plan.strides import Operand, dense_strides
from clprim.runtime.device import Device, wait_for


def operand_of(array: Any) -> Operand:
    """Describes where an array's elements lie, for plans; an operand is one already."""
    if isinstance(array, Operand):
        return array
    where = memory_of(array.base_data)
    return Operand(array.shape, array.strides, array.offset, array.dtype, where)


def is_dense(array: cl_array.Array, order: Sequence[int]) -> bool:
    """Whether the elements lie without gaps, axes in ``order`` from the slowest to the fastest."""
    return _is_dense(array.shape, array.strides, array.dtype.itemsize, tuple(order))


@lru_cache(maxsize=4096)
def _is_dense(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, order: tuple[int, ...]
) -> bool:
    expected = dense_strides(shape, itemsize, order)
    return 0 in shape or all(
        size == 1 or have == want for size, have, want in zip(shape, strides, expected, strict=True)
    )


def join(array: cl_array.Array, device: Device) -> None:
    """Waits for work on an array that another queue was given."""
    if array.queue is not None and array.queue not in device.queues:
        wait_for(array.queue)
    for event in array.events:
        event.wait()


def memory_relation(a: Any, b: Any) -> tuple[int, int] | None:
    """Returns where two buffers start in their common memory, in bytes, or None if they have none.

    A buffer may be a sub-buffer of another one; both then lie in the parent's memory.
    """
    if a is b:
        return (0, 0)
    if type(a) is PooledBuffer or type(b) is PooledBuffer:
        return None  # a pool hands out no two buffers over one piece of memory
    root_a, start_a = _root(a)
    root_b, start_b = _root(b)
    return (start_a, start_b) if root_a == root_b else None


def _root(buffer: Any) -> tuple[Any, int]:
    if not isinstance(buffer, cl.MemoryObjectHolder):
        return buffer, 0
    parent = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
    start: Any = buffer.get_info(cl.mem_info.OFFSET)
    return (buffer, start) if parent is None else (parent, start)


def memory_of(buffer: Any) -> tuple[int, int]:
    """Returns a number that tells a buffer's memory from that of others, and where it starts there.

    Equal numbers mean the same memory as long as both buffers live.
    """
    if type(buffer) is PooledBuffer:
        return id(buffer), 0
    root, start = _root(buffer)
    return (root.int_ptr if isinstance(root, cl.MemoryObjectHolder) else id(root)), start


def allocate_workspace(device: Device, sizes: Sequence[int]) -> list[Any]:
    """Allocates buffers of so many bytes, which the pool gets back when they are dropped."""
    try:
        return [device.pool.allocate(nbytes) for nbytes in sizes]
    except (cl.Error, MemoryError, TypeError) as error:
        raise DeviceError(f"{device} cannot allocate {sum(sizes):,} bytes of workspace") from error


def part_of(buffer: Any, begin: int, nbytes: int) -> Any:
    """Returns a part of a buffer of the pool, which must be kept as long."""
    try:
        whole: Any = cl.Buffer.from_int_ptr(buffer.int_ptr)
        return whole.get_sub_region(begin, max(nbytes, 1))
    except cl.Error as error:
        raise DeviceError(f"no part of {nbytes:,} bytes can be had of a buffer: {error}") from error
