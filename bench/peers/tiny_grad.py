"""Tinygrad, which generates OpenCL C too, made to use the very device that is measured."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import clprim as cp
from bench.case import Call, Data, marked


@cache
def _runtime() -> Any:
    """Make tinygrad use the current device; by itself it takes the first one of all."""
    import tinygrad
    from tinygrad.runtime import ops_cl

    handle = ops_cl.cl.cl_device_id
    here = ctypes.cast(cp.current_device().cl.int_ptr, handle)
    ops_cl.CLDevice.device_ids = (handle * 1)(here)
    return tinygrad.Device["CL"]


def refusal() -> str:
    """Return why it cannot use the device; nothing where it can."""
    try:
        _runtime()
    except Exception as error:  # whatever it may be, the others can still be measured
        return f"cannot use this device: {error}"
    return ""


def _jit(compute: Callable[..., Any], data: Data) -> Call:
    from tinygrad import Tensor, TinyJit

    tensors = [Tensor(array, device="CL").realize() for array in data.host]
    jitted = TinyJit(lambda *operands: compute(*operands).realize())
    for _ in range(2):  # the first call compiles, the second one records
        jitted(*tensors)

    return marked(partial(jitted, *tensors), finish=_runtime().synchronize)


def gemm(job: Any, data: Data) -> Call:
    def product(a: Any, b: Any) -> Any:
        return (a.T if job.transpose_a else a) @ (b.T if job.transpose_b else b)

    return _jit(product, data)


def conv_forward(job: Any, data: Data) -> Call | None:
    if job.memory_format == "channels_last":
        return None
    return _jit(lambda x, w: x.conv2d(w, **job.options), data)
