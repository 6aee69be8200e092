"""Arrays on the device: pyopencl's, with real views, any strides and NumPy's operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from clprim.dtypes import AnyDType, as_dtype
from clprim.errors import DeviceError, ShapeError
from clprim.plan.layout import (
    ADDRESS_BASE,
    Operand,
    addresses,
    dense_strides,
    memory_order,
)
from clprim.runtime.device import Device, current_device

__all__ = ["Array", "asarray", "empty", "full", "is_dense", "new_array", "operand_of", "zeros"]

Shape = tuple[int, ...]
# Zero-copy memory must start where the widest vector store may; runtimes ask for this much too.
_ALIGNMENT = 64


class _OutOfBounds(ShapeError, IndexError):
    """An index past the end; also an IndexError, which ends Python's loops."""


class Array(cl_array.Array):
    """An n-dimensional array in a device's memory.

    Made by `asarray`, `empty`, `zeros` and `full`, and by every operator. It is a
    `pyopencl.array.Array`; indexing with integers and slices (of any step), `transpose` and
    `reshape` give views that share its memory, and arithmetic broadcasts as NumPy's does.

    Attributes:
        shape: Elements along every dimension.
        strides: Bytes from one element to the next along every dimension.
        dtype: Of the elements.

    Example:
        >>> import numpy as np, clprim as cp
        >>> x = cp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> (x[:, ::-1] * 2 + x[0]).get()
        array([[ 4.,  3.,  2.],
               [10.,  9.,  8.]], dtype=float32)
    """

    __array_priority__ = 1000  # before NumPy's, so that `ndarray + Array` comes to us
    __array_ufunc__ = None

    def get(self, queue: Any = None, ary: Any = None, **_: Any) -> np.ndarray[Any, AnyDType]:
        """Download: returns a NumPy array of the same shape, dtype and memory order.

        Args:
            queue: On which queue; the array's own by default.
            ary: An array of the same shape to write into and return.
        """
        found = _download(self, queue)
        if ary is None:
            return found
        if ary.shape != self.shape:
            raise ShapeError(f"get: expected a host array of shape {self.shape}, got {ary.shape}")
        ary[...] = found
        return cast("np.ndarray[Any, AnyDType]", ary)

    def set(self, ary: Any, queue: Any = None, async_: bool = False, **_: Any) -> None:
        """Upload ``ary``, which broadcasts to this array's shape, into this array's memory."""
        self[...] = ary

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise DeviceError("a device array cannot become a NumPy array without a copy: use get()")
        found = self.get()
        return found if dtype is None else found.astype(dtype)

    def item(self) -> Any:
        """Returns the only element as a Python number."""
        return self.get().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    # --- views -----------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Array:
        return self._view(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self._view(index)
        if not isinstance(value, cl_array.Array):
            value = asarray(np.asarray(value, dtype=None if np.ndim(value) else self.dtype))
        from clprim import arithmetic

        arithmetic.copy(value, out=target)

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def _view(self, index: Any) -> Array:
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            basic = part is None or part is Ellipsis or isinstance(part, slice | int | np.integer)
            if not basic or isinstance(part, bool | np.bool_):
                raise ShapeError(
                    f"array[{index!r}]: views take integers, slices, ... and None; "
                    f"not {type(part).__name__}"
                )
        if Ellipsis not in parts:  # keeps NumPy from reading an element
            parts = (*parts, Ellipsis)
        try:
            return self._reinterpret(addresses(operand_of(self))[parts])
        except IndexError as error:
            raise _OutOfBounds(f"array of shape {self.shape}: {error}") from None

    def transpose(self, *axes: Any) -> Array:
        """Returns a view with permuted axes; all reversed by default.

        Args:
            axes: The axes in their new order, as several arguments or one sequence.
        """
        try:
            return self._reinterpret(addresses(operand_of(self)).transpose(*axes))
        except (ValueError, TypeError) as error:
            raise ShapeError(f"transpose{axes} of shape {self.shape}: {error}") from None

    @property
    def T(self) -> Array:  # noqa: N802 — NumPy's name
        """The view with all axes reversed."""
        return self.transpose()

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """Returns the elements in another shape: a view of a C-contiguous array, else of a copy.

        Args:
            shape: The new shape, as several arguments or one sequence; one size may be -1.
            order: Only ``"C"``.
        """
        if order != "C":
            raise ShapeError(f"reshape: order={order!r} is not supported; expected 'C'")
        wanted = tuple(shape[0]) if len(shape) == 1 and not _is_int(shape[0]) else shape
        known = math.prod(s for s in wanted if s != -1)
        if wanted.count(-1) == 1 and known and self.size % known == 0:
            wanted = tuple(self.size // known if s == -1 else s for s in wanted)
        if math.prod(wanted) != self.size or any(s < 0 for s in wanted):
            raise ShapeError(f"cannot reshape an array of shape {self.shape} into {wanted}")
        source = self if is_dense(self, range(self.ndim)) else self.copy()
        wanted = tuple(int(s) for s in wanted)
        strides = dense_strides(wanted, self.dtype.itemsize, range(len(wanted)))
        return _make(source, wanted, strides, source.offset)

    def ravel(self, order: str = "C") -> Array:
        """Returns all elements in one dimension, in C order."""
        return self.reshape(-1, order=order)

    def _reinterpret(self, view: np.ndarray[Any, Any]) -> Array:
        offset = view.__array_interface__["data"][0] - ADDRESS_BASE
        return _make(self, view.shape, view.strides, offset)

    # --- copies ----------------------------------------------------------------------------------

    def copy(self, queue: Any = None) -> Array:  # noqa: ARG002 — pyopencl's signature
        """Returns a C-contiguous copy."""
        from clprim import arithmetic

        return arithmetic.copy(self, out=empty(self.shape, self.dtype))

    def astype(self, dtype: Any, queue: Any = None) -> Array:  # noqa: ARG002
        """Returns a copy in another dtype, converted as C converts."""
        from clprim import arithmetic

        return arithmetic.astype(self, as_dtype(dtype))

    def fill(self, value: Any, queue: Any = None, wait_for: Any = None) -> Array:  # noqa: ARG002
        """Writes ``value`` to every element and returns the array."""
        from clprim import arithmetic

        arithmetic.fill(self, value)
        return self

    # --- arithmetic: defined from strings in clprim.arithmetic -----------------------------------

    def _binary(self, name: str, other: Any, *, swapped: bool = False, out: Any = None) -> Any:
        from clprim import arithmetic

        return arithmetic.binary(name, self, other, swapped=swapped, out=out)

    def __add__(self, other: Any) -> Array:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Array:
        return self._binary("add", other, swapped=True)

    def __iadd__(self, other: Any) -> Array:
        return self._binary("add", other, out=self)

    def __sub__(self, other: Any) -> Array:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Array:
        return self._binary("subtract", other, swapped=True)

    def __isub__(self, other: Any) -> Array:
        return self._binary("subtract", other, out=self)

    def __mul__(self, other: Any) -> Array:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Array:
        return self._binary("multiply", other, swapped=True)

    def __imul__(self, other: Any) -> Array:
        return self._binary("multiply", other, out=self)

    def __truediv__(self, other: Any) -> Array:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Array:
        return self._binary("divide", other, swapped=True)

    def __itruediv__(self, other: Any) -> Array:
        return self._binary("divide", other, out=self)

    def __floordiv__(self, other: Any) -> Array:
        return self._binary("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Array:
        return self._binary("floor_divide", other, swapped=True)

    def __mod__(self, other: Any) -> Array:
        return self._binary("remainder", other)

    def __rmod__(self, other: Any) -> Array:
        return self._binary("remainder", other, swapped=True)

    def __pow__(self, other: Any) -> Array:
        return self._binary("power", other)

    def __rpow__(self, other: Any) -> Array:
        return self._binary("power", other, swapped=True)

    def __and__(self, other: Any) -> Array:
        return self._binary("bitwise_and", other)

    def __rand__(self, other: Any) -> Array:
        return self._binary("bitwise_and", other, swapped=True)

    def __or__(self, other: Any) -> Array:
        return self._binary("bitwise_or", other)

    def __ror__(self, other: Any) -> Array:
        return self._binary("bitwise_or", other, swapped=True)

    def __xor__(self, other: Any) -> Array:
        return self._binary("bitwise_xor", other)

    def __rxor__(self, other: Any) -> Array:
        return self._binary("bitwise_xor", other, swapped=True)

    def __lshift__(self, other: Any) -> Array:
        return self._binary("left_shift", other)

    def __rshift__(self, other: Any) -> Array:
        return self._binary("right_shift", other)

    def __lt__(self, other: Any) -> Array:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Array:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Array:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Array:
        return self._binary("greater_equal", other)

    def __eq__(self, other: object) -> Array:  # type: ignore[override] # elementwise, as in NumPy
        return self._binary("equal", other)

    def __ne__(self, other: object) -> Array:  # type: ignore[override]
        return self._binary("not_equal", other)

    __hash__ = None  # type: ignore[assignment] # == is elementwise

    def __neg__(self) -> Array:
        from clprim import arithmetic

        return arithmetic.unary("negative", self)

    def __pos__(self) -> Array:
        return self.copy()

    def __abs__(self) -> Array:
        from clprim import arithmetic

        return arithmetic.unary("absolute", self)

    def __invert__(self) -> Array:
        from clprim import arithmetic

        return arithmetic.unary("invert", self)

    def sum(self, axis: Any = None, *, keepdims: bool = False, out: Any = None) -> Array:
        """Returns the sum along ``axis`` (all axes by default), in NumPy's dtype."""
        from clprim import arithmetic

        return cast("Array", arithmetic.sum(self, axis=axis, keepdims=keepdims, out=out))


# --- geometry ------------------------------------------------------------------------------------

def _is_int(value: object) -> bool:
    return isinstance(value, int | np.integer)


def operand_of(array: cl_array.Array) -> Operand:
    """Describes where an array's elements lie, for plans."""
    return Operand(array.shape, array.strides, array.offset, array.dtype)


def is_dense(array: cl_array.Array, order: Sequence[int]) -> bool:
    """Whether the elements lie without gaps, axes in ``order`` from the slowest to the fastest."""
    expected = dense_strides(array.shape, array.dtype.itemsize, order)
    return all(
        size == 1 or have == want
        for size, have, want in zip(array.shape, array.strides, expected, strict=True)
    ) or not array.size


# --- making arrays -------------------------------------------------------------------------------


def _make(base: cl_array.Array, shape: Shape, strides: Shape, offset: int) -> Array:
    """A view of ``base``'s memory."""
    return Array(
        None,
        shape,
        base.dtype,
        allocator=base.allocator,
        data=base.base_data,
        offset=offset,
        strides=strides,
        events=base.events,
        _fast=True,
        _size=math.prod(shape),
        _context=base.context,
        _queue=base.queue,
    )


def new_array(
    device: Device, shape: Shape, dtype: AnyDType, strides: Shape, size: int
) -> Array:
    """Allocates an array from the device's pool; everything is already checked."""
    try:
        return Array(
            None,
            shape,
            dtype,
            allocator=device.pool,
            strides=strides,
            _fast=True,
            _size=size,
            _context=device.context,
            _queue=device.queue,
        )
    except cl.Error as error:
        raise DeviceError(
            f"{device} cannot allocate {size * dtype.itemsize:,} bytes for shape {shape}: {error}"
        ) from error


def _as_shape(shape: Any) -> Shape:
    given = (shape,) if _is_int(shape) else tuple(shape)
    if not all(_is_int(s) and s >= 0 for s in given):
        raise ShapeError(f"shape {shape!r}: expected non-negative integers")
    return tuple(int(s) for s in given)


def _order(shape: Shape, memory_format: str | None) -> Sequence[int]:
    if memory_format in (None, "contiguous"):
        return range(len(shape))
    if memory_format == "channels_last":
        if len(shape) != 4:
            raise ShapeError(f"memory_format='channels_last' needs (N, C, H, W), got shape {shape}")
        return (0, 2, 3, 1)
    raise ShapeError(
        f"memory_format={memory_format!r} is unknown; expected 'contiguous' or 'channels_last'"
    )


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
    strides = dense_strides(shape, dtype.itemsize, _order(shape, memory_format))
    return new_array(current_device(), shape, dtype, strides, math.prod(shape))


def full(
    shape: Any, value: Any, dtype: Any = None, *, memory_format: str | None = None
) -> Array:
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
    wanted = order if memory_format is None else tuple(_order(host.shape, memory_format))
    laid_out = host.transpose(wanted)
    device = current_device()
    if copy is False:
        return _share(device, host, laid_out, wanted)
    flat = np.ascontiguousarray(laid_out)
    strides = dense_strides(host.shape, host.dtype.itemsize, wanted)
    result = new_array(device, host.shape, host.dtype, strides, host.size)
    if host.size:
        try:
            cl.enqueue_copy(
                device.queue, result.base_data, flat.view(np.uint8).reshape(-1), is_blocking=True
            )
        except cl.Error as error:
            raise DeviceError(f"upload of shape {host.shape} to {device} failed: {error}") from error
    return result


def _convert(
    array: cl_array.Array, dtype: Any, memory_format: str | None, copy: bool | None
) -> Array:
    from clprim import arithmetic

    target = array.dtype if dtype is None else as_dtype(dtype)
    fits = memory_format is None or is_dense(array, _order(array.shape, memory_format))
    if fits and target == array.dtype and copy is not True:
        if isinstance(array, Array):
            return array
        return _make(array, array.shape, array.strides, array.offset)
    if copy is False:
        raise ShapeError(
            f"asarray(copy=False): shape {array.shape}, strides {array.strides}, dtype "
            f"{array.dtype} cannot become {memory_format or 'the same format'}, {target} in place"
        )
    return arithmetic.copy(array, out=empty(array.shape, target, memory_format=memory_format))


def _share(
    device: Device, host: np.ndarray[Any, Any], laid_out: np.ndarray[Any, Any], order: Sequence[int]
) -> Array:
    """Makes an array of the host's own memory."""
    problem = ""
    if device.type != "cpu":
        problem = f"{device} does not share the host's memory"
    elif not laid_out.flags.c_contiguous:
        problem = f"strides {host.strides} of shape {host.shape} leave gaps"
    elif not host.flags.writeable:
        problem = "the array is read-only"
    elif host.ctypes.data % _ALIGNMENT:
        problem = f"the array is not aligned to {_ALIGNMENT} bytes"
    elif not host.size:
        problem = "the array is empty"
    if problem:
        raise DeviceError(f"asarray(copy=False): {problem}; leave copy= out to upload a copy")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    try:
        buffer = cl.Buffer(device.context, flags, hostbuf=laid_out)
    except cl.Error as error:
        raise DeviceError(f"asarray(copy=False): {device} refused: {error}") from error
    strides = dense_strides(host.shape, host.dtype.itemsize, order)
    return Array(
        None,
        host.shape,
        host.dtype,
        data=buffer,
        strides=strides,
        _fast=True,
        _size=host.size,
        _context=device.context,
        _queue=device.queue,
    )


def _download(array: cl_array.Array, queue: Any) -> np.ndarray[Any, AnyDType]:
    if not array.size:
        return np.empty(array.shape, array.dtype)
    order = memory_order(array.shape, [array.strides])
    if not is_dense(array, order):
        device = current_device()
        if array.context != device.context:
            raise DeviceError(
                f"get: a view with gaps is gathered by a kernel on its own device; {device} is "
                "current, choose the array's with set_device()"
            )
        from clprim import arithmetic

        array = arithmetic.copy(array, out=empty(array.shape, array.dtype))
        order = tuple(range(array.ndim))
    flat = np.empty(tuple(array.shape[d] for d in order), array.dtype)
    if queue is None:
        # Kernels run on the device's queue of the moment, which a profile replaces for a while.
        device = current_device()
        queue = device.queue if array.context == device.context else array.queue
    try:
        for event in array.events:
            event.wait()
        cl.enqueue_copy(
            queue,
            flat.view(np.uint8).reshape(-1) if flat.ndim else flat.reshape(1).view(np.uint8),
            array.base_data,
            src_offset=array.offset,
            is_blocking=True,
        )
    except cl.Error as error:
        raise DeviceError(f"get: download of shape {array.shape} failed: {error}") from error
    return flat.transpose(np.argsort(order))
