"""Folding a batch normalisation into the layer before it, once, before inference."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.norm.checks import check_floats, check_vector
from clprim.ops.norm.moments import statistics_dtype
from clprim.ops.reduction.reduce import all as all_of
from clprim.ops.registry import operator
from clprim.ops.shared.checks import real
from clprim.ops.shared.dims import empty_like
from clprim.primitives.pointwise import Pointwise

_can_fold = Pointwise("y0 = x0 + w0 > 0 && x0 + w0 < INFINITY;", result_type=bool, name="foldable")
_is_finite = Pointwise("y0 = fabs(x0) < INFINITY;", result_type=bool, name="is_finite")


@lru_cache(maxsize=16)
def _scale(kind: AnyDType, gamma: bool) -> Pointwise:
    expr = f"y0 = {'x1' if gamma else '1'} / sqrt(x0 + w0);"
    return Pointwise(expr, result_type=kind, name="fold_scale")


@lru_cache(maxsize=16)
def _fold_weight(dtype: AnyDType) -> Pointwise:
    return Pointwise("y0 = x0 * x1;", result_type=dtype, name="fold_weight")


@lru_cache(maxsize=64)
def _fold_bias(dtype: AnyDType, bias: bool, beta: bool) -> Pointwise:
    """From mean, scale, the layer's bias and the normalisation's: what is added in the end."""
    from_mean = "x2 - x0" if bias else "-x0"
    expr = f"y0 = ({from_mean}) * x1" + (f" + x{2 + bias};" if beta else ";")
    return Pointwise(expr, result_type=dtype, name="fold_bias")


@operator()
def fold_batch_norm(
    w: Any,
    bias: Any,
    mean: Any,
    var: Any,
    gamma: Any,
    beta: Any,
    *,
    eps: float = 1e-5,
    transposed: bool = False,
) -> tuple[Array, Array]:
    """Returns (w', bias') of a layer that computes what this layer and a batch norm do in a row.

    With scale = gamma / √(var + eps): w' = w · scale, a factor for each output channel, and
    bias' = (bias - mean) · scale + beta. An existing bias is scaled, too.

    The layer is a linear one, or a convolution of any dimensions and groups, depthwise ones
    included: output channels are the first axis of ``w``. Of a transposed convolution they are the
    second axis, group by group. The normalisation must come right after the layer and use running
    statistics; one *before* a padded convolution cannot be folded: padding is not normalised.

    Args:
        w: (C, …); of a transposed convolution (C_in, C / groups, …).
        bias: (C,), or None.
        mean: The running mean, (C,).
        var: The running variance, (C,).
        gamma: The normalisation's weight, (C,), or None for 1.
        beta: The normalisation's bias, (C,), or None for 0.
        eps: Added to the variance.
        transposed: Whether ``w`` belongs to a transposed convolution.

    Returns:
        w' in the memory format and dtype of ``w``; bias' of shape (C,), in the dtype of ``bias``,
        or else of ``w``.

    Raises:
        ShapeError: Channels that do not fit.
        DTypeError: Integers (a quantised layer has scales of its own); a variance that is negative,
            infinite, NaN, or with ``eps`` zero; results that the dtype of ``w`` cannot hold.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> w, bias = cp.asarray(np.float32([[1, 2], [3, 4]])), cp.asarray(np.float32([1, 1]))
        >>> mean, var = cp.asarray(np.float32([0, 5])), cp.asarray(np.float32([4, 1]))
        >>> folded, shift = ops.fold_batch_norm(w, bias, mean, var, None, None, eps=0)
        >>> folded.get(), shift.get()
        (array([[0.5, 1. ],
               [3. , 4. ]], dtype=float32), array([ 0.5, -4. ], dtype=float32))
    """
    what = "fold_batch_norm"
    dtype = check_floats(what, "w", w)
    for label, vector in (("mean", mean), ("var", var)):
        if vector is None:
            raise DTypeError(f"{what}: expected a device array for {label}, got None")
        check_floats(what, label, vector)
    if len(var.shape) != 1:
        raise ShapeError(f"{what}: var has shape {var.shape}, expected (C,): one value a channel")
    channels = var.shape[0]
    vectors = {"mean": mean, "bias": bias, "gamma": gamma, "beta": beta}
    for label, vector in vectors.items():
        check_vector(what, label, vector, channels)
    eps = real(what, "eps", eps)
    groups = _groups(what, w.shape, channels, transposed=transposed)
    if not all_of(_can_fold(var, eps)).item():
        raise DTypeError(
            f"{what}: cannot fold: var + eps must be positive and finite in every channel, "
            f"eps={quoted(eps)}"
        )

    gains = () if gamma is None else (gamma,)
    scale = _scale(statistics_dtype(dtype), gamma is not None)(var, *gains, eps)
    folded = empty_like(w, w.shape, dtype)
    factors = _factors(scale, groups, len(w.shape))
    if groups is None:
        _fold_weight(dtype)(w, factors, out=folded)
    else:
        _fold_weight(dtype)(_grouped(w, groups), factors, out=_grouped(folded, groups))
    added = [a for a in (bias, beta) if a is not None]
    shift = _fold_bias(dtype if bias is None else bias.dtype, bias is not None, beta is not None)(
        mean, scale, *added
    )
    for label, result in (("w'", folded), ("bias'", shift)):
        if not all_of(_is_finite(result)).item():
            raise DTypeError(f"{what}: cannot fold: {label} is not finite in {result.dtype}")
    return folded, shift


def _groups(what: str, shape: tuple[int, ...], channels: int, *, transposed: bool) -> int | None:
    """Returns how many groups the first two axes of a transposed ``w`` make; None of another."""
    if len(shape) < 2:
        raise ShapeError(f"{what}: w has shape {shape}, expected two dimensions at least")
    if not transposed:
        if shape[0] != channels:
            hint = "; transposed=True takes (C_in, C / groups, …)" if shape[1] == channels else ""
            raise ShapeError(
                f"{what}: w has shape {shape}, whose first axis is not the {channels} channels of "
                f"the normalisation{hint}"
            )
        return None
    if not shape[1] or channels % shape[1] or shape[0] % (channels // shape[1] or 1):
        raise ShapeError(
            f"{what}: transposed w has shape {shape}, expected (C_in, C / groups, …) with "
            f"C = {channels}, the channels of the normalisation"
        )
    return channels // shape[1]


def _grouped(w: Any, groups: int) -> Array:
    """Views a transposed (C_in, C / groups, …) as (groups, C_in / groups, C / groups, …)."""
    each = w.shape[0] // max(1, groups)
    return view_of(
        w,
        (groups, each, *w.shape[1:]),
        (each * w.strides[0], *w.strides),
        w.offset,
    )


def _factors(scale: Any, groups: int | None, ndim: int) -> Array:
    """Views a factor an output channel so that it broadcasts over ``w``, or its groups."""
    size = scale.dtype.itemsize
    if groups is None:
        ones = ndim - 1
        return view_of(scale, (scale.size,) + (1,) * ones, (size,) * ndim, scale.offset)
    each = scale.size // max(1, groups)
    shape = (groups, 1, each) + (1,) * (ndim - 2)
    return view_of(scale, shape, (each * size, size, size) + (size,) * (ndim - 2), scale.offset)
