"""What normalisations over the last dimensions share: rows, and one kernel for all of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType
from clprim.errors import ShapeError
from clprim.grouped import GroupedMap
from clprim.ops.norm.arguments import allocate_like, check_floats
from clprim.ops.norm.moments import origins_of, statistics_dtype

__all__ = ["check_rows", "near_rows", "row_count", "row_shape"]


def check_rows(
    what: str, x: Any, normalized_shape: int | Sequence[int], parameters: dict[str, Any]
) -> tuple[AnyDType, tuple[int, ...]]:
    """Checks x and what there is one of an element; returns the dtype and the last axes."""
    dtype = check_floats(what, "x", x)
    try:
        shape = (
            (int(normalized_shape),)
            if isinstance(normalized_shape, int | np.integer)
            else tuple(int(s) for s in normalized_shape)
        )
    except (TypeError, ValueError):
        raise ShapeError(
            f"{what}: normalized_shape={normalized_shape!r}; expected an integer or several"
        ) from None
    if not shape or x.shape[len(x.shape) - len(shape) :] != shape or len(shape) > len(x.shape):
        raise ShapeError(
            f"{what}: x has shape {x.shape}, expected its last dimensions to be "
            f"normalized_shape={shape}"
        )
    for label, array in parameters.items():
        if array is None:
            continue
        check_floats(what, label, array)
        if array.shape != shape:
            raise ShapeError(
                f"{what}: {label} has shape {array.shape}, expected normalized_shape={shape}"
            )
    return dtype, tuple(range(len(x.shape) - len(shape), len(x.shape)))


def row_shape(x: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of one value a row."""
    return tuple(1 if d in axes else size for d, size in enumerate(x.shape))


def row_count(x: Any, axes: tuple[int, ...]) -> int:
    """Elements of a row."""
    return math.prod(x.shape[d] for d in axes)


def near_rows(
    operator: GroupedMap,
    x: Any,
    moving: Sequence[Any],
    still: Sequence[Any],
    extra: Sequence[Any],
    numbers: Sequence[float],
    axes: tuple[int, ...],
    out: Any,
    kept: Sequence[bool],
) -> tuple[Array, ...] | None:
    """Maps rows of x in one kernel, or returns None where a near cache holds none.

    Returned are the result, which goes to ``out`` or to a new array like x, and those values of a
    row that are to be kept. The others are those of `GroupedMap`.
    """
    kind = statistics_dtype(x.dtype)
    if out is None:
        out = allocate_like(x, x.dtype)
    like = origins_of(x, axes, kind)[0]
    values = [allocate_like(like, kind) if wanted else None for wanted in kept]
    done = operator(moving, still, extra, numbers, axes=axes, out=out, kept=values)
    return (out, *(v for v in values if v is not None)) if done else None
