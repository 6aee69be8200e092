"""Arrays on the device: pyopencl's, with real views, any strides and NumPy's operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from clprim.arrays.memory import is_dense, operand_of
from clprim.arrays.operators import Operators
from clprim.arrays.transfer import download, upload
from clprim.dtypes import AnyDType, as_dtype
from clprim.errors import DeviceError, ShapeError, quoted
from clprim.plan.strides import ADDRESS_BASE, addresses, dense_strides, memory_order
from clprim.runtime.device import Device, current_device

__all__ = ["Array", "array_over", "is_integer", "new_array", "new_dense", "view_of"]

Shape = tuple[int, ...]


class _OutOfBoundsError(ShapeError, IndexError):
    """An index past the end; also an IndexError, which ends Python's loops."""


class Array(Operators, cl_array.Array):
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
    __hash__ = None  # type: ignore[assignment] # == is elementwise, so arrays are no keys

    def get(self, queue: Any = None, ary: Any = None, **_: Any) -> np.ndarray[Any, AnyDType]:
        """Download: returns a NumPy array of the same shape, dtype and memory order.

        Args:
            queue: On which queue; the array's own by default.
            ary: An array of the same shape to write into and return.
        """
        order = memory_order(self.shape, [self.strides])
        source = self
        if not is_dense(self, order):
            device = current_device()
            if self.context != device.context:
                raise DeviceError(
                    "get: a view with gaps is gathered by a kernel on its own device; "
                    f"{device} is current, choose the array's with set_device()"
                )
            source, order = self.copy(), tuple(range(self.ndim))
        found = download(source, order, queue)
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
            raise DeviceError(
                "a device array cannot become a NumPy array without a copy: use get()"
            )
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
            host = np.asarray(value, dtype=None if np.ndim(value) else self.dtype)
            value = new_dense(host.shape, as_dtype(host.dtype))
            upload(value, host, current_device())
        self.arithmetic.copy(value, out=target)

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
            raise _OutOfBoundsError(f"array of shape {self.shape}: {error}") from None

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
        wanted = tuple(shape[0]) if len(shape) == 1 and not is_integer(shape[0]) else shape
        known = math.prod(s for s in wanted if s != -1)
        if wanted.count(-1) == 1 and known and self.size % known == 0:
            wanted = tuple(self.size // known if s == -1 else s for s in wanted)
        if math.prod(wanted) != self.size or any(s < 0 for s in wanted):
            raise ShapeError(f"cannot reshape an array of shape {self.shape} into {wanted}")
        source = self if is_dense(self, range(self.ndim)) else self.copy()
        wanted = tuple(int(s) for s in wanted)
        strides = dense_strides(wanted, self.dtype.itemsize, range(len(wanted)))
        return view_of(source, wanted, strides, source.offset)

    def ravel(self, order: str = "C") -> Array:
        """Returns all elements in one dimension, in C order."""
        return self.reshape(-1, order=order)

    def _reinterpret(self, view: np.ndarray[Any, Any]) -> Array:
        offset = view.__array_interface__["data"][0] - ADDRESS_BASE
        return view_of(self, view.shape, view.strides, offset)

    # --- copies ----------------------------------------------------------------------------------

    def copy(self, queue: Any = None) -> Array:
        """Returns a C-contiguous copy."""
        out = new_dense(self.shape, self.dtype)
        return cast("Array", self.arithmetic.copy(self, out=out))

    def astype(self, dtype: Any, queue: Any = None) -> Array:
        """Returns a copy in another dtype, converted as C converts."""
        return cast("Array", self.arithmetic.astype(self, as_dtype(dtype)))

    def fill(self, value: Any, queue: Any = None, wait_for: Any = None) -> Array:
        """Writes ``value`` to every element and returns the array."""
        self.arithmetic.fill(self, value)
        return self

    def sum(self, axis: Any = None, *, keepdims: bool = False, out: Any = None) -> Array:
        """Returns the sum along ``axis`` (all axes by default), in NumPy's dtype."""
        return cast("Array", self.arithmetic.sum(self, axis=axis, keepdims=keepdims, out=out))


def is_integer(value: object) -> bool:
    """Whether a value is one of Python's or NumPy's integers."""
    return isinstance(value, int | np.integer)


def view_of(base: cl_array.Array, shape: Shape, strides: Shape, offset: int) -> Array:
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


def array_over(
    device: Device,
    buffer: Any,
    shape: Shape,
    dtype: AnyDType,
    strides: Shape,
    offset: int,
    size: int,
) -> Array:
    """An array over memory that is there already."""
    return Array(
        None,
        shape,
        dtype,
        allocator=device.pool,
        data=buffer,
        offset=offset,
        strides=strides,
        _fast=True,
        _size=size,
        _context=device.context,
        _queue=device.queue,
    )


#: Sizes from here on are no numbers of 64 bits, which pyopencl refuses as a `TypeError`.
_MOST_BYTES = 2**63


def new_array(device: Device, shape: Shape, dtype: AnyDType, strides: Shape, size: int) -> Array:
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
    except (cl.Error, TypeError) as error:
        if isinstance(error, TypeError) and size * dtype.itemsize < _MOST_BYTES:
            raise
        reason = error if isinstance(error, cl.Error) else "more than can be addressed"
        raise DeviceError(
            f"{device} cannot allocate {size * dtype.itemsize:,} bytes for shape "
            f"{quoted(shape)}: {reason}"
        ) from error


def new_dense(shape: Shape, dtype: AnyDType, order: Sequence[int] | None = None) -> Array:
    """Allocates an array on the current device, its axes in ``order`` in memory; else C order."""
    strides = dense_strides(shape, dtype.itemsize, range(len(shape)) if order is None else order)
    return new_array(current_device(), shape, dtype, strides, math.prod(shape))
