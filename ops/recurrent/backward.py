"""Gradients of recurrent layers: back through the steps, then a product for each weight."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array, new_dense
from clprim.errors import DTypeError
from clprim.ops.product.matmul import matmul
from clprim.ops.random.dropout import dropout_backward
from clprim.ops.recurrent.cells import step_back
from clprim.ops.recurrent.layers import Line, Saved, copy_to
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.shared.checks import check_given
from clprim.primitives.pointwise import Pointwise

_ADD = Pointwise("y0 = x0 + x1;", name="add")


def lstm_backward(
    grad_output: Any, grad_h: Any, grad_c: Any, saved: Saved
) -> tuple[Array, tuple[Array, Array], list[Array]]:
    """Returns the gradients of `lstm` in its input, its first states and its parameters.

    Args:
        grad_output: Of the output; None stands for 0.
        grad_h: Of the last states; likewise.
        grad_c: Of the last memories; likewise.
        saved: What ``lstm(…, return_saved=True)`` returned.

    Returns:
        (input, (h_0, c_0), params), each of the shape of what it is the gradient of.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> x, h = cp.full((2, 1, 1), 1.0), cp.zeros((1, 1, 1))
        >>> params = [cp.full((4, 1), 0.5), cp.full((4, 1), 0.5)]
        >>> y, _, _, saved = ops.lstm(x, (h, h), params, has_biases=False, return_saved=True)
        >>> dx, _, dparams = ops.lstm_backward(cp.full(y.shape, 1.0), None, None, saved)
        >>> dx.shape, len(dparams)
        ((2, 1, 1), 2)
    """
    dx, (dh, dc), dparams = _backward("lstm", grad_output, (grad_h, grad_c), saved)
    return dx, (dh, dc), dparams


def gru_backward(grad_output: Any, grad_h: Any, saved: Saved) -> tuple[Array, Array, list[Array]]:
    """Returns the gradients of `gru` in its input, its first states and parameters.

    See `lstm_backward`.
    """
    dx, (dh,), dparams = _backward("gru", grad_output, (grad_h,), saved)
    return dx, dh, dparams


def rnn_backward(grad_output: Any, grad_h: Any, saved: Saved) -> tuple[Array, Array, list[Array]]:
    """Returns the gradients of `rnn` in its input, its first states and parameters.

    See `lstm_backward`.
    """
    dx, (dh,), dparams = _backward("rnn", grad_output, (grad_h,), saved)
    return dx, dh, dparams


def _backward(
    what: str, grad_output: Any, grads: tuple[Any, ...], saved: Any
) -> tuple[Array, list[Array], list[Array]]:
    name = f"{what}_backward"
    if not isinstance(saved, Saved) or saved.layers.what != what:
        raise DTypeError(f"{name}: saved: expected what {what}(…, return_saved=True) returned")
    layers = saved.layers
    rows, width = saved.lines[0].x.shape[0], layers.width * layers.directions
    shape = (*layers.shape[:-1], width)
    check_given(name, "grad_output", grad_output, shape, layers.dtype)
    for letter, grad, state in zip("hc", grads, layers.states, strict=False):
        check_given(name, f"grad_{letter}", grad, state.shape, layers.dtype)
    if grad_output is None:
        dy = new_dense((rows, width), layers.dtype).fill(0)
    else:
        turned = grad_output.transpose(1, 0, 2) if layers.batch_first else grad_output
        dy = turned.reshape(rows, width)
    # Running gradients of the states lie where those of the first states go.
    first = [new_dense(s.shape, layers.dtype) for s in layers.states]
    for place, grad in zip(first, grads, strict=True):
        place.fill(0) if grad is None else copy_to(grad, out=place)
    dparams: list[list[Array]] = [[] for _ in range(layers.count)]
    for layer in reversed(range(layers.count // layers.directions)):
        x = saved.lines[layer * layers.directions].x
        dx = new_dense(x.shape, layers.dtype)
        for direction, part in enumerate(layers.ways(dy)):
            number = layer * layers.directions + direction
            line = saved.lines[number]
            running = [place[number] for place in first]
            dgiven, down, dstate = _steps(saved, line, number, part, running)
            weights = layers.weights(number)
            matmul(dgiven, weights.input, out=dx, beta=float(direction > 0))
            found = [
                matmul(dgiven, x, transpose_a=True),
                matmul(down, line.before, transpose_a=True),
            ]
            found += [add_up(d, 0) for d in (dgiven, down)] if weights.biases[0] is not None else []
            if dstate is not None:
                found.append(matmul(dstate, line.hidden, transpose_a=True))
            dparams[number] = found
        dy = dropout_backward(dx, saved.dropped[layer], saved.dropout)
    return layers.as_given(dy), first, [array for found in dparams for array in found]


def _steps(
    saved: Saved, line: Line, number: int, dy: Any, running: list[Array]
) -> tuple[Array, Array, Array | None]:
    """Goes back through the steps."""
    layers, kind = saved.layers, saved.layers.kind
    weights = layers.weights(number)
    projection = weights.projection
    dstate = None if projection is None else new_dense(line.before.shape, layers.dtype)
    nothing = new_dense((1, 1), layers.dtype).fill(0)
    dgiven = new_dense(line.given.shape, layers.dtype)
    down = new_dense(line.own.shape, layers.dtype) if kind == "gru" else dgiven
    direct = new_dense((layers.batch, layers.hidden), layers.dtype) if kind == "gru" else None
    for n in reversed(range(len(line.steps))):
        first, end = line.steps[n]
        size = end - first
        dh = running[0][:size]
        gates = [*layers.cell.gates(line.given[first:end]), *layers.cell.gates(line.own[first:end])]
        above, states, past = [dy[first:end], dh], [], None
        extra: dict[str, Any] = {}
        if kind == "lstm":
            past = running[1][:size]
            if dstate is not None:
                state = dstate[first:end]
                _ADD(*above, out=state)
                above = [matmul(state, projection), nothing]
            above.append(past)
            states = [line.memory[n]]
        elif direct is not None:
            past, states = direct[:size], [line.before[first:end]]
            extra = {"epilogue": "y0 = y0 + x0;", "epilogue_args": (past,)}
        found = layers.cell.gates(dgiven[first:end]), layers.cell.gates(down[first:end])
        step_back(kind, gates, states, above, *found, past)
        matmul(down[first:end], weights.state, out=dh, **extra)
    return dgiven, down, dstate
