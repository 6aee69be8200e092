"""Pooling: ONNX's attributes and positions of `clprim.ops`' poolings."""

from __future__ import annotations

import math
from typing import Any

from clprim import ops
from clprim.onnx.operators.conv import WINDOW, window_of
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Numbers, Run, family, handler
from clprim.onnx.values import INT64
from clprim.ops.registry import OnnxOperator


@family("positions", takes="storage_order")
def _positions(known: OnnxOperator, inner: Run) -> Run:
    """With positions in the whole array where they are wanted, or with the last plane turned."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        if not context.wanted(1):
            return inner(context, arrays, told)
        y, at = inner(context, arrays, told, return_indices=True)
        shape = arrays["x"].shape
        sizes, lines = shape[2:], ["long rest = x0, at = 0;"]
        for d in reversed(range(len(sizes))):
            step = math.prod(sizes[:d] if told.get("storage_order") else sizes[d + 1 :])
            lines.append(f"at += rest % {sizes[d]} * {step}L; rest /= {sizes[d]};")
        lines.append(f"y0 = at + ((long)coord(0) * {shape[1]} + coord(1)) * {math.prod(sizes)}L;")
        return y, string("\n".join(lines), INT64, at)

    return run


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


@handler("GlobalLpPool")
def _global_lp(x: Any, *, p: float = 2) -> Any:
    powers = string("y0 = pow(fabs(x0), (typeof_x0)w0);", x.dtype, x, float(p))
    total = ops.sum(powers, tuple(range(2, x.ndim)), keepdims=True)
    return string("y0 = pow(x0, (typeof_x0)w0);", x.dtype, total, 1 / p)
