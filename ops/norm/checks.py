"""What the normalisations ask of their arguments, and views of a value a channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from clprim.arrays.array import Array, view_of
from clprim.call.arguments import check_aliases, check_array, check_out
from clprim.dtypes import AnyDType, is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.shared.checks import check_floating, check_shape
from clprim.runtime.device import current_device


def check_floats(what: str, label: str, array: Any) -> AnyDType:
    """Returns the dtype of an array of floating-point numbers of this device."""
    dtype = check_floating(what, label, array)
    check_array(what, label, array, current_device())
    return dtype


def channels_of(what: str, x: Any) -> int:
    """Returns C of an array (N, C, …)."""
    if len(x.shape) < 2:
        raise ShapeError(
            f"{what}: x has shape {x.shape}, expected (N, C), (N, C, L), (N, C, H, W) or "
            "(N, C, D, H, W)"
        )
    channels: int = x.shape[1]
    return channels


def check_vector(what: str, label: str, array: Any, channels: int) -> None:
    """Raises unless the value is None or a floating-point array with one element per channel."""
    if array is None:
        return
    check_floats(what, label, array)
    if array.shape != (channels,):
        raise ShapeError(
            f"{what}: {label} has shape {array.shape}, expected ({channels},): one value a channel"
        )


def check_result(
    what: str, out: Any, shape: tuple[int, ...], dtype: AnyDType, inputs: Sequence[Any] = ()
) -> None:
    """Refuses ``out=`` of another shape or dtype, or where it overlaps an input in part."""
    check_array(what, "out=", out, current_device())
    check_out(what, 0, out, shape, dtype)
    check_aliases(what, (out,), inputs)


def channel_view(vector: Any, ndim: int) -> Array:
    """Returns a view of (C,) as (C, 1, …), which broadcasts over (N, C, …) of ``ndim`` axes."""
    ones = ndim - 2
    strides = vector.strides + (vector.dtype.itemsize,) * ones
    return view_of(vector, vector.shape + (1,) * ones, strides, vector.offset)


def check_gradient(what: str, grad: Any, x: Any) -> None:
    """Refuses a gradient of another shape than what it belongs to."""
    check_floats(what, "grad", grad)
    if grad.shape != x.shape:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected that of x, {x.shape}")


def check_statistics(what: str, shape: tuple[int, ...], **statistics: Any) -> None:
    """Refuses statistics of another shape; None stands for what is to be computed."""
    for label, array in statistics.items():
        if array is None:
            continue
        check_floats(what, label, array)
        check_shape(what, label, array, shape)


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
