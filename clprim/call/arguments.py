"""Checks the arrays of a call before anything is planned or written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.arrays.memory import operand_of
from clprim.dtypes import as_dtype, is_integer, stored_type
from clprim.errors import (
    DefinitionError,
    DeviceError,
    DTypeError,
    OverlapError,
    ShapeError,
    quoted,
    upload_hint,
)
from clprim.plan.strides import Operand, elements_of, overlaps_itself, shares_memory
from clprim.runtime.device import Device

Array = cl_array.Array


def check_array(what: str, label: str, array: object, device: Any) -> None:
    """Refuses what is no array, or one of another context."""
    if isinstance(array, Operand):
        return  # its array was looked at
    if not isinstance(array, cl_array.Array):
        raise DTypeError(
            f"{what}: expected a device array for {label}, got {type(array).__name__}"
            + upload_hint(array)
        )
    try:
        stored_type(array.dtype)
    except DTypeError as error:
        raise DTypeError(f"{what}: {label}: {error}") from None
    if array.context != device.context:
        raise DeviceError(
            f"{what}: {label} of shape {array.shape} lives on another OpenCL context than the "
            f"current device, {device}; choose its device with set_device() or upload it again"
        )


def check_arrays(
    what: str, inputs: Sequence[object], outs: Sequence[object], device: Device
) -> None:
    """Refuses inputs ``x0``, … and results ``y0``, … as `check_array` does."""
    for n, array in enumerate(inputs):
        check_array(what, f"x{n}", array, device)
    for n, array in enumerate(outs):
        check_array(what, f"out= of y{n}", array, device)


def as_results(what: str, out: object, results: int) -> tuple[Array, ...]:
    """Returns ``out=`` as a tuple: an array for one result, a tuple for several."""
    given = tuple(out) if isinstance(out, tuple | list) else (out,)
    if len(given) != results:
        raise ShapeError(
            f"{what}: out= holds {len(given)} array{'s' if len(given) != 1 else ''}, "
            f"expected {results}"
        )
    return given


def as_shape(what: str, shape: object) -> tuple[int, ...]:
    """Returns ``shape=`` as a tuple of Python's integers."""
    sizes = elements_of(shape)
    if sizes is None or not all(is_integer(n) and n >= 0 for n in sizes):
        raise ShapeError(f"{what}: shape={quoted(shape)}: expected a tuple of sizes")
    return tuple(map(int, sizes))


def check_out(what: str, n: int, out: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuses a result array of another shape, or of a dtype that would lose the kind of values."""
    if out.shape != shape:
        raise ShapeError(f"{what}: out= for y{n} has shape {out.shape}, expected {shape}")
    if overlaps_itself(operand_of(out)):
        raise ShapeError(
            f"{what}: out= for y{n} has several elements in one place "
            f"(shape {out.shape}, strides {out.strides})"
        )
    given, wanted = (
        d if d.name != "bfloat16" else np.dtype(np.float16) for d in (dtype, out.dtype)
    )
    if not np.can_cast(given, wanted, "same_kind"):
        raise DTypeError(
            f"{what}: y{n} is {dtype}, which out= of {out.dtype} cannot hold; "
            "give result_type= to convert"
        )


def check_once(
    what: str,
    finalized: Collection[int],
    shapes: Sequence[tuple[int, ...]],
    ndim: int,
    axes: Sequence[int],
) -> None:
    """Refuses arrays that ``finalize`` reads but that change along the reduced axes."""
    for n in sorted(finalized):
        spread = (1,) * (ndim - len(shapes[n])) + shapes[n]
        if any(spread[d] != 1 for d in axes):
            raise ShapeError(
                f"{what}: finalize reads x{n}, whose shape {shapes[n]} is more than one "
                f"value a group; expected size 1 along axis {tuple(axes)}"
            )


def check_aliases(
    what: str,
    outs: Sequence[Any],
    inputs: Sequence[Any],
    *,
    same_allowed: bool = True,
    elsewhere: Collection[int] = (),
) -> bool:
    """Refuses results that overlap an input in part, or another result at all.

    The same elements in the same places are fine: every element is read before it is written. That
    does not hold for inputs whose numbers are in ``elsewhere``, which are read at other places.
    Arrays are given, or operands.
    """
    in_place = False
    written, read = [operand_of(a) for a in outs], [operand_of(a) for a in inputs]
    for n, a in enumerate(written):
        for m, b in enumerate([*written[:n], *read]):
            if a.memory is None or b.memory is None or a.memory[0] != b.memory[0]:
                continue
            relation = a.memory[1], b.memory[1]
            same = (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
            same = same and a.offset + relation[0] == b.offset + relation[1]
            is_input = m >= n
            read_elsewhere = is_input and m - n in elsewhere
            if same and is_input and same_allowed and not read_elsewhere:
                in_place = True
                continue
            if _overlap(a, b, relation):
                label = f"x{m - n}" if is_input else f"y{m}"
                raise (OverlapError if is_input else ShapeError)(
                    f"{what}: out= for y{n} (shape {a.shape}, strides {a.strides}) overlaps "
                    f"{label} (shape {b.shape}, strides {b.strides}); "
                    + (
                        "it is read at other coordinates than are written"
                        if read_elsewhere or (is_input and not same_allowed)
                        else "only the very same elements may be shared"
                        if is_input
                        else "results must lie apart"
                    )
                )
    return in_place


def _overlap(a: Operand, b: Operand, relation: tuple[int, int]) -> bool:
    return shares_memory(
        replace(a, offset=a.offset + relation[0]), replace(b, offset=b.offset + relation[1])
    )


def result_dtypes(what: str, result_type: object, results: int) -> tuple[Any, ...] | None:
    """Returns ``result_type=`` as one dtype a result; a single one holds for all, None stays."""
    if result_type is None:
        return None
    if not isinstance(result_type, tuple | list):
        return (as_dtype(result_type),) * results
    if len(result_type) != results:
        raise DefinitionError(
            f"{what}: result_type= names {len(result_type)} dtypes for {results} results"
        )
    return tuple(as_dtype(d) for d in result_type)


def check_side(what: str, axis: Any) -> None:
    """Refuses an axis of pairs that is neither columns nor rows."""
    if not is_integer(axis) or axis not in (-1, -2):
        raise ShapeError(f"{what}: axis={quoted(axis)}: expected -1 (columns) or -2 (rows)")
