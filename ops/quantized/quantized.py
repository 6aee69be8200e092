"""Numbers of 8 bits that stand for real ones: to them and back, products and convolutions.

An integer q stands for ``(q − zero_point) · scale``. Products of 8 bits are added up in int32, and
brought back to 8 bits by an epilogue in the kernel that stores them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from clprim.arrays.array import Array, array_over, new_dense, view_of
from clprim.arrays.creation import asarray, full
from clprim.arrays.formats import order_like
from clprim.call.arguments import check_array
from clprim.call.packed import matrix_of
from clprim.dtypes import NO_ARRAY, AnyDType, as_dtype
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.conv.forward import conv2d
from clprim.ops.conv.operands import check_shapes
from clprim.ops.product.arguments import check_bias
from clprim.ops.product.matmul import matmul
from clprim.ops.quantized.zero_points import (
    column_terms,
    spread,
    weight_zeros,
    zero_of,
)
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.registry import operator
from clprim.ops.shape.join import repeat_interleave
from clprim.ops.shape.pad import pad
from clprim.ops.shared.checks import dtype_of, is_array, real
from clprim.ops.shared.dims import one_dim
from clprim.ops.shared.ranks import Steps, of_rank
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.window import axes
from clprim.runtime.device import current_device

if TYPE_CHECKING:
    from typing_extensions import Unpack

_INT8, _UINT8 = np.dtype(np.int8), np.dtype(np.uint8)
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
# Scales come as the bits of floats, as an epilogue of integer sums reads integers.
_REQUANTIZE = "y0 = clamp((int)rint((float)y0 * as_float(x0)) + w0, w1, w2);"
_WRAP = " y0 = y0 > 127 ? y0 - 256 : y0;"  # the same bits of a number with a sign


@operator(sample="x, 1")
def quantize(
    x: Any,
    scale: Any,
    zero_point: Any = 0,
    dtype: Any = np.int8,
    *,
    dim: int | None = None,
    out: Any = None,
) -> Array:
    """Returns round(x / scale + zero_point), kept within what the dtype holds.

    As `torch.quantize_per_tensor` and, with ``dim``, `torch.quantize_per_channel`; halves are
    rounded to even.

    Args:
        x: Of floating-point numbers.
        scale: A number, or with ``dim`` one for each element of that dimension.
        zero_point: What stands for 0: an integer, or as many as scales.
        dtype: int8, uint8, int16 or int32.
        dim: The dimension that has scales of its own.
        out: Where the result goes.

    Raises:
        ShapeError: Not as many scales as elements, a scale that is not positive, a zero point
            that the dtype does not hold, no such dimension.
        DTypeError: No such arrays, or another dtype.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> q = ops.quantize(cp.asarray(np.float32([-1, 0.26, 100])), 0.1, 3)
        >>> q.get()
        array([ -7,   6, 127], dtype=int8)
        >>> ops.dequantize(q, 0.1, 3).get().round(2)
        array([-1. ,  0.3, 12.4], dtype=float32)
    """
    what = "quantize"
    if dtype_of(what, "x", x).kind in "biu":
        raise DTypeError(f"{what}: x is {x.dtype}; expected floating-point numbers")
    kind = as_dtype(dtype)
    if kind.name not in ("int8", "uint8", "int16", "int32"):
        raise DTypeError(f"{what}: dtype={kind}: expected int8, uint8, int16 or int32")
    info = np.iinfo(kind)
    # The least and the greatest float that the integers reach: of int32 the last one is none.
    most = np.nextafter(np.float32(2**31), np.float32(0)) if kind == _INT32 else info.max
    text = f"""
        float q = rint((float)x0 / (float)x1 + (float)x2);
        y0 = (typeof_y0)clamp(q, (float)({info.min + 1} - 1), (float){float(most)!r});"""
    arrays = _scales(what, x, kind, scale, zero_point, dim)
    return kernel(text, what, kind)(x, *arrays, shape=x.shape, out=out)


@operator(sample="x, 1")
def dequantize(
    x: Any,
    scale: Any,
    zero_point: Any = 0,
    dtype: Any = np.float32,
    *,
    dim: int | None = None,
    out: Any = None,
) -> Array:
    """Returns (x - zero_point) · scale; see `quantize`.

    Args:
        x: Of integers.
        scale: As in `quantize`.
        zero_point: Likewise.
        dtype: Of the result, of floating-point numbers.
        dim: As in `quantize`.
        out: Where the result goes.

    Raises:
        ShapeError, DTypeError: As `quantize`.
    """
    what = "dequantize"
    if dtype_of(what, "x", x).kind not in "iu":
        raise DTypeError(f"{what}: x is {x.dtype}; expected integers")
    kind = as_dtype(dtype)
    if kind.kind in "biu":
        raise DTypeError(f"{what}: dtype={kind}: expected a floating dtype")
    arrays = _scales(what, x, np.dtype(x.dtype), scale, zero_point, dim)
    text = "y0 = (float)(x0 - x2) * (float)x1;"
    return kernel(text, what, kind)(x, *arrays, shape=x.shape, out=out)


class Requantized(TypedDict, total=False):
    """Options of a result of 8 bits."""

    bias: Any
    out: Any


def _quantized_matmul(
    what: str,
    a: Any,
    b: Any,
    scale: Any,
    zero_point: int = 0,
    *,
    a_zero_point: int = 0,
    b_zero_point: Any = 0,
    transpose_b: bool = False,
    relu: bool = False,
    **stored: Unpack[Requantized],
) -> Array:
    """Returns clamp(round(((a - u) @ (b - v) + bias) · scale) + zero_point) of 8 bits.

    Sums are in int32, of the integers as they are; what zero points add to them is added to the
    sums, so that such a product costs a sum of each column of b more, and where b has zero points
    one of each row of a.

    Args:
        a: (M, K) of int8 or uint8.
        b: (K, N) likewise, or what `pack_weight` made of it.
        scale: Of a, times that of b, over that of the result: a number or (N,).
        zero_point: Of the result.
        a_zero_point: u, of a.
        b_zero_point: v, of b: a number or (N,), by which a per-channel weight is asymmetric.
        bias: (N,) of int32, in steps of a's scale times b's.
        transpose_b: Whether b is (N, K), as the weight of a linear layer.
        relu: Whether what is below 0 becomes 0.
        out: Where the result goes, of int8 or uint8; by default of a's dtype.

    Raises:
        ShapeError, DTypeError: As `matmul`, of arrays that have no 8 bits, of other scales, and of
            zero points that the dtype does not hold.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a = cp.asarray(np.array([[100, 50]], np.int8))
        >>> ops.quantized_matmul(a, cp.asarray(np.array([[2], [1]], np.int8)), 0.1).get()
        array([[25]], dtype=int8)
    """
    bias, out = stored["bias"], stored["out"]
    _eight_bits(what, a=a, b=b)
    columns = b.shape[-2 if transpose_b else -1] if len(b.shape) > 1 else 1
    if out is None:
        out = new_dense((*a.shape[:-1], columns), a.dtype)
    _eight_bits(what, out=out)
    zero = zero_of(what, "a_zero_point", a_zero_point, a.dtype)
    zeros = weight_zeros(what, "b_zero_point", b_zero_point, b.dtype, columns)
    if (zero or zeros is not None) and (len(b.shape) != 2 or not a.ndim):
        raise ShapeError(f"{what}: b has shape {b.shape}: zero points expect 2 dimensions")
    epilogue = _requantizing(what, out.dtype, scale, zero_point, relu, columns, 1)
    if bias is not None:
        check_bias(what, current_device(), bias, _INT32, columns)
    depth = b.shape[1 if transpose_b else 0]
    if zeros is not None and a.shape[-1] == depth:
        sums = add_up(a, -1, keepdims=True, dtype=_INT32)
        epilogue = _less(epilogue, sums, zeros)
    if zero:
        axes = (1 if transpose_b else 0,)
        bias = column_terms(matrix_of(b), axes, zero, zeros, bias, depth)
        bias = _for_all(bias, columns)
    matmul(a, b, transpose_b=transpose_b, bias=bias, out=_signed(out), **epilogue)
    return out


quantized_matmul = of_rank(_quantized_matmul, "quantized_matmul")


class Convolved(Requantized, Steps, total=False):
    """Those of a convolution."""

    groups: int


def _quantized_conv2d(
    what: str,
    x: Any,
    w: Any,
    scale: Any,
    zero_point: int = 0,
    *,
    x_zero_point: int = 0,
    w_zero_point: Any = 0,
    relu: bool = False,
    **stored: Unpack[Convolved],
) -> Array:
    """Returns clamp(round(((x - u) ∗ (w - v) + bias) · scale) + zero_point) of 8 bits.

    See `quantized_matmul`. What is padded is u, which stands for 0; a zero point of x costs a copy
    of it with its border, one of w the sum of every window.

    Args:
        x: (N, C, H, W) of int8 or uint8.
        w: (O, C / groups, KH, KW) likewise, or what `pack_weight` made of it.
        scale: Of x, times that of w, over that of the result: a number or (O,).
        zero_point: Of the result.
        x_zero_point: u, of x.
        w_zero_point: v, of w: a number or (O,).
        bias: (O,) of int32, in steps of x's scale times w's.
        stride: As in `conv2d`.
        padding: Likewise.
        dilation: Likewise.
        groups: Likewise.
        relu: Whether what is below 0 becomes 0.
        out: Where the result goes, of int8 or uint8; by default of x's dtype.

    Raises:
        ShapeError, DTypeError: As `conv2d`, of arrays that have no 8 bits, of other scales, and of
            zero points that the dtype does not hold.
    """
    _eight_bits(what, x=x, w=w)
    bias, out, groups = stored["bias"], stored["out"], stored["groups"]
    steps = Steps(stride=stored["stride"], padding=stored["padding"], dilation=stored["dilation"])
    if x.ndim != 4 or len(w.shape) != 4:
        raise ShapeError(f"{what}: x has shape {x.shape}, w {w.shape}: expected 4 dimensions")
    check_shapes(what, x.shape, w.shape, groups)
    outputs = w.shape[0]
    found = axes(what, x.shape[2:], w.shape[2:], **steps)
    if out is None:
        shape = (x.shape[0], outputs, *(axis.windows for axis in found))
        out = new_dense(shape, x.dtype, order_like(x))
    _eight_bits(what, out=out)
    zero = zero_of(what, "x_zero_point", x_zero_point, x.dtype)
    zeros = weight_zeros(what, "w_zero_point", w_zero_point, w.dtype, outputs)
    epilogue = _requantizing(what, out.dtype, scale, zero_point, relu, outputs, 3)
    if bias is not None:
        check_bias(what, current_device(), bias, _INT32, outputs)
    sides = [n for axis in reversed(found) for n in (axis.before, axis.after)]
    if zero and any(sides):
        x, steps = pad(x, sides, value=zero), {**steps, "padding": 0}
    if zeros is not None:
        epilogue = _less(epilogue, _window_sums(x, w.shape, groups, steps), spread(zeros, 3))
    if zero:
        depth = math.prod(w.shape[1:])
        bias = column_terms(matrix_of(w), (1, 2, 3), zero, zeros, bias, depth)
        bias = _for_all(bias, outputs)
    conv2d(x, w, bias=bias, groups=groups, out=_signed(out), **steps, **epilogue)
    return out


quantized_conv2d = of_rank(_quantized_conv2d, "quantized_conv2d")


def _window_sums(x: Any, weight_shape: Sequence[int], groups: int, steps: Steps) -> Array:
    """Returns the sum of every window of an image, once for the outputs of each group."""
    outputs, channels, height, width = weight_shape
    ones = full((groups, channels, height, width), 1, np.int8)
    sums: Array = conv2d(x, ones, groups=groups, **steps)
    return sums if groups == 1 else repeat_interleave(sums, outputs // groups, 1)


def _eight_bits(what: str, **arrays: Any) -> None:
    for label, array in arrays.items():
        dtype = array.dtype if hasattr(array, "array") else dtype_of(what, label, array)
        if dtype not in (_INT8, _UINT8):
            raise DTypeError(f"{what}: {label} is {dtype}, expected int8 or uint8")


def _signed(array: Any) -> Array:
    """The bytes of an array as int8, which sums in int32 may be stored to."""
    return _as(array, array.shape, array.strides, _INT8)


def _as(array: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: AnyDType) -> Array:
    """The same bits as another dtype."""
    where = array.base_data, shape, dtype, strides, array.offset
    return array_over(current_device(), *where, array.size)


def _for_all(terms: Any, count: int) -> Array:
    """(1,) or (O,) as (O,): a bias of a single output may have come of numbers alone."""
    return view_of(terms, (count,), (terms.strides[0] if terms.size > 1 else 0,), terms.offset)


def _less(epilogue: dict[str, Any], sums: Array, zeros: Array) -> dict[str, Any]:
    """The epilogue, with what zero points of weights take away before it."""
    bits, *numbers = epilogue["epilogue_args"]
    text = f"y0 = y0 - x1 * x2; {epilogue['epilogue']}"
    return {"epilogue": text, "epilogue_args": (bits, sums, zeros, *numbers)}


def _requantizing(
    what: str,
    dtype: AnyDType,
    scale: Any,
    zero_point: Any,
    relu: bool,
    count: int,
    ndim: int,
) -> dict[str, Any]:
    """The epilogue that brings sums back to 8 bits, and its arguments."""
    zero = zero_of(what, "zero_point", zero_point, dtype)
    info = np.iinfo(dtype.name)
    if not is_array(scale):
        scale = asarray(np.full(1, real(what, "scale", scale), np.float32))
    if scale.dtype != _FLOAT32:
        raise DTypeError(f"{what}: scale is {scale.dtype}, expected float32")
    if scale.shape not in ((1,), (count,)):
        raise ShapeError(f"{what}: scale has shape {scale.shape}, expected a number or ({count},)")
    check_array(what, "scale", scale, current_device())
    shape = (*scale.shape, *(1,) * (ndim - 1))
    strides = (*scale.strides, *(0,) * (ndim - 1))
    bits = _as(scale, shape, strides, _INT32)
    least = zero if relu else int(info.min)
    text = _REQUANTIZE if dtype == _INT8 else _REQUANTIZE + _WRAP
    return {"epilogue": text, "epilogue_args": (bits, zero, least, int(info.max))}


def _scales(
    what: str, x: Any, stored: np.dtype[Any], scale: Any, zero_point: Any, dim: Any
) -> tuple[Array, Array]:
    """Scales and zero points, which are ``stored`` integers, as arrays that broadcast to ``x``."""
    at = None if dim is None else one_dim(what, x.ndim, dim)
    count = 1 if at is None else x.shape[at]
    found = []
    for label, given, kind in (("scale", scale, _FLOAT32), ("zero_point", zero_point, _INT32)):
        array = given
        if not is_array(given):
            try:
                host = np.asarray(given)
            except NO_ARRAY:  # lists of several lengths
                host = np.asarray(None)
            if host.dtype.kind not in ("iu" if kind == _INT32 else "iuf"):
                raise DTypeError(f"{what}: {label}={quoted(given)}: expected numbers of {kind}")
            if label == "scale" and not (host > 0).all():
                raise ShapeError(f"{what}: scale={quoted(given)} must be positive")
            if not np.isfinite(host.astype(kind)).all():
                raise ShapeError(f"{what}: {label}={quoted(given)}: expected finite numbers")
            if (
                label == "zero_point"
                and not ((np.iinfo(stored).min <= host) & (host <= np.iinfo(stored).max)).all()
            ):
                raise ShapeError(f"{what}: zero_point={quoted(given)} is outside of {stored}")
            array = asarray(np.atleast_1d(host).astype(kind))
        if array.shape not in ((count,), (1,)):
            raise ShapeError(f"{what}: {label} has shape {array.shape}, expected ({count},)")
        shape = tuple(array.size if d == at else 1 for d in range(x.ndim))
        strides = tuple(array.strides[0] if d == at else 0 for d in range(x.ndim))
        found.append(view_of(array, shape, strides, array.offset))
    return found[0], found[1]
