"""CLBlast through ctypes, on arrays of clprim: its matrix product and its convolution."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
from ctypes import POINTER, byref, c_float, c_int, c_size_t, c_void_p
from typing import Any

import clprim as cp
from bench.case import Call, Data

# Values of CLBlast's enumerations, which are those of BLAS and its own.
_ROW_MAJOR, _NO, _YES, _CROSS_CORRELATION = 101, 111, 112, 151


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the library, or None where it is not installed."""
    name = ctypes.util.find_library("clblast")
    try:
        return ctypes.CDLL(name) if name else None
    except OSError:
        return None


def gemm(job: Any, data: Data) -> Call:
    a, b = data.device
    out, k = cp.zeros((job.m, job.n)), a.shape[0 if job.transpose_a else 1]
    transposes = (_YES if job.transpose_a else _NO, _YES if job.transpose_b else _NO)
    arguments = [
        *map(c_int, (_ROW_MAJOR, *transposes)),
        *map(c_size_t, (job.m, job.n, k)),
        *(c_float(1), *_matrix(a), *_matrix(b), c_float(0), *_matrix(out)),
    ]
    return functools.partial(_called, "CLBlastSgemm", arguments, out)


def conv_forward(job: Any, data: Data) -> Call | None:
    """It has neither groups nor NHWC; results go into memory that is there."""
    layer = job.layer
    if job.memory_format == "channels_last" or layer.groups > 1:
        return None
    x, w = data.device
    out = cp.zeros(job.result_shape)
    sizes = (
        *(layer.channels, layer.size, layer.size, layer.kernel, layer.kernel),
        *(layer.padding, layer.padding, layer.stride, layer.stride, 1, 1),
        *(layer.filters, len(x)),
    )
    memory = [argument for array in (x, w, out) for argument in _memory(array)]
    arguments = [c_int(_CROSS_CORRELATION), *map(c_size_t, sizes), *memory]
    return functools.partial(_called, "CLBlastSconvgemm", arguments, out)


def _called(routine: str, arguments: list[Any], out: cp.Array) -> cp.Array:
    queue = byref(c_void_p(cp.current_device().queue.int_ptr))
    status = getattr(library(), routine)(*arguments, queue, POINTER(c_void_p)())
    if status:
        raise RuntimeError(f"{routine} returned {status}")
    return out


def _memory(array: Any) -> tuple[c_void_p, c_size_t]:
    return c_void_p(array.base_data.int_ptr), c_size_t(array.offset // array.dtype.itemsize)


def _matrix(array: Any) -> tuple[c_void_p, c_size_t, c_size_t]:
    return *_memory(array), c_size_t(array.shape[1])
