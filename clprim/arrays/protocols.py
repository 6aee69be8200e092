"""NumPy's functions on device arrays: the package's own of the same name, or a refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.errors import DTypeError, upload_hint

# These write or show what an array holds, which is to download it.
_OF_THE_HOST = frozenset(
    (
        np.save,
        np.savez,
        np.savez_compressed,
        np.savetxt,
        np.array2string,
        np.array_repr,
        np.array_str,
    )
)
# Of universal functions: a reduction by another name.
_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_ATTRIBUTES = ("ndim", "shape", "size", "copy", "ravel", "reshape", "transpose", "round", "astype")


class Protocols:
    """Answers to NumPy's functions that are given a device array."""

    def __array_ufunc__(
        self: Any, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        name = ufunc.__name__
        if method == "reduce" and name in _REDUCTIONS:
            options.setdefault("axis", 0)
            function = getattr(self.namespace, _REDUCTIONS[name])
            return function(*inputs, **_given(name, out, options))
        # NumPy makes arrays of its numbers where it compares them.
        inputs = tuple(v[()] if isinstance(v, np.ndarray) and not v.ndim else v for v in inputs)
        for value in inputs:
            if not isinstance(value, cl_array.Array | int | float | complex | np.generic):
                raise DTypeError(
                    f"{name}: expected a device array or a number, got {type(value).__name__}"
                    + upload_hint(value)
                )
        if method != "__call__" or name not in self._functions:
            called = name if method == "__call__" else f"{name}.{method}"
            raise _refusal(f"numpy.{called}")
        return getattr(self.namespace, name)(*inputs, **_given(name, out, options))

    def __array_function__(
        self: Any, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if func in _OF_THE_HOST:
            return func(*map(_down, args), **{k: _down(v) for k, v in kwargs.items()})
        name, module = func.__name__, func.__module__
        if module == "numpy":
            if name in self._functions or name.endswith("_like"):
                return getattr(self.namespace, name)(*args, **kwargs)
            if name in _ATTRIBUTES and args and isinstance(args[0], cl_array.Array):
                found = getattr(args[0], name)
                return found(*args[1:], **kwargs) if callable(found) else found
        for room in ("fft", "linalg"):
            found = getattr(getattr(self.namespace, room), name, None)
            if module == f"numpy.{room}" and found is not None:
                return found(*args, **kwargs)
        raise _refusal(f"{module}.{name}")


def _refusal(called: str) -> DTypeError:
    return DTypeError(
        f"{called} has no version for device arrays: {called}(x.get(), …) computes on the host; "
        "cp.Pointwise and cp.Reduction make kernels of strings"
    )


def _given(name: str, out: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Returns a universal function's options but for those that say nothing."""
    given = {k: v for k, v in options.items() if v is not None and v is not np._NoValue}
    if given.get("where") is True:
        del given["where"]
    if out is not None:
        (result,) = out if isinstance(out, tuple) else (out,)
        if result is not None:
            if not isinstance(result, cl_array.Array):
                raise DTypeError(
                    f"{name}: expected a device array for out=, got {type(result).__name__}: "
                    "x.get() downloads"
                )
            given["out"] = result
    return given


def _down(value: Any) -> Any:
    return value.get() if isinstance(value, cl_array.Array) else value
