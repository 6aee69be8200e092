"""Elements put back where a pooling found them, and back: arguments after PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clprim.arrays.array import Array
from clprim.call.arguments import as_shape
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.pool.max_pool import check_indices, gathered
from clprim.ops.pool.sliding import Windows, lead_of
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.epilogue import stored
from clprim.ops.shared.ranks import Store, of_rank, rank_of
from clprim.ops.shared.strings import kernel, places
from clprim.ops.shared.window import Numbers, numbers
from clprim.plan.conv.problem import Axis

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SAMPLE = "image({0}), empty(image({0}).shape, int64), 2"


@repeatable
def _unpool(
    what: str,
    x: Any,
    indices: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Any = None,
    **store: Unpack[Store],
) -> Array:
    """Puts elements back where `max_pool2d` found them, between zeros.

    Args:
        x: (N, C, H, W) or (C, H, W): a value for every window.
        indices: As `max_pool2d` returned them, of the same windows: each of them lies in its
            window; one that does not is put nowhere. Where windows share an element, the last one
            decides.
        kernel_size: As in that call.
        stride: Likewise.
        padding: Likewise.
        output_size: Shape of the result, or its height and width; by default of what the windows
            cover.
        epilogue: A snippet on ``y0``, run on every element before it is stored, as in `max_pool2d`.
        epilogue_args: What it reads.
        out: Where the result goes.

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
    ndim = rank_of(what)
    lead = lead_of(what, x, ndim)
    check_indices(what, indices, x.shape)
    kernel_ = numbers(what, "kernel_size", kernel_size, ndim, 1)
    steps = kernel_ if stride is None else numbers(what, "stride", stride, ndim, 1)
    pads = numbers(what, "padding", padding, ndim, 0)
    each = tuple(zip(kernel_, steps, pads, strict=True))
    sizes = tuple(
        (n - 1) * s - 2 * p + k for n, (k, s, p) in zip(x.shape[lead:], each, strict=True)
    )
    if output_size is not None:
        given = as_shape(f"{what}: output_size", output_size)
        if given[:lead] == x.shape[:lead] and len(given) == x.ndim:
            given = given[lead:]
        close = len(given) == ndim and all(
            abs(g - n) < s for g, n, s in zip(given, sizes, steps, strict=True)
        )
        if not close:
            raise ShapeError(
                f"{what}: output_size={quoted(output_size)}: expected less than a stride from "
                f"{sizes}"
            )
        sizes = given
    along = tuple(Axis(n, k, s, 1, p, p) for n, (k, s, p) in zip(sizes, each, strict=True))
    w = Windows(lead, along, x.shape[lead:])
    shape = (*x.shape[:lead], *sizes)
    text = gathered(w, "x0", "x1", "=")
    return stored(what, text, shape, [x.dtype], ([x, indices], w.numbers), store)


max_unpool1d = of_rank(_unpool, "max_unpool1d", sample=_SAMPLE.format(1), wrt="x")
max_unpool2d = of_rank(_unpool, "max_unpool2d", sample=_SAMPLE.format(2), wrt="x")
max_unpool3d = of_rank(_unpool, "max_unpool3d", sample=_SAMPLE.format(3), wrt="x")


@repeatable
def _unpool_backward(what: str, grad: Any, indices: Any) -> Array:
    """Returns the gradient of `max_unpool2d` in x: that of the places where elements were put.

    ``grad`` is that of the result, ``indices`` are as in the call.

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.
    """
    ndim = rank_of(what)
    lead = lead_of(what, grad, ndim)
    if dtype_of(what, "indices", indices) != np.int64:
        raise DTypeError(f"{what}: expected indices of int64, got {indices.dtype}")
    if indices.ndim != grad.ndim or indices.shape[:lead] != grad.shape[:lead]:
        raise ShapeError(
            f"{what}: indices have shape {indices.shape}, expected {grad.shape[:lead]} and the "
            "sizes of what was put"
        )
    lines = ["long rest = x1;"]
    chosen = {}
    for d in reversed(range(1, ndim)):
        lines.append(f"long c{d} = rest % size_x0({lead + d}); rest /= size_x0({lead + d});")
        chosen[lead + d] = f"c{d}"
    size = f"size_x0({lead})"
    lines.append(f"bool inside = rest >= 0 && rest < {size}; rest = inside ? rest : 0;")
    place = places(grad.ndim, {**chosen, lead: "rest"})
    lines.append(f"y0 = at_x0({place}); y0 = inside ? y0 : 0;")
    text = "\n".join(lines)
    if ndim > 1:  # what is negative is nowhere, and leaves no coordinate below 0
        text = text.replace("long rest = x1;", "long rest = x1 < 0 ? (1L << 62) : x1;")
    return kernel(text, what, grad.dtype)(grad, indices)


max_unpool1d_backward = of_rank(_unpool_backward, "max_unpool1d_backward")
max_unpool2d_backward = of_rank(_unpool_backward, "max_unpool2d_backward")
max_unpool3d_backward = of_rank(_unpool_backward, "max_unpool3d_backward")
