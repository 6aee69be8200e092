"""Values of a model: arrays of the device, of the host, codes of small numbers, and lists.

A value is a device array, `Stored`, a NumPy array on the host, a list of values (a sequence), or
None (an optional that is empty). What was computed from shapes stays on the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError
from clprim.ops.shared.strings import kernel, lower_bound

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BYTE = np.dtype(np.uint8)
FLOAT32 = np.dtype(np.float32)
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)

_FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
_INTS = ("int4", "uint4", "int2", "uint2")
#: dtypes that no kernel calculates with: their elements lie on the device as codes of a byte.
SMALL = frozenset({*_FLOAT8, *_INTS, "float4_e2m1fn"})


@dataclass(frozen=True)
class Stored:
    """An array of a dtype that kernels know only as codes.

    Attributes:
        codes: A byte an element.
        dtype: ml_dtypes' dtype.
    """

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


def is_float(dtype: AnyDType) -> bool:
    """Whether kernels calculate with a dtype as with floating-point numbers."""
    return dtype.kind == "f" or dtype == BFLOAT16


def uploaded(value: np.ndarray[Any, Any]) -> Array | Stored:
    """Returns an array of the host on the device.

    Raises:
        DTypeError: Texts, complex numbers.
    """
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


@lru_cache(maxsize=64)
def _decoding(name: str) -> np.ndarray[Any, Any]:
    return np.arange(256, dtype=BYTE).view(np.dtype(name)).astype(FLOAT32)


def decoded(value: Stored) -> Array:
    """Returns the numbers, as float32."""
    table = asarray(_decoding(value.dtype.name))
    found: Array = kernel("y0 = at_x1(x0);", "decode", FLOAT32)(value.codes, table)
    return found


@lru_cache(maxsize=64)
def _encoding(name: str, saturate: bool) -> tuple[np.ndarray[Any, Any], ...]:
    """Limits between magnitudes, and codes of those, positive and negative; then of NaN."""
    dtype = np.dtype(name)
    values = _decoding(name)
    codes = np.arange(256 if "float4" not in name else 16)
    values = values[codes]
    sign = 8 if "float4" in name else 128
    ok = np.isfinite(values) & ((codes & sign) == 0)
    magnitudes, order = values[ok], codes[ok]
    # A number half-way goes to the even code: the limit is what is still rounded down.
    gap = (magnitudes[:-1].astype(np.float64) + magnitudes[1:]) / 2
    last = magnitudes[-1] + (magnitudes[-1].astype(np.float64) - magnitudes[-2]) / 2
    limits = np.append(gap, last)
    even = order % 2 == 0
    limits = limits.astype(FLOAT32)
    limits = np.where(even, limits, np.nextafter(limits, FLOAT32.type(-np.inf)))
    nan = int(np.array(np.nan, FLOAT32).astype(dtype).view(BYTE)) if "float8" in name else 0
    beyond = (
        order[-1]
        if saturate or "float4" in name
        else order[-1] + 1
        if name.endswith(("fn", "e5m2"))
        else nan
    )
    positive = np.append(order, beyond)
    negative = np.where(positive == nan, nan, positive | sign)
    if name.endswith("fnuz"):
        negative[0] = 0
    return limits, positive.astype(BYTE), negative.astype(BYTE), np.array(nan, BYTE)


def encoded(x: Array, dtype: AnyDType, *, saturate: bool = True, rounding: str = "up") -> Stored:
    """Returns numbers in a dtype of few bits.

    Args:
        x: Of any dtype.
        dtype: One of `SMALL`.
        saturate: Whether floats too large become the largest, and not NaN or infinity.
        rounding: Of float8_e8m0fnu, ``up``, ``down`` or ``nearest``.
    """
    if dtype.name in _INTS:
        bits = int(dtype.name[-1])
        text = f"long v = (long)x0; y0 = v & {2**bits - 1};"
        if dtype.name.startswith("i"):  # as ml_dtypes keeps them, with the sign in all bits above
            text += f" y0 |= v & {2 ** (bits - 1)} ? {256 - 2**bits} : 0;"
        return Stored(kernel(text, "encode", BYTE)(x), dtype)
    if dtype.name == "float8_e8m0fnu":
        x = x.astype(FLOAT32)
        return Stored(kernel(_e8m0(rounding), "encode", BYTE)(x, int(saturate)), dtype)
    limits, positive, negative, nan = _encoding(dtype.name, saturate)
    text = f"""
        float a = fabs((float)x0);
        {lower_bound("size_x1(0)", "at_x1(middle)", "a")}
        y0 = isnan((float)x0) ? w0 : signbit((float)x0) ? at_x3(low) : at_x2(low);"""
    tables = [asarray(t) for t in (limits, positive, negative)]
    return Stored(kernel(text, "encode", BYTE)(x, *tables, int(nan)), dtype)


def _e8m0(rounding: str) -> str:
    """The exponent alone: 2^(code - 127); 255 is NaN."""
    up = {"up": "m > 0", "down": "0", "nearest": "m >= 0x400000"}[rounding]
    return f"""
        uint bits = as_uint((float)x0) & 0x7fffffff, e = bits >> 23, m = bits & 0x7fffff;
        if (e == 0) {{ e = {"m > 0x400000" if rounding != "down" else "0"}; m = 0; }}
        uint code = e + (({up}) ? 1 : 0);
        if (isnan((float)x0)) code = 255;
        else if (code >= 255) code = w0 != 0 ? 254 : 255;
        y0 = code;"""


def cast(x: Array | Stored, dtype: AnyDType, *, saturate: bool = True, rounding: str = "up") -> Any:
    """Returns a value in another dtype; arguments as of `encoded`."""
    if x.dtype == dtype:
        return x
    numbers = decoded(x) if isinstance(x, Stored) else x
    if dtype.name in SMALL:
        return encoded(numbers, dtype, saturate=saturate, rounding=rounding)
    return numbers.astype(dtype)
