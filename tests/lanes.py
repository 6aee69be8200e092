"""Sub-groups of a wanted size for tests, also where a device has none: through local memory."""

from __future__ import annotations

import dataclasses
import re

import pytest

from clprim.call import launch
from clprim.call.signature import Calls

# What sub-groups offer, by work-groups that are one sub-group each. Every lane writes what it
# holds, waits, and reads what it asks for: an interpreter that counts elements then sees what a
# lane reads beside its memory, and a kernel whose lanes part ways stands still.
_WRITTEN = """\
#define get_sub_group_local_id() get_local_id(0)
#define get_sub_group_id() 0u
#define from_lane(value, lane) passed(exchange, value, (uint)(lane))
#define sub_group_all(value) all_of(exchange, value)
#define own_of(from, n) (from)[(n) * LANES + get_local_id(0)]
#define intel_sub_group_block_read(from) own_of(from, 0)
#define intel_sub_group_block_read2(from) (uint2)(own_of(from, 0), own_of(from, 1))
#define intel_sub_group_block_read_us(from) own_of(from, 0)
#define PASSED(type) \\
static inline __attribute__((overloadable)) \\
type passed(__local ulong *exchange, type value, uint lane) \\
{ \\
    *(__local type *)(exchange + get_local_id(0)) = value; \\
    barrier(CLK_LOCAL_MEM_FENCE); \\
    const type result = *(__local type *)(exchange + lane); \\
    barrier(CLK_LOCAL_MEM_FENCE); \\
    return result; \\
}
PASSED(int)
PASSED(uint)
PASSED(long)
PASSED(ulong)
PASSED(float)
static inline int all_of(__local ulong *exchange, int value)
{
    int all = 1;
    for (uint lane = 0; lane < LANES; ++lane)
        all &= passed(exchange, value, lane) != 0;
    return all;
}
"""


def of_size(device, monkeypatch, size, **traits):
    """Lets a device be planned for as if it had sub-groups of one size only; skips without."""
    if size not in device.traits.sub_groups:
        pytest.skip(f"its sub-groups have {device.traits.sub_groups or 'no'} lanes")
    planned = dataclasses.replace(device.traits, sub_groups=(size,), **traits)
    monkeypatch.setitem(device.__dict__, "traits", planned)
    Calls.forget()


def through_local_memory(device, monkeypatch, size, **traits):
    """Lets any device run kernels of sub-groups: of work-groups that are one sub-group each."""
    traits = {"sub_groups": (size,), "max_work_group_size": size, "is_cpu": False, **traits}
    planned = dataclasses.replace(device.traits, **traits)
    monkeypatch.setitem(device.__dict__, "traits", planned)
    given = launch.source_of
    monkeypatch.setattr(launch, "source_of", lambda *code: _rewritten(given(*code), size))
    Calls.forget()


def _rewritten(source, size):
    if "cl_intel_subgroups" not in source:
        return source
    written = f"#define LANES {size}u\n{_WRITTEN}"
    source = re.sub(r"#ifdef cl_intel_subgroups.*?#endif\n", lambda _: written, source, flags=re.S)
    source = re.sub(r"__attribute__\(\(intel_reqd_sub_group_size\(\d+\)\)\) ", "", source)
    source = source.replace("void multiply_step(", "void multiply_step(__local ulong *exchange, ")
    source = source.replace(" multiply_step(sum", " multiply_step(exchange, sum")
    body = "__local ulong exchange[LANES];"
    return re.sub(r"(__kernel[^{]*\{)", rf"\1\n    {body}", source, count=1)
