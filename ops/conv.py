"""Convolution: forward, both gradients, and transposed, in whichever memory format arrays have.

All of them are contractions (`clprim.plan.contraction`). Forward, the windows of the input are the
lanes; in the weight's gradient they are the depth. The input's gradient gathers from the result's
gradient, one phase of the stride at a time, so that no product with a zero is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clprim.ops.products import (
    check_algorithm,
    check_epilogue,
    check_operands,
    check_result,
    elements,
    matrix_of,
    output,
    product_dtypes,
    span,
    start,
)
from clprim.ops.windows import Axis, Pair, Windows, is_channels_last, windows

from clprim.array import operand_of, view_of
from clprim.contraction import ContractionCall, PackedWeight, Planned, run_contraction
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, ShapeError
from clprim.language.snippet import Snippet
from clprim.plan.contraction import Bounds, Contraction, Gathered, Packed
from clprim.plan.layout import Operand, dense_strides
from clprim.plan.strategy import STRATEGIES
from clprim.reduction import Reduction
from clprim.runtime.device import Device

__all__ = [
    "conv1d",
    "conv2d",
    "conv2d_bias",
    "conv2d_input",
    "conv2d_weight",
    "conv_transpose2d",
    "pack_weight",
]

Shape4 = tuple[int, int, int, int]

_calls: dict[Any, ContractionCall] = {}


def pack_weight(w: Any, *, groups: int = 1, memory_format: str | None = None) -> PackedWeight:
    """Returns a weight that is packed once, when it is first used, and taken wherever ``w`` is.

    Args:
        w: The weight of a convolution, (O, C / groups, KH, KW), or a matrix.
        groups: Of the convolution it is for.
        memory_format: Of the arrays it will meet; it may be left out.

    Raises:
        DTypeError: Not a device array.
        ShapeError: Outputs that do not divide into groups.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> ops.pack_weight(cp.full((8, 3, 3, 3), 1.0)).shape
        (8, 3, 3, 3)
    """
    from clprim.runtime.device import current_device

    if memory_format not in (None, "contiguous", "channels_last"):
        raise DefinitionError(
            f"pack_weight: memory_format={memory_format!r}; expected 'contiguous' or "
            "'channels_last'"
        )
    check_operands("pack_weight", current_device(), w=w)
    _whole("pack_weight", "groups", groups)
    if not w.ndim or w.shape[0] % groups:
        raise ShapeError(f"pack_weight: w of shape {w.shape} has not {groups} groups of outputs")
    return PackedWeight(view_of(w, w.shape, w.strides, w.offset).copy())


class _Conv2d:
    """`conv2d`; see `__call__`."""

    __name__ = "conv2d"

    def __call__(
        self,
        x: Any,
        w: Any,
        bias: Any = None,
        *,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        epilogue: str | None = None,
        epilogue_args: Any = (),
        depth_to_space: int | None = None,
        mode: str = "CRD",
        out: Any = None,
        beta: float = 0,
        algorithm: str = "auto",
    ) -> Any:
        """Returns the convolution (cross-correlation, as in PyTorch) of images with kernels.

        Args:
            x: (N, C, H, W), of any strides.
            w: (O, C / groups, KH, KW), or what `pack_weight` made of it.
            bias: (O,), added to every pixel.
            stride: A number, or one for height and one for width.
            dilation: Likewise.
            padding: Likewise, or ``(top, bottom, left, right)``.
            groups: Inputs and outputs are divided into so many independent convolutions.
            epilogue: A snippet on ``y0``, the value with its bias, run in the storing kernel; it
                reads ``x0``, ``x1``, ….
            epilogue_args: Those arrays; each broadcasts to the result.
            depth_to_space: Not available yet.
            mode: Of ``depth_to_space``.
            out: (N, O, OH, OW), where the result goes.
            beta: ``y = epilogue(x ∗ w + bias) + beta * y_old``; at 0 the old value is not read.
            algorithm: ``"auto"`` or one of `algorithms`.

        Returns:
            (N, O, OH, OW) in the memory format of ``x``, with
            OH = ⌊(H + top + bottom − dilation · (KH − 1) − 1) / stride⌋ + 1, likewise OW.

        Raises:
            ShapeError: Shapes that do not fit, a kernel larger than the padded input, an ``out``
                of another shape or overlapping an input.
            DTypeError: No device array, or dtypes that have no product.
            DefinitionError: A wrong epilogue or an unknown algorithm.
            DeviceError: An array of another context.

        Example:
            >>> import numpy as np, clprim as cp
            >>> from clprim import ops
            >>> x = cp.asarray(np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3))
            >>> w = cp.full((1, 1, 2, 2), 1.0)
            >>> ops.conv2d(x, w, epilogue="y0 = max(y0, 10);").get()
            array([[[[10., 12.],
                     [20., 24.]]]], dtype=float32)
        """
        what = "conv2d"
        extras = [] if bias is None else [bias]
        args = tuple(epilogue_args) if isinstance(epilogue_args, list) else epilogue_args
        extras += args if isinstance(args, tuple) else (args,)
        options = (
            what,
            _key(stride),
            _key(padding),
            _key(dilation),
            groups,
            epilogue,
            bias is None,
            depth_to_space,
            mode,
            algorithm,
        )

        def prepare(device: Device) -> Planned:
            check_algorithm(what, algorithm)
            if depth_to_space is not None:
                raise DefinitionError(f"{what}: depth_to_space= is not available yet")
            matrix = matrix_of(w)
            check_operands(what, device, x=x, w=matrix)
            shapes = _shapes(what, x.shape, matrix.shape, groups)
            found = windows(
                what,
                x.shape[2:],
                matrix.shape[2:],
                stride=stride,
                padding=padding,
                dilation=dilation,
            )
            dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
            shape = (x.shape[0], shapes[0], found.y.windows, found.x.windows)
            bias_operand = _bias(what, device, bias, shape[1])
            snippet, operands = check_epilogue(what, device, epilogue, epilogue_args, shape, value)
            check_result(
                what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta
            )
            y, described = _result(out, shape, dtype, x)
            forward = _forward(x, matrix, y, found, groups, value, bias_operand, operands, snippet)
            contractions = (replace(forward, beta=bool(beta)),) if math.prod(shape) else ()
            return Planned(contractions, described, algorithm)

        return run_contraction(_calls, what, x, w, extras, options, prepare, out=out, beta=beta)

    def algorithms(self, *args: Any, **options: Any) -> tuple[str, ...]:
        """Returns the names of the algorithms that can do a call with these arguments."""
        return tuple(STRATEGIES)

    def __repr__(self) -> str:
        return "<clprim.ops.conv2d>"


conv2d = _Conv2d()


def conv1d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: int = 1,
    padding: Pair = 0,
    dilation: int = 1,
    groups: int = 1,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Any:
    """Returns the convolution of rows (N, C, L) with kernels (O, C / groups, K), as (N, O, OL).

    ``padding`` is a number or ``(left, right)``; everything else is as in `conv2d`.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(4, dtype=np.float32).reshape(1, 1, 4))
        >>> ops.conv1d(x, cp.full((1, 1, 2), 1.0)).get()
        array([[[1., 3., 5.]]], dtype=float32)
    """
    what = "conv1d"
    for label, array in (("x", x), ("w", matrix_of(w)), ("out=", out)):
        if array is not None and len(getattr(array, "shape", (0, 0, 0))) != 3:
            raise ShapeError(f"{what}: {label} has shape {array.shape}, expected 3 dimensions")
    sides = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(sides) not in (1, 2):
        raise ShapeError(f"{what}: padding={padding!r}: expected a number or (left, right)")
    given = epilogue_args if isinstance(epilogue_args, tuple | list) else (epilogue_args,)
    y = conv2d(
        _row(x),
        PackedRow(w) if isinstance(w, PackedWeight) else _row(w),
        bias,
        stride=(1, stride),
        padding=(0, 0, sides[0], sides[-1]),
        dilation=(1, dilation),
        groups=groups,
        epilogue=epilogue,
        epilogue_args=tuple(_row(a) if getattr(a, "ndim", 0) >= 2 else a for a in given),
        out=None if out is None else _row(out),
        beta=beta,
        algorithm=algorithm,
    )
    if out is not None:
        return out
    return view_of(y, (*y.shape[:2], y.shape[3]), (*y.strides[:2], y.strides[3]), y.offset)


def conv_transpose2d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Any:
    """Returns the transposed convolution: what `conv2d` does to gradients, done to images.

    Args:
        x: (N, C, H, W).
        w: (C, O / groups, KH, KW), or what `pack_weight` made of it.
        bias: (O,).
        stride: Of the convolution that it is the transpose of.
        padding: Likewise.
        dilation: Likewise.
        groups: Likewise.
        output_padding: Added to the result's height and width, below and to the right; less than
            stride or dilation.
        epilogue: As in `conv2d`.
        epilogue_args: As in `conv2d`.
        out: As in `conv2d`.
        beta: As in `conv2d`.
        algorithm: As in `conv2d`.

    Returns:
        (N, O, OH, OW) in the memory format of ``x``, with OH = (H − 1) · stride − 2 · padding
        + dilation · (KH − 1) + output_padding + 1, likewise OW.

    Raises:
        ShapeError, DTypeError, DefinitionError, DeviceError: As `conv2d` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.array([[[[1, 2]]]], np.float32))
        >>> ops.conv_transpose2d(x, cp.full((1, 1, 1, 2), 1.0), stride=2).get()
        array([[[[1., 1., 2., 2.]]]], dtype=float32)
    """
    what = "conv_transpose2d"
    extras = [] if bias is None else [bias]
    args = tuple(epilogue_args) if isinstance(epilogue_args, list) else epilogue_args
    extras += args if isinstance(args, tuple) else (args,)
    options = (
        what,
        _key(stride),
        _key(padding),
        _key(output_padding),
        algorithm,
        groups,
        _key(dilation),
        epilogue,
        bias is None,
    )

    def prepare(device: Device) -> Planned:
        check_algorithm(what, algorithm)
        matrix = matrix_of(w)
        check_operands(what, device, x=x, w=matrix)
        _rank(what, "x", x.shape)
        _rank(what, "w", matrix.shape)
        _whole(what, "groups", groups)
        if x.shape[1] != matrix.shape[0] or x.shape[1] % groups:
            raise ShapeError(
                f"{what}: x of shape {x.shape} and w of shape {matrix.shape} with groups={groups}: "
                "expected as many channels in x as outputs in w, a multiple of groups"
            )
        found = _transposed_windows(
            what, x.shape, matrix.shape, stride, padding, output_padding, dilation
        )
        shape = (x.shape[0], matrix.shape[1] * groups, found.y.size, found.x.size)
        dtype, value = product_dtypes(what, device, x.dtype, matrix.dtype)
        bias_operand = _bias(what, device, bias, shape[1])
        snippet, operands = check_epilogue(what, device, epilogue, epilogue_args, shape, value)
        check_result(what, out, device, shape, dtype, inputs=(x, matrix), extras=extras, beta=beta)
        y, described = _result(out, shape, dtype, x)
        phases = _phases(x, matrix, y, found, groups, value, bias_operand, operands, snippet)
        if not math.prod(shape):
            phases = []
        contractions = tuple(replace(p, name=what, beta=bool(beta)) for p in phases)
        return Planned(contractions, described, algorithm)

    return run_contraction(_calls, what, x, w, extras, options, prepare, out=out, beta=beta)


def conv2d_input(
    input_shape: Sequence[int],
    w: Any,
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Any:
    """Returns the gradient of `conv2d` in its input.

    Args:
        input_shape: (N, C, H, W).
        w: (O, C / groups, KH, KW), or what `pack_weight` made of it.
        grad: (N, O, OH, OW), the gradient in the result.
        stride: Of the convolution.
        padding: Of the convolution.
        dilation: Of the convolution.
        groups: Of the convolution.
        out: Where the gradient goes.
        beta: ``gradient + beta * old`` is written; 1 accumulates, and at 0 the old value is not
            read.
        algorithm: As in `conv2d`.

    Returns:
        (N, C, H, W) in the memory format of ``grad``. The same inputs give the same bits.

    Raises:
        ShapeError, DTypeError, DeviceError: As `conv2d` does.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> grad = cp.full((1, 1, 2, 2), 1.0)
        >>> ops.conv2d_input((1, 1, 3, 3), cp.full((1, 1, 2, 2), 1.0), grad).get()
        array([[[[1., 2., 1.],
                 [2., 4., 2.],
                 [1., 2., 1.]]]], dtype=float32)
    """
    what = "conv2d_input"
    options = (
        what,
        algorithm,
        _key(input_shape),
        _key(stride),
        _key(padding),
        _key(dilation),
        groups,
    )

    def prepare(device: Device) -> Planned:
        check_algorithm(what, algorithm)
        matrix = matrix_of(w)
        check_operands(what, device, w=matrix, grad=grad)
        shape = _given_shape(what, "input_shape", input_shape)
        found = _checked_windows(
            what, shape, matrix.shape, grad.shape, stride, padding, dilation, groups
        )
        dtype, value = product_dtypes(what, device, grad.dtype, matrix.dtype)
        check_result(what, out, device, shape, dtype, inputs=(grad, matrix), extras=(), beta=beta)
        y, described = _result(out, shape, dtype, grad)
        phases = _phases(grad, matrix, y, found, groups, value, None, [], None)
        if not math.prod(shape):
            phases = []
        contractions = tuple(replace(p, name=what, beta=bool(beta)) for p in phases)
        return Planned(contractions, described, algorithm)

    return run_contraction(_calls, what, grad, w, (), options, prepare, out=out, beta=beta)


def conv2d_weight(
    x: Any,
    weight_shape: Sequence[int],
    grad: Any,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Any:
    """Returns the gradient of `conv2d` in its weight.

    Args:
        x: (N, C, H, W), the input.
        weight_shape: (O, C / groups, KH, KW).
        grad: (N, O, OH, OW), the gradient in the result.
        stride: Of the convolution.
        padding: Of the convolution.
        dilation: Of the convolution.
        groups: Of the convolution.
        out: Where the gradient goes.
        beta: ``gradient + beta * old`` is written; 1 accumulates, and at 0 the old value is not
            read.
        algorithm: As in `conv2d`.

    Returns:
        (O, C / groups, KH, KW), C-contiguous. The same inputs give the same bits.

    Raises:
        ShapeError, DTypeError, DeviceError: As `conv2d` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3))
        >>> ops.conv2d_weight(x, (1, 1, 2, 2), cp.full((1, 1, 2, 2), 1.0)).get()
        array([[[[ 8., 12.],
                 [20., 24.]]]], dtype=float32)
    """
    what = "conv2d_weight"
    options = (
        what,
        algorithm,
        _key(weight_shape),
        _key(stride),
        _key(padding),
        _key(dilation),
        groups,
    )

    def prepare(device: Device) -> Planned:
        check_algorithm(what, algorithm)
        check_operands(what, device, x=x, grad=grad)
        shape = _given_shape(what, "weight_shape", weight_shape)
        found = _checked_windows(
            what, x.shape, shape, grad.shape, stride, padding, dilation, groups
        )
        dtype, value = product_dtypes(what, device, x.dtype, grad.dtype)
        check_result(what, out, device, shape, dtype, inputs=(x, grad), extras=(), beta=beta)
        strides = dense_strides(shape, dtype.itemsize, range(4)) if out is None else out.strides
        y = operand_of(out) if out is not None else Operand(shape, strides, 0, dtype)
        contraction = _weight_gradient(x, grad, y, found, groups, value)
        contractions = (replace(contraction, beta=bool(beta)),) if math.prod(shape) else ()
        return Planned(contractions, (shape, dtype, strides, math.prod(shape)), algorithm)

    return run_contraction(_calls, what, x, grad, (), options, prepare, out=out, beta=beta)


_bias_gradient = Reduction(
    "", init="reduce_y0 = 0;", step="reduce_y0 += x0;", name="conv2d_bias", result_type=None
)


def conv2d_bias(grad: Any, *, out: Any = None, beta: float = 0) -> Any:
    """Returns the gradient of `conv2d` in its bias: the sums (O,) of ``grad`` (N, O, OH, OW).

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> ops.conv2d_bias(cp.full((2, 3, 4, 4), 1.0)).get()
        array([32., 32., 32.], dtype=float32)
    """
    if len(getattr(grad, "shape", (0,) * 4)) != 4:
        raise ShapeError(f"conv2d_bias: grad has shape {grad.shape}, expected 4 dimensions")
    return _bias_gradient(grad, axis=(0, 2, 3), out=out, beta=beta)


# --- checks --------------------------------------------------------------------------------------


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _row(array: Any) -> Any:
    """An array of rows as one of images one pixel high."""
    if not hasattr(array, "strides") or not hasattr(array, "base_data"):
        return array  # conv2d says what is wrong with it
    shape, strides = list(array.shape), list(array.strides)
    shape.insert(-1, 1)
    strides.insert(-1, strides[-1] * shape[-1])
    return view_of(array, tuple(shape), tuple(strides), array.offset)


class PackedRow(PackedWeight):
    """A packed weight of rows, seen as one of images one pixel high."""

    def __init__(self, weight: PackedWeight) -> None:
        super().__init__(_row(weight.array))
        self._packed = weight._packed


def _whole(what: str, label: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ShapeError(f"{what}: {label}={value!r}: expected a whole number of at least 1")


def _rank(what: str, label: str, shape: Sequence[int]) -> None:
    if len(shape) != 4:
        raise ShapeError(f"{what}: {label} has shape {tuple(shape)}, expected 4 dimensions")


def _given_shape(what: str, label: str, shape: Any) -> Shape4:
    try:
        a, b, c, d = (int(n) for n in shape)
    except (TypeError, ValueError):
        raise ShapeError(f"{what}: {label}={shape!r}: expected 4 sizes") from None
    if min(a, b, c, d) < 0:
        raise ShapeError(f"{what}: {label}={shape!r}: expected 4 sizes of at least 0")
    return a, b, c, d


def _shapes(what: str, x: Sequence[int], w: Sequence[int], groups: Any) -> tuple[int, int]:
    """Returns outputs in all and inputs of a group, of shapes that fit."""
    _rank(what, "x", x)
    _rank(what, "w", w)
    _whole(what, "groups", groups)
    if x[1] % groups or w[0] % groups:
        raise ShapeError(
            f"{what}: {x[1]} channels of x (shape {tuple(x)}) and {w[0]} outputs of w (shape "
            f"{tuple(w)}) do not both divide into groups={groups}"
        )
    if x[1] // groups != w[1]:
        raise ShapeError(
            f"{what}: x of shape {tuple(x)} with groups={groups} needs a weight of shape "
            f"({w[0]}, {x[1] // groups}, {w[2]}, {w[3]}), got {tuple(w)}"
        )
    return w[0], w[1]


def _checked_windows(
    what: str,
    x: Shape4,
    w: Shape4,
    grad: Sequence[int],
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Windows:
    _rank(what, "grad", grad)
    _shapes(what, x, w, groups)
    found = windows(what, x[2:], w[2:], stride=stride, padding=padding, dilation=dilation)
    expected = (x[0], w[0], found.y.windows, found.x.windows)
    if tuple(grad) != expected:
        raise ShapeError(f"{what}: grad has shape {tuple(grad)}, expected {expected}")
    return found


def _transposed_windows(
    what: str,
    x: Shape4,
    w: Shape4,
    stride: Pair,
    padding: Pair,
    output_padding: Pair,
    dilation: Pair,
) -> Windows:
    """The windows of the convolution whose result has the size of ``x``."""
    # A large enough input lets the numbers be checked before its size is known.
    probe = windows(
        what, (1 << 24, 1 << 24), w[2:], stride=stride, padding=padding, dilation=dilation
    )
    extra = windows(what, (1 << 24, 1 << 24), (1, 1), stride=1, padding=output_padding, dilation=1)
    axes = []
    for axis, more, size in zip(
        (probe.y, probe.x), (extra.y.after, extra.x.after), x[2:], strict=True
    ):
        if more and more >= max(axis.stride, axis.dilation):
            raise ShapeError(
                f"{what}: output_padding={output_padding!r} must be less than stride={stride!r} "
                f"or dilation={dilation!r}"
            )
        result = (size - 1) * axis.stride - axis.before - axis.after + axis.reach + more
        if result < 1:
            raise ShapeError(
                f"{what}: x of shape {tuple(x)} with a kernel of {tuple(w[2:])}, stride={stride!r} "
                f"and padding={padding!r} leaves a result of size {result}"
            )
        axes.append(replace(axis, size=result))
    return Windows(*axes)


def _bias(what: str, device: Device, bias: Any, outputs: int) -> Operand | None:
    """Returns the bias as an operand that broadcasts to the result."""
    if bias is None:
        return None
    check_operands(what, device, bias=bias)
    if bias.shape != (outputs,):
        raise ShapeError(f"{what}: bias has shape {bias.shape}, expected ({outputs},)")
    return Operand((outputs, 1, 1), (bias.strides[0], 0, 0), bias.offset, bias.dtype)


def _result(
    out: Any, shape: tuple[int, ...], dtype: AnyDType, like: Any
) -> tuple[Operand, tuple[tuple[int, ...], AnyDType, tuple[int, ...], int]]:
    """Returns the result as an operand, and how to allocate it."""
    if out is not None:
        return operand_of(out), (out.shape, out.dtype, out.strides, out.size)
    order = (0, 2, 3, 1) if is_channels_last(like.shape, like.strides) else (0, 1, 2, 3)
    strides = dense_strides(shape, dtype.itemsize, order)
    return Operand(shape, strides, 0, dtype), (shape, dtype, strides, math.prod(shape))


# --- as contractions -----------------------------------------------------------------------------


def _extras(bias: Operand | None, operands: Sequence[Operand]) -> list[tuple[str, Operand]]:
    named = [(f"x{n}", operand) for n, operand in enumerate(operands)]
    return named if bias is None else [("bias", bias), *named]


def _forward(
    x: Any,
    w: Any,
    y: Operand,
    found: Windows,
    groups: int,
    value: AnyDType,
    bias: Operand | None,
    operands: Sequence[Operand],
    epilogue: Snippet | None,
) -> Contraction:
    """Lanes are windows (image, y, x), depths their elements (y, x, channel)."""
    xn, xc, xh, xw = elements(x)
    wo, wc, wh, ww = elements(w)
    n, h, v = y.shape[0], found.y, found.x
    channels, outputs = w.shape[1], w.shape[0] // groups
    places = [
        output(name, o, y.shape, group=None, channel=1, lane=(0, 2, 3), channels=outputs)
        for name, o in [("y0", y), *_extras(bias, operands)]
    ]
    return Contraction(
        name="conv2d",
        groups=groups,
        lanes=(n, h.windows, v.windows),
        depths=(h.kernel, v.kernel, channels),
        outputs=outputs,
        value=value,
        gathered=Gathered(
            x.dtype,
            start(x) - h.before * xh - v.before * xw,
            channels * xc,
            (xn, h.stride * xh, v.stride * xw),
            (h.dilation * xh, v.dilation * xw, xc),
            span(x),
            _bounds(found),
        ),
        packed=Packed(w.dtype, start(w), outputs * wo, wo, (wh, ww, wc)),
        y=places[0],
        extras=tuple(places[1:]),
        epilogue=epilogue,
    )


def _bounds(found: Windows) -> Bounds | None:
    h, v = found.y, found.x
    if not (h.leaves or v.leaves):
        return None
    return Bounds(
        h.size,
        v.size,
        -h.before,
        -v.before,
        row_lane=(0, h.stride),
        row_depth=(h.dilation, 0),
        column_lane=(0, v.stride),
        column_depth=(v.dilation, 0),
    )


def _weight_gradient(
    x: Any, grad: Any, y: Operand, found: Windows, groups: int, value: AnyDType
) -> Contraction:
    """Lanes are elements of a window (y, x, channel), depths the windows (image, y, x)."""
    xn, xc, xh, xw = elements(x)
    gn, go, gh, gw = elements(grad)
    h, v = found.y, found.x
    outputs, channels = y.shape[0] // groups, y.shape[1]
    bounds = _bounds(found)
    if bounds is not None:
        bounds = replace(
            bounds,
            row_lane=(h.dilation, 0),
            row_depth=(0, h.stride),
            column_lane=(v.dilation, 0),
            column_depth=(0, v.stride),
        )
    return Contraction(
        name="conv2d_weight",
        groups=groups,
        lanes=(h.kernel, v.kernel, channels),
        depths=(x.shape[0], h.windows, v.windows),
        outputs=outputs,
        value=value,
        gathered=Gathered(
            x.dtype,
            start(x) - h.before * xh - v.before * xw,
            channels * xc,
            (h.dilation * xh, v.dilation * xw, xc),
            (xn, h.stride * xh, v.stride * xw),
            span(x),
            bounds,
        ),
        packed=Packed(grad.dtype, start(grad), outputs * go, go, (gn, gh, gw)),
        y=output("y0", y, y.shape, group=None, channel=0, lane=(2, 3, 1), channels=outputs),
    )


def _phase(axis: Axis, remainder: int) -> tuple[int, int, int, int, int]:
    """One phase of the transpose: input elements ``remainder + stride · u``.

    Tap k reaches such an element from output (remainder + stride · u + before − k · dilation) /
    stride, for those k for which this is whole.

    Returns:
        (elements u, first tap, step of taps, how many taps, output of u = 0 and the first tap); the
        next tap's output lies step · dilation / stride before.
    """
    s, d = axis.stride, axis.dilation
    step = s // math.gcd(s, d)
    count = -(-(axis.size - remainder) // s)
    for first in range(min(step, axis.kernel)):
        whole, rest = divmod(remainder + axis.before - first * d, s)
        if not rest:
            return count, first, step, -(-(axis.kernel - first) // step), whole
    return count, 0, step, 0, 0


def _phases(
    grad: Any,
    w: Any,
    y: Operand,
    found: Windows,
    groups: int,
    value: AnyDType,
    bias: Operand | None,
    operands: Sequence[Operand],
    epilogue: Snippet | None,
) -> list[Contraction]:
    """Lanes are input elements (image, y, x) of one phase, depths (tap y, tap x, output)."""
    gn, go, gh, gw = elements(grad)
    wo, wc, wh, ww = elements(w)
    outputs, channels = w.shape[0] // groups, w.shape[1]
    h, v = found.y, found.x
    places = [
        output(name, o, y.shape, group=None, channel=1, lane=(0, 2, 3), channels=channels)
        for name, o in [("y0", y), *_extras(bias, operands)]
    ]
    phases = []
    for a in range(min(h.stride, h.size)):
        rows, first_y, step_y, taps_y, whole_y = _phase(h, a)
        back_y = step_y * h.dilation // h.stride
        for b in range(min(v.stride, v.size)):
            columns, first_x, step_x, taps_x, whole_x = _phase(v, b)
            back_x = step_x * v.dilation // v.stride
            moved = [
                replace(
                    p,
                    start=p.start + a * p.lane[1] + b * p.lane[2],
                    lane=(p.lane[0], h.stride * p.lane[1], v.stride * p.lane[2]),
                )
                for p in places
            ]
            # Taps reach back; counted from the last one, depths walk upwards.
            top, left = whole_y - (taps_y - 1) * back_y, whole_x - (taps_x - 1) * back_x
            last_y, last_x = first_y + (taps_y - 1) * step_y, first_x + (taps_x - 1) * step_x
            phases.append(
                Contraction(
                    name="conv2d_input",
                    groups=groups,
                    lanes=(grad.shape[0], rows, columns),
                    depths=(taps_y, taps_x, outputs),
                    outputs=channels,
                    value=value,
                    gathered=Gathered(
                        grad.dtype,
                        start(grad) + top * gh + left * gw,
                        outputs * go,
                        (gn, gh, gw),
                        (back_y * gh, back_x * gw, go),
                        span(grad),
                        Bounds(
                            grad.shape[2],
                            grad.shape[3],
                            top,
                            left,
                            row_lane=(0, 1),
                            row_depth=(back_y, 0),
                            column_lane=(0, 1),
                            column_depth=(back_x, 0),
                        ),
                    ),
                    packed=Packed(
                        w.dtype,
                        start(w) + last_y * wh + last_x * ww,
                        outputs * wo,
                        wc,
                        (-step_y * wh, -step_x * ww, wo),
                    ),
                    y=moved[0],
                    extras=tuple(moved[1:]),
                    epilogue=epilogue,
                )
            )
    return phases
