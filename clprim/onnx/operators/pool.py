"""Pooling: ONNX's attributes and positions of `clprim.ops`' poolings."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.conv import window_of
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import INT64

_KINDS = ("max", "avg", "lp")
_POOLS: dict[str, Any] = {
    f"{kind}{n}": getattr(ops, f"{kind}_pool{n}d") for kind in _KINDS for n in (1, 2, 3)
}


def _pooled(kind: str, attributes: Any, x: Any, *before: Any, **options: Any) -> Any:
    """Calls a pooling with the window that attributes describe."""
    pool = _POOLS.get(f"{kind}{x.ndim - 2}")
    if pool is None:
        raise DefinitionError(f"a pooling of {x.ndim - 2} dimensions; there are those of 1 to 3")
    w = window_of(attributes, x.shape[2:], attributes["kernel_shape"])
    rest = {"padding": tuple(w.pads), "dilation": tuple(w.dilations), **options}
    up = bool(attributes.get("ceil_mode"))
    return pool(x, *before, tuple(w.kernel), tuple(w.strides), ceil_mode=up, **rest)


@handler("MaxPool")
def _max_pool(context: Any, attributes: Any, x: Any) -> Any:
    if not context.wanted(1):
        return _pooled("max", attributes, x)
    y, at = _pooled("max", attributes, x, return_indices=True)
    sizes = x.shape[2:]  # positions are those in the whole array, or with the last plane turned
    lines = ["long rest = x0, at = 0;"]
    for d in reversed(range(len(sizes))):
        step = math.prod(sizes[:d] if attributes.get("storage_order") else sizes[d + 1 :])
        lines.append(f"at += rest % {sizes[d]} * {step}L; rest /= {sizes[d]};")
    lines.append(f"y0 = at + ((long)coord(0) * {x.shape[1]} + coord(1)) * {math.prod(sizes)}L;")
    return y, string("\n".join(lines), INT64, at)


@handler("AveragePool")
def _average_pool(context: Any, attributes: Any, x: Any) -> Any:
    counted = bool(attributes.get("count_include_pad"))
    return _pooled("avg", attributes, x, count_include_pad=counted)


@handler("LpPool")
def _lp_pool(context: Any, attributes: Any, x: Any) -> Any:
    return _pooled("lp", attributes, x, float(attributes.get("p", 2)), absolute=True)


@handler("MaxUnpool", host=(2,))
def _max_unpool(context: Any, attributes: Any, x: Any, places: Any, shape: Any = None) -> Any:
    n = x.ndim - 2
    flat = list(attributes.get("pads") or [0] * 2 * n)
    strides = attributes.get("strides") or [1] * n
    sizes = [
        (m - 1) * s + k - flat[d] - flat[n + d]
        for d, (m, s, k) in enumerate(
            zip(x.shape[2:], strides, attributes["kernel_shape"], strict=True)
        )
    ]
    inner = (*x.shape[:2], *sizes)
    # Positions are those of an array of the sizes that follow from the window.
    found = ops.scatter(
        string("y0 = 0;", x.dtype, shape=(math.prod(inner),)), 0, places.reshape(-1), x.reshape(-1)
    )
    wanted = inner if shape is None else tuple(int(s) for s in shape)
    borders = [n for w, m in zip(wanted[::-1], inner[::-1], strict=True) for n in (0, w - m)]
    return ops.pad(found.reshape(inner), borders)
