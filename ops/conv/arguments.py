"""Checks of what users give to convolutions, and the problem that it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.arrays.memory import operand_of
from clprim.call.primitive import Target
from clprim.dtypes import AnyDType, is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.conv.windows import Padding, Pair, Windows, windows
from clprim.ops.product.arguments import check_bias
from clprim.plan.conv.pixels import Shuffle
from clprim.plan.epilogue import Epilogue, Read
from clprim.plan.place import Place
from clprim.plan.strides import Operand, dense_strides

Shape4 = tuple[int, ...]  # of 4 sizes


def batched(array: Any) -> Any:
    """One image as a batch of one; what is no array is left to be refused by who knows its name."""
    if not hasattr(array, "strides") or not hasattr(array, "base_data"):
        return array
    # Where nothing is repeated any stride would do: that of an image that follows.
    step = max((n * s for n, s in zip(array.shape, array.strides, strict=True)), default=0)
    return view_of(array, (1, *array.shape), (step, *array.strides), array.offset)


def unbatched(array: Any) -> Array:
    """The only image of a batch."""
    return view_of(array, array.shape[1:], array.strides[1:], array.offset)


def unbatched_gradient(shape: Any, grad: Any, rank: int) -> bool:
    """Whether a shape that a user gave, and a gradient, leave out the batch."""
    return getattr(grad, "ndim", 0) == rank and isinstance(shape, Sequence) and len(shape) == rank


def check_groups(what: str, groups: Any) -> None:
    """Raises unless ``groups`` is an integer of at least 1."""
    if not is_integer(groups) or groups < 1:
        raise ShapeError(f"{what}: groups={quoted(groups)}: expected a whole number of at least 1")


def check_rank(what: str, label: str, shape: Sequence[int], rank: int = 4) -> None:
    """Refuses a shape that has not so many dimensions."""
    if len(shape) != rank:
        raise ShapeError(f"{what}: {label} has shape {tuple(shape)}, expected {rank} dimensions")


def given_shape(what: str, label: str, shape: Any, rank: int = 4) -> tuple[int, ...]:
    """Returns a shape of so many sizes that a user gave."""
    try:
        found = tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        found = ()
    if len(found) != rank or min(found) < 0:
        raise ShapeError(f"{what}: {label}={quoted(shape)}: expected {rank} sizes of at least 0")
    return found


def check_shapes(
    what: str, x: Sequence[int], w: Sequence[int], groups: Any, rank: int = 4
) -> tuple[int, int]:
    """Returns outputs in all and inputs of a group, of shapes that fit."""
    check_rank(what, "x", x, rank)
    check_rank(what, "w", w, rank)
    check_groups(what, groups)
    if x[1] % groups or w[0] % groups:
        raise ShapeError(
            f"{what}: {x[1]} channels of x (shape {tuple(x)}) and {w[0]} outputs of w (shape "
            f"{tuple(w)}) do not both divide into groups={groups}"
        )
    if x[1] // groups != w[1]:
        raise ShapeError(
            f"{what}: x of shape {tuple(x)} with groups={groups} needs a weight of shape "
            f"{(w[0], x[1] // groups, *w[2:])}, got {tuple(w)}"
        )
    return w[0], w[1]


def check_transposed(what: str, x: Sequence[int], w: Sequence[int], groups: int) -> None:
    """Refuses shapes that have no transposed convolution."""
    if x[1] != w[0] or x[1] % groups:
        raise ShapeError(
            f"{what}: x of shape {tuple(x)} and w of shape {tuple(w)} with groups={groups}: "
            "expected as many channels in x as outputs in w, a multiple of groups"
        )


def checked_windows(
    what: str,
    x: Shape4,
    w: Shape4,
    grad: Sequence[int],
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    groups: int,
    shuffle: Shuffle | None = None,
) -> Windows:
    """Returns the windows of a convolution whose result has the gradient ``grad``."""
    check_rank(what, "grad", grad)
    check_shapes(what, x, w, groups)
    found = windows(what, x[2:], w[2:], stride=stride, padding=padding, dilation=dilation)
    expected = (x[0], w[0], found.y.windows, found.x.windows)
    if shuffle is not None:
        expected = shuffle.result(expected)
    if tuple(grad) != expected:
        raise ShapeError(f"{what}: grad has shape {tuple(grad)}, expected {expected}")
    return found


def place_of(name: str, array: Any) -> Place:
    """Returns where an array of images, or a weight, lies."""
    return Place.of(name, operand_of(array), array.shape)


def bias_place(what: str, device: Target, bias: Any, shape: Shape4, value: AnyDType) -> list[Place]:
    """Returns the bias of sums of ``value`` as it broadcasts to a result; nothing for None."""
    if bias is None:
        return []
    check_bias(what, device, bias, value, shape[1])
    spread = Operand((shape[1], 1, 1), (bias.strides[0], 0, 0), bias.offset, bias.dtype)
    return [Place.of("bias", spread, shape)]


def placed(
    epilogue: Epilogue[Read], biases: Sequence[Place], shape: Shape4, beta: float = 0
) -> Epilogue[Place]:
    """Returns an epilogue of images: a bias before it if there is one, and ``beta``."""
    found = epilogue.placed(lambda read: Place.of(read.name, read.operand, shape))
    return replace(found, arrays=(*biases, *found.arrays), beta=bool(beta))


def result_of(
    name: str, out: Operand | None, shape: Shape4, dtype: AnyDType, order: Sequence[int]
) -> tuple[Place, Operand]:
    """Returns where the result lies: in ``out``, or in a new array."""
    found = out or Operand(shape, dense_strides(shape, dtype.itemsize, order), 0, dtype)
    return place_of(name, found), found
