"""Rows as images one pixel high, and what comes back."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import view_of
from clprim.call.packed import PackedWeight
from clprim.ops.conv.arguments import batched, check_rank, unbatched
from clprim.ops.product.arguments import check_operands
from clprim.ops.shared.arguments import is_array
from clprim.plan.conv.problem import Axis
from clprim.runtime.device import current_device

Pair = tuple[int, int]


def across(axis: Axis) -> tuple[Pair, tuple[int, int, int, int], Pair]:
    """Returns stride, padding and dilation of images one pixel high."""
    return (1, axis.stride), (0, 0, axis.before, axis.after), (1, axis.dilation)


def axes_of(single: bool) -> tuple[int, ...]:
    """Returns which axes of the images are those that the epilogue counts."""
    return (1, 3) if single else (0, 1, 3)


def as_images(array: Any) -> Any:
    """Returns an array of rows, or a weight for them, as one of images."""
    if isinstance(array, PackedWeight):
        return PackedWeight(as_images(array.array), array)
    if not hasattr(array, "strides") or not hasattr(array, "base_data"):
        return array  # who takes it says what is wrong with it
    shape, strides = list(array.shape), list(array.strides)
    shape.insert(-1, 1)
    strides.insert(-1, strides[-1] * shape[-1])
    return view_of(array, tuple(shape), tuple(strides), array.offset)


def all_as_images(args: Any) -> tuple[Any, ...]:
    """Returns what an epilogue reads: arrays of rows as such of images."""
    given = args if isinstance(args, tuple | list) else (args,)
    return tuple(as_images(a) if is_array(a) and a.ndim >= 2 else a for a in given)


def out_as_images(what: str, out: Any, single: bool) -> Any:
    """Returns ``out=``, if there is one, as an array of images."""
    if out is None:
        return None
    check_operands(what, current_device(), out=out)
    check_rank(what, "out=", out.shape, 2 if single else 3)
    return as_images(batched(out) if single else out)


def as_rows(y: Any, single: bool) -> Any:
    """The other way round, of a result."""
    y = view_of(y, (*y.shape[:2], y.shape[3]), (*y.strides[:2], y.strides[3]), y.offset)
    return unbatched(y) if single else y
