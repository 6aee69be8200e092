"""Operators that only move memory: sub-pixel shuffles and memory formats.

Each is one copy between two strided views of the same shape, so that every dtype and every stride
will do. Results have the memory format of the input. `space_to_depth` undoes `depth_to_space`, and
as both only reorder elements, each of them applied to the gradient of its result is the gradient of
the other: the backward of ``depth_to_space(x, 2)`` is ``space_to_depth(grad, 2)``.
"""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import asarray, empty
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_shape, dtype_of
from clprim.ops.shared.dims import whole
from clprim.plan.strides import is_channels_last
from clprim.primitives.pointwise import Pointwise

Shape = tuple[int, ...]

_depth_to_space = Pointwise("y0 = x0;", name="depth_to_space")
_space_to_depth = Pointwise("y0 = x0;", name="space_to_depth")
_channel_shuffle = Pointwise("y0 = x0;", name="channel_shuffle")

# What the operators call the side of a square.
_FACTORS = {"pixel_shuffle": "upscale_factor", "pixel_unshuffle": "downscale_factor"}


@operator(
    onnx="DepthToSpace blocksize:block mode='DCR'",
    gradient="`space_to_depth`",
    sample="x.transpose(0, 2, 3, 1), 2",
)
def depth_to_space(x: Any, block: int, mode: str = "DCR", *, out: Any = None) -> Array:
    """Moves channels into squares of ``block`` × ``block`` pixels.

    Pixel (i, j) of the square that channel c gets comes from channel (i·block + j)·C' + c of x in
    mode ``"DCR"`` (depth, column, row; TensorFlow's order), and from channel
    c·block² + i·block + j in mode ``"CRD"`` (PyTorch's). The definition is ONNX's, operator
    DepthToSpace. The gradient is `space_to_depth` of the gradient.

    Args:
        x: Of shape (N, C'·block², H, W), in any memory format and dtype.
        block: Pixels along a square's side.
        mode: ``"DCR"`` or ``"CRD"``.
        out: Where the result goes.

    Returns:
        An array of shape (N, C', H·block, W·block) in the memory format of x.

    Raises:
        ShapeError: x without four dimensions, channels that block² does not divide, out= of
            another shape.
        DefinitionError: Another mode.
        DTypeError: No device array, a block that is no integer, out= of another dtype.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1))
        >>> ops.depth_to_space(x, 2).get()
        array([[[[0., 1.],
                 [2., 3.]]]], dtype=float32)
    """
    return _moved("depth_to_space", x, block, mode, out, up=True)


@operator(
    onnx="SpaceToDepth blocksize:block mode='DCR'", gradient="`depth_to_space`", sample="x, 2"
)
def space_to_depth(x: Any, block: int, mode: str = "DCR", *, out: Any = None) -> Array:
    """Moves squares of ``block`` × ``block`` pixels into channels: undoes `depth_to_space`.

    Its gradient is `depth_to_space` of the gradient.

    Args:
        x: Of shape (N, C, H·block, W·block), in any memory format and dtype.
        block: Pixels along a square's side.
        mode: ``"DCR"`` or ``"CRD"``, the order of the channels; see `depth_to_space`.
        out: Where the result goes.

    Returns:
        An array of shape (N, C·block², H, W) in the memory format of x.

    Raises:
        ShapeError: x without four dimensions, a height or width that block does not divide, out=
            of another shape.
        DefinitionError: Another mode.
        DTypeError: No device array, a block that is no integer, out= of another dtype.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(8, dtype=np.int32).reshape(1, 1, 2, 4))
        >>> ops.space_to_depth(x, 2).get().reshape(4, 2)
        array([[0, 2],
               [1, 3],
               [4, 6],
               [5, 7]], dtype=int32)
    """
    return _moved("space_to_depth", x, block, mode, out, up=False)


@operator(gradient="`pixel_unshuffle`", sample="x.transpose(0, 2, 3, 1), 2")
def pixel_shuffle(x: Any, upscale_factor: int, *, out: Any = None) -> Array:
    """Returns `depth_to_space` in PyTorch's order of channels: `torch.nn.functional.pixel_shuffle`.

    Args:
        x: Of shape (…, C·r², H, W), with at least three dimensions.
        upscale_factor: r.
        out: Where the result goes.

    Returns:
        An array of shape (…, C, H·r, W·r).

    Raises:
        ShapeError, DTypeError: As `depth_to_space`.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.pixel_shuffle(cp.zeros((2, 12, 5, 7)), 2).shape
        (2, 3, 10, 14)
    """
    return _moved("pixel_shuffle", x, upscale_factor, "CRD", out, up=True)


@operator(gradient="`pixel_shuffle`", sample="x, 2")
def pixel_unshuffle(x: Any, downscale_factor: int, *, out: Any = None) -> Array:
    """Undoes `pixel_shuffle`: `torch.nn.functional.pixel_unshuffle`.

    Args:
        x: Of shape (…, C, H·r, W·r), with at least three dimensions.
        downscale_factor: r.
        out: Where the result goes.

    Returns:
        An array of shape (…, C·r², H, W).

    Raises:
        ShapeError, DTypeError: As `space_to_depth`.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.pixel_unshuffle(cp.zeros((3, 10, 14)), 2).shape
        (12, 5, 7)
    """
    return _moved("pixel_unshuffle", x, downscale_factor, "CRD", out, up=False)


@operator(torch="channel_shuffle", gradient="itself", sample="x, 3")
def channel_shuffle(x: Any, groups: int, *, out: Any = None) -> Array:
    """Deals channels out among groups: channel g·(C/groups) + k becomes channel k·groups + g.

    Its gradient is ``channel_shuffle(grad, C // groups)``, which undoes it. The operator is
    ShuffleNet's (Zhang et al., 2017), and `torch.nn.functional.channel_shuffle`.

    Args:
        x: Of shape (N, C, …), with at least three dimensions.
        groups: A divisor of C.
        out: Where the result goes.

    Returns:
        An array of the shape and memory format of x.

    Raises:
        ShapeError: Fewer dimensions, channels that groups does not divide, out= of another shape.
        DTypeError: No device array, groups that are no integer, out= of another dtype.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(6, dtype=np.float32).reshape(1, 6, 1))
        >>> ops.channel_shuffle(x, 2).get().ravel()
        array([0., 3., 1., 4., 2., 5.], dtype=float32)
    """
    what = "channel_shuffle"
    _check_rank(what, x, 3)
    groups = whole(what, "groups", groups, 1)
    n, channels, *rest = x.shape
    if channels % groups:
        raise ShapeError(
            f"{what}: {channels} channels of x, whose shape is {x.shape}, cannot be dealt out "
            f"among groups={groups}"
        )
    each = channels // groups
    out = _result(what, x, x.shape, out)
    (xn, xc, *xr), (yn, yc, *yr) = x.strides, out.strides
    shape = (n, each, groups, *rest)
    source = view_of(x, shape, (xn, xc, xc * each, *xr), x.offset)
    target = view_of(out, shape, (yn, yc * groups, yc, *yr), out.offset)
    _channel_shuffle(source, out=target)
    return out  # whatever class of array the user gave


@operator()
def contiguous(x: Any, memory_format: str = "contiguous") -> Array:
    """Returns x in a memory format: itself where it has that already, else a copy.

    Args:
        x: An array; of shape (N, C, H, W) or (N, C, D, H, W) for ``"channels_last"``.
        memory_format: ``"contiguous"`` or ``"channels_last"``, whose strides are those of NHWC
            or NDHWC; ``"channels_last_3d"`` is PyTorch's name for the latter.

    Raises:
        ShapeError: Another memory format, or channels last of another number of dimensions.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.zeros((2, 3, 4, 5))
        >>> ops.contiguous(x, "channels_last").strides
        (240, 4, 60, 12)
        >>> ops.contiguous(x) is x
        True
    """
    dtype_of("contiguous", "x", x)
    if memory_format is None:  # which asarray takes for "as it is"
        raise ShapeError("contiguous: memory_format=None; expected 'contiguous' or 'channels_last'")
    return asarray(x, memory_format=memory_format)


# --- both directions ------------------------------------------------------------------------------


def _moved(what: str, x: Any, block: int, mode: str, out: Any, *, up: bool) -> Array:
    """Moves channels into squares of pixels, or back."""
    label = _FACTORS.get(what)
    if mode not in ("DCR", "CRD"):
        raise DefinitionError(f"{what}: mode={quoted(mode)} is unknown; expected 'DCR' or 'CRD'")
    _check_rank(what, x, 3 if label else 4, exactly=label is None)
    label = label or "block"
    block = whole(what, label, block, 1)
    *lead, channels, height, width = x.shape
    if up and channels % block**2:
        raise ShapeError(
            f"{what}: {channels} channels of x, whose shape is {x.shape}, are not a multiple of "
            f"{label}² = {block**2}"
        )
    if not up and (height % block or width % block):
        raise ShapeError(
            f"{what}: {height} × {width} pixels of x, whose shape is {x.shape}, are not a multiple "
            f"of {label} = {block}"
        )
    if up:
        each = channels // block**2
        out = _result(what, x, (*lead, each, height * block, width * block), out)
        _depth_to_space(_as_depth(x, each, block, mode), out=_as_space(out, height, width, block))
        return out
    shape = (*lead, channels * block**2, height // block, width // block)
    out = _result(what, x, shape, out)
    large = _as_space(x, height // block, width // block, block)
    _space_to_depth(large, out=_as_depth(out, channels, block, mode))
    return out


def _as_depth(x: Any, each: int, block: int, mode: str) -> Array:
    """The small picture as (…, channel, i, j, row, column)."""
    *lead, c, h, w = x.strides
    steps = (block**2, block, 1) if mode == "CRD" else (1, block * each, each)
    shape = (*x.shape[:-3], each, block, block, *x.shape[-2:])
    return view_of(x, shape, (*lead, *(c * step for step in steps), h, w), x.offset)


def _as_space(x: Any, height: int, width: int, block: int) -> Array:
    """The large picture as (…, channel, i, j, row, column)."""
    *lead, c, h, w = x.strides
    shape = (*x.shape[:-2], block, block, height, width)
    return view_of(x, shape, (*lead, c, h, w, h * block, w * block), x.offset)


def _result(what: str, x: Any, shape: Shape, out: Any) -> Any:
    """Allocates a result in the memory format of x, or checks the one that was given."""
    if out is None:
        return empty(shape, x.dtype, memory_format=_memory_format(x))
    check_shape(what, "out=", out, shape)
    if out.dtype != x.dtype:
        raise DTypeError(f"{what}: out= is {out.dtype}, expected {x.dtype}, the dtype of x")
    return out


def _memory_format(x: Any) -> str:
    """The format of an array's strides, whether or not it has gaps."""
    last = len(x.shape) == 4 and is_channels_last(x.shape, x.strides)
    return "channels_last" if last else "contiguous"


def _check_rank(what: str, x: Any, least: int, *, exactly: bool = False) -> None:
    dtype_of(what, "x", x)
    if len(x.shape) < least or (exactly and len(x.shape) > least):
        wanted = f"{'' if exactly else 'at least '}{least} dimensions"
        raise ShapeError(f"{what}: expected x of {wanted}, got shape {x.shape}")
