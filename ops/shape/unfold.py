"""Windows as columns, and back: `torch.nn.functional.unfold` and `fold`, each other's gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.call.repeat import repeatable
from clprim.errors import ShapeError
from clprim.ops.pool.windows import Numbers, Windows, numbers
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import dtype_of
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel


@operator(torch="im2col", sample="x, 2")
@repeatable
def unfold(
    x: Any,
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    stride: Numbers = 1,
) -> Array:
    """Returns the windows of images as columns.

    Args:
        x: (N, C, H, W), in any memory format and dtype.
        kernel_size: Height and width of a window: a number, or one for each.
        dilation: From one element of a window to the next, likewise.
        padding: Rows and columns of zeros around x, likewise.
        stride: From one window to the next, likewise.

    Returns:
        (N, C · elements of a window, windows). (For a view of the windows, see `clprim.windows`.)

    Raises:
        ShapeError: Another number of dimensions, sizes that are none, no window at all.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3))
        >>> ops.unfold(x, 2).get()
        array([[[0., 1.],
                [1., 2.],
                [3., 4.],
                [4., 5.]]], dtype=float32)
    """
    what = "unfold"
    dtype = dtype_of(what, "x", x)
    if x.ndim != 4:
        raise ShapeError(f"{what}: expected x of 4 dimensions, got shape {x.shape}")
    w = _windows(what, x.shape[2:], kernel_size, dilation, padding, stride)
    lines = []
    for d in w.axes:
        i = f"(int)coord({4 + d}) * {w.stride[d]} - {w.padding[d]}"
        lines.append(f"int i{d} = {i} + (int)coord({2 + d}) * {w.dilation[d]};")
    inside = " && ".join(f"i{d} >= 0 && i{d} < size_x0({2 + d})" for d in w.axes)
    lines.append(f"y0 = {inside} ? at_x0(coord(0), coord(1), i0, i1) : 0;")
    shape = (*x.shape[:2], *w.kernel, *w.outputs)
    y = kernel("\n".join(lines), what, dtype)(x, shape=shape)
    n, c = x.shape[:2]
    return y.reshape(n, c * w.kernel[0] * w.kernel[1], w.outputs[0] * w.outputs[1])


@operator(torch="col2im", sample="x[..., 0], (1, 6), (1, 3)")
@repeatable
def fold(
    x: Any,
    output_size: Numbers,
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    stride: Numbers = 1,
) -> Array:
    """Returns images that columns of windows are added up to.

    Args:
        x: (N, C · elements of a window, windows), as `unfold` returns them.
        output_size: Height and width of the images: a number, or one for each.
        kernel_size: As in `unfold`.
        dilation: Likewise.
        padding: Likewise.
        stride: Likewise.

    Returns:
        (N, C, H, W).

    Raises:
        ShapeError: Shapes and sizes that do not fit.
        DTypeError: No device array.
    """
    what = "fold"
    dtype = dtype_of(what, "x", x)
    sizes = numbers(what, "output_size", output_size, 2, 1)
    w = _windows(what, sizes, kernel_size, dilation, padding, stride)
    taps, count = w.kernel[0] * w.kernel[1], w.outputs[0] * w.outputs[1]
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != count:
        raise ShapeError(
            f"{what}: expected x of shape (N, C · {taps}, {count}) for images of {sizes}, got "
            f"{x.shape}"
        )
    n, c, column = x.strides
    shape = (x.shape[0], x.shape[1] // taps, *w.kernel, *w.outputs)
    strides = (n, taps * c, w.kernel[1] * c, c, w.outputs[1] * column, column)
    place = ", ".join(f"tap{d} / {w.dilation[d]}" for d in w.axes)
    body = f"""
        typeof_x0 sum = 0;
        LOOPS {{
            sum += inside ? at_x0(coord(0), coord(1), {place}, o0, o1) : 0;
        END
        y0 = sum;"""
    # The windows' numbers are the last two dimensions of the view.
    expr = w.over_outputs("x0", body).replace("size_x0(2)", "size_x0(4)")
    expr = expr.replace("size_x0(3)", "size_x0(5)")
    view = view_of(x, shape, strides, x.offset)
    return kernel(expr, what, dtype)(view, shape=(*shape[:2], *sizes))


def unfold_backward(
    grad: Any,
    input_size: Sequence[int],
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    stride: Numbers = 1,
) -> Array:
    """Returns the gradient of `unfold` in x of a height and width (the last of input_size)."""
    return fold(grad, tuple(input_size)[-2:], kernel_size, dilation, padding, stride)


def fold_backward(
    grad: Any,
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    stride: Numbers = 1,
) -> Array:
    """Returns the gradient of `fold` in x."""
    dtype_of("fold_backward", "grad", grad)
    return unfold(grad, kernel_size, dilation, padding, stride)


def _windows(
    what: str,
    sizes: tuple[int, ...],
    kernel_size: Numbers,
    dilation: Numbers,
    padding: Numbers,
    stride: Numbers,
) -> Windows:
    k = numbers(what, "kernel_size", kernel_size, 2, 1)
    s = numbers(what, "stride", stride, 2, 1)
    p = numbers(what, "padding", padding, 2, 0)
    apart = numbers(what, "dilation", dilation, 2, 1)
    outputs = tuple(
        (whole(what, "a size", n) + 2 * q - (m - 1) * e - 1) // t + 1
        for n, m, t, q, e in zip(sizes, k, s, p, apart, strict=True)
    )
    if min(outputs) < 1:
        raise ShapeError(f"{what}: images of {tuple(sizes)} have no window of {k}")
    return Windows(2, tuple(sizes), k, s, p, apart, outputs)
