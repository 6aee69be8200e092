"""One recurrent layer in one direction, with all that papers and formats vary of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.creation import empty, zeros
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.elementwise.binary import add
from clprim.ops.index.gather import check_index
from clprim.ops.recurrent.cells import ACTIVATIONS, Cell, Function
from clprim.ops.recurrent.layers import Walk, Weights, run_line
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, check_shape, real
from clprim.plan.strides import elements_of

_USUAL = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}
_GATES = {"lstm": "ifgo", "gru": "rzn", "rnn": "n"}

Activation = str | tuple[str, float] | tuple[str, float, float]


@operator(
    onnx="""LSTM(x, weight_ih, weight_hh, bias, lengths, h_0, c_0, peepholes)
            clip=None input_forget:coupled=0 =cell='lstm' =gates='iofg'
            -hidden_size -output_sequence @3 @directions;
        GRU(x, weight_ih, weight_hh, bias, lengths, h_0)
            clip=None linear_before_reset:reset_after=0 =cell='gru' =gates='zrn'
            -hidden_size -output_sequence @3 @directions;
        RNN(x, weight_ih, weight_hh, bias, lengths, h_0)
            clip=None =cell='rnn' =gates='n' -hidden_size -output_sequence @3 @directions;
        com.microsoft::DynamicQuantizeLSTM(x, weight_ih, weight_hh, bias, lengths, h_0, c_0,
            peepholes, scale_ih, zero_ih, scale_hh, zero_hh)
            clip=None input_forget:coupled=0 =cell='lstm' =gates='iofg'
            -hidden_size @3 @dequantized @directions""",
    sample='x[:, 0], empty((16, 4)), empty((16, 4)), cell="lstm"',
)
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
    """
    what = "recurrent_layer"
    found = _cell(what, cell, gates, activations, clip)
    peeps = cell == "lstm" and peepholes is not None
    found = replace(found, coupled=coupled, after=reset_after, peepholes=peeps)
    dtype = check_floating(what, "x", x)
    if x.ndim != 3 or getattr(weight_hh, "ndim", 0) != 2:
        raise ShapeError(f"{what}: x has shape {x.shape}, expected (T, N, I)")
    (steps, batch, features), hidden = x.shape, weight_hh.shape[1]
    state, rows = (batch, hidden), (found.count * hidden,)
    for label, array, shape in (
        ("weight_ih", weight_ih, (*rows, features)), ("weight_hh", weight_hh, (*rows, hidden)),
        ("bias_ih", bias_ih, rows), ("bias_hh", bias_hh, rows), ("h_0", h_0, state),
        ("c_0", c_0, state), ("peepholes", peepholes, (3 * hidden,)),
        ("lengths", lengths, (batch,)), ("out", out, (steps, *state)),
    ):  # fmt: skip
        if array is not None or label.startswith("weight"):
            check_shape(what, label, array, shape)
    if lengths is not None:
        check_index(what, "lengths", lengths)
        lengths = lengths.reshape((-1, 1))
    begins = [zeros(state, dtype) if s is None else s for s in (h_0, c_0)]
    begins = begins if cell == "lstm" else begins[:1]
    y = empty((steps, *state), dtype) if out is None else out
    bias, inner = bias_ih, bias_hh
    if not (cell == "gru" and reset_after):  # else the state's bias stays within its product
        bias, inner = (bias_hh if bias is None else bias), None
        bias = add(bias_ih, bias_hh) if bias_ih is not None and bias_hh is not None else bias
    peep = [peepholes[k * hidden :][:hidden] for k in range(3)] if found.peepholes else []
    order = [*reversed(range(steps))] if reverse else [*range(steps)]
    spans = [(t * batch, (t + 1) * batch) for t in order]
    last = [empty(state, dtype) for _ in begins]
    run_line(
        found,
        Weights(weight_ih, weight_hh, (bias, inner), None, peep),
        x.reshape((steps * batch, features)),
        begins,
        last,
        Walk(spans, [y[t] for t in order], lengths=lengths),
    )
    return y, last[0], last[-1]


def _cell(what: str, kind: str, gates: Any, activations: Any, clip: Any) -> Cell:
    """Returns the cell of the words that describe it."""
    if kind not in _GATES:
        raise DefinitionError(f"{what}: cell={quoted(kind)}: expected one of {[*_GATES]}")
    order = _GATES[kind] if gates is None else gates
    if sorted(order) != sorted(_GATES[kind]):
        raise DefinitionError(
            f"{what}: gates={quoted(gates)}: expected the letters of {_GATES[kind]!r}"
        )
    told = _USUAL[kind] if activations is None else elements_of(activations)
    if told is None or len(told) != len(_USUAL[kind]):
        raise DefinitionError(
            f"{what}: activations={quoted(activations)}: expected {len(_USUAL[kind])}"
        )
    functions = tuple(_function(what, each) for each in told)
    return Cell(kind, order, functions, None if not clip else real(what, "clip", clip))


def _function(what: str, told: Any) -> Function:
    name, *numbers = (told,) if isinstance(told, str) else elements_of(told) or ("",)
    text, usual, rest = ACTIVATIONS.get(str(name).lower(), ("", (), ()))
    if not text or len(numbers) > len(usual):
        raise DefinitionError(f"{what}: the activation {quoted(told)} is unknown")
    given = [float(real(what, "a number", n)) for n in numbers]
    return text, (*given, *usual[len(given) :], *rest)
