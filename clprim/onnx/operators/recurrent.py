"""LSTM, GRU and RNN: directions, and ONNX's attributes."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.arrays.creation import empty
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import FLOAT32
from clprim.ops.recurrent.cells import ACTIVATIONS

# The order of the gates, and how many activations a direction has.
_KINDS = {"LSTM": ("iofg", 3), "GRU": ("zrn", 2), "RNN": ("n", 1)}
_ACTIVATIONS = "activations activation_alpha activation_beta"
_BACKWARD = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


@handler("LSTM", "GRU", "RNN", takes=_ACTIVATIONS, idle="hidden_size output_sequence", makes=3)
def _recurrent(
    context: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
    c: Any = None, p: Any = None, *, direction: str = "forward", layout: bool = False,
    clip: float | None = None, input_forget: bool = False, linear_before_reset: bool = False,
    **told: Any,
) -> Any:  # fmt: skip
    name = context.step.name.removeprefix("DynamicQuantize")
    gates, count = _KINDS[name]
    if layout:
        x, h, c = (v if v is None else v.swapaxes(0, 1) for v in (x, h, c))
    directions, rows, hidden = r.shape
    y = empty((x.shape[0], directions, x.shape[1], hidden), x.dtype)
    ends = []
    for d, reverse in enumerate(_BACKWARD[direction]):
        biases = (None, None) if b is None else (b[d, :rows], b[d, rows:])
        begins = [v if v is None else v[d] for v in (h, c)]
        ends.append(ops.recurrent_layer(
            x, w[d], r[d], *biases, *begins, cell=name.lower(), gates=gates,
            activations=_activations(told, d, count), clip=clip,
            peepholes=None if p is None else p[d], lengths=lengths, reverse=reverse,
            coupled=input_forget, reset_after=linear_before_reset, out=y[:, d],
        ))  # fmt: skip
    states = [ops.stack([end[k] for end in ends], 0) for k in range(1, 3 if name == "LSTM" else 2)]
    results = [y.transpose(2, 0, 1, 3) if layout else y]
    return *results, *(s.swapaxes(0, 1) if layout else s for s in states)


@handler("DynamicQuantizeLSTM", domain="com.microsoft",
         takes=f"clip direction input_forget {_ACTIVATIONS}", idle="hidden_size",
         makes=3)  # fmt: skip
def _quantized(
    context: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
    c: Any = None, p: Any = None, scale_w: Any = None, zero_w: Any = None, scale_r: Any = None,
    zero_r: Any = None, **told: Any,
) -> Any:  # fmt: skip
    """With the weights' numbers; inputs and states are not quantised, as ONNX Runtime does."""
    weights = []
    for weight, *rest in ((w, scale_w, zero_w), (r, scale_r, zero_r)):
        scale, zero = (v.reshape((v.shape[0], 1, -1)) for v in rest)
        found = string("y0 = ((float)x0 - (float)x2) * x1;", FLOAT32, weight, scale, zero)
        weights.append(found.transpose(0, 2, 1))
    return _recurrent(context, x, *weights, b, lengths, h, c, p, **told)


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
