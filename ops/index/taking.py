"""Takes several elements into one place: each place of the result gathers its own, in order.

Indices are sorted, and what belongs to one place is then neighbours. So nothing is added
atomically, and results repeat bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense, view_of
from clprim.ops.index.gather import WRAPPED
from clprim.ops.shared.checks import is_array
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.strings import kernel, lower_bound, places
from clprim.ops.sort.keys import with_axis
from clprim.primitives.lines import take_lines
from clprim.primitives.order import order_of_keys

_UINT32 = np.dtype(np.uint32)
_INT32 = np.dtype(np.int32)


def runs(what: str, index: Any, at: int, places_there: int) -> tuple[Array, Array]:
    """Returns (order, starts) of indices along an axis.

    ``order`` says which index comes first when they are sorted, and ``starts`` where those begin
    that name each place, and at the end where those begin that name none. Negative indices count
    from the end.
    """
    moved = with_axis(index, at, -1)
    keys = new_dense(moved.shape, _UINT32)
    text = WRAPPED.format(c="i", i="x0", n="w0")
    text += "y0 = i >= 0 && i < w0 ? (uint)i : (uint)w0;"
    operator = kernel(text, f"{what}_keys", _UINT32)
    operator(moved, np.int64(places_there), out=keys)
    kept = keys.copy()
    order = order_of_keys(what, keys, places_there.bit_length())
    last = index.ndim - 1
    ordered = kernel(f"y0 = at_x1({places(index.ndim, {last: 'x0'})});", what, _UINT32)(order, kept)
    element = f"at_x0({places(index.ndim, {last: 'middle'})})"
    text = lower_bound(f"size_x0({last})", element, f"coord({last})") + "y0 = low;"
    shape = (*moved.shape[:-1], places_there + 1)
    starts = kernel(text, what, _INT32)(ordered, shape=shape)
    return with_axis(order, last, at), with_axis(starts, last, at)


# How several elements become one: the start, a step, the end. A sum begins anew every 64 elements.
_ADD = "block += v; if (++taken % 64 == 0) {{ sum += block; block = 0; }}"
_BEST = "best = !any || v {beats} best || v != v ? v : best; any = true; ++taken;"
_TAKE = {
    "sum": ("typeof_y0 block = 0, sum = {own};", _ADD, "y0 = sum + block;"),
    "mean": (
        "typeof_y0 block = 0, sum = {own};",
        _ADD,
        "y0 = (sum + block) / (taken + {self} == 0 ? 1 : taken + {self});",
    ),
    "prod": ("typeof_y0 product = {own};", "product *= v; ++taken;", "y0 = product;"),
    "amax": ("typeof_y0 best = {own}; bool any = {self};", _BEST, "y0 = best;"),
    "amin": ("typeof_y0 best = {own}; bool any = {self};", _BEST, "y0 = best;"),
    "last": ("typeof_y0 best = {own};", "best = v; ++taken;", "y0 = best;"),
}
# Of integers the mean is rounded down, as PyTorch does.
_MEAN_OF_INTEGERS = (
    "{wide} n = taken + {self}; n = n == 0 ? 1 : n; {wide} all = sum + block;"
    " y0 = all / n - (all % n < 0);"
)
_NEUTRAL = {"sum": "0", "mean": "0", "prod": "1", "amax": "0", "amin": "0", "last": "0"}


def take_in(
    what: str,
    x: Any,
    at: int,
    index: Any,
    source: Any,
    how: str,
    *,
    include_self: bool = True,
    alpha: float = 1,
    out: Any = None,
) -> Array:
    """Takes elements of ``source`` into those of ``x`` that an index names along an axis.

    ``index`` has as many dimensions as ``x`` and ``source``, or one.
    """
    if out is None:
        out = empty_like(x, x.shape, x.dtype)
    if not x.size:
        return out
    if not index.size:
        kernel("y0 = x0;", "copy", x.dtype)(x, out=out)
        return out
    ndim = x.ndim
    line = index.ndim == 1
    # Another result is refused below, by the operator's name.
    fits = is_array(out) and out.shape == x.shape and out.dtype == x.dtype
    paired = x.dtype.kind == "c"
    if fits and include_self and alpha == 1 and how != "mean" and not paired:

        def copy() -> None:
            if out is not x:
                kernel("y0 = x0;", "copy", x.dtype)(x, out=out)

        spread, own = _spread(index, at, source.shape), None if out is x else x
        if take_lines(what, out, spread, source, at, how, copy, own):
            return out
    order, starts = runs(what, index, 0 if line else at, x.shape[at])
    own = f"coord({at})"

    def element(array: str, place: str) -> str:
        return f"at_{array}({place if line else places(ndim, {at: place})})"

    begin, step, end = _TAKE[how]
    if how == "mean" and x.dtype.kind in "iu":  # added up in 64 bits, so that no sum wraps
        wide = "ulong" if x.dtype == np.uint64 else "long"
        begin, end = begin.replace("typeof_y0", wide), _MEAN_OF_INTEGERS.replace("{wide}", wide)
    self_ = "1" if include_self else "0"
    begin = begin.format(own="x0" if include_self else _NEUTRAL[how], self=self_)
    inside = " && ".join(
        ["true", *(f"coord({d}) < size_x1({d})" for d in range(ndim) if d != at and not line)]
    )
    scale = "v *= w0;" if alpha != 1 else ""
    text = f"""
        {begin}
        long taken = 0;
        if ({inside}) {{
            long first = {element("x2", own)}, last = {element("x2", f"{own} + 1")};
            for (long j = first; j < last; ++j) {{
                long from = {element("x1", "j")};
                typeof_y0 v = at_x3({places(ndim, {at: "from"})});
                {scale}
                {step.format(beats=">" if how == "amax" else "<")}
            }}
        }}
        {end.format(self=self_)}
        {"" if include_self else "y0 = taken == 0 ? x0 : y0;"}
    """
    numbers = (alpha,) if alpha != 1 else ()
    return kernel(text, what, x.dtype)(x, order, starts, source, *numbers, out=out)


def _spread(index: Any, at: int, shape: tuple[int, ...]) -> Any:
    """An index of as many dimensions as the source: a line of indices holds for all lines."""
    if index.ndim == len(shape):
        return index
    strides = tuple(index.strides[0] if d == at else 0 for d in range(len(shape)))
    return view_of(index, shape, strides, index.offset)
