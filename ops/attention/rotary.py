"""Rotary embedding of positions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array
from clprim.errors import ShapeError
from clprim.ops.index.gather import check_index
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_floating
from clprim.ops.shared.dims import spread
from clprim.ops.shared.strings import places
from clprim.plan.strides import broadcasts_to
from clprim.primitives.pointwise import Pointwise


@lru_cache(maxsize=64)
def _rotate(ndim: int, interleaved: bool, back: bool, dtype: Any, looked_up: bool) -> Pointwise:
    """Pairs (a, b) become (a cos − b sin, b cos + a sin); x3 may say which row has the angles."""
    last = ndim - 1
    if interleaved:
        pair, second = "coord(-1) / 2", "coord(-1) % 2"
        other = "coord(-1) + 1 - 2 * second"
    else:
        pair, second = "coord(-1) % half_size", "coord(-1) / half_size"
        other = "second ? coord(-1) - half_size : coord(-1) + half_size"
    angle = f"at_x3({places(last)}), pair" if looked_up else places(ndim, {last: "pair"})
    sign = "-" if back else ""
    return Pointwise(
        f"""
        long half_size = size(-1) / 2, second = {second}, pair = {pair}, other = {other};
        typeof_y0 sine = {sign}at_x2({angle});
        y0 = x0 * at_x1({angle}) + at_x0({places(ndim, {last: "other"})}) * (second ? sine : -sine);
        """,
        name="rotary_embedding",
        result_type=dtype,
    )


@operator(sample="x, empty((4, 2)), empty((4, 2))", wrt="x")
def rotary_embedding(
    x: Any,
    cos: Any,
    sin: Any,
    *,
    positions: Any = None,
    interleaved: bool = False,
    out: Any = None,
) -> Array:
    """Returns queries or keys with pairs of features turned by angles of their positions.

    Su et al., RoFormer (2021).

    Args:
        x: (…, L, E), with E even.
        cos: Of the angles, what broadcasts to (…, L, E / 2), or with ``positions`` of all of them,
            (P, E / 2).
        sin: Likewise.
        positions: Of integers, what broadcasts to (…, L): which row of ``cos`` and ``sin`` is read.
        interleaved: Whether neighbours are pairs, or feature e and e + E / 2.
        out: Where the result goes; not ``x``.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x, angles = np.float32([[1, 2], [3, 4]]), np.float32([[0], [np.pi]])
        >>> cos, sin = cp.asarray(np.cos(angles)), cp.asarray(np.sin(angles))
        >>> turned = ops.rotary_embedding(
        ...     cp.asarray(x), cos, sin, positions=cp.asarray(np.array([1, 0]))
        ... )
        >>> turned.get().round().tolist()
        [[-1.0, -2.0], [3.0, 4.0]]
    """
    return _run("rotary_embedding", x, cos, sin, positions, interleaved, False, out)


def rotary_embedding_backward(
    grad: Any,
    cos: Any,
    sin: Any,
    *,
    positions: Any = None,
    interleaved: bool = False,
    out: Any = None,
) -> Array:
    """Returns the gradient of `rotary_embedding` in ``x``: the same turn the other way."""
    what = "rotary_embedding_backward"
    return _run(what, grad, cos, sin, positions, interleaved, True, out)


def _run(
    what: str,
    x: Any,
    cos: Any,
    sin: Any,
    positions: Any,
    interleaved: bool,
    back: bool,
    out: Any,
) -> Array:
    for label, array in {"x": x, "cos": cos, "sin": sin}.items():
        check_floating(what, label, array, complexes=True)
    half = (*x.shape[:-1], x.shape[-1] // 2) if x.ndim else ()
    fits = x.ndim > 1 and x.shape[-1] % 2 == 0
    if positions is not None and fits:
        check_index(what, "positions", positions)
        if not broadcasts_to(positions.shape, x.shape[:-1]) or not (
            cos.shape == sin.shape and cos.ndim == 2 and cos.shape[1] == half[-1]
        ):
            raise ShapeError(
                f"{what}: positions {positions.shape} in cos {cos.shape} and sin {sin.shape} do "
                f"not fit x {x.shape}: expected what broadcasts to (…, L), and twice (P, E / 2)"
            )
        rotate = _rotate(x.ndim, bool(interleaved), back, x.dtype, True)
        return rotate(x, cos, sin, spread(positions, x.shape[:-1]), shape=x.shape, out=out)
    if not fits or not all(broadcasts_to(a.shape, half) for a in (cos, sin)):
        raise ShapeError(
            f"{what}: x {x.shape}, cos {cos.shape} and sin {sin.shape} do not fit: expected (…, E) "
            "with E even, and what broadcasts to (…, E / 2)"
        )
    angles = [spread(a, half) for a in (cos, sin)]
    return _rotate(x.ndim, bool(interleaved), back, x.dtype, False)(x, *angles, out=out)
