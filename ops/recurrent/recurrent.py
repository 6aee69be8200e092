"""LSTM, GRU and plain recurrent layers: a product and one elementwise kernel a step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, new_dense
from clprim.call.packed import PackedWeight
from clprim.errors import DTypeError, ShapeError
from clprim.ops.product.matmul import matmul
from clprim.ops.random.dropout import dropout as drop
from clprim.ops.shared.arguments import dtype_of
from clprim.pointwise import Pointwise

__all__ = ["gru", "lstm", "rnn"]

_SIGMOID = "(1 / (1 + exp(-({}))))"
# Gates of the input first, then those of the state, then the state; w's are none.
_CELLS = {
    "lstm": (
        4,
        f"""
        typeof_y0 i = {_SIGMOID.format("x0 + x4")}, f = {_SIGMOID.format("x1 + x5")};
        typeof_y0 o = {_SIGMOID.format("x3 + x7")};
        y1 = f * x8 + i * tanh(x2 + x6);
        y0 = o * tanh(y1);
        """,
    ),
    "gru": (
        3,
        f"""
        typeof_y0 r = {_SIGMOID.format("x0 + x3")}, z = {_SIGMOID.format("x1 + x4")};
        y0 = (1 - z) * tanh(x2 + r * x5) + z * x6;
        """,
    ),
    "tanh": (1, "y0 = tanh(x0 + x1);"),
    "relu": (1, "typeof_y0 sum = x0 + x1; y0 = sum < 0 ? 0 : sum;"),
}


@lru_cache(maxsize=32)
def _cell(kind: str, dtype: Any) -> Pointwise:
    return Pointwise(_CELLS[kind][1], name=f"{kind}_cell", result_type=dtype)


def lstm(
    input: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool = True,
    num_layers: int = 1,
    dropout: float = 0.0,
    train: bool = False,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Array, Array, Array]:
    """Returns (output, h_n, c_n) of a long short-term memory, as `torch.lstm` does.

    Args:
        input: (T, N, I), or (N, T, I) with ``batch_first``.
        hx: (h_0, c_0), each (layers × directions, N, H).
        params: For each layer and direction w_ih (4 H, …), w_hh (4 H, H), and with biases b_ih
            and b_hh.
        has_biases: Whether there are biases.
        num_layers: How many layers.
        dropout: Between layers, where ``train``.
        train: Whether dropout happens.
        bidirectional: Whether each layer goes both ways.
        batch_first: Whether the first dimension counts sequences.

    Raises:
        ShapeError: Shapes that do not fit, another number of parameters.
        DTypeError: No device arrays of one floating dtype.
    """
    if not isinstance(hx, tuple | list) or len(hx) != 2:
        raise ShapeError("lstm: hx: expected (h_0, c_0)")
    layers = _Layers(
        "lstm", input, tuple(hx), params, has_biases, num_layers, bidirectional, batch_first
    )
    output, (h, c) = layers.run("lstm", dropout if train else 0.0)
    return output, h, c


def gru(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool = True,
    num_layers: int = 1,
    dropout: float = 0.0,
    train: bool = False,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Array, Array]:
    """Returns (output, h_n) of gated recurrent units, as `torch.gru` does; see `lstm`."""
    layers = _Layers(
        "gru", input, (hx,), params, has_biases, num_layers, bidirectional, batch_first
    )
    output, (h,) = layers.run("gru", dropout if train else 0.0)
    return output, h


def rnn(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool = True,
    num_layers: int = 1,
    dropout: float = 0.0,
    train: bool = False,
    bidirectional: bool = False,
    batch_first: bool = False,
    *,
    nonlinearity: str = "tanh",
) -> tuple[Array, Array]:
    """Returns (output, h_n) of plain recurrent layers, as `torch.rnn_tanh` and `rnn_relu` do.

    Args and errors are those of `lstm`; ``nonlinearity`` is tanh or relu.
    """
    if nonlinearity not in ("tanh", "relu"):
        raise ShapeError(f"rnn: nonlinearity={nonlinearity!r}: expected 'tanh' or 'relu'")
    layers = _Layers(
        "rnn", input, (hx,), params, has_biases, num_layers, bidirectional, batch_first
    )
    output, (h,) = layers.run(nonlinearity, dropout if train else 0.0)
    return output, h


class _Layers:
    """The arguments of a call, checked."""

    def __init__(
        self,
        what: str,
        input: Any,
        states: tuple[Any, ...],
        params: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        bidirectional: bool,
        batch_first: bool,
    ) -> None:
        gates = {"lstm": 4, "gru": 3, "rnn": 1}[what]
        dtype = dtype_of(what, "input", input)
        if dtype.kind in "biu" or input.ndim != 3:
            raise DTypeError(
                f"{what}: expected (T, N, I) of a floating dtype, got {input.shape} of {dtype}"
            )
        self.batch_first, self.directions = bool(batch_first), 1 + bool(bidirectional)
        self.input = input.transpose(1, 0, 2) if batch_first else input
        count = num_layers * self.directions
        each = 4 if has_biases else 2
        if len(params) != each * count or num_layers < 1:
            raise ShapeError(
                f"{what}: {len(params)} parameters: {num_layers} layers of {self.directions} "
                f"directions have {each * count}"
            )
        self.params = [params[n * each : (n + 1) * each] for n in range(count)]
        for n, state in enumerate(states):
            dtype_of(what, f"hx[{n}]", state)
        hidden = states[0].shape[-1] if states[0].ndim else 0
        _, batch, features = self.input.shape
        for n, state in enumerate(states):
            if state.shape != (count, batch, hidden):
                raise ShapeError(
                    f"{what}: hx[{n}] has shape {state.shape}, expected {(count, batch, hidden)}"
                )
        for n, given in enumerate(self.params):
            size = features if n < self.directions else hidden * self.directions
            shapes: list[tuple[int, ...]] = [(gates * hidden, size), (gates * hidden, hidden)]
            shapes += [(gates * hidden,)] * (each - 2)
            for m, (array, shape) in enumerate(zip(given, shapes, strict=True)):
                label = f"params[{n * each + m}]"
                found = dtype_of(what, label, array)
                if found != dtype:
                    raise DTypeError(f"{what}: {label} is {found}, input {dtype}")
                if array.shape != shape:
                    raise ShapeError(f"{what}: {label} has shape {array.shape}, expected {shape}")
        self.states, self.hidden, self.dtype, self.count = states, hidden, dtype, count

    def run(self, kind: str, dropout: float) -> tuple[Array, list[Array]]:
        """Runs all layers, and returns the output and the last states."""
        x = self.input
        length, batch, _ = x.shape
        last = [new_dense(s.shape, self.dtype) for s in self.states]
        for layer in range(self.count // self.directions):
            if layer and dropout:
                x = drop(x, dropout)
            shape = (length, batch, self.hidden * self.directions)
            output = new_dense(shape, self.dtype)
            for direction in range(self.directions):
                number = layer * self.directions + direction
                part = output[:, :, direction * self.hidden : (direction + 1) * self.hidden]
                steps = range(length) if direction == 0 else range(length - 1, -1, -1)
                self.line(kind, number, x, part, steps, last)
            x = output
        return (x.transpose(1, 0, 2) if self.batch_first else x), last

    def line(
        self, kind: str, number: int, x: Any, output: Any, steps: range, last: list[Array]
    ) -> None:
        """One layer in one direction. What the input gives to the gates is one product."""
        weight, recurrent, *biases = self.params[number]
        gates, hidden = _CELLS[kind][0], self.hidden
        bias = biases[0] if biases else None
        given = matmul(x, weight, transpose_b=True, bias=bias)
        kept = PackedWeight(recurrent)
        state = [s[number] for s in self.states]
        cell = _cell(kind, self.dtype)
        bias = biases[1] if biases else None
        memory = last[1][number] if kind == "lstm" else None

        def parts(array: Any) -> list[Any]:
            return [array[:, n * hidden : (n + 1) * hidden] for n in range(gates)]

        for t in steps:
            own = matmul(state[0], kept, transpose_b=True, bias=bias)
            arrays = [*parts(given[t]), *parts(own)]
            if kind == "lstm":
                cell(*arrays, state[1], out=(output[t], memory))
                state = [output[t], memory]
            else:
                cell(*arrays, *(state if kind == "gru" else []), out=output[t])
                state = [output[t]]
        for found, value in zip(last, state, strict=True):
            if found[number] is not value and value is not memory:
                _cell_copy(value, out=found[number])


_cell_copy = Pointwise("y0 = x0;", name="copy")
