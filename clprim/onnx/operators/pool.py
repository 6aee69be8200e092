"""Pooling: ONNX's attributes and positions of `clprim.ops`' poolings."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.conv import WINDOW, window_of
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Numbers, handler
from clprim.onnx.values import INT64

#: Attributes of a pooling.
POOL = f"{WINDOW} ceil_mode"


def _pooled(kind: str, told: Any, x: Any, *before: Any, **options: Any) -> Any:
    """Calls a pooling with the window that attributes describe."""
    pool = getattr(ops, f"{kind}_pool{x.ndim - 2}d", None)
    if pool is None:
        raise DefinitionError(f"a pooling of {x.ndim - 2} dimensions; there are those of 1 to 3")
    w = window_of(told, x.shape[2:], told["kernel_shape"])
    rest = {"padding": tuple(w.pads), "dilation": tuple(w.dilations), **options}
    up = bool(told.get("ceil_mode"))
    return pool(x, *before, tuple(w.kernel), tuple(w.strides), ceil_mode=up, **rest)


@handler("MaxPool", takes=f"{POOL} storage_order", makes=2)
def _max_pool(context: Any, x: Any, **told: Any) -> Any:
    if not context.wanted(1):
        return _pooled("max", told, x)
    y, at = _pooled("max", told, x, return_indices=True)
    sizes = x.shape[2:]  # positions are those in the whole array, or with the last plane turned
    lines = ["long rest = x0, at = 0;"]
    for d in reversed(range(len(sizes))):
        step = math.prod(sizes[:d] if told.get("storage_order") else sizes[d + 1 :])
        lines.append(f"at += rest % {sizes[d]} * {step}L; rest /= {sizes[d]};")
    lines.append(f"y0 = at + ((long)coord(0) * {x.shape[1]} + coord(1)) * {math.prod(sizes)}L;")
    return y, string("\n".join(lines), INT64, at)


@handler("AveragePool", takes=POOL)
def average(x: Any, *, count_include_pad: bool = False, **told: Any) -> Any:
    """Returns the averages of windows."""
    return _pooled("avg", told, x, count_include_pad=count_include_pad)


@handler("LpPool", takes=POOL)
def _lp_pool(x: Any, *, p: float = 2, **told: Any) -> Any:
    return _pooled("lp", told, x, float(p), absolute=True)


@handler("MaxUnpool", takes=WINDOW)
def _max_unpool(x: Any, indices: Any, output_shape: Numbers = None, **told: Any) -> Any:
    v = window_of(told, x.shape[2:], told["kernel_shape"])
    rows = zip(x.shape[2:], v.strides, v.kernel, v.pads, strict=True)
    inner = (*x.shape[:2], *((m - 1) * s + k - sum(pad) for m, s, k, pad in rows))
    # Positions are those of an array of the sizes that follow from the window.
    zeros = string("y0 = 0;", x.dtype, shape=(math.prod(inner),))
    found = ops.scatter(zeros, 0, indices.reshape(-1), x.reshape(-1)).reshape(inner)
    wanted = zip((output_shape or inner)[::-1], inner[::-1], strict=True)
    return ops.pad(found, [n for w, m in wanted for n in (0, w - m)])


@handler("GlobalAveragePool")
def global_average(x: Any) -> Any:
    """Returns the average of each channel."""
    return ops.mean(x, tuple(range(2, x.ndim)), keepdims=True)


@handler("GlobalMaxPool")
def _global_max(x: Any) -> Any:
    return ops.amax(x, tuple(range(2, x.ndim)), keepdims=True)


@handler("GlobalLpPool")
def _global_lp(x: Any, *, p: float = 2) -> Any:
    powers = string("y0 = pow(fabs(x0), (typeof_x0)w0);", x.dtype, x, float(p))
    total = ops.sum(powers, tuple(range(2, x.ndim)), keepdims=True)
    return string("y0 = pow(x0, (typeof_x0)w0);", x.dtype, total, 1 / p)
