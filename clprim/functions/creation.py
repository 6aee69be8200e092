"""Arrays from a rule: ranges, diagonals, grids."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.dtypes import as_dtype, is_integer
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.shape.join import meshgrid as _meshgrid
from clprim.ops.shared.checks import real
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import on

_range = Pointwise("y0 = (typeof_y0)w0 + (typeof_y0)w1 * (typeof_y0)index;", name="arange")
# From whichever end is nearer, so that both are met exactly.
_steps = Pointwise(
    """
    typeof_y0 a = w0, b = w1; typeof_w2 n = w2, i = index;
    y0 = 2 * i < n ? a + (b - a) * (i / n) : b - (b - a) * ((n - i) / n);
    """,
    name="linspace",
)
_eye = Pointwise("y0 = coord(1) - coord(0) == w0;", name="eye")


def _number(what: str, value: Any, *, pairs: bool = False) -> Any:
    if isinstance(value, np.generic | Array):
        value = value.item()
    if pairs and isinstance(value, complex):
        return value
    if not isinstance(value, int | float):
        raise DTypeError(f"{what}: expected a number, got {type(value).__name__}")
    if isinstance(value, int):
        real(what, "a number", value)
    return value


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Array:
    """Returns numbers from ``start`` on, evenly apart, below ``stop``.

    Args:
        start: The first; with one argument that is ``stop``, and the first 0.
        stop: None of them.
        step: From one to the next.
        dtype: int64 for integers and float32 for floats, by default.
        device: Where, in `set_device`'s words.

    Raises:
        ShapeError: A step of 0.

    Example:
        >>> import clprim as cp
        >>> cp.arange(3).tolist(), cp.arange(1, 2, 0.25).tolist()
        ([0, 1, 2], [1.0, 1.25, 1.5, 1.75])
    """
    start, stop = (0, start) if stop is None else (start, stop)
    start, stop, step = (_number("arange", v) for v in (start, stop, step))
    if not step:
        raise ShapeError("arange: step=0 never comes to an end")
    if dtype is None:
        dtype = np.int64 if all(isinstance(v, int) for v in (start, stop, step)) else np.float32
    dtype = as_dtype(dtype)
    kind = int if dtype.kind in "iu" else float
    with nullcontext() if device is None else on(device):
        whole = all(isinstance(v, int) for v in (start, stop, step))
        count = -((start - stop) // step) if whole else np.ceil((stop - start) / step)
        if not np.isfinite(float(count)):
            raise ShapeError(f"arange: from {start} to {stop} by {step} there is no end")
        count = int(count)
        out = empty(max(0, count), dtype)
        if out.size:
            _range(kind(start), kind(step), out=out)
    return out


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Returns ``num`` numbers from ``start`` to ``stop``, evenly apart, both exact.

    Args:
        start: The first.
        stop: The last; with ``endpoint=False`` the one after the last.
        num: How many.
        endpoint: Whether ``stop`` is one of them.
        dtype: float32 by default, of complex numbers complex64.
        device: Where, in `set_device`'s words.

    Example:
        >>> import clprim as cp
        >>> cp.linspace(0, 1, 5).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if not is_integer(num) or num < 0:
        raise ShapeError(f"linspace: num={quoted(num)}: expected a number of elements")
    ends = [_number("linspace", v, pairs=True) for v in (start, stop)]
    paired = any(isinstance(v, complex) for v in ends)
    start, stop = (complex(v) if paired else float(v) for v in ends)
    dtype = as_dtype(_natural(paired) if dtype is None else dtype)
    if paired and dtype.kind != "c":
        raise DTypeError(f"linspace: dtype={dtype} of complex numbers: expected a complex one")
    with nullcontext() if device is None else on(device):
        out = empty(num, dtype if dtype.kind not in "iu" else np.float32)
        if num:
            _steps(start, stop, float(max(1, num - 1 if endpoint else num)), out=out)
        return out if out.dtype == dtype else out.astype(dtype)


def _natural(paired: bool) -> Any:
    """The dtype of Python's numbers, of which some are complex."""
    return np.complex64 if paired else np.float32


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    k: Any = 0,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Returns a matrix of zeros with ones on the diagonal ``k`` (above 0: to the right).

    Raises:
        DTypeError: ``k`` is no integer; it may be one of any size.
    """
    if not is_integer(k):
        raise DTypeError(f"eye: k={quoted(k)}: expected an integer")
    with nullcontext() if device is None else on(device):
        out = empty((n_rows, n_rows if n_cols is None else n_cols), dtype)
        if out.size:
            # A diagonal that lies outside has no elements, however far out.
            _eye(max(-out.shape[0], min(int(k), out.shape[1])), out=out)
    return out


def identity(n: int, dtype: Any = None, *, device: Any = None) -> Array:
    """Returns a square matrix of zeros with ones on its diagonal."""
    return eye(n, dtype=dtype, device=device)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Returns one-dimensional arrays as a grid's coordinates, in NumPy's order ``"xy"``."""
    return list(_meshgrid(*arrays, indexing=indexing))
