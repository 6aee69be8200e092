"""Tiles of the depthwise kernels: the numbers that a table of a device may hold of each.

Which fit is checked where the kernel is planned, since that depends on what is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "TILES",
    "ChannelsTile",
    "DepthwiseTile",
    "FlatTile",
    "GradientChannelsTile",
    "GradientLanesTile",
    "GradientPlanesTile",
    "GradientWindowsTile",
    "LanesTile",
    "PlanesTile",
    "RunsTile",
    "WindowsTile",
]


@dataclass(frozen=True)
class ChannelsTile:
    """Of depthwise_channels.

    Attributes:
        rows, columns: Outputs that are summed up in registers, a vector of channels of each.
        vectors: Vectors of channels that take turns at a place, before the next place.
        items: Work-items a compute unit: more of them are balanced better, and read the rows that
            windows share more often.
    """

    rows: int
    columns: int
    vectors: int
    items: int


@dataclass(frozen=True)
class FlatTile:
    """Of depthwise_flat.

    Attributes:
        items: Work-items a compute unit.
    """

    items: int


@dataclass(frozen=True)
class RunsTile:
    """Of depthwise_runs.

    Attributes:
        band: Rows of the result whose input is in local memory at a time.
        items: Work-items a compute unit.
    """

    band: int
    items: int


@dataclass(frozen=True)
class PlanesTile:
    """Of depthwise_planes.

    Attributes:
        rows: That are summed up in registers at once.
        band: Rows of the result whose input is in local memory at a time.
        items: Work-items a compute unit.
    """

    rows: int
    band: int
    items: int


@dataclass(frozen=True)
class WindowsTile:
    """Of depthwise_windows.

    Attributes:
        rows, columns: Outputs that are summed up in registers.
        group: Work-items of a work-group, at most.
    """

    rows: int
    columns: int
    group: int


@dataclass(frozen=True)
class LanesTile:
    """Of depthwise_lanes.

    Attributes:
        outputs: Of a work-item; each tap is read once for all of them.
        group: Work-items of a work-group, at most.
    """

    outputs: int
    group: int


@dataclass(frozen=True)
class GradientChannelsTile:
    """Of depthwise_weight_channels.

    Attributes:
        columns: Of the gradient that share the vectors of x below them.
        vectors: Vectors of channels that take turns at a place; local memory keeps their sums.
        items: Work-items a compute unit; each has splits of its own.
    """

    columns: int
    vectors: int
    items: int


@dataclass(frozen=True)
class GradientPlanesTile:
    """Of depthwise_weight_planes.

    Attributes:
        band: Rows of the gradient below which x is in local memory at a time.
        items: Work-items a compute unit; each has splits of its own.
    """

    band: int
    items: int


@dataclass(frozen=True)
class GradientWindowsTile:
    """Of depthwise_weight_windows.

    Attributes:
        rows, columns: Of the gradient, that meet the elements of x below them at once.
        split: Rows of such tiles that are a split.
        group: Work-items of a work-group, at most.
    """

    rows: int
    columns: int
    split: int
    group: int


@dataclass(frozen=True)
class GradientLanesTile:
    """Of depthwise_weight_lanes.

    Attributes:
        rows: Of the gradient that are a split.
        group: Work-items of a work-group, at most.
    """

    rows: int
    group: int


DepthwiseTile = (
    ChannelsTile
    | FlatTile
    | RunsTile
    | PlanesTile
    | WindowsTile
    | LanesTile
    | GradientChannelsTile
    | GradientPlanesTile
    | GradientWindowsTile
    | GradientLanesTile
)

#: By the kernel.
TILES: dict[str, type[DepthwiseTile]] = {
    "depthwise/channels": ChannelsTile,
    "depthwise/flat": FlatTile,
    "depthwise/runs": RunsTile,
    "depthwise/planes": PlanesTile,
    "depthwise/windows": WindowsTile,
    "depthwise/lanes": LanesTile,
    "depthwise/weight/channels": GradientChannelsTile,
    "depthwise/weight/planes": GradientPlanesTile,
    "depthwise/weight/windows": GradientWindowsTile,
    "depthwise/weight/lanes": GradientLanesTile,
}
