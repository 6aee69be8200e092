"""The memory pool: huge pages are asked for large blocks, and blocks are reused."""

from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

import clprim as cp

HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SMAPS = Path("/proc/self/smaps")
LARGE = 64 << 20


def address_of(device: cp.Device, array: cp.Array) -> int:
    """Where an array lies in the host's memory."""
    size, kind = (array.base_data.size,), np.dtype(np.uint8)
    flags = cl.map_flags.READ
    host, _ = cl.enqueue_map_buffer(device.queue, array.base_data, flags, 0, size, kind)
    address = host.ctypes.data
    host.base.release(device.queue)
    return address


def advice(address: int) -> set[str]:
    """The kernel's flags of the mapping that an address lies in, `hg` for huge pages asked for."""
    inside = False
    for line in SMAPS.read_text(encoding="utf-8").splitlines():
        first, *rest = line.split()
        if "-" in first and not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            inside = start <= address < end
        elif inside and first == "VmFlags:":
            return set(rest)
    return set()


@pytest.mark.skipif(
    not HUGE.exists() or not SMAPS.exists() or "VmFlags:" not in SMAPS.read_text(encoding="utf-8"),
    reason="this system has no huge pages, or does not say for what they were asked",
)
def test_huge_pages_are_asked_for_large_arrays_of_cpus(device):
    if device.type != "cpu":
        pytest.skip("memory of its own")
    x = cp.full((LARGE // 4,), 1.0)
    cp.synchronize()
    # Whether any are given is the system's affair: a crowded one has none left. The first and
    # last part of an array may lie outside of whole huge pages.
    assert "hg" in advice(address_of(device, x) + LARGE // 2)
    assert np.array_equal(x.get(), np.ones(LARGE // 4, np.float32))


def test_large_blocks_are_reused_with_what_is_in_them(device):
    x = cp.full((LARGE // 4,), 3.0)
    handle = x.base_data.int_ptr
    cp.synchronize()
    del x
    y = cp.empty((LARGE // 4,), "float32")
    assert y.base_data.int_ptr == handle
    assert np.array_equal(y.get(), np.full(LARGE // 4, 3, np.float32))
