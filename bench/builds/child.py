"""Builds and runs kernels, in a child process that a compiler or a kernel may end."""

from __future__ import annotations

import base64
import faulthandler
import json
import math
import mmap
import os
import pickle
import re
import sys
import time

import numpy as np
import pyopencl as cl

from clprim.call.launch import Launch
from clprim.errors import ClprimError, DeviceError
from clprim.plan.kernel import KernelPlan, Scalar
from clprim.runtime import child, icd, query
from clprim.runtime.device import Device

TASK = "import sys; sys.path[:] = {path!r}; from bench.builds.child import main; main()"
# Every buffer is larger than the arrays of all examples.
_BYTES = 1 << 30
_NUMBERS = 1 << 20  # bytes at the start of a buffer that are not 0
_TYPES = {"half": "f2", "float": "f4", "double": "f8", "char": "i1", "short": "i2", "int": "i4"}
_POINTER = re.compile(r"__global (?:const )?(?:volatile )?u?([a-z]+)")


def main() -> None:
    """Says of every plan how far it is, with the time, and what became of it."""
    child.leave_no_core_file()
    where, plans, bound, cache = json.loads(sys.stdin.read())
    os.environ["POCL_CACHE_DIR"] = cache
    icd.prepare()
    device = Device(query.find(where), 0)
    device.open()
    assert device.traits  # looked up on disk, where no program is to come from
    os.environ["CLPRIM_CACHE_DIR"] = "off"
    child.say("begin")
    for text in plans:
        faulthandler.dump_traceback_later(bound, exit=True)
        _say("building", time.time())
        try:
            _try(device, *pickle.loads(base64.b64decode(text)))
        except ClprimError as error:
            _say("refused", f"{error}".partition("\n")[0])
    os._exit(0)  # some drivers crash on the way out


def _say(what: str, about: object = "") -> None:
    child.say(json.dumps([what, about]))


def _try(device: Device, plan: KernelPlan, own: bool) -> None:
    try:
        launch = Launch(device, plan, title=plan.code.name, snippets={})
    except DeviceError:
        if own:
            raise
        _say("built", "kernels of some programs that it builds")  # as of vectors too wide for it
        return
    lacking = _lacking(device, launch, plan)
    if lacking:
        _say("built", lacking)
        return
    _say("running", time.time())
    types: dict[str, str] = {}  # an array that is read and written comes twice
    pointers = [p.declaration for p in plan.code.parameters if not p.format]
    for name, declaration in zip(launch.buffers, pointers, strict=True):
        types.setdefault(name, declaration)
    memory = [_buffer(device, declaration) for declaration in types.values()]
    numbers = [a.number for a in plan.arguments if isinstance(a, Scalar)]
    scalars = [1] * max([2, *(n + 1 for n in numbers)])
    places = launch.places({name: n for n, name in enumerate(types)})
    try:
        launch.enqueue(memory, places, scalars).wait()
    except cl.Error as error:
        _say("refused", f"not run: {error}")
    else:
        _say("ran")


def _lacking(device: Device, launch: Launch, plan: KernelPlan) -> str:
    """Returns what a device lacks that a kernel made for another one needs, or nothing."""
    kernel, info = launch.parts()[0], cl.kernel_work_group_info
    items = kernel.get_work_group_info(info.WORK_GROUP_SIZE, device.cl)
    if math.prod(plan.local_size) > items:
        return f"work-groups of {math.prod(plan.local_size)}"
    local = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, device.cl)
    if local > device.cl.local_mem_size:
        return f"{local} bytes of local memory"
    if plan.code.index == "long" or plan.nbytes > len(launch.buffers) * _size(device):
        return "larger arrays"
    return ""


def _size(device: Device) -> int:
    return min(_BYTES, device.cl.max_mem_alloc_size)


def _buffer(device: Device, declaration: str) -> cl.Buffer:
    """Returns memory of small whole numbers, which are indices of every axis, and zeros."""
    found = _POINTER.match(declaration)
    dtype = np.dtype(_TYPES.get(found[1], "i8") if found else "i8")
    most = 4 if dtype.kind == "f" else 2
    head = np.resize(np.arange(most), _NUMBERS // dtype.itemsize).astype(dtype).view(np.uint8)
    flags = cl.mem_flags
    if device.traits.is_cpu:
        host = np.frombuffer(mmap.mmap(-1, _size(device)), np.uint8)  # pages come when touched
        host[:_NUMBERS] = head
        return cl.Buffer(device.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=host)
    memory = cl.Buffer(device.context, flags.READ_WRITE, _size(device))
    cl.enqueue_fill_buffer(device.queue, memory, np.uint8(0), 0, _size(device))
    cl.enqueue_copy(device.queue, memory, head)
    return memory
