"""LSTM, GRU and RNN: directions, and ONNX's attributes."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.arrays.creation import empty
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import Run, family
from clprim.onnx.values import FLOAT32
from clprim.ops.recurrent.cells import ACTIVATIONS
from clprim.ops.registry import OnnxOperator

# How many activations a direction has.
_COUNTS = {"lstm": 3, "gru": 2, "rnn": 1}
_BACKWARD = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


@family("directions", "direction layout activations activation_alpha activation_beta")
def _directions(known: OnnxOperator, inner: Run) -> Run:
    """Of sequences read forward, backward or both ways, each with weights of its own."""
    cell = known.fixed["cell"]

    def run(context: Any, arrays: Any, told: Any) -> Any:
        x, r, layout = arrays["x"], arrays["weight_hh"], bool(told.get("layout"))
        bias, lengths = arrays.pop("bias", None), arrays.get("lengths")
        states = [n for n in ("h_0", "c_0") if n in arrays]
        if layout:
            arrays |= {n: arrays[n].swapaxes(0, 1) for n in ("x", *states)}
            x = arrays["x"]
        directions, rows, hidden = r.shape
        y = empty((x.shape[0], directions, x.shape[1], hidden), x.dtype)
        ends = []
        for d, reverse in enumerate(_BACKWARD[told.get("direction", "forward")]):
            given = {n: v if n in ("x", "lengths") else v[d] for n, v in arrays.items()}
            if bias is not None:
                given |= {"bias_ih": bias[d, :rows], "bias_hh": bias[d, rows:]}
            more = {"activations": _activations(told, d, _COUNTS[cell]), "lengths": lengths}
            ends.append(inner(context, given, told, reverse=reverse, out=y[:, d], **more))
        last = range(1, 3 if cell == "lstm" else 2)
        stacked = [ops.stack([end[k] for end in ends], 0) for k in last]
        results = [y.transpose(2, 0, 1, 3) if layout else y]
        return *results, *(s.swapaxes(0, 1) if layout else s for s in stacked)

    return run


@family("dequantized")
def _dequantized(known: OnnxOperator, inner: Run) -> Run:
    """With the weights' numbers; inputs and states are not quantised, as ONNX Runtime does."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        for name in ("ih", "hh"):
            rest = (arrays.pop(f"{what}_{name}") for what in ("scale", "zero"))
            scale, zero = (v.reshape((v.shape[0], 1, -1)) for v in rest)
            text = "y0 = ((float)x0 - (float)x2) * x1;"
            found = string(text, FLOAT32, arrays[f"weight_{name}"], scale, zero)
            arrays[f"weight_{name}"] = found.transpose(0, 2, 1)
        return inner(context, arrays, told)

    return run


def _activations(told: Any, direction: int, count: int) -> Any:
    """Those of a direction, with their numbers; None where they are the usual ones.

    Each activation of any direction that has an alpha, or a beta, takes the next one.
    """
    given = [iter(told.get(f"activation_{k}") or []) for k in ("alpha", "beta")]
    found = []
    for name in told.get("activations") or []:
        _, usual, _ = ACTIVATIONS.get(name.lower(), ("", (), ()))
        found.append((name, *(next(g, d) for g, d in zip(given, usual, strict=False))))
    return tuple(found[direction * count : (direction + 1) * count]) or None
