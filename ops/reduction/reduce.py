"""Reductions: each is what one element does to a partial result, and how two partials merge.

Arguments are NumPy's: ``axis``, or by PyTorch's name ``dim``, is an axis, several, or None for all;
reduced axes stay with size 1 where ``keepdims``, or ``keepdim``, is set; ``out`` is an array to
write to. A NaN comes through, except where said.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.call.arguments import as_results, check_aliases, check_array, check_out
from clprim.dtypes import AnyDType, as_dtype, value_dtype
from clprim.errors import DTypeError
from clprim.ops.gradients.vjp import vjp
from clprim.ops.norm.moments import flat_view, moments, spread_view, statistics_dtype
from clprim.ops.registry import operator
from clprim.ops.shared.checks import Axis, Operator, by_kind, dtype_of, real
from clprim.ops.shared.dims import along, along_named
from clprim.ops.shared.exponentials import exponentials
from clprim.plan.strides import reduced_axes
from clprim.primitives import arithmetic
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import current_device

# --- sums and products ---------------------------------------------------------------------------

_sum: Operator = arithmetic.sum


def _strings(name: str, element: str = "x0") -> dict[str, Any]:
    """The strings of a sum, a mean or a product."""
    start, sign = ("1", "*") if name == "prod" else ("0", "+")
    strings = {"init": f"reduce_y0 = {start};", "step": f"reduce_y0 {sign}= {element};"}
    return strings | {"finalize": "y0 = reduce_y0 / count;"} if name == "mean" else strings


_mean = by_kind(
    Reduction("", **_strings("mean"), name="mean"),
    Reduction("", **_strings("mean"), name="mean", result_type=np.float64),
)
_prod: Operator = Reduction("", **_strings("prod"), name="prod")
_count_nonzero: Operator = Reduction(
    "",
    init="reduce_y0 = 0;",
    step="reduce_y0 += x0 != 0;",
    result_type=np.int64,
    name="count_nonzero",
)


@lru_cache(maxsize=256)
def _converted(name: str, dtype: AnyDType) -> Operator:
    """The reduction of elements that are converted to a dtype before they are taken in."""
    strings = _strings(name, "(typeof_reduce_y0)x0")
    partial = value_dtype(dtype, [dtype])
    return Reduction("", **strings, result_type=dtype, partial_type=partial, name=name)


def _converting(name: str, usual: Operator, x: Any, dtype: Any, **options: Any) -> Array:
    given, wanted = dtype_of(name, "x", x), as_dtype(dtype)
    if wanted == given and given.kind not in "biu":
        return usual(x, **options)
    if name == "mean" and wanted.kind in "biu":
        raise DTypeError(f"mean: dtype={wanted}: expected floating-point numbers")
    return _converted(name, wanted)(x, **options)


@operator(
    autocast="float32 sum sum.dim_IntList",
    numpy="sum",
    torch="sum sum.dim_IntList @int64",
    onnx="ReduceSum(x, axes: Numbers) @reduction @dtype",
    sample="x, axis=1",
)
@along
def sum(x: Any, axis: Axis, keepdims: bool, *, dtype: Any = None, out: Any = None) -> Array:
    """Returns the sum along ``axis``.

    Integers and bool give int64 or uint64, as in NumPy; float16 and bfloat16 are added in float32.
    With ``dtype=`` every element is converted to it first, as in PyTorch.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> ops.sum(x, axis=1).get()
        array([ 3., 12.], dtype=float32)
    """
    if dtype is None:
        return _sum(x, axis=axis, keepdims=keepdims, out=out)
    return _converting("sum", _sum, x, dtype, axis=axis, keepdims=keepdims, out=out)


@operator(
    numpy="mean",
    torch="mean mean.dim @mean",
    onnx="""ReduceMean(x, axes: Numbers) @reduction @wide; GlobalAveragePool @pixels;
        com.microsoft::QLinearGlobalAveragePool(x, sx, zx, sy, zy) @steps @images @pixels""",
    sample="x, axis=1",
)
@along
def mean(x: Any, axis: Axis, keepdims: bool, *, dtype: Any = None, out: Any = None) -> Array:
    """Returns the arithmetic mean along ``axis``; of nothing NaN.

    That of integers is float64, as in NumPy, or what ``dtype=`` says: elements are converted to it
    first.

    Raises:
        DTypeError: A ``dtype`` of integers.
    """
    if dtype is None:
        return _mean(x, axis=axis, keepdims=keepdims, out=out)
    return _converting("mean", _mean, x, dtype, axis=axis, keepdims=keepdims, out=out)


@operator(
    autocast="float32",
    numpy="prod",
    torch="prod prod.dim_int @int64",
    onnx="ReduceProd(x, axes: Numbers) @reduction @dtype",
    sample="x, axis=1",
)
@along
def prod(x: Any, axis: Axis, keepdims: bool, *, dtype: Any = None, out: Any = None) -> Array:
    """Returns the product along ``axis``; of integers in int64 or uint64, of nothing 1.

    With ``dtype=`` every element is converted to it first.
    """
    if dtype is None:
        return _prod(x, axis=axis, keepdims=keepdims, out=out)
    return _converting("prod", _prod, x, dtype, axis=axis, keepdims=keepdims, out=out)


@operator(numpy="count_nonzero", torch="count_nonzero.dim_IntList", sample="x, axis=1")
@along_named
def count_nonzero(x: Any, axis: Axis, keepdims: bool, *, out: Any = None) -> Array:
    """Returns how many elements along ``axis`` are not zero, in int64; NaN is not zero."""
    return _count_nonzero(x, axis=axis, keepdims=keepdims, out=out)


# --- mean and variance ---------------------------------------------------------------------------


@operator(torch="var_mean.correction", sample="x, axis=1")
@along_named
def var_mean(
    x: Any,
    axis: Axis,
    keepdims: bool,
    *,
    correction: float = 1,
    unbiased: bool | None = None,
    out: Any = None,
) -> tuple[Array, Array]:
    """Returns (variance, mean) along ``axis``, in one read of ``x``, as `torch.var_mean` does.

    The variance stays accurate where the mean is many times the deviation, and where the first
    elements are outliers. Integers give float64.

    Args:
        axis: Which axes to reduce.
        dim: The same by PyTorch's name.
        correction: The sum of squares is divided by ``max(0, count - correction)``: 1 for the
            unbiased variance of a sample, 0 for the biased one. One element, or none, without a
            degree of freedom has the variance NaN.
        unbiased: The same in PyTorch's other words: True is a correction of 1 and False one of 0.
        keepdims: Whether reduced axes stay, with size 1.
        keepdim: The same by PyTorch's name.
        out: A tuple of two arrays, for variance and mean.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> variance, mean = ops.var_mean(cp.asarray(np.array([1, 2, 3], np.float32)))
        >>> variance.item(), mean.item()
        (1.0, 2.0)
    """
    given = None if out is None else as_results("var_mean", out, 2)
    return spread_and_mean("var_mean", x, axis, correction, unbiased, keepdims=keepdims, out=given)


def spread_and_mean(
    what: str,
    x: Any,
    axis: Axis,
    correction: float,
    unbiased: bool | None,
    *,
    keepdims: bool,
    root: bool = False,
    out: tuple[Any, ...] | None = None,
) -> tuple[Array, Array]:
    """Returns the variance, or its root, and the mean; see `var_mean`.

    Of ``out`` the mean may be None: it is allocated then.
    """
    dtype = dtype_of(what, "x", x)
    if dtype.kind == "c":
        return _spread_of_pairs(what, x, axis, correction, unbiased, keepdims, root, out)
    check_array(what, "x", x, current_device())
    correction = real(what, "correction", correction)
    if unbiased is not None:
        if correction != 1:
            raise DTypeError(f"{what}: correction={correction} and unbiased= are one argument")
        correction = float(unbiased)
    axes = reduced_axes(what, axis, len(x.shape))
    wanted = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    shape = tuple(size for d, size in enumerate(x.shape) if d not in axes)
    if out is not None:
        kept = tuple(1 if d in axes else size for d, size in enumerate(x.shape))
        given = [a for a in out if a is not None]
        for n, array in enumerate(given):
            check_array(what, f"out= of y{n}", array, current_device())
            check_out(what, n, array, kept if keepdims else shape, wanted)
        check_aliases(what, given, (x,), same_allowed=False)
        flat = [new_dense(shape, wanted) if a is None else a for a in out]
        if keepdims:
            flat = [a if n is None else flat_view(a, axes) for n, a in zip(out, flat, strict=True)]
        moments(x, axes, correction=correction, root=root, out=(flat[1], flat[0]))
        return cast("tuple[Array, Array]", out)
    if wanted == statistics_dtype(dtype):
        mean, spread = moments(x, axes, correction=correction, root=root)
    else:
        spread, mean = (new_dense(shape, wanted) for _ in range(2))
        moments(x, axes, correction=correction, root=root, out=(mean, spread))
    if keepdims:
        spread, mean = (spread_view(a, axes) for a in (spread, mean))
    return spread, mean


def _spread_of_pairs(
    what: str,
    x: Any,
    axis: Axis,
    correction: float,
    unbiased: bool | None,
    keepdims: bool,
    root: bool,
    out: tuple[Any, ...] | None,
) -> tuple[Array, Array]:
    """Likewise of complex numbers, whose variance is that of both parts together."""
    (a, re), (b, im) = (
        spread_and_mean(what, part, axis, correction, unbiased, keepdims=keepdims)
        for part in (x.real, x.imag)
    )
    into = (None, None) if out is None else out
    return (_ROOT_OF_SUM if root else _SUM_OF_PARTS)(a, b, out=into[0]), _PAIR(re, im, out=into[1])


_SUM_OF_PARTS = Pointwise("y0 = x0 + x1;", name="variance_of_pairs")
_ROOT_OF_SUM = Pointwise("y0 = sqrt(x0 + x1);", name="deviation_of_pairs")
_PAIR = Pointwise("y0 = complex(x0, x1);", name="mean_of_pairs")


# --- logarithm of sums ---------------------------------------------------------------------------

_LOGSUMEXP: dict[str, Any] = {
    **exponentials(),
    "finalize": "y0 = reduce_y0 + log(reduce_y1);",
    "name": "logsumexp",
}
# Greatest elements that are alike share it also where they are infinite; of -∞ alone it is 0.
_LOGSUMEXP_GRADIENT = """
    typeof_gx0 part = x0 == reduce_y0 ? (typeof_gx0)(x0 != -INFINITY) : exp(x0 - reduce_y0);
    gx0 = gy0 * (part / reduce_y1);
"""
_logsumexp = by_kind(
    Reduction("", **_LOGSUMEXP, gradient=_LOGSUMEXP_GRADIENT),
    Reduction("", **_LOGSUMEXP, result_type=np.float32, partial_type=np.float32),
)


@operator(
    autocast="float32",
    torch="logsumexp @real",
    onnx="ReduceLogSumExp(x, axes: Numbers) @reduction @wide",
    sample="x, axis=1",
)
@along
def logsumexp(x: Any, axis: Axis, keepdims: bool, *, out: Any = None) -> Array:
    """Returns log Σ exp(x) along ``axis``, in one read of ``x`` and without overflow.

    Of nothing, or of -∞ alone, it is -∞. Integers give float32, as in PyTorch.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> round(ops.logsumexp(cp.asarray(np.array([1000, 1000], np.float32))).item(), 3)
        1000.693
    """
    return _logsumexp(x, axis=axis, keepdims=keepdims, out=out)


# Of `x` itself: a result of 1e9 tells no sum any more.
logsumexp_backward = vjp(
    logsumexp, "x", ": of infinite greatest elements each has an equal part, of -∞ alone it is 0"
)

# --- truth ---------------------------------------------------------------------------------------

# The partial is the element that decides, in its own type, so that vectors serve.
_any: Operator = Reduction(
    "",
    init="reduce_y0 = 0;",
    step="reduce_y0 = x0 != 0 ? x0 : reduce_y0;",
    combine="reduce_y0 = other_y0 != 0 ? other_y0 : reduce_y0;",
    finalize="y0 = reduce_y0 != 0;",
    result_type=np.bool_,
    name="any_of",
)
_all: Operator = Reduction(
    "",
    init="reduce_y0 = 1;",
    step="reduce_y0 = x0 == 0 ? x0 : reduce_y0;",
    combine="reduce_y0 = other_y0 == 0 ? other_y0 : reduce_y0;",
    finalize="y0 = reduce_y0 != 0;",
    result_type=np.bool_,
    name="all_of",
)


@operator(numpy="any", torch="any any.dim any.dims @truth", sample="x, axis=1")
@along
def any(x: Any, axis: Axis, keepdims: bool, *, out: Any = None) -> Array:
    """Returns whether any element along ``axis`` is not zero (NaN is not); of nothing False."""
    return _any(x, axis=axis, keepdims=keepdims, out=out)


@operator(numpy="all", torch="all all.dim all.dims @truth", sample="x, axis=1")
@along
def all(x: Any, axis: Axis, keepdims: bool, *, out: Any = None) -> Array:
    """Returns whether no element along ``axis`` is zero (NaN is not); of nothing True."""
    return _all(x, axis=axis, keepdims=keepdims, out=out)
