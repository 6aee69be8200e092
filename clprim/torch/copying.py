"""Copies and conversions between arrays, as tensors need them."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.dtypes import AnyDType
from clprim.primitives.arithmetic import astype, copy
from clprim.torch.tensors import kind_of, numpy_dtype


def copy_into(target: Array, source: Any) -> None:
    """Copies elements into an array of the same or a broadcast shape, converting them."""
    if target.size and source is not target:
        copy(_without_parts(source, target.dtype), out=target)


def duplicate(source: Array, memory_format: str | None = None) -> Array:
    """Returns a new array of the same elements, in the same or a given memory format."""
    if memory_format is None:
        copied: Array = astype(source, source.dtype)
        return copied
    made = empty(source.shape, source.dtype, memory_format=memory_format)
    copy_into(made, source)
    return made


def check_target(kind: torch.dtype, target: Array) -> None:
    """Refuses a target that cannot hold an elementwise result, as integers cannot hold floats."""
    held = kind_of(target.dtype)
    if held is not kind and not torch.can_cast(kind, held):
        raise RuntimeError(f"result type {kind} can't be cast to the desired output type {held}")


def cast(source: Array, kind: torch.dtype) -> Array:
    """Returns the elements with another dtype; the array itself where it has it."""
    dtype = numpy_dtype(kind)
    if source.dtype == dtype:
        return source
    found: Array = _without_parts(source, dtype).astype(dtype)
    return found


def _without_parts(source: Any, dtype: AnyDType) -> Any:
    """What a dtype holds of numbers: of complex ones, as PyTorch has it, the real parts."""
    if getattr(getattr(source, "dtype", None), "kind", "") != "c" or dtype.kind in "cb":
        return source
    warnings.warn("Casting complex values to real discards the imaginary part", stacklevel=2)
    return source.real
