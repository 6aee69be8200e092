"""Numbers of 8 bits and less that no kernel calculates with: float8, float4, integers of 4 and 2.

They lie in arrays as codes, a byte each, as `ml_dtypes` has them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, DTypeError, quoted
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.strings import kernel, lower_bound

_BYTE, _FLOAT32 = np.dtype(np.uint8), np.dtype(np.float32)
_INTS = ("int4", "uint4", "int2", "uint2")
_ROUNDINGS = {"up": "m > 0", "down": "0", "nearest": "m >= 0x400000"}
#: Names of the dtypes.
SMALL = frozenset(
    """float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn
    int4 uint4 int2 uint2""".split()
)


def _dtype(what: str, dtype: Any) -> str:
    """Returns a dtype's name."""
    name = str(getattr(dtype, "name", dtype))
    if name not in SMALL:
        raise DTypeError(f"{what}: dtype={quoted(dtype)}: expected one of {sorted(SMALL)}")
    return name


@operator()
def decode(codes: Any, dtype: Any, *, out: Any = None) -> Array:
    """Returns the numbers that codes stand for, as float32.

    Args:
        codes: Of uint8, of any shape.
        dtype: Theirs, a name such as ``"float8_e4m3fn"`` or `ml_dtypes`' dtype.
        out: Where the result goes.

    Raises:
        DTypeError: Another dtype.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> codes = ops.encode(cp.asarray(np.float32([0.3, -1.1, 500])), "float8_e4m3fn")
        >>> ops.decode(codes, "float8_e4m3fn").get()
        array([ 3.125e-01, -1.125e+00,  4.480e+02], dtype=float32)
    """
    what = "decode"
    if dtype_of(what, "codes", codes) != _BYTE:
        raise DTypeError(f"{what}: codes are {codes.dtype}, expected uint8")
    table = asarray(_values(_dtype(what, dtype)))
    run = kernel("y0 = at_x1(x0);", what, _FLOAT32)
    found: Array = run(codes, table, shape=codes.shape, out=out)
    return found


@operator(sample="x, 'int4'")
def encode(
    x: Any, dtype: Any, *, saturate: bool = True, rounding: str = "up", out: Any = None
) -> Array:
    """Returns numbers as codes of a dtype of few bits, the nearest ones, of two the even.

    Args:
        x: Of any dtype; of integers of 4 and 2 bits the low bits of whole numbers are taken.
        dtype: As in `decode`.
        saturate: Whether floats too large become the largest, and not NaN or infinity.
        rounding: Of ``"float8_e8m0fnu"``, powers of two: ``"up"``, ``"down"`` or ``"nearest"``.
        out: Where the result goes.

    Returns:
        Codes of uint8.

    Raises:
        DTypeError: Another dtype, no device array.
        DefinitionError: Another rounding.
    """
    what = "encode"
    name = _dtype(what, dtype)
    dtype_of(what, "x", x)
    if rounding not in _ROUNDINGS:
        raise DefinitionError(f"{what}: rounding={quoted(rounding)}: expected {[*_ROUNDINGS]}")
    given: tuple[Any, ...] = ()
    if name in _INTS:
        bits = int(name[-1])
        text = f"long v = (long)x0; y0 = v & {2**bits - 1};"
        if name.startswith("i"):  # as ml_dtypes keeps them, with the sign in all bits above
            text += f" y0 |= v & {2 ** (bits - 1)} ? {256 - 2**bits} : 0;"
    elif name == "float8_e8m0fnu":
        x, text, given = x.astype(_FLOAT32), _e8m0(rounding), (int(saturate),)
    else:
        limits, positive, negative, nan = _limits(name, bool(saturate))
        text = f"""
            float a = fabs((float)x0);
            {lower_bound("size_x1(0)", "at_x1(middle)", "a")}
            y0 = isnan((float)x0) ? w0 : signbit((float)x0) ? at_x3(low) : at_x2(low);"""
        given = (*map(asarray, (limits, positive, negative)), int(nan))
    found: Array = kernel(text, what, _BYTE)(x, *given, shape=x.shape, out=out)
    return found


@lru_cache(maxsize=64)
def _values(name: str) -> np.ndarray[Any, Any]:
    return np.arange(256, dtype=_BYTE).view(_of_name(name)).astype(_FLOAT32)


def _of_name(name: str) -> AnyDType:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


@lru_cache(maxsize=64)
def _limits(name: str, saturate: bool) -> tuple[np.ndarray[Any, Any], ...]:
    """Limits between magnitudes, and codes of those, positive and negative; then of NaN."""
    four = "float4" in name
    values, codes, sign = _values(name), np.arange(16 if four else 256), 8 if four else 128
    values = values[codes]
    ok = np.isfinite(values) & ((codes & sign) == 0)
    magnitudes, order = values[ok], codes[ok]
    # A number half-way goes to the even code: the limit is what is still rounded down.
    gap = (magnitudes[:-1].astype(np.float64) + magnitudes[1:]) / 2
    last = magnitudes[-1] + (magnitudes[-1].astype(np.float64) - magnitudes[-2]) / 2
    limits = np.append(gap, last).astype(_FLOAT32)
    limits = np.where(order % 2 == 0, limits, np.nextafter(limits, _FLOAT32.type(-np.inf)))
    nan = 0 if four else int(np.array(np.nan, _FLOAT32).astype(_of_name(name)).view(_BYTE))
    beyond = nan
    if saturate or four:
        beyond = order[-1]
    elif name.endswith(("fn", "e5m2")):
        beyond = order[-1] + 1
    positive = np.append(order, beyond)
    negative = positive | sign if four else np.where(positive == nan, nan, positive | sign)
    if name.endswith("fnuz"):
        negative[0] = 0
    return limits, positive.astype(_BYTE), negative.astype(_BYTE), np.array(nan, _BYTE)


def _e8m0(rounding: str) -> str:
    """The exponent alone: 2^(code - 127); 255 is NaN."""
    return f"""
        uint bits = as_uint((float)x0) & 0x7fffffff, e = bits >> 23, m = bits & 0x7fffff;
        if (e == 0) {{ e = {"m > 0x400000" if rounding != "down" else "0"}; m = 0; }}
        uint code = e + (({_ROUNDINGS[rounding]}) ? 1 : 0);
        if (isnan((float)x0)) code = 255;
        else if (code >= 255) code = w0 != 0 ? 254 : 255;
        y0 = code;"""
