"""Fourier transforms, and what draws numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clprim import ops, random
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Number, Value, handler
from clprim.onnx.values import BOOL, FLOAT32, dtype_of, filled


@handler("DFT")
def _dft(
    context: Any, x: Any, length: Number = None, at: Number = None, *, axis: int = 1,
    inverse: bool = False, onesided: bool = False,
) -> Any:  # fmt: skip
    along = axis if context.version < 20 else -2 if at is None else at
    return ops.dft(x, length, along, inverse=inverse, onesided=onesided)


@handler("STFT")
def _stft(
    x: Any, step: Number, window: Any = None, length: Number = None, *, onesided: bool = True
) -> Any:
    n = window.shape[0] if length is None else length
    return ops.stft(x, n, step, window, onesided=onesided)


def _drawn(draw: Callable[..., Any], *numbers: str) -> Any:
    def run(x: Value = None, *, dtype: int = 0, shape: Any = (), **told: Any) -> Any:
        kind = dtype_of(dtype, FLOAT32 if x is None else x.dtype)
        sizes = tuple(shape) if x is None else x.shape
        return draw(sizes, *(float(told[n]) for n in numbers), dtype=kind)

    return run


handler("RandomNormal", "RandomNormalLike", takes="mean scale", idle="seed")(
    _drawn(random.normal, "mean", "scale")
)
handler("RandomUniform", "RandomUniformLike", takes="low high", idle="seed")(
    _drawn(random.uniform, "low", "high")
)


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
