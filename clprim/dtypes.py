"""Which dtypes there are, how they are stored and calculated with, and how they promote.

A dtype has a *storage* type, as it lies in memory, and a *value* type, as a snippet sees it:
float16 and bfloat16 are stored in 16 bits and calculated with in float, bool is stored in a byte
and calculated with as OpenCL C's ``bool``; all others are the same in both. A complex number is a
pair of floats: ``float2`` or ``double2``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard, cast

import numpy as np

from clprim.errors import DTypeError, quoted
from clprim.traits import DeviceTraits

AnyDType = np.dtype[Any]
Scalar = bool | int | float | complex | np.generic
# Asked at every call: a union written in place would be made anew each time.
_INTEGERS = (int, np.integer)
_NO_COUNTS = (bool, np.timedelta64)
_REALS = (int, float, np.integer, np.floating, np.bool_)


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value counts something: one of Python's or NumPy's integers.

    bool and timedelta64, which their classes make integers as well, do not.
    """
    return isinstance(value, _INTEGERS) and not isinstance(value, _NO_COUNTS)


#: What NumPy raises of what it makes no array of.
NO_ARRAY = (TypeError, ValueError, RuntimeError, OverflowError, MemoryError)


def require_number(value: Any, dtype: AnyDType) -> None:
    """Refuses what NumPy converts silently: complex numbers to real ones, times, texts and None."""
    refused, wanted = ("mMSU", "") if dtype.kind == "c" else ("cmMSU", "real ")
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in refused:
        raise TypeError(f"{value.dtype} is no dtype of {wanted}numbers")
    if value is None or isinstance(value, str | bytes | bytearray):
        raise TypeError(f"{type(value).__name__} is no type of {wanted}numbers")


def is_real(value: Any) -> bool:
    """Whether a value is a number on a line: one of Python's or NumPy's; bool is one as well."""
    return isinstance(value, _REALS) and not isinstance(value, np.timedelta64)


@dataclass(frozen=True)
class StoredType:
    """How elements of a dtype are stored and calculated with."""

    name: str
    storage: str
    value: str
    load: str
    size: int


_STORED = {
    t.name: t
    for t in (
        StoredType("bool", "uchar", "bool", "bool", 1),
        StoredType("int8", "char", "char", "direct", 1),
        StoredType("uint8", "uchar", "uchar", "direct", 1),
        StoredType("int16", "short", "short", "direct", 2),
        StoredType("uint16", "ushort", "ushort", "direct", 2),
        StoredType("int32", "int", "int", "direct", 4),
        StoredType("uint32", "uint", "uint", "direct", 4),
        StoredType("int64", "long", "long", "direct", 8),
        StoredType("uint64", "ulong", "ulong", "direct", 8),
        StoredType("float16", "half", "float", "half", 2),
        StoredType("bfloat16", "ushort", "float", "bfloat16", 2),
        StoredType("float32", "float", "float", "direct", 4),
        StoredType("float64", "double", "double", "direct", 8),
        StoredType("complex64", "float2", "float2", "direct", 8),
        StoredType("complex128", "double2", "double2", "direct", 16),
    )
}
_FLOAT16 = np.dtype(np.float16)
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)
_COMPLEX64 = np.dtype(np.complex64)
_COMPLEX128 = np.dtype(np.complex128)
_WIDE = frozenset({_FLOAT64, _COMPLEX128})
_INT64 = np.dtype(np.int64)
_BOOL = np.dtype(np.bool_)


def as_dtype(dtype: object) -> AnyDType:
    """Returns ``dtype`` as a NumPy dtype; ``"bfloat16"`` is the ml_dtypes package's."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return bfloat16()
    try:
        found: AnyDType = np.dtype(cast(Any, dtype))
    except (TypeError, ValueError, RecursionError) as error:  # an encoding's is a ValueError
        raise DTypeError(f"{quoted(dtype)} is not a dtype") from error
    stored_type(found)
    return found


def bfloat16() -> AnyDType:
    """Returns ml_dtypes' bfloat16, the dtype that NumPy users have for it."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise DTypeError(
            "bfloat16 arrays need the ml_dtypes package: pip install ml_dtypes"
        ) from error
    return cast(AnyDType, np.dtype(ml_dtypes.bfloat16))


@lru_cache(maxsize=256)  # NumPy makes a dtype's name each time that it is asked
def stored_type(dtype: AnyDType) -> StoredType:
    """Returns how a dtype is stored and calculated with."""
    found = _STORED.get(dtype.name)
    if found is None or not dtype.isnative:
        raise DTypeError(
            f"dtype {dtype} is not supported; supported are {', '.join(_STORED)} "
            "in the machine's byte order"
        )
    return found


def require_supported(dtypes: Iterable[AnyDType], traits: DeviceTraits, device: str) -> None:
    """Refuses dtypes whose arithmetic the device lacks.

    float16 and bfloat16 need nothing: they are stored with ``vstore_half`` and bit operations.
    """
    wide = None if traits.fp64 else next((d for d in dtypes if d in _WIDE), None)
    if wide is not None:
        half = "complex64" if wide == _COMPLEX128 else "float32"
        raise DTypeError(
            f"{wide} is not supported by {device}: it lacks cl_khr_fp64; "
            f"use {half} arrays, or result_type=numpy.{half}"
        )


def promote(dtypes: Iterable[AnyDType]) -> AnyDType:
    """Returns the dtype that NumPy promotes the given ones to.

    bfloat16 promotes as float16 does, and the two together make float32.
    """
    return _promoted(tuple(dtypes))


@lru_cache(maxsize=1024)
def _promoted(given: tuple[AnyDType, ...]) -> AnyDType:
    has_bfloat16 = any(d.name == "bfloat16" for d in given)
    if not has_bfloat16:
        return np.result_type(*given)
    bfloat = next(d for d in given if d.name == "bfloat16")
    has_float16 = _FLOAT16 in given
    result = np.result_type(*(_FLOAT16 if d.name == "bfloat16" else d for d in given))
    if result != _FLOAT16:
        return result
    return _FLOAT32 if has_float16 else bfloat


#: Of all floating numbers.
_LARGEST = int(np.finfo(np.float64).max)


def scalar_dtype(value: Scalar, arrays: AnyDType | None) -> AnyDType:
    """Returns the dtype in which a run-time scalar takes part, next to arrays of ``arrays``.

    Python numbers adapt to the arrays (NEP 50): an int takes their dtype, a float their floating
    dtype or float64 beside integers, a complex the complex dtype of that. Beside complex arrays an
    int and a float stay real. NumPy scalars keep their own dtype.
    """
    if isinstance(value, np.generic):
        stored_type(value.dtype)
        return value.dtype
    if isinstance(value, complex):
        return complex_dtype(_FLOAT64 if arrays is None or arrays.kind in "biu" else arrays)
    if arrays is not None and not isinstance(value, bool):
        arrays = real_dtype(arrays)
    if isinstance(value, bool):
        return _BOOL if arrays is None else promote([_BOOL, arrays])
    if isinstance(value, int):
        dtype = _INT64 if arrays is None or arrays == _BOOL else arrays
        if dtype.kind in "iu":
            least, greatest = bounds(dtype)
            if not least <= value <= greatest:
                raise DTypeError(f"the scalar {quoted(value)} is out of bounds for {dtype}")
        elif abs(value) > _LARGEST:
            raise DTypeError(f"the scalar {quoted(value)} is out of bounds for {dtype}")
        return dtype
    if isinstance(value, float):
        return arrays if arrays is not None and _is_float(arrays) else _FLOAT64
    raise DTypeError(f"expected a number for a run-time scalar, got {type(value).__name__}")


@lru_cache(maxsize=64)
def complex_dtype(dtype: AnyDType) -> AnyDType:
    """Returns the dtype of complex numbers whose parts have a dtype, of integers complex128."""
    return promote([dtype, _COMPLEX64])


def real_dtype(dtype: AnyDType) -> AnyDType:
    """Returns the dtype of the parts of complex numbers, and others as they are."""
    if dtype.kind != "c":
        return dtype
    return _FLOAT32 if dtype == _COMPLEX64 else _FLOAT64


def paired_dtype(dtype: AnyDType, paired: bool) -> AnyDType:
    """Returns the dtype of complex numbers that goes with one, or of real ones."""
    return complex_dtype(dtype) if paired else real_dtype(dtype)


def adapted(value: Any, dtype: AnyDType) -> Any:
    """Returns a Python number as a floating dtype of 16 bits holds it, and others as they are.

    Operators take it so beside arrays of that dtype, as NumPy does (NEP 50).
    """
    fixed = isinstance(value, bool | complex | np.generic)
    if dtype.itemsize != 2 or not _is_float(dtype) or fixed:
        return value
    with np.errstate(over="ignore"):
        return float(dtype.type(value))


@lru_cache(maxsize=64)
def bounds(dtype: AnyDType) -> tuple[int, int]:
    """Returns the least and the greatest number of an integer dtype."""
    found = np.iinfo(dtype)
    return found.min, found.max


@lru_cache(maxsize=64)
def _is_float(dtype: AnyDType) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"


def value_dtype(dtype: AnyDType, everything: Iterable[AnyDType]) -> AnyDType:
    """Returns the dtype in which a snippet sees an operand, next to ``everything`` in the call.

    Floating operands are all float, or all double where anything in the call is of doubles, so that
    float32 next to int32 gives NumPy's float64 sums. Integers are widened to the integers' common
    dtype, so that int32 next to uint32 keeps its sign. Kinds never change: an integer operand can
    still be shifted, whatever stands beside it.
    """
    if dtype == _BOOL:
        return dtype
    given = list(everything)
    if _is_float(dtype):
        return _FLOAT32 if _WIDE.isdisjoint(given) else _FLOAT64
    if dtype.kind == "c":
        return _COMPLEX64 if _WIDE.isdisjoint(given) else _COMPLEX128
    common = np.result_type(dtype, *(d for d in given if d.kind in "iu"))
    return common if common.kind in "iu" else dtype
