"""Making arrays: upload, allocation, and sharing memory with the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from clprim.arrays.array import Array, array_over, is_integer, new_dense, view_of
from clprim.arrays.formats import order_of
from clprim.arrays.memory import is_dense
from clprim.arrays.transfer import upload
from clprim.dtypes import as_dtype
from clprim.errors import DeviceError, ShapeError, quoted
from clprim.plan.strides import dense_strides, memory_order
from clprim.runtime.device import Device, current_device

__all__ = ["asarray", "empty", "full", "zeros"]

Shape = tuple[int, ...]
# Zero-copy memory must start where the widest vector store may; runtimes ask for this much too.
_ALIGNMENT = 64
_MOST_ELEMENTS = 2**63


def _as_shape(shape: Any) -> Shape:
    try:
        given = (shape,) if is_integer(shape) else tuple(shape)
    except TypeError:
        given = (shape,)
    if not all(is_integer(s) and 0 <= s < _MOST_ELEMENTS for s in given):
        raise ShapeError(f"shape {quoted(shape)}: expected non-negative integers")
    return tuple(int(s) for s in given)


def empty(shape: Any, dtype: Any = np.float32, *, memory_format: str | None = None) -> Array:
    """Allocates an array without writing to it, on the current device.

    Args:
        shape: An integer or a sequence of them.
        dtype: Anything NumPy takes for a dtype, or ``"bfloat16"``.
        memory_format: ``"contiguous"`` (the default) or, for (N, C, H, W), ``"channels_last"``:
            the shape stays, the strides are those of NHWC.

    Raises:
        ShapeError, DTypeError: A shape, dtype or memory format that is none.
        DeviceError: No device, or not enough memory.
    """
    shape = _as_shape(shape)
    dtype = as_dtype(dtype)
    return new_dense(shape, dtype, order_of(shape, memory_format))


def full(shape: Any, value: Any, dtype: Any = None, *, memory_format: str | None = None) -> Array:
    """Allocates an array with ``value`` in every element; see `empty` for the arguments.

    ``dtype=None`` is float32 for a Python float, and NumPy's dtype of ``value`` otherwise.
    """
    if dtype is None:
        dtype = np.float32 if isinstance(value, float) else np.asarray(value).dtype
    return empty(shape, dtype, memory_format=memory_format).fill(value)


def zeros(shape: Any, dtype: Any = np.float32, *, memory_format: str | None = None) -> Array:
    """Allocates an array of zeros; see `empty` for the arguments."""
    return full(shape, 0, dtype, memory_format=memory_format)


def asarray(
    array: Any,
    dtype: Any = None,
    *,
    memory_format: str | None = None,
    copy: bool | None = None,
) -> Array:
    """Uploads an array to the current device.

    Args:
        array: A NumPy array or anything `numpy.asarray` takes. A device array that already is what
            is asked for is returned as it is.
        dtype: Converted to on the host first; kept by default.
        memory_format: ``"contiguous"`` or ``"channels_last"`` (of shape (N, C, H, W), whose strides
            become those of NHWC). By default an array without gaps keeps its memory order.
        copy: ``False`` shares the host's memory instead of copying it, which takes a CPU device
            and an array without gaps that is writable and aligned to 64 bytes. The device array
            keeps the host array alive. Call `synchronize` after launching kernels and before
            looking at the host array; do not write to it while kernels run.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    if isinstance(array, cl_array.Array):
        return _convert(array, dtype, memory_format, copy)
    host = np.asarray(array) if dtype is None else np.asarray(array, as_dtype(dtype))
    as_dtype(host.dtype)  # refuses what no kernel can store
    order = memory_order(host.shape, [host.strides])
    wanted = order if memory_format is None else tuple(order_of(host.shape, memory_format))
    laid_out = host.transpose(wanted)
    device = current_device()
    if copy is False:
        return _share(device, host, laid_out, wanted)
    result = new_dense(host.shape, host.dtype, wanted)
    upload(result, laid_out, device)
    return result


def _convert(
    array: cl_array.Array, dtype: Any, memory_format: str | None, copy: bool | None
) -> Array:
    target = array.dtype if dtype is None else as_dtype(dtype)
    fits = memory_format is None or is_dense(array, order_of(array.shape, memory_format))
    if fits and target == array.dtype and copy is not True:
        if isinstance(array, Array):
            return array
        return view_of(array, array.shape, array.strides, array.offset)
    if copy is False:
        raise ShapeError(
            f"asarray(copy=False): shape {array.shape}, strides {array.strides}, dtype "
            f"{array.dtype} cannot become {memory_format or 'the same format'}, {target} in place"
        )
    out = empty(array.shape, target, memory_format=memory_format)
    return cast("Array", Array.arithmetic.copy(array, out=out))


def _share(
    device: Device, host: np.ndarray[Any, Any], laid_out: np.ndarray[Any, Any], order: Sequence[int]
) -> Array:
    """Makes an array of the host's own memory."""
    problem = ""
    if not host.size:
        problem = "the array is empty"
    elif device.type != "cpu":
        problem = f"{device} does not share the host's memory"
    elif not laid_out.flags.c_contiguous:
        problem = f"strides {host.strides} of shape {host.shape} leave gaps"
    elif not host.flags.writeable:
        problem = "the array is read-only"
    elif host.ctypes.data % _ALIGNMENT:
        problem = f"the array is not aligned to {_ALIGNMENT} bytes"
    if problem:
        raise DeviceError(f"asarray(copy=False): {problem}; leave copy= out to upload a copy")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    try:
        buffer = cl.Buffer(device.context, flags, hostbuf=laid_out)
    except cl.Error as error:
        raise DeviceError(f"asarray(copy=False): {device} refused: {error}") from error
    strides = dense_strides(host.shape, host.dtype.itemsize, order)
    return array_over(device, buffer, host.shape, host.dtype, strides, 0, host.size)
