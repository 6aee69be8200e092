"""One step of one cell: two products, and the kernel that the steps of layers run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array
from clprim.errors import DTypeError, ShapeError
from clprim.ops.product.matmul import matmul
from clprim.ops.recurrent.cells import GATES, cell
from clprim.ops.recurrent.layers import columns
from clprim.ops.shared.arguments import dtype_of

__all__ = ["gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"]


def lstm_cell(
    input: Any, hx: Sequence[Any], w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Array, Array]:
    """Returns (h, c) after one step of a long short-term memory, as `torch.lstm_cell` does.

    `lstm` on an input of one step, (1, N, I), has gradients.

    Args:
        input: (N, I).
        hx: (h, c) before the step, each (N, H).
        w_ih: (4 H, I): rows of the gates for the input, forgetting, the new value and the output.
        w_hh: (4 H, H), likewise.
        b_ih: (4 H,), or None.
        b_hh: Likewise.

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: No device arrays of one floating dtype.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> h = cp.zeros((2, 3))
        >>> h, c = ops.lstm_cell(cp.zeros((2, 5)), (h, h), cp.zeros((12, 5)), cp.zeros((12, 3)))
        >>> h.shape, c.shape
        ((2, 3), (2, 3))
    """
    if not isinstance(hx, tuple | list) or len(hx) != 2:
        given = f"{len(hx)} of them" if isinstance(hx, tuple | list) else type(hx).__name__
        raise ShapeError(f"lstm_cell: hx: expected (h, c), a tuple or list of two, got {given}")
    h, c = _step("lstm_cell", "lstm", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
    return h, c


def gru_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Array:
    """Returns h after one step of a gated recurrent unit, as `torch.gru_cell` does.

    See `lstm_cell`; there are 3 gates: reset, update and the new value.
    """
    found: Array = _step("gru_cell", "gru", input, (hx,), w_ih, w_hh, b_ih, b_hh)
    return found


def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Array:
    """Returns tanh(w_ih · input + b_ih + w_hh · h + b_hh), as `torch.rnn_tanh_cell` does.

    See `lstm_cell`; weights have H rows.
    """
    found: Array = _step("rnn_tanh_cell", "tanh", input, (hx,), w_ih, w_hh, b_ih, b_hh)
    return found


def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Array:
    """Returns what `rnn_tanh_cell` does with max(·, 0) for tanh, as `torch.rnn_relu_cell`."""
    found: Array = _step("rnn_relu_cell", "relu", input, (hx,), w_ih, w_hh, b_ih, b_hh)
    return found


def _step(
    what: str, kind: str, input: Any, states: tuple[Any, ...], w_ih: Any, w_hh: Any, *biases: Any
) -> Any:
    dtype = dtype_of(what, "input", input)
    labels = ["hx"] if len(states) == 1 else ["hx[0]", "hx[1]"]
    dtype_of(what, labels[0], states[0])
    if dtype.kind in "biu":
        raise DTypeError(f"{what}: expected an input of a floating dtype, got {dtype}")
    if input.ndim != 2 or states[0].ndim != 2:
        raise ShapeError(
            f"{what}: expected an input (N, I) and a state (N, H), got shapes {input.shape} and "
            f"{states[0].shape}"
        )
    (rows, features), hidden = input.shape, states[0].shape[1]
    height = GATES[kind] * hidden
    wanted = [
        *((label, state, (rows, hidden)) for label, state in zip(labels, states, strict=True)),
        ("w_ih", w_ih, (height, features)),
        ("w_hh", w_hh, (height, hidden)),
        *((f"b_{n}h", b, (height,)) for n, b in zip("ih", biases, strict=True) if b is not None),
    ]
    for label, array, shape in wanted:
        found = dtype_of(what, label, array)
        if found != dtype:
            raise DTypeError(f"{what}: {label} is {found}, input {dtype}")
        if array.shape != shape:
            raise ShapeError(f"{what}: {label} has shape {array.shape}, expected {shape}")
    h, *memory = states
    gates: list[Any] = []
    for x, weight, bias in zip((input, h), (w_ih, w_hh), biases, strict=True):
        gates += columns(matmul(x, weight, transpose_b=True, bias=bias), GATES[kind])
    return cell(kind, dtype)(*gates, *(memory or ([h] if kind == "gru" else [])))
