"""Fourier transforms as products with tables, windows, and what the host makes a table of."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import ShapeError
from clprim.onnx.context import filled
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import uploaded


@lru_cache(maxsize=64)
def _tables(n: int, count: int, inverse: bool, dtype: str) -> tuple[Any, Any]:
    """Cosines and sines (n, count) of a transform of n numbers into count."""
    turns = (np.arange(n)[:, None] * np.arange(count)[None, :]) % n
    angles = 2 * np.pi * turns / n * (1 if inverse else -1)
    scale = 1 / n if inverse else 1.0
    return (np.cos(angles) * scale).astype(dtype), (np.sin(angles) * scale).astype(dtype)


def transformed(re: Any, im: Any, count: int, *, inverse: bool = False) -> tuple[Any, Any]:
    """Returns the discrete Fourier transform along the last axis, ``count`` numbers of it."""
    n = re.shape[-1]
    cosines, sines = (uploaded(t) for t in _tables(n, count, inverse, str(re.dtype)))
    a, b = ops.matmul(re, cosines), ops.matmul(re, sines)
    if im is None:
        return a, b
    return (ops.sub(a, ops.matmul(im, sines)), ops.add(b, ops.matmul(im, cosines)))


@handler("DFT", host=(1, 2))
def _dft(context: Any, attributes: Any, x: Any, length: Any = None, at: Any = None) -> Any:
    if context.version < 20:
        axis = attributes["axis"]
    else:
        axis = -2 if at is None else int(at.reshape(-1)[0])
    axis += x.ndim if axis < 0 else 0
    inverse, half = bool(attributes["inverse"]), bool(attributes["onesided"])
    real = x.shape[-1] == 1
    x = x.swapaxes(axis, x.ndim - 2)
    have, n = x.shape[-2], x.shape[-2] if length is None else int(length.reshape(-1)[0])
    if inverse and half:  # the other half follows from this one
        n = 2 * (have - 1) if length is None else n
        mirror = n - (n // 2 + 1)
        x = x[..., : n // 2 + 1, :]
        rest = ops.flip(x[..., 1 : 1 + mirror, :], (x.ndim - 2,))
        x = ops.cat([x, string("y0 = coord(w0) == 0 ? x0 : -x0;".replace("w0", str(x.ndim - 1)),
                               x.dtype, rest)], x.ndim - 2)  # fmt: skip
        have = n
    if have > n:
        x = x[..., :n, :]
    elif have < n:
        x = ops.pad(x, (0, 0, 0, n - have))
    count = n // 2 + 1 if half and not inverse else n
    re, im = transformed(x[..., 0], None if real else x[..., 1], count, inverse=inverse)
    found = re.reshape((*re.shape, 1)) if inverse and half else ops.stack([re, im], re.ndim)
    return found.swapaxes(axis, found.ndim - 2)


@handler("STFT", host=(1, 3))
def _stft(
    context: Any, attributes: Any, x: Any, step: Any, window: Any = None, length: Any = None
) -> Any:
    hop = int(step.reshape(-1)[0])
    n = window.shape[0] if length is None else int(length.reshape(-1)[0])
    real = x.ndim == 2 or x.shape[-1] == 1
    if x.ndim == 2:
        x = x.reshape((*x.shape, 1))
    frames = 1 + (x.shape[1] - n) // hop
    if frames < 1 or hop < 1:
        raise ShapeError(f"STFT: frames of {n} by {hop} of a signal of {x.shape[1]}")
    count = n // 2 + 1 if attributes["onesided"] else n
    by = " * at_x1(coord(2))" if window is not None else ""
    given = [x] if window is None else [x, window]

    def part(c: int) -> Any:
        text = f"y0 = at_x0(coord(0), coord(1) * {hop} + coord(2), {c}){by};"
        return string(text, x.dtype, *given, shape=(x.shape[0], frames, n))

    re, im = transformed(part(0), None if real else part(1), count)
    return ops.stack([re, im], 3)


def _drawn(name: str, text: str, *numbers: str) -> None:
    @handler(name, f"{name}Like", raw=True)
    def run(context: Any, attributes: Any, x: Any = None) -> Any:
        from onnx import helper

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
    from onnx import helper

    kind = attributes.get("dtype")
    dtype = helper.tensor_dtype_to_np_dtype(kind) if kind else x.dtype
    return string("y0 = rand() < x0 ? 1 : 0;", dtype, x)


@handler("Multinomial")
def _multinomial(context: Any, attributes: Any, x: Any) -> Any:
    from onnx import helper

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
