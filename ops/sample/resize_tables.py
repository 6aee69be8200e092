"""Where the elements of a resized dimension come from: positions and weights, by NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

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
