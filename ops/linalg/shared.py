"""What the files of linear algebra share: which matrices they take, and what a host computes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import asarray, zeros
from clprim.arrays.memory import operand_of
from clprim.dtypes import promote
from clprim.errors import DTypeError, ShapeError, SingularError
from clprim.graph.spans import Rule, differentiable
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.sums import SUM
from clprim.plan.decomposition.problem import LARGEST, fits
from clprim.plan.strides import broadcast_shapes, broadcast_strides
from clprim.runtime.device import current_device
from clprim.runtime.tracing import active, caller

# Bound: rows of matrices that are decomposed by blocks, beyond which LAPACK does it on the host.
MOST = 1024
_ROWS = 256  # by which the heights of panels are rounded
_KNOWN = ("float32", "float64", "complex64", "complex128")
_warned: set[str] = set()


def matrices(what: str, label: str, a: Any, *, square: bool = False) -> Any:
    """Returns the dtype of an array of matrices.

    Raises:
        DTypeError: No device array of float32, float64 or complex numbers.
        ShapeError: No matrices, or none that are square where they must be.
    """
    dtype = dtype_of(what, label, a)
    if str(dtype) not in _KNOWN:
        raise DTypeError(f"{what}: {label} is {dtype}, expected one of {', '.join(_KNOWN)}")
    if a.ndim < 2:
        raise ShapeError(f"{what}: {label} has shape {a.shape}, expected at least 2 dimensions")
    if square and a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"{what}: {label} has shape {a.shape}, expected square matrices")
    return dtype


def alike(what: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Returns two arrays of matrices in one dtype, with leading dimensions of one shape."""
    dtype = promote([a.dtype, b.dtype])
    a, b = (x if x.dtype == dtype else x.astype(dtype) for x in (a, b))
    lead = broadcast_shapes(what, [a.shape[:-2], b.shape[:-2]])
    return repeated(a, lead), repeated(b, lead)


def repeated(x: Any, lead: tuple[int, ...]) -> Any:
    """Returns a view of matrices with other leading dimensions."""
    if x.shape[:-2] == lead:
        return x
    shape = (*lead, *x.shape[-2:])
    steps = broadcast_strides(operand_of(x), shape)
    return view_of(x, shape, tuple(n * x.dtype.itemsize for n in steps), x.offset)


def summed(grad: Any, shape: tuple[int, ...]) -> Any:
    """Returns the gradient of what was repeated: its sum."""
    more = grad.ndim - len(shape)
    axes = tuple(
        d for d, n in enumerate(grad.shape) if d < more or (shape[d - more] == 1 and n > 1)
    )
    return (SUM(grad, axis=axes, keepdims=True) if axes else grad).reshape(shape)


def adjoint(x: Any) -> Any:
    """Returns transposed matrices, conjugated where they are complex."""
    return x.mT.conj() if x.dtype.kind == "c" else x.mT


def eye(shape: tuple[int, ...], dtype: Any) -> Any:
    """Returns a matrix of zeros with ones on its diagonal."""
    return kernel("y0 = coord(0) == coord(1);", "identity", dtype)(shape=shape)


def on_diagonal(x: Any) -> Any:
    """Returns which places of square matrices lie on the diagonal."""
    return eye(x.shape[-2:], np.bool_)


def fitting(kind: str, a: Any, k: int = 0) -> bool:
    """Whether a kernel does it whole."""
    m, n = a.shape[-2:]
    traits = current_device().traits
    longest = max(m, n, k)
    near = min(m, n) <= LARGEST and longest <= MOST if kind in ("qr", "svd") else longest <= LARGEST
    return near and fits(kind, m, n, k, a.dtype.itemsize, traits)


def blocks(kind: str, a: Any, widest: int) -> int:
    """Returns how many columns of matrices a kernel takes at a time.

    Raises:
        ShapeError: Local memory holds none.
    """
    traits = current_device().traits
    while widest and not fits(kind, a.shape[-2], widest, 0, a.dtype.itemsize, traits):
        widest //= 2
    if not widest:
        raise ShapeError(f"linalg.{kind}: no column of {a.shape[-2:]} fits local memory")
    return widest


def panel(a: Any, k: int, stop: int) -> Any:
    """Returns columns from row k on, above zeros: each height is a kernel, so there are few."""
    m, rows = a.shape[-2], a.shape[-2] - k
    height = min(-(-rows // _ROWS) * _ROWS, m)
    made = zeros((*a.shape[:-2], height, stop - k), a.dtype)
    made[..., :rows, :] = a[..., k:, k:stop]
    return made


def by_blocks(a: Any) -> bool:
    """Whether blocks take a spectrum: LAPACK is faster where memory is shared, and in no trace."""
    apart = active.now is not None or not current_device().traits.is_cpu
    return apart and max(a.shape[-2:]) <= MOST


def on_host(what: str, compute: Callable[..., Any], *arrays: Any, why: str = "") -> Any:
    """Computes with NumPy, which is said once for every operator.

    Raises:
        SingularError: NumPy cannot.
    """
    if what not in _warned:
        _warned.add(what)
        shape = arrays[0].shape[-2:]
        why = why or f"matrices of {shape[0]} × {shape[1]} are too large for a kernel"
        _, level = caller()
        warnings.warn(f"{what}: {why}: NumPy computes them on the host", stacklevel=level)
    try:
        found = compute(*(a.get() for a in arrays))
    except np.linalg.LinAlgError as error:
        raise SingularError(f"{what}: {error}") from None
    return tuple(map(asarray, found)) if isinstance(found, tuple) else asarray(found)


def checked(what: str, info: Any, problem: str) -> None:
    """Reads on the host whether all went well; a trace cannot.

    Raises:
        SingularError: It did not.
    """
    if active.now is not None or not info.size:
        return
    found = info.get().reshape(-1)
    if found.any():
        at = int(np.flatnonzero(found)[0])
        where = f", first number {at} of {found.size}" if found.size > 1 else ""
        raise SingularError(f"{what}: {problem}{where}")


def zero_info(a: Any) -> Array:
    """Returns what says that all went well."""
    return zeros(a.shape[:-2], np.int32)


def with_gradient(wrt: str, gradient: Callable[[Any], Any], grads: int = 1) -> Callable[..., Any]:
    """Gives a function a gradient, which is told its arguments, results and their gradients."""
    rule = Rule(wrt, gradient, grads=grads, known=True)
    return lambda function: differentiable(function, rule, _no_epilogue)


def _no_epilogue(*_: Any) -> Any:
    raise AssertionError("no operator of linear algebra has an epilogue")
