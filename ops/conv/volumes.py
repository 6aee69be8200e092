"""Convolutions of volumes, forward, back and transposed: those of images, their planes.

The planes that one result plane sees are put side by side as channels: (N, C, D, H, W) becomes
N · OD images of C · KD channels, and the weight (O, C, KD, KH, KW) is, where it lies, one of as
many channels. So a volume is convolved by whatever is fastest for images, the epilogue runs at its
store and each sum is added up in one go; a sum over KD convolutions that add to each other's
results would read and write the result KD times, and round it as often. The copy costs
KD / (O · KH · KW) of the arithmetic. There is none where a kernel is one plane deep, or one element
high and wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, new_dense, view_of
from clprim.call.packed import PackedWeight, matrix_of
from clprim.call.repeat import repeatable
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, ShapeError
from clprim.ops.conv.arguments import batched, check_rank, check_shapes, check_whole, unbatched
from clprim.ops.conv.forward import conv2d
from clprim.ops.conv.gradient import conv2d_input, conv2d_weight
from clprim.ops.conv.windows import Padding, Pair, axes, transposed_axes
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.epilogue import append, check_epilogue, split_arguments
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Axis
from clprim.plan.epilogue import is_position
from clprim.pointwise import Pointwise
from clprim.runtime.device import current_device

__all__ = ["conv3d", "conv3d_input", "conv3d_weight", "conv_transpose3d"]

Axes = tuple[Axis, ...]


def conv3d(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    *,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the convolution (cross-correlation, as in PyTorch) of volumes with kernels.

    Args:
        x: (N, C, D, H, W), or (C, D, H, W), of any strides.
        w: (O, C / groups, KD, KH, KW), or what `pack_weight` made of it.
        bias: (O,), added to every element.
        stride: A number, or one each for depth, height and width.
        padding: Likewise, or one for each of the six sides, or ``"same"`` or ``"valid"``.
        dilation: Likewise.
        groups: As in `conv2d`, as is all that follows.
        epilogue: A snippet on ``y0``.
        epilogue_args: Arrays for it.
        out: (N, O, OD, OH, OW), where the result goes.
        beta: What its old value is multiplied with before it is added.
        algorithm: ``"auto"`` or one of ``conv2d.algorithms``.

    Returns:
        (N, O, OD, OH, OW) in the memory format of ``x``.

    Raises:
        ShapeError, DTypeError, DefinitionError, DeviceError: As `conv2d` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2))
        >>> ops.conv3d(x, cp.full((1, 1, 2, 2, 2), 1.0)).get()
        array([[[[[28.]]]]], dtype=float32)
    """
    what = "conv3d"
    device, matrix = current_device(), matrix_of(w)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, x=x, w=matrix)
    single = x.ndim == 4
    x = batched(x) if single else x
    out = batched(out) if single and getattr(out, "ndim", 0) == 4 else out
    outputs, _ = check_shapes(what, x.shape, matrix.shape, groups, rank=5)
    found = axes(what, x.shape[2:], matrix.shape[2:], stride, padding, dilation)
    dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
    shape = (x.shape[0], outputs, *(axis.windows for axis in found))
    args, numbers = _checked(what, bias, epilogue, epilogue_args, shape, value)
    extras = [*args, *([] if bias is None else [bias])]
    check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
    if out is None:
        out = empty_like(x, shape, dtype)
    error = current_options().convolution_error
    given = (_numbers(found), groups, epilogue, numbers, beta, algorithm, error)
    y = _convolve(x, w, bias, args, out, *given) if math.prod(shape) else out
    return unbatched(y) if single else y


def conv_transpose3d(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
    *,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the transposed convolution: what `conv3d` does to gradients, done to volumes.

    Args:
        x: (N, C, D, H, W), or (C, D, H, W).
        w: (C, O / groups, KD, KH, KW), or what `pack_weight` made of it.
        bias: (O,).
        stride: Of the convolution that it is the transpose of; a number, or one for each axis.
        padding: Likewise, or one for each of the six sides.
        output_padding: Added to the result behind, as in `conv_transpose2d`.
        groups: As there, as is all that follows.
        dilation: A number, or one for each axis.
        epilogue: A snippet on ``y0``.
        epilogue_args: Arrays for it.
        out: (N, O, OD, OH, OW), where the result goes.
        beta: What its old value is multiplied with before it is added.
        algorithm: ``"auto"`` or one of ``conv2d.algorithms``.

    Returns:
        (N, O, OD, OH, OW) in the memory format of ``x``.

    Raises:
        ShapeError, DTypeError, DefinitionError, DeviceError: As `conv_transpose2d` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([[[[[1]], [[2]]]]], np.float32))
        >>> ops.conv_transpose3d(x, cp.full((1, 1, 2, 1, 1), 1.0), stride=2).get().ravel()
        array([1., 1., 2., 2.], dtype=float32)
    """
    what = "conv_transpose3d"
    device, matrix = current_device(), matrix_of(w)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, x=x, w=matrix)
    single = x.ndim == 4
    x = batched(x) if single else x
    out = batched(out) if single and getattr(out, "ndim", 0) == 4 else out
    check_rank(what, "x", x.shape, 5)
    check_rank(what, "w", matrix.shape, 5)
    check_whole(what, "groups", groups)
    if x.shape[1] != matrix.shape[0] or x.shape[1] % groups:
        raise ShapeError(
            f"{what}: x of shape {x.shape} and w of shape {matrix.shape} with groups={groups}: "
            "expected as many channels in x as outputs in w, a multiple of groups"
        )
    sizes = x.shape[2:], matrix.shape[2:]
    found = transposed_axes(what, *sizes, stride, padding, output_padding, dilation)
    dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
    shape = (x.shape[0], matrix.shape[1] * groups, *(axis.size for axis in found))
    args, numbers = _checked(what, bias, epilogue, epilogue_args, shape, value)
    extras = [*args, *([] if bias is None else [bias])]
    check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
    if out is None:
        out = empty_like(x, shape, dtype)
    error = current_options().convolution_error
    given = (_numbers(found), groups, epilogue, numbers, beta, algorithm, error)
    y = _spread(what, x, w, bias, args, out, *given) if math.prod(shape) else out
    return unbatched(y) if single else y


def conv3d_input(
    input_shape: Sequence[int],
    w: Any,
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the gradient of `conv3d` in its input, (N, C, D, H, W); see `conv2d_input`.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> w, grad = cp.full((1, 1, 2, 1, 1), 1.0), cp.full((1, 1, 2, 1, 1), 1.0)
        >>> ops.conv3d_input((1, 1, 3, 1, 1), w, grad).get().ravel()
        array([1., 2., 1.], dtype=float32)
    """
    what = "conv3d_input"
    device, matrix = current_device(), matrix_of(w)
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, w=matrix, grad=grad)
    shape = _shape(what, "input_shape", input_shape)
    found = _gradient_axes(what, shape, matrix.shape, grad, groups, stride, padding, dilation)
    dtype, _ = product_dtypes(what, device, grad.dtype, matrix.dtype)
    check_result(what, out, device, shape, dtype, inputs=(grad, matrix), extras=(), beta=beta)
    if out is None:
        out = empty_like(grad, shape, dtype)
    error = current_options().convolution_error
    given = (_numbers(found), groups, None, (), beta, algorithm, error)
    return _spread(what, grad, w, None, (), out, *given) if math.prod(shape) else out


def conv3d_weight(
    x: Any,
    weight_shape: Sequence[int],
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the gradient of `conv3d` in its weight, (O, C / groups, KD, KH, KW).

    See `conv2d_weight`.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(3, dtype=np.float32).reshape(1, 1, 3, 1, 1))
        >>> ops.conv3d_weight(x, (1, 1, 2, 1, 1), cp.full((1, 1, 2, 1, 1), 1.0)).get().ravel()
        array([1., 3.], dtype=float32)
    """
    what = "conv3d_weight"
    device = current_device()
    CONVOLUTIONS.check(what, algorithm)
    check_operands(what, device, x=x, grad=grad)
    check_rank(what, "x", x.shape, 5)
    shape = _shape(what, "weight_shape", weight_shape)
    found = _gradient_axes(what, x.shape, shape, grad, groups, stride, padding, dilation)
    dtype, _ = product_dtypes(what, device, x.dtype, grad.dtype)
    check_result(what, out, device, shape, dtype, inputs=(x, grad), extras=(), beta=beta)
    if out is None:
        out = new_dense(shape, dtype)
    error = current_options().convolution_error
    given = (_numbers(found), groups, beta, algorithm, error)
    return _correlate(x, grad, out, *given) if math.prod(shape) else out


# --- what users give ------------------------------------------------------------------------------


def _shape(what: str, label: str, shape: Any) -> tuple[int, ...]:
    try:
        found = tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        found = ()
    if len(found) != 5 or min(found) < 0:
        raise ShapeError(f"{what}: {label}={shape!r}: expected 5 sizes of at least 0")
    return found


def _gradient_axes(
    what: str,
    x: Sequence[int],
    w: Sequence[int],
    grad: Any,
    groups: Any,
    stride: Pair,
    padding: Padding,
    dilation: Pair,
) -> Axes:
    check_rank(what, "grad", grad.shape, 5)
    check_shapes(what, x, w, groups, rank=5)
    found = axes(what, x[2:], w[2:], stride, padding, dilation)
    expected = (x[0], w[0], *(axis.windows for axis in found))
    if grad.shape != expected:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected {expected}")
    return found


def _checked(
    what: str, bias: Any, epilogue: Any, args: Any, shape: tuple[int, ...], value: AnyDType
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Checks a bias and an epilogue; returns its arrays, each of five dimensions, and numbers."""
    device = current_device()
    if bias is not None:
        check_operands(what, device, bias=bias)
        if bias.shape != (shape[1],):
            raise ShapeError(f"{what}: bias has shape {bias.shape}, expected ({shape[1]},)")
    read = check_epilogue(what, device, epilogue, args, shape, value)
    if read.sizes or any(is_position(a.name) for a in read.arrays):
        raise DefinitionError(
            f"{what}: the epilogue reads index, coord or size, which that of a volume cannot"
        )
    arrays, numbers = split_arguments(args)
    wide = [
        view_of(a, (*(1,) * (5 - a.ndim), *a.shape), (*(0,) * (5 - a.ndim), *a.strides), a.offset)
        for a in arrays
    ]
    return tuple(wide), numbers


def _numbers(found: Axes) -> tuple[tuple[int, ...], ...]:
    """The axes as what a repeated call is known by."""
    return tuple((a.size, a.kernel, a.stride, a.dilation, a.before, a.after) for a in found)


# --- volumes as images ----------------------------------------------------------------------------


def _thin(found: Axes) -> bool:
    """Whether windows are one element high and wide: volumes are images D high and H · W wide."""
    return all(
        (a.kernel, a.stride, a.before, a.after) == (1, 1, 0, 0) for a in (found[1], found[2])
    )


def _merged(array: Any, d: int, sizes: tuple[int, int] | None = None) -> Any:
    """The array with dimensions d and d + 1 as one, or None where that would be a copy.

    It is None as well where it would not broadcast to such sizes any more.
    """
    if sizes is not None and array.shape[d : d + 2] not in (sizes, (1, 1)):
        return None
    (m, n), (outer, inner) = array.shape[d : d + 2], array.strides[d : d + 2]
    if m == 1 or outer == n * inner:
        step = inner
    elif n == 1:
        step = outer
    else:
        return None
    shape = (*array.shape[:d], m * n, *array.shape[d + 2 :])
    return view_of(array, shape, (*array.strides[:d], step, *array.strides[d + 2 :]), array.offset)


def _planes(array: Any) -> Any:
    """(N, C, D, H, W) as (N, D, C, H, W)."""
    return array.transpose(0, 2, 1, 3, 4)


def _images(array: Any) -> Any:
    """(N, C, D, H, W) as N · D images; a copy where they are not evenly apart."""
    found = _merged(_planes(array), 0)
    return _merged(_planes(array).copy(), 0) if found is None else found


def _matrix(w: Any) -> Any:
    """A weight (O, C, KD, KH, KW) as one of C · KD channels; packed once if it was to be."""
    array = matrix_of(w)
    view = _merged(array, 1)
    if view is None:
        view = _merged(array.copy(), 1)
    return PackedWeight(view, w) if isinstance(w, PackedWeight) else view


def _as_weight(w: Any) -> Any:
    """A weight of thin windows as one of images, (O, C, KD, 1)."""
    array = matrix_of(w)
    view = view_of(array, array.shape[:4], array.strides[:4], array.offset)
    return PackedWeight(view, w) if isinstance(w, PackedWeight) else view


def _settings(rows: Axis, columns: Axis) -> dict[str, Any]:
    return {
        "stride": (rows.stride, columns.stride),
        "padding": (rows.before, rows.after, columns.before, columns.after),
        "dilation": (rows.dilation, columns.dilation),
    }


def _settings_of(found: Axes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of images: those of planes, and those where windows are thin."""
    return _settings(*found[1:]), _settings(found[0], Axis(1, 1, 1, 1, 0, 0))


def _seen(x: Any, axis: Axis) -> Any:
    """Returns (N, OD, C · KD, H, W): the planes that each result plane sees, as channels."""
    if axis.kernel == 1 and not axis.leaves:
        return _planes(x)[:, : (axis.windows - 1) * axis.stride + 1 : axis.stride]
    n, c, _, h, w = x.shape
    shape = (n, axis.windows, c, axis.kernel, h, w)
    last = c > 1 and abs(x.strides[1]) < min(abs(x.strides[3]), abs(x.strides[4]))
    out = new_dense(shape, x.dtype, (0, 1, 4, 5, 2, 3) if last else range(6))
    _look(axis, x.dtype)(x, shape=shape, out=out)
    return _merged(out, 2)


@lru_cache(maxsize=256)
def _look(axis: Axis, dtype: AnyDType) -> Pointwise:
    place = f"coord(1) * {axis.stride} + coord(3) * {axis.dilation} - {axis.before}"
    text = f"""
        int z = (int)({place});
        int d = clamp(z, 0, (int)size_x0(2) - 1);
        typeof_x0 v = at_x0(coord(0), coord(2), d, coord(4), coord(5));
        y0 = d == z ? v : 0;"""
    return Pointwise(text, name="conv3d_planes", result_type=dtype)


@lru_cache(maxsize=256)
def _fold(what: str, axis: Axis, bias: bool, epilogue: str | None, dtype: AnyDType) -> Pointwise:
    """Adds up what the taps of depth passed on, (N, OD, O, KD, H, W), and the bias."""
    text = f"""
        typeof_y0 sum = 0;
        for (int k = 0; k < {axis.kernel}; ++k) {{
            int from = (int)coord(2) + {axis.before} - k * {axis.dilation};
            int o = clamp(from / {axis.stride}, 0, (int)size_x0(1) - 1);
            typeof_y0 v = at_x0(coord(0), o, coord(1), k, coord(3), coord(4));
            sum += o * {axis.stride} == from ? v : 0;
        }}
        y0 = sum{" + x1" if bias else ""};"""
    return Pointwise(append(what, text, epilogue, 1 + bias, 0), name=what, result_type=dtype)


# --- the work -------------------------------------------------------------------------------------


@repeatable
def _convolve(
    x: Any,
    w: Any,
    bias: Any,
    args: tuple[Any, ...],
    out: Any,
    numbers: tuple[tuple[int, ...], ...],
    groups: int,
    epilogue: str | None,
    scalars: tuple[Any, ...],
    beta: float,
    algorithm: str,
    error: float,  # an option, that the algorithm depends on
) -> Any:
    found = tuple(Axis(*n) for n in numbers)
    across, down = _settings_of(found)
    options: dict[str, Any] = {"groups": groups, "beta": beta, "algorithm": algorithm}
    if _thin(found):
        flat = [_merged(a, 3, x.shape[3:]) for a in (x, out, *args)]
        if all(a is not None for a in flat):
            images, result, *rest = flat
            call = {**down, **options, "out": result, "epilogue": epilogue}
            conv2d(images, _as_weight(w), bias, epilogue_args=(*rest, *scalars), **call)
            return out
    weight = _matrix(w)
    options = {**across, **options, "epilogue": epilogue}
    stacks = [_seen(x, found[0]), *(_planes(a) for a in (out, *args))]
    whole = [_merged(a, 0, stacks[0].shape[:2]) for a in stacks]
    if all(a is not None for a in whole):
        images, result, *rest = whole
        conv2d(images, weight, bias, epilogue_args=(*rest, *scalars), out=result, **options)
        return out
    for n in range(x.shape[0]):
        images, result, *rest = (a[min(n, len(a) - 1)] for a in stacks)
        conv2d(images, weight, bias, epilogue_args=(*rest, *scalars), out=result, **options)
    return out


@repeatable
def _spread(
    what: str,
    x: Any,
    w: Any,
    bias: Any,
    args: tuple[Any, ...],
    out: Any,
    numbers: tuple[tuple[int, ...], ...],
    groups: int,
    epilogue: str | None,
    scalars: tuple[Any, ...],
    beta: float,
    algorithm: str,
    error: float,
) -> Any:
    """Every element of x adds its multiple of the weight to the result."""
    found = tuple(Axis(*n) for n in numbers)
    across, _ = _settings_of(found)
    depth, value = found[0], product_dtypes(what, current_device(), x.dtype, w.dtype)[1]
    channels = out.shape[1] * depth.kernel
    images = _images(x)
    shape = (len(images), channels, *out.shape[3:])
    order = (0, 2, 3, 1) if images.strides[1] < images.strides[3] else (0, 1, 2, 3)
    sums = new_dense(shape, value, order)
    options: dict[str, Any] = {**across, "groups": groups, "algorithm": algorithm}
    conv2d_input(shape, _matrix(w), images, out=sums, **options)
    step = sums.strides
    taps = view_of(
        sums,
        (x.shape[0], x.shape[2], out.shape[1], depth.kernel, *shape[2:]),
        (x.shape[2] * step[0], step[0], depth.kernel * step[1], step[1], *step[2:]),
        0,
    )
    operands = [taps]
    if bias is not None:
        strides = (0, bias.strides[0], 0, 0, 0)
        operands.append(view_of(bias, (1, bias.shape[0], 1, 1, 1), strides, bias.offset))
    kernel = _fold(what, depth, bias is not None, epilogue, out.dtype)
    if not beta:
        return kernel(*operands, *args, *scalars, shape=out.shape, out=out)
    return _ADD(kernel(*operands, *args, *scalars, shape=out.shape), out, beta, out=out)


@repeatable
def _correlate(
    x: Any,
    grad: Any,
    out: Any,
    numbers: tuple[tuple[int, ...], ...],
    groups: int,
    beta: float,
    algorithm: str,
    error: float,
) -> Any:
    found = tuple(Axis(*n) for n in numbers)
    across, down = _settings_of(found)
    options: dict[str, Any] = {"groups": groups, "algorithm": algorithm}
    flat = [_merged(a, 3) for a in (x, grad)] if _thin(found) else [None]
    if all(a is not None for a in flat):
        call = {**down, **options, "out": _as_weight(out), "beta": beta}
        conv2d_weight(flat[0], out.shape[:4], flat[1], **call)
        return out
    images = _images(_planes(_seen(x, found[0])))
    result = _merged(out, 1)
    target = new_dense(out.shape, out.dtype) if result is None else out
    matrix = _matrix(target)
    call = {**across, **options, "out": matrix, "beta": beta if target is out else 0}
    conv2d_weight(images, matrix.shape, _images(grad), **call)
    if target is out:
        return out
    if not beta:
        return _COPY(target, out=out)
    return _ADD(target, out, beta, out=out)


_COPY = Pointwise("y0 = x0;", name="copy")
_ADD = Pointwise("y0 = x0 + w0 * x1;", name="conv3d_weight")
