"""The strategy of the gradient in the weight by vectors of columns, on CPUs.

depthwise/weight/planes.cl.jinja draws it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clprim.plan.conv.dense import CPU, dense_depthwise
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.code import (
    NEEDS,
    BandTile,
    near_bands,
    on_cpus,
    spread_rows,
    unrolls,
)
from clprim.plan.depthwise.weight.code import (
    DepthwiseGradient,
    gradient_arguments,
    gradient_code,
    gradient_plan,
)
from clprim.plan.depthwise.weight.unrolled import UnrolledGradientCode
from clprim.plan.kernel import Plan, round_up
from clprim.plan.machine import CHAIN, ITEMS, near, scratch
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class GradientPlanesCode(UnrolledGradientCode):
    """What depthwise/weight/planes.cl.jinja prints."""

    source: int  # Elements of local memory for rows of x


def gradient_planes_applicable(what: DepthwiseGradient, traits: DeviceTraits) -> bool:
    """Whether vectors of columns are there, and taps that can be unrolled."""
    together = what.x.column == 1 and what.grad.column == 1 and what.rows.before >= 0
    together = together and what.columns.before >= 0 and traits.lanes(what.value.itemsize) > 1
    return together and unrolls(what.rows, what.columns) and _band(what, traits) > 0


def gradient_planes_tile(what: DepthwiseGradient, traits: DeviceTraits) -> BandTile:
    """Returns the rule's tile."""
    return BandTile(_band(what, traits), ITEMS)


def fits_gradient_planes(tile: BandTile, what: DepthwiseGradient, traits: DeviceTraits) -> bool:
    """Whether local memory holds x below a tile's band."""
    return _copied(what, traits, tile.band) <= _source(what, traits)


def plan_gradient_planes(what: DepthwiseGradient, traits: DeviceTraits, tile: BandTile) -> Plan:
    """Plans the kernels of an applicable gradient, see `gradient_planes_applicable`."""
    width = traits.lanes(what.value.itemsize)
    h, v = what.rows, what.columns
    planes = what.images * what.channels
    wanted = tile.items * traits.compute_units
    a_split = spread_rows(planes, h.outputs, 1, wanted)
    a_split = max(1, min(a_split, CHAIN * width // v.outputs))
    bands = -(-h.outputs // a_split)
    a_band = min(a_split, tile.band)
    planes_a_item = max(1, planes // wanted)
    pitch = _pitch(what, width)

    def at(column: int) -> int:
        place, phase = divmod(column + v.before, v.stride)
        return phase * pitch + place

    found = gradient_arguments(what)
    found.numbers(
        multiplier=what.multiplier,
        planes=planes,
        planes_a_item=planes_a_item,
        bands=bands,
        rows_a_split=a_split,
        rows_a_band=a_band,
        x_size=what.x.end(what.images, what.channels // what.multiplier, h.inputs, v.inputs),
        grad_size=what.grad.end(what.images, what.channels, h.outputs, v.outputs),
        pitch=pitch,
        source_used=_copied(what, traits, a_band),
        even_at=at(0),
        odd_at=at(1),
    )
    code = GradientPlanesCode(
        **gradient_code(what, found, "column"),
        width=width,
        kernel=(h.kernel, v.kernel),
        stride=(h.stride, v.stride),
        source=_source(what, traits),
    )
    size = (-(-planes // planes_a_item), bands, 1)
    return gradient_plan(
        what,
        "depthwise/weight/planes",
        code,
        found,
        size,
        (1, 1, 1),
        what.images * bands,
        traits,
    )


def _pitch(what: DepthwiseGradient, width: int) -> int:
    """Elements from one row of the copy to the next, of one phase of the stride."""
    v = what.columns
    copied = -(-(v.before + v.inputs) // v.stride)
    read = round_up(v.outputs, width) + (v.reach - 1) // v.stride + 1
    return round_up(max(copied, read) + width, width)


def _source(what: DepthwiseGradient, traits: DeviceTraits) -> int:
    return scratch(traits) // what.value.itemsize


def _source_rows(what: DepthwiseGradient, rows: int) -> int:
    return (rows - 1) * what.rows.stride + what.rows.kernel


def _copied(what: DepthwiseGradient, traits: DeviceTraits, rows: int) -> int:
    """Elements of local memory for x below some rows."""
    width = traits.lanes(what.value.itemsize)
    return _source_rows(what, rows) * what.columns.stride * _pitch(what, width) + width


def _band(what: DepthwiseGradient, traits: DeviceTraits) -> int:
    """Returns how many rows fit local memory; 0 where none does."""
    rows = 0
    while rows < what.rows.outputs:
        used = _copied(what, traits, rows + 1)
        if used > _source(what, traits):
            break
        stays = used * what.value.itemsize <= near(traits)
        if rows >= 4 * (what.rows.kernel - 1) and rows and not stays:
            break
        rows += 1
    return rows


def _examples() -> Iterator[Example[Convolution]]:
    yield Example("", dense_depthwise(2, 32, 14, direction="weight"), CPU)


GRADIENT_PLANES: Strategy[DepthwiseGradient] = Strategy(
    "depthwise/weight/planes",
    BandTile,
    applicable=gradient_planes_applicable,
    rule=gradient_planes_tile,
    plan=plan_gradient_planes,
    fits=fits_gradient_planes,
    near=near_bands,
    examples=_examples,
    needs=NEEDS,
    preferred=on_cpus,
)
