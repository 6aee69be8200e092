"""Windows as columns, and back: `torch.nn.functional.unfold` and `fold`, each other's gradients.

Images have one to three dimensions, and borders may be others before and behind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.errors import ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.pool.sliding import sliding
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.window import Numbers, Padding, numbers


@operator(torch="im2col", sample="x, 2", wrt="x")
@repeatable
def unfold(
    x: Any,
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Padding = 0,
    stride: Numbers = 1,
) -> Array:
    """Returns the windows of images as columns.

    Args:
        x: (N, C, H, W), in any memory format and dtype; or (N, C, L), or (N, C, D, H, W).
        kernel_size: Height and width of a window: a number, or one for each. Of other images than
            those of two dimensions as many numbers as they have.
        dilation: From one element of a window to the next, likewise.
        padding: Rows and columns of zeros around x, likewise; or a pair for each, before and
            behind x.
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
    ndim = x.ndim - 2
    told = len(kernel_size) if isinstance(kernel_size, Sequence) else 2
    if ndim not in (1, 2, 3) or told not in (1, ndim) or (told == 1 and ndim == 3):
        raise ShapeError(
            f"{what}: expected x of 4 dimensions, or of 3 or 5 and a kernel_size of 1 or 3 "
            f"numbers, got shape {x.shape} and kernel_size={quoted(kernel_size)}"
        )
    w = sliding(what, x.shape[2:], kernel_size, dilation, padding, stride, free=True)
    lines = w.declared()
    for d in w.axes:
        i = f"(int)coord({2 + ndim + d}) * stride{d} - before{d}"
        lines.append(f"int i{d} = {i} + (int)coord({2 + d}) * apart{d};")
    inside = " && ".join(f"i{d} >= 0 && i{d} < size_x0({2 + d})" for d in w.axes)
    element = ", ".join(f"i{d}" for d in w.axes)
    lines.append(f"y0 = {inside} ? at_x0(coord(0), coord(1), {element}) : 0;")
    shape = (*x.shape[:2], *w.kernel, *w.outputs)
    y = kernel("\n".join(lines), what, dtype)(x, *w.numbers, shape=shape)
    n, c = x.shape[:2]
    return y.reshape(n, c * math.prod(w.kernel), math.prod(w.outputs))


@operator(torch="col2im", sample="x[..., 0], (1, 6), (1, 3)", wrt="x")
@repeatable
def fold(
    x: Any,
    output_size: Numbers,
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Padding = 0,
    stride: Numbers = 1,
) -> Array:
    """Returns images that columns of windows are added up to.

    Args:
        x: (N, C · elements of a window, windows), as `unfold` returns them.
        output_size: Height and width of the images: a number, or one for each; of one dimension
            (L,), of three (D, H, W).
        kernel_size: As in `unfold`.
        dilation: Likewise.
        padding: Likewise.
        stride: Likewise.

    Returns:
        (N, C, H, W), (N, C, L) or (N, C, D, H, W).

    Raises:
        ShapeError: Shapes and sizes that do not fit.
        DTypeError: No device array.
    """
    what = "fold"
    dtype = dtype_of(what, "x", x)
    ndim = len(output_size) if isinstance(output_size, Sequence) else 2
    if ndim not in (1, 2, 3):
        raise ShapeError(f"{what}: {output_size=}: expected 1 to 3 numbers")
    sizes = numbers(what, "output_size", output_size, ndim, 1)
    w = sliding(what, sizes, kernel_size, dilation, padding, stride)
    taps, count = math.prod(w.kernel), math.prod(w.outputs)
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != count:
        raise ShapeError(
            f"{what}: expected x of shape (N, C · {taps}, {count}) for images of {sizes}, got "
            f"{x.shape}"
        )
    n, c, column = x.strides
    shape = (x.shape[0], x.shape[1] // taps, *w.kernel, *w.outputs)
    inner = [math.prod(w.kernel[d + 1 :]) * c for d in w.axes]
    inner += [math.prod(w.outputs[d + 1 :]) * column for d in w.axes]
    strides = (n, taps * c, *inner)
    apart = [f" / apart{d}" if w.dilated else "" for d in w.axes]
    place = ", ".join([f"tap{d}{apart[d]}" for d in w.axes] + [f"o{d}" for d in w.axes])
    body = f"""
        typeof_x0 sum = 0;
        LOOPS {{
            sum += inside ? at_x0(coord(0), coord(1), {place}) : 0;
        END
        y0 = sum;"""
    expr = w.over_outputs("x0", body)
    for d in reversed(w.axes):  # the windows' numbers are the last dimensions of the view
        expr = expr.replace(f"size_x0({2 + d})", f"size_x0({2 + ndim + d})")
    view = view_of(x, shape, strides, x.offset)
    return kernel(expr, what, dtype)(view, *w.numbers, shape=(*shape[:2], *sizes))


def unfold_backward(
    grad: Any,
    input_size: Sequence[int],
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Padding = 0,
    stride: Numbers = 1,
) -> Array:
    """Returns the gradient of `unfold` in x of a shape, or of a height and width."""
    sizes = tuple(input_size)[2:] if len(input_size) > 2 else tuple(input_size)
    return fold(grad, sizes, kernel_size, dilation, padding, stride)


def fold_backward(
    grad: Any,
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Padding = 0,
    stride: Numbers = 1,
) -> Array:
    """Returns the gradient of `fold` in x."""
    dtype_of("fold_backward", "grad", grad)
    return unfold(grad, kernel_size, dilation, padding, stride)
