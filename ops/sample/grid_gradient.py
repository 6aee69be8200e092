"""The gradient of `grid_sample`, in its images and in its grid.

What the elements of a grid pass on to an image is sorted by where it goes, once for all channels,
and then added up in order: so the same inputs give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.dtypes import value_dtype
from clprim.graph.repeat import repeatable
from clprim.ops.index.taking import runs
from clprim.ops.sample.grid import Positions, check_grid, element, inside, positions
from clprim.ops.shared.checks import check_floating, check_shape
from clprim.ops.shared.dims import empty_like
from clprim.ops.shared.strings import kernel

_INT32 = np.dtype(np.int32)


@repeatable
def grid_sample_backward(
    grad: Any,
    x: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> tuple[Array, Array]:
    """Returns the gradients of `grid_sample` in x and in grid.

    ``grad`` is that of the result, all else as in the call. The gradient in x has its memory
    format; that in grid is 0 of ``"nearest"``, and of a position that is brought
    to the edge of the image.

    Raises:
        ShapeError, DefinitionError, DTypeError: As `grid_sample`, and of another grad.
    """
    what = "grid_sample_backward"
    dtype, ndim = check_grid(what, x, grid, mode, padding_mode)
    check_floating(what, "grad", grad, complexes=True)
    check_shape(what, "grad", grad, (*x.shape[:2], *grid.shape[1:-1]))
    corners = bool(align_corners)
    found = positions(ndim, mode, padding_mode, corners, 1, slopes=mode != "nearest")
    dx = empty_like(x, x.shape, dtype)
    dgrid = new_dense(grid.shape, grid.dtype)
    if not grad.size:
        return dx.fill(0), dgrid.fill(0)
    _in_images(what, found, padding_mode, grad, x, grid, dx)
    if mode == "nearest":
        return dx, dgrid.fill(0)
    outs = tuple(dgrid[..., ndim - 1 - d] for d in range(ndim))
    text = _in_grid(found, padding_mode)
    kernel(text, what, *(grid.dtype,) * ndim)(x, grid, grad, shape=outs[0].shape, out=outs)
    return dx, dgrid


def _in_images(
    what: str, found: Positions, padding: str, grad: Any, x: Any, grid: Any, dx: Array
) -> None:
    sizes, taps = grad.shape[2:], found.taps
    shape = (x.shape[0], *sizes, len(taps))
    places = new_dense(shape, _INT32)
    weights = new_dense(shape, value_dtype(grid.dtype, [grid.dtype]))
    total = int(np.prod(x.shape[2:]))
    text = _passed_on(found, padding, total)
    kernel(text, what, places.dtype, weights.dtype)(x, grid, shape=shape, out=(places, weights))
    lines = places.reshape(x.shape[0], -1)
    order, starts = runs(what, lines, 1, total)
    rest = ["long p = from / w0;"]
    there: list[str] = []
    for d in reversed(range(1, len(sizes))):
        rest.append(f"long c{d} = p % size_x3({2 + d}); p /= size_x3({2 + d});")
        there.insert(0, f"c{d}")
    here = f"coord({2})"
    for d in range(1, len(sizes)):
        here = f"({here}) * size({2 + d}) + coord({2 + d})"
    read = f"at_x3({', '.join(['coord(0)', 'coord(1)', 'p', *there])})"
    text = f"""
        long here = {here};
        long first = at_x1(coord(0), here), last = at_x1(coord(0), here + 1);
        typeof_x2 sum = 0, block = 0;
        for (long j = first; j < last; ++j) {{
            long from = at_x0(coord(0), j);
            {" ".join(rest)}
            block += at_x2(coord(0), from) * {read};
            if ((j - first) % 64 == 63) {{ sum += block; block = 0; }}
        }}
        y0 = sum + block;"""
    flat = weights.reshape(x.shape[0], -1)
    operator = kernel(text, what, dx.dtype)
    operator(order, starts, flat, grad, np.int64(len(taps)), shape=dx.shape, out=dx)


def _passed_on(found: Positions, padding: str, total: int) -> str:
    """Where every tap (the last coordinate) goes in a plane, or beyond it, and its weight."""
    ndim = len(found.places)
    lines = [*found.lines, "int tap = (int)coord(-1);"]
    for d in reversed(range(ndim)):
        count = len(found.places[d])
        lines.append(f"int k{d} = tap % {count}; tap /= {count};")
        lines.append(f"int to{d} = {_choice(f'k{d}', found.places[d])};")
    ends = " && ".join(f"to{d} >= 0 && to{d} < n{d}" for d in range(ndim))
    flat = "clamp(to0, 0, n0 - 1)"
    for d in range(1, ndim):
        flat = f"({flat}) * n{d} + clamp(to{d}, 0, n{d} - 1)"
    weights = [_choice(f"k{d}", found.weights[d]) for d in range(ndim) if found.weights[d]]
    guard = f"({ends})" if padding == "zeros" else "true"
    lines.append(f"y0 = {guard} ? {flat} : {total};")
    lines.append(f"y1 = {' * '.join(f'({w})' for w in weights) or '1'};")
    return "\n".join(lines)


def _choice(number: str, names: tuple[str, ...]) -> str:
    text = names[-1]
    for k in reversed(range(len(names) - 1)):
        text = f"{number} == {k} ? {names[k]} : {text}"
    return text


def _in_grid(found: Positions, padding: str) -> str:
    """For each dimension the sum over channels and taps of what their weights' slopes make."""
    ndim = len(found.places)
    lines = [*found.lines, *(f"typeof_y0 sum{d} = 0;" for d in range(ndim))]
    inner = [f"coord({1 + d})" for d in range(ndim)]
    lines.append("for (int c = 0; c < (int)size_x0(1); ++c) {")
    lines.append(f"typeof_x1 g = at_x2({', '.join(['coord(0)', 'c', *inner])}), v;")
    for tap in found.taps:
        lines.append(f"v = g * {element(found, tap, 'c')};")
        if padding == "zeros":
            lines.append(f"v = {inside(found, tap)} ? v : 0;")
        for d in range(ndim):
            factors = [(found.slopes if k == d else found.weights)[k][n] for k, n in enumerate(tap)]
            lines.append(f"sum{d} += v * {' * '.join(factors)};")
    lines.append("}")
    return "\n".join([*lines, *(f"y{d} = sum{d};" for d in range(ndim))])
