"""LSTM, GRU and plain recurrent layers: a product and one elementwise kernel a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from clprim.arrays.array import Array
from clprim.errors import ShapeError, quoted
from clprim.ops.recurrent.layers import Form, Layers, Saved
from clprim.ops.registry import operator


@overload
def lstm(
    input: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool = ...,
    num_layers: int = ...,
    dropout: float = ...,
    train: bool = ...,
    bidirectional: bool = ...,
    batch_first: bool = ...,
    *,
    batch_sizes: Sequence[int] | None = ...,
    return_saved: Literal[False] = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def lstm(
    *args: Any, return_saved: Literal[True], **options: Any
) -> tuple[Array, Array, Array, Saved]: ...
@operator(  # type: ignore[misc]
    autocast="lower lstm.input gru.input rnn_tanh.input rnn_relu.input "
    "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"
)
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
    output, (h, c), saved = layers.run(dropout if train else 0.0, save=return_saved)
    return (output, h, c, saved) if saved is not None else (output, h, c)


@overload
def gru(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool = ...,
    num_layers: int = ...,
    dropout: float = ...,
    train: bool = ...,
    bidirectional: bool = ...,
    batch_first: bool = ...,
    *,
    batch_sizes: Sequence[int] | None = ...,
    return_saved: Literal[False] = ...,
) -> tuple[Array, Array]: ...
@overload
def gru(*args: Any, return_saved: Literal[True], **options: Any) -> tuple[Array, Array, Saved]: ...
@operator()  # type: ignore[misc]
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
    output, (h,), saved = layers.run(dropout if train else 0.0, save=return_saved)
    return (output, h, saved) if saved is not None else (output, h)


@overload
def rnn(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool = ...,
    num_layers: int = ...,
    dropout: float = ...,
    train: bool = ...,
    bidirectional: bool = ...,
    batch_first: bool = ...,
    *,
    nonlinearity: str = ...,
    batch_sizes: Sequence[int] | None = ...,
    return_saved: Literal[False] = ...,
) -> tuple[Array, Array]: ...
@overload
def rnn(*args: Any, return_saved: Literal[True], **options: Any) -> tuple[Array, Array, Saved]: ...
@operator()  # type: ignore[misc]
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
    if nonlinearity not in ("tanh", "relu"):
        raise ShapeError(f"rnn: nonlinearity={quoted(nonlinearity)}: expected 'tanh' or 'relu'")
    form = Form(has_biases, num_layers, bidirectional, batch_first, batch_sizes)
    layers = Layers("rnn", nonlinearity, input, (hx,), params, form)
    output, (h,), saved = layers.run(dropout if train else 0.0, save=return_saved)
    return (output, h, saved) if saved is not None else (output, h)
