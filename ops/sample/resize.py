"""Arrays in another size, by every rule that ONNX knows: a table of positions a dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.shared.checks import dtype_of, real
from clprim.ops.shared.dims import several_dims
from clprim.ops.shared.ranks import of_rank
from clprim.ops.shared.strings import kernel, places

if TYPE_CHECKING:
    from typing_extensions import Unpack

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: From a place of the result to one of the array.
COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
#: From a place between elements to one of them.
ROUNDINGS: dict[str, Any] = {
    "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
#: Elements on each side that a result takes.
REACH = {"nearest": 0, "linear": 1, "cubic": 2}


_POLICIES = ("stretch", "not_larger", "not_smaller")


class Rules(TypedDict, total=False):
    """Options of places and weights."""

    coordinates: str
    rounding: str
    cubic_coeff: float
    antialias: bool
    exclude_outside: bool
    crop: Sequence[float] | None
    outside: float
    aspect: str


_USUAL = {
    "coordinates": "half_pixel", "rounding": "round_prefer_floor", "cubic_coeff": -0.75,
    "antialias": False, "exclude_outside": False, "crop": None, "outside": 0.0,
    "aspect": "stretch",
}  # fmt: skip


def _resize(
    what: str,
    x: Any,
    size: Sequence[int] | None = None,
    scale_factor: Sequence[float] | None = None,
    mode: str = "linear",
    *,
    dim: int | Sequence[int] | None = None,
    **rules: Unpack[Rules],
) -> Array:
    """Returns an array in another size, along any dimensions.

    `interpolate` is the same for images and PyTorch's rules.

    Args:
        x: A device array.
        size: Sizes of the result along ``dim``, or
        scale_factor: factors, whose products with x's sizes are rounded down.
        mode: ``nearest``, ``linear`` or ``cubic``.
        dim: The dimensions; all by default.
        coordinates: From a place p of the result to one of x: ``half_pixel`` is
            (p + 0.5) / factor - 0.5, and of odd sizes ``half_pixel_symmetric`` keeps the centre;
            ``pytorch_half_pixel`` takes the first element where one is left; ``align_corners``
            takes the first to the first and the last to the last; ``asymmetric`` is p / factor,
            ``tf_half_pixel_for_nn`` (p + 0.5) / factor; ``tf_crop_and_resize`` resizes ``crop``.
        rounding: Of ``nearest``: ``round_prefer_floor``, ``round_prefer_ceil``, ``floor`` or
            ``ceil``.
        cubic_coeff: Of ``cubic``, a in Keys' kernel.
        antialias: Whether linear and cubic weights get wider where the result is smaller.
        exclude_outside: Whether what lies outside of x has no weight; else the edge goes on.
        crop: Starts of all dimensions, then ends, 0 to 1.
        outside: What results outside of x are, of ``tf_crop_and_resize``.
        aspect: Of ``size``: ``stretch``, or one factor for all, so that the result is
            ``not_larger`` or ``not_smaller``.

    Raises:
        ShapeError: Neither sizes nor factors, or not one for each dimension.
        DefinitionError: Words that are unknown.
        DTypeError: No device array.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[0, 4]]))
        >>> ops.resize(x, (1, 4)).get()
        array([[0., 1., 3., 4.]], dtype=float32)
    """
    dtype = dtype_of(what, "x", x)
    coordinates, crop, aspect = rules["coordinates"], rules["crop"], rules["aspect"]
    known = {"mode": (mode, REACH), "coordinates": (coordinates, COORDINATES),
             "rounding": (rules["rounding"], ROUNDINGS), "aspect": (aspect, _POLICIES)}  # fmt: skip
    for label, (word, words) in known.items():
        if word not in words:
            raise DefinitionError(f"{what}: {label}={quoted(word)}: expected one of {[*words]}")
    axes = several_dims(what, x.ndim, range(x.ndim) if dim is None else dim)
    factors, sizes = _factors(what, x, axes, size, scale_factor, aspect)
    if crop is not None and len(crop) != 2 * len(axes):
        raise ShapeError(f"{what}: crop={quoted(crop)}: expected 2 numbers for each of {axes}")
    edge = real(what, "cubic_coeff", rules["cubic_coeff"])
    flags = rules["exclude_outside"], rules["antialias"]
    rule = Rule(mode, coordinates, rules["rounding"], edge, *flags)
    shape, tables = list(x.shape), []
    for k, (axis, factor, count) in enumerate(zip(axes, factors, sizes, strict=True)):
        shape[axis] = count
        cropped = crop is not None and coordinates == "tf_crop_and_resize"
        ends = (float(crop[k]), float(crop[k + len(axes)])) if crop and cropped else None
        if factor != 1 or count != x.shape[axis] or ends:
            tables.append((axis, *table(x.shape[axis], count, factor, ends, rule)))
    if math.prod(shape) and not x.size:
        raise ShapeError(f"{what}: x of shape {x.shape} has no elements")
    if not tables or not math.prod(shape):
        return kernel("y0 = x0;" if not tables else "y0 = 0;", what, dtype)(
            *([] if tables else [x]), shape=tuple(shape)
        )
    return _mixed(what, x, tables, tuple(shape), real(what, "outside", rules["outside"]))


resize = of_rank(_resize, "resize", usual=_USUAL, sample="x, (8, 8), dim=(2, 3)")


def _factors(
    what: str, x: Any, axes: Sequence[int], size: Any, scale_factor: Any, aspect: str
) -> tuple[list[float], list[int]]:
    given = size if scale_factor is None else scale_factor
    whole = given is not None and (size is None) != (scale_factor is None)
    if not whole or len(given) != len(axes) or any(not n >= 0 for n in given):
        raise ShapeError(
            f"{what}: size={quoted(size)}, scale_factor={quoted(scale_factor)}: expected one of "
            f"them, a number for each of {len(axes)} dimensions"
        )
    have = [x.shape[axis] for axis in axes]
    if scale_factor is not None:
        factors = [real(what, "scale_factor", f) for f in scale_factor]
        return factors, [math.floor(f * n) for f, n in zip(factors, have, strict=True)]
    sizes = [int(n) for n in given]
    factors = [m / max(n, 1) for m, n in zip(sizes, have, strict=True)]
    if aspect != "stretch":
        factor = min(factors) if aspect == "not_larger" else max(factors)
        factors = [factor] * len(axes)
        sizes = [math.floor(factor * n + 0.5) for n in have]
    return factors, sizes


def _mixed(what: str, x: Any, tables: list[Any], shape: tuple[int, ...], outside: float) -> Array:
    """One kernel over all dimensions."""
    arrays, loops, weights, inside = list[Any](), list[str](), list[str](), list[str]()
    where: dict[int, str] = {}
    weighted = any(t[1].shape[1] > 1 for t in tables)
    for k, (axis, positions, factors, valid) in enumerate(tables):
        n = 1 + len(arrays)
        here = f"coord({axis}), t{k}"
        arrays += [asarray(positions), asarray(factors)] if weighted else [asarray(positions)]
        loops.append(f"for (int t{k} = 0; t{k} < {positions.shape[1]}; ++t{k}) {{")
        where[axis] = f"at_x{n}({here})"
        weights.append(f"at_x{n + 1}({here})")
        if not valid.all():
            inside.append(f"at_x{len(arrays) + 1}(coord({axis}))")
            arrays.append(asarray(valid.astype(np.uint8)))
    element = f"at_x0({places(x.ndim, where)})"
    if weighted:
        step = f"sum += {' * '.join(weights)} * {element};"
        kind = "double" if x.dtype == np.float64 else "float"
        text = f"{kind} sum = 0; {' '.join(loops)} {step} {'}' * len(tables)}"
    else:
        starts = " ".join(f"int t{k} = 0;" for k in range(len(tables)))
        text = f"{starts} typeof_x0 sum = {element};"
    numbers = [outside] if inside else []
    if inside:
        text += f" if (!({' && '.join(inside)})) sum = w0;"
    return kernel(f"{text} y0 = sum;", what, x.dtype)(x, *arrays, *numbers, shape=shape)


# --- where elements come from, by NumPy -----------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How a dimension is resized; names are those of `clprim.ops.resize`."""

    mode: str
    coordinates: str
    rounding: str
    cubic_coeff: float
    exclude_outside: bool
    antialias: bool


@lru_cache(maxsize=256)
def table(
    n: int, size: int, scale: float, crop: tuple[float, float] | None, rule: Rule
) -> tuple[Any, Any, Any]:
    """Returns positions (size, taps), weights likewise, and which results lie inside."""
    at = _positions(rule.coordinates, np.arange(size, dtype=np.float64), n, size, scale, crop)
    inside = np.ones(size, np.bool_)
    if rule.coordinates == "tf_crop_and_resize":
        inside = (at >= 0) & (at <= n - 1)
    reach = REACH[rule.mode]
    if not reach:
        places = ROUNDINGS[rule.rounding](at)[:, None]
        weights = np.ones_like(places)
    else:
        low = np.where(at == np.floor(at), at - 1, np.floor(at))
        small = min(scale, 1.0) if rule.antialias else 1.0
        start = math.floor(-reach / small) + 1
        steps = np.arange(start, 2 - start)
        distance = np.abs(steps - (at - low)[:, None]) * small
        cubic = rule.mode == "cubic"
        weights = _cubic(distance, rule.cubic_coeff) if cubic else np.clip(1 - distance, 0, 1)
        if rule.antialias:
            weights = weights / weights.sum(1, keepdims=True)
        places = low[:, None] + steps
    if rule.exclude_outside:
        weights = np.where((places < 0) | (places >= n), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    places = np.clip(places, 0, max(n - 1, 0)).astype(np.int32)
    return places, weights.astype(np.float32), inside


def _positions(
    coordinates: str, x: Floats, n: int, size: int, scale: float, crop: Any
) -> Floats:  # fmt: skip
    """Returns the place in the array of each place x of the result."""
    width = scale * n
    match coordinates:
        case "align_corners":
            return np.zeros_like(x) if width == 1 else x * (n - 1) / (width - 1)
        case "asymmetric":
            return np.asarray(x / scale)
        case "tf_crop_and_resize":
            first, last = crop or (0.0, 1.0)
            if width == 1:
                return np.asarray(x * 0 + (first + last) * (n - 1) / 2)
            return np.asarray(first * (n - 1) + x * (last - first) * (n - 1) / (width - 1))
        case "pytorch_half_pixel" if width == 1:
            return np.full_like(x, -0.5)
        case "half_pixel_symmetric":
            return np.asarray(n / 2 * (1 - size / width) + (x + 0.5) / scale - 0.5)
        case "tf_half_pixel_for_nn":
            return np.asarray((x + 0.5) / scale)
        case _:
            return np.asarray((x + 0.5) / scale - 0.5)


def _cubic(d: Floats, a: float) -> Floats:
    """Keys' kernel."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
