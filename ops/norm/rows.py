"""What normalisations over the last dimensions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from clprim.dtypes import AnyDType, is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.norm.arguments import check_floats


def check_rows(
    what: str, x: Any, normalized_shape: int | Sequence[int], parameters: dict[str, Any]
) -> tuple[AnyDType, tuple[int, ...]]:
    """Checks x and the parameters of a row's elements; returns the dtype and the last axes."""
    dtype = check_floats(what, "x", x)
    try:
        shape = (
            (int(normalized_shape),)
            if is_integer(normalized_shape)
            else tuple(int(s) for s in cast("Sequence[int]", normalized_shape))
        )
    except (TypeError, ValueError):
        raise ShapeError(
            f"{what}: normalized_shape={quoted(normalized_shape)}; expected an integer or several"
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
