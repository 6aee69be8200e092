"""Images in another size: `torch.nn.functional.interpolate` and its gradient.

Every mode is one kernel, in every memory format. The gradient is gathered: an element of the input
looks at the results that lie near it, and takes the weights that they gave it. It has a kernel for
each dimension (nearest elements of channels-last images are taken in one), and so have the
antialiased modes: what many elements of an image give is what a line gives, of lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.graph.repeat import repeatable
from clprim.ops.pool.adaptive_pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool1d_backward,
    adaptive_avg_pool2d,
    adaptive_avg_pool2d_backward,
    adaptive_avg_pool3d,
    adaptive_avg_pool3d_backward,
)
from clprim.ops.registry import operator
from clprim.ops.sample.passes import along_each, dense_order
from clprim.ops.sample.taps import (
    RADIUS,
    Taps,
    antialiased,
    antialiased_backward,
    nearest,
    position,
    taps,
)
from clprim.ops.shared.checks import dtype_of, real
from clprim.ops.shared.dims import empty_like, whole
from clprim.ops.shared.strings import kernel, lower_bound, places

_INT32 = np.dtype(np.int32)

Size = int | Sequence[int] | None
Factor = float | Sequence[float] | None

# Names of the modes by the number of dimensions that they are for; "" is any.
_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_MODES = ("nearest", "nearest-exact", *_LINEAR, "bicubic", "area")
_AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
_AREA_BACK = (
    adaptive_avg_pool1d_backward,
    adaptive_avg_pool2d_backward,
    adaptive_avg_pool3d_backward,
)


# PyTorch's overloads, each of which has a gradient, and what they interpolate with.
_OVERLOADS = {
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d": "mode='nearest'",
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d": (
        "mode='nearest-exact'"
    ),
    "upsample_linear1d": "mode='linear'",
    "upsample_bilinear2d": "mode='bilinear'",
    "upsample_trilinear3d": "mode='trilinear'",
    "upsample_bicubic2d": "mode='bicubic'",
    "_upsample_bilinear2d_aa": "mode='bilinear' antialias=True",
    "_upsample_bicubic2d_aa": "mode='bicubic' antialias=True",
}
_TORCH = ";".join(
    f"{names} {how} @resized @format0;"
    f"{names.replace(' ', '_backward ')}_backward {how} -output_size @resized_gradient @format0"
    for names, how in _OVERLOADS.items()
)


@operator(torch=_TORCH, sample='x, 8, mode="bilinear"', wrt="x")
@repeatable
def interpolate(
    x: Any,
    size: Size = None,
    scale_factor: Factor = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    out: Any = None,
) -> Array:
    """Returns images in another size.

    Args:
        x: (N, C, L), (N, C, H, W) or (N, C, D, H, W), in any memory format; of floating-point
            numbers, for the nearest element of any dtype.
        size: Of the result: a number, or one for each dimension.
        scale_factor: How many times larger the result is, likewise; instead of a size. A dimension
            that keeps its size stays as it is, whatever the factor, but for positions of
            ``"nearest-exact"`` and ``"bicubic"`` without ``antialias``: as on PyTorch's CPU.
        mode: ``"nearest"``, ``"nearest-exact"``, ``"linear"`` (of one dimension), ``"bilinear"``,
            ``"trilinear"``, ``"bicubic"`` or ``"area"``.
        align_corners: Whether the centres of the corners stay where they are, and not the edges.
        recompute_scale_factor: Whether positions follow from the sizes, and not the factor given.
        antialias: Whether a smaller result counts all elements below it (bilinear and bicubic).
        out: Where the result goes.

    Raises:
        ShapeError: Another number of dimensions, sizes that are none, or both size and factor.
        DefinitionError: A mode that is unknown or for other dimensions, options it does not have.
        DTypeError: No device array, or integers where elements are mixed.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[[0, 4]]]))
        >>> ops.interpolate(x, scale_factor=2, mode="linear").get()
        array([[[0., 1., 3., 4.]]], dtype=float32)
    """
    what = "interpolate"
    dtype = dtype_of(what, "x", x)
    kind = _kind(what, x.ndim - 2, mode, align_corners, antialias, x.shape)
    if kind not in ("nearest", "nearest-exact") and dtype.kind in "biu":
        raise DTypeError(f"{what}: mode={quoted(mode)} needs floating-point numbers, got {dtype}")
    corners = bool(align_corners)
    sizes, scales = _sizes(
        what, x.shape[2:], size, scale_factor, recompute_scale_factor, kind, corners, antialias
    )
    if kind == "area":
        y = _AREA[x.ndim - 3](x, sizes)
        return y if out is None else _into(y, out)
    ndim = x.ndim - 2
    if antialias:
        return along_each(what, antialiased(kind), x, sizes, scales, out)
    expr = _forward(ndim, kind, corners)
    shape = (*x.shape[:2], *sizes)
    return kernel(expr, what, dtype)(x, *scales, shape=shape, out=out)


@repeatable
def interpolate_backward(
    grad: Any,
    input_size: Sequence[int],
    scale_factor: Factor = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Array:
    """Returns the gradient of `interpolate` in x.

    ``input_size`` is the shape of x, all else as in the call; ``scale_factor`` is None where a size
    was given.

    Raises:
        ShapeError, DefinitionError, DTypeError: As `interpolate`.
    """
    what = "interpolate_backward"
    dtype = dtype_of(what, "grad", grad)
    if dtype.kind in "biu":
        raise DTypeError(f"{what}: expected floating-point numbers for grad, got {dtype}")
    given = tuple(whole(what, "input_size", n, int(d > 0)) for d, n in enumerate(input_size))
    if len(given) != grad.ndim or given[:2] != grad.shape[:2]:
        raise ShapeError(f"{what}: input_size={given} does not fit grad of shape {grad.shape}")
    kind = _kind(what, grad.ndim - 2, mode, align_corners, antialias, grad.shape)
    corners = bool(align_corners)
    wanted = None if scale_factor is not None else grad.shape[2:]
    sizes, scales = _sizes(
        what, given[2:], wanted, scale_factor, recompute_scale_factor, kind, corners, antialias
    )
    if sizes != grad.shape[2:]:
        raise ShapeError(f"{what}: grad has shape {grad.shape}, expected {(*given[:2], *sizes)}")
    if kind == "area":
        return _area_backward(grad, given)
    if antialias:
        return along_each(what, antialiased_backward(kind), grad, given[2:], scales)
    starts = partial(_starts, kind, corners)
    if kind.startswith("nearest"):
        # Where channels are neighbours one pass reads each element once, in vectors; the sums of
        # many would be long, and of few places not parallel.
        taken = math.prod(-(-m // n) for n, m in zip(given[2:], sizes, strict=True))
        if dense_order(grad)[-1] == 1 and taken <= _FEW and 0 not in grad.shape:
            return _nearest_backward(what, grad, given, scales, starts)
    expr = _NEAREST_BACKWARD if kind.startswith("nearest") else _backward(kind)
    return along_each(what, expr, grad, given[2:], scales, given=starts)


def _into(y: Any, out: Any) -> Any:
    out[...] = y
    return out


def _area_backward(grad: Any, shape: tuple[int, ...]) -> Array:
    return _AREA_BACK[grad.ndim - 3](grad, empty_like(grad, shape, grad.dtype))


def _kind(
    what: str, ndim: int, mode: str, corners: bool | None, antialias: bool, shape: Sequence[int]
) -> str:
    if ndim not in (1, 2, 3):
        raise ShapeError(f"{what}: expected 3, 4 or 5 dimensions, got shape {tuple(shape)}")
    if mode not in _MODES:
        raise DefinitionError(f"{what}: mode={quoted(mode)} is unknown; expected one of {_MODES}")
    wanted = {**_LINEAR, "bicubic": 2}.get(mode, ndim)
    if wanted != ndim:
        raise DefinitionError(
            f"{what}: mode={quoted(mode)} is for {wanted + 2} dimensions, got shape {tuple(shape)}"
        )
    if corners is not None and mode not in (*_LINEAR, "bicubic"):
        raise DefinitionError(f"{what}: align_corners= has no meaning for mode={quoted(mode)}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise DefinitionError(
            f"{what}: antialias=True is for bilinear and bicubic, got {quoted(mode)}"
        )
    return {"bicubic": "cubic"}.get(mode, "linear" if mode in _LINEAR else mode)


def _sizes(
    what: str,
    sizes: Sequence[int],
    size: Any,
    factor: Any,
    recompute: bool | None,
    kind: str,
    corners: bool,
    antialias: bool,
) -> tuple[tuple[int, ...], list[float]]:
    """Sizes of the result, and for each how many steps of the input one of its own is."""
    ndim = len(sizes)
    if (size is None) == (factor is None):
        raise ShapeError(f"{what}: give size or scale_factor, one of them")
    if min(sizes) < 1:
        raise ShapeError(f"{what}: an image of size {tuple(sizes)} has no elements")
    factors: list[float] | None = None
    if size is not None:
        given = size if isinstance(size, Sequence) else (size,) * ndim
        outputs = tuple(whole(what, "size", n, 1) for n in given)
    else:
        given = factor if isinstance(factor, Sequence) else (factor,) * ndim
        factors = [real(what, "scale_factor", f) for f in given[: ndim + 1]]
        if len(factors) == ndim and all(0 < f < math.inf for f in factors):
            outputs = tuple(math.floor(n * f) for n, f in zip(sizes, factors, strict=True))
        else:
            outputs = (0,)
    if len(outputs) != ndim or min(outputs) < 1:
        raise ShapeError(
            f"{what}: size={quoted(size)}, scale_factor={quoted(factor)}: expected a number or "
            f"{ndim} of them, "
            f"and a result of at least 1 element from {tuple(sizes)}"
        )
    if recompute:
        factors = None
    scales: list[float] = []
    copies = antialias or kind in ("nearest", "linear")  # what keeps its size
    for d, (n, m) in enumerate(zip(sizes, outputs, strict=True)):
        if corners:
            scales.append((n - 1) / (m - 1) if m > 1 else 0.0)
        elif (m == n and copies) or (kind == "nearest" and m == 2 * n):
            scales.append(n / m)  # whatever the factor: so does PyTorch on the CPU
        else:
            scales.append(1 / factors[d] if factors else n / m)
    return outputs, scales


def _forward(ndim: int, kind: str, corners: bool) -> str:
    lines: list[str] = []
    along: list[Taps] = []
    for d in range(ndim):
        lines.append(f"int n{d} = size_x0({2 + d});")
        found = taps(kind, d, f"coord({2 + d})", f"n{d}", f"w{d}", corners)
        lines += found.lines
        along.append(found)
    return "\n".join([*lines, f"y0 = {_mixed(along, 0, {})};"])


def _mixed(along: list[Taps], d: int, chosen: dict[int, str]) -> str:
    """The weighted sum over the elements along dimension d and those behind it."""
    if d == len(along):
        return f"at_x0({places(2 + d, chosen)})"
    terms = [_mixed(along, d + 1, {**chosen, 2 + d: place}) for place in along[d].places]
    if not along[d].weights:
        return terms[0]
    return (
        "(" + " + ".join(f"{w} * {t}" for w, t in zip(along[d].weights, terms, strict=True)) + ")"
    )


# Those that an element was the nearest of are neighbours.
_NEAREST_BACKWARD = """
    int end = at_x1(coord(1) + 1);
    typeof_x0 sum = 0;
    for (int o = at_x1(coord(1)); o < end; ++o) sum += at_x0(coord(0), o, coord(2));
    y0 = sum;"""


# Elements of a result that came of one, of which a work-item reads all.
_FEW = 16


def _nearest_backward(
    what: str,
    grad: Any,
    shape: tuple[int, ...],
    scales: Sequence[float],
    starts: Callable[..., tuple[Any, ...]],
) -> Array:
    """The gradient in all dimensions at once, of channels that are neighbours in memory."""
    dx = new_dense(shape, grad.dtype, dense_order(grad))
    numbered = [(d, f"at_x{1 + d}", f"coord({2 + d})") for d in range(grad.ndim - 2)]
    lines = [f"int begin{d} = {at}({c}), end{d} = {at}({c} + 1);" for d, at, c in numbered]
    loops = [f"for (int o{d} = begin{d}; o{d} < end{d}; ++o{d})" for d, _, _ in numbered]
    places = ", ".join(f"o{d}" for d, _, _ in numbered)
    add = f"sum += at_x0(coord(0), coord(1), {places});"
    text = "\n".join([*lines, "typeof_x0 sum = 0;", *loops, add, "y0 = sum;"])
    lengths = [
        starts(grad.swapaxes(1, axis), dx.swapaxes(1, axis), scale)[0]
        for axis, scale in enumerate(scales, 2)
    ]
    found: Array = kernel(text, what, grad.dtype)(grad, *lengths, shape=shape, out=dx)
    return found


def _starts(kind: str, corners: bool, grad: Any, dx: Any, scale: float) -> tuple[Any, ...]:
    """Where along dimension 1 those begin that lie at each element or behind it, and the end.

    These, and their weights where they have any.
    """
    element = nearest(kind, "middle", "w1", "w0")
    if not kind.startswith("nearest"):
        at = position("middle", "w0", corners)
        element = f"clamp((int)floor({at}), 0, (int)w1 - 1)"
    text = lower_bound("w2", element, "coord(0)") + "y0 = low;"
    number = np.dtype(np.float64 if grad.dtype == np.float64 else np.float32).type(scale)
    sizes = np.int32(dx.shape[1]), np.int32(grad.shape[1])
    ends = (dx.shape[1] + 1,)
    starts = kernel(text, "interpolate_starts", _INT32)(number, *sizes, shape=ends)
    if kind.startswith("nearest"):
        return (starts,)
    most = math.ceil(2 * RADIUS[kind] / scale) + 3 if scale else grad.shape[1]
    shape = (dx.shape[1], min(most, grad.shape[1]))
    weights = kernel(_weights(kind, corners), "interpolate_weights", number.dtype)
    return starts, weights(starts, number, shape=shape)


def _weights(kind: str, corners: bool) -> str:
    """How much an element of dx, coordinate 0, counts for each of the results near it."""
    radius = RADIUS[kind]
    found = taps(kind, 0, "o0", "n0", "w0", corners)
    terms = [f"(here0 == {p} ? {v} : 0)" for p, v in zip(found.places, found.weights, strict=True)]
    return "\n".join(
        [
            "int n0 = size(0), here0 = coord(0);",
            f"int o0 = at_x0(max(here0 - {radius}, 0)) + (int)coord(1);",
            *found.lines,
            f"y0 = o0 < at_x0(min(here0 + {radius}, n0)) ? {' + '.join(terms)} : 0;",
        ]
    )


def _backward(kind: str) -> str:
    """The gradient along dimension 1 of 3: an element looks at the results near it."""
    radius = RADIUS[kind]
    return f"""
        int here = coord(1), begin = at_x1(max(here - {radius}, 0));
        int end = at_x1(min(here + {radius}, (int)size(1)));
        typeof_x0 sum = 0;
        for (int o = begin; o < end; ++o)
            sum += at_x2(here, o - begin) * at_x0(coord(0), o, coord(2));
        y0 = sum;"""
