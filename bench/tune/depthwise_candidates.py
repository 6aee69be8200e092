"""Which kernels and tiles of depthwise convolutions are worth a try."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import astuple, replace

from clprim.plan.depthwise.planner import depthwise_tiles
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.tile import (
    ChannelsTile,
    DepthwiseTile,
    FlatTile,
    GradientChannelsTile,
    GradientLanesTile,
    GradientPlanesTile,
    GradientWindowsTile,
    LanesTile,
    PlanesTile,
    RunsTile,
    WindowsTile,
)
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.product.strategy import plan_choice
from clprim.plan.table import Choice
from clprim.traits import DeviceTraits

__all__ = ["depthwise_candidates"]

_ANY_STRIDES = WindowsTile | LanesTile | GradientWindowsTile | GradientLanesTile
# Work-items a compute unit.
_ITEMS = (1, 2, 4, 8, 16)
# Tiles of channels, rows × columns.
_SHAPES = ((1, 7), (1, 8), (1, 14), (2, 4), (2, 7), (2, 8), (4, 4))


def depthwise_candidates(what: Depthwise | DepthwiseGradient, traits: DeviceTraits) -> list[Choice]:
    """Returns the rule's choice, then its kernel's other tiles, then other kernels.

    Args:
        what: The convolution, or a gradient.
        traits: Of the device.
    """
    found: dict[Choice, None] = {}
    for n, (kernel, rule) in enumerate(depthwise_tiles(what, traits).items()):
        # What reads any strides is no match for what knows that vectors are there, or windows.
        if n and isinstance(rule, _ANY_STRIDES):
            continue
        for tile in itertools.chain([rule], _near(rule) if n == 0 else ()):
            found.setdefault(Choice(kernel, astuple(tile)))
    return [c for c in found if plan_choice(what, traits, c) is not None]


def _near(rule: DepthwiseTile) -> Iterator[DepthwiseTile]:
    """Yields tiles beside the rule's: those that differ in what is compiled, then in loops."""
    match rule:
        case ChannelsTile():
            for rows, columns in _SHAPES:
                yield replace(rule, rows=rows, columns=columns)
            for vectors in _around(rule.vectors):
                yield replace(rule, vectors=vectors)
        case RunsTile() | GradientPlanesTile():
            for band in _around(rule.band):
                yield replace(rule, band=band)
        case PlanesTile():
            for rows in (1, 2, 4, 8):
                yield replace(rule, rows=rows, band=-(-rule.band // rows) * rows)
            for band in _around(rule.band // rule.rows):
                yield replace(rule, band=band * rule.rows)
        case WindowsTile():
            shapes = itertools.product((1, 2, 3, 4, 6, 8), (1, 2, 3, 4))
            for (rows, columns), group in itertools.product(shapes, (64, 128, 256)):
                yield WindowsTile(rows, columns, group)
        case LanesTile():
            for outputs, group in itertools.product((1, 2, 4, 8), (64, 128, 256)):
                yield LanesTile(outputs, group)
        case GradientChannelsTile():
            for columns in (4, 7, 8, 14):
                yield replace(rule, columns=columns)
            for vectors in _around(rule.vectors):
                yield replace(rule, vectors=vectors)
        case GradientWindowsTile():
            for rows, columns in itertools.product((1, 2, 4), (1, 2, 4)):
                split = max(1, rule.split * rule.rows // rows)
                yield replace(rule, rows=rows, columns=columns, split=split)
            for split, group in itertools.product(_around(rule.split), (32, 64, 128)):
                yield replace(rule, split=split, group=group)
        case GradientLanesTile():
            for rows, group in itertools.product(_around(rule.rows), (32, 64, 128)):
                yield GradientLanesTile(rows, group)
        case FlatTile():
            pass
    if not isinstance(rule, _ANY_STRIDES):
        for items in _ITEMS:
            yield replace(rule, items=items)


def _around(number: int) -> Iterable[int]:
    return sorted({1, max(1, number // 2), number, 2 * number})
