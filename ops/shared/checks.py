"""What the operators' files share: which dtype a call computes in, and checks of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.arrays.array import Array
from clprim.arrays.validation import complex_ones
from clprim.dtypes import AnyDType, is_real
from clprim.errors import ComplexError, DTypeError, ShapeError, quoted, upload_hint
from clprim.plan.strides import Operand

Axis = int | Sequence[int] | None
# A `Pointwise` or `Reduction` of one result, or a choice between some.
Operator = Callable[..., Array]


class ByKind:
    """Operators as one: for arrays of which any is of floats, for integers and bool, for pairs."""

    def __init__(
        self,
        floats: Callable[..., Any],
        others: Callable[..., Any],
        complexes: Callable[..., Any] | None,
    ) -> None:
        self.floats = floats
        self.others = others
        self.complexes = complexes or floats

    def __call__(self, x: Any, *args: Any, **options: Any) -> Any:
        """Computes with the one that the arrays want: NumPy promotes integers beside floats."""
        kind = x.dtype.kind if is_array(x) else "f"
        if kind == "c":
            return self.complexes(x, *args, **options)
        whole = kind in "biu"
        for other in args if whole else ():
            whole = whole and not (is_array(other) and other.dtype.kind not in "biu")
        return (self.others if whole else self.floats)(x, *args, **options)


def by_kind(
    floats: Callable[..., Any],
    others: Callable[..., Any],
    complexes: Callable[..., Any] | None = None,
) -> ByKind:
    """Joins operators: for arrays of which any is of floats, for integers and bool, for complex."""
    return ByKind(floats, others, complexes)


def is_array(value: object) -> bool:
    """Whether ``value`` is an array on a device."""
    return isinstance(value, cl_array.Array)


def operand(what: str, value: Any) -> Any:
    """Returns an array as it is, or a number; NumPy's keep their dtype."""
    if is_array(value):
        return value
    plain = number(what, "an operand that is no device array", value, complexes=True)
    return value if isinstance(value, np.generic) else plain


def check_real(what: str, *operands: Any) -> None:
    """Refuses complex numbers, and arrays of them."""
    found = next(complex_ones({"operands": operands}), None)
    if found is not None:
        raise ComplexError(f"{what}: expected real numbers, got {found[1]}")


def conjugate(x: Any) -> Any:
    """Returns the conjugates of complex numbers, and an array of real ones as it is."""
    return x.conj() if x.dtype.kind == "c" else x


def check_mask(what: str, mask: Any, names: Sequence[str]) -> tuple[bool, ...]:
    """Returns which gradients are wanted."""
    if not isinstance(mask, tuple | list) or len(mask) != len(names):
        raise ShapeError(
            f"{what}: output_mask={quoted(mask)}; expected True or False for each of "
            f"{', '.join(names)}"
        )
    return tuple(bool(wanted) for wanted in mask)


def dtype_of(what: str, label: str, array: Any) -> Any:
    """Returns the dtype of a device array."""
    if is_array(array) or isinstance(array, Operand):
        return array.dtype
    raise DTypeError(
        f"{what}: expected a device array for {label}, got {type(array).__name__}"
        + upload_hint(array)
    )


def check_shape(what: str, label: str, array: Any, shape: tuple[int, ...]) -> None:
    """Refuses what is no device array of a shape."""
    dtype_of(what, label, array)
    if array.shape != shape:
        raise ShapeError(f"{what}: {label} has shape {array.shape}, expected {shape}")


def check_dtype(what: str, label: str, array: Any, dtype: AnyDType, of: str = "input") -> None:
    """Refuses what is no device array of the dtype of another one."""
    found = dtype_of(what, label, array)
    if found != dtype:
        raise DTypeError(f"{what}: {label} is {found}, {of} {dtype}")


def check_floating(what: str, label: str, array: Any, *, complexes: bool = False) -> AnyDType:
    """Returns the dtype of a device array of floating numbers, or of complex ones as well."""
    dtype: AnyDType = dtype_of(what, label, array)
    if dtype.kind in "biu":
        raise DTypeError(f"{what}: {label} is {dtype}, expected a floating dtype")
    if dtype.kind == "c" and not complexes:
        raise ComplexError(f"{what}: {label} is {dtype}, expected real numbers")
    return dtype


def check_given(what: str, label: str, grad: Any, shape: tuple[int, ...], dtype: AnyDType) -> None:
    """Refuses a gradient that is not None and not of the shape and dtype of its result."""
    if grad is not None and (dtype_of(what, label, grad), grad.shape) != (dtype, shape):
        raise ShapeError(
            f"{what}: {label} has shape {grad.shape} of {grad.dtype}, expected {shape} of {dtype}"
        )


def number(what: str, label: str, value: Any, *, complexes: bool = False) -> Any:
    """Returns a parameter as Python's own number, which adapts to the arrays' dtype."""
    if is_real(value) or (complexes and isinstance(value, complex | np.complexfloating)):
        return value.item() if isinstance(value, np.generic) else value
    raise DTypeError(f"{what}: expected a number for {label}, got {type(value).__name__}")


def real(what: str, label: str, value: Any) -> float:
    """Returns a parameter as a Python float."""
    try:
        return float(number(what, label, value))
    except OverflowError:
        raise DTypeError(f"{what}: {label}={quoted(value)} is out of bounds for a float") from None


def fits(numbers: Sequence[int], least: int) -> bool:
    """Whether all numbers are such as kernels count with, and none is below ``least``."""
    return not numbers or (least <= min(numbers) and max(numbers) < 2**31)
