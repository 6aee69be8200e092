"""Fourier transforms, and what draws numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops, random
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Number, Run, family, handler
from clprim.onnx.values import BOOL, FLOAT32, dtype_of, filled
from clprim.ops.registry import OnnxOperator, add_onnx


@family("along", takes="axis")
def _along(known: OnnxOperator, inner: Run) -> Run:
    """Along an axis that was an attribute before opset 20."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        axis = {"dim": told["axis"]} if "axis" in told else {}
        return inner(context, axis | arrays, told)

    return run


@family("framed")
def _framed(known: OnnxOperator, inner: Run) -> Run:
    """In frames as long as the window, where nothing else is said."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        length = {} if "n_fft" in arrays else {"n_fft": arrays["window"].shape[0]}
        return inner(context, arrays | length, told)

    return run


@family("drawn", takes="dtype shape")
def _drawn(known: OnnxOperator, inner: Run) -> Run:
    """Of a shape and a dtype that attributes say, or an array has."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        x = arrays[0] if arrays else None
        kind = dtype_of(told.get("dtype"), FLOAT32 if x is None else x.dtype)
        shape = tuple(told["shape"]) if x is None else x.shape
        return inner(context, [shape], told, dtype=kind)

    return run


for _name in ("", "Like"):
    add_onnx(f"RandomNormal{_name} mean scale:std -seed @drawn", random.normal)
    add_onnx(f"RandomUniform{_name} low high -seed @drawn", random.uniform)


@handler("Bernoulli", idle="seed")
def _bernoulli(x: Any, *, dtype: int = 0) -> Any:
    return string("y0 = rand() < x0 ? 1 : 0;", dtype_of(dtype, x.dtype), x)


@handler("Multinomial", idle="seed")
def _multinomial(x: Any, *, sample_size: int = 1, dtype: int = 6) -> Any:
    # The largest of logits with Gumbel's noise is a draw.
    text = "y0 = x0 - log(-log(max(rand(), 1e-30f)));"
    batch, classes = x.shape
    sizes = batch, sample_size, classes
    noisy = string(text, FLOAT32, x.reshape((batch, 1, classes)), shape=sizes)
    return ops.argmax(noisy, 2).astype(dtype_of(dtype))


@handler("Dropout", idle="is_test seed", makes=2)
def _dropout(context: Any, x: Any, ratio: Number = 0.5, training: Number = False) -> Any:
    mask = filled(x.shape, 1, BOOL)
    if context.version < 12 or not training or not ratio:
        return x, (mask if context.version >= 10 else filled(x.shape, 1, x.dtype))
    mask = string("y0 = rand() >= w0;", BOOL, np.float32(ratio), shape=x.shape)
    return string("y0 = x1 ? x0 * w0 : 0;", x.dtype, x, mask, 1 / (1 - ratio)), mask
