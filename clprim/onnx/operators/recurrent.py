"""LSTM, GRU and RNN: directions, and ONNX's attributes."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.arrays.creation import empty
from clprim.onnx.table import handler

# The order of the gates, and how many activations a direction has.
_KINDS = {"LSTM": ("iofg", 3), "GRU": ("zrn", 2), "RNN": ("n", 1)}
_BACKWARD = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


@handler("LSTM", "GRU", "RNN")
def _recurrent(
    context: Any, attributes: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None,
    h: Any = None, c: Any = None, p: Any = None,
) -> Any:  # fmt: skip
    name, first = context.step.name, bool(attributes.get("layout"))
    gates, count = _KINDS[name]
    if first:
        x, h, c = (v if v is None else v.swapaxes(0, 1) for v in (x, h, c))
    directions, rows, hidden = r.shape
    y = empty((x.shape[0], directions, x.shape[1], hidden), x.dtype)
    ends = []
    for d, reverse in enumerate(_BACKWARD[attributes["direction"]]):
        biases = (None, None) if b is None else (b[d, :rows], b[d, rows:])
        begins = [v if v is None else v[d] for v in (h, c)]
        ends.append(ops.recurrent_layer(
            x, w[d], r[d], *biases, *begins, cell=name.lower(), gates=gates,
            activations=_activations(attributes, d, count), clip=attributes.get("clip"),
            peepholes=None if p is None else p[d], lengths=lengths, reverse=reverse,
            coupled=bool(attributes.get("input_forget")),
            reset_after=bool(attributes.get("linear_before_reset")), out=y[:, d],
        ))  # fmt: skip
    states = [ops.stack([end[k] for end in ends], 0) for k in (1, 2)]
    results = [y.transpose(2, 0, 1, 3) if first else y]
    results += [s.swapaxes(0, 1) if first else s for s in states]
    return tuple(results[: 3 if name == "LSTM" else 2])


def _activations(attributes: Any, direction: int, count: int) -> Any:
    """Those of a direction, with their numbers; None where they are the usual ones."""
    given = attributes.get("activations")
    if not given:
        return None
    alphas, betas = (list(attributes.get(f"activation_{k}") or []) for k in ("alpha", "beta"))
    start = direction * count
    found = []
    for n, name in enumerate(given[start : start + count], start):
        numbers = alphas[n : n + 1] + (betas[n : n + 1] if n < len(alphas) else [])
        found.append((name, *numbers))
    return tuple(found)
