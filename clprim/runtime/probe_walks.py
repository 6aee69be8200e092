"""Whether kernels can be phases of one launch, and what that spares them; see `probe`.

It is the walker of graphs itself that is tried. Two buffers take turns, of which every work-group
reads the same lines in every phase: who keeps one in a cache of its own that somebody has written
anew is found out by the sums. Who waits in vain is ended with the child.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyopencl as cl

from clprim.plan import machine
from clprim.plan.cost import ISSUED
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
from clprim.runtime.probe_times import kernel_of
from clprim.runtime.query import may_share_lanes, query_traits
from clprim.traits import DeviceTraits

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
# A phase whose work-items each do as much: `step` multiply-adds, one after another.
_CHAIN = """\
__kernel __attribute__((reqd_work_group_size(SIZE, 1, 1))) void probe(
    __global uint *y,
    __global const uint *x,
    const int step)
{
    float sum = x[get_global_id(0)];
    for (int k = 0; k < step; ++k)
        sum = sum * 0.999f + 0.5f;
    y[get_global_id(0)] = sum;
}
"""
_STEPS = 4000
#: Numbers of multiply-adds that a kernel may be spared as a phase.
SPARED = (250, 500, 700, 1000, 1400, 2000, 2800, 4000, 5600, 8000, 11000, 16000)
#: What the answers follow from, but for the device.
WALKS = (_TEXT, _WIDE, _CHAIN, _STEPS, SPARED)
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


class _Walker:
    """Phases over two arrays in turns, each by one of some kernels, as a launch."""

    def __init__(
        self,
        queue: cl.CommandQueue,
        texts: Sequence[str],
        steps: Sequence[int],
        tiles: int,
        groups: int,
        traits: DeviceTraits,
    ) -> None:
        items = items_of(queue)
        self.begun = np.arange(tiles * items, dtype=np.uint32)
        phases = []
        for n, step in enumerate(steps):
            text = texts[n % len(texts)]
            code = PrintedCode(
                name="probe", parameters=_PARAMETERS, index="int", doubles=False, text=text,
                version=(1, 2),
            )  # fmt: skip
            given = Buffer("y"), Buffer("x"), step
            plan = KernelPlan("", code, given, self.begun.shape, (items,), 0, 0)
            body = body_of(plan, text, items)
            assert body is not None
            places = {"y": (n % 2, 0), "x": (1 - n % 2, 0)}
            phases.append(Phase(plan, body, (), places, (n - 1,) if n else ()))
        walker = walker_code([p.body for p in phases], 2, items, traits, doubles=False)
        plan = walker_plan(walker, phases, groups)
        raw = cl._cl._Program(queue.context, render(plan.template, walker))
        options = "-cl-std=CL{}.{}".format(*walker.c_version)
        raw._build(options=options.encode(), devices=[queue.device])
        raw.get_info(cl.program_info.BINARIES)  # as the cache on disk asks, of which some die
        self._queue, self._sizes = queue, (plan.global_size, plan.local_size)
        self._kernel, self._epoch = cl.Kernel(cl.Program(raw), walker.name), 0
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        table = np.frombuffer(table_of(walker, phases, groups), np.int32)
        zeros = np.zeros(counters(walker, len(phases), groups), np.uint32)
        # A kernel keeps no memory that it is given.
        self._own = [cl.Buffer(queue.context, flags, hostbuf=a) for a in (table, zeros)]
        self.memory = [cl.Buffer(queue.context, flags, hostbuf=self.begun) for _ in range(2)]
        numbers = np.int32(len(phases)), np.int32(shares(walker, groups))
        self._kernel.set_args(*self._own, np.uint32(0), *numbers, *self.memory)

    def __call__(self) -> None:
        """Enqueues it."""
        self._kernel.set_arg(2, np.uint32(self._epoch))
        cl.enqueue_nd_range_kernel(self._queue, self._kernel, *self._sizes)
        self._epoch += 1


def walks(queue: cl.CommandQueue, *, calls: bool) -> bool:
    """Tells whether phases find what others wrote, each of a body that is inlined, or called."""
    items, traits = items_of(queue), replace(query_traits(queue.device), calls=calls)
    text = _TEXT
    if calls:
        end = text.rindex("    y[i]")
        text = f"{text[:end]}{_WIDE}}}\n"
    text = text.replace("SIZE", str(items))
    # Another text beside it, whose names are the same.
    texts = text, text.replace("a + b", "b + a")
    groups = max(2, UNIT_GROUPS * traits.compute_units)
    units = _TILES * groups
    walker = _Walker(queue, texts, range(_PHASES), units, groups, traits)
    launches, until = 0, time.monotonic() + _SECONDS
    while launches < 2 or (launches < _LAUNCHES and time.monotonic() < until):
        walker()
        queue.finish()
        launches += 1
    found, known = np.empty_like(walker.begun), walker.begun
    cl.enqueue_copy(queue, found, walker.memory[(_PHASES - 1) % 2])
    for n in range(launches * _PHASES):
        near = known[::-1].reshape(units, items) + np.uint32(3) * known[: units * items : units]
        known = (near[:, ::-1] + np.uint32(n % _PHASES)).ravel()
    if not np.array_equal(found, known):
        return False
    _walked.add(queue)
    return True


# Where it has been found that phases are right.
_walked: set[cl.CommandQueue] = set()


@lru_cache(maxsize=1)
def spared(queue: cl.CommandQueue) -> float:
    """Returns how many multiply-adds, one after another, kernels in a row take longer than phases.

    Every compute unit works for longer than a launch takes, in as many tiles as a CPU's mostly has;
    a GPU's runs its tiles side by side.
    """
    if queue not in _walked:
        return 0.0
    traits, items = query_traits(queue.device), items_of(queue)
    text, units = _CHAIN.replace("SIZE", str(items)), traits.compute_units
    of_unit, at_once, groups = machine.ITEMS, 1, units
    if items > 1:
        of_unit, at_once = UNIT_GROUPS, ISSUED * machine.UNROLL // items
        groups = of_unit * units
    steps = _STEPS * at_once // of_unit
    walker = _Walker(queue, [text], [steps] * _PHASES, of_unit * units, groups, traits)
    kernel = kernel_of(queue, text)
    kernel.set_args(*walker.memory, np.int32(steps))
    size, group = walker.begun.shape, (items,)

    def apart() -> None:
        for _ in range(_PHASES):
            cl.enqueue_nd_range_kernel(queue, kernel, size, group)

    def seconds(enqueue: Callable[[], None]) -> float:
        queue.finish()
        start = time.perf_counter()
        enqueue()
        queue.finish()
        return time.perf_counter() - start

    times = [(seconds(apart), seconds(walker)) for _ in range(_LAUNCHES)]
    each, one = map(statistics.median, zip(*times, strict=True))
    return float(each / one - 1) * _STEPS
