"""Images read at positions of a grid: `grid_sample` and `affine_grid`, after PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.registry import operator
from clprim.ops.sample.taps import cubic_slopes, cubic_weights
from clprim.ops.shared.checks import Operator, check_floating, check_shape
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel
from clprim.primitives.reduction import Reduction

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@operator(
    autocast="widest grid_sampler",
    torch="grid_sampler_2d grid_sampler_3d;"
    "grid_sampler_2d_backward grid_sampler_3d_backward -output_mask",
    onnx="GridSample mode='linear' padding_mode='zeros' align_corners=0",
    sample="x, empty((0, 2, 2, 2))",
    wrt="x grid",
)
@repeatable
def grid_sample(
    x: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
    *,
    out: Any = None,
) -> Array:
    """Returns images read at given positions.

    Args:
        x: (N, C, H, W) or (N, C, D, H, W) of floating-point numbers, in any memory format.
        grid: (N, H', W', 2) or (N, D', H', W', 3): x, y (and z) of each element of the result, from
            -1 at one side of the image to 1 at the other.
        mode: ``"bilinear"``, ``"nearest"`` or, for 4 dimensions, ``"bicubic"``.
        padding_mode: What lies outside: ``"zeros"``; ``"border"``, the nearest element;
            ``"reflection"``, the image mirrored.
        align_corners: Whether -1 and 1 are the centres of the corners, and not their edges.
        out: Where the result goes.

    Returns:
        (N, C, H', W') or (N, C, D', H', W').

    Raises:
        ShapeError: Shapes that do not fit.
        DefinitionError: Another mode.
        DTypeError: Not such arrays.
    """
    what = "grid_sample"
    dtype, ndim = check_grid(what, x, grid, mode, padding_mode)
    expr = _sampled(ndim, mode, padding_mode, bool(align_corners))
    shape = (*x.shape[:2], *grid.shape[1:-1])
    return kernel(expr, what, dtype)(x, grid, shape=shape, out=out)


def check_grid(what: str, x: Any, grid: Any, mode: Any, padding_mode: Any) -> tuple[AnyDType, int]:
    """Returns the dtype of images, and how many dimensions have positions.

    Raises:
        ShapeError, DefinitionError, DTypeError: As `grid_sample`.
    """
    dtype = check_floating(what, "x", x, complexes=True)
    check_floating(what, "grid", grid)
    ndim = x.ndim - 2
    if ndim not in (2, 3) or min(x.shape[2:]) < 1:
        raise ShapeError(f"{what}: expected x of 4 or 5 dimensions, got shape {x.shape}")
    if grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != ndim:
        raise ShapeError(
            f"{what}: grid has shape {grid.shape}, expected ({x.shape[0]}, "
            f"{', '.join('DHW'[3 - ndim :])}, {ndim}) for x of shape {x.shape}"
        )
    if mode not in _MODES or (mode == "bicubic" and ndim == 3):
        raise DefinitionError(
            f"{what}: mode={quoted(mode)}: expected one of {_MODES}, the last in 2-D"
        )
    if padding_mode not in _PADDINGS:
        raise DefinitionError(
            f"{what}: padding_mode={quoted(padding_mode)} is unknown; expected one of {_PADDINGS}"
        )
    return dtype, ndim


@dataclass(frozen=True)
class Positions:
    """Where the elements of a grid are read, along each dimension of the images.

    Attributes:
        lines: Declarations.
        places: Names of the coordinates that count.
        weights: Of their weights; empty for the one that is the nearest.
        slopes: Of the slopes of weights by what the grid holds; asked for, else empty.
    """

    lines: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    weights: tuple[tuple[str, ...], ...]
    slopes: tuple[tuple[str, ...], ...]

    @property
    def taps(self) -> list[tuple[int, ...]]:
        """The number of the place along each dimension, of every element that counts."""
        return list(product(*(range(len(p)) for p in self.places)))


def positions(
    ndim: int, mode: str, padding: str, corners: bool, first: int, *, slopes: bool = False
) -> Positions:
    """Returns where images x0 are read for the elements of a grid x1.

    Args:
        ndim: Dimensions of images that have positions.
        mode: As of `grid_sample`.
        padding: Likewise.
        corners: Likewise.
        first: Number of the first of the result's coordinates that the grid is indexed with.
        slopes: Whether these are asked for.
    """
    lines: list[str] = []
    places_: list[tuple[str, ...]] = []
    weights: list[tuple[str, ...]] = []
    slopes_: list[tuple[str, ...]] = []
    for d in range(ndim):
        inner = [f"coord({first + k})" for k in range(ndim)]
        here = ", ".join(["coord(0)", *inner, str(ndim - 1 - d)])
        unit = f"(g{d} + 1) * 0.5f * (n{d} - 1)" if corners else f"((g{d} + 1) * n{d} - 1) * 0.5f"
        lines += [
            f"int n{d} = size_x0({2 + d});",
            f"typeof_x1 g{d} = at_x1({here});",
            f"typeof_x1 at{d} = {unit};",
        ]
        if slopes:
            lines.append(f"typeof_x1 q{d} = {f'0.5f * (n{d} - 1)' if corners else f'0.5f * n{d}'};")
        if mode != "bicubic":
            lines += _inside(f"at{d}", d, padding, corners, f"q{d}" if slopes else "")
        # What is no number is outside; what no integer holds is as far away as one can be.
        lines.append(f"at{d} = at{d} != at{d} ? -100 : clamp(at{d}, -1e9f, 1e9f);")
        if mode == "nearest":
            lines.append(f"int i{d} = (int)rint(at{d});")
            places_.append((f"i{d}",))
            weights.append(())
        elif mode == "bilinear":
            lines.append(f"typeof_x1 down{d} = floor(at{d}), b{d} = at{d} - down{d};")
            lines.append(f"typeof_x1 a{d} = 1 - b{d};")
            lines.append(f"int i{d} = (int)down{d}, j{d} = i{d} + 1;")
            places_.append((f"i{d}", f"j{d}"))
            weights.append((f"a{d}", f"b{d}"))
            slopes_.append((f"-q{d}", f"q{d}"))
        else:
            lines.append(f"typeof_x1 down{d} = floor(at{d}), t{d} = at{d} - down{d};")
            lines += cubic_weights(d, "typeof_x1")
            if slopes:
                lines += cubic_slopes(d, "typeof_x1")
            for k in range(4):
                lines.append(f"typeof_x1 p{d}{k} = down{d} + {k - 1};")
                lines += _inside(f"p{d}{k}", d, padding, corners)
                lines.append(f"int i{d}{k} = (int)p{d}{k};")
            places_.append(tuple(f"i{d}{k}" for k in range(4)))
            weights.append(tuple(f"{name}{d}" for name in "abcd"))
            slopes_.append(tuple(f"(q{d} * d{name}{d})" for name in "abcd"))
    return Positions(tuple(lines), tuple(places_), tuple(weights), tuple(slopes_))


def inside(found: Positions, tap: Sequence[int]) -> str:
    """Returns whether an element that counts is one of the image."""
    chosen = [(d, found.places[d][k]) for d, k in enumerate(tap)]
    return " && ".join(f"{p} >= 0 && {p} < n{d}" for d, p in chosen)


def element(found: Positions, tap: Sequence[int], channel: str) -> str:
    """Returns an element that counts, or the nearest one to it."""
    chosen = [f"clamp({found.places[d][k]}, 0, n{d} - 1)" for d, k in enumerate(tap)]
    return f"at_x0({', '.join(['coord(0)', channel, *chosen])})"


def _sampled(ndim: int, mode: str, padding: str, corners: bool) -> str:
    found = positions(ndim, mode, padding, corners, 2)
    terms = []
    for tap in found.taps:
        weights = [found.weights[d][k] for d, k in enumerate(tap) if found.weights[d]]
        weighted = " * ".join([*weights, element(found, tap, "coord(1)")])
        guard = f"if ({inside(found, tap)}) " if padding == "zeros" else ""
        terms.append(f"{guard}sum += {weighted};")
    return "\n".join([*found.lines, "typeof_y0 sum = 0;", *terms, "y0 = sum;"])


def _inside(at: str, d: int, padding: str, corners: bool, slope: str = "") -> list[str]:
    """Lines that bring a position into the image, and its slope along."""
    if padding == "zeros":
        return []
    lines = []
    if padding == "reflection":
        low, span = ("0", f"(n{d} - 1)") if corners else ("-0.5f", f"n{d}")
        name = f"r{at}"
        lines = [
            f"typeof_x1 {name} = fabs({at} - ({low}));",
            f"typeof_x1 f{name} = {span} > 0 ? floor({name} / {span}) : 0;",
            f"{name} = {name} - f{name} * {span};",
        ]
        if slope:
            turned = f"({at} < {low}) != (fmod(f{name}, 2) != 0)"
            lines.append(f"{slope} = {span} == 0 ? 0 : {turned} ? -{slope} : {slope};")
        lines += [
            f"{at} = {span} == 0 ? 0 : fmod(f{name}, 2) == 0 ? {name} + ({low}) "
            f": {span} - {name} + ({low});",
        ]
    if slope:
        lines.append(f"{slope} = {at} > 0 && {at} < n{d} - 1 ? {slope} : 0;")
    return [*lines, f"{at} = fmin(fmax({at}, 0), n{d} - 1);"]


# --- grids ----------------------------------------------------------------------------------------


@operator(
    onnx="AffineGrid(theta, size: Numbers) align_corners=0",
    sample="empty((1, 2, 3)), (1, 1, 2, 2)",
    wrt="theta",
)
@repeatable
def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Array:
    """Returns the grid of an affine map, for `grid_sample`.

    Args:
        theta: (N, 2, 3) or (N, 3, 4): for each image a matrix and, as its last column, a shift.
        size: Of the result of `grid_sample`: (N, C, H, W) or (N, C, D, H, W).
        align_corners: As in `grid_sample`.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3).

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: No device array, or one of integers.
    """
    what = "affine_grid"
    dtype = check_floating(what, "theta", theta, complexes=True)
    ndim, sizes = _grid_sizes(what, size)
    if theta.shape != (sizes[0], ndim, ndim + 1):
        raise ShapeError(
            f"{what}: theta has shape {theta.shape}, expected {(sizes[0], ndim, ndim + 1)} for "
            f"size={tuple(size)}"
        )
    lines = [_base(d, bool(align_corners)) for d in range(ndim)]
    terms = [f"at_x0(coord(0), coord(-1), {k}) * b{ndim - 1 - k}" for k in range(ndim)]
    terms.append(f"at_x0(coord(0), coord(-1), {ndim})")
    expr = "\n".join([*lines, f"y0 = {' + '.join(terms)};"])
    return kernel(expr, what, dtype)(theta, shape=(*sizes, ndim))


def affine_grid_backward(
    grad: Any, size: Sequence[int], align_corners: bool | None = None
) -> Array:
    """Returns the gradient of `affine_grid` in theta.

    ``grad`` is that of the grid, all else as in the call.

    Raises:
        ShapeError, DTypeError: With what was given and what was expected.
    """
    what = "affine_grid_backward"
    check_floating(what, "grad", grad, complexes=True)
    ndim, sizes = _grid_sizes(what, size)
    check_shape(what, "grad", grad, (*sizes, ndim))
    wide = view_of(grad, (*grad.shape, ndim + 1), (*grad.strides, 0), grad.offset)
    return _theta(ndim, bool(align_corners))(wide, axis=tuple(range(1, ndim + 1)))


@lru_cache(maxsize=4)
def _theta(ndim: int, corners: bool) -> Operator:
    lines = [_base(d, corners) for d in range(ndim)]
    choice = "1"
    for k in range(ndim):
        choice = f"coord(-1) == {k} ? b{ndim - 1 - k} : {choice}"
    return Reduction(
        "\n".join([*lines, f"y0 = x0 * ({choice});"]),
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        name="affine_grid_backward",
    )


def _grid_sizes(what: str, size: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    given = tuple(whole(what, "size", n, 1) for n in size)
    if len(given) not in (4, 5):
        raise ShapeError(f"{what}: size={quoted(size)}: expected (N, C, H, W) or (N, C, D, H, W)")
    return len(given) - 2, (given[0], *given[2:])


def _base(d: int, corners: bool) -> str:
    """The position of an element along the dimension d of the image, from -1 to 1."""
    i, n, kind = f"coord({1 + d})", f"size({1 + d})", "typeof_y0"
    if corners:
        return f"{kind} b{d} = {n} > 1 ? ({kind})(2 * {i}) / ({n} - 1) - 1 : 0;"
    return f"{kind} b{d} = ({kind})(2 * {i} + 1) / {n} - 1;"
