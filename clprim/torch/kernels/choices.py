"""Overloads of several operands: choices between them, bounds, sums with a factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.torch.kernels.elementwise import apply, promoted, typed
from clprim.torch.layout import contiguous
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of


@kernel("where.self", out=True)
def _where(condition: Any, a: Any, b: Any, *, out: Array | None = None) -> Any:
    if not isinstance(condition, Array):
        shape = np.broadcast_shapes(*[v.shape for v in (a, b) if isinstance(v, Array)])
        chosen = a if condition else b
        return apply("{a}", chosen, kind=promoted(a, b), out=out, shape=shape)
    return apply(
        "{a} ? (typeof_y0){b} : (typeof_y0){c}", condition, a, b, kind=promoted(a, b), out=out
    )


@kernel("clamp", "clamp.Tensor", out=True)
def _clamp(x: Array, min: Any = None, max: Any = None, *, out: Array | None = None) -> Any:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    ends = [v for v in (min, max) if v is not None]
    kind = promoted(x, *ends)
    real = kind.is_floating_point

    def bound(value: str, limit: str, sign: str) -> str:
        # NaN of the value or of a limit that is an array stays.
        nan = f"isnan({limit}) || " if real else ""
        return f"({nan}{value} {sign} {limit} ? {limit} : {value})"

    if max is None:
        return apply(typed(bound("{a}", "{b}", "<")), x, min, kind=kind, out=out)
    if min is None:
        return apply(typed(bound("{a}", "{b}", ">")), x, max, kind=kind, out=out)
    expr = "typeof_y0 v = {a}; const typeof_y0 lo = {b}; const typeof_y0 hi = {c}; "
    expr += f"v = {bound('v', 'lo', '<')}; y0 = {bound('v', 'hi', '>')};"
    return apply(expr, x, min, max, kind=kind, out=out)


@kernel("clamp_min", "clamp_min.Tensor", out=True)
def _clamp_min(x: Array, min: Any, *, out: Array | None = None) -> Any:
    return _clamp(x, min, out=out)


@kernel("clamp_max", "clamp_max.Tensor", out=True)
def _clamp_max(x: Array, max: Any, *, out: Array | None = None) -> Any:
    return _clamp(x, None, max, out=out)


@kernel("hardtanh", out=True)
def _hardtanh(x: Array, low: Any = -1, high: Any = 1, *, out: Array | None = None) -> Any:
    if not kind_of(x.dtype).is_floating_point:
        low, high = int(low), int(high)  # whole numbers stay such
    return _clamp(x, low, high, out=out)


@kernel("masked_fill.Scalar", "masked_fill.Tensor", lies=contiguous)
def _masked_fill(x: Array, mask: Array, value: Any) -> Any:
    if isinstance(value, Array) and value.ndim:
        raise RuntimeError(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)"
        )
    return apply("{b} ? (typeof_y0){c} : (typeof_y0){a}", x, mask, value, kind=kind_of(x.dtype))
