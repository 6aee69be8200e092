"""Fourier transforms, and what draws numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from clprim import ops
from clprim.onnx.context import filled
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler


@handler("DFT", host=(1, 2))
def _dft(context: Any, attributes: Any, x: Any, length: Any = None, at: Any = None) -> Any:
    old = context.version < 20
    axis = attributes["axis"] if old else -2 if at is None else int(at.reshape(-1)[0])
    n = None if length is None else int(length.reshape(-1)[0])
    inverse, onesided = bool(attributes["inverse"]), bool(attributes["onesided"])
    return ops.dft(x, n, axis, inverse=inverse, onesided=onesided)


@handler("STFT", host=(1, 3))
def _stft(
    context: Any, attributes: Any, x: Any, step: Any, window: Any = None, length: Any = None
) -> Any:
    n = window.shape[0] if length is None else int(length.reshape(-1)[0])
    hop, onesided = int(step.reshape(-1)[0]), bool(attributes["onesided"])
    return ops.stft(x, n, hop, window, onesided=onesided)


def _drawn(name: str, text: str, *numbers: str) -> None:
    @handler(name, f"{name}Like", raw=True)
    def run(context: Any, attributes: Any, x: Any = None) -> Any:
        kind = attributes.get("dtype")
        shape = tuple(attributes["shape"]) if x is None else x.shape
        dtype = (
            helper.tensor_dtype_to_np_dtype(kind) if kind else x.dtype if x is not None else "f4"
        )
        return string(text, dtype, *(np.float32(attributes[n]) for n in numbers), shape=shape)


_drawn("RandomNormal", "y0 = w0 + randn() * w1;", "mean", "scale")
_drawn("RandomUniform", "y0 = w0 + rand() * (w1 - w0);", "low", "high")


@handler("Bernoulli")
def _bernoulli(context: Any, attributes: Any, x: Any) -> Any:
    kind = attributes.get("dtype")
    dtype = helper.tensor_dtype_to_np_dtype(kind) if kind else x.dtype
    return string("y0 = rand() < x0 ? 1 : 0;", dtype, x)


@handler("Multinomial")
def _multinomial(context: Any, attributes: Any, x: Any) -> Any:
    count = attributes["sample_size"]
    # The largest of logits with Gumbel's noise is a draw.
    text = "y0 = x0 - log(-log(max(rand(), 1e-30f)));"
    batch, classes = x.shape
    noisy = string(text, np.float32, x.reshape((batch, 1, classes)), shape=(batch, count, classes))
    return ops.argmax(noisy, 2).astype(helper.tensor_dtype_to_np_dtype(attributes["dtype"]))


@handler("Dropout", raw=True)
def _dropout(context: Any, attributes: Any, x: Any, ratio: Any = None, training: Any = None) -> Any:
    x = context.device(x)
    if training is not None:
        training = bool(np.asarray(context.host(training)).reshape(-1)[0])
    p = 0.5 if ratio is None else float(np.asarray(context.host(ratio)).reshape(-1)[0])
    mask = filled(x.shape, 1, np.bool_)
    if context.version < 12 or not training or not p:
        return (x, mask) if context.version >= 10 else (x, filled(x.shape, 1, x.dtype))
    mask = string("y0 = rand() >= w0;", np.bool_, np.float32(p), shape=x.shape)
    return string("y0 = x1 ? x0 * w0 : 0;", x.dtype, x, mask, 1 / (1 - p)), mask
