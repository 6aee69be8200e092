"""Images in another size: a table of positions and weights an axis, one string over them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from clprim import ops
from clprim.errors import DefinitionError, ShapeError
from clprim.onnx.host import require_size
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import uploaded

_Table = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


@handler("Resize", host=(1, 2, 3))
def _resize(context: Any, attributes: Any, x: Any, *given: Any) -> Any:
    if context.version < 11:
        told = {**attributes, "nearest_mode": "floor"}
        return resized(x, told, "asymmetric", _floats(given[0]))
    roi, scales, sizes = (*given, None, None, None)[:3]
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    return resized(x, attributes, mode, _floats(scales), _floats(sizes), _floats(roi))


@handler("Upsample", host=(1,))
def _upsample(context: Any, attributes: Any, x: Any, scales: Any = None) -> Any:
    factors = attributes.get("scales") if scales is None else _floats(scales)
    if factors is None:
        factors = [1.0, 1.0, attributes["height_scale"], attributes["width_scale"]]
    return resized(x, {**attributes, "nearest_mode": "floor"}, "asymmetric", factors)


def _floats(value: Any) -> list[float] | None:
    return None if value is None or not value.size else [float(v) for v in value.reshape(-1)]


def resized(
    x: Any,
    attributes: Any,
    mode: str,
    scales: list[float] | None,
    sizes: list[float] | None = None,
    roi: list[float] | None = None,
) -> Any:
    """Returns an array in another size.

    Args:
        x: The array.
        attributes: As Resize has them.
        mode: From a place of the result to one of the array.
        scales: For each of the axes, or
        sizes: likewise.
        roi: Starts of the axes, then ends, where the mode wants them.

    Raises:
        ShapeError: Neither scales nor sizes, or not one for each axis.
    """
    axes = [a % x.ndim for a in attributes.get("axes") or range(x.ndim)]
    given = scales if scales is not None else sizes
    if given is None or len(given) != len(axes):
        raise ShapeError(f"Resize of shape {x.shape}: {scales=}, {sizes=}")
    if sizes is not None and scales is None:
        factors = [s / x.shape[a] for s, a in zip(sizes, axes, strict=True)]
        policy = attributes.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(axes)
            sizes = [math.floor(factor * x.shape[a] + 0.5) for a in axes]
    else:
        factors = list(given)
        sizes = [math.floor(f * x.shape[a]) for f, a in zip(factors, axes, strict=True)]
    shape, tables = list(x.shape), []
    for k, (axis, factor, size) in enumerate(zip(axes, factors, sizes, strict=True)):
        shape[axis] = int(size)
        ends = (roi[k], roi[k + len(axes)]) if roi and mode == "tf_crop_and_resize" else None
        if factor == 1 and size == x.shape[axis] and not ends:
            continue
        told = (
            attributes.get("mode", "nearest"), mode,
            attributes.get("nearest_mode", "round_prefer_floor"),
            float(attributes.get("cubic_coeff_a", -0.75)), bool(attributes.get("exclude_outside")),
            bool(attributes.get("antialias")),
        )  # fmt: skip
        tables.append((axis, *_table(x.shape[axis], int(size), factor, ends, told)))
    shape = list(require_size(shape))
    if not tables or 0 in shape:
        return x if not tables else string("y0 = 0;", x.dtype, shape=tuple(shape))
    return _mixed(x, tables, tuple(shape), attributes.get("extrapolation_value", 0.0))


def _mixed(x: Any, tables: list[Any], shape: tuple[int, ...], outside: float) -> Any:
    arrays, loops, weights, inside = list[Any](), list[str](), list[str](), list[str]()
    where: dict[int, str] = {}
    weighted = any(t[1].shape[1] > 1 for t in tables)
    for k, (axis, places, factors, valid) in enumerate(tables):
        n = 1 + len(arrays)
        taps = places.shape[1]
        arrays.append(uploaded(places))
        if weighted:
            arrays.append(uploaded(factors))
        here = f"coord({axis}), t{k}"
        loops.append(f"for (int t{k} = 0; t{k} < {taps}; ++t{k}) {{")
        where[axis] = f"at_x{n}({here})"
        weights.append(f"at_x{n + 1}({here})")
        if not valid.all():
            inside.append(f"at_x{len(arrays) + 1}(coord({axis}))")
            arrays.append(uploaded(valid.astype(np.uint8)))
    element = f"at_x0({', '.join(where.get(d, f'coord({d})') for d in range(x.ndim))})"
    if not weighted:
        text = (
            f"{' '.join(f'int t{k} = 0;' for k in range(len(tables)))} typeof_x0 sum = {element};"
        )
    else:
        step = f"sum += {' * '.join(weights)} * {element};"
        text = f"typeof_x1f sum = 0; {' '.join(loops)} {step} {'}' * len(tables)}"
        text = text.replace("typeof_x1f", "double" if x.dtype == np.float64 else "float")
    if inside:
        text += f" if (!({' && '.join(inside)})) sum = w0;"
        return string(f"{text} y0 = sum;", x.dtype, x, *arrays, outside, shape=shape)
    return string(f"{text} y0 = sum;", x.dtype, x, *arrays, shape=shape)


@lru_cache(maxsize=256)
def _table(
    n: int, size: int, scale: float, ends: tuple[float, float] | None, told: tuple[Any, ...]
) -> _Table:
    """Returns positions (size, taps), weights likewise, and which results lie inside."""
    kind, mode, nearest, a, exclude, antialias = told
    x = np.arange(size, dtype=np.float64)
    width = scale * n
    at = _positions(mode, x, n, size, scale, width, ends)
    valid = np.ones(size, np.bool_)
    if mode == "tf_crop_and_resize":
        valid = (at >= 0) & (at <= n - 1)
    if kind == "nearest":
        of: dict[str, Any] = {"round_prefer_floor": lambda v: np.ceil(v - 0.5), "floor": np.floor,
              "round_prefer_ceil": lambda v: np.floor(v + 0.5), "ceil": np.ceil}  # fmt: skip
        places = of[nearest](at)[:, None]
        weights = np.ones_like(places)
    else:
        low = np.where(at == np.floor(at), at - 1, np.floor(at))
        ratio = (at - low)[:, None]
        reach = {"linear": 1, "cubic": 2}.get(kind)
        if reach is None:
            raise DefinitionError(f"Resize: mode={kind!r} is unknown")
        small = min(scale, 1.0) if antialias else 1.0
        start = math.floor(-reach / small) + 1
        steps = np.arange(start, 2 - start)
        distance = np.abs(steps - ratio) * small
        weights = np.clip(1 - distance, 0, 1) if reach == 1 else _cubic(distance, a)
        if antialias:
            weights = weights / weights.sum(1, keepdims=True)
        places = low[:, None] + steps
    if exclude:
        weights = np.where((places < 0) | (places >= n), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    places = np.clip(places, 0, max(n - 1, 0)).astype(np.int32)
    return places, weights.astype(np.float32), valid


def _positions(
    mode: str, x: Any, n: int, size: int, scale: float, width: float, ends: Any
) -> np.ndarray[Any, Any]:
    """Returns the place in the array of each place x of the result."""
    match mode:
        case "align_corners":
            return np.zeros_like(x) if width == 1 else x * (n - 1) / (width - 1)
        case "asymmetric":
            return np.asarray(x / scale)
        case "tf_crop_and_resize":
            first, last = ends or (0.0, 1.0)
            if width == 1:
                return np.asarray(x * 0 + (first + last) * (n - 1) / 2)
            return np.asarray(first * (n - 1) + x * (last - first) * (n - 1) / (width - 1))
        case "pytorch_half_pixel" if width == 1:
            return np.full_like(x, -0.5)
        case "half_pixel_symmetric":
            offset = n / 2 * (1 - size / width)
            return np.asarray(offset + (x + 0.5) / scale - 0.5)
        case "tf_half_pixel_for_nn":
            return np.asarray((x + 0.5) / scale)
        case "half_pixel" | "pytorch_half_pixel":
            return np.asarray((x + 0.5) / scale - 0.5)
    raise DefinitionError(f"Resize: coordinate_transformation_mode={mode!r} is unknown")


def _cubic(d: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    """Keys' kernel."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


@handler("GridSample")
def _grid_sample(context: Any, attributes: Any, x: Any, grid: Any) -> Any:
    kind = {"linear": "bilinear", "cubic": "bicubic"}.get(attributes["mode"], attributes["mode"])
    corners, border = bool(attributes["align_corners"]), attributes["padding_mode"]
    return ops.grid_sample(x, grid, kind, border, corners)


@handler("AffineGrid", host=(1,))
def _affine_grid(context: Any, attributes: Any, theta: Any, size: Any) -> Any:
    return ops.affine_grid(theta, tuple(int(n) for n in size), bool(attributes["align_corners"]))
