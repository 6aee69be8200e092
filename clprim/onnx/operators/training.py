"""Optimizers of the training preview, one string an array, and losses of classes."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.onnx.table import Run, Value, family, handler
from clprim.ops.registry import OnnxOperator
from clprim.ops.shared.strings import kernel

_DOMAIN = "ai.onnx.preview.training"
_ADAGRAD = "decay_factor epsilon norm_coefficient"
_ADAM = "alpha beta epsilon norm_coefficient norm_coefficient_post"


def _optimizer(text: str, kinds: int, numbers: Any) -> Any:
    """A handler of arrays, their gradients and states: as many of each, one behind the other."""

    def run(context: Any, rate: Value, step: Value, *given: Any, **told: Any) -> Any:
        first, turn = (float(context.host(v).reshape(-1)[0]) for v in (rate, step))
        n, dtype = len(given) // kinds, given[0].dtype
        run_one = kernel(text, "training", *[dtype] * (kinds - 1))
        scalars = numbers(told, first, turn)
        rows = [run_one(*given[i::n], *scalars) for i in range(n)]
        return tuple(row[k] for k in range(kinds - 1) for row in rows)

    return run


def _adam(told: Any, rate: float, turn: float) -> Any:
    a, b = told["alpha"], told["beta"]
    rate *= (1 - b**turn) ** 0.5 / (1 - a**turn) if turn > 0 else 1
    less = 1 - told.get("norm_coefficient_post", 0.0)
    return rate, told.get("norm_coefficient", 0.0), a, b, told.get("epsilon", 1e-6), less


def _adagrad(told: Any, rate: float, turn: float) -> Any:
    rate /= 1 + turn * told.get("decay_factor", 0.0)
    return rate, told.get("norm_coefficient", 0.0), told.get("epsilon", 1e-6)


handler("Adagrad", domain=_DOMAIN, takes=_ADAGRAD, makes=None)(_optimizer(
    "typeof_x0 g = w1 * x0 + x1, h = x2 + g * g; y0 = x0 - w0 * g / (sqrt(h) + w2); y1 = h;",
    3, _adagrad,
))  # fmt: skip
handler("Adam", domain=_DOMAIN, takes=_ADAM, makes=None)(_optimizer("""
    typeof_x0 g = w1 * x0 + x1, m = w2 * x2 + (1 - w2) * g, v = w3 * x3 + (1 - w3) * g * g;
    y0 = (x0 - w0 * m / (sqrt(v) + w4)) * w5; y1 = m; y2 = v;""", 4, _adam))  # fmt: skip


@handler("Momentum", domain=_DOMAIN, takes="norm_coefficient alpha beta", makes=None)
def _momentum(context: Any, *given: Value, mode: str, **told: Any) -> Any:
    step = "g + w2 * v" if mode == "nesterov" else "v"
    text = f"typeof_x0 g = w1 * x0 + x1, v = w2 * x2 + w3 * g; y0 = x0 - w0 * ({step}); y1 = v;"

    def numbers(told: Any, rate: float, turn: float) -> Any:
        return rate, told["norm_coefficient"], told["alpha"], told["beta"] if turn > 0 else 1.0

    arrays = (context.device(v) for v in given[2:])
    return _optimizer(text, 3, numbers)(context, *given[:2], *arrays, **told)


@family("logits")
def _logits(known: OnnxOperator, inner: Run) -> Run:
    """Of the logarithms of softmax, which it returns as well."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        logs = ops.log_softmax(arrays[0], 1)
        return inner(context, [logs, *arrays[1:]], told), logs

    return run
