"""Tensors on the device and clprim's arrays: two views of the same memory.

A tensor's storage has a size and an address, at which nothing can be read. Its Python object,
which all aliases of the tensor share, keeps the array whose memory it is; it is freed with the
storage.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import asarray, empty
from clprim.errors import DTypeError, ShapeError
from clprim.plan.strides import dense_strides
from clprim.primitives.arithmetic import copy
from clprim.runtime.device import current_device, on
from clprim.torch import private

_NUMPY: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.float16: np.dtype(np.float16),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.uint8: np.dtype(np.uint8),
    torch.uint16: np.dtype(np.uint16),
    torch.uint32: np.dtype(np.uint32),
    torch.uint64: np.dtype(np.uint64),
    torch.bool: np.dtype(np.bool_),
    torch.complex64: np.dtype(np.complex64),
    torch.complex128: np.dtype(np.complex128),
}
try:
    import ml_dtypes
except ImportError:  # then bfloat16 tensors are refused by name
    pass
else:
    _NUMPY[torch.bfloat16] = np.dtype(ml_dtypes.bfloat16)
_TORCH = {numpy: kind for kind, numpy in _NUMPY.items()}


class Usage:
    """Bytes of the device that tensors hold, now and at most."""

    __slots__ = ("now", "peak")

    def __init__(self) -> None:
        self.now = self.peak = 0


class Placement:
    """Which device arrays are on, and how much memory tensors take there."""

    def __init__(self) -> None:
        self.number_of: Callable[[Array], int] | None = None
        self.usage: dict[int, Usage] = defaultdict(Usage)


placement = Placement()
usage = placement.usage[0]
_empty_tensor = private.empty_tensor


class _Memory:
    """What a storage keeps: its array, how tensors see that, and the count of its bytes."""

    __slots__ = ("kind", "nbytes", "root", "shape", "steps", "usage")

    def __init__(
        self,
        root: Array,
        kind: torch.dtype,
        steps: tuple[int, ...] | None,
        nbytes: int,
        usage: Usage,
    ) -> None:
        self.root, self.kind, self.shape, self.steps = root, kind, root.shape, steps
        self.nbytes, self.usage = nbytes, usage
        usage.now = now = usage.now + nbytes
        if now > usage.peak:  # noqa: PLR1730 — half of what max() takes
            usage.peak = now

    def __del__(self) -> None:
        self.usage.now -= self.nbytes


def numpy_dtype(kind: torch.dtype) -> np.dtype[Any]:
    """Returns NumPy's name of a tensor's dtype."""
    found = _NUMPY.get(kind)
    if found is None:
        hint = "; it takes the package ml_dtypes" if kind is torch.bfloat16 else ""
        raise DTypeError(f"tensors of {kind} cannot be on the device{hint}")
    return found


def in_use() -> bool:
    """Whether tensors are on a device."""
    return any(used.now for used in placement.usage.values())


def supports_bfloat16() -> bool:
    """Whether tensors may be bfloat16."""
    return torch.bfloat16 in _NUMPY


class Number:
    """A tensor of the host without dimensions, whose dtype counts where dtypes are promoted.

    Kernels take it for a number; one that asks for an array's shape is told what PyTorch says.
    """

    kind: torch.dtype

    def __getattr__(self, name: str) -> Any:
        raise elsewhere("cpu")


def _typed(kind: torch.dtype) -> type[Number]:
    base = complex if kind.is_complex else float if kind.is_floating_point else int
    return type(f"a {kind} tensor on the CPU", (Number, base), {"kind": kind})


_TYPED = {kind: _typed(kind) for kind in _NUMPY}
# PyTorch wraps a Python number in a tensor of one of two dtypes, which then counts for nothing: it
# does not make a short one longer.
_WRAPPED = {
    torch.float64: torch.zeros((), dtype=torch.float16),
    torch.int64: torch.zeros((), dtype=torch.int8),
    torch.complex128: torch.zeros((), dtype=torch.float16),
}


def number_of(value: torch.Tensor) -> Any:
    """Returns the number that a tensor of the host without dimensions holds, with its dtype."""
    kind = value.dtype
    typed, short = _TYPED.get(kind), _WRAPPED.get(kind)
    if typed is None or (short is not None and torch.result_type(short, value) is not kind):
        return value.item()
    return typed(value.item())  # type: ignore[call-arg]


def torch_dtypes() -> set[torch.dtype]:
    """Returns the dtypes that tensors may have."""
    return set(_NUMPY)


def kind_of(dtype: np.dtype[Any]) -> torch.dtype:
    """Returns PyTorch's name of an array's dtype."""
    return _TORCH[dtype]


def is_inexact(kind: torch.dtype) -> bool:
    """Whether a dtype is one of real or complex floating numbers."""
    return bool(kind.is_floating_point or kind.is_complex)


def on_device(value: object) -> bool:
    """Whether a value is a tensor on the device."""
    return isinstance(value, torch.Tensor) and value.device.type == private.NAME


def array_of(tensor: torch.Tensor) -> Array:
    """Returns the array that a tensor on the device is."""
    try:
        memory: _Memory = private.storage_of(tensor).clprim
    except AttributeError:
        raise elsewhere(tensor.device) from None
    return memory.root if _is_whole(tensor, memory) else _part(tensor, memory)


def elsewhere(device: torch.device | str) -> RuntimeError:
    """Returns PyTorch's error of a tensor on another device than the others."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, "
        f"{private.NAME}:0 and {device}!"
    )


def array_or_none(value: torch.Tensor) -> Array | None:
    """Returns the array that a tensor is; None of one that is not on the device."""
    memory: _Memory | None = getattr(private.storage_of(value), "clprim", None)
    if memory is None:
        return None
    return memory.root if _is_whole(value, memory) else _part(value, memory)


def _is_whole(tensor: torch.Tensor, memory: _Memory) -> bool:
    """Whether a tensor is what its storage was made for."""
    return (
        tensor.shape == memory.shape
        and tensor.dtype is memory.kind
        and tensor.stride() == memory.steps
        and not tensor.storage_offset()
    )


def _part(tensor: torch.Tensor, memory: _Memory) -> Array:
    if is_lazy(tensor):
        return array_of(resolved(tensor))
    root = memory.root
    dtype = numpy_dtype(tensor.dtype)
    itemsize = dtype.itemsize
    shape = tuple(tensor.shape)
    strides = tuple([s * itemsize for s in tensor.stride()])
    offset = tensor.storage_offset() * itemsize
    # PyTorch lets a storage shrink below what tensors see of it.
    if 0 not in shape and offset + reach(shape, strides, itemsize) > memory.nbytes:
        raise ShapeError(
            f"a tensor of shape {shape}, strides {tuple(tensor.stride())} and offset "
            f"{tensor.storage_offset()} reaches beyond its storage of {memory.nbytes} bytes"
        )
    return view_of(root, shape, strides, root.offset + offset, dtype)


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether a tensor stands for the conjugates, or the negatives, of what its memory holds."""
    return bool(tensor.is_conj() or tensor.is_neg())


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor whose memory holds its elements, which PyTorch's operators fall back to."""
    if tensor.is_conj():
        tensor = torch.conj_physical(tensor.conj())
    return torch.neg(torch._neg_view(tensor)) if tensor.is_neg() else tensor


def look_at(tensor: torch.Tensor) -> None:
    """Lets no tensor of a storage count as whole before it was asked whether it is lazy."""
    private.storage_of(tensor).clprim.steps = None


def reach(shape: Sequence[int], strides: Sequence[int], itemsize: int = 1) -> int:
    """Returns how far elements reach, of which there is one at least, from the first one on."""
    return itemsize + sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])


_UNSIGNED: dict[object, np.dtype[Any]] = {
    np.dtype(np.int64): np.dtype(np.uint64),
    np.dtype(np.int32): np.dtype(np.uint32),
}


def counted(index: Array) -> Array:
    """Returns indices of which negative ones are out of bounds, where PyTorch refuses them.

    For `clprim.ops` they count from the end, but of an unsigned dtype none is negative.
    """
    dtype = _UNSIGNED.get(index.dtype)
    if dtype is None:
        return index
    return view_of(index, index.shape, index.strides, index.offset, dtype)


def adopt(found: Array) -> torch.Tensor:
    """Makes a tensor of an array that no other tensor holds."""
    dtype, shape = found.dtype, found.shape
    kind = _TORCH.get(dtype)
    if kind is None:
        raise DTypeError(f"arrays of {dtype} cannot be tensors")
    number = placement.number_of(found) if placement.number_of else 0
    made = private.empty_tensor_on(number, shape, kind) if number else _empty_tensor(shape, kind)
    itemsize = dtype.itemsize
    steps = tuple([s // itemsize for s in found.strides])
    dense = steps == made.stride()
    if dense or not found.size:
        nbytes = found.nbytes
    elif min(steps) < 0:
        raise ShapeError(f"strides {found.strides} run backwards, which tensors cannot; copy it")
    else:
        nbytes = reach(shape, found.strides, itemsize)
    counted = placement.usage[number] if number else usage
    storage = made.untyped_storage()
    storage.clprim = _Memory(found, kind, steps, nbytes, counted)
    if kind.is_complex:
        look_at(made)
    private.set_size(storage, nbytes)
    return made if dense else private.restride(made, shape, steps)


def resize(storage: Any, nbytes: int) -> None:
    """Gives a storage of the device another size; the bytes that it had before stay."""
    memory: _Memory = storage.clprim
    root = memory.root
    kind = torch.uint8 if nbytes % root.dtype.itemsize else memory.kind
    dtype = numpy_dtype(kind)
    kept = min(nbytes, memory.nbytes) // dtype.itemsize
    with on(root.device):
        made = empty((nbytes // dtype.itemsize,), dtype)
        if kept:
            flat = view_of(root, (kept,), (dtype.itemsize,), root.offset, dtype)
            copy(flat, out=made[:kept])
    steps = memory.steps and (1,)
    storage.clprim = _Memory(made, kind, steps, nbytes, memory.usage)
    private.set_size(storage, nbytes)


def new(
    shape: tuple[int, ...], kind: torch.dtype, strides: tuple[int, ...] | None = None
) -> torch.Tensor:
    """Allocates a tensor; strides count elements, and may leave gaps."""
    dtype = numpy_dtype(kind)
    dense = tuple(
        s // dtype.itemsize for s in dense_strides(shape, dtype.itemsize, range(len(shape)))
    )
    if strides is None or strides == dense or not math.prod(shape):
        return adopt(empty(shape, dtype))
    flat = adopt(empty((reach(shape, strides),), dtype))
    return private.restride(flat, shape, strides)


def upload(host: torch.Tensor) -> torch.Tensor:
    """Copies a tensor of the host, with its strides where it has no gaps."""
    return adopt(asarray(as_numpy(host)))


def as_numpy(host: torch.Tensor) -> np.ndarray[Any, Any]:
    """Returns a tensor of the host as a NumPy array, without a copy where that can be."""
    dtype = numpy_dtype(host.dtype)
    host = host.detach().resolve_conj().resolve_neg()
    if host.dtype is torch.bfloat16:
        return cast("np.ndarray[Any, Any]", host.view(torch.int16).numpy().view(dtype))
    return cast("np.ndarray[Any, Any]", host.numpy())


def download(tensor: torch.Tensor) -> torch.Tensor:
    """Copies a tensor to the host, with its strides where it has no gaps."""
    found = array_of(tensor).get()
    if tensor.dtype is torch.bfloat16:
        return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(found)


def array(tensor: torch.Tensor) -> Array:
    """Returns the array of a tensor: the same memory.

    Args:
        tensor: On the device.

    Raises:
        DTypeError: Not a tensor on the device.
    """
    if not on_device(tensor):
        what = f"a tensor on {tensor.device}" if isinstance(tensor, torch.Tensor) else tensor
        raise DTypeError(f'clprim.torch.array: expected a tensor on "{private.NAME}", got {what!r}')
    return array_of(tensor)


def tensor(array: Array) -> torch.Tensor:
    """Returns a tensor of an array: the same memory.

    Args:
        array: Of the current device or, once tensors are on others too, of any; strides may not
            be negative.

    Raises:
        DTypeError: Not a device array, or of a dtype that tensors lack.
        ShapeError: Strides that run backwards.
    """
    if not isinstance(array, Array):
        raise DTypeError(f"clprim.torch.tensor: expected an array, got {type(array).__name__}")
    if not placement.number_of and array.context != current_device().context:
        raise DTypeError("clprim.torch.tensor: the array is of another device than the current one")
    return adopt(array)
