"""Dropout, whose mask is never stored: the gradient draws it again."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating, real
from clprim.ops.shared.flags import drawing
from clprim.ops.shared.ranks import of_rank, rank_of
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.randomness import State, at, get_state

_dropout = Pointwise("y0 = rand() < w0 ? 0 : x0 * w1;", name="dropout")
# Of the first elements only dtype and shape matter: they may be no numbers.
_factors = Pointwise("(void)x0; y0 = rand() < w0 ? 0 : w1;", name="dropout_channels")
_times = Pointwise("y0 = x1 == 0 ? 0 : x0 * x1;", name="dropout_channels")


@operator()
@drawing
def dropout(
    x: Any, p: float = 0.5, training: bool = True, *, return_state: bool = False
) -> Array | tuple[Array, State | None]:
    """Returns ``x`` with elements set to zero at random, and the others scaled up.

    As `torch.nn.functional.dropout`, with numbers from `clprim.random`.

    Args:
        x: An array of floating numbers.
        p: Probability of a zero.
        training: Whether anything happens at all; if not, ``x`` itself comes back.
        return_state: Whether to return what `dropout_backward` needs as well.

    Returns:
        An array, or (array, state).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> cp.random.seed(1)
        >>> y, state = ops.dropout(cp.full((6,), 1, np.float32), 0.5, return_state=True)
        >>> bool((ops.dropout_backward(cp.full((6,), 1, np.float32), state).get() == y.get()).all())
        True
    """
    kept = 1 - probability("dropout", "x", x, p, complexes=True)
    if not training or kept == 1:
        return (x, None) if return_state else x
    state = get_state()
    y = _run(x, kept)
    return (y, state) if return_state else y


def dropout_backward(grad: Any, state: State | None, p: float = 0.5) -> Array:
    """Returns the gradient of `dropout` in its input.

    Args:
        state: What `dropout` returned beside it; None where it did nothing.
    """
    kept = 1 - probability("dropout_backward", "grad", grad, p, complexes=True)
    if state is None or kept == 1:
        return grad
    with at(state):
        return _run(grad, kept)


def _channels(
    what: str,
    x: Any,
    p: float = 0.5,
    training: bool = True,
    *,
    return_state: bool = False,
) -> Array | tuple[Array, State | None]:
    """Returns ``x`` with whole channels set to zero at random; see `dropout`.

    Args:
        x: (N, C, H, W), or without the images.
        p: Probability of a zero.
        training: Whether anything happens at all.
        return_state: Whether to return what `dropout2d_backward` needs as well.
    """
    ndim = rank_of(what)
    kept = 1 - probability(what, "x", x, p, complexes=True)
    first = _first(what, x, ndim)
    if not training or kept == 1:
        return (x, None) if return_state else x
    state = get_state()
    y: Array = _times(x, _run_factors(first, kept))
    return (y, state) if return_state else y


def _channels_back(what: str, grad: Any, state: State | None, p: float = 0.5) -> Array:
    """Returns the gradient of `dropout2d`; see `dropout_backward`."""
    ndim = rank_of(what)
    kept = 1 - probability(what, "grad", grad, p, complexes=True)
    first = _first(what, grad, ndim)
    found: Array = grad
    if state is not None and kept < 1:
        with at(state):
            found = _times(grad, _run_factors(first, kept))
    return found


dropout1d = drawing(of_rank(_channels, "dropout1d", sample="x[:, 0]"))
dropout2d = drawing(of_rank(_channels, "dropout2d"))
dropout3d = drawing(of_rank(_channels, "dropout3d"))
dropout1d_backward = of_rank(_channels_back, "dropout1d_backward")
dropout2d_backward = of_rank(_channels_back, "dropout2d_backward")
dropout3d_backward = of_rank(_channels_back, "dropout3d_backward")


def _run_factors(first: Any, kept: float) -> Array:
    return channel_factors(first, 1 - kept, 1 / kept if kept else 0.0)


def channel_factors(first: Any, p: float, factor: float) -> Array:
    """Returns 0, with the probability p, or a factor for every channel, of its first element."""
    return _factors(first, p, factor, shape=first.shape)


def _first(what: str, x: Any, spatial: int) -> Any:
    """The first element of every channel, of which only the shape matters."""
    if len(x.shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"{what}: an array of shape {x.shape}; expected {spatial + 2} dimensions, or "
            f"{spatial + 1} without images"
        )
    pixel = (slice(1),) * spatial
    first = (Ellipsis, *pixel)
    return x[first]


def _run(x: Any, kept: float) -> Array:
    return _dropout(x, 1 - kept, 1 / kept if kept else 0.0)


def probability(what: str, label: str, x: Any, p: Any, *, complexes: bool = False) -> float:
    """Returns the probability that an element of floating numbers is dropped."""
    check_floating(what, label, x, complexes=complexes)
    found = real(what, "p", p)
    if not 0 <= found <= 1:
        raise ShapeError(f"{what}: p={p} is no probability: expected 0 to 1")
    return found
