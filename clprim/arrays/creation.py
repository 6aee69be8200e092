"""Making arrays: upload, allocation, and sharing memory with the host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from clprim.arrays.array import Array, array_over, new_dense, view_of
from clprim.arrays.exchange import host_array
from clprim.arrays.formats import order_of
from clprim.arrays.memory import is_dense
from clprim.arrays.transfer import upload
from clprim.arrays.validation import checked
from clprim.dtypes import NO_ARRAY, as_dtype, is_integer, require_number
from clprim.errors import ClprimError, DeviceError, DTypeError, ShapeError, quoted
from clprim.plan.strides import dense_strides, elements_of, memory_order
from clprim.runtime.device import Device, current_device, device_of, on

Shape = tuple[int, ...]
# Zero-copy memory must start where the widest vector store may; runtimes ask for this much too.
_ALIGNMENT = 64
_MOST_ELEMENTS = 2**63
#: What Python's floats and complex numbers become.
_OF_PYTHON = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}


def as_shape(shape: Any) -> Shape:
    """Returns a shape as a tuple."""
    given = (shape,) if is_integer(shape) else elements_of(shape)
    if given is None or not all(is_integer(s) and 0 <= s < _MOST_ELEMENTS for s in given):
        raise ShapeError(f"shape {quoted(shape)}: expected non-negative integers")
    return tuple(int(s) for s in given)


def _on(device: Any) -> AbstractContextManager[Any]:
    """The block in which ``device=`` is the current one; None leaves that as it is."""
    return nullcontext() if device is None else on(device)


def empty(
    shape: Any, dtype: Any = None, *, device: Any = None, memory_format: str | None = None
) -> Array:
    """Allocates an array without writing to it.

    Args:
        shape: An integer or a sequence of them.
        dtype: Anything NumPy takes for a dtype, or ``"bfloat16"``; float32 by default.
        device: Where, in `set_device`'s words; the current device by default.
        memory_format: ``"contiguous"`` (the default) or, for (N, C, H, W) and (N, C, D, H, W),
            ``"channels_last"``: the shape stays, the strides are those of NHWC or NDHWC.
            ``"channels_last_3d"`` is PyTorch's name for the latter.

    Raises:
        ShapeError, DTypeError: A shape, dtype or memory format that is none.
        DeviceError: No device, or not enough memory.
    """
    shape = as_shape(shape)
    dtype = as_dtype(np.float32 if dtype is None else dtype)
    with _on(device):
        return new_dense(shape, dtype, order_of(shape, memory_format))


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    memory_format: str | None = None,
) -> Array:
    """Allocates an array with ``fill_value`` in every element; see `empty` for the arguments.

    ``dtype=None`` is float32 for a Python float, and NumPy's dtype of ``fill_value`` otherwise.
    """
    if dtype is None:
        dtype = _on_host(fill_value, None).dtype
        if dtype.kind == "O":
            raise DTypeError(f"full: {quoted(fill_value)} is no number of 64 bits")
    with _on(device):
        return empty(shape, dtype, memory_format=memory_format).fill(fill_value)


def zeros(
    shape: Any, dtype: Any = None, *, device: Any = None, memory_format: str | None = None
) -> Array:
    """Allocates an array of zeros; see `empty` for the arguments."""
    dtype = np.float32 if dtype is None else dtype
    return full(shape, 0, dtype, device=device, memory_format=memory_format)


def ones(
    shape: Any, dtype: Any = None, *, device: Any = None, memory_format: str | None = None
) -> Array:
    """Allocates an array of ones; see `empty` for the arguments."""
    dtype = np.float32 if dtype is None else dtype
    return full(shape, 1, dtype, device=device, memory_format=memory_format)


def empty_like(x: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """Allocates an array of the shape, dtype and memory format of ``x``.

    Args:
        x: A device array.
        dtype: Another dtype.
        device: Another device, in `set_device`'s words; that of ``x`` by default.
    """
    if not isinstance(x, cl_array.Array):
        raise DTypeError(f"empty_like: expected a device array, got {type(x).__name__}")
    dtype = x.dtype if dtype is None else as_dtype(dtype)
    with _on(device_of(x.context) if device is None else device):
        return new_dense(x.shape, dtype, memory_order(x.shape, [x.strides]))


def full_like(x: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """Allocates an array like ``x`` with ``fill_value`` in every element; see `empty_like`."""
    result = empty_like(x, dtype, device=device)
    with _on(device_of(result.context)):
        return result.fill(fill_value)


def zeros_like(x: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """Allocates an array of zeros like ``x``; see `empty_like`."""
    return full_like(x, 0, dtype, device=device)


def ones_like(x: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """Allocates an array of ones like ``x``; see `empty_like`."""
    return full_like(x, 1, dtype, device=device)


@checked
def array(
    obj: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    device: Any = None,
    memory_format: str | None = None,
) -> Array:
    """Makes a new array of numbers, lists, NumPy's or any other array; see `asarray`.

    Example:
        >>> import clprim as cp
        >>> cp.array([[1.5, 2], [3, 4]]).tolist()
        [[1.5, 2.0], [3.0, 4.0]]
    """
    return asarray(obj, dtype, device=device, memory_format=memory_format, copy=copy)


@checked
def asarray(
    array: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    memory_format: str | None = None,
    copy: bool | None = None,
) -> Array:
    """Uploads an array, or moves one from another device.

    Args:
        array: A NumPy array, numbers in lists, or an array of any library that has DLPack
            (PyTorch, CuPy, …), from whichever device. A device array that already is what is asked
            for is returned as it is.
        dtype: Converted to on the host first; kept by default. Python's floats become float32, as
            in `full`, complex numbers complex64; NumPy's keep their dtype.
        device: Where to, in `set_device`'s words; by default the current device, or where a
            device array is.
        memory_format: As for `empty`. By default an array without gaps keeps its memory order.
        copy: ``False`` shares the host's memory instead of copying it, which takes a CPU device
            and an array without gaps that is writable and aligned to 64 bytes. The device array
            keeps the host array alive. Call `synchronize` after launching kernels and before
            looking at the host array; do not write to it while kernels run. ``True`` always copies.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    if isinstance(array, cl_array.Array):
        return _convert(array, dtype, memory_format, copy, device)
    host = _on_host(array, dtype)
    as_dtype(host.dtype)  # refuses what no kernel can store
    order = memory_order(host.shape, [host.strides])
    wanted = order if memory_format is None else tuple(order_of(host.shape, memory_format))
    laid_out = host.transpose(wanted)
    with _on(device):
        if copy is False:
            return _share(current_device(), host, laid_out, wanted)
        result = new_dense(host.shape, host.dtype, wanted)
        upload(result, laid_out, current_device())
    return result


@checked
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Takes an array of any library that has DLPack: NumPy, PyTorch, CuPy, JAX, ….

    Args:
        x: What has ``__dlpack__``. What lies on a GPU goes through the host.
        device: Where to, in `set_device`'s words; the current device by default.
        copy: By default memory of the host is shared where the device is a CPU that can
            (`asarray` says when), so that each side sees what the other one writes, and else
            copied. ``False`` refuses to copy, ``True`` always does.

    Raises:
        DTypeError: No such array, or of a dtype that no kernel can store.
        DeviceError: Memory that cannot be shared, with ``copy=False``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> cp.from_dlpack(np.arange(3)).get()
        array([0, 1, 2])
    """
    if isinstance(x, cl_array.Array):
        return asarray(x, device=device, copy=copy)
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(
            f"from_dlpack: expected an array with __dlpack__, got {type(x).__name__}; "
            "cp.asarray takes lists and numbers"
        )
    host = x if isinstance(x, np.ndarray) else host_array(x)
    if copy is None:
        try:
            return asarray(host, device=device, copy=False)
        except DeviceError:
            copy = True
    return asarray(host, device=device, copy=copy)


def _on_host(array: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Returns what was given as a NumPy array, Python's in single precision."""
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(array, list | tuple):
        if any(isinstance(element, cl_array.Array) for element in array):
            raise DTypeError(
                f"asarray: expected numbers or one array, got a {type(array).__name__} of device "
                "arrays: cp.stack or cp.concatenate joins them"
            )
    elif not isinstance(array, np.ndarray | np.generic) and hasattr(array, "__dlpack_device__"):
        array = host_array(array)
    try:
        if wanted is not None:
            require_number(array, wanted)
        host = np.asarray(array, wanted)
    except ClprimError:
        raise
    except NO_ARRAY as error:
        raise DTypeError(f"asarray: {type(array).__name__} is no array: {error}") from error
    of_python = isinstance(array, list | tuple | float | complex)
    if wanted is None and of_python and not isinstance(array, np.generic):
        single = _OF_PYTHON.get(host.dtype)
        return host if single is None else host.astype(single)
    return host


def _convert(
    array: cl_array.Array, dtype: Any, memory_format: str | None, copy: bool | None, device: Any
) -> Array:
    target = array.dtype if dtype is None else as_dtype(dtype)
    owner = device_of(array.context)
    if device is not None:
        with on(device) as wanted:
            if wanted != owner:
                if copy is False:
                    raise DeviceError(f"asarray(copy=False): {owner} and {wanted} share no memory")
                # Converted on the host, so that each device needs to calculate in one dtype only.
                host = view_of(array, array.shape, array.strides, array.offset).get()
                return asarray(host, target, memory_format=memory_format)
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
    with _on(owner):
        out = empty(array.shape, target, memory_format=memory_format)
        return Array.arithmetic.copy(array, out=out)


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
