"""The memory pool of a device; on CPUs it asks the system for huge pages, as NumPy does."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pyopencl as cl
import pyopencl.tools

# NumPy's own choice: below this, a fault that clears a huge page costs more than it gains.
_LARGE = 4 << 20
_HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE = 14  # of Linux


def make_pool(device: cl.Device, queue: cl.CommandQueue) -> pyopencl.tools.MemoryPool:
    """Return a pool of memory of the queue's device."""
    allocator = pyopencl.tools.ImmediateAllocator(queue)
    if device.type & cl.device_type.CPU and _madvise is not None:
        return _HostPool(allocator, queue.context, device)
    return pyopencl.tools.MemoryPool(allocator)


class _HostPool(pyopencl.tools.MemoryPool):
    """A pool in the host's memory, on huge pages: prefetching ends with a page."""

    def __init__(
        self,
        allocator: pyopencl.tools.ImmediateAllocator,
        context: cl.Context,
        device: cl.Device,
    ) -> None:
        super().__init__(allocator)
        self._queue = cl.CommandQueue(context, device)  # mapping must not wait for kernels

    def allocate(self, size: int) -> pyopencl.tools.PooledBuffer:
        if size < _LARGE:
            return super().allocate(size)
        held = self.held_blocks
        buffer = super().allocate(size)
        if self.held_blocks >= held:  # a new block: its pages do not exist yet
            advise_huge_pages(self._queue, buffer)
        return buffer

    __call__ = allocate


def advise_huge_pages(
    queue: cl.CommandQueue, buffer: cl.Buffer | pyopencl.tools.PooledBuffer
) -> None:
    """Ask for huge pages where the buffer, still untouched, lies in the host's memory.

    It is advice: where the system does not take it, nothing is different.
    """
    if _madvise is None or buffer.size < _LARGE:
        return
    try:
        flags = cl.map_flags.WRITE
        shape, bytes_ = (buffer.size,), np.dtype(np.uint8)
        host, _ = cl.enqueue_map_buffer(queue, buffer, flags, 0, shape, bytes_)
    except cl.Error:
        return
    first = -(-host.ctypes.data // _HUGE_PAGE) * _HUGE_PAGE
    end = (host.ctypes.data + buffer.size) // _HUGE_PAGE * _HUGE_PAGE
    if end > first:
        _madvise(first, end - first, _MADV_HUGEPAGE)
    # Some runtimes write what was mapped back, after whatever another queue has written by then.
    host.base.release(queue).wait()


def _find_madvise() -> ctypes._NamedFuncPointer | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


_madvise = _find_madvise()
