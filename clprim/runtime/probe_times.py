"""What only time tells of a device; asked in the child processes of `clprim.runtime.probe`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyopencl as cl

# A chain of operations that nothing can run ahead of, in each of many work-items.
_CHAIN = """
__kernel void probe(__global float *a)
{
    float x = a[get_global_id(0)];
    for (int k = 0; k < 20000; ++k)
        x = x * 0.999f + 0.5f;
    a[get_global_id(0)] = x;
}"""
# Chains of sums of four products of bytes, and of as many products of words.
_DOTS = """
__kernel void probe(__global uint *a)
{{
    const uint start = a[get_global_id(0)];
    uint x = start;
    for (uint k = 0; k < {steps}; ++k)
        x = {step};
    a[get_global_id(0)] = x;
}}"""
_DOT = "k - (uint)dot_4x8packed_ss_int(x, start)"
_PRODUCTS = "(((x * start + k) * x + k) * start + k) * x"
_LANES_GAIN = 3.0  # of four lanes, the fewest there are; without lanes it is 1
_DOTS_GAIN = 1.5  # of four products at once; where words are taken apart for them it is below 1
#: What the answers follow from, but for the device.
TIMED = (_CHAIN, _LANES_GAIN, _DOTS, _DOT, _PRODUCTS, _DOTS_GAIN)


def kernel_of(queue: cl.CommandQueue, source: str, std: str = "CL1.2") -> cl.Kernel:
    """Builds a program and returns its kernel ``probe``."""
    raw = cl._cl._Program(queue.context, source)
    raw._build(options=f"-cl-std={std}".encode(), devices=[queue.device])
    return cl.Kernel(cl.Program(raw), "probe")


def sums_four_products(queue: cl.CommandQueue) -> bool:
    """Tells whether sums of four products of bytes are right, and faster than four products."""
    kernel = kernel_of(queue, _DOTS.format(steps=3, step=_DOT), "CL3.0")
    given = np.arange(64, dtype=np.uint32) * np.uint32(0x9E3779B1)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(queue.context, flags, hostbuf=given)
    kernel.set_arg(0, memory)
    cl.enqueue_nd_range_kernel(queue, kernel, given.shape, None)
    found, expected = np.empty_like(given), given
    cl.enqueue_copy(queue, found, memory)
    parts = given.view(np.int8).reshape(-1, 4).astype(np.int32)
    for k in range(3):
        own = expected.view(np.int8).reshape(-1, 4)
        expected = (k - (own * parts).sum(1, dtype=np.int32)).astype(np.uint32)
    if not np.array_equal(found, expected):
        return False
    times = []
    for step in (_DOT, _PRODUCTS):
        chain = kernel_of(queue, _DOTS.format(steps=20000, step=step), "CL3.0")
        times.append(_time(queue, chain, (64, 64, 64))[64])
    return times[1] > _DOTS_GAIN * times[0]


def shares_lanes(queue: cl.CommandQueue) -> bool:
    """Tells whether work-items of a group share vectors, which a group of one wastes."""
    times = _time(queue, kernel_of(queue, _CHAIN), (1, 64) * 3)
    return times[1] > _LANES_GAIN * times[64]


def _time(queue: cl.CommandQueue, kernel: cl.Kernel, groups: Sequence[int]) -> dict[int, float]:
    """Returns the least seconds that a chain takes in work-groups of each size."""
    items = 64 * max(1, queue.device.max_compute_units)
    memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4 * items)
    cl.enqueue_fill_buffer(queue, memory, np.float32(1), 0, 4 * items)
    kernel.set_arg(0, memory)
    times: dict[int, float] = {}
    for group in groups:
        queue.finish()
        start = time.perf_counter()  # the clocks of some drivers stand
        cl.enqueue_nd_range_kernel(queue, kernel, (items,), (group,)).wait()
        taken = time.perf_counter() - start
        times[group] = min(taken, times.get(group, taken))
    return times
