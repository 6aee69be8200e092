"""CLBlast through ctypes, on arrays of clprim: its matrix product and its convolution."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
from ctypes import POINTER, byref, c_float, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, ClassVar

import clprim as cp
from bench.peers.peer import Call, Inputs, Peer
from clprim.runtime.device import Device
from clprim.tune.networks import Layer

if TYPE_CHECKING:
    from bench.work.conv import Conv
    from bench.work.gemm import Gemm

# Values of CLBlast's enumerations, which are those of BLAS and its own.
_ROW_MAJOR = 101
_NO, _YES = 111, 112
_CROSS_CORRELATION = 151


@functools.cache
def _found() -> ctypes.CDLL | None:
    """Return the library, or None where it is not installed."""
    name = ctypes.util.find_library("clblast")
    try:
        return ctypes.CDLL(name) if name else None
    except OSError:
        return None


class CLBlast(Peer):
    """Debian's OpenCL BLAS, on the same device."""

    name = "CLBlast"
    missing = "" if _found() else "libclblast is not installed"
    remarks: ClassVar = {
        "gemm": "`CLBlastSgemm`, on the same device",
        "conv_forward": "`CLBlastSconvgemm`, on the same device; it has neither groups nor NHWC",
    }

    def gemm(self, workload: Gemm, inputs: Inputs) -> Call:
        """Results go into memory that is there."""
        a, b = inputs.device
        out = cp.zeros((workload.m, workload.n))
        options = {"transpose_a": workload.transpose_a, "transpose_b": workload.transpose_b}

        def call() -> cp.Array:
            _sgemm(a, b, out, self.device, **options)
            return out

        return call

    def conv_forward(self, workload: Conv, inputs: Inputs) -> Call | None:
        """Results go into memory that is there."""
        if workload.memory_format == "channels_last" or workload.layer.groups > 1:
            return None
        x, w = inputs.device
        out = cp.zeros(workload.result_shape)

        def call() -> cp.Array:
            _sconvgemm(x, w, out, workload.layer, self.device)
            return out

        return call

    def finish(self) -> None:
        """Wait for the device."""
        self.device.synchronize()


def _sgemm(
    a: cp.Array, b: cp.Array, out: cp.Array, device: Device, *, transpose_a: bool, transpose_b: bool
) -> None:
    """Enqueue a matrix product of C-contiguous arrays."""
    m, n = out.shape
    k = a.shape[0 if transpose_a else 1]
    routine = _found().CLBlastSgemm
    transposes = (_YES if transpose_a else _NO, _YES if transpose_b else _NO)
    _check(
        routine(
            *map(c_int, (_ROW_MAJOR, *transposes)),
            *map(c_size_t, (m, n, k)),
            c_float(1),
            *(*_matrix(a), *_matrix(b)),
            c_float(0),
            *_matrix(out),
            *_queue(device),
        ),
        "Sgemm",
    )


def _sconvgemm(x: cp.Array, w: cp.Array, out: cp.Array, layer: Layer, device: Device) -> None:
    """Enqueue a convolution of C-contiguous arrays; it has no groups."""
    routine = _found().CLBlastSconvgemm
    sizes = (
        *(layer.channels, layer.size, layer.size, layer.kernel, layer.kernel),
        *(layer.padding, layer.padding, layer.stride, layer.stride, 1, 1),
        *(layer.filters, len(x)),
    )
    _check(
        routine(
            c_int(_CROSS_CORRELATION),
            *map(c_size_t, sizes),
            *(argument for array in (x, w, out) for argument in _memory(array)),
            *_queue(device),
        ),
        "Sconvgemm",
    )


def _memory(array: cp.Array) -> tuple[c_void_p, c_size_t]:
    return c_void_p(array.base_data.int_ptr), c_size_t(array.offset // array.dtype.itemsize)


def _matrix(array: cp.Array) -> tuple[c_void_p, c_size_t, c_size_t]:
    return *_memory(array), c_size_t(array.shape[1])


def _queue(device: Device) -> tuple[object, None]:
    """Return the queue's address, and no event."""
    return byref(c_void_p(device.queue.int_ptr)), POINTER(c_void_p)()


def _check(status: int, routine: str) -> None:
    if status:
        raise RuntimeError(f"CLBlast{routine} returned {status}")
