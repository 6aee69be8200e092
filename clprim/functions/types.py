"""dtypes, as the Python Array API asks for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, as_dtype, promote, real_dtype
from clprim.errors import DTypeError, quoted
from clprim.runtime.device import Device, current_device, devices

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
# Those of the standard, which has neither float16 nor bfloat16.
_NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
).split()


def astype(x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """Returns an array in another dtype, converted as C converts; itself if ``copy`` is not set."""
    x = x if device is None else x.to_device(device)
    return x if not copy and x.dtype == as_dtype(dtype) else x.astype(dtype)


def copyto(target: Array, source: Any, /) -> None:
    """Writes an array or a number, which broadcasts, to another array."""
    target[...] = source


def result_type(*given: Any) -> AnyDType:
    """Returns the dtype that arrays, dtypes and numbers promote to."""
    found = [v.dtype if isinstance(v, Array) else v for v in given]
    python = int | float | complex
    numbers = [v for v in found if isinstance(v, python) and not isinstance(v, np.generic)]
    types = [as_dtype(v) for v in found if not any(v is n for n in numbers)]
    common = promote(types) if types else np.dtype(np.float32)
    if not numbers:
        return common
    return np.result_type(common, *numbers) if common.name != "bfloat16" else common


def can_cast(from_: Any, to: Any, /, casting: str = "safe") -> bool:
    """Returns whether a dtype converts to another by NumPy's rules."""
    source = from_.dtype if isinstance(from_, Array) else as_dtype(from_)
    if casting not in _CASTINGS:
        raise DTypeError(f"can_cast: casting={quoted(casting)}: expected one of {_CASTINGS}")
    return bool(np.can_cast(source, as_dtype(to), casting))  # type: ignore[arg-type]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Returns whether a dtype is another, or of a kind such as ``"real floating"``.

    Raises:
        DTypeError: A kind that there is not.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    found = as_dtype(dtype)
    if not isinstance(kind, str):
        return found == as_dtype(kind)
    if kind not in _KINDS:
        raise DTypeError(
            f"isdtype: kind={quoted(kind)}: expected a dtype or one of {', '.join(_KINDS)}"
        )
    letter = "f" if found.name == "bfloat16" else found.kind
    return letter in _KINDS[kind]


_NUMBERS = ("eps", "max", "min", "resolution", "smallest_normal", "smallest_subnormal", "tiny")
_COUNTS = ("bits", "precision", "nmant", "nexp")


def finfo(type: Any, /) -> SimpleNamespace:
    """Returns the bounds and the precision of a floating dtype, by NumPy's names.

    Numbers are Python's, as the Python Array API asks for them.
    """
    dtype = as_dtype(type.dtype if isinstance(type, Array) else type)
    found: Any
    if dtype.name == "bfloat16":
        import ml_dtypes

        found = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call, unused-ignore]
    elif dtype.kind in "fc":
        dtype = real_dtype(dtype)
        found = np.finfo(dtype)
    else:
        raise DTypeError(f"finfo: expected a floating dtype, got {dtype}")
    numbers = {name: float(getattr(found, name)) for name in _NUMBERS}
    counts = {name: int(getattr(found, name)) for name in _COUNTS}
    return SimpleNamespace(dtype=dtype, **numbers, **counts)


def iinfo(type: Any, /) -> Any:
    """Returns the bounds of an integer dtype."""
    dtype = as_dtype(type.dtype if isinstance(type, Array) else type)
    if dtype.kind not in "iu":
        raise DTypeError(f"iinfo: expected an integer dtype, got {dtype}")
    return np.iinfo(dtype)


class _Info:
    """What the namespace can do, for the Python Array API."""

    def capabilities(self) -> dict[str, Any]:
        """Returns which parts of the standard depend on data."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Returns the current device."""
        return current_device()

    def devices(self) -> list[Device]:
        """Returns every device."""
        return devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, AnyDType]:
        """Returns the dtypes of results that no argument decides."""
        names = {
            "real floating": np.float32,
            "complex floating": np.complex64,
            "integral": np.int64,
            "indexing": np.int64,
        }
        return {kind: np.dtype(dtype) for kind, dtype in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, AnyDType]:
        """Returns the dtypes of a kind that a device calculates in."""
        where = current_device() if device is None else device
        wide = ("float64", "complex128")
        names = [n for n in _NAMES if n not in wide or where.traits.fp64]
        return {n: np.dtype(n) for n in names if kind is None or isdtype(n, kind)}


def __array_namespace_info__() -> _Info:  # noqa: N807 - the standard's name
    """Returns what the Python Array API asks a namespace about itself."""
    return _Info()
