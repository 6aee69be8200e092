"""Contractions of the CPU strategy whose rows are read where they lie, without gathering them.

That is possible where rows of one line follow each other in equal steps and their elements along
depth are neighbours: windows of channels-last images, and matrices. Where windows leave the image,
or elements must be converted, the lines that a work-group needs are copied once to local memory;
every element then is copied about once, and not once for each window it is in.

A plan is made in this order, and may be given up at each of the first two:

    reading   what lanes become in a tile, and the loops over depth     reading.py
    tile      rows and vectors: of all readings' what costs least       outline.py
    cut       the tiles of a work-group                                 cut.py
    packing   whether the other operand is packed first
    prefetch  what is prefetched meanwhile
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.machine import STEPS_AHEAD
from clprim.plan.product.cut import WorkGroupCut, lane_prefetch, row_prefetch, strip_prefetch
from clprim.plan.product.outline import FAR, Outline, best_outline
from clprim.plan.product.pack import pack_plan, passes_in_place
from clprim.plan.product.problem import Contraction, moved_bytes, result_bytes
from clprim.plan.product.prologue import with_prologue
from clprim.plan.product.reading import Reading, is_short, pixel_steps, taps_last
from clprim.plan.product.register_code import (
    ContractionCode,
    contraction_code,
    parameters_of,
    streaming_stores,
)
from clprim.plan.product.register_tile import PANEL_BYTES, Tile, ends, lanes_of
from clprim.plan.product.shape import Shape
from clprim.plan.strategy import Weighed
from clprim.traits import DeviceTraits

# A few vectors a step, a tile's may be prefetched up to so many times; else all of them at once.
MOST_PREFETCHED = 3
# Outputs whose places are known at a time.
NOTED = 512
# Rows whose places fit in the registers of a processor; of more the step is a constant.
FEW_ROWS = 8


def plan_in_place(what: Contraction, traits: DeviceTraits, tile: Tile) -> Plan:
    """Plans the kernels of a contraction that has an outline with the tile."""
    found = best_outline(what, traits, tile)
    assert found is not None  # the tile fits
    return _planned(found[1], found[2], traits)


def in_place_tile(what: Contraction, traits: DeviceTraits) -> Weighed | None:
    """Returns the tile of the least cost; None where rows must be gathered."""
    found = own = best_outline(what.unshuffled, traits)
    if what.plain is not None and found is not None:
        own = best_outline(what, traits)
    if found is None or own is None:
        return None
    weighed = Weighed(found[0], own[1].tile, partial(_planned, own[1], own[2], traits))
    # Beside sums loops copy and store.
    if not traits.long_loops and not ends(
        _planned(*own[1:], traits), own[1].tile, what.value.itemsize, traits
    ):
        return None
    return weighed


def _planned(outline: Outline, cut: WorkGroupCut, traits: DeviceTraits) -> Plan:
    """The kernels of an outline."""
    what, reading = outline.what, outline.reading
    width = lanes_of(what.value.itemsize, traits)
    streaming = streaming_stores(what, width, traits, along_outputs=reading.along_outputs)
    code = _code(what, reading, outline.shape, traits, streaming=streaming)
    if passes_in_place(what, code, math.prod(what.lanes) // code.lanes, traits):
        code = replace(code, passed_in_place=True)
    stays = _stays(what, reading, code, cut)
    if traits.prefetch:
        code = _prefetching(what, reading, code, cut, traits, stays=stays)
    return _kernels(what, reading, code, cut, stays=stays)


def _code(
    what: Contraction, reading: Reading, shape: Shape, traits: DeviceTraits, *, streaming: bool
) -> ContractionCode:
    """What the template prints, but for parameters, packing and prefetches."""
    bounds, (rows_of_taps, _, channels) = what.gathered.bounds, what.depths
    unit, fixed = reading.unit, None
    if not reading.transposed and is_short(what, traits):
        unit, fixed = reading.run, (rows_of_taps, reading.taps, reading.run)
    code = contraction_code(
        what,
        shape,
        traits,
        along="depth" if reading.rows else "lanes",
        unit=unit,
        planar=reading.planar,
        streaming=streaming,
    )
    if what.prologue.snippet is not None:
        code = with_prologue(what, code, traits)
    if reading.rows:
        code = replace(code, step=_step(what, reading, shape))
    pixel = None if bounds is None else pixel_steps(what, bounds)[1]
    return replace(
        code,
        alternate=shape.alternate,
        taps_inside=reading.taps_inside,
        row_buffer=bounds is not None,
        dense=not reading.planar and pixel == channels,
        neighbours=pixel == 1,
        fixed=fixed,
    )


def _step(what: Contraction, reading: Reading, shape: Shape) -> int:
    """Elements from a row to the next one, as a constant of the kernel; 0: an argument says it."""
    x, bounds = what.gathered, what.gathered.bounds
    if reading.planar and bounds is not None:
        return bounds.column_lane[1]
    if shape.rows <= FEW_ROWS:
        return 0
    return x.lane[2] if bounds is None else bounds.column_lane[1] * what.depths[2]


def _stays(what: Contraction, reading: Reading, code: ContractionCode, cut: WorkGroupCut) -> bool:
    """Whether a group passes all its strips before the next tile, and a near cache keeps them."""
    # Each order reads one side again and again; where the result is written in lines across all
    # strips, or is the smaller one, that side is the packed operand.
    depth = math.prod(what.depths)
    share = cut.packed_a_group * code.packed_lanes * depth * what.value.itemsize
    again = not reading.planar if reading.rows else depth >= what.outputs
    return share <= PANEL_BYTES and again


def _prefetching(
    what: Contraction,
    reading: Reading,
    code: ContractionCode,
    cut: WorkGroupCut,
    traits: DeviceTraits,
    *,
    stays: bool,
) -> ContractionCode:
    """The code with what it prefetches: planes, places of the result, operands of the next tile."""
    if reading.planar and code.neighbours:
        code = replace(code, ahead=STEPS_AHEAD)
    if code.prefetched:
        steps = math.prod(what.depths) // reading.run * (reading.run // code.unit)
        some = _prefetch_a_step(code, steps)
        far = int(FAR * traits.l2_bytes) if some else traits.cache_bytes // 2
        waits = _waits_for_memory(what, far)
        code = replace(code, prefetch_stores=waits, prefetch_a_step=some if waits else 0)
    if stays or cut.packed_a_group == 1:
        prefetch = lane_prefetch(what, code, traits)
    else:
        passes = cut.rows_a_group * cut.tiles_a_group
        prefetch = strip_prefetch(what, code, passes, cut.packed_a_group, traits)
    rows = row_prefetch(what, code, cut.packed_a_group, traits)
    return replace(code, prefetch=prefetch or rows)


def _kernels(
    what: Contraction, reading: Reading, code: ContractionCode, cut: WorkGroupCut, *, stays: bool
) -> Plan:
    """The kernel, and the one that packs the other operand for it."""
    noted = max(1, NOTED // code.packed_lanes) if code.digits else cut.packed_a_group
    code = replace(code, noted=noted if code.digits else 1)
    numbers = _sizes(what, reading, cut, min(cut.packed_a_group, noted) if stays else 1)
    numbers |= _places(what)
    if code.passed_in_place:
        w = what.packed
        numbers |= {"w_start": w.start, "w_group": w.group, "w_depth": w.depth[2]}
    parameters, arguments = parameters_of(code, numbers, what)
    depth = math.prod(what.depths)
    groups = cut.row_groups(what) * -(-cut.tiles // cut.tiles_a_group)
    main = KernelPlan(
        "product/in_place",
        replace(code, parameters=parameters),
        arguments,
        (groups, -(-cut.packed_tiles // cut.packed_a_group), what.groups),
        (1, 1, 1),
        moved_bytes(what),
        2 * what.groups * math.prod(what.lanes) * what.outputs * depth,
    )
    if code.passed_in_place:
        return Plan((main,))
    packed = what.groups * cut.packed_tiles * depth * code.packed_lanes
    packing = taps_last(what) if reading.taps_inside else what
    pack = pack_plan(packing, code, cut.packed_tiles, depth)
    return Plan((pack, main), {"packed": (packed, what.value)})


def _sizes(what: Contraction, reading: Reading, cut: WorkGroupCut, strips: int) -> dict[str, int]:
    """Sizes of loops by name; ``strips`` are passed before the next tile."""
    return {
        "lane_1": max(1, what.lanes[1]),
        "lane_2": what.lanes[2],
        "outputs": what.outputs,
        "tiles": cut.tiles,
        "tile_blocks": -(-cut.tiles // cut.tiles_a_group),
        "tiles_a_group": cut.tiles_a_group,
        "row_blocks": -(-what.lanes[1] // cut.rows_a_group),
        "rows_a_group": cut.rows_a_group,
        "packed_tiles": cut.packed_tiles,
        "packed_a_group": cut.packed_a_group,
        "packed_a_tile": strips,
        "depth_padded": math.prod(what.depths),
        "taps": reading.taps,
        "run": reading.run,
        **{f"depth_{d}": size for d, size in enumerate(what.depths)},
    }


def _places(what: Contraction) -> dict[str, int]:
    """Where the gathered operand lies, by name."""
    x, bounds = what.gathered, what.gathered.bounds
    found: dict[str, int] = {}
    if bounds is None:
        found.update({f"x_lane_{d}": x.lane[d] for d in (1, 2)})
        found.update({f"x_depth_{d}": x.depth[d] for d in (0, 1)})
    else:
        pixel_row, pixel = pixel_steps(what, bounds)
        found.update(
            height=bounds.height,
            width=bounds.width,
            row_start=bounds.row_start,
            column_start=bounds.column_start,
            row_lane_1=bounds.row_lane[1],
            row_depth_0=bounds.row_depth[0],
            column_lane_2=bounds.column_lane[1],
            column_depth_1=bounds.column_depth[0],
            x_pixel_row=pixel_row,
            x_pixel=pixel,
        )
    found.update(x_start=x.start, x_group=x.group, x_lane_0=x.lane[0], x_depth_2=x.depth[2])
    return found | {"x_size": x.size}


def _waits_for_memory(what: Contraction, far: int) -> bool:
    """Whether tiles wait for what they are stored to, or for what their epilogue reads there."""
    reads = any(any(o.lane) for o in what.epilogue.arrays) or what.epilogue.beta
    return reads or result_bytes(what) > far


def _prefetch_a_step(code: ContractionCode, steps: int) -> int:
    """How many of a tile's vectors are prefetched in each of so many steps; 0: all in the first."""
    # Many at once keep what the sums need waiting.
    lines, wide = code.rows * code.vectors, code.vectors
    rows = code.gathered == "rows" and not (code.planar or code.digits)
    if not rows or any(o.inner != "one" for o in code.prefetched):
        return 0
    parts = (wide >> n for n in (2, 1, 0)) if wide in (2, 4) else (wide,)
    fitting = (n for n in parts if n and lines <= n * steps < MOST_PREFETCHED * lines)
    return next(fitting, 0)
