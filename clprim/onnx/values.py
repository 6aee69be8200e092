"""Values of a model: arrays of the device, of the host, codes of small numbers, and lists.

A value is a device array, `Stored`, a NumPy array on the host, a list of values (a sequence), or
None (an optional that is empty). What was computed from shapes stays on the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from onnx import helper

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, full
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError
from clprim.ops.quantized.small import SMALL

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BYTE = np.dtype(np.uint8)
FLOAT32 = np.dtype(np.float32)
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)


@dataclass(frozen=True)
class Stored:
    """An array of a dtype that kernels know only as codes."""

    codes: Array
    dtype: AnyDType

    @property
    def shape(self) -> tuple[int, ...]:
        """As the codes have it."""
        return self.codes.shape

    @property
    def ndim(self) -> int:
        """Likewise."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Likewise."""
        return math.prod(self.shape)


def dtype_of(kind: int | None, otherwise: AnyDType = FLOAT32) -> AnyDType:
    """Returns the dtype that ONNX has a number for; of 0 and None the other one."""
    return helper.tensor_dtype_to_np_dtype(kind) if kind else otherwise


def filled(shape: Sequence[int], value: Any, dtype: AnyDType) -> Array:
    """Returns a new array of one value."""
    return full(tuple(shape), np.dtype(dtype).type(value), dtype)


def is_float(dtype: AnyDType) -> bool:
    """Whether kernels calculate with a dtype as with floating-point numbers."""
    return dtype.kind == "f" or dtype == BFLOAT16


def uploaded(value: np.ndarray[Any, Any]) -> Array | Stored:
    """Returns an array of the host on the device."""
    if value.dtype.name in SMALL:
        return Stored(
            asarray(np.ascontiguousarray(value).view(BYTE).reshape(value.shape)), value.dtype
        )
    if value.dtype.kind not in "fiub" and value.dtype != BFLOAT16:
        raise DTypeError(f"an array of {value.dtype} has no place on a device")
    return asarray(value)


def downloaded(value: Any) -> Any:
    """Returns a value with NumPy's arrays in place of the device's."""
    if isinstance(value, Stored):
        return value.codes.get().view(value.dtype)
    if isinstance(value, Array):
        return value.get()
    if isinstance(value, list):
        return [downloaded(each) for each in value]
    return value


def encoded(x: Array, dtype: AnyDType, **options: Any) -> Stored:
    """Returns numbers in a dtype of few bits; options are those of `clprim.ops.encode`."""
    return Stored(ops.encode(x, dtype, **options), dtype)


def cast(x: Array | Stored, dtype: AnyDType, **options: Any) -> Any:
    """Returns a value in another dtype; options as of `encoded`."""
    if x.dtype == dtype:
        return x
    numbers = ops.decode(x.codes, x.dtype) if isinstance(x, Stored) else x
    return encoded(numbers, dtype, **options) if dtype.name in SMALL else numbers.astype(dtype)
