"""What `Pointwise` and `Reduction` share in a call: its signature, dtypes and memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
from pyopencl.tools import PooledBuffer

from clprim import dtypes
from clprim.arrays.array import Array, new_array
from clprim.call.arguments import join, memory_relation
from clprim.dtypes import AnyDType
from clprim.errors import DeviceError, DTypeError, ShapeError
from clprim.language.snippet import Snippet
from clprim.runtime.device import Device

__all__ = [
    "Described",
    "allocate",
    "allocate_workspace",
    "look_up",
    "remember",
    "scalar_dtypes",
    "shorten",
    "split_arguments",
    "texts",
    "weaken",
]

# A result to be allocated: shape, dtype, strides in bytes, number of elements.
Described = tuple[tuple[int, ...], AnyDType, tuple[int, ...], int]

# Signatures an operator remembers; a program that never repeats a shape must not grow for ever.
MAX_CALLS = 1024


def look_up(
    calls: dict[Any, Any],
    device: Device,
    arrays: Sequence[Any],
    outs: Sequence[Any],
    scalars: Sequence[Any],
    options: Hashable = None,
) -> tuple[Any, Hashable | None]:
    """Returns the planned call of the same signature, or None, and the signature.

    The signature is everything that decides what a call does, but for buffers and numbers. Two
    calls of equal signature pass the same checks, so the second one needs none. A call that is to
    be looked at closely has none: an array of another context, something that is no array, an
    unhashable option.

    This is the hot path: what a repeated call costs, but for the launch, is spent here.
    """
    context, queue = device.context, device.queue
    found: list[Any] = [device.index, len(arrays), options]
    try:
        for a in arrays:
            if a.context is not context and a.context != context:
                return None, None
            if a.queue is not queue:
                join(a, device)
            found += (a.shape, a.strides, a.dtype, a.offset)
        for o in outs:
            if o.context is not context and o.context != context:
                return None, None
            if o.queue is not queue:
                join(o, device)
            found += (o.shape, o.strides, o.dtype, o.offset)
            memory = o.base_data
            for a in arrays:
                # Memory of the pool is either the same or apart; anything else is asked.
                other = a.base_data
                found.append(
                    other is memory
                    or (type(other) is not PooledBuffer and memory_relation(memory, other))
                )
        if len(outs) > 1:
            found += [memory_relation(a.base_data, b.base_data) for a in outs for b in outs]
        found += map(type, scalars)
        signature = tuple(found)
        return calls.get(signature), signature
    except (AttributeError, TypeError):
        return None, None


def remember(calls: dict[Any, Any], signature: Hashable | None, call: object) -> None:
    """Keeps a planned call for the next one of the same signature."""
    if signature is None:
        return
    if len(calls) >= MAX_CALLS:
        calls.clear()
    calls[signature] = call


def allocate(device: Device, results: Sequence[Described]) -> tuple[Array, ...]:
    """Allocates the results of a call.

    Raises:
        DeviceError: Not enough memory.
    """
    return tuple([new_array(device, *described) for described in results])


def allocate_workspace(device: Device, buffers: Sequence[tuple[int, AnyDType]]) -> list[Any]:
    """Allocates buffers of so many elements, which the pool gets back when they are dropped.

    Raises:
        DeviceError: Not enough memory.
    """
    try:
        return [device.pool.allocate(elements * dtype.itemsize) for elements, dtype in buffers]
    except (cl.Error, MemoryError) as error:
        total = sum(elements * dtype.itemsize for elements, dtype in buffers)
        raise DeviceError(f"{device} cannot allocate {total:,} bytes of workspace") from error


def split_arguments(
    what: str, args: tuple[Any, ...], arrays: int, scalars: int
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Splits positional arguments into arrays and scalars.

    Raises:
        ShapeError: Not as many as the snippets name.
    """
    if len(args) != arrays + scalars:
        expected = [f"x{n}" for n in range(arrays)] + [f"w{n}" for n in range(scalars)]
        raise ShapeError(
            f"{what}: expected {len(expected)} argument{'s' if len(expected) != 1 else ''} "
            f"({', '.join(expected)}), got {len(args)}"
        )
    return args[:arrays], args[arrays:]


def scalar_dtypes(what: str, scalars: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """Returns the dtypes in which run-time scalars take part, beside arrays of these dtypes.

    Raises:
        DTypeError: Not a number, or one that the arrays' dtype cannot hold.
    """
    common = dtypes.promote(arrays) if arrays else None
    try:
        return [dtypes.scalar_dtype(w, common) for w in scalars]
    except DTypeError as error:
        raise DTypeError(f"{what}: {error}") from None


def weaken(
    scalars: Sequence[Any],
    types: Sequence[Any],
    arrays: Sequence[Any],
    results: Sequence[Any],
    fp64: bool,
) -> list[Any]:
    """Lets a Python float be a float32 where it alone would bring float64 into a call.

    It stays a float64, if the device has that, where whole results depend on it beside integers
    that a float32 cannot tell apart, as in ``int32_array > 0.5``.

    Args:
        scalars: The run-time scalars.
        types: Their dtypes so far.
        arrays: dtypes of all arrays that are read.
        results: dtypes of results and partials.
        fp64: Whether the device calculates in float64.
    """
    has_double = any(d == np.float64 for d in (*arrays, *results))
    wide = any(d.kind in "iu" and d.itemsize > 2 for d in arrays)
    whole = all(d.kind in "biu" for d in results)
    if has_double or (fp64 and wide and whole):
        return list(types)
    return [
        np.dtype(np.float32) if isinstance(w, float) and not isinstance(w, np.generic) else t
        for w, t in zip(scalars, types, strict=True)
    ]


def texts(snippets: Iterable[Snippet], preamble: str) -> dict[str, str]:
    """Returns the user's text of every part, for the compiler's complaints."""
    return {**{s.rules.part: s.text for s in snippets}, "preamble": preamble}


def shorten(text: str) -> str:
    """Returns a snippet on one line of at most 60 characters, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "..."
