"""Shapes: views where there is one, joined and repeated arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import as_shape
from clprim.arrays.memory import operand_of
from clprim.dtypes import NO_ARRAY, is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import whole
from clprim.plan.strides import (
    broadcast_strides,
    broadcasts_to,
    elements_of,
    normalize_axes,
    normalize_axis,
)


def reshape(x: Array, /, shape: Any, *, copy: bool | None = None) -> Array:
    """Returns the elements in another shape: a view of a C-contiguous array, else of a copy."""
    found = x.reshape(shape)
    shared = found.base_data is x.base_data
    if copy is False and not shared:
        raise ShapeError(f"reshape(copy=False): strides {x.strides} have no view of shape {shape}")
    return found.copy() if copy and shared else found


def ravel(x: Array, /) -> Array:
    """Returns all elements in one dimension, in C order."""
    return x.ravel()


def transpose(x: Array, /, axes: Sequence[int] | None = None) -> Array:
    """Returns a view with permuted axes; all reversed by default."""
    return x.transpose() if axes is None else x.transpose(*axes)


def permute_dims(x: Array, /, axes: Sequence[int]) -> Array:
    """Returns a view with permuted axes."""
    return x.transpose(*axes)


def matrix_transpose(x: Array, /) -> Array:
    """Returns a view with the last two axes swapped."""
    return x.mT


def swapaxes(x: Array, /, axis1: int, axis2: int) -> Array:
    """Returns a view with two axes swapped."""
    a, b = (normalize_axis("swapaxes", axis, x.ndim) for axis in (axis1, axis2))
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return x.transpose(*order)


def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """Returns a view with axes moved to other places; the others keep their order."""
    what = "moveaxis"
    pairs = [_integers(what, "source", source), _integers(what, "destination", destination)]
    old, new = ([normalize_axes(what, a, x.ndim)[0] for a in axes] for axes in pairs)
    if len(old) != len(new) or len({*old}) != len(old) or len({*new}) != len(new):
        moved = f"{quoted(source)} to {quoted(destination)}"
        raise ShapeError(f"moveaxis: {moved}: expected as many, each once")
    order = [d for d in range(x.ndim) if d not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return x.transpose(*order)


def expand_dims(x: Array, /, axis: Any = 0) -> Array:
    """Returns a view with axes of size 1 added, at their places in the result."""
    wanted = _integers("expand_dims", "axis", axis)
    at = normalize_axes("expand_dims", wanted, x.ndim + len(wanted))
    return x[tuple(None if d in at else slice(None) for d in range(x.ndim + len(wanted)))]


def squeeze(x: Array, /, axis: Any = None) -> Array:
    """Returns a view without axes of size 1: all of them, or those named.

    Raises:
        ShapeError: A named one has another size.
    """
    if axis is None:
        at = tuple(d for d, n in enumerate(x.shape) if n == 1)
    else:
        at = normalize_axes("squeeze", axis, x.ndim)
    for d in at:
        if x.shape[d] != 1:
            raise ShapeError(f"squeeze: axis {d} of shape {x.shape} has not size 1")
    return x[tuple(0 if d in at else slice(None) for d in range(x.ndim))]


def broadcast_to(x: Array, /, shape: Any) -> Array:
    """Returns a view of a larger shape, in which elements repeat; do not write to it.

    Raises:
        ShapeError: The array does not broadcast to it.
    """
    dtype_of("broadcast_to", "x", x)
    wanted = as_shape(shape)
    if not broadcasts_to(x.shape, wanted):
        raise ShapeError(f"broadcast_to: shape {x.shape} does not broadcast to {wanted}")
    steps = broadcast_strides(operand_of(x), wanted)
    return view_of(x, wanted, tuple(n * x.dtype.itemsize for n in steps), x.offset)


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Returns views of the shape that all of some arrays broadcast to."""
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return [broadcast_to(a, shape) for a in arrays]


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Returns the shape that arrays of some shapes broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except NO_ARRAY as error:
        raise ShapeError(f"broadcast_shapes: {error}") from None


def atleast_1d(x: Array, /) -> Array:
    """Returns the array, one without dimensions as one of one."""
    return x if x.ndim else x.reshape(1)


def atleast_2d(x: Array, /) -> Array:
    """Returns the array, a line as a row."""
    return x if x.ndim >= 2 else atleast_1d(x)[None]


# --- joined and taken apart ----------------------------------------------------------------------


def concatenate(arrays: Sequence[Array], /, axis: int | None = 0, *, out: Any = None) -> Array:
    """Returns arrays one behind the other along ``axis``; None takes each as flat."""
    if axis is None:
        return ops.cat([a.reshape(-1) for a in arrays], 0, out=out)
    return ops.cat(arrays, axis, out=out)


concat = concatenate


def vstack(arrays: Sequence[Array], /) -> Array:
    """Returns arrays below each other."""
    return concatenate([atleast_2d(a) for a in arrays], 0)


def hstack(arrays: Sequence[Array], /) -> Array:
    """Returns arrays beside each other."""
    lines = [atleast_1d(a) for a in arrays]
    return concatenate(lines, 0 if lines and lines[0].ndim == 1 else 1)


def split(x: Array, indices_or_sections: Any, /, axis: int = 0) -> list[Array]:
    """Returns pieces along ``axis``, as views: so many equal ones, or cut before some places.

    Raises:
        ShapeError: It has no so many equal pieces.
    """
    at = normalize_axis("split", axis, x.ndim)
    n = x.shape[at]
    if is_integer(indices_or_sections):
        count = int(indices_or_sections)
        if count < 1 or n % count:
            given = quoted(count)
            raise ShapeError(f"split: axis {at} of shape {x.shape} has no {given} equal pieces")
        cuts = [n // count * k for k in range(1, count)]
    else:
        cuts = _integers("split", "indices_or_sections", indices_or_sections)
    bounds = zip([0, *cuts], [*cuts, n], strict=True)
    before = (slice(None),) * at
    pieces = [(*before, slice(a, b)) for a, b in bounds]
    return [x[piece] for piece in pieces]


def repeat(x: Array, /, repeats: Any, axis: int | None = None) -> Array:
    """Returns each element several times, one after the other, along ``axis``.

    Args:
        x: A device array.
        repeats: How many times: a number, or an array of one for each element.
        axis: Along which axis; None takes x as flat.
    """
    if is_integer(repeats):
        return ops.repeat_interleave(x, int(repeats), axis)
    counts = repeats if isinstance(repeats, Array) else x.namespace.asarray(repeats)
    return ops.repeat_interleave(x, atleast_1d(counts), axis)


def flip(x: Array, /, axis: Any = None) -> Array:
    """Returns a view with axes backwards: all, or those named."""
    at = normalize_axes("flip", axis, x.ndim)
    return x[tuple(slice(None, None, -1 if d in at else 1) for d in range(x.ndim))]


def flipud(x: Array, /) -> Array:
    """Returns a view with the first axis backwards."""
    return flip(x, 0)


def fliplr(x: Array, /) -> Array:
    """Returns a view with the second axis backwards."""
    return flip(x, 1)


def roll(x: Array, /, shift: Any, axis: Any = None) -> Array:
    """Returns elements moved on along axes; those that leave at the end enter at the start."""
    steps, axes = elements_of(shift), elements_of(axis)
    if steps is not None and is_integer(axis):
        axis = (axis,) * len(steps)
    elif is_integer(shift) and axes is not None:
        shift = (shift,) * len(axes)
    return ops.roll(x, shift, axis)


def pad(x: Array, pad_width: Any, mode: str = "constant", *, constant_values: float = 0) -> Array:
    """Returns an array with a border.

    Args:
        x: A device array.
        pad_width: Elements before and after: a number, a pair, or a pair for each axis.
        mode: ``"constant"``, ``"edge"``, ``"reflect"``, ``"symmetric"`` or ``"wrap"``.
        constant_values: Of a constant border.
    """
    try:
        pairs = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    except NO_ARRAY:
        raise ShapeError(
            f"pad: pad_width={quoted(pad_width)}: expected a number, a pair, or {x.ndim} pairs"
        ) from None
    turned = [n for pair in reversed(pairs) for n in pair]
    named = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    return ops.pad(x, turned, named, constant_values if named == "constant" else None)


def _integers(what: str, label: str, value: Any) -> list[int]:
    """Returns one integer, or several, as a list."""
    several = None if is_integer(value) else elements_of(value)
    return [whole(what, label, n) for n in ((value,) if several is None else several)]
