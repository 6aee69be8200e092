"""Cells of LSTM and GRU: what PyTorch calls after the products of a step.

Sums of the gates are kept for the way back, which recomputes what follows from them: gradients are
derived from the cells' strings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.ops.recurrent.cells import CELLS, columns
from clprim.primitives.pointwise import Pointwise
from clprim.torch import dispatcher
from clprim.torch.kernels.elementwise import apply
from clprim.torch.table import kernel
from clprim.torch.tensors import kind_of


@lru_cache(maxsize=16)
def _cell(kind: str, dtype: Any) -> Pointwise:
    return Pointwise(CELLS[kind].text_of_sums(), result_type=dtype)


@lru_cache(maxsize=16)
def _gradient(kind: str, dtype: Any) -> Any:
    return _cell(kind, dtype).gradient(wrt=tuple(f"x{n}" for n in range(5)))


def _total(arrays: list[Any], out: Array) -> None:
    given = [a for a in arrays if a is not None]
    expr = " + ".join(f"(typeof_y0){{{letter}}}" for letter, _ in zip("abcd", given, strict=False))
    apply(expr, *given, kind=kind_of(out.dtype), out=out)


@kernel("_thnn_fused_lstm_cell")
def _lstm(
    gates: Array, hidden: Array, memory: Array, bias: Any = None, hidden_bias: Any = None
) -> Any:
    sums = empty(gates.shape, gates.dtype)
    _total([gates, hidden, bias, hidden_bias], sums)
    state, memory = _cell("lstm", gates.dtype)(*columns(sums, 4), memory)
    return state, memory, sums


@kernel("_thnn_fused_lstm_cell_backward_impl")
def _lstm_backward(
    grad_state: Any, grad_memory: Any, before: Array, after: Array, sums: Array, biases: bool
) -> Any:
    grads = (grad_state, grad_memory)
    *gates, memory = _gradient("lstm", sums.dtype)(*columns(sums, 4), before, grad=grads)
    gates = ops.cat(gates, 1)
    return gates, memory, ops.sum(gates, 0) if biases else None


@kernel("_thnn_fused_gru_cell")
def _gru(
    gates: Array, hidden: Array, state: Array, bias: Any = None, hidden_bias: Any = None
) -> Any:
    batch, width = state.shape
    kept = empty((batch, 5 * width), state.dtype)
    for n, arrays in enumerate(((gates, hidden, bias, hidden_bias), (gates, bias))):
        # The reset and the update gate are sums of both; the new value's parts stay apart.
        first, last = (0, 2) if n == 0 else (2, 3)
        parts = [None if a is None else a[..., first * width : last * width] for a in arrays]
        _total(parts, kept[:, first * width : last * width])
    parts = [None if a is None else a[..., 2 * width :] for a in (hidden, hidden_bias)]
    _total(parts, kept[:, 3 * width : 4 * width])
    _total([state], kept[:, 4 * width :])
    return _cell("gru", state.dtype)(*columns(kept, 5)), kept


@kernel("_thnn_fused_gru_cell_backward")
def _gru_backward(grad: Array, kept: Array, biases: bool) -> Any:
    reset, update, new, hidden, state = _gradient("gru", kept.dtype)(*columns(kept, 5), grad=grad)
    gates = ops.cat([reset, update, new], 1)
    hidden = ops.cat([reset, update, hidden], 1)
    if not biases:
        return gates, hidden, state, None, None
    return gates, hidden, state, ops.sum(gates, 0), ops.sum(hidden, 0)


def _lstm_of_parts(
    gates: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor, *biases: torch.Tensor | None
) -> Any:
    sums = sum((b for b in biases if b is not None), gates + hidden)
    in_gate, forget, new, out = sums.chunk(4, 1)
    memory = forget.sigmoid() * memory + in_gate.sigmoid() * new.tanh()
    return out.sigmoid() * memory.tanh(), memory, sums


def _gru_of_parts(
    gates: torch.Tensor,
    hidden: torch.Tensor,
    state: torch.Tensor,
    bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> Any:
    ours = (gates if bias is None else gates + bias).chunk(3, 1)
    theirs = (hidden if hidden_bias is None else hidden + hidden_bias).chunk(3, 1)
    reset, update = ((a + b).sigmoid() for a, b in zip(ours[:2], theirs[:2], strict=True))
    new = (ours[2] + reset * theirs[2]).tanh()
    return new + update * (state - new), state.new_empty((0,))


def register() -> None:
    """Registers what cells are made of where they hand on tangents."""
    dispatcher.compose_with_tangents(
        {"_thnn_fused_lstm_cell": _lstm_of_parts, "_thnn_fused_gru_cell": _gru_of_parts}
    )
