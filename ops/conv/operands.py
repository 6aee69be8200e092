"""Checks of what users give to convolutions, and the problem that it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from clprim.arrays.array import Array, view_of
from clprim.arrays.memory import operand_of
from clprim.call.packed import PackedWeight, matrix_of
from clprim.call.primitive import Target
from clprim.dtypes import AnyDType, is_integer
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.conv.settings import Settings
from clprim.ops.product.arguments import check_bias, check_operands
from clprim.ops.shared.checks import is_array
from clprim.ops.shared.epilogue import split_arguments
from clprim.ops.shared.ranks import rank_of
from clprim.ops.shared.window import axes
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.pixels import Shuffle
from clprim.plan.conv.problem import Axis
from clprim.plan.epilogue import Epilogue, Read
from clprim.plan.place import Place
from clprim.plan.strides import Operand, dense_strides
from clprim.runtime.device import current_device

Shape4 = tuple[int, ...]  # of 4 sizes
P = ParamSpec("P")
R = TypeVar("R")


def looked_up(body: Callable[P, R]) -> Callable[P, R]:
    """Lets a convolution of rows or volumes be looked up by its arguments, and launched again.

    That of rows is not where it takes numbers, which are arguments of its kernel and may change.
    """
    again = repeatable(body)

    @wraps(body)
    def call(*args: P.args, **store: P.kwargs) -> R:
        beta: Any = store["beta"]
        plain = not split_arguments(store.get("epilogue_args", ()))[1]
        plain = plain and beta.__class__ in (int, float) and beta in (0, 1)
        return (again if plain or rank_of(str(args[0])) == 3 else body)(*args, **store)

    return call


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


def check_transposed(what: str, x: Sequence[int], w: Sequence[int], groups: int, rank: int) -> None:
    """Refuses shapes that have no transposed convolution."""
    check_rank(what, "x", x, rank)
    check_rank(what, "w", w, rank)
    check_groups(what, groups)
    if x[1] != w[0] or x[1] % groups:
        raise ShapeError(
            f"{what}: x of shape {tuple(x)} and w of shape {tuple(w)} with groups={groups}: "
            "expected as many channels in x as outputs in w, a multiple of groups"
        )


def checked_axes(
    what: str,
    x: Sequence[int],
    w: Sequence[int],
    grad: Sequence[int],
    told: Settings,
    shuffle: Shuffle | None = None,
) -> tuple[Axis, ...]:
    """Returns the windows of a convolution whose result has the gradient ``grad``."""
    check_rank(what, "grad", grad, len(x))
    check_shapes(what, x, w, told.groups, len(x))
    found = axes(what, x[2:], w[2:], told.stride, told.padding, told.dilation)
    expected = (x[0], w[0], *(axis.windows for axis in found))
    if shuffle is not None:
        expected = shuffle.result(expected)
    if tuple(grad) != expected:
        raise ShapeError(f"{what}: grad has shape {tuple(grad)}, expected {expected}")
    return found


def check_shuffle(what: str, block: Any, mode: Any) -> None:
    """Raises unless the block size and the order of channels are known ones."""
    if mode not in ("DCR", "CRD"):
        raise DefinitionError(f"{what}: mode={quoted(mode)} is unknown; expected 'DCR' or 'CRD'")
    if block is None:
        return
    if not is_integer(block):
        raise DTypeError(f"{what}: depth_to_space={quoted(block)}: expected an integer")
    if block < 1:
        raise ShapeError(f"{what}: depth_to_space={quoted(block)}: expected at least 1")


def shuffle_of(
    what: str, block: Any, mode: Any, outputs: int, groups: int, *, last: bool
) -> Shuffle | None:
    """Returns how outputs become pixels, or None where they stay what they are."""
    if block is None:
        return None
    if outputs % block**2:
        raise ShapeError(
            f"{what}: {outputs} outputs are not a multiple of depth_to_space² = {block**2}"
        )
    if block == 1:
        return None
    order = "cij" if mode == "CRD" else "ijc"
    if groups == 1:
        order = "ijc" if last else "cij"
    return Shuffle(int(block), mode, outputs // block**2, order)


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


def operands_of(
    what: str, ndim: int, label: str, x: Any, w: Any, algorithm: str
) -> tuple[Any, Any, bool]:
    """Returns the array as a batch, the weight without what is packed, and whether it was one."""
    matrix = matrix_of(w)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, current_device(), **{label: x}, w=matrix)
    single = x.ndim == ndim + 1
    return batched(x) if single else x, matrix, single


# --- rows as images one pixel high ----------------------------------------------------------------


def across(axis: Axis) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
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
