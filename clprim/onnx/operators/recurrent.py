"""LSTM, GRU and RNN, with all that ONNX says of them: lengths, peepholes, clips, activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.context import filled
from clprim.onnx.table import handler
from clprim.ops.shared.strings import kernel

# Of v, with the parameters A and B.
_FUNCTIONS = {
    "Sigmoid": "1 / (1 + exp(-v))", "Tanh": "tanh(v)", "Relu": "v > 0 ? v : 0",
    "Affine": "A * v + B", "LeakyRelu": "v < 0 ? A * v : v", "ThresholdedRelu": "v > A ? v : 0",
    "ScaledTanh": "A * tanh(B * v)", "HardSigmoid": "clamp(A * v + B, (T)0, (T)1)",
    "Elu": "v < 0 ? A * (exp(v) - 1) : v", "Softsign": "v / (1 + fabs(v))",
    "Softplus": "log(1 + exp(v))",
}  # fmt: skip
_PARAMETERS = {"Affine": (1.0, 0.0), "LeakyRelu": (0.01, 0.0), "ThresholdedRelu": (1.0, 0.0),
               "ScaledTanh": (1.0, 1.0), "HardSigmoid": (0.2, 0.5), "Elu": (1.0, 0.0)}  # fmt: skip
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@handler("LSTM", "GRU", "RNN")
def _recurrent(
    context: Any, attributes: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None,
    h: Any = None, c: Any = None, p: Any = None,
) -> Any:  # fmt: skip
    name, first = context.step.name, bool(attributes.get("layout"))
    if first:
        x, h, c = (v if v is None else v.swapaxes(0, 1) for v in (x, h, c))
    steps, batch, _ = x.shape
    hidden, directions = r.shape[2], r.shape[0]
    zeros = filled((directions, batch, hidden), 0, x.dtype)
    h, c = (zeros if v is None else v for v in (h, c))
    y = filled((steps, directions, batch, hidden), 0, x.dtype)
    ends, cells = [], []
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    for d, reverse in enumerate(backward[attributes["direction"]]):
        cell = _Cell(name, attributes, d, hidden)
        pick: Any = [v if v is None else v[d] for v in (w, r, b, p)]
        given = (x, *pick, h[d], c[d], lengths, y[:, d])
        end, memory = cell.run(given, reverse=reverse)
        ends.append(end)
        cells.append(memory)
    last = ops.stack(ends, 0)
    results = [y.transpose(2, 0, 1, 3) if first else y, last.swapaxes(0, 1) if first else last]
    if name == "LSTM":
        whole = ops.stack(cells, 0)
        results.append(whole.swapaxes(0, 1) if first else whole)
    return tuple(results)


class _Cell:
    """One direction of a layer.

    Args:
        name: Of the operator.
        attributes: Its attributes.
        direction: The number of the direction.
        hidden: Features of the state.
    """

    def __init__(self, name: str, attributes: Any, direction: int, hidden: int) -> None:
        self.name, self.hidden = name, hidden
        usual = _USUAL[name]
        count = len(usual)
        given = (attributes.get("activations") or usual * 2)[direction * count :][:count]
        alphas, betas = (list(attributes.get(f"activation_{k}") or []) for k in ("alpha", "beta"))
        self.functions = []
        known = {key.lower(): key for key in _FUNCTIONS}
        for n, word in enumerate(given):
            function = known.get(word.lower())
            if function is None:
                raise DefinitionError(f"the activation {word!r} is unknown")
            a, b = _PARAMETERS.get(function, (1.0, 0.0))
            k = direction * count + n
            a, b = alphas[k] if k < len(alphas) else a, betas[k] if k < len(betas) else b
            self.functions.append(
                _FUNCTIONS[function].replace("A", f"{a!r}f").replace("B", f"{b!r}f")
            )
        self.clip = attributes.get("clip")
        self.coupled = bool(attributes.get("input_forget"))
        self.after = bool(attributes.get("linear_before_reset"))

    def preamble(self, double: bool) -> str:
        """C of the activations: f0, f1, f2."""
        kind = "double" if double else "float"
        clip = f"v = clamp(v, ({kind})-{self.clip!r}, ({kind}){self.clip!r});" if self.clip else ""
        return "".join(
            f"{kind} f{n}({kind} v) {{ {clip} return {text.replace('(T)', f'({kind})')}; }}\n"
            for n, text in enumerate(self.functions)
        )

    def run(self, layer: tuple[Any, ...], *, reverse: bool) -> tuple[Any, Any]:
        """Runs all steps; hidden states go into y. Returns the last state and cell."""
        x, w, r, b, p, h, c, lengths, y = layer
        steps, batch, features = x.shape
        gates = _GATES[self.name] * self.hidden
        bias = None
        if b is not None:  # GRU's own product keeps its bias where the reset gate comes after it
            apart = self.name == "GRU" and self.after
            bias = b[:gates] if apart else ops.add(b[:gates], b[gates:])
            inner = b[gates:] if apart else None
        else:
            inner = None
        given = ops.linear(x.reshape((steps * batch, features)), w, bias)
        given = given.reshape((steps, batch, gates))
        double = x.dtype == np.float64
        order = range(steps - 1, -1, -1) if reverse else range(steps)
        for t in order:
            h_, c_ = getattr(self, self.name.lower())(given[t], r, inner, p, h, c, double)
            if lengths is not None:
                h, shown = self.masked(t, h_, h, lengths)
                c = c_ if c_ is None else self.masked(t, c_, c, lengths)[0]
                y[t] = shown
            else:
                y[t] = h_
                h, c = h_, c_
        return h, c

    @staticmethod
    def masked(step: int, new: Any, old: Any, lengths: Any) -> tuple[Any, Any]:
        """Returns the state, which stays where a sequence is over, and what is shown of it."""
        text = "y0 = w0 < x2 ? x0 : x1; y1 = w0 < x2 ? x0 : 0;"
        found: Any = kernel(text, "masked", new.dtype, new.dtype)(
            new, old, lengths.reshape((-1, 1)), np.int32(step)
        )
        return found[0], found[1]

    def string(self, text: str, double: bool, *results: Any) -> Any:
        """Returns the kernel of a step."""
        return _step(text, self.preamble(double), *results)

    def lstm(self, g: Any, r: Any, inner: Any, p: Any, h: Any, c: Any, double: bool) -> Any:
        """A step; gates are input, output, forget, cell."""
        n = self.hidden
        g = ops.add(g, ops.linear(h, r))
        parts = [g[:, k * n : (k + 1) * n] for k in range(4)]
        peep = [] if p is None else [p[k * n : (k + 1) * n] for k in range(3)]
        of = [" + x5 * x4", " + x6 * cell", " + x7 * x4"] if peep else ["", "", ""]
        forget = f"f0(x2{of[2]})" if not self.coupled else "1 - i"
        text = f"""
            typeof_x0 i = f0(x0{of[0]}), f = {forget};
            typeof_x0 cell = f * x4 + i * f1(x3);
            y0 = f0(x1{of[1]}) * f2(cell); y1 = cell;"""
        return self.string(text, double, g.dtype, g.dtype)(*parts, c, *peep)

    def rnn(self, g: Any, r: Any, inner: Any, p: Any, h: Any, c: Any, double: bool) -> Any:
        """A step."""
        y = self.string("y0 = f0(x0 + x1);", double, g.dtype)(g, ops.linear(h, r))
        return y, None

    def gru(self, g: Any, r: Any, inner: Any, p: Any, h: Any, c: Any, double: bool) -> Any:
        """A step; gates are update, reset, hidden."""
        n = self.hidden
        parts = [g[:, k * n : (k + 1) * n] for k in range(3)]
        if self.after:
            own = ops.linear(h, r, inner)
            mine = [own[:, k * n : (k + 1) * n] for k in range(3)]
            text = """
                typeof_x0 z = f0(x0 + x3), k = f0(x1 + x4), v = f1(x2 + k * x5);
                y0 = (1 - z) * v + z * x6;"""
            return self.string(text, double, g.dtype)(*parts, *mine, h), None
        own = ops.linear(h, r[: 2 * n])
        text = "y0 = f0(x0 + x1) * x2;"
        reset = self.string(text, double, g.dtype)(parts[1], own[:, n:], h)
        text = "typeof_x0 z = f0(x0 + x1); y0 = (1 - z) * f1(x2 + x3) + z * x4;"
        hidden = ops.linear(reset, r[2 * n :])
        return self.string(text, double, g.dtype)(parts[0], own[:, :n], parts[2], hidden, h), None


def _step(text: str, preamble: str, *results: Any) -> Any:
    from clprim.pointwise import Pointwise

    key = text, preamble, results
    found = _known.get(key)
    if found is None:
        found = _known[key] = Pointwise(
            text, preamble=preamble, name="recurrent_step", result_type=results
        )
    return found


_known: dict[Any, Any] = {}
