"""Losses of margins between classes, one or several right ones a row, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, is_real, value_dtype
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.gradients.vjp import vjp
from clprim.ops.index.gather import check_index
from clprim.ops.loss.losses import binary_cross_entropy_with_logits
from clprim.ops.loss.reduced import check_reduction, scaled
from clprim.ops.norm.moments import spread_view
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape, dtype_of, real
from clprim.ops.shared.strings import kernel
from clprim.primitives.pointwise import Pointwise

# --- one right class -----------------------------------------------------------------------------

_TIMES = "y0 = x0 * w0;"
# A class that is none makes its row NaN.
_ONE = """
    long t = x1, c = coord(1);
    int right = t >= 0 && t < size_x0(1);
    typeof_y0 m = right ? w0 - at_x0(coord(0), right ? t : 0) + x0 : (typeof_y0)NAN;
"""


@operator(autocast="float32", sample="x[:, :, 0, 0], empty(0, int64)", wrt="input")
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    *,
    reduction: str = "mean",
) -> Array:
    """Returns the mean over classes of max(0, margin - input[target] + input[class])^p.

    The target's own class counts 0. A class that is none makes its row NaN.

    Args:
        input: (N, C) or (C,), of floating-point numbers.
        target: Classes: integers of shape (N,) or ().
        p: 1 or 2.
        margin: See above.
        weight: (C,): a factor for the rows of each class, or None.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[0.5, 0.25, 0.0]]))
        >>> round(float(ops.multi_margin_loss(x, cp.asarray(np.array([0])))), 4)
        0.4167
    """
    x, arrays, numbers = _one("multi_margin_loss", input, target, p, margin, weight, reduction)
    found = _one_term(value_dtype(x.dtype, [x.dtype]), p, weight is not None)(x, *arrays, *numbers)
    return _total(found, input, reduction)


def multi_margin_loss_backward(
    grad: Any,
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    *,
    reduction: str = "mean",
) -> Array:
    """Returns the gradient of `multi_margin_loss` with respect to its input."""
    what = "multi_margin_loss_backward"
    x, arrays, numbers = _one(what, input, target, p, margin, weight, reduction)
    grad = _of_rows(what, grad, input, reduction)
    numbers = (*numbers, scaled(reduction, x.shape[:1]))
    kind = value_dtype(x.dtype, [x.dtype])
    slopes = _one_slope(kind, p, weight is not None)(x, *arrays, grad, *numbers)
    sums = spread_view(add_up(slopes, 1), (1,))
    found = kernel("y0 = x1 == coord(1) ? -x2 : x0;", what, x.dtype)(slopes, arrays[0], sums)
    return found.reshape(input.shape)


def _one(
    what: str, input: Any, target: Any, p: Any, margin: Any, weight: Any, reduction: Any
) -> tuple[Any, tuple[Any, ...], tuple[float, ...]]:
    """Returns the input as rows, targets and weights beside it, and what the strings need."""
    check_reduction(what, reduction)
    x = _as_rows(what, input)
    if not is_real(p) or p not in (1, 2):
        raise DefinitionError(f"{what}: p={quoted(p)}; expected 1 or 2")
    check_index(what, "target", target)
    check_shape(what, "target", target, input.shape[:-1])
    arrays = [spread_view(target.reshape(x.shape[0]), (1,))]
    if weight is not None:
        check_floating(what, "weight", weight)
        check_shape(what, "weight", weight, x.shape[1:])
        arrays.append(weight)
    return x, tuple(arrays), (real(what, "margin", margin), 1 / x.shape[1])


def _one_term(dtype: AnyDType, p: int, weight: bool) -> Pointwise:
    factor = " * at_x2(t)" if weight else ""
    power = "m * m" if p == 2 else "m"
    text = f"{_ONE} y0 = !right ? m : t == c || m <= 0 ? 0 : {power} * w1{factor};"
    return kernel(text, "multi_margin_loss", dtype)


def _one_slope(dtype: AnyDType, p: int, weight: bool) -> Pointwise:
    factor, grad = (" * at_x2(t)", "x3") if weight else ("", "x2")
    power = "2 * m" if p == 2 else "1"
    mention = "(void)x2;" if weight else ""
    text = f"""{_ONE} {mention}
        y0 = !right ? m : t == c || m <= 0 ? 0 : {power} * w1{factor} * {grad} * w2;
    """
    return kernel(text, "multi_margin_loss_backward", dtype)


# --- several right classes -----------------------------------------------------------------------

# Targets of a row end at the first negative one.
_EACH = "for (long k = 0, t; k < size_x1(1) && (t = at_x1(coord(0), k)) >= 0; ++k)"
_OWN = f"""
    int own = 0;
    {_EACH} own |= t == coord(1);
    y0 = own;
"""
_SEVERAL = f"""
    typeof_y0 sum = 0;
    if (!x2) {{
        {_EACH} {{
            typeof_y0 m = t < size_x0(1) ? 1 - at_x0(coord(0), t) + x0 : (typeof_y0)NAN;
            sum += m <= 0 ? 0 : m;
        }}
    }}
    y0 = sum * w0;
"""
_SEVERAL_SLOPE = f"""
    long found = 0, times = 0;
    {_EACH} {{
        times += t == coord(1);
        found += !x2 && t < size_x0(1) && 1 - at_x0(coord(0), t) + x0 > 0;
    }}
    if (x2) {{
        for (long c = 0; c < size_x0(1); ++c)
            found -= !at_x2(coord(0), c) && 1 - x0 + at_x0(coord(0), c) > 0;
        found *= times;
    }}
    y0 = found * x3 * w0;
"""


@operator(autocast="float32", sample="x[:, :, 0, 0], empty((0, 3), int64)", wrt="input")
def multilabel_margin_loss(input: Any, target: Any, *, reduction: str = "mean") -> Array:
    """Returns the sum of max(0, 1 - input[right] + input[wrong]) over classes, divided by C.

    Args:
        input: (N, C) or (C,), of floating-point numbers.
        target: The right classes of each row, and -1 behind the last: integers of that shape.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[0.5, 0.25, 0.0, 1.0]]))
        >>> float(ops.multilabel_margin_loss(x, cp.asarray(np.array([[3, 0, -1, 1]]))))
        0.375
    """
    x, arrays = _several("multilabel_margin_loss", input, target, reduction)
    operator = _table(_SEVERAL, value_dtype(x.dtype, [x.dtype]))
    return _total(operator(x, *arrays, 1 / x.shape[1]), input, reduction)


def multilabel_margin_loss_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean"
) -> Array:
    """Returns the gradient of `multilabel_margin_loss` with respect to its input."""
    what = "multilabel_margin_loss_backward"
    x, arrays = _several(what, input, target, reduction)
    grad = _of_rows(what, grad, input, reduction)
    scale = scaled(reduction, x.shape[:1]) / x.shape[1]
    found: Array = _table(_SEVERAL_SLOPE, x.dtype)(x, *arrays, grad, scale)
    return found.reshape(input.shape)


def _several(what: str, input: Any, target: Any, reduction: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns the input and the targets as rows, and which classes are right."""
    check_reduction(what, reduction)
    x = _as_rows(what, input)
    check_index(what, "target", target)
    check_shape(what, "target", target, input.shape)
    target = target.reshape(x.shape)
    return x, (target, _table(_OWN, np.dtype(np.bool_))(x, target))


def _table(text: str, dtype: AnyDType) -> Pointwise:
    inputs = max(n + 1 for n in range(4) if f"x{n}" in text)
    mention = "".join(f"(void)x{n};\n" for n in range(inputs))
    return kernel(mention + text, "multilabel_margin_loss", dtype)


# --- a probability for each class ----------------------------------------------------------------


@operator()
def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Array:
    """Returns the mean over classes of `binary_cross_entropy_with_logits`.

    Args:
        input: Of floating-point numbers; the last dimension counts the classes.
        target: 0 or 1 for each, of the same shape.
        weight: A factor that broadcasts with it, or None.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x, t = (cp.asarray(np.float32([v])) for v in ([1, -1], [1, 0]))
        >>> round(float(ops.multilabel_soft_margin_loss(x, t)), 4)
        0.3133
    """
    _soft("multilabel_soft_margin_loss", input, target, reduction)
    if reduction == "mean":
        return binary_cross_entropy_with_logits(input, target, weight)
    found = binary_cross_entropy_with_logits(input, target, weight, reduction="none")
    sums = add_up(found, -1 if reduction == "none" else None)
    return kernel(_TIMES, "margin_loss", found.dtype)(sums, 1 / max(1, input.shape[-1]))


multilabel_soft_margin_loss_backward = vjp(multilabel_soft_margin_loss, "input")


def _soft(what: str, input: Any, target: Any, reduction: Any) -> None:
    check_reduction(what, reduction)
    check_floating(what, "input", input)
    dtype_of(what, "target", target)
    if not input.ndim or target.shape != input.shape:
        raise ShapeError(
            f"{what}: input has shape {input.shape}, target {target.shape}; expected one shape of "
            "at least one dimension"
        )


# --- rows ----------------------------------------------------------------------------------------


def _as_rows(what: str, input: Any) -> Any:
    check_floating(what, "input", input)
    if input.ndim not in (1, 2) or not input.shape[-1]:
        raise ShapeError(f"{what}: input has shape {input.shape}, expected (N, C) or (C,)")
    return input if input.ndim == 2 else input.reshape(1, input.shape[0])


def _of_rows(what: str, grad: Any, input: Any, reduction: str) -> Any:
    """The gradient of each row's loss, beside the input's rows."""
    shape = input.shape[:-1] if reduction == "none" else ()
    check_shape(what, "grad", grad, shape)
    return spread_view(grad, (1,)) if grad.ndim else grad


def _total(terms: Any, input: Any, reduction: str) -> Array:
    """Adds up the terms of each row, or of all."""
    rows = add_up(terms, 1) if reduction == "none" else add_up(terms)
    scale = scaled(reduction, terms.shape[:1])
    result: Array = kernel(_TIMES, "margin_loss", input.dtype)(rows, scale)
    return result.reshape(input.shape[:-1]) if reduction == "none" else result
