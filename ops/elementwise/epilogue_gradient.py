"""The gradient of an epilogue, whatever operator it follows: derived from its string."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.errors import DTypeError, ShapeError
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.epilogue import append, check_epilogue, split_arguments
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import current_device


@operator()
def epilogue_backward(
    grad: Any,
    y: Any,
    epilogue: str,
    epilogue_args: Any = (),
    *,
    result: Any = None,
    output_mask: Sequence[bool] | None = None,
) -> tuple[Array | None, ...]:
    """Returns the gradients of what an epilogue changes and of the arrays that it reads.

    ``epilogue=`` of a convolution, a product or a normalisation is such a string. The first
    gradient is that of the operator without it: it goes on to `conv2d_input`, `conv2d_weight` and
    `conv2d_bias`, to `matmul` or `linear_backward`, to `batch_norm_backward`.

    Args:
        grad: The gradient of the operator's result, of its shape.
        y: What the operator computes without the epilogue, bias included, of that shape: kept, or
            computed again. None where no gradient depends on it, or only through ``result``.
        epilogue: The snippet on ``y0``.
        epilogue_args: What it was called with: arrays ``x0``, …, then numbers ``w0``, ….
        result: The operator's result where it was kept: what the snippet computes need not be
            computed again then.
        output_mask: Of which arrays gradients are wanted: of ``y``, then of each of
            ``epilogue_args``; None stands for the others, and for arrays of integers.

    Returns:
        Gradients of the shape and dtype of their arrays; what was broadcast is summed.

    Raises:
        DefinitionError: A wrong snippet, or one through which no gradient passes; with its line
            and a caret.
        ShapeError: A shape that does not fit, ``y`` missing where a gradient depends on it.
        DTypeError, DeviceError: No array of floating-point numbers, an array of another context.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x, w, r = cp.full((1, 2, 4, 4), 1.0), cp.full((3, 2, 1, 1), -1.0), cp.full((4, 4), 3.0)
        >>> add_relu = "y0 += x0; y0 = y0 <= 0 ? 0 : y0;"
        >>> y = ops.conv2d(x, w, epilogue=add_relu, epilogue_args=(r,))
        >>> grad, before = cp.full(y.shape, 0.5), ops.conv2d(x, w)
        >>> gy, gr = ops.epilogue_backward(grad, before, add_relu, (r,))
        >>> gr.get()[0]
        array([1.5, 1.5, 1.5, 1.5], dtype=float32)
        >>> ops.conv2d_weight(x, w.shape, gy).get().ravel()
        array([8., 8., 8., 8., 8., 8.], dtype=float32)
    """
    what = "epilogue_backward"
    dtype = dtype_of(what, "grad", grad)
    check_epilogue(what, current_device(), epilogue, epilogue_args, grad.shape)
    arrays, numbers = split_arguments(epilogue_args)
    for label, array in (("y", y), ("result", result)):
        if array is not None:
            dtype_of(what, label, array)
            if array.shape != grad.shape:
                raise ShapeError(
                    f"{what}: {label} has shape {array.shape}, expected that of grad, {grad.shape}"
                )
    operands = (grad if y is None else y, *arrays)
    wanted = (True,) * len(operands) if output_mask is None else tuple(map(bool, output_mask))
    if len(wanted) != len(operands):
        raise ShapeError(
            f"{what}: output_mask holds {len(wanted)} of {len(operands)}: y and the arrays of the "
            "epilogue"
        )
    names = tuple(
        f"x{n}"
        for n, (array, asked) in enumerate(zip(operands, wanted, strict=True))
        if asked and array.dtype.kind not in "biu"
    )
    if not names:
        raise DTypeError(f"{what}: no gradient is asked for of an array of floating-point numbers")
    saves = () if result is None else ("y0",)
    gradient, reads = _gradient(epilogue, names, saves)
    if y is None and reads:
        raise ShapeError(
            f"{what}: y is None, but the gradient of {epilogue!r} depends on it; give what the "
            f"operator computes without the epilogue, of dtype {dtype}"
        )
    saved = () if result is None else (result,)
    found = gradient(*operands, *numbers, grad=grad, saved=saved)
    made = dict(zip(names, found if len(names) > 1 else (found,), strict=True))
    return tuple(made.get(f"x{n}") for n in range(len(operands)))


@lru_cache(maxsize=256)
def _gradient(epilogue: str, names: tuple[str, ...], saves: tuple[str, ...]) -> tuple[Any, bool]:
    """The gradient of an epilogue as one of ``y``, ``x0``, …, and whether it reads ``y``."""
    text = append("epilogue_backward", "y0 = x0;", epilogue, 1, 0)
    gradient = Pointwise(text, name="epilogue").gradient(names, saves=saves)
    return gradient, gradient.reads("x0")
