"""Arrays on the device: pyopencl's, with real views, any strides and NumPy's operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.tools import get_or_register_dtype

from clprim.arrays import indexing
from clprim.arrays.display import Display
from clprim.arrays.exchange import Exchange
from clprim.arrays.memory import is_dense, operand_of
from clprim.arrays.methods import Methods
from clprim.arrays.operators import Operators
from clprim.arrays.protocols import Protocols
from clprim.arrays.transfer import download, upload
from clprim.arrays.validation import checked
from clprim.dtypes import (
    NO_ARRAY,
    AnyDType,
    as_dtype,
    is_integer,
    real_dtype,
    require_number,
)
from clprim.errors import DeviceError, DTypeError, OutOfBoundsError, ShapeError, quoted, shorten
from clprim.plan.strides import ADDRESS_BASE, addresses, dense_strides, elements_of, memory_order
from clprim.runtime.device import Device, current_device, device_of, on, wait_for
from clprim.runtime.tracing import active

Shape = tuple[int, ...]

# For PyOpenCL's own kernels, such as `if_positive` of a comparison, by a spelling that is no
# other dtype's.
get_or_register_dtype(["unsigned  char"], np.dtype(np.bool_))


class Array(Operators, Methods, Protocols, Exchange, Display, cl_array.Array):
    """An n-dimensional array in a device's memory.

    Made by `array`, `asarray`, `empty`, `zeros` and so on, and by every operator. It is a
    `pyopencl.array.Array`; indexing with integers and slices (of any step), `transpose` and
    `reshape` give views that share its memory, and arithmetic broadcasts as NumPy's does. NumPy's
    methods and functions compute on the device; `get` downloads.

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
    __hash__ = None  # type: ignore[assignment] # == is elementwise, so arrays are no keys

    @checked
    def get(
        self, queue: cl.CommandQueue | None = None, ary: Any = None
    ) -> np.ndarray[Any, AnyDType]:
        """Download: returns a NumPy array of the same shape, dtype and memory order.

        Args:
            queue: On which queue, after what the device's own was given, which is the default.
            ary: An array of the same shape to write into and return.
        """
        order = memory_order(self.shape, [self.strides])
        source = self
        if not is_dense(self, order):
            owner = device_of(self.context)
            if owner is None and self.context != current_device().context:
                raise DeviceError(
                    "get: a view with gaps is gathered by a kernel on its own device, and "
                    "nobody has opened the one of this array's context"
                )
            # A kernel gathers it, where it is.
            with nullcontext() if owner is None else on(owner):
                source, order = self.copy(), tuple(range(self.ndim))
        found = download(source, order, queue)
        if ary is None:
            return found
        if not isinstance(ary, np.ndarray):
            raise DTypeError(f"get: expected a host array for ary, got {quoted(ary)}")
        if ary.shape != self.shape:
            raise ShapeError(f"get: expected a host array of shape {self.shape}, got {ary.shape}")
        ary[...] = found
        return cast("np.ndarray[Any, AnyDType]", ary)

    @checked
    def set(self, ary: Any, queue: cl.CommandQueue | None = None, async_: bool = False) -> None:
        """Upload ``ary``, which broadcasts to this array's shape, into this array's memory."""
        with _beside(queue):
            self._assign(..., ary, "set: ary")

    def item(self, *index: int) -> Any:
        """Returns the only element, or the one of that index, as a Python number.

        Raises:
            ShapeError: There are several and none is named, or none of that index.
        """
        if index:
            found = self.ravel()[index[0]] if len(index) == 1 else self[index]
            if found.size != 1:
                raise ShapeError(f"item: {quoted(index)} names {found.size} elements, not one")
            return found.get().item()
        if self.size != 1:
            raise ShapeError(
                f"an array of shape {self.shape} is not one number; name one by item(index), take "
                "all by tolist(), or reduce them, as with x.any(), x.all() or x.sum()"
            )
        return self.get().item()

    def tolist(self) -> Any:
        """Returns nested lists of Python numbers."""
        return self.get().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise TypeError(f"an array of {self.dtype} and shape {self.shape} is no index")
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    @property
    def device(self) -> Device:
        """The `Device` that the array lies on; None for a context that clprim did not open."""
        return cast("Device", device_of(self.context))

    @checked
    def to_device(self, device: Any, *, stream: None = None) -> Array:
        """Returns the array on another device, through the host; itself if it is there.

        Args:
            device: In `set_device`'s words.
            stream: Of the Python Array API; only None.
        """
        return cast("Array", self.namespace.asarray(self, device=device))

    # --- views -----------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Array:
        if any(map(indexing.is_advanced, indexing.parts_of(index))):
            return cast("Array", indexing.select(self, index))
        return self._view(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._assign(index, value)

    def _assign(self, index: Any, value: Any, what: str = "") -> None:
        """Writes a value, which messages call ``what``, to the elements that an index names."""
        if not isinstance(value, cl_array.Array):
            try:
                require_number(value, self.dtype)
                host = np.asarray(value, dtype=None if np.ndim(value) else self.dtype)
            except NO_ARRAY as error:
                named = what or indexing.named(index)
                raise DTypeError(f"{named}: {quoted(value)} is no {self.dtype}: {error}") from None
            value = new_dense(host.shape, as_dtype(host.dtype))
            upload(value, host, current_device())
        if any(map(indexing.is_advanced, indexing.parts_of(index))):
            if value.dtype != self.dtype:
                value = self.arithmetic.astype(value, self.dtype)
            indexing.store(self, index, value)
        else:
            view = self._view(index)
            if value.shape != view.shape:
                indexing.require_fitting(value, view.shape, what or indexing.named(index))
            self.arithmetic.copy(value, out=view)

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        return bool((self == value).any())

    def _view(self, index: Any) -> Array:
        parts = indexing.parts_of(index)
        for part in parts:
            basic = part is None or part is Ellipsis or isinstance(part, slice | int | np.integer)
            if not basic:
                raise ShapeError(
                    f"array[{quoted(index)}]: expected integers, slices, ..., None, masks or "
                    f"positions; not {type(part).__name__}"
                )
        if Ellipsis not in parts:  # keeps NumPy from reading an element
            parts = (*parts, Ellipsis)
        try:
            return self._reinterpret(addresses(operand_of(self))[parts])
        except IndexError as error:
            raise OutOfBoundsError(f"array of shape {self.shape}: {error}") from None
        except ValueError as error:  # a step of 0
            raise ShapeError(f"array[{quoted(index)}]: {error}") from None

    def transpose(self, *axes: Any) -> Array:
        """Returns a view with permuted axes; all reversed by default.

        Args:
            axes: The axes in their new order, as several arguments or one sequence.
        """
        try:
            return self._reinterpret(addresses(operand_of(self)).transpose(*axes))
        except (ValueError, TypeError) as error:
            given, why = quoted(axes), shorten(str(error))
            raise ShapeError(f"transpose{given} of shape {self.shape}: {why}") from None

    @property
    def T(self) -> Array:  # noqa: N802 — NumPy's name
        """The view with all axes reversed."""
        return self.transpose()

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """Returns the elements in another shape: a view of a C-contiguous array, else of a copy.

        Args:
            shape: The new shape, as several arguments or one sequence; one size may be -1.
            order: In which elements are counted: ``"C"``, or ``"F"``, the first index fastest.
        """
        if not isinstance(order, str) or order not in ("C", "F"):
            raise ShapeError(f"reshape: order={quoted(order)}: expected 'C' or 'F'")
        several = elements_of(shape[0]) if len(shape) == 1 and not is_integer(shape[0]) else None
        wanted = shape if several is None else several
        if order == "F":
            return self.transpose().reshape(wanted[::-1]).transpose()
        if not all(is_integer(s) for s in wanted):
            raise ShapeError(f"reshape: expected integers, got {quoted(wanted)}")
        known = math.prod(s for s in wanted if s != -1)
        if wanted.count(-1) == 1 and known and self.size % known == 0:
            wanted = tuple(self.size // known if s == -1 else s for s in wanted)
        if math.prod(wanted) != self.size or any(s < 0 for s in wanted):
            raise ShapeError(f"cannot reshape an array of shape {self.shape} into {quoted(wanted)}")
        source = self if is_dense(self, range(self.ndim)) else self.copy()
        wanted = tuple(int(s) for s in wanted)
        strides = dense_strides(wanted, self.dtype.itemsize, range(len(wanted)))
        return view_of(source, wanted, strides, source.offset)

    @property
    def mT(self) -> Array:  # noqa: N802 — the Python Array API's name
        """The view with the last two axes swapped, as of matrices."""
        if self.ndim < 2:
            raise ShapeError(f"mT: an array of shape {self.shape} is no matrix")
        return self.transpose(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    def ravel(self, order: str = "C") -> Array:
        """Returns all elements in one dimension, as `reshape` does: a view where that is one."""
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> Array:
        """Returns a copy of all elements in one dimension, in the order of `reshape`."""
        if order == "F":
            return self.transpose().flatten()
        return self.copy().reshape(-1, order=order)

    @checked
    def view(self, dtype: Any = None) -> Array:
        """Returns a view whose elements are the memory's bytes as another dtype.

        Raises:
            ShapeError: Elements of another size where the last axis has gaps, or none is there.
        """
        wanted = self.dtype if dtype is None else as_dtype(dtype)
        try:
            seen = addresses(operand_of(self)).view(f"V{wanted.itemsize}")
        except ValueError as error:
            raise ShapeError(
                f"view: an array of {self.dtype}, shape {self.shape} and strides {self.strides} "
                f"as {wanted}: {error}"
            ) from None
        return self._reinterpret(seen, wanted)

    @property
    def real(self) -> Array:
        """The real parts: a view of them, and of real numbers the array itself."""
        return self._part(0) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real._assign(..., value)

    @property
    def imag(self) -> Array:
        """The imaginary parts: a view of them, and of real numbers an array of zeros."""
        if self.dtype.kind != "c":
            return cast("Array", self.namespace.zeros_like(self))
        return self._part(1)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise DTypeError(f"an array of {self.dtype} has no imaginary parts to write to")
        self._part(1)._assign(..., value)

    def _part(self, number: int) -> Array:
        dtype = real_dtype(self.dtype)
        offset = self.offset + number * dtype.itemsize
        return view_of(self, self.shape, self.strides, offset, dtype)

    def _reinterpret(self, view: np.ndarray[Any, Any], dtype: AnyDType | None = None) -> Array:
        offset = view.__array_interface__["data"][0] - ADDRESS_BASE
        return view_of(self, view.shape, view.strides, offset, dtype)

    # --- copies ----------------------------------------------------------------------------------

    @checked  # pyopencl's default is a class of its own
    def copy(  # type: ignore[override]
        self, queue: cl.CommandQueue | None = None, *, order: str = "C"
    ) -> Array:
        """Returns a copy: C-contiguous, or with ``order="K"`` in the array's own memory order.

        Args:
            queue: After what, and before what of it; it becomes the copy's own.
            order: ``"C"`` or ``"K"``.

        Raises:
            ShapeError: Another order.
        """
        if order not in ("C", "K"):
            raise ShapeError(f"copy: order={quoted(order)} is not supported; expected 'C' or 'K'")
        axes = memory_order(self.shape, [self.strides]) if order == "K" else None
        out = new_dense(self.shape, self.dtype, axes)
        with _beside(queue):
            return _of_queue(self.arithmetic.copy(self, out=out), queue)

    @checked
    def astype(self, dtype: Any, queue: cl.CommandQueue | None = None) -> Array:
        """Returns a copy in another dtype, converted as C converts."""
        with _beside(queue):
            return _of_queue(self.arithmetic.astype(self, as_dtype(dtype)), queue)

    @checked
    def fill(
        self,
        value: Any,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Array:
        """Writes ``value`` to every element, after the events, and returns the array."""
        for event in wait_for or ():
            event.wait()
        with _beside(queue):
            self.arithmetic.fill(self, value)
        return self


def _beside(queue: cl.CommandQueue | None) -> AbstractContextManager[None]:
    """The block of kernels that come after what a queue was given, and before what it will be."""
    return nullcontext() if queue is None else _in_order(queue)


def _of_queue(array: Array, queue: cl.CommandQueue | None) -> Array:
    if queue is not None:
        array.queue = queue
    return array


@contextmanager
def _in_order(queue: cl.CommandQueue) -> Iterator[None]:
    own = current_device().queue  # where kernels run, whatever the user's queue
    if queue != own:
        wait_for(queue)
    yield
    if queue != own:
        wait_for(own)


def view_of(
    base: cl_array.Array,
    shape: Shape,
    strides: Shape,
    offset: int,
    dtype: AnyDType | None = None,
) -> Array:
    """A view of ``base``'s memory, of its dtype where no other one is given."""
    return Array(
        None,
        shape,
        base.dtype if dtype is None else dtype,
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
    """Makes an array, over memory that nobody has allocated yet where it is inside a trace."""
    if active.now is not None and size:
        symbol = active.now.allocate(size * dtype.itemsize)
        return array_over(device, symbol, shape, dtype, strides, 0, size)
    return allocated(device, shape, dtype, strides, size)


def allocated(device: Device, shape: Shape, dtype: AnyDType, strides: Shape, size: int) -> Array:
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
