"""Convolutions of rows, forward, back and transposed: those of images one pixel high."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.call.packed import PackedWeight, matrix_of
from clprim.errors import ShapeError, quoted
from clprim.ops.conv.arguments import (
    batched,
    check_rank,
    check_shapes,
    unbatched,
    unbatched_gradient,
)
from clprim.ops.conv.forward import convolve
from clprim.ops.conv.gradient import input_gradient, weight_gradient
from clprim.ops.conv.settings import Settings
from clprim.ops.conv.transpose import transposed
from clprim.ops.conv.windows import Padding, Pair, axes, whole_numbers
from clprim.ops.product.arguments import check_operands
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import is_array
from clprim.runtime.device import current_device

Sides = tuple[int, int, int, int]


@operator(gradient="`conv1d_input`, `conv1d_weight`", sample="x[:, 0], empty((2, 4, 3))")
def conv1d(
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
    """Returns the convolution of rows (N, C, L) with kernels (O, C / groups, K), as (N, O, OL).

    ``padding`` is a number, ``(left, right)``, ``"same"`` or ``"valid"``; rows may come without a
    batch, (C, L). Everything else is as in `conv2d`.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(4, dtype=np.float32).reshape(1, 1, 4))
        >>> ops.conv1d(x, cp.full((1, 1, 2), 1.0)).get()
        array([[[1., 3., 5.]]], dtype=float32)
    """
    what = "conv1d"
    single = getattr(x, "ndim", 0) == 2
    x = batched(x) if single else x
    check_operands(what, current_device(), x=x, w=matrix_of(w))
    check_shapes(what, x.shape, w.shape, groups, rank=3)
    windows = _settings(what, x.shape[2], w.shape[2], stride, padding, dilation)
    y = convolve(
        what,
        _row(x),
        _weight(w),
        bias,
        Settings(
            **windows,
            groups=groups,
            algorithm=algorithm,
            epilogue=epilogue,
            bias=bias is not None,
            axes=(1, 3) if single else (0, 1, 3),
        ),
        _rows(epilogue_args),
        out=_checked_out(what, out, single),
        beta=beta,
    )
    return out if out is not None else _line(y, single)


@operator(gradient="`conv1d`, `conv1d_weight`", sample="x[:, 0], empty((4, 2, 3))")
def conv_transpose1d(
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
    """Returns the transposed convolution of rows (N, C, L) with (C, O / groups, K), as (N, O, OL).

    Rows may come without a batch, (C, L). Everything else is as in `conv_transpose2d`.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([[[1, 2]]], np.float32))
        >>> ops.conv_transpose1d(x, cp.full((1, 1, 2), 1.0), stride=2).get()
        array([[[1., 1., 2., 2.]]], dtype=float32)
    """
    what = "conv_transpose1d"
    single = getattr(x, "ndim", 0) == 2
    x = batched(x) if single else x
    check_operands(what, current_device(), x=x, w=matrix_of(w))
    check_rank(what, "x", x.shape, 3)
    check_rank(what, "w", w.shape, 3)
    (more,) = whole_numbers(what, "output_padding", output_padding, 0, (1,))
    sides = whole_numbers(what, "padding", padding, 0, (1, 2))
    y = transposed(
        what,
        _row(x),
        _weight(w),
        bias,
        **_settings(what, 1 << 24, w.shape[2], stride, sides, dilation),
        output_padding=(0, more),
        groups=groups,
        epilogue=epilogue,
        epilogue_args=_rows(epilogue_args),
        out=_checked_out(what, out, single),
        beta=beta,
        algorithm=algorithm,
        axes=(1, 3) if single else (0, 1, 3),
    )
    return out if out is not None else _line(y, single)


@operator(sample="(0, 4, 4), empty((2, 4, 3)), empty((0, 2, 2))")
def conv1d_input(
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
    """Returns the gradient of `conv1d` in its input, (N, C, L) or (C, L); see `conv2d_input`.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> ops.conv1d_input((1, 1, 3), cp.full((1, 1, 2), 1.0), cp.full((1, 1, 2), 1.0)).get()
        array([[[1., 2., 1.]]], dtype=float32)
    """
    what = "conv1d_input"
    single = unbatched_gradient(input_shape, grad, 2)
    grad, input_shape = (batched(grad), (1, *input_shape)) if single else (grad, input_shape)
    check_operands(what, current_device(), w=matrix_of(w), grad=grad)
    check_rank(what, "grad", grad.shape, 3)
    check_rank(what, "w", w.shape, 3)
    shape = _shape_of_row(what, "input_shape", input_shape)
    y = input_gradient(
        what,
        shape,
        _weight(w),
        _row(grad),
        **_settings(what, shape[3], w.shape[2], stride, padding, dilation),
        groups=groups,
        out=_checked_out(what, out, single),
        beta=beta,
        algorithm=algorithm,
    )
    return out if out is not None else _line(y, single)


@operator(sample="x[:, 0], (2, 4, 3), empty((0, 2, 2))")
def conv1d_weight(
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
    """Returns the gradient of `conv1d` in its weight, (O, C / groups, K); see `conv2d_weight`.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(3, dtype=np.float32).reshape(1, 1, 3))
        >>> ops.conv1d_weight(x, (1, 1, 2), cp.full((1, 1, 2), 1.0)).get()
        array([[[1., 3.]]], dtype=float32)
    """
    what = "conv1d_weight"
    if getattr(x, "ndim", 0) == 2 and getattr(grad, "ndim", 0) == 2:
        x, grad = batched(x), batched(grad)
    check_operands(what, current_device(), x=x, grad=grad)
    check_rank(what, "grad", grad.shape, 3)
    check_rank(what, "x", x.shape, 3)
    shape = _shape_of_row(what, "weight_shape", weight_shape)
    y = weight_gradient(
        what,
        _row(x),
        shape,
        _row(grad),
        **_settings(what, x.shape[2], shape[3], stride, padding, dilation),
        groups=groups,
        out=_checked_out(what, out, False),
        beta=beta,
        algorithm=algorithm,
    )
    return out if out is not None else _line(y, False)


def _settings(
    what: str, size: int, kernel: int, stride: Pair, padding: Padding, dilation: Pair
) -> dict[str, Any]:
    """Stride, padding and dilation of images one pixel high."""
    (axis,) = axes(what, (size,), (kernel,), stride, padding, dilation)
    return {
        "stride": (1, axis.stride),
        "padding": (0, 0, axis.before, axis.after),
        "dilation": (1, axis.dilation),
    }


def _shape_of_row(what: str, label: str, shape: Any) -> Sides:
    try:
        a, b, c = (int(n) for n in shape)
    except (TypeError, ValueError):
        raise ShapeError(f"{what}: {label}={quoted(shape)}: expected 3 sizes") from None
    return a, b, 1, c


def _checked_out(what: str, out: Any, single: bool) -> Any:
    if out is None:
        return None
    check_operands(what, current_device(), out=out)
    check_rank(what, "out=", out.shape, 2 if single else 3)
    return _row(batched(out) if single else out)


def _weight(w: Any) -> Any:
    return PackedWeight(_row(w.array), w) if isinstance(w, PackedWeight) else _row(w)


def _rows(args: Any) -> tuple[Any, ...]:
    given = args if isinstance(args, tuple | list) else (args,)
    return tuple(_row(a) if is_array(a) and a.ndim >= 2 else a for a in given)


def _row(array: Any) -> Any:
    """An array of rows as one of images one pixel high."""
    if not hasattr(array, "strides") or not hasattr(array, "base_data"):
        return array  # who takes it says what is wrong with it
    shape, strides = list(array.shape), list(array.strides)
    shape.insert(-1, 1)
    strides.insert(-1, strides[-1] * shape[-1])
    return view_of(array, tuple(shape), tuple(strides), array.offset)


def _line(y: Any, single: bool) -> Any:
    """The other way round, of a result."""
    y = view_of(y, (*y.shape[:2], y.shape[3]), (*y.strides[:2], y.strides[3]), y.offset)
    return unbatched(y) if single else y
