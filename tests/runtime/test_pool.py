"""The memory pool: large blocks lie on huge pages where the system has them, and are reused."""

from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

import clprim as cp

HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
LARGE = 64 << 20


def address_of(device: cp.Device, array: cp.Array) -> int:
    """Where an array lies in the host's memory."""
    size, kind = (array.base_data.size,), np.dtype(np.uint8)
    flags = cl.map_flags.READ
    host, _ = cl.enqueue_map_buffer(device.queue, array.base_data, flags, 0, size, kind)
    address = host.ctypes.data
    host.base.release(device.queue)
    return address


def huge_bytes(address: int) -> int:
    """Bytes on huge pages of the mapping that an address lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            inside = start <= address < end
        elif inside and first == "AnonHugePages:":
            return int(line.split()[1]) << 10
    return 0


@pytest.mark.skipif(
    not HUGE.exists() or "[never]" in HUGE.read_text(encoding="ascii"),
    reason="this system gives no huge pages on request",
)
def test_large_arrays_of_cpus_lie_on_huge_pages(device):
    if device.type != "cpu":
        pytest.skip("memory of its own")
    x = cp.full((LARGE // 4,), 1.0)
    cp.synchronize()
    # Its first and last part may lie outside of whole huge pages.
    assert huge_bytes(address_of(device, x) + LARGE // 2) > LARGE // 2
    assert np.array_equal(x.get(), np.ones(LARGE // 4, np.float32))


def test_large_blocks_are_reused_with_what_is_in_them(device):
    x = cp.full((LARGE // 4,), 3.0)
    handle = x.base_data.int_ptr
    cp.synchronize()
    del x
    y = cp.empty((LARGE // 4,), "float32")
    assert y.base_data.int_ptr == handle
    assert np.array_equal(y.get(), np.full(LARGE // 4, 3, np.float32))
