"""The memory pool: large blocks lie on huge pages where the system has them, and are reused."""

from pathlib import Path

import numpy as np
import pytest

import clprim as cp

HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
LARGE = 64 << 20


def huge_bytes() -> int:
    """Anonymous memory of this process on huge pages."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages"))


@pytest.mark.skipif(
    not HUGE.exists() or "[never]" in HUGE.read_text(encoding="ascii"),
    reason="this system gives no huge pages on request",
)
def test_large_arrays_of_cpus_lie_on_huge_pages(device):
    if device.type != "cpu":
        pytest.skip("memory of its own")
    device.pool.free_held()
    before = huge_bytes()
    x = cp.full((LARGE // 4,), 1.0)
    cp.synchronize()
    assert huge_bytes() - before > LARGE // 2
    assert np.array_equal(x.get(), np.ones(LARGE // 4, np.float32))


def test_large_blocks_are_reused_with_what_is_in_them(device):
    x = cp.full((LARGE // 4,), 3.0)
    handle = x.base_data.int_ptr
    cp.synchronize()
    del x
    y = cp.empty((LARGE // 4,), "float32")
    assert y.base_data.int_ptr == handle
    assert np.array_equal(y.get(), np.full(LARGE // 4, 3, np.float32))
