"""Whether work-items that go different ways each get what their own way gives; see `probe`."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from clprim.runtime.probe_times import kernel_of

_ITEMS = 32  # vectors of work-items are at most as many
# Some vectorisers take a number that is one in all lanes of either way for one in all lanes; some
# read, though no lane goes there, what all of those that went would read.
_SOURCES = (
    """\
__kernel void probe(__global int *y, __global const float *x, __global const int *at, const int n)
{
    const int i = get_global_id(0);
    int low = 0, high = n;
    while (low < high) {
        const int m = (low + high) / 2;
        if (m > 2 && x[i] < 0) high = m; else low = m + 1;
    }
    y[i] = low;
}""",
    """\
__kernel void probe(__global int *y, __global const float *x, __global const int *at, const int n)
{
    const int i = get_global_id(0);
    int sum = 0;
    for (int k = 0; k < n; ++k)
        if (i > 3)
            sum += k * sum + 1;
        else
            sum -= at[k];
    y[i] = sum;
}""",
    """\
__kernel void probe(__global int *y, __global const float *x, __global const int *at, const int n)
{
    const int i = get_global_id(0);
    int bits = 0;
    for (int k = 0; k < 32; ++k) {
        if (k <= i || k >= n)
            continue;
        const int b = at[k];
        float product = 1;
        for (int d = 0; d < 2; ++d) {
            const float p = x[b * 4 + d], q = x[b * 4 + d + 2];
            product *= fmin(p, x[i * 4 + d + 2]) - q;
        }
        bits += product > 0.5f ? 0 : 1;
    }
    y[i] = bits;
}""",
)
#: What the answer follows from, but for the device.
WAYS = _SOURCES


def goes_own_ways(queue: cl.CommandQueue) -> bool:
    """Tells whether loops and reads that work-items go through apart are those of each."""
    n = 5
    x = np.where(np.arange(4 * _ITEMS + 4) % 2, 1, -1).astype(np.float32)
    at = np.full(_ITEMS, 0x0FF00000, np.int32)  # far outside, and read by nobody
    at[:n] = 0
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    first = [3 if v < 0 else n for v in x[:_ITEMS]]
    sums = 0
    for k in range(n):
        sums += k * sums + 1
    second = [sums if i > 3 else 0 for i in range(_ITEMS)]
    # Products of (-1 - -1) * (1 - 1) and their like: never above a half.
    third = [max(0, n - 1 - i) for i in range(_ITEMS)]
    for source, expected in zip(_SOURCES, (first, second, third), strict=True):
        found = np.full(_ITEMS, -1, np.int32)
        memory = [cl.Buffer(queue.context, flags, hostbuf=a) for a in (found, x, at)]
        kernel = kernel_of(queue, source)
        kernel.set_args(*memory, np.int32(n))
        cl.enqueue_nd_range_kernel(queue, kernel, (_ITEMS,), (_ITEMS,))
        cl.enqueue_copy(queue, found, memory[0])
        if found.tolist() != expected:
            return False
    return True
