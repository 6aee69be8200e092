"""What a call costs on the host, and what the first one costs in a new process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any
from unittest import mock

import numpy as np
import pyopencl as cl

import clprim as cp
from bench.case import Call, Case, Data, Make, Options, Page, into, marked, whole
from bench.cases.arithmetic import Conv
from bench.cases.memory import AXPB, axpb
from bench.peers.arithmetic import CONTENDERS
from bench.probe import cold_and_warm, probe
from clprim.tune.networks import Layer

_CONV = Conv(Layer(16, 16, 3, 8, padding=1), 1, "channels_last", "forward")
_PROCESSES, _QUICK_PROCESSES = 7, 1
_BARE, _PLAIN = "bare enqueue", "kernel(queue, …)"
_SOURCE = """
kernel void axpb(global float *y, global const float *x, global const float *b, float w)
{ y[get_global_id(0)] = x[get_global_id(0)] * w + b[get_global_id(0)]; }
"""


def bare_enqueue(call: Callable[[], Any]) -> Call:
    """Return the enqueue that a call of clprim makes, alone: same kernel, arguments already set.

    Raises:
        RuntimeError: The call enqueues no kernel through `pyopencl.enqueue_nd_range_kernel`.
    """
    made = []
    enqueue = cl.enqueue_nd_range_kernel

    def record(queue: cl.CommandQueue, kernel: cl.Kernel, *sizes: Any, **options: Any) -> cl.Event:
        made.append((kernel, *sizes[:2]))
        return enqueue(queue, kernel, *sizes, **options)

    with mock.patch.object(cl, "enqueue_nd_range_kernel", record):
        call()
    if not made:
        raise RuntimeError("the call enqueued no kernel: nothing to compare it with")
    queue = cp.current_device().queue
    return partial(enqueue, queue, *made[-1])


def _bare(make: Callable[[Any], Call]) -> Make:
    """The enqueue of another contender, whose event is no result."""
    return lambda data: marked(bare_enqueue(make(data)), differs=True)


def _into(data: Data) -> Call:
    return into(axpb(), *data.device, 2.0)


def _fresh(data: Data) -> Call:
    return partial(axpb(), *data.device, 2.0)


def _plain(data: Data) -> Call:
    """The usual way to launch a kernel with PyOpenCL."""
    (x, b), device = data.device, cp.current_device()
    out = cp.empty(x.shape)
    kernel = cl.Kernel(cl.Program(device.context, _SOURCE).build(), "axpb")
    arguments = (out.base_data, x.base_data, b.base_data, np.float32(2))
    queue, size = device.queue, (x.size,)

    def call() -> cp.Array:
        kernel(queue, size, None, *arguments)
        return out

    return call


def launch_cases(args: Options) -> list[Case]:
    small = partial(Data, whole((1024,)), whole((1024,), seed=1))
    bare = {_BARE: _bare(_into)}
    group = "A small call"
    convs = {name: partial(CONTENDERS["conv_forward"][name], _CONV)
             for name in ("clprim", "clprim, unpacked", "oneDNN prepacked", "oneDNN")}  # fmt: skip
    own = convs.pop("clprim")
    shapes = _CONV.shapes
    return [
        Case(group, "y0 = x0*w0 + x1, 1024 floats, out=", 1, small,
             {"clprim": _into, **bare, _PLAIN: _plain, **AXPB}),
        Case(group, "the same, without", 1, small, {"clprim": _fresh, **bare}),
        Case(group, f"conv2d, {_CONV.title}, one image, out=", 1,
             lambda: Data(*(whole(s, "channels_last", n) for n, s in enumerate(shapes))),
             {"clprim": own, _BARE: _bare(own), **convs}, tolerance=_CONV.tolerance),
    ]  # fmt: skip


def new_processes(args: Options) -> list[tuple[str, list[str], list[list[str]]]]:
    """Time the import and the first calls in new processes; the first one finds cold caches."""
    runs = _QUICK_PROCESSES if args.quick else _PROCESSES
    imports = [probe("import")["call"] for _ in range(1 + runs)][1:]
    timed, listings = {"import clprim": imports}, []
    for kind in ("pointwise", "reduction")[args.quick :]:
        cold, *warm = cold_and_warm(kind, warm=runs)
        listings += [answer["listing"] for answer in warm]
        timed[f"first {kind} call, warm disk cache"] = [answer["call"] for answer in warm]
        timed[f"first {kind} call, cold disk cache"] = [cold["call"]]
    timed["listing platforms and devices (OpenCL)"] = listings
    rows = [[title, f"{median(s):.3f}", f"{min(s):.3f}"] for title, s in timed.items()]
    return [("A new process (seconds)", ["", "median", "least"], rows)]


PAGES = {
    "launch": Page(
        "Launches: what a call costs on the host", "µs", launch_cases, (),
        "A batch of calls in a row is timed by the host; the device finishes after the clock has "
        "stopped. `bare enqueue`: `enqueue_nd_range_kernel` of clprim's kernel, its arguments "
        "already set. NumPy, PyTorch and oneDNN compute the result before they return.",
        sample=0, keep=False, more=new_processes,
    )
}  # fmt: skip
