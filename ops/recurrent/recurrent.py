"""LSTM, GRU and plain recurrent layers: a product and one elementwise kernel a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array
from clprim.errors import ShapeError, quoted
from clprim.ops.recurrent.cells import PLAIN
from clprim.ops.recurrent.layers import Form, Layers, Saved
from clprim.ops.registry import operator
from clprim.ops.shared.flags import saving


@operator(
    autocast="lower lstm.input gru.input rnn_tanh.input rnn_relu.input "
    "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"
)
@saving(tuple[Array, Array, Array], tuple[Array, Array, Array, Saved])
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
    *,
    batch_sizes: Sequence[int] | None = None,
    return_saved: bool = False,
) -> tuple[Array, Array, Array] | tuple[Array, Array, Array, Saved]:
    """Returns (output, h_n, c_n) of a long short-term memory, as `torch.lstm` does.

    Args:
        input: (T, N, I), or (N, T, I) with ``batch_first``, or with ``batch_sizes`` (rows, I).
        hx: (h_0, c_0), each (layers × directions, N, H); with a projection h_0 is (…, N, P).
        params: For each layer and direction w_ih (4 H, …), w_hh (4 H, H), with biases b_ih and
            b_hh, and with a projection of the state (``proj_size`` of `torch.nn.LSTM`) w_hr
            (P, H); w_hh is (4 H, P) then.
        has_biases: Whether there are biases.
        num_layers: How many layers.
        dropout: Between layers, where ``train``.
        train: Whether dropout happens.
        bidirectional: Whether each layer goes both ways.
        batch_first: Whether the first dimension counts sequences.
        batch_sizes: How many sequences have so many steps, of sequences packed as PyTorch packs
            them: the longest first, the rows of a step side by side.
        return_saved: Whether what `lstm_backward` needs is returned as well.
    """
    if not isinstance(hx, tuple | list) or len(hx) != 2:
        raise ShapeError("lstm: hx: expected (h_0, c_0)")
    form = Form(has_biases, num_layers, bidirectional, batch_first, batch_sizes)
    layers = Layers("lstm", "lstm", input, tuple(hx), params, form)
    return layers.run(dropout if train else 0.0, save=return_saved)


@operator()
@saving(tuple[Array, Array], tuple[Array, Array, Saved])
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
    *,
    batch_sizes: Sequence[int] | None = None,
    return_saved: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, Saved]:
    """Returns (output, h_n) of gated recurrent units, as `torch.gru` does; see `lstm`."""
    form = Form(has_biases, num_layers, bidirectional, batch_first, batch_sizes)
    layers = Layers("gru", "gru", input, (hx,), params, form)
    return layers.run(dropout if train else 0.0, save=return_saved)


@operator()
@saving(tuple[Array, Array], tuple[Array, Array, Saved])
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
    batch_sizes: Sequence[int] | None = None,
    return_saved: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, Saved]:
    """Returns (output, h_n) of plain recurrent layers, as `torch.rnn_tanh` and `rnn_relu` do.

    Args and errors are those of `lstm`; ``nonlinearity`` is tanh or relu.
    """
    if nonlinearity not in PLAIN:
        expected = " or ".join(map(repr, PLAIN))
        raise ShapeError(f"rnn: nonlinearity={quoted(nonlinearity)}: expected {expected}")
    form = Form(has_biases, num_layers, bidirectional, batch_first, batch_sizes)
    layers = Layers("rnn", nonlinearity, input, (hx,), params, form)
    return layers.run(dropout if train else 0.0, save=return_saved)
