"""Images in another size, and at places of their own."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.onnx.table import handler


def _floats(value: Any) -> list[float] | None:
    return None if value is None or not value.size else [float(v) for v in value.reshape(-1)]


@handler("Resize", host=(1, 2, 3))
def _resize(context: Any, attributes: Any, x: Any, *given: Any) -> Any:
    if context.version < 11:
        return _scaled(attributes, x, _floats(given[0]))
    roi, scales, sizes = (_floats(v) for v in (*given, None, None, None)[:3])
    size = None if sizes is None or scales is not None else [int(n) for n in sizes]
    return ops.resize(
        x, size, scales, attributes.get("mode", "nearest"),
        dim=attributes.get("axes") or None,
        coordinates=attributes.get("coordinate_transformation_mode", "half_pixel"),
        rounding=attributes.get("nearest_mode", "round_prefer_floor"),
        cubic_coeff=float(attributes.get("cubic_coeff_a", -0.75)),
        antialias=bool(attributes.get("antialias")),
        exclude_outside=bool(attributes.get("exclude_outside")),
        crop=roi, outside=attributes.get("extrapolation_value", 0.0),
        aspect=attributes.get("keep_aspect_ratio_policy", "stretch"),
    )  # fmt: skip


@handler("Upsample", host=(1,))
def _upsample(context: Any, attributes: Any, x: Any, scales: Any = None) -> Any:
    factors = attributes.get("scales") if scales is None else _floats(scales)
    if factors is None:
        factors = [1.0, 1.0, attributes["height_scale"], attributes["width_scale"]]
    return _scaled(attributes, x, factors)


def _scaled(attributes: Any, x: Any, factors: Any) -> Any:
    mode = {"bilinear": "linear"}.get(attributes["mode"], attributes["mode"])
    return ops.resize(x, None, factors, mode, coordinates="asymmetric", rounding="floor")


@handler("GridSample")
def _grid_sample(context: Any, attributes: Any, x: Any, grid: Any) -> Any:
    kind = {"linear": "bilinear", "cubic": "bicubic"}.get(attributes["mode"], attributes["mode"])
    corners, border = bool(attributes["align_corners"]), attributes["padding_mode"]
    return ops.grid_sample(x, grid, kind, border, corners)


@handler("AffineGrid", host=(1,))
def _affine_grid(context: Any, attributes: Any, theta: Any, size: Any) -> Any:
    return ops.affine_grid(theta, tuple(int(n) for n in size), bool(attributes["align_corners"]))
