"""Pooling by the p-norm of a window, and back: arguments after PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import value_dtype
from clprim.graph.repeat import repeatable
from clprim.ops.pool.avg_pool import divisor_of
from clprim.ops.pool.windows import Borders, Numbers, Windows, windows
from clprim.ops.shared.arguments import check_floating, check_shape, real
from clprim.ops.shared.epilogue import stored
from clprim.ops.shared.ranks import Store, of_rank, rank_of
from clprim.ops.shared.strings import kernel, places

if TYPE_CHECKING:
    from typing_extensions import Unpack


@repeatable
def _lp_pool(
    what: str,
    x: Any,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
    *,
    padding: Borders = 0,
    dilation: Numbers = 1,
    absolute: bool = False,
    **store: Unpack[Store],
) -> Array:
    """Returns (Σ xᵖ)^(1/p) of every window; where the sum is negative, the result is 0.

    Args:
        x: (N, C, H, W) or (C, H, W) of floating-point numbers.
        norm_type: p; 1 adds elements up.
        kernel_size: Height and width of a window: a number, or one for each.
        stride: From one window to the next, likewise; None is the size of a window.
        ceil_mode: Whether a last window may reach beyond x; as PyTorch has it, the sum of such a
            window is scaled as if it had as many elements as the others.
        padding: Rows and columns of zeros around x, likewise; or a pair for each, before and
            behind x: ``((top, bottom), (left, right))``.
        dilation: From one element of a window to the next, as the size of a window.
        absolute: Whether to return (Σ abs(x)ᵖ)^(1/p), and no window is scaled.
        epilogue: As in `max_pool2d`.
        epilogue_args: Likewise.
        out: Where the result goes.

    Raises:
        ShapeError, DTypeError: As `avg_pool2d`.
    """
    ndim = rank_of(what)
    dtype = check_floating(what, "x", x)
    p = real(what, "norm_type", norm_type)
    w = windows(what, x, ndim, kernel_size, stride, padding, dilation, ceil_mode)
    root = {1.0: "sum > 0 ? sum : 0", 2.0: "sqrt(sum > 0 ? sum : 0)"}.get(p)
    end = f"y0 = {root or 'pow(sum > 0 ? sum : 0, 1 / norm)'};"
    shape = (*x.shape[: w.lead], *w.outputs)
    numbers = (*w.numbers, *(() if root else (p,)))
    text = _powers(what, w, p, end, absolute=absolute)
    return stored(what, text, shape, [dtype], ([x], numbers), store)


lp_pool1d = of_rank(_lp_pool, "lp_pool1d", sample="image(1), 2, 2", wrt="x")
lp_pool2d = of_rank(
    _lp_pool,
    "lp_pool2d",
    onnx="LpPool(x) p:norm_type=2 ceil_mode=0 =absolute=True @windows",
    sample="image(2), 2, 2",
    wrt="x",
)
lp_pool3d = of_rank(_lp_pool, "lp_pool3d", sample="image(3), 2, 2", wrt="x")


def _powers(what: str, w: Windows, p: float, end: str, *, absolute: bool) -> str:
    """What sums up powers, as ``sum``, of which a whole window would have ``scale`` times."""
    scaled = w.leave and not absolute
    element = places(w.lead + len(w.sizes), {w.lead + d: f"i{d}" for d in w.axes})
    value = "fabs((typeof_y0)v)" if absolute and p != 2 else "v"
    power = value if p == 1 else "v * v" if p == 2 else f"pow({value}, norm)"
    divisor = divisor_of(what, w, True, None).replace("FROM", "from")
    body = f"""
        {_norm(w, p)}
        typeof_y0 sum = 0;
        LOOPS {{
            typeof_y0 v = at_x0({element});
            v = {power};
            {"if (inside) " if w.leave else ""}sum += v;
        END
        typeof_y0 scale = {f"{int(np.prod(w.kernel))} / {divisor}" if scaled else "1"};
        sum = sum * scale;
        {end}"""
    return w.over_window(body, edges=w.leave)


def _norm(w: Windows, p: float) -> str:
    """Names p, the number behind the windows', where a kernel takes it."""
    return "" if p in (1, 2) else f"float norm = w{len(w.numbers)};"


@repeatable
def _lp_pool_backward(
    what: str,
    grad: Any,
    x: Any,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
    *,
    padding: Borders = 0,
    dilation: Numbers = 1,
    absolute: bool = False,
) -> Array:
    """Returns the gradient of `lp_pool2d` in x.

    Windows whose sum is not positive pass nothing on: their result is 0 (PyTorch's gradient is NaN
    where the sum is 0).

    ``grad`` is that of the result; the other arguments are as there.

    Raises:
        ShapeError, DTypeError: As `lp_pool2d`, and of a grad of another shape.
    """
    ndim = rank_of(what)
    check_floating(what, "x", x)
    dtype = check_floating(what, "grad", grad)
    p = real(what, "norm_type", norm_type)
    w = windows(what, x, ndim, kernel_size, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[: w.lead], *w.outputs)
    check_shape(what, "grad", grad, shape)
    # Of every window grad · Σ^(1/p - 1), then of every element x^(p - 1) times the sum of these.
    numbers = (*w.numbers, *(() if p in (1, 2) else (p,)))
    slope = {1.0: "1", 2.0: "rsqrt(sum)"}.get(p, "pow(sum, 1 / norm - 1)")
    text = _powers(what, w, p, f"y0 = sum > 0 ? x1 * {slope} * scale : 0;", absolute=absolute)
    slopes = kernel(text, what, value_dtype(dtype, [dtype]))(x, grad, *numbers, shape=shape)
    factor = {1.0: "", 2.0: " * x0"}.get(p, " * pow((typeof_x1)x0, norm - 1)")
    if absolute and p != 2:
        factor = " * sign((typeof_x1)x0)"
        factor += "" if p == 1 else " * pow(fabs((typeof_x1)x0), norm - 1)"
    window = places(w.lead + ndim, {w.lead + d: f"o{d}" for d in w.axes})
    body = f"""
        {_norm(w, p)}
        typeof_x1 sum = 0;
        LOOPS {{
            typeof_x1 v = at_x1({window});
            if (inside) sum += v;
        END
        y0 = sum{factor};"""
    text = ("" if "x0" in factor else "(void)x0;\n") + w.over_outputs("x1", body)
    return kernel(text, what, dtype)(x, slopes, *numbers)


lp_pool1d_backward = of_rank(_lp_pool_backward, "lp_pool1d_backward")
lp_pool2d_backward = of_rank(_lp_pool_backward, "lp_pool2d_backward")
lp_pool3d_backward = of_rank(_lp_pool_backward, "lp_pool3d_backward")
