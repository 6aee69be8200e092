"""Pooling by the greatest element of a window, and back: names and arguments after PyTorch.

NaN is greater than everything; of equal elements the first one counts. The gradient is gathered:
every element of the input adds up the windows that chose it, in their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.call.repeat import repeatable
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError
from clprim.ops.pool.windows import Numbers, Windows, check_gradient, numbers, windows
from clprim.ops.shared.arguments import dtype_of
from clprim.ops.shared.strings import kernel, places

__all__ = [
    "lowest",
    "max_pool1d",
    "max_pool1d_backward",
    "max_pool2d",
    "max_pool2d_backward",
    "max_pool3d",
    "max_pool3d_backward",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

_INDEX = np.dtype(np.int64)


def max_pool1d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Returns the greatest element of every window of (N, C, L) or (C, L); see `max_pool2d`."""
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool("max_pool1d", 1, x, *given, return_indices, out)


def max_pool2d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Returns the greatest element of every window.

    Args:
        x: (N, C, H, W) or (C, H, W), in any memory format and dtype.
        kernel_size: Height and width of a window: a number, or one for each.
        stride: From one window to the next, likewise; None is the size of a window.
        padding: Rows and columns around x that are less than everything, likewise.
        dilation: From one element of a window to the next, likewise.
        ceil_mode: Whether a last window may reach beyond the padding.
        return_indices: Whether to return (result, indices), which are the flat positions in the
            plane of the elements that were chosen, in int64.
        out: Where the result goes; with indices a pair.

    Raises:
        ShapeError: Another number of dimensions, sizes that are none, a padding of more than half
            of a window, no window at all.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[[1, 5, 2, 4], [0, 3, 9, 1]]]))
        >>> y, indices = ops.max_pool2d(x, 2, return_indices=True)
        >>> y.get().ravel(), indices.get().ravel()
        (array([5., 9.], dtype=float32), array([1, 6]))
    """
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool("max_pool2d", 2, x, *given, return_indices, out)


def max_pool3d(
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Returns the greatest element of every window of (N, C, D, H, W); see `max_pool2d`."""
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool("max_pool3d", 3, x, *given, return_indices, out)


@repeatable
def _max_pool(
    what: str,
    ndim: int,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
    return_indices: bool,
    out: Any,
) -> Any:
    w = windows(what, x, ndim, kernel_size, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[: w.lead], *w.outputs)
    dtypes = (x.dtype, _INDEX) if return_indices else (x.dtype,)
    operator = kernel(_forward(w, x.dtype, return_indices), what, *dtypes)
    return operator(x, shape=shape, out=out)


def lowest(dtype: AnyDType) -> str:
    """Returns a literal of the least value, below which no element is."""
    if dtype.kind == "b":
        return "0"
    if dtype.kind not in "iu":
        return "-INFINITY"
    least = int(np.iinfo(dtype).min)
    return f"({least + 1} - 1)" if least else "0"  # C has no literal for the least number


def _forward(w: Windows, dtype: AnyDType, indices: bool) -> str:
    element = places(w.lead + len(w.axes), {w.lead + d: f"i{d}" for d in w.axes})
    greater = "v > best" if dtype.kind in "biu" else "v > best || v != v"
    if not indices:
        body = f"""
            typeof_y0 best = {lowest(dtype)};
            LOOPS {{
                typeof_y0 v = at_x0({element});
                {"if (inside) " if w.dilated else ""}best = {greater} ? v : best;
            END
            y0 = best;"""
        return w.over_window("x0", body, edges=w.dilated)
    guard = "inside && " if w.dilated else ""
    body = f"""
        typeof_y0 best = {lowest(dtype)};
        long chosen = -1;
        LOOPS {{
            typeof_y0 v = at_x0({element});
            if ({guard}({greater} || chosen < 0)) {{
                best = v;
                chosen = {w.flat("x0", "i")};
            }}
        END
        y0 = best;
        y1 = chosen;"""
    return w.over_window("x0", body, edges=w.dilated)


# --- gradients ------------------------------------------------------------------------------------


def max_pool1d_backward(
    grad: Any,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    indices: Any = None,
) -> Array:
    """Returns the gradient of `max_pool1d` in x; see `max_pool2d_backward`."""
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool_backward("max_pool1d_backward", 1, grad, x, *given, indices)


def max_pool2d_backward(
    grad: Any,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    indices: Any = None,
) -> Array:
    """Returns the gradient of `max_pool2d` in x.

    Args:
        grad: Of the result.
        x: What was pooled, in whose memory format the gradient is.
        kernel_size: As in the call.
        stride: Likewise.
        padding: Likewise.
        dilation: Likewise.
        ceil_mode: Likewise.
        indices: As the call returned them; computed anew where they are None.

    Raises:
        ShapeError, DTypeError: As `max_pool2d`, and of another grad or indices.
    """
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool_backward("max_pool2d_backward", 2, grad, x, *given, indices)


def max_pool3d_backward(
    grad: Any,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    indices: Any = None,
) -> Array:
    """Returns the gradient of `max_pool3d` in x; see `max_pool2d_backward`."""
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool_backward("max_pool3d_backward", 3, grad, x, *given, indices)


@repeatable
def _max_pool_backward(
    what: str,
    ndim: int,
    grad: Any,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
    indices: Any,
) -> Array:
    w = windows(what, x, ndim, kernel_size, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[: w.lead], *w.outputs)
    check_gradient(what, "grad", grad, shape)
    if indices is None:
        given = (kernel_size, stride, padding, dilation, ceil_mode)
        _, indices = _max_pool(what, ndim, x, *given, True, None)
    _check_indices(what, indices, shape)
    expr = f"(void)x0;\n{_gathered(w, 'x1', 'x2', '+=')}"
    operator = kernel(expr, what, grad.dtype)
    return operator(x, grad, indices)


def _check_indices(what: str, indices: Any, shape: tuple[int, ...]) -> None:
    if dtype_of(what, "indices", indices) != _INDEX:
        raise DTypeError(f"{what}: expected indices of int64, got {indices.dtype}")
    if indices.shape != shape:
        raise ShapeError(f"{what}: indices have shape {indices.shape}, expected {shape}")


def _gathered(w: Windows, values: str, chosen: str, op: str) -> str:
    """What the windows that chose an element of y0 hold in an array; another says their choice."""
    ndim = w.lead + len(w.axes)
    window = places(ndim, {w.lead + d: f"o{d}" for d in w.axes})
    flat = f"coord({w.lead})"
    for d in w.axes[1:]:
        flat = f"({flat}) * size({w.lead + d}) + coord({w.lead + d})"
    body = f"""
        long here = {flat};
        typeof_{values} sum = 0;
        LOOPS {{
            typeof_{values} v = at_{values}({window});
            sum {op} inside && at_{chosen}({window}) == here ? v : {"sum" if op == "=" else "0"};
        END
        y0 = sum;"""
    return w.over_outputs(values, body)


# --- unpooling ------------------------------------------------------------------------------------


def max_unpool1d(
    x: Any,
    indices: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Any = None,
) -> Array:
    """Puts elements back where `max_pool1d` found them; see `max_unpool2d`."""
    return _unpool("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    x: Any,
    indices: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Any = None,
) -> Array:
    """Puts elements back where `max_pool2d` found them, between zeros.

    Args:
        x: (N, C, H, W) or (C, H, W): a value for every window.
        indices: As `max_pool2d` returned them, of the same windows: each of them lies in its
            window. Where windows share an element, the last one decides.
        kernel_size: As in that call.
        stride: Likewise.
        padding: Likewise.
        output_size: Shape of the result, or its height and width; by default of what the windows
            cover.

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[[1, 5, 2, 4], [0, 3, 9, 1]]]))
        >>> ops.max_unpool2d(*ops.max_pool2d(x, 2, return_indices=True), 2).get()
        array([[[0., 5., 0., 0.],
                [0., 0., 9., 0.]]], dtype=float32)
    """
    return _unpool("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    x: Any,
    indices: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Any = None,
) -> Array:
    """Puts elements back where `max_pool3d` found them; see `max_unpool2d`."""
    return _unpool("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)


@repeatable
def _unpool(
    what: str,
    ndim: int,
    x: Any,
    indices: Any,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    output_size: Any,
) -> Array:
    # One window an element: what must be said of them is what is said of a pooling of x itself.
    one = windows(what, x, ndim, 1, None, 0)
    _check_indices(what, indices, x.shape)
    kernel_ = numbers(what, "kernel_size", kernel_size, ndim, 1)
    steps = kernel_ if stride is None else numbers(what, "stride", stride, ndim, 1)
    pads = numbers(what, "padding", padding, ndim, 0)
    sizes = tuple(
        (n - 1) * s - 2 * p + k for n, s, p, k in zip(one.sizes, steps, pads, kernel_, strict=True)
    )
    if output_size is not None:
        given = tuple(output_size)
        if given[: one.lead] == x.shape[: one.lead] and len(given) == x.ndim:
            given = given[one.lead :]
        close = len(given) == ndim and all(
            abs(g - n) < s for g, n, s in zip(given, sizes, steps, strict=True)
        )
        if not close:
            raise ShapeError(
                f"{what}: output_size={output_size!r}: expected less than a stride from {sizes}"
            )
        sizes = given
    w = Windows(one.lead, sizes, kernel_, steps, pads, (1,) * ndim, one.sizes)
    shape = (*x.shape[: one.lead], *sizes)
    operator = kernel(_gathered(w, "x0", "x1", "="), what, x.dtype)
    return operator(x, indices, shape=shape)
