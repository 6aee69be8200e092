"""Group normalisation (Wu and He 2018).

It normalises over the pixels and the channels of a group, of each image by itself. Names and
arguments are those of `torch.nn.functional`; any memory format, in which the result comes back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, new_dense, view_of
from clprim.dtypes import AnyDType, is_integer
from clprim.errors import ShapeError, quoted
from clprim.gradients.grouped import GroupedGradient
from clprim.graph.repeat import repeatable
from clprim.ops.norm.checks import (
    channels_of,
    check_floats,
    check_gradient,
    check_result,
    check_statistics,
    check_vector,
)
from clprim.ops.norm.moments import (
    moments,
    origins_of,
    spread_view,
    standardizing,
    statistics_dtype,
)
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_mask, real
from clprim.ops.shared.dims import empty_like


@operator(
    autocast="float32",
    torch="native_group_norm -N -C -HxW group:num_groups return_stats=True @none;"
    "native_group_norm_backward -N -C -HxW group:num_groups @of_two,contiguous,contiguous",
    onnx="GroupNormalization(x, weight, bias) num_groups epsilon:eps=1e-05 @repeated",
    sample="x, 3",
    wrt="x weight bias",
    saves="return_stats: mean rstd",
)
@repeatable
def group_norm(
    x: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    return_stats: bool = False,
    out: Any = None,
) -> Array:
    """Returns (x - mean) / √(variance + eps) · weight + bias, statistics a group of channels.

    Args:
        x: (N, C, …) of floating-point numbers.
        num_groups: G, a divisor of C. Neighbouring channels form a group.
        weight: A factor a channel, (C,), or None.
        bias: A summand a channel, (C,), or None.
        eps: Added to the biased variance.
        return_stats: Whether to return (y, mean, rstd), for `group_norm_backward`; (N, G) each.
        out: Where y goes; may be ``x``.

    Raises:
        ShapeError: ``num_groups`` does not divide C; a single value in all; wrong shapes.
        DTypeError, DeviceError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[1, 3, 10, 30]]))
        >>> ops.group_norm(x, 2, eps=0).get()
        array([[-1.,  1., -1.,  1.]], dtype=float32)
    """
    what = "group_norm"
    groups = check_groups(what, x, num_groups, {"weight": weight, "bias": bias})
    if math.prod(x.shape) // max(1, groups) == 1:
        raise ShapeError(
            f"{what}: expected more than one value a group, got x of shape {x.shape} in "
            f"{groups} groups"
        )
    found = normalize_groups(what, x, groups, weight, bias, eps, out)
    y: Any = (found[0], found[1], found[3]) if return_stats else found[0]
    return y


@repeatable
def group_norm_backward(
    grad: Any,
    x: Any,
    num_groups: int,
    weight: Any = None,
    mean: Any = None,
    rstd: Any = None,
    *,
    eps: float = 1e-5,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Array | None, Array | None, Array | None]:
    """Returns the gradients (dx, dweight, dbias) of a group normalisation.

    With xhat = (x - mean) · rstd, g = grad · weight and means over a group:
    dx = rstd · (g - mean(g) - xhat · mean(g · xhat)); dweight = Σ grad · xhat and dbias = Σ grad
    over images and pixels. They are derived from the strings of `group_norm`.

    ``mean`` and ``rstd`` are as `group_norm` returned them, computed anew where one is None; of the
    three gradients those are wanted that ``output_mask`` says. All else is as in the call.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """
    what = "group_norm_backward"
    groups = check_groups(what, x, num_groups, {"weight": weight})
    return groups_backward(what, grad, x, groups, weight, mean, rstd, eps, output_mask)


# --- the work -------------------------------------------------------------------------------------


def normalize_groups(
    what: str,
    x: Any,
    groups: int,
    weight: Any,
    bias: Any,
    eps: Any,
    out: Any,
    written: Sequence[Any] = (),
) -> tuple[Array, Array, Array, Array]:
    """Returns y, and mean, variance and 1 / deviation of every group, (N, G) each.

    ``out`` must not overlap other arrays that are ``written``.
    """
    eps = real(what, "eps", eps)
    kind = statistics_dtype(x.dtype)
    if out is not None:
        given = [a for a in (weight, bias) if a is not None]
        check_result(what, out, x.shape, x.dtype, [x, *given, *written])
    grouped = _grouped(x, groups)
    axes = tuple(range(2, len(grouped.shape)))
    origins = origins_of(grouped, axes, kind)
    if out is None:
        out = empty_like(x, x.shape, x.dtype)
    gains = (_groups_of(a, groups) for a in (weight, bias) if a is not None)
    pixels = tuple(range(2, len(x.shape)))
    mean, var, rstd = (new_dense(grouped.shape[:2], kind) for _ in range(3))
    operator = standardizing(
        x.dtype, len(origins), weight is not None, bias is not None, "group_norm"
    )
    operator.apply(
        grouped,
        *origins,
        *(spread_view(a, pixels) for a in gains),
        eps,
        axis=axes,
        out=_grouped(out, groups),
        keep=[spread_view(a, axes) for a in (mean, rstd, var)],
    )
    return out, mean, var, rstd


def groups_backward(
    what: str,
    grad: Any,
    x: Any,
    groups: int,
    weight: Any,
    mean: Any,
    rstd: Any,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """Returns the gradients of `normalize_groups`; see `group_norm_backward`."""
    check_gradient(what, grad, x)
    wanted = check_mask(what, mask, ("dx", "dweight", "dbias"))
    kind = statistics_dtype(x.dtype)
    grouped = _grouped(x, groups)
    check_statistics(what, (x.shape[0], groups), mean=mean, rstd=rstd)
    if mean is None or rstd is None:
        axes = tuple(range(2, len(grouped.shape)))
        mean, _, rstd = moments(grouped, axes, real(what, "eps", eps))
    axes = tuple(range(2, len(grouped.shape)))
    mean, rstd = (spread_view(a, axes) for a in (mean, rstd))
    # Distances are from the mean, which is at hand, whatever the origin was.
    saved = {"grad": _grouped(grad, groups), "axis": axes, "saved": (mean, rstd)}
    pixels = tuple(range(2, len(x.shape)))
    gains = () if weight is None else (spread_view(_groups_of(weight, groups), pixels),)
    dx = dweight = dbias = None
    if wanted[0] and (weight is None or not any(wanted[1:])):
        dx = _gradient(x.dtype, bool(gains), False)(grouped, mean, *gains, 0.0, **saved)
    if any(wanted[1:]):
        # Nothing of these is read but shape and dtype.
        places = [spread_view(_groups_of(new_dense((x.shape[1],), kind), groups), pixels)]
        places = [*gains, *places] if gains else places * 2
        together = wanted[0] and weight is not None
        operator = _gradient(x.dtype, together, True)
        *found, dweight, dbias = operator(grouped, mean, *places, 0.0, **saved)
        dx = found[0] if found else dx
    return (
        None if dx is None else _ungrouped(dx, x.shape),
        _flat(dweight) if wanted[1] else None,
        _flat(dbias) if wanted[2] else None,
    )


# --- kernels --------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _gradient(dtype: AnyDType, weight: bool, parameters: bool) -> GroupedGradient:
    """The gradient in x, with a weight or without, and in weight and bias, alone or beside it."""
    wrt = ("x0",) * (weight or not parameters) + ("x2", "x3") * parameters
    operator = standardizing(dtype, 1, weight or parameters, parameters, "group_norm", saved=True)
    return operator.gradient(wrt, saves=_SAVES)


_SAVES = ("group_y0", "group_y1")  # mean and 1 / deviation


# --- arguments and views --------------------------------------------------------------------------


def check_groups(what: str, x: Any, num_groups: int, parameters: dict[str, Any]) -> int:
    """Checks x, the number of groups and the per-channel parameters; returns G."""
    check_floats(what, "x", x)
    channels = channels_of(what, x)
    if not is_integer(num_groups) or num_groups < 1 or channels % num_groups:
        raise ShapeError(
            f"{what}: num_groups={quoted(num_groups)} does not divide the {channels} channels "
            "of x, "
            f"whose shape is {x.shape}"
        )
    for label, vector in parameters.items():
        check_vector(what, label, vector, channels)
    return int(num_groups)


def _grouped(x: Any, groups: int) -> Array:
    """Views (N, C, …) as (N, G, C / G, …)."""
    n, c, *rest = x.shape
    each = c // groups
    strides = (x.strides[0], each * x.strides[1], *x.strides[1:])
    return view_of(x, (n, groups, each, *rest), strides, x.offset)


def _groups_of(vector: Any, groups: int) -> Array:
    """Views (C,) as (G, C / G)."""
    each = vector.size // groups
    (stride,) = vector.strides
    return view_of(vector, (groups, each), (each * stride, stride), vector.offset)


def _ungrouped(x: Any, shape: tuple[int, ...]) -> Array:
    """Views (N, G, C / G, …) as (N, C, …)."""
    groups, each = x.shape[1:3]
    n, outer, inner, *rest = x.strides
    if groups > 1 and each > 1 and outer != each * inner:
        return x.reshape(shape)
    return view_of(x, shape, (n, inner if each > 1 else outer, *rest), x.offset)


def _flat(vector: Any) -> Array:
    """A gradient a channel as a vector."""
    return vector.reshape(vector.size)
