"""Losses of three vectors, of which two are to be near, as in `torch.nn.functional`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.gradients.vjp import vjp
from clprim.ops.loss.distance import (
    LARGER,
    distance,
    distance_gradient,
    norm_order,
    power_of,
)
from clprim.ops.loss.reduced import Loss, above_0, check_reduction
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, real
from clprim.ops.shared.strings import kernel
from clprim.ops.shared.sums import added
from clprim.primitives.reduction import Reduction


@operator(autocast="float32", sample='x, x, x, reduction="none"')
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
    """
    what = "triplet_margin_loss"
    arrays = (anchor, positive, negative)
    _check(what, arrays, reduction, 1)
    numbers = real(what, "eps", eps), real(what, "margin", margin)
    operator = _triplet_rows(_wide(*arrays), norm_order(what, p), bool(swap))
    if reduction == "none":
        return operator(*arrays, *numbers, axis=-1, out=out)
    return _rows_together(reduction, (operator(*arrays, *numbers, axis=-1),), out=out)


triplet_margin_loss_backward = vjp(triplet_margin_loss, "anchor positive negative")


_rows_together = Loss("triplet_margin_loss", "y0 = x0;")
_triplet = {
    swap: Loss(
        "triplet_margin_loss",
        f"typeof_y0 m = w0 + x0 - {shorter}; y0 = {above_0('m')};",
        inputs=2 + swap,
    )
    for swap, shorter in ((False, "x1"), (True, "min(x1, x2)"))
}


def _of_distances(near: Any, far: Any, other: Any, margin: float, reduction: str) -> Array:
    distances = (near, far) if other is None else (near, far, other)
    return _triplet[other is not None](reduction, distances, (margin,))


_of_distances_backward = vjp(_of_distances, "near far other")


@operator(sample='x, x, x, reduction="none"')
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
    function = _distance if distance_function is None else distance_function
    arrays = (anchor, positive, negative)
    distances, margin = _distances_by(what, function, arrays, margin, swap, reduction)
    return _of_distances(*distances, margin, reduction)  # type: ignore[call-arg]


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
        distance_backward: Of the gradient of a distance and the two arrays: returns the gradients
            of these. Needed where there is a ``distance_function``.
    """
    what = "triplet_margin_with_distance_loss_backward"
    if (distance_function is None) != (distance_backward is None):
        raise DefinitionError(f"{what}: expected distance_function and distance_backward, or none")
    function = _distance if distance_function is None else distance_function
    backward = distance_backward or _distance_backward
    arrays = (anchor, positive, negative)
    distances, margin = _distances_by(what, function, arrays, margin, swap, reduction)
    slopes = _of_distances_backward(grad, *distances, margin, reduction)
    ga, gp = backward(slopes[0], anchor, positive)
    ga2, gn = backward(slopes[1], anchor, negative)
    ga = _added(anchor, ga, ga2)
    if swap:
        gp2, gn2 = backward(slopes[2], positive, negative)
        return ga, _added(positive, gp, gp2), _added(negative, gn, gn2)
    return ga, _added(positive, gp), _added(negative, gn)


def _added(like: Any, *grads: Any) -> Array:
    """Gradients by several distances, in the dtype of what they are of."""
    if len(grads) == 1 and grads[0].dtype == like.dtype:
        return grads[0]
    text = "y0 = x0 + x1;" if len(grads) > 1 else "y0 = x0;"
    return kernel(text, "add_gradients", like.dtype)(*grads)


def _distance(a: Any, b: Any) -> Array:
    """As `pairwise_distance`, in float32 at least."""
    return distance(_wide(a, b), 2.0)(a, b, _EPS, axis=-1)


def _distance_backward(grad: Any, a: Any, b: Any) -> tuple[Array, Array]:
    """The gradients of `_distance`, which are added to others before they are rounded."""
    wide = [kernel("y0 = x0;", "widened", _wide(a, b))(v) for v in (a, b)]
    ga, gb = distance_gradient(wide[0].dtype, 2.0)(*wide, _EPS, grad=grad, axis=-1)
    return ga, gb


def _wide(*arrays: Any) -> AnyDType:
    dtype = promote([a.dtype for a in arrays])
    return value_dtype(dtype, [dtype])


_EPS = 1e-6


def _distances_by(
    what: str,
    function: Callable[[Any, Any], Any],
    arrays: tuple[Any, ...],
    margin: Any,
    swap: Any,
    reduction: Any,
) -> tuple[list[Any], float]:
    if not callable(function):
        raise DefinitionError(f"{what}: distance_function={quoted(function)}: expected a function")
    _check(what, arrays, reduction, 0)
    anchor, positive, negative = arrays
    pairs = [(anchor, positive), (anchor, negative), *([(positive, negative)] if swap else [])]
    distances = [function(a, b) for a, b in pairs]
    return [*distances, *[None] * (3 - len(pairs))], real(what, "margin", margin)


def _check(what: str, arrays: tuple[Any, ...], reduction: Any, least: int) -> None:
    """Refuses arrays that are not of one shape of so many dimensions at least."""
    check_reduction(what, reduction)
    for label, array in zip(("anchor", "positive", "negative"), arrays, strict=True):
        check_floating(what, label, array)
        if array.shape != arrays[0].shape or array.ndim < least:
            expected = "(N, D) or (D,) of all" if least else "one"
            raise ShapeError(
                f"{what}: {label} has shape {array.shape}, anchor {arrays[0].shape}; expected "
                f"{expected}"
            )


_PAIRS = ("x0 - x1", "x0 - x2", "x1 - x2")
# As of one distance, all elements that are as far count whole.
_FARTHEST_TRIPLET = """
    typeof_gx0 m = w1 + reduce_y0 - {shorter};
    typeof_gx0 g = m >= 0 ? gy0 : 0;
    {slopes}
    gx0 = s0 - s1;
    gx1 = -s0{positive};
    gx2 = s1{negative};
"""


@lru_cache(maxsize=64)
def _triplet_rows(dtype: AnyDType, p: float, swap: bool) -> Reduction:
    """The loss of each row, of three vectors, ``eps`` and the margin."""
    pairs = _PAIRS[: 2 + swap]
    term, norm = ("fabs(d)", "reduce_y0") if math.isinf(p) else power_of(p)
    expr = "".join(
        f"{{ typeof_y0 d = {pair} + w0; y{n} = {term}; }}\n" for n, pair in enumerate(pairs)
    )
    norms = [norm.replace("reduce_y0", f"reduce_y{n}") for n in range(len(pairs))]
    shorter = "min(r1, r2)" if swap else "r1"
    finalize = "".join(f"typeof_y0 r{n} = {text};\n" for n, text in enumerate(norms))
    finalize += f"typeof_y0 m = w1 + r0 - {shorter}; y0 = {above_0('m')};"
    strings: dict[str, Any] = added(len(pairs))
    if math.isinf(p):
        for part, other in (("step", "y"), ("combine", "other_y")):
            strings[part] = "".join(
                LARGER.format(f"{other}{n}").replace("reduce_y0", f"reduce_y{n}") + "\n"
                for n in range(len(pairs))
            )
        strings["gradient"] = _farthest_triplet(pairs)
    return Reduction(
        expr,
        **strings,
        finalize=finalize,
        result_type=dtype,
        partial_type=dtype,
        name="triplet_margin_loss",
    )


def _farthest_triplet(pairs: tuple[str, ...]) -> str:
    """The gradient in the greatest-difference norm."""
    parts = ["g", "g"]
    if len(pairs) == 3:
        less = "reduce_y{0} < reduce_y{1} ? g : reduce_y{0} == reduce_y{1} ? g / 2 : 0"
        parts = ["g", less.format(1, 2), less.format(2, 1)]
    slopes = [
        f"typeof_gx0 d{n} = {pair} + w0; typeof_gx0 g{n} = {part};\n"
        f"typeof_gx0 s{n} = reduce_y{n} != 0 && fabs(d{n}) == reduce_y{n} ? "
        f"(d{n} > 0 ? g{n} : -g{n}) : 0;\n"
        for n, (pair, part) in enumerate(zip(pairs, parts, strict=True))
    ]
    return _FARTHEST_TRIPLET.format(
        shorter="min(reduce_y1, reduce_y2)" if len(pairs) == 3 else "reduce_y1",
        slopes="".join(slopes),
        positive=" - s2" if len(pairs) == 3 else "",
        negative=" + s2" if len(pairs) == 3 else "",
    )
