"""What a gradient is called with: dtypes and shapes, checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim import dtypes
from clprim.call.arguments import check_array, check_arrays
from clprim.call.scalars import scalar_dtypes, split_arguments
from clprim.errors import ComplexError, DefinitionError, DTypeError, ShapeError, quoted
from clprim.language.gradient.by_hand import HandWritten
from clprim.plan.strides import elements_of
from clprim.runtime.device import Device

_NUMBERS = (int, float, np.number, np.bool_)
_PAIRS = (complex, np.complexfloating)


def is_floating(dtype: Any) -> bool:
    """Whether a dtype is one of real numbers that have gradients."""
    return bool(dtype.kind == "f" or dtype.name == "bfloat16")


def not_derived(what: str) -> ComplexError:
    """An error of a gradient that is one of real numbers."""
    return ComplexError(f"{what}: no gradients of complex numbers are derived")


def is_smooth(dtype: Any) -> bool:
    """Whether arrays of a dtype have gradients, real or complex."""
    return is_floating(dtype) or bool(dtype.kind == "c")


@dataclass(frozen=True)
class Given:
    """Arguments of a call."""

    arrays: tuple[Any, ...]
    scalars: tuple[Any, ...]
    grads: tuple[Any, ...]
    real: str
    ctypes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Standing:
    """Stands for an array that a stage of a gradient will make."""

    shape: tuple[int, ...]
    dtype: Any


def is_array(value: object) -> bool:
    """Whether a value is an array on a device, or stands for one."""
    return isinstance(value, cl_array.Array | Standing)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Several values as they are, one as a tuple of it."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def asked_of(by_hand: HandWritten | None, arrays: Sequence[str]) -> tuple[str, ...]:
    """Of these arrays, those that gradients are of where none are named."""
    given = None if by_hand is None else by_hand.gradients
    return tuple(name for name in arrays if given is None or f"g{name}" in given)


def kind_of(grad: object) -> str:
    """What a gradient of a result was given as: ``array``, ``number`` or ``none``."""
    return "none" if grad is None else "array" if is_array(grad) else "number"


def read_arguments(
    what: str,
    args: tuple[Any, ...],
    counts: tuple[int, int, int],
    grad: Any,
    device: Device,
    others: Sequence[Any] = (),
    *,
    paired: bool = False,
) -> Given:
    """Checks what a gradient was called with."""
    inputs, numbers, results = counts
    arrays, scalars = map(tuple, split_arguments(what, args, inputs, numbers))
    check_arrays(what, arrays, (), device)
    grads = as_tuple(grad)
    if len(grads) != results:
        raise ShapeError(
            f"{what}: grad= holds {len(grads)} gradient{'s' if len(grads) != 1 else ''}, expected "
            f"{results}, one for each result (None where it is 0)"
        )
    if all(g is None for g in grads):
        raise ShapeError(f"{what}: grad= is missing: the gradient of the result")
    for n, g in enumerate(grads):
        if g is None or (isinstance(g, _NUMBERS) and not isinstance(g, bool)):
            continue
        check_array(what, f"grad= of y{n}", g, device)
        if not is_smooth(g.dtype):
            raise DTypeError(f"{what}: grad= of y{n} is {g.dtype}, expected a floating dtype")
    array_dtypes = [a.dtype for a in arrays]
    complex_given = any(d.kind == "c" for d in array_dtypes)
    if not paired and (complex_given or any(isinstance(w, _PAIRS) for w in scalars)):
        raise not_derived(what)
    scalar_types = scalar_dtypes(what, scalars, array_dtypes)
    wide = (np.float64, np.complex128)
    for n, w in enumerate(scalars):
        if isinstance(w, (float, complex)) and not isinstance(w, np.generic):
            part = np.dtype(np.float64 if any(d in wide for d in array_dtypes) else np.float32)
            scalar_types[n] = part if isinstance(w, float) else dtypes.complex_dtype(part)
    everything = [
        *array_dtypes,
        *scalar_types,
        *(a.dtype for a in (*grads, *others) if is_array(a)),
    ]
    real = "double" if any(d in wide for d in everything) else "float"
    values = [
        dtypes.stored_type(dtypes.value_dtype(d, everything)).value
        for d in (*array_dtypes, *scalar_types)
    ]
    names = [f"x{n}" for n in range(inputs)] + [f"w{n}" for n in range(numbers)]
    return Given(arrays, scalars, grads, real, tuple(zip(names, values, strict=True)))


def given_names(value: Any) -> tuple[Any, ...]:
    """Returns one name, or several, as a tuple; of what it holds nothing is known."""
    several = elements_of(value)
    return (value,) if several is None else several


def as_names(what: str, wrt: Any, inputs: int, scalars: int) -> tuple[str, ...] | None:
    """Returns ``wrt=`` as names, or None where it is left out."""
    if wrt is None:
        return None
    names = given_names(wrt)
    known = [f"x{n}" for n in range(inputs)] + [f"w{n}" for n in range(scalars)]
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise DefinitionError(
                f"{what}: wrt={quoted(wrt)} names {quoted(name)}; there are {known}"
            )
    if not names or len({*names}) < len(names):
        raise DefinitionError(f"{what}: wrt={quoted(wrt)}, expected each of some names once")
    return names


def sum_axes(shape: Sequence[int], whole: Sequence[int]) -> tuple[int, ...]:
    """Returns the axes of a broadcast shape along which an array is repeated."""
    ahead = len(whole) - len(shape)
    return tuple(
        d for d, size in enumerate(whole) if size != 1 and (d < ahead or shape[d - ahead] == 1)
    )
