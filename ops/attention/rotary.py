"""Rotary embedding of positions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.errors import ShapeError
from clprim.ops.registry import operator
from clprim.ops.shared.arguments import check_floating
from clprim.ops.shared.strings import places
from clprim.plan.strides import broadcasts_to
from clprim.pointwise import Pointwise


@lru_cache(maxsize=64)
def _rotate(ndim: int, interleaved: bool, back: bool, dtype: Any) -> Pointwise:
    """Pairs (a, b) become (a cos − b sin, b cos + a sin)."""
    last = ndim - 1
    if interleaved:
        pair, second = "coord(-1) / 2", "coord(-1) % 2"
        other = "coord(-1) + 1 - 2 * second"
    else:
        pair, second = "coord(-1) % half_size", "coord(-1) / half_size"
        other = "second ? coord(-1) - half_size : coord(-1) + half_size"
    angle = places(ndim, {last: "pair"})
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


@operator(sample="x, empty((4, 2)), empty((4, 2))")
def rotary_embedding(
    x: Any, cos: Any, sin: Any, *, interleaved: bool = False, out: Any = None
) -> Array:
    """Returns queries or keys with pairs of features turned by angles of their positions.

    Su et al., RoFormer (2021).

    Args:
        x: (…, L, E), with E even.
        cos: Of the angles, what broadcasts to (…, L, E / 2).
        sin: Likewise.
        interleaved: Whether neighbours are pairs, or feature e and e + E / 2.
        out: Where the result goes; not ``x``.

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: No device arrays of floating numbers.
    """
    return _run("rotary_embedding", x, cos, sin, interleaved, False, out)


def rotary_embedding_backward(
    grad: Any, cos: Any, sin: Any, *, interleaved: bool = False, out: Any = None
) -> Array:
    """Returns the gradient of `rotary_embedding` in ``x``: the same turn the other way."""
    return _run("rotary_embedding_backward", grad, cos, sin, interleaved, True, out)


def _run(what: str, x: Any, cos: Any, sin: Any, interleaved: bool, back: bool, out: Any) -> Array:
    for label, array in {"x": x, "cos": cos, "sin": sin}.items():
        check_floating(what, label, array)
    half = (*x.shape[:-1], x.shape[-1] // 2) if x.ndim else ()
    fits = x.ndim > 1 and x.shape[-1] % 2 == 0
    if not fits or not all(broadcasts_to(a.shape, half) for a in (cos, sin)):
        raise ShapeError(
            f"{what}: x {x.shape}, cos {cos.shape} and sin {sin.shape} do not fit: expected (…, E) "
            "with E even, and what broadcasts to (…, E / 2)"
        )
    angles = [_spread(a, half) for a in (cos, sin)]
    kernel = _rotate(x.ndim, bool(interleaved), back, x.dtype)
    found: Array = kernel(x, *angles, out=out)
    return found


def _spread(array: Any, shape: tuple[int, ...]) -> Any:
    """The array broadcast to a shape, as a view."""
    missing = len(shape) - array.ndim
    steps = tuple(0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True))
    return view_of(array, shape, (0,) * missing + steps, array.offset)
