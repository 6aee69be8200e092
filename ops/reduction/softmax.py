"""Softmax along any axis, its logarithm, and gradients: one read where a near cache holds a group.

Names and arguments are those of `torch.nn.functional`; ``dim=`` and ``axis=`` are one argument.
float16 and bfloat16 are computed in float32. A group that holds NaN or +∞ becomes NaN, as in
PyTorch; so does one of -∞ alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, as_dtype, value_dtype
from clprim.errors import DTypeError, ShapeError
from clprim.gradients.grouped import GroupedGradient
from clprim.graph.repeat import repeatable
from clprim.ops.registry import operator
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import one_axis
from clprim.ops.shared.exponentials import exponentials
from clprim.primitives.grouped import Grouped

# m - m is 0, but NaN of infinities.
_INVERSE = "group_y0 = reduce_y0; group_y1 = 1 / reduce_y1 + (reduce_y0 - reduce_y0);"
_LOGARITHM = "group_y0 = reduce_y0; group_y1 = log(reduce_y1) + (reduce_y0 - reduce_y0);"


@operator(
    autocast="float32 softmax.int",
    torch="_softmax @of_rows; _softmax_backward_data @of_rows_gradient",
    onnx="""Softmax axis:dim=-1 @lines;
        com.microsoft::QLinearSoftmax(x, sx, zx, sy, zy) axis:dim=-1 @steps @lines""",
    sample="x, dim=1",
    wrt="x",
)
def softmax(
    x: Any, dim: int | None = None, *, axis: int | None = None, dtype: Any = None, out: Any = None
) -> Array:
    """Returns exp(x) / Σ exp(x) along an axis, without overflow.

    Args:
        x: Of floating-point numbers, any shape and memory format.
        dim: The axis; the last one by default.
        dtype: Of the result, in which it is computed; that of ``x`` by default.
        out: Where the result goes; may be ``x``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.softmax(cp.asarray(np.log(np.float32([[1, 3], [4, 4]]))), axis=1).get().round(3)
        array([[0.25, 0.75],
               [0.5 , 0.5 ]], dtype=float32)
    """
    return _along("softmax", x, dim, axis, dtype, out)


@operator(sample="x, dim=1", wrt="x")
def softmin(
    x: Any, dim: int | None = None, *, axis: int | None = None, dtype: Any = None, out: Any = None
) -> Array:
    """Returns the softmax of -x; see `softmax`."""
    return _along("softmin", x, dim, axis, dtype, out)


@operator(
    autocast="float32 log_softmax.int",
    torch="_log_softmax @of_rows; _log_softmax_backward_data @of_rows_gradient @elementwise",
    onnx="LogSoftmax axis:dim=-1 @lines",
    sample="x, dim=1",
    wrt="x",
)
def log_softmax(
    x: Any, dim: int | None = None, *, axis: int | None = None, dtype: Any = None, out: Any = None
) -> Array:
    """Returns x - log Σ exp(x) along an axis; see `softmax` for the arguments.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.log_softmax(cp.asarray(np.float32([1000, 1000]))).get().round(4)
        array([-0.6931, -0.6931], dtype=float32)
    """
    return _along("log_softmax", x, dim, axis, dtype, out)


@repeatable
def softmax_backward(
    grad: Any, output: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns the gradient of `softmax`, derived from its strings, from its result.

    Args:
        output: The result.
    """
    return _back("softmax", grad, output, dim, axis, out)


@repeatable
def softmin_backward(
    grad: Any, output: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns the gradient of `softmin` from its result; see `softmax_backward`."""
    return _back("softmin", grad, output, dim, axis, out)


@repeatable
def log_softmax_backward(
    grad: Any, output: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns the gradient of `log_softmax` from its result; see `softmax_backward`."""
    return _back("log_softmax", grad, output, dim, axis, out)


# What is computed of every element, what of a group, and what exponentials are taken of; then how
# a result begins where the greatest element is known, what is added up of it, and how it ends.
_STRINGS: dict[str, tuple[str, ...]] = {
    "softmax": ("exp(x0 - group_y0) * group_y1", _INVERSE, "x0", "exp({} - reduce_y0)", "y0", "*="),
    "log_softmax": (
        "(x0 - group_y0) - group_y1",
        _LOGARITHM,
        "x0",
        "{} - reduce_y0",
        "exp(y0)",
        "-=",
    ),
}
_STRINGS["softmin"] = tuple(text.replace("x0", "-x0") for text in _STRINGS["softmax"])


def _along(what: str, x: Any, dim: Any, axis: Any, dtype: Any, out: Any) -> Array:
    found = one_axis(what, x, dim, axis, default=-1)
    if dtype is None and x.dtype.kind in "biu":
        raise DTypeError(f"{what}: x is {x.dtype}; expected floating-point numbers, or dtype=")
    dtype = x.dtype if dtype is None else as_dtype(dtype)
    return _map(what, dtype)(x, axis=found if x.shape else (), out=out)


def _back(name: str, grad: Any, output: Any, dim: Any, axis: Any, out: Any) -> Array:
    what = f"{name}_backward"
    dtype_of(what, "grad", grad)
    found = one_axis(what, output, dim, axis, default=-1)
    if grad.shape != output.shape:
        raise ShapeError(
            f"{what}: grad has shape {grad.shape}, expected that of output, {output.shape}"
        )
    axis = found if output.shape else ()
    # The result stands for the input, of which nothing is read.
    return _gradient(name, output.dtype)(output, grad=grad, saved=output, axis=axis, out=out)


@lru_cache(maxsize=64)
def _map(name: str, dtype: AnyDType) -> Grouped:
    each, finalize, element, begun, added, operation = _STRINGS[name]
    return Grouped(
        "",
        **exponentials(element),
        finalize=finalize,
        each=f"y0 = {each};",
        result_type=dtype,
        partial_type=value_dtype(dtype, [dtype]),
        name=name,
        # A NaN may be lost of the greatest element, but not of the sum.
        near={
            "first": f"reduce_y0 = reduce_y0 > {element} ? reduce_y0 : {element};",
            "begin": f"y0 = {begun.format(element)};",
            "step": f"reduce_y1 += {added};",
            "finish": f"y0 {operation} group_y1;",
        },
    )


@lru_cache(maxsize=64)
def _gradient(name: str, dtype: AnyDType) -> GroupedGradient:
    return _map(name, dtype).gradient(saves="y0")
