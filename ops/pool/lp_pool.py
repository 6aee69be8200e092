"""Pooling by the p-norm of a window: means of powers, and their roots. Arguments after PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clprim.arrays.array import Array
from clprim.dtypes import value_dtype
from clprim.graph.repeat import repeatable
from clprim.ops.gradients.vjp import vjp
from clprim.ops.pool import avg_pool
from clprim.ops.pool.sliding import windows
from clprim.ops.shared.checks import check_floating, real
from clprim.ops.shared.epilogue import stored
from clprim.ops.shared.ranks import Store, of_rank, rank_of
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.window import Numbers, Padding

if TYPE_CHECKING:
    from typing_extensions import Unpack

_POWERS = {1.0: "v", 2.0: "v * v"}
_ROOTS = {1.0: "sum", 2.0: "sqrt(sum)"}


@repeatable
def _lp_pool(
    what: str,
    x: Any,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
    *,
    padding: Padding = 0,
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
        padding: Of zeros around x, as in `avg_pool2d`.
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
    scaled = w.leave and not absolute
    value = "fabs((typeof_y0)x0)" if absolute and p != 2 else "x0"
    text = f"typeof_y0 v = {value}; y0 = {_POWERS.get(p, 'pow(v, w0)')};"
    numbers = () if p in _POWERS else (p,)
    powers = kernel(text, what, value_dtype(dtype, [dtype]))(x, *numbers)
    # Looked up here, where it has a gradient.
    means = getattr(avg_pool, f"avg_pool{ndim}d")
    how = kernel_size, stride, padding, ceil_mode, True, None if scaled else 1
    sums = means(powers, *how, dilation=dilation)
    times = f" * {w.taps}" if scaled else ""
    root = _ROOTS.get(p, "pow(sum, 1 / (typeof_x0)w0)")
    text = f"typeof_x0 sum = x0{times}; y0 = sum > 0 ? {root} : 0;"
    return stored(what, text, sums.shape, [dtype], ([sums], numbers), store)


lp_pool1d = of_rank(_lp_pool, "lp_pool1d", sample="image(1), 2, 2")
lp_pool2d = of_rank(
    _lp_pool,
    "lp_pool2d",
    onnx="LpPool(x) p:norm_type=2 ceil_mode=0 =absolute=True @windows",
    sample="image(2), 2, 2",
)
lp_pool3d = of_rank(_lp_pool, "lp_pool3d", sample="image(3), 2, 2")

_NOTES = "; windows whose sum is not positive pass nothing on, where PyTorch's gradient is NaN"
lp_pool1d_backward = vjp(lp_pool1d, "x", _NOTES)
lp_pool2d_backward = vjp(lp_pool2d, "x", _NOTES)
lp_pool3d_backward = vjp(lp_pool3d, "x", _NOTES)
