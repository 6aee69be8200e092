"""Optimizers of the training preview, one string an array, and losses of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.table import handler
from clprim.ops.shared.strings import kernel

_DOMAIN = "ai.onnx.preview.training"


def _each(given: tuple[Any, ...], kinds: int) -> list[tuple[Any, ...]]:
    """Returns for every array what stands for it in groups: arrays, gradients, states."""
    n = len(given) // kinds
    return [tuple(given[k * n + i] for k in range(kinds)) for i in range(n)]


def _flat(rows: list[Any]) -> tuple[Any, ...]:
    return tuple(row[k] for k in range(len(rows[0])) for row in rows)


def _number(context: Any, value: Any) -> float:
    return float(np.asarray(context.host(value)).reshape(-1)[0])


@handler("Adagrad", domain=_DOMAIN, raw=True)
def _adagrad(context: Any, attributes: Any, rate: Any, turn: Any, *given: Any) -> Any:
    at = _number(context, turn)
    r = _number(context, rate) / (1 + at * attributes.get("decay_factor", 0.0))
    text = "typeof_x0 g = w1 * x0 + x1, h = x2 + g * g; y0 = x0 - w0 * g / (sqrt(h) + w2); y1 = h;"
    numbers = r, attributes.get("norm_coefficient", 0.0), attributes.get("epsilon", 1e-6)
    return _flat([_run(context, text, row, numbers) for row in _each(given, 3)])


@handler("Adam", domain=_DOMAIN, raw=True)
def _adam(context: Any, attributes: Any, rate: Any, turn: Any, *given: Any) -> Any:
    a, b, at = attributes["alpha"], attributes["beta"], _number(context, turn)
    r = _number(context, rate)
    r *= (1 - b**at) ** 0.5 / (1 - a**at) if at > 0 else 1
    text = """
        typeof_x0 g = w1 * x0 + x1;
        y1 = w2 * x2 + (1 - w2) * g; y2 = w3 * x3 + (1 - w3) * g * g;
        y0 = (x0 - w0 * (w2 * x2 + (1 - w2) * g) / (sqrt(w3 * x3 + (1 - w3) * g * g) + w4)) * w5;"""
    numbers = (r, attributes.get("norm_coefficient", 0.0), a, b, attributes.get("epsilon", 1e-6),
               1 - attributes.get("norm_coefficient_post", 0.0))  # fmt: skip
    return _flat([_run(context, text, row, numbers) for row in _each(given, 4)])


@handler("Momentum", domain=_DOMAIN, raw=True)
def _momentum(context: Any, attributes: Any, rate: Any, turn: Any, *given: Any) -> Any:
    a = attributes["alpha"]
    b = attributes["beta"] if _number(context, turn) > 0 else 1.0
    step = "g + w2 * v" if attributes["mode"] == "nesterov" else "v"
    text = f"typeof_x0 g = w1 * x0 + x1, v = w2 * x2 + w3 * g; y0 = x0 - w0 * ({step}); y1 = v;"
    numbers = _number(context, rate), attributes["norm_coefficient"], a, b
    return _flat([_run(context, text, row, numbers) for row in _each(given, 3)])


def _run(context: Any, text: str, row: tuple[Any, ...], numbers: tuple[float, ...]) -> Any:
    arrays = [context.device(v) for v in row]
    kinds = [arrays[0].dtype] * (len(arrays) - 1)
    return kernel(text, "training", *kinds)(*arrays, *numbers)


@handler("NegativeLogLikelihoodLoss")
def _nll(context: Any, attributes: Any, x: Any, target: Any, weight: Any = None) -> Any:
    ignore = attributes.get("ignore_index")
    ignore = -(1 << 62) if ignore is None else ignore
    return ops.nll_loss(x, target, weight, ignore_index=ignore, reduction=attributes["reduction"])


@handler("SoftmaxCrossEntropyLoss")
def _cross_entropy(context: Any, attributes: Any, x: Any, target: Any, weight: Any = None) -> Any:
    logs = ops.log_softmax(x, 1)
    return _nll(context, attributes, logs, target, weight), logs
