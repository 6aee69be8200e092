"""Finds out what a device's compiler really can do, by tiny programs in a process of their own.

Extensions and versions promise; some compilers end the process on what others take for granted.
Each program is compiled, run and checked in a child process, which may die of it: that is an answer
as well. Answers are kept on disk next to the programs, under everything that identifies the driver.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyopencl as cl

from clprim.plan.units.known import PARTS, UNITS, unit_questions
from clprim.runtime import child, disk_cache, icd, probe_walks, query
from clprim.runtime.probe_forms import FORMS, KINDS, SIZES, keeps_bits
from clprim.runtime.probe_times import TIMED, kernel_of, shares_lanes, sums_four_products
from clprim.runtime.probe_ways import WAYS, goes_own_ways
from clprim.traits import DeviceTraits

# What a program uses beside what every kernel needs: lines before the kernel, and in it.
_USES = {
    "fp16": (
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable",
        "const half h = (half)v * (half)0.5f; v = (int)(h + h);",
    ),
    "fp64": (
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
        "const double d = v * 0.5; v = (int)(d + d);",
    ),
    "prefetch": (
        "#if !defined(__has_builtin) || !__has_builtin(__builtin_prefetch)\n#error none\n#endif",
        "__builtin_prefetch(a + i);",
    ),
    # Angles that need different ways to be reduced, and none of which the compiler knows.
    "trigonometry": (
        "",
        "float16 t = (float16)(0.0007f * (i + 1)); t.s0 = 1e10f * (i + 1); "
        "if (!(fabs(sin(t).s7 - sin(t.s7)) + fabs(cos(t).s7 - cos(t.s7)) "
        "+ fabs(tan(t).s7 - tan(t.s7)) < 1e-6f)) v = -1;",
    ),
    # Some runtimes lack them: their libraries lie in no place that the compiler looks at.
    "circular": (
        "",
        "const float t = 0.5f * i; if (!(fabs(sin(t) * sin(t) + cos(t) * cos(t) - 1) "
        "+ fabs(tan(t) * cos(t) - sin(t)) < 1e-5f)) v = -1;",
    ),
    # The square's last bit survives where nothing is rounded before the difference.
    "fused": (
        "",
        "const float k = i + 1, e = 1 + k * 0x1p-12f; "
        "if (fma(e, e, -1.0f) != k * 0x1p-11f + k * k * 0x1p-24f) v = -1;",
    ),
    # Mesa 22.3 finds 1 > 2 in the first of these.
    "widening": (
        "",
        "const long wide = i, narrow = a[0]; if (wide > 2 ? i < 3 : i > 2 || narrow > 5) v = -1;",
    ),
    # llvmpipe's compiler dies of this, or chooses another lane's.
    "choices": (
        "",
        "const char c = ((__global const char *)a)[i]; const char t = c < -1 ? 7 : c; "
        "v = t + i + 1;",
    ),
    # llvmpipe stops after 65,535 steps, silently. Volatile, or compilers know the sum.
    "loops": ("", "volatile int k = 0; while (k < 70000) ++k; if (k != 70000) v = -1;"),
    "streaming": (
        "#if !defined(__has_builtin) || !__has_builtin(__builtin_nontemporal_store)\n#error none\n"
        "#endif\n#define STORE(to, from) __builtin_nontemporal_store(from, to)",
        "",
    ),
    # Registers that the processor has and an older compiler does not know of: it promises them, and
    # then passes such vectors by another convention than its own library, or fails to split them.
    "vectors_32": ("#if defined(__SSE2__) && !defined(__AVX__)\n#error none\n#endif", ""),
    "vectors_64": ("#if defined(__SSE2__) && !defined(__AVX512F__)\n#error none\n#endif", ""),
}
_VECTORS = (64, 32)  # bytes
# Of functions of every third element, in a kernel of one work-item: a compiler dies of the vectors
# that it makes of it.
_STRIDED = """\
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe(__global float *a, const int n)
{
    float sum = 0;
    for (int i = 0; i < n; i += 3)
        sum += fabs(a[i]);
    a[0] = sum;
}"""
# Halves at an odd address, as floats and as the words that they are: a compiler that takes the
# address for a multiple of 16 reads them once, by what dies of any other; and it writes by such.
_HALVES = """\
__kernel void probe(__global ushort *a, const int n)
{
    __global half *at = (__global half *)a + n;
    const float8 values = vload_half8(0, at);
    const ushort8 bits = vload8(0, (__global const ushort *)at);
    if (n < 9)
        vstore_half8(values * 2, 0, at + 8);
    else
        vstore_half8(values * 3, 0, at + 8);
    vstore8(bits, 0, a + 2 * n + 16);
}"""
_SOURCE = """\
{before}
#ifndef STORE
#define STORE(to, from) *(to) = (from)
#endif
__kernel void probe(__global int *a)
{{
    __local int turned[4];
    const int i = get_local_id(0);
    int v = i;
    {within}
    turned[3 - i] = v;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (i == 0)
        STORE((__global int4 *)a, (int4)(turned[0], turned[1], turned[2], turned[3]));
}}"""
_RESULT = [3, 2, 1, 0]
# Lanes of two sub-groups hand their numbers over, by a lane that is a constant and by one that is
# not; all of them vote, and read what lies side by side by one address. Then one of the two leaves.
_SUB_GROUPS = """\
#ifdef cl_intel_subgroups
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define from_lane(value, lane) intel_sub_group_shuffle(value, lane)
#else
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#define from_lane(value, lane) sub_group_shuffle(value, lane)
#endif
#ifdef cl_intel_subgroups_short
#pragma OPENCL EXTENSION cl_intel_subgroups_short : enable
// Of each element of 4 bytes, small ones, the lower half: every second one of the halves.
static inline uint short_block_read(__global const ushort *from, int lane)
{{
    const uint low = intel_sub_group_block_read_us(from);
    const uint high = intel_sub_group_block_read_us(from + {size});
    const uint a = from_lane(low, (uint)(2 * lane % {size}));
    const uint b = from_lane(high, (uint)(2 * lane % {size}));
    return 2 * lane < {size} ? a : b;
}}
#endif
__kernel __attribute__((intel_reqd_sub_group_size({size}), reqd_work_group_size({items}, 1, 1)))
void probe(__global int *a)
{{
    const int lane = get_sub_group_local_id(), first = get_sub_group_id() * {size};
    int v = {read};
    v = sub_group_all(v >= first) ? v : -1;
    a[first + lane] = 1000 * (int)from_lane((float)v, 3u) + from_lane(v, (uint)({size} - 1 - lane));
    if (first > 0)
        return;
    a[first + lane] += from_lane(lane + 1, (uint)({size} - 1 - lane)) - ({size} - 1 - lane);
}}"""
_READS = {
    "sub_groups": "first + lane",
    "block_reads": "(int)intel_sub_group_block_read((__global const uint *)(a + first))",
    "short_block_reads": "(int)short_block_read((__global const ushort *)(a + first), lane)",
}
# `lanes`: the work-items of a group share vector instructions, and a group of one wastes them.
#: What is asked: `kernel` is a program without any of the others.
ANSWERS = (
    "kernel",
    *_USES,
    "lanes",
    "dots",
    "halves",
    "strided_sums",
    "own_ways",
    "walks",
    "calls",
    *(f"spares_{steps}" for steps in probe_walks.SPARED),
    *(f"{kind}_{size}" for kind in KINDS for size in SIZES),
    *(f"{read}_{size}" for size in query.SUB_GROUPS for read in _READS),
    *(unit.name for unit in UNITS),
    PARTS,
)
_TIMEOUT = 30.0  # seconds for a child; one where the machine is idle
_TIMEOUTS = 2  # children that may run out of it before the rest is not asked
# Seconds for which processes go by what was not answered, instead of waiting for it again.
_PATIENCE = 3600.0
_UNTIL = "until:"
_CHILD = "import sys; sys.path[:] = {path!r}; from clprim.runtime.probe import main; main({task!r})"


def refine(traits: DeviceTraits, device: cl.Device) -> DeviceTraits:
    """Returns a device's traits as far as its compiler bears them out."""
    found = abilities(device)
    if found is None:
        return traits
    vector_bytes = _vector_bytes(traits.vector_bytes, found)
    sizes = tuple(size for size in traits.sub_groups if f"sub_groups_{size}" in found)
    return replace(
        traits,
        is_cpu=traits.is_cpu and "lanes" not in found,
        fp16=traits.fp16 and "fp16" in found,
        fp64=traits.fp64 and "fp64" in found,
        integer_dots=traits.integer_dots and "dots" in found,
        prefetch="prefetch" in found,
        streaming="streaming" in found,
        sub_groups=sizes,
        block_reads=traits.block_reads and all(f"block_reads_{s}" in found for s in sizes),
        short_block_reads=traits.short_block_reads
        and all(f"short_block_reads_{s}" in found for s in sizes),
        vector_trigonometry="trigonometry" in found,
        function_bytes=_least_bytes("functions", found, vector_bytes),
        estimate_bytes=_least_bytes("estimates", found, vector_bytes),
        widened_comparisons="widening" in found,
        byte_choices="choices" in found,
        long_loops="loops" in found,
        own_ways="own_ways" in found,
        walks="walks" in found,
        calls="calls" in found,
        spared=max((n for n in probe_walks.SPARED if f"spares_{n}" in found), default=0),
        matrix_units=tuple(u.name for u in UNITS if u.name in found),
        matrix_parts=PARTS in found,
        vector_bytes=vector_bytes,
        registers=traits.registers and query.registers(vector_bytes),
    )


def _vector_bytes(promised: int, found: frozenset[str]) -> int:
    for size in _VECTORS:
        if promised >= size and f"vectors_{size}" not in found:
            promised = size // 2
    return promised


def _least_bytes(kind: str, found: frozenset[str], vector_bytes: int) -> int:
    # Where none has the bits of the longest, whose functions may be more than a compiler stands,
    # all are computed as vectors of a register.
    least = next((size for size in SIZES if f"{kind}_{size}" in found), vector_bytes)
    return 0 if least == SIZES[0] else least


@lru_cache(maxsize=64)
def abilities(device: cl.Device) -> frozenset[str] | None:
    """Returns which of `ANSWERS` are yes on a device; None where no child process can be had."""
    try:
        identity = query.identity(device)
    except cl.Error:  # a driver that does not even tell names
        return None
    known = (
        _SOURCE,
        _USES,
        _SUB_GROUPS,
        _READS,
        _STRIDED,
        _HALVES,
        TIMED,
        FORMS,
        WAYS,
        probe_walks.WALKS,
        UNITS,
    )
    texts = (*identity, repr(known).encode())
    key = hashlib.sha256(b"abilities:" + repr(texts).encode()).hexdigest()
    kept = disk_cache.load(key)
    found = None if kept is None else _still_true(kept.decode())
    if found is not None:
        return found
    answers = _ask(device)
    if answers is None:
        return None
    found = frozenset(name for name, answer in answers.items() if answer)
    words = sorted(found)
    if None in answers.values():
        # No answer is taken for a no, but not for long: the machine may only have been busy.
        words.insert(0, f"{_UNTIL}{int(time.time() + _PATIENCE)}")
    disk_cache.store(key, " ".join(words).encode())
    return found


def _still_true(kept: str) -> frozenset[str] | None:
    """Returns the answers in an entry on disk; None where they hold no longer."""
    words = kept.split()
    if not words or not words[0].startswith(_UNTIL):
        return frozenset(words)
    try:
        left = float(words[0][len(_UNTIL) :]) - time.time()
    except ValueError:
        return None
    # More than it was given is the work of a clock that was set back.
    return frozenset(words[1:]) if 0 < left <= _PATIENCE else None


def _ask(device: cl.Device) -> dict[str, bool | None] | None:
    """Asks child processes; a death is a no, and None what was not answered in time."""
    if not child.is_possible():
        return None
    promised = query.query_traits(device)
    lacking = {use for use in ("fp16", "fp64") if not getattr(promised, use)}
    lacking |= {f"vectors_{size}" for size in _VECTORS if size > promised.vector_bytes}
    uses = [use for use in _USES if use not in lacking]
    others = ["lanes"] if query.may_share_lanes(device) else []
    others += ["dots"] if promised.integer_dots else []
    sizes = [size for size in SIZES if size <= promised.vector_bytes]
    others += [f"{kind}_{size}" for kind in KINDS for size in sizes]
    reads = [read for read in _READS if getattr(promised, read)]
    others += [f"{read}_{size}" for size in promised.sub_groups for read in reads]
    # Last: who dies of these need not begin once more.
    others += ["halves", "strided_sums", "own_ways", "walks"]
    others += [*(f"spares_{steps}" for steps in probe_walks.SPARED), "calls"]
    others += [] if promised.is_cpu else unit_questions(device.extensions)
    # Most compilers know it all, which one program shows; else each has one of its own.
    answers = _run_children(device, [["kernel", *uses], *([other] for other in others)])
    if answers is None:
        return None
    apart: list[bool | None] | None = [True] * (1 + len(uses))
    if not answers[0]:
        apart = _run_children(device, [["kernel"], *([use] for use in uses)])
    apart = apart or [None] * (1 + len(uses))
    return dict(zip(("kernel", *uses, *others), apart + answers[1:], strict=True))


def _run_children(
    device: cl.Device, questions: Sequence[Sequence[str]]
) -> list[bool | None] | None:
    """Returns an answer for each list of uses, as `_ask`; None where no child could be asked."""
    answers: list[bool | None] = []
    left = _TIMEOUTS
    while left and len(answers) < len(questions):
        given, in_time = _run_child(device, questions[len(answers) :])
        if given is None and in_time:
            break
        answers += given or []
        left -= not in_time
        if len(answers) < len(questions):
            answers.append(False if in_time else None)  # it died of this one, or waits for it
    missing = len(questions) - len(answers)
    return answers + [None] * missing if answers else None


def _run_child(
    device: cl.Device, questions: Sequence[Sequence[str]]
) -> tuple[list[bool] | None, bool]:
    """Returns the answers that a child gave, None where it asked nothing; and if it was in time."""
    task = json.dumps([query.whereabouts(device), questions])
    try:
        said, in_time = child.run(
            _CHILD.format(path=child.search_path(), task=task), timeout=_TIMEOUT
        )
    except OSError:
        return None, True
    return ([answer == "yes" for answer in said[1:]] if said else None), in_time


def main(task: str) -> None:
    """Asks the questions, in the child, and prints each answer as soon as it is there."""
    child.leave_no_core_file()
    where, questions = json.loads(task)
    icd.prepare()
    device = query.find(where)
    context = cl.Context([device])
    queue = cl.CommandQueue(context, device)
    child.say("begin")
    for uses in questions:
        try:
            yes = _is_so(queue, uses)
        except cl.Error:
            yes = False
        child.say("yes" if yes else "no")
    os._exit(0)  # some drivers crash on the way out


def _source(uses: Sequence[str]) -> str:
    used = [_USES[use] for use in uses if use in _USES]
    before, within = ("\n".join(lines) for lines in zip(*used, strict=True)) if used else ("", "")
    return _SOURCE.format(before=before, within=within)


def _is_so(queue: cl.CommandQueue, uses: Sequence[str]) -> bool:
    if "lanes" in uses:
        return shares_lanes(queue)
    if "dots" in uses:
        return sums_four_products(queue)
    if "halves" in uses:
        return _moves_halves(queue)
    if "strided_sums" in uses:
        return _sums_strided(queue)
    if "own_ways" in uses:
        return goes_own_ways(queue)
    if uses[0] in ("walks", "calls"):
        return probe_walks.walks(queue, calls="calls" in uses)
    if "/" in uses[0] or uses[0] == PARTS:
        from clprim.runtime import probe_units  # it plans products, as few processes ask for

        return probe_units.is_so(queue, uses[0])
    read, _, size = uses[0].rpartition("_")
    if read == "spares":
        return probe_walks.spared(queue) >= int(size)
    if read in KINDS:
        widest = query.query_traits(queue.device).vector_bytes
        return keeps_bits(queue, read, int(size), widest)
    return _hands_over(queue, read, int(size)) if read in _READS else _works(queue, uses)


def _moves_halves(queue: cl.CommandQueue) -> bool:
    kernel = kernel_of(queue, _HALVES)
    given = np.arange(64, dtype=np.float16)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(queue.context, flags, hostbuf=given)
    expected = given.copy()
    for n in (1, 11):
        kernel.set_args(memory, np.int32(n))
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        read = expected[n : n + 8].copy()
        expected[n + 8 : n + 16] = read * (2 if n < 9 else 3)
        expected[2 * n + 16 : 2 * n + 24] = read
    result = np.empty_like(given)
    cl.enqueue_copy(queue, result, memory)
    return bool(np.array_equal(result, expected))


def _sums_strided(queue: cl.CommandQueue) -> bool:
    kernel = kernel_of(queue, _STRIDED)
    given = np.arange(100, dtype=np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(queue.context, flags, hostbuf=-given)
    kernel.set_args(memory, np.int32(given.size))
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    result = np.empty_like(given)
    cl.enqueue_copy(queue, result, memory)
    return bool(result[0] == given[::3].sum())


def _hands_over(queue: cl.CommandQueue, read: str, size: int) -> bool:
    kernel = kernel_of(queue, _SUB_GROUPS.format(size=size, items=2 * size, read=_READS[read]))
    given = np.arange(2 * size, dtype=np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(queue.context, flags, hostbuf=given)
    kernel.set_arg(0, memory)
    cl.enqueue_nd_range_kernel(queue, kernel, given.shape, given.shape)
    result = np.empty_like(given)
    cl.enqueue_copy(queue, result, memory)
    pairs = given.reshape(2, size)
    expected = 1000 * pairs[:, 3:4] + pairs[:, ::-1] + [[1], [0]]
    return bool(np.array_equal(result.reshape(2, size), expected))


def _works(queue: cl.CommandQueue, uses: Sequence[str]) -> bool:
    kernel = kernel_of(queue, _source(uses))
    result = np.full(len(_RESULT), -1, np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(queue.context, flags, hostbuf=result)
    kernel.set_arg(0, memory)
    cl.enqueue_nd_range_kernel(queue, kernel, (result.size,), (result.size,))
    cl.enqueue_copy(queue, result, memory)
    return bool(result.tolist() == _RESULT)
