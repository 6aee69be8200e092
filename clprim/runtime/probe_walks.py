"""Whether kernels can be phases of one launch: what a work-group writes, others read; see `probe`.

It is the walker of graphs itself that is tried. Two buffers take turns, of which every work-group
reads the same lines in every phase: who keeps one in a cache of its own that somebody has written
anew is found out by the sums. Who waits in vain is ended with the child.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pyopencl as cl

from clprim.plan.kernel import Buffer, KernelPlan, Parameter, PrintedCode
from clprim.plan.launch.body import body_of
from clprim.plan.launch.walker import (
    ITEMS,
    UNIT_GROUPS,
    Phase,
    counters,
    shares,
    table_of,
    walker_code,
    walker_plan,
)
from clprim.render import render
from clprim.runtime.query import may_share_lanes, query_traits

# Tiles for each work-group that walks, phases, and launches: fewer where seconds have passed.
_TILES, _PHASES, _LAUNCHES, _SECONDS = 4, 12, 100, 4.0
# A phase.
_TEXT = """\
static uint sum(uint a, uint b)
{
    return a + b;
}
__kernel __attribute__((reqd_work_group_size(SIZE, 1, 1))) void probe(
    __global uint *y,
    __global const uint *x,
    const int step)
{
    __local uint near[SIZE];
    const int i = get_global_id(0), l = get_local_id(0), groups = get_num_groups(0);
    near[SIZE - 1 - l] = x[groups * SIZE - 1 - i] + 3 * x[l * groups];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = sum(near[l], step);
}
"""
# Vectors in a loop, of which, in a function that is called, some compilers die.
_WIDE = """\
    __local float wide[20 * SIZE];
    float16 least = 0;
    for (int k = 0; k < step; ++k) {
        vstore16((float16)k, 0, wide + 20 * l + k % 4);
        least += fmin(vload16(0, wide + 20 * l + k % 4) * 1e-6f, 0.01f);
    }
    y[i] = sum(near[l], max(step, clamp((int)least.s3, 0, step)));
"""
#: What the answer follows from, but for the device.
WALKS = (_TEXT, _WIDE)
_PARAMETERS = (
    Parameter.memory("uint", "y", read_only=False),
    Parameter.memory("uint", "x", read_only=True),
    Parameter.number("int", "step"),
)


def items_of(queue: cl.CommandQueue) -> int:
    """Returns how many work-items the groups of walkers have on a device."""
    device = queue.device
    is_cpu = query_traits(device).is_cpu and not may_share_lanes(device)
    return 1 if is_cpu else min(ITEMS, device.max_work_group_size)


def walks(queue: cl.CommandQueue, *, calls: bool) -> bool:
    """Tells whether phases find what others wrote, each of a body that is inlined, or called."""
    items, traits = items_of(queue), replace(query_traits(queue.device), calls=calls)
    text = _TEXT
    if calls:
        end = text.rindex("    y[i]")
        text = f"{text[:end]}{_WIDE}}}\n"
    text = text.replace("SIZE", str(items))
    code = PrintedCode(
        name="probe", parameters=_PARAMETERS, index="int", doubles=False, text=text, version=(1, 2)
    )
    groups = max(2, UNIT_GROUPS * traits.compute_units)
    units = _TILES * groups
    plans = [
        KernelPlan("", code, (Buffer("y"), Buffer("x"), step), (units * items,), (items,), 0, 0)
        for step in range(_PHASES)
    ]
    # Another text beside it, whose names are the same.
    texts = [text, text.replace("a + b", "b + a")]
    bodies = [body_of(plan, texts[n % 2], items) for n, plan in enumerate(plans)]
    phases = [
        Phase(plan, body, (), {"y": (n % 2, 0), "x": (1 - n % 2, 0)}, (n - 1,) if n else ())
        for n, (plan, body) in enumerate(zip(plans, bodies, strict=True))
        if body is not None
    ]
    if len(phases) < _PHASES:
        return False
    walker = walker_code([p.body for p in phases], 2, items, traits, doubles=False)
    plan = walker_plan(walker, phases, groups)
    raw = cl._cl._Program(queue.context, render(plan.template, walker))
    raw._build(options="-cl-std=CL{}.{}".format(*walker.c_version).encode(), devices=[queue.device])
    raw.get_info(cl.program_info.BINARIES)  # as the cache on disk asks, of which some die
    kernel = cl.Kernel(cl.Program(raw), walker.name)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    known = np.arange(units * items, dtype=np.uint32)
    table = np.frombuffer(table_of(walker, phases, groups), np.int32)
    zeros = np.zeros(counters(walker, _PHASES, groups), np.uint32)
    made = [cl.Buffer(queue.context, flags, hostbuf=a) for a in (table, zeros, known, known)]
    numbers = np.int32(_PHASES), np.int32(shares(walker, groups))
    launches, end = 0, time.monotonic() + _SECONDS
    while launches < 2 or (launches < _LAUNCHES and time.monotonic() < end):
        kernel.set_args(made[0], made[1], np.uint32(launches), *numbers, made[2], made[3])
        cl.enqueue_nd_range_kernel(queue, kernel, plan.global_size, plan.local_size)
        queue.finish()
        launches += 1
    found = np.empty_like(known)
    cl.enqueue_copy(queue, found, made[2 + (_PHASES - 1) % 2])
    for n in range(launches * _PHASES):
        near = known[::-1].reshape(units, items) + np.uint32(3) * known[: units * items : units]
        known = (near[:, ::-1] + np.uint32(n % _PHASES)).ravel()
    return bool(np.array_equal(found, known))
