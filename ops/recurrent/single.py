"""One step of one cell and its gradient: products, and the kernels that the steps of layers run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clprim.arrays.array import Array, new_dense
from clprim.arrays.creation import zeros
from clprim.errors import DTypeError, ShapeError
from clprim.ops.product.matmul import matmul
from clprim.ops.recurrent.cells import CELLS, PLAIN, step_back, step_of
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_dtype, check_given, check_shape, dtype_of
from clprim.ops.shared.flags import saving

Params = tuple[Array, Array, Array | None, Array | None]


@dataclass(frozen=True)
class SavedStep:
    """What a step keeps for its gradient.

    Attributes:
        what: The operator.
        kind: Of the cell.
        input: (N, I).
        states: h, of lstm then c.
        weights: w_ih and w_hh.
        biases: Whether there was each of them.
        given, own: What input and state gave to the gates, (N, gates × H).
    """

    what: str
    kind: str
    input: Any
    states: tuple[Any, ...]
    weights: tuple[Any, Any]
    biases: tuple[bool, bool]
    given: Array
    own: Array


@operator(sample="*cell(8, pair=True)")
@saving(tuple[Array, Array], tuple[Array, Array, SavedStep])
def lstm_cell(
    input: Any,
    hx: Sequence[Any],
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
    *,
    return_saved: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, SavedStep]:
    """Returns (h, c) after one step of a long short-term memory, as `torch.lstm_cell` does.

    Args:
        input: (N, I).
        hx: (h, c) before the step, each (N, H).
        w_ih: (4 H, I): rows of the gates for the input, forgetting, the new value and the output.
        w_hh: (4 H, H), likewise.
        b_ih: (4 H,), or None.
        b_hh: Likewise.
        return_saved: Whether what `lstm_cell_backward` needs is returned as well.

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
    (h, c), saved = _step("lstm_cell", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
    return (h, c, saved) if return_saved else (h, c)


@operator(sample="*cell(6)")
@saving(Array, tuple[Array, SavedStep])
def gru_cell(
    input: Any,
    hx: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
    *,
    return_saved: bool = False,
) -> Array | tuple[Array, SavedStep]:
    """Returns h after one step of a gated recurrent unit, as `torch.gru_cell` does.

    See `lstm_cell`; there are 3 gates: reset, update and the new value.
    """
    return _one("gru_cell", return_saved, input, (hx,), w_ih, w_hh, b_ih, b_hh)


@operator(sample="*cell(2)")
@saving(Array, tuple[Array, SavedStep])
def rnn_tanh_cell(
    input: Any,
    hx: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
    *,
    return_saved: bool = False,
) -> Array | tuple[Array, SavedStep]:
    """Returns tanh(w_ih · input + b_ih + w_hh · h + b_hh), as `torch.rnn_tanh_cell` does.

    See `lstm_cell`; weights have H rows.
    """
    return _one("rnn_tanh_cell", return_saved, input, (hx,), w_ih, w_hh, b_ih, b_hh)


@operator(sample="*cell(2)")
@saving(Array, tuple[Array, SavedStep])
def rnn_relu_cell(
    input: Any,
    hx: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
    *,
    return_saved: bool = False,
) -> Array | tuple[Array, SavedStep]:
    """Returns what `rnn_tanh_cell` does with max(·, 0) for tanh, as `torch.rnn_relu_cell`."""
    return _one("rnn_relu_cell", return_saved, input, (hx,), w_ih, w_hh, b_ih, b_hh)


def _one(what: str, return_saved: bool, *given: Any) -> Any:
    h, saved = _step(what, *given)
    return (h, saved) if return_saved else h


def _step(
    what: str, input: Any, states: tuple[Any, ...], w_ih: Any, w_hh: Any, *biases: Any
) -> tuple[Any, SavedStep]:
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
    kind = what.removeprefix("rnn_").removesuffix("_cell")
    cell = CELLS[kind]
    height = cell.count * hidden
    wanted = [
        *((label, state, (rows, hidden)) for label, state in zip(labels, states, strict=True)),
        ("w_ih", w_ih, (height, features)),
        ("w_hh", w_hh, (height, hidden)),
        *((f"b_{n}h", b, (height,)) for n, b in zip("ih", biases, strict=True) if b is not None),
    ]
    for label, array, shape in wanted:
        check_dtype(what, label, array, dtype)
        check_shape(what, label, array, shape)
    products = [
        matmul(x, weight, transpose_b=True, bias=bias)
        for x, weight, bias in zip((input, states[0]), (w_ih, w_hh), biases, strict=True)
    ]
    gates = [gate for product in products for gate in cell.gates(product)]
    given = tuple(bias is not None for bias in biases)
    saved = SavedStep(what, kind, input, states, (w_ih, w_hh), (given[0], given[1]), *products)
    return step_of(cell, dtype)(*gates, *_kept(saved)), saved


def _kept(saved: SavedStep) -> tuple[Any, ...]:
    """What the cell reads besides the gates: a memory, or gru's state."""
    return saved.states[1:] or (saved.states if saved.kind == "gru" else ())


def lstm_cell_backward(
    grad_h: Any, grad_c: Any, saved: SavedStep
) -> tuple[Array, tuple[Array, Array], Params]:
    """Returns the gradients of `lstm_cell` in its input, its states and its parameters.

    Args:
        grad_h: Of the state after the step, (N, H); None stands for 0.
        grad_c: Of the memory, likewise.
        saved: What ``lstm_cell(…, return_saved=True)`` returned.

    Returns:
        (input, (h, c), (w_ih, w_hh, b_ih, b_hh)), each of the shape of what it is the gradient of;
        None of a bias that was not given.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> x, h, w = cp.full((2, 1), 1.0), cp.zeros((2, 1)), cp.full((4, 1), 0.5)
        >>> y, c, saved = ops.lstm_cell(x, (h, h), w, w, return_saved=True)
        >>> dx, (dh, dc), (dw, *_) = ops.lstm_cell_backward(cp.full(y.shape, 1.0), None, saved)
        >>> dx.shape, dw.shape
        ((2, 1), (4, 1))
    """
    dx, (dh, dc), params = _step_back("lstm_cell", (grad_h, grad_c), saved)
    return dx, (dh, dc), params


def gru_cell_backward(grad_h: Any, saved: SavedStep) -> tuple[Array, Array, Params]:
    """Returns the gradients of `gru_cell`: (input, h, parameters); see `lstm_cell_backward`."""
    dx, (dh,), params = _step_back("gru_cell", (grad_h,), saved)
    return dx, dh, params


def rnn_tanh_cell_backward(grad_h: Any, saved: SavedStep) -> tuple[Array, Array, Params]:
    """Returns the gradients of `rnn_tanh_cell`; see `gru_cell_backward`."""
    dx, (dh,), params = _step_back("rnn_tanh_cell", (grad_h,), saved)
    return dx, dh, params


def rnn_relu_cell_backward(grad_h: Any, saved: SavedStep) -> tuple[Array, Array, Params]:
    """Returns the gradients of `rnn_relu_cell`; see `gru_cell_backward`."""
    dx, (dh,), params = _step_back("rnn_relu_cell", (grad_h,), saved)
    return dx, dh, params


def _step_back(
    what: str, grads: tuple[Any, ...], saved: Any
) -> tuple[Array, tuple[Array, ...], Params]:
    name = f"{what}_backward"
    if not isinstance(saved, SavedStep) or saved.what != what:
        raise DTypeError(f"{name}: saved: expected what {what}(…, return_saved=True) returned")
    kind, x, (h, *_) = saved.kind, saved.input, saved.states
    dtype = x.dtype
    for letter, grad in zip("hc", grads, strict=False):
        check_given(name, f"grad_{letter}", grad, h.shape, dtype)
    nothing = zeros((1, 1), dtype)
    above = [nothing if grad is None else grad for grad in grads]
    above.insert(1, nothing)
    dgiven = new_dense(saved.given.shape, dtype)
    down = new_dense(saved.own.shape, dtype) if kind == "gru" else dgiven
    direct = None if kind in PLAIN else new_dense(h.shape, dtype)
    gates, own, dgates, downs = (
        CELLS[kind].gates(a) for a in (saved.given, saved.own, dgiven, down)
    )
    step_back(kind, [*gates, *own], _kept(saved), above, dgates, downs, direct)
    w_ih, w_hh = saved.weights
    dh: Array = matmul(down, w_hh, out=direct if kind == "gru" else None, beta=int(kind == "gru"))
    weights = [matmul(d, a, transpose_a=True) for d, a in ((dgiven, x), (down, h))]
    biases = [
        add_up(d, 0) if given else None
        for d, given in zip((dgiven, down), saved.biases, strict=True)
    ]
    states = (dh, direct) if kind == "lstm" and direct is not None else (dh,)
    return matmul(dgiven, w_ih), states, (weights[0], weights[1], biases[0], biases[1])
