"""Pooling, with borders before and after, dilation and positions in the whole array."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.errors import ShapeError
from clprim.onnx.operators.border import padded
from clprim.onnx.operators.conv import Window, window_of
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import INT64, is_float
from clprim.ops.shared.strings import kernel

_MAX = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}
_MEAN = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


def _window(attributes: Any, x: Any) -> tuple[Window, tuple[int, ...]]:
    """Returns the window and the shape of the result."""
    window = window_of(attributes, x.shape[2:], attributes["kernel_shape"])
    up = bool(attributes.get("ceil_mode"))
    sizes = []
    for n, k, s, d, (before, after) in zip(x.shape[2:], *window, strict=True):
        rest = n + before + after - ((k - 1) * d + 1)
        if rest < 0:
            raise ShapeError(f"a window of {k} in {n} elements with a border {before}, {after}")
        size = (-(-rest // s) if up else rest // s) + 1
        if up and (size - 1) * s >= n + before:  # it would begin in the border behind
            size -= 1
        sizes.append(size)
    return window, (*x.shape[:2], *sizes)


def _loops(window: Window, body: str) -> str:
    """Loops over those elements of the window that are in x0; ``cN`` are their places."""
    lines = []
    for d, (k, s, t, (before, _)) in enumerate(zip(*window, strict=True)):
        lines += [
            f"long b{d} = (long)coord({2 + d}) * {s} - {before};",
            f"for (int k{d} = 0; k{d} < {k}; ++k{d}) {{ long c{d} = b{d} + k{d} * {t};",
            f"if (c{d} < 0 || c{d} >= size_x0({2 + d})) continue;",
        ]
    n = len(window.kernel)
    places = ", ".join(["coord(0)", "coord(1)", *(f"c{d}" for d in range(n))])
    return "\n".join([*lines, body.replace("VALUE", f"at_x0({places})"), "}" * n])


def _fits(window: Window, *, up: Any) -> bool:
    """Whether PyTorch's arguments say the same."""
    even = all(a == b and 2 * a <= k for (a, b), k in zip(window.pads, window.kernel, strict=True))
    return even and not up and len(window.kernel) in _MAX


@handler("MaxPool")
def _max_pool(context: Any, attributes: Any, x: Any) -> Any:
    window, shape = _window(attributes, x)
    up, n = attributes.get("ceil_mode"), x.ndim - 2
    if not context.wanted(1) and _fits(window, up=up):
        pads = [a for a, _ in window.pads]
        return _MAX[n](x, window.kernel, window.strides, pads, window.dilations)
    least = "-INFINITY" if is_float(x.dtype) else "0"
    start = f"typeof_x0 most = {least}; bool found = false; long at = 0;"
    strides = [math.prod(x.shape[d + 1 :]) for d in range(x.ndim)]
    if attributes.get("storage_order"):
        inner = [1, *x.shape[2:]]
        strides[2:] = [math.prod(inner[: d + 1]) for d in range(n)]
    flat = " + ".join([f"coord(0) * {strides[0]}L", f"coord(1) * {strides[1]}L",
                       *(f"c{d} * {strides[2 + d]}L" for d in range(n))])  # fmt: skip
    test = "!found || v > most || v != v"
    body = f"typeof_x0 v = VALUE; if ({test}) {{ most = v; at = {flat}; found = true; }}"
    text = f"{start}\n{_loops(window, body)}\ny0 = most; y1 = at;"
    return kernel(text, "max_pool", x.dtype, INT64)(x, shape=shape)


@handler("AveragePool")
def _average_pool(context: Any, attributes: Any, x: Any) -> Any:
    window, shape = _window(attributes, x)
    padded, up = bool(attributes.get("count_include_pad")), attributes.get("ceil_mode")
    if _fits(window, up=up) and set(window.dilations) == {1}:
        pads = [a for a, _ in window.pads]
        return _MEAN[x.ndim - 2](x, window.kernel, window.strides, pads, False, padded)
    body = "sum += VALUE; ++taken;"
    text = f"typeof_x0 sum = 0; int taken = 0;\n{_loops(window, body)}"
    if padded:  # what lies beyond the border, as the last window is rounded up, is not counted
        counts = [
            f"min((long){k}, (long)(size_x0({2 + d}) + {after} - b{d} + {t - 1}) / {t})"
            for d, (k, t, (_, after)) in enumerate(
                zip(window.kernel, window.dilations, window.pads, strict=True)
            )
        ]
        begins = "\n".join(
            f"long b{d} = (long)coord({2 + d}) * {s} - {before};"
            for d, (s, (before, _)) in enumerate(zip(window.strides, window.pads, strict=True))
        )
        text += f"\n{{ {begins} taken = {' * '.join(counts)}; }}"
    return string(f"{text}\ny0 = sum / max(taken, 1);", x.dtype, x, shape=shape)


@handler("LpPool")
def _lp_pool(context: Any, attributes: Any, x: Any) -> Any:
    window, shape = _window(attributes, x)
    p = float(attributes.get("p", 2))
    body = "sum += pow(fabs((typeof_x0)VALUE), (typeof_x0)w0);"
    end = "y0 = pow(sum, (typeof_x0)(1 / w0));"
    return string(f"typeof_x0 sum = 0;\n{_loops(window, body)}\n{end}", x.dtype, x, p, shape=shape)


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
    borders = [(0, w - n) for w, n in zip(wanted, inner, strict=True)]
    return padded(found.reshape(inner), borders, "constant")
