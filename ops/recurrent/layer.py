"""One recurrent layer in one direction, with all that papers and formats vary of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import empty, zeros
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.elementwise.binary import add
from clprim.ops.elementwise.table import ROWS
from clprim.ops.index.gather import check_index
from clprim.ops.product.matmul import linear
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import check_floating, check_shape, real
from clprim.ops.shared.strings import kernel
from clprim.primitives.pointwise import Pointwise

#: Activations: a string, the defaults of its numbers, and what no one sets.
ACTIVATIONS: dict[str, tuple[str, tuple[float, ...], tuple[float, ...]]] = {
    "sigmoid": (ROWS["sigmoid"].text(), (), ()),
    "tanh": (ROWS["tanh"].text(), (), ()),
    "relu": (ROWS["relu"].text(), (), ()),
    "affine": ("y0 = w0 * x0 + w1;", (1.0, 0.0), ()),
    "leakyrelu": (ROWS["leaky_relu"].text(), (0.01,), ()),
    "thresholdedrelu": (ROWS["threshold"].text(), (1.0,), (0.0,)),
    "scaledtanh": ("y0 = w0 * tanh(w1 * x0);", (1.0, 1.0), ()),
    "hardsigmoid": (ROWS["hardsigmoid.of"].text(), (0.2, 0.5), ()),
    "elu": (ROWS["elu"].text(), (1.0,), ()),
    "softsign": (ROWS["softsign"].text(), (), ()),
    "softplus": (ROWS["softplus"].text(), (), (1.0, math.inf)),
}
_USUAL = {
    "lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",),
}  # fmt: skip
_GATES = {"lstm": "ifgo", "gru": "rzn", "rnn": "n"}

Activation = str | tuple[str, float] | tuple[str, float, float]


@operator(sample='x[:, 0], empty((16, 4)), empty((16, 4)), cell="lstm"')
@repeatable
def recurrent_layer(
    x: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any = None,
    bias_hh: Any = None,
    h_0: Any = None,
    c_0: Any = None,
    *,
    cell: str = "lstm",
    gates: str | None = None,
    activations: Sequence[Activation] | None = None,
    peepholes: Any = None,
    clip: float | None = None,
    lengths: Any = None,
    coupled: bool = False,
    reset_after: bool = True,
    reverse: bool = False,
    out: Any = None,
) -> tuple[Array, Array, Array]:
    """Returns (output, h_n, c_n) of one layer in one direction; `lstm`, `gru`, `rnn` are PyTorch's.

    Args:
        x: (T, N, I): steps, sequences, features.
        weight_ih: (gates · H, I).
        weight_hh: (gates · H, H).
        bias_ih: (gates · H,).
        bias_hh: Likewise.
        h_0: (N, H), 0 where it is None.
        c_0: Likewise, of an LSTM's memory.
        cell: ``lstm``, ``gru`` or ``rnn``.
        gates: The order of the gates in weights and biases, by default PyTorch's: ``ifgo`` for
            input, forget, cell and output, ``rzn`` for reset, update and new.
        activations: Of the gates, of the new value and, of an LSTM, of what is shown: names, or
            tuples of a name and its one or two numbers. By default sigmoid, tanh, tanh.
        peepholes: (3 · H,) of an LSTM: what the memory adds to input, output and forget gate (Gers
            and Schmidhuber 2000).
        clip: What activations are given is clamped to ± this.
        lengths: (N,) of integers: steps of each sequence; behind them the state stays, and the
            output is 0.
        coupled: Whether an LSTM forgets what it does not take in: 1 - the input gate.
        reset_after: Of a GRU, whether the reset gate comes after the product of the state, as in
            PyTorch, or before it, as Cho and others (2014) have it.
        reverse: Whether the last step comes first.
        out: Where the output goes.

    Returns:
        (T, N, H), then (N, H) twice; c_n of other cells than an LSTM is h_n.

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: No device arrays of one floating dtype.
        DefinitionError: Words that are unknown.
    """
    what = "recurrent_layer"
    layer = _Layer(what, cell, gates, activations, clip, coupled, reset_after)
    dtype = check_floating(what, "x", x)
    if x.ndim != 3 or getattr(weight_hh, "ndim", 0) != 2:
        raise ShapeError(f"{what}: x has shape {x.shape}, expected (T, N, I)")
    (steps, batch, features), hidden = x.shape, weight_hh.shape[1]
    rows = len(_GATES[cell]) * hidden
    check_shape(what, "weight_ih", weight_ih, (rows, features))
    check_shape(what, "weight_hh", weight_hh, (rows, hidden))
    for label, array, shape in (
        ("bias_ih", bias_ih, (rows,)), ("bias_hh", bias_hh, (rows,)), ("h_0", h_0, (batch, hidden)),
        ("c_0", c_0, (batch, hidden)), ("peepholes", peepholes, (3 * hidden,)),
        ("lengths", lengths, (batch,)), ("out", out, (steps, batch, hidden)),
    ):  # fmt: skip
        if array is not None:
            check_shape(what, label, array, shape)
    if lengths is not None:
        check_index(what, "lengths", lengths)
        lengths = lengths.reshape((-1, 1))
    h = zeros((batch, hidden), dtype) if h_0 is None else h_0
    c = zeros((batch, hidden), dtype) if c_0 is None else c_0
    y = empty((steps, batch, hidden), dtype) if out is None else out
    bias, inner = bias_ih, bias_hh
    if not (cell == "gru" and reset_after):  # else the state's bias stays within its product
        bias, inner = (bias_hh if bias is None else bias), None
        bias = add(bias_ih, bias_hh) if bias_ih is not None and bias_hh is not None else bias
    given = linear(x.reshape((steps * batch, features)), weight_ih, bias)
    given = given.reshape((steps, batch, rows))
    peep = [] if peepholes is None else [peepholes[k * hidden :][:hidden] for k in range(3)]
    for t in reversed(range(steps)) if reverse else range(steps):
        shown = y[t] if lengths is None else None
        new, memory = layer.step(given[t], weight_hh, inner, h, c, peep, shown)
        if lengths is None:
            h, c = y[t], memory
            continue
        h = _masked(t, new, h, lengths, y[t])
        c = h if memory is None else _masked(t, memory, c, lengths, None)
    return y, h, c if cell == "lstm" else h


def _masked(step: int, new: Any, old: Any, lengths: Any, shown: Any) -> Any:
    """Returns the state, which stays where a sequence is over, and writes what is shown of it."""
    stays = kernel("y0 = w0 < x2 ? x0 : x1;", "recurrent_masked", new.dtype)
    if shown is not None:
        shows = kernel("y0 = w0 < x1 ? x0 : 0;", "recurrent_shown", new.dtype)
        shows(new, lengths, np.int32(step), out=shown)
    return stays(new, old, lengths, np.int32(step))


class _Layer:
    """The words that describe a cell, and its steps."""

    def __init__(
        self, what: str, cell: str, gates: str | None, activations: Any, clip: float | None,
        coupled: bool, reset_after: bool,
    ) -> None:  # fmt: skip
        if cell not in _GATES:
            raise DefinitionError(f"{what}: cell={quoted(cell)}: expected one of {[*_GATES]}")
        self.order = _GATES[cell] if gates is None else gates
        if sorted(self.order) != sorted(_GATES[cell]):
            raise DefinitionError(
                f"{what}: gates={quoted(gates)}: expected the letters of {_GATES[cell]!r}"
            )
        told = _USUAL[cell] if activations is None else activations
        if len(told) != len(_USUAL[cell]):
            raise DefinitionError(
                f"{what}: activations={quoted(activations)}: expected {len(_USUAL[cell])}"
            )
        self.functions = tuple(_function(what, each) for each in told)
        self.clip = None if not clip else real(what, "clip", clip)
        self.cell, self.coupled, self.after = cell, coupled, reset_after

    def step(
        self, given: Any, weight: Any, bias: Any, h: Any, c: Any, peep: list[Any], out: Any
    ) -> tuple[Any, Any]:
        """Returns the new state, written to ``out`` if that is given, and an LSTM's memory."""
        n = h.shape[1]

        def part(a: Any, letter: str) -> Any:
            at = self.order.index(letter) * n
            return a[:, at : at + n]

        if self.cell == "gru":
            return self._gru(given, weight, bias, h, out, part), None
        sums = add(given, linear(h, weight, bias))
        if self.cell == "rnn":
            return self._run("y0 = f0(x0);", [sums], out), None
        of = [" + x5 * x4", " + x6 * cell", " + x7 * x4"] if peep else ["", "", ""]
        text = f"""
            const typeof_x0 i = f0(x0{of[0]}), f = {"1 - i" if self.coupled else f"f0(x1{of[2]})"};
            const typeof_x0 cell = f * x4 + i * f1(x2);
            y0 = f0(x3{of[1]}) * f2(cell); y1 = cell;"""
        arrays = [*(part(sums, letter) for letter in "ifgo"), c, *peep]
        if self.coupled:
            text += " (void)x1;" + (" (void)x7;" if peep else "")
        memory = empty(c.shape, c.dtype)
        out = empty(c.shape, c.dtype) if out is None else out
        self._run(text, arrays, (out, memory), 2)
        return out, memory

    def _gru(self, given: Any, weight: Any, bias: Any, h: Any, out: Any, part: Any) -> Any:
        parts = [part(given, letter) for letter in "rzn"]
        if self.after:
            own = linear(h, weight, bias)
            text = """
                const typeof_x0 r = f0(x0 + x3), z = f0(x1 + x4);
                y0 = (1 - z) * f1(x2 + r * x5) + z * x6;"""
            return self._run(text, [*parts, *(part(own, letter) for letter in "rzn"), h], out)
        n, rows = h.shape[1], {c: self.order.index(c) for c in "rzn"}
        blocks = {c: weight[rows[c] * n : (rows[c] + 1) * n] for c in "rzn"}
        reset = self._run("y0 = f0(x0 + x1) * x2;", [parts[0], linear(h, blocks["r"]), h], None)
        text = "const typeof_x0 z = f0(x0 + x1); y0 = (1 - z) * f1(x2 + x3) + z * x4;"
        update, new = linear(h, blocks["z"]), linear(reset, blocks["n"])
        return self._run(text, [parts[1], update, parts[2], new, h], out)

    def _run(self, text: str, arrays: list[Any], out: Any, results: int = 1) -> Any:
        dtype = arrays[0].dtype
        kind = "double" if dtype == np.float64 else "float"
        return _step(text, self.functions, self.clip, kind, (dtype,) * results)(*arrays, out=out)


def _function(what: str, told: Any) -> tuple[str, tuple[float, ...]]:
    name, *numbers = (told,) if isinstance(told, str) else told
    text, usual, rest = ACTIVATIONS.get(str(name).lower(), ("", (), ()))
    if not text or len(numbers) > len(usual):
        raise DefinitionError(f"{what}: the activation {quoted(told)} is unknown")
    given = [float(real(what, "a number", n)) for n in numbers]
    return text, (*given, *usual[len(given) :], *rest)


@lru_cache(maxsize=128)
def _step(text: str, functions: Any, clip: float | None, kind: str, results: Any) -> Pointwise:
    """Returns the kernel of a step; f0, f1 and f2 are the activations."""
    ends = f"x0 < -({kind}){clip!r} ? -({kind}){clip!r} : x0 > ({kind}){clip!r} ? ({kind}){clip!r}"
    clipped = f"x0 = {ends} : x0;" if clip else ""
    lines = []
    for n, (function, numbers) in enumerate(functions):
        body = function.replace("typeof_y0", kind)
        for k, number in enumerate(numbers):
            written = "INFINITY" if math.isinf(number) else repr(number)
            body = body.replace(f"w{k}", f"({kind}){written}")
        lines.append(f"{kind} f{n}({kind} x0) {{ {kind} y0; {clipped} {body} return y0; }}\n")
    return Pointwise(text, preamble="".join(lines), name="recurrent_step", result_type=results)
