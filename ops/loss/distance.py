"""Distances of vectors, and the losses of them, as in `torch.nn.functional`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.call.repeat import repeatable
from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.errors import DefinitionError, ShapeError
from clprim.gradients.reduction import ReductionGradient
from clprim.ops.loss.reduced import Elementwise, above_0, check_floats, check_reduction
from clprim.ops.norm.moments import spread_view
from clprim.ops.shared.arguments import dtype_of, real
from clprim.ops.shared.sums import added
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction

__all__ = [
    "norm_order",
    "pairwise_distance",
    "pairwise_distance_backward",
    "power_of",
    "slope_of",
    "triplet_margin_loss",
    "triplet_margin_loss_backward",
    "triplet_margin_with_distance_loss",
    "triplet_margin_with_distance_loss_backward",
]


@repeatable
def pairwise_distance(
    x1: Any,
    x2: Any,
    p: float = 2.0,
    eps: float = 1e-6,
    keepdim: bool = False,
    *,
    out: Any = None,
) -> Array:
    """Returns the p-norm of x1 - x2 + eps along the last axis.

    Args:
        x1: Of floating-point numbers.
        x2: Likewise; the two broadcast.
        p: The norm: ∞, or more than 0.
        eps: Added to every difference.
        keepdim: Whether the last axis stays, with size 1.
        out: Where the result goes.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "pairwise_distance"
    dtype = promote([check_floats(what, "x1", x1), check_floats(what, "x2", x2)])
    p, eps = norm_order(what, p), real(what, "eps", eps)
    operator = _distance(dtype, p)
    result: Array = operator(x1, x2, eps, axis=-1, keepdims=keepdim, out=out)
    return result


@repeatable
def pairwise_distance_backward(
    grad: Any, x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> tuple[Array, Array]:
    """Returns the gradients of `pairwise_distance` with respect to x1 and x2, of one shape.

    Args:
        grad: Of the result.
        x1: As in `pairwise_distance`.
        x2: Likewise.
        p: Likewise.
        eps: Likewise.
        keepdim: Likewise.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "pairwise_distance_backward"
    dtype = promote([check_floats(what, "x1", x1), check_floats(what, "x2", x2)])
    if x1.shape != x2.shape or not x1.shape:
        raise ShapeError(f"{what}: x1 has shape {x1.shape}, x2 {x2.shape}; expected one shape")
    dtype_of(what, "grad", grad)
    expected = (*x1.shape[:-1], *((1,) if keepdim else ()))
    if grad.shape != expected:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected {expected}")
    p, eps = norm_order(what, p), real(what, "eps", eps)
    g1, g2 = _distance_gradient(dtype, p)(x1, x2, eps, grad=grad, axis=-1, keepdims=keepdim)
    return g1, g2


@repeatable
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Array:
    """Returns max(0, margin + |anchor - positive| - |anchor - negative|), of p-norms.

    Args:
        anchor: (N, D) or (D,), of floating-point numbers.
        positive: Likewise.
        negative: Likewise.
        margin: See above.
        p: The norm: ∞, or more than 0.
        eps: Added to every difference.
        swap: Whether |positive - negative| counts where it is the shorter one of the last two.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        out: Where the loss goes.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.
    """
    what = "triplet_margin_loss"
    arrays = (anchor, positive, negative)
    distances, margin = _distances(what, arrays, margin, p, eps, swap, reduction)
    return _triplet[bool(swap)](reduction, distances, (margin,), out=out)


@repeatable
def triplet_margin_loss_backward(
    grad: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> tuple[Array, Array, Array]:
    """Returns the gradients of `triplet_margin_loss` with respect to its three inputs."""
    what = "triplet_margin_loss_backward"
    arrays = (anchor, positive, negative)
    distances, margin = _distances(what, arrays, margin, p, eps, swap, reduction)
    slopes = _triplet[bool(swap)].backward(reduction, grad, distances, (margin,))
    axis = len(distances[0].shape)
    tables = [spread_view(t, (axis,)) for t in (*distances, *slopes)]
    operator = _triplet_slopes(tuple(a.dtype for a in arrays), norm_order(what, p), bool(swap))
    ga, gp, gn = operator(*arrays, *tables, real(what, "eps", eps))
    return ga, gp, gn


_triplet = {
    swap: Elementwise(
        "triplet_margin_loss",
        f"typeof_y0 m = w0 + x0 - {shorter}; y0 = {above_0('m')};",
        inputs=2 + swap,
    )
    for swap, shorter in ((False, "x1"), (True, "min(x1, x2)"))
}


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Array:
    """Returns max(0, margin + d(anchor, positive) - d(anchor, negative)), of any distance.

    Args:
        anchor: Of floating-point numbers.
        positive: Likewise.
        negative: Likewise.
        distance_function: Of two arrays; `pairwise_distance` by default.
        margin: See above.
        swap: Whether d(positive, negative) counts where it is the shorter one of the last two.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a, b, c = (cp.asarray(np.float32([v])) for v in ([3, 4], [4, 3], [3, 1]))
        >>> distance = lambda a, b: 1 - ops.cosine_similarity(a, b)
        >>> loss = ops.triplet_margin_with_distance_loss(a, b, c, distance_function=distance)
        >>> round(float(loss), 4)
        0.8622
    """
    what = "triplet_margin_with_distance_loss"
    function = distance_function or pairwise_distance
    arrays = (anchor, positive, negative)
    distances, margin = _distances_by(what, function, arrays, margin, swap, reduction)
    return _triplet[bool(swap)](reduction, distances, (margin,))


def triplet_margin_with_distance_loss_backward(
    grad: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    distance_backward: Callable[[Any, Any, Any], tuple[Any, Any]] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> tuple[Array, Array, Array]:
    """Returns the gradients of `triplet_margin_with_distance_loss` in its three inputs.

    Args:
        grad: Of the loss.
        anchor: As in `triplet_margin_with_distance_loss`.
        positive: Likewise.
        negative: Likewise.
        distance_function: Likewise.
        distance_backward: Of the gradient of a distance and the two arrays: returns the gradients
            of these. Needed where there is a ``distance_function``.
        margin: Likewise.
        swap: Likewise.
        reduction: Likewise.

    Raises:
        ShapeError, DTypeError, DefinitionError: With what was given and what was expected.
    """
    what = "triplet_margin_with_distance_loss_backward"
    if (distance_function is None) != (distance_backward is None):
        raise DefinitionError(f"{what}: expected distance_function and distance_backward, or none")
    function = distance_function or pairwise_distance
    backward = distance_backward or pairwise_distance_backward
    arrays = (anchor, positive, negative)
    distances, margin = _distances_by(what, function, arrays, margin, swap, reduction)
    slopes = _triplet[bool(swap)].backward(reduction, grad, distances, (margin,))
    ga, gp = backward(slopes[0], anchor, positive)
    ga2, gn = backward(slopes[1], anchor, negative)
    if swap:
        gp2, gn2 = backward(slopes[2], positive, negative)
        gp, gn = _add(gp, gp2), _add(gn, gn2)
    return _add(ga, ga2), gp, gn


_add = Pointwise("y0 = x0 + x1;", name="add_gradients")


def _distances_by(
    what: str,
    function: Callable[[Any, Any], Any],
    arrays: tuple[Any, ...],
    margin: Any,
    swap: Any,
    reduction: Any,
) -> tuple[list[Any], float]:
    check_reduction(what, reduction)
    if not callable(function):
        raise DefinitionError(f"{what}: distance_function={function!r}: expected a function")
    for label, array in zip(("anchor", "positive", "negative"), arrays, strict=True):
        check_floats(what, label, array)
        if array.shape != arrays[0].shape:
            raise ShapeError(
                f"{what}: {label} has shape {array.shape}, anchor {arrays[0].shape}; expected one"
            )
    anchor, positive, negative = arrays
    pairs = [(anchor, positive), (anchor, negative), *([(positive, negative)] if swap else [])]
    return [function(a, b) for a, b in pairs], real(what, "margin", margin)


def norm_order(what: str, p: Any) -> float:
    """Returns the order of a norm; a ShapeError unless it is above 0."""
    norm: float = real(what, "p", p)
    if not norm > 0:
        raise ShapeError(f"{what}: p={norm}; expected more than 0")
    return norm


def _distances(
    what: str, arrays: tuple[Any, ...], margin: Any, p: Any, eps: Any, swap: Any, reduction: Any
) -> tuple[list[Array], float]:
    """Returns the distances of the three, or of two pairs, and the margin."""
    check_reduction(what, reduction)
    for label, array in zip(("anchor", "positive", "negative"), arrays, strict=True):
        check_floats(what, label, array)
        if array.shape != arrays[0].shape or not array.shape:
            raise ShapeError(
                f"{what}: {label} has shape {array.shape}, anchor {arrays[0].shape}; expected "
                "(N, D) or (D,) of all"
            )
    anchor, positive, negative = arrays
    dtype = promote([a.dtype for a in arrays])
    operator = _distance(value_dtype(dtype, [dtype]), norm_order(what, p))
    pairs = [(anchor, positive), (anchor, negative), *([(positive, negative)] if swap else [])]
    eps = real(what, "eps", eps)
    found = [operator(a, b, eps, axis=-1) for a, b in pairs]
    return found, real(what, "margin", margin)


def power_of(p: float) -> tuple[str, str]:
    """A term of the norm of difference d, and the norm of their sum.

    At 0 both are apart, so that gradients are 0 there, as PyTorch's.
    """
    if p == 1:
        return "fabs(d)", "reduce_y0"
    if p == 2:
        return "d * d", "(reduce_y0 == 0 ? 0 : sqrt(reduce_y0))"
    root = f"pow(reduce_y0, (typeof_reduce_y0){1 / p!r})"
    return f"(d == 0 ? 0 : pow(fabs(d), (typeof_y0){p!r}))", f"(reduce_y0 == 0 ? 0 : {root})"


# As in PyTorch, all that are as far count whole.
_FARTHEST = """
    typeof_gx0 d = x0 - x1 + w0;
    typeof_gx0 s = y0 != 0 && fabs(d) == y0 ? (d > 0 ? gy0 : -gy0) : 0;
    gx0 = s;
    gx1 = -s;
"""
_LARGER = "reduce_y0 = {0} > reduce_y0 || {0} != {0} ? {0} : reduce_y0;"


@lru_cache(maxsize=64)
def _distance(dtype: AnyDType, p: float) -> Reduction:
    difference = "typeof_y0 d = x0 - x1 + w0; "
    types: dict[str, Any] = {"result_type": dtype, "partial_type": value_dtype(dtype, [dtype])}
    if math.isinf(p):
        return Reduction(
            difference + "y0 = fabs(d);",
            init="reduce_y0 = 0;",
            step=_LARGER.format("y0"),
            combine=_LARGER.format("other_y0"),
            gradient=_FARTHEST,
            **types,
            name="pairwise_distance",
        )
    term, norm = power_of(p)
    return Reduction(
        f"{difference}y0 = {term};",
        **added(1),
        finalize=f"y0 = {norm};",
        **types,
        name="pairwise_distance",
    )


@lru_cache(maxsize=64)
def _distance_gradient(dtype: AnyDType, p: float) -> ReductionGradient:
    return _distance(dtype, p).gradient()


def slope_of(n: int, a: str, b: str, r: str, g: str, p: float) -> str:
    """Declares s, g times the slope of distance r by a: sign(d) (|d| / distance)^(p - 1)."""
    sign = f"(d{n} > 0 ? 1 : d{n} < 0 ? -1 : d{n})"
    if p == 2:
        value = f"d{n} / {r}"
    elif p == 1:
        value = sign
    elif math.isinf(p):
        value = f"(fabs(d{n}) == {r} ? {sign} : 0)"
    else:
        value = f"{sign} * pow(fabs(d{n}) / {r}, (typeof_y0){p - 1!r})"
    return f"typeof_y0 d{n} = {a} - {b} + w0; typeof_y0 s{n} = {r} == 0 ? 0 : {g} * ({value}); "


@lru_cache(maxsize=64)
def _triplet_slopes(types: tuple[AnyDType, ...], p: float, swap: bool) -> Pointwise:
    """Of three vectors, the distances of pairs, and the gradients of these."""
    count = 3 if swap else 2

    def slope(n: int, a: str, b: str) -> str:
        return slope_of(n, a, b, f"x{3 + n}", f"x{3 + count + n}", p)

    expr = slope(0, "x0", "x1") + slope(1, "x0", "x2")
    if swap:
        expr += slope(2, "x1", "x2") + "y0 = s0 + s1; y1 = s2 - s0; y2 = -s1 - s2;"
    else:
        expr += "y0 = s0 + s1; y1 = -s0; y2 = -s1;"
    return Pointwise(expr, result_type=types, name="triplet_slopes")
