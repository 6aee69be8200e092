"""Pooling by the greatest element of a window, and back: names and arguments after PyTorch.

NaN is greater than everything; of equal elements the first one counts. Every element of the
gradient adds up the windows that chose it, in their order: gathered by each, or a plane at a time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.index.scatter import scatter_add
from clprim.ops.pool.overloads import MAXIMA, MaxPool
from clprim.ops.pool.sliding import Windows, lead_of, windows
from clprim.ops.shared.checks import check_floating, check_shape, dtype_of
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.epilogue import stored
from clprim.ops.shared.ranks import Store, of_rank, rank_of
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.window import Numbers, Padding
from clprim.primitives.lines import take_lines

if TYPE_CHECKING:
    from typing_extensions import Unpack

_INDEX = np.dtype(np.int64)


@repeatable
def _max_pool(
    what: str,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    **store: Unpack[Store],
) -> Array | tuple[Array, Array]:
    """Returns the greatest element of every window.

    Args:
        x: (N, C, H, W) or (C, H, W), in any memory format and dtype.
        kernel_size: Height and width of a window: a number, or one for each.
        stride: From one window to the next, likewise; None is the size of a window.
        padding: Rows and columns around x that are less than everything, likewise; or a pair for
            each, before and behind x: ``((top, bottom), (left, right))``.
        dilation: From one element of a window to the next, likewise.
        ceil_mode: Whether a last window may reach beyond the padding.
        return_indices: Whether to return (result, indices), which are the flat positions in the
            plane of the elements that were chosen, in int64.
        epilogue: A snippet on ``y0``, run before it is stored; it reads ``x0``, …, ``w0``, ….
        epilogue_args: Those arrays, which broadcast to the result, then the numbers.
        out: Where the result goes; with indices a pair.

    Raises:
        ShapeError: Another number of dimensions, sizes that are none, a padding of more than half
            of a window (a whole one of pairs), no window at all.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[[1, 5, 2, 4], [0, 3, 9, 1]]]))
        >>> y, indices = ops.max_pool2d(x, 2, return_indices=True)
        >>> y.get().ravel(), indices.get().ravel()
        (array([5., 9.], dtype=float32), array([1, 6]))
    """
    w = windows(what, x, rank_of(what), kernel_size, stride, padding, dilation, ceil_mode)
    w = replace(w, free=True)
    shape = (*x.shape[: w.lead], *w.outputs)
    dtypes = (x.dtype, _INDEX) if return_indices else (x.dtype,)
    text = _forward(w, x.dtype, return_indices)
    return stored(what, text, shape, dtypes, ([x], w.numbers), store)


max_pool1d = cast("MaxPool", of_rank(_max_pool, "max_pool1d", sample="image(1), 2", **MAXIMA))
max_pool2d = cast(
    "MaxPool",
    of_rank(
        _max_pool,
        "max_pool2d",
        torch="max_pool2d_with_indices return_indices=True @format0;"
        "max_pool2d_with_indices_backward @format1",
        onnx="MaxPool(x) ceil_mode=0 @2 @positions @windows",
        sample="image(2), 2",
        **MAXIMA,
    ),
)
max_pool3d = cast(
    "MaxPool",
    of_rank(
        _max_pool,
        "max_pool3d",
        torch="max_pool3d_with_indices return_indices=True @format0;"
        "max_pool3d_with_indices_backward @format1",
        sample="image(3), 2",
        **MAXIMA,
    ),
)


def lowest(dtype: AnyDType) -> str:
    """Returns a literal of the least value, below which no element is."""
    if dtype.kind == "b":
        return "0"
    if dtype.kind not in "iu":
        return "-INFINITY"
    least = int(np.iinfo(dtype).min)
    return f"({least + 1} - 1)" if least else "0"  # C has no literal for the least number


def _forward(w: Windows, dtype: AnyDType, indices: bool) -> str:
    greater = "v > best" if dtype.kind in "biu" else "v > best || v != v"
    if not indices:
        body = f"""
            typeof_y0 best = {lowest(dtype)};
            LOOPS {{
                typeof_y0 v = at_x0({w.element});
                {"if (inside) " if w.dilated else ""}best = {greater} ? v : best;
            END
            y0 = best;"""
        return w.over_window(body, edges=w.dilated)
    # Comparisons and choices of 64 bits take two vectors for one of elements.
    place = "int" if math.prod(w.sizes) < 2**31 else "long"
    if w.dilated:
        start, guard, none = "-1", "inside && ", " || chosen < 0"
    else:  # what is nearest to the window's begin is its first element
        start, guard, none = w.first(), "", ""
    body = f"""
        typeof_y0 best = {lowest(dtype)};
        {place} chosen = {start};
        LOOPS {{
            typeof_y0 v = at_x0({w.element});
            chosen = {guard}({greater}{none}) ? {w.flat(place)} : chosen;
            best = {guard}({greater}) ? v : best;
        END
        y0 = best;
        y1 = chosen;"""
    return w.over_window(body, edges=w.dilated)


# --- gradients ------------------------------------------------------------------------------------


@repeatable
def _max_pool_backward(
    what: str,
    grad: Any,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    indices: Any = None,
) -> Array:
    """Returns the gradient of `max_pool2d` in x.

    ``grad`` is that of the result, ``indices`` are as the call returned them, computed anew where
    they are None; all else is as in the call.

    Raises:
        ShapeError, DTypeError: As `max_pool2d`, and of another grad or indices.
    """
    w = windows(what, x, rank_of(what), kernel_size, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[: w.lead], *w.outputs)
    check_shape(what, "grad", grad, shape)
    if indices is None:
        given = (kernel_size, stride, padding, dilation, ceil_mode)
        _, indices = _max_pool(what, x, *given, True)
    check_indices(what, indices, shape)
    found = empty_like(x, x.shape, grad.dtype)
    y, places, taken = (planes_of(a, w.lead) for a in (found, indices, grad))
    if all(a is not None for a in (y, places, taken)) and take_lines(
        what, y, places, taken, w.lead, "sum", lambda: found.fill(0)
    ):
        return found
    expr = f"(void)x0;\n{gathered(w, 'x1', 'x2', '+=')}"
    operator = kernel(expr, what, grad.dtype)
    return operator(x, grad, indices, *w.numbers)


max_pool1d_backward = of_rank(_max_pool_backward, "max_pool1d_backward")
max_pool2d_backward = of_rank(_max_pool_backward, "max_pool2d_backward")
max_pool3d_backward = of_rank(_max_pool_backward, "max_pool3d_backward")


def planes_of(a: Any, lead: int) -> Any:
    """An array with its last dimensions as one; None where no stride walks them."""
    sizes, strides = a.shape[lead:], a.strides[lead:]
    for outer, inner, size in zip(strides, strides[1:], sizes[1:], strict=False):
        if outer != inner * size:
            return None
    return view_of(
        a, (*a.shape[:lead], math.prod(sizes)), (*a.strides[:lead], strides[-1]), a.offset
    )


def check_indices(what: str, indices: Any, shape: tuple[int, ...]) -> None:
    """Refuses what are no indices of a pooling's windows.

    Raises:
        DTypeError: No int64.
        ShapeError: Another shape.
    """
    if dtype_of(what, "indices", indices) != _INDEX:
        raise DTypeError(f"{what}: expected indices of int64, got {indices.dtype}")
    if indices.shape != shape:
        raise ShapeError(f"{what}: indices have shape {indices.shape}, expected {shape}")


def gathered(w: Windows, values: str, chosen: str, op: str) -> str:
    """Returns what windows that chose an element hold in an array; another says their choice."""
    flat = f"coord({w.lead})"
    for d in w.axes[1:]:
        flat = f"({flat}) * size({w.lead + d}) + coord({w.lead + d})"
    body = f"""
        long here = {flat};
        typeof_{values} sum = 0;
        LOOPS {{
            typeof_{values} v = at_{values}({w.window});
            sum {op} inside && at_{chosen}({w.window}) == here ? v : {"sum" if op == "=" else "0"};
        END
        y0 = sum;"""
    return w.over_outputs(values, body)


def greatest(loops: str, element: str, flat: str, dtype: AnyDType) -> str:
    """Returns C that finds the greatest element that loops pass, ``best``, and where it is."""
    greater = "v > best" if dtype.kind in "biu" else "v > best || v != v"
    return f"""
        typeof_y0 best = {lowest(dtype)};
        long chosen = -1;
        {loops} {{
            typeof_y0 v = at_x0({element});
            if ({greater} || chosen < 0) {{
                best = v;
                chosen = {flat};
            }}
        }}
        y0 = best;"""


@repeatable
def _chosen_backward(what: str, grad: Any, x: Any, indices: Any) -> Array:
    """Returns the gradient in x of what chose elements of it.

    ``indices`` are as the call returned them; of x, in whose memory format the gradient is, no
    element matters.

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.
    """
    check_floating(what, "grad", grad, complexes=True)
    lead = lead_of(what, x, rank_of(what))
    if grad.ndim != x.ndim:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected {x.ndim} dimensions")
    check_shape(what, "grad", grad, (*x.shape[:lead], *grad.shape[lead:]))
    check_indices(what, indices, grad.shape)
    found = empty_like(x, x.shape, grad.dtype)
    lines = planes_of(found, lead)
    if lines is None:  # neither memory format
        found = new_dense(x.shape, grad.dtype)
        lines = planes_of(found, lead)
    found.fill(0)
    flat = (*grad.shape[:lead], math.prod(grad.shape[lead:]))
    chosen, given = (view_of(a, a.shape, a.strides, a.offset) for a in (indices, grad))
    scatter_add(lines, -1, chosen.reshape(flat), given.reshape(flat), out=lines)
    return found


adaptive_max_pool1d_backward = of_rank(_chosen_backward, "adaptive_max_pool1d_backward")
adaptive_max_pool2d_backward = of_rank(_chosen_backward, "adaptive_max_pool2d_backward")
adaptive_max_pool3d_backward = of_rank(_chosen_backward, "adaptive_max_pool3d_backward")
fractional_max_pool2d_backward = of_rank(_chosen_backward, "fractional_max_pool2d_backward")
fractional_max_pool3d_backward = of_rank(_chosen_backward, "fractional_max_pool3d_backward")
