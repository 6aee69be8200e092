"""Pooling by the mean of a window, and back: arguments after PyTorch.

Sums run in float32 at least. Gradients are gathered: every element of the input adds up what the
windows that it is in pass on, in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clprim.arrays.array import Array
from clprim.dtypes import is_integer
from clprim.errors import ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.pool.sliding import Windows, windows
from clprim.ops.shared.checks import check_floating, check_shape
from clprim.ops.shared.epilogue import stored
from clprim.ops.shared.ranks import Store, of_rank, rank_of
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.window import Numbers, Padding

if TYPE_CHECKING:
    from typing_extensions import Unpack


@repeatable
def mean_pool(
    what: str,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Numbers = 1,
    **store: Unpack[Store],
) -> Array:
    """Returns the mean of every window.

    Args:
        x: (N, C, H, W) or (C, H, W) of floating-point numbers, in any memory format.
        kernel_size: Height and width of a window: a number, or one for each.
        stride: From one window to the next, likewise; None is the size of a window.
        padding: Rows and columns of zeros around x, likewise; or a pair for each, before and
            behind x: ``((top, bottom), (left, right))``.
        ceil_mode: Whether a last window may reach beyond the padding; what lies there is not
            counted.
        count_include_pad: Whether the padding is counted.
        divisor_override: What sums are divided by instead.
        dilation: From one element of a window to the next, as the size of a window.
        epilogue: A snippet on ``y0``, run before it is stored; it reads ``x0``, …, ``w0``, ….
        epilogue_args: Those arrays, which broadcast to the result, then the numbers.
        out: Where the result goes.

    Raises:
        ShapeError: Another number of dimensions, sizes that are none, a padding of more than half
            of a window (a whole one of pairs), no window at all, a divisor of 0.
        DTypeError: No device array, or one of integers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(8, dtype=np.float32).reshape(1, 2, 4))
        >>> ops.avg_pool2d(x, 2).get()
        array([[[2.5, 4.5]]], dtype=float32)
    """
    dtype = check_floating(what, "x", x, complexes=True)
    how = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    w, divisor = _means(what, x, *how, dilation)
    body = f"""
        typeof_y0 sum = 0;
        LOOPS {{
            typeof_y0 v = at_x0({w.element});
            {"if (inside) " if w.leave else ""}sum += v;
        END
        y0 = sum / {divisor.replace("FROM", "from")};"""
    text = w.over_window(body, edges=w.leave)
    shape = (*x.shape[: w.lead], *w.outputs)
    return stored(what, text, shape, [dtype], ([x], w.numbers), store)


avg_pool1d = of_rank(mean_pool, "avg_pool1d", sample="image(1), 2", wrt="x")
avg_pool2d = of_rank(
    mean_pool,
    "avg_pool2d",
    torch="avg_pool2d @means @format0; avg_pool2d_backward @format1",
    onnx="""AveragePool(x) ceil_mode=0 count_include_pad=0 @windows;
        com.microsoft::QLinearAveragePool(x, sx, zx, sy, zy)
            ceil_mode=0 count_include_pad=0 @steps @images @windows""",
    sample="image(2), 2",
    wrt="x",
)
avg_pool3d = of_rank(
    mean_pool,
    "avg_pool3d",
    torch="avg_pool3d @means; avg_pool3d_backward",
    sample="image(3), 2",
    wrt="x",
)


def _means(
    what: str,
    x: Any,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Padding,
    ceil_mode: bool,
    padded: bool,
    override: int | None,
    dilation: Numbers,
) -> tuple[Windows, str]:
    """Windows, and what the sum of that which begins at ``FROM0``, ``FROM1``, … is divided by."""
    w = windows(what, x, rank_of(what), kernel_size, stride, padding, dilation, ceil_mode)
    if override is not None:
        if not is_integer(override) or override == 0:
            raise ShapeError(
                f"{what}: divisor_override={quoted(override)}: expected a number but 0"
            )
        return w, str(int(override))
    counts = []
    for d, k in enumerate(w.kernel):
        size = f"(int)size_x0({w.lead + d})"
        if not w.leave:
            counts.append(str(k))
        elif w.dilated:  # elements before an end, less those before the input
            e = f"apart{d}"
            end = f"{size} + after{d}" if padded else size
            ends = f"min({k}, ({end} - FROM{d} + {e} - 1) / {e})"
            counts.append(f"({ends}{'' if padded else f' - max(0, ({e} - 1 - FROM{d}) / {e})'})")
        elif padded:
            counts.append(f"(min(FROM{d} + {k}, {size} + after{d}) - FROM{d})")
        else:
            counts.append(f"(min(FROM{d} + {k}, {size}) - max(FROM{d}, 0))")
    return w, f"(float)({' * '.join(counts)})"


# --- gradients ------------------------------------------------------------------------------------


@repeatable
def _avg_pool_backward(what: str, grad: Any, x: Any, *how: Any, **named: Any) -> Array:
    """Returns the gradient of `avg_pool2d` in x, of whose elements none matters.

    ``grad`` is that of the result, all else as in the call.

    Raises:
        ShapeError, DTypeError: As `avg_pool2d`, and of a grad of another shape.
    """
    check_floating(what, "x", x, complexes=True)
    dtype = check_floating(what, "grad", grad, complexes=True)
    w, divisor = _means(what, x, *how, **named)
    check_shape(what, "grad", grad, (*x.shape[: w.lead], *w.outputs))
    begins = [f"int begin{d} = o{d} * stride{d} - before{d};" for d in w.axes]
    body = f"""
        typeof_x1 sum = 0;
        LOOPS {{
            {" ".join(begins) if "FROM" in divisor else ""}
            typeof_x1 v = at_x1({w.window}) / {divisor.replace("FROM", "begin")};
            if (inside) sum += v;
        END
        y0 = sum;"""
    operator = kernel("(void)x0;\n" + w.over_outputs("x1", body), what, dtype)
    return operator(x, grad, *w.numbers)


avg_pool1d_backward = of_rank(_avg_pool_backward, "avg_pool1d_backward", mean_pool)
avg_pool2d_backward = of_rank(_avg_pool_backward, "avg_pool2d_backward", mean_pool)
avg_pool3d_backward = of_rank(_avg_pool_backward, "avg_pool3d_backward", mean_pool)
