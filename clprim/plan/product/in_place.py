"""Contractions of the CPU strategy whose rows are read where they lie, without gathering them.

That is possible where rows of one line follow each other in equal steps and their elements along
depth are neighbours: windows of channels-last images, and matrices. Where windows leave the image,
or elements must be converted, the lines that a work-group needs are copied once to local memory;
every element then is copied about once, and not once for each window it is in.
"""

from __future__ import annotations

import math
from dataclasses import replace

from clprim.plan.epilogue import NO_EPILOGUE
from clprim.plan.kernel import KernelPlan, Plan, round_up
from clprim.plan.product.cut import (
    ask_for_band,
    ask_for_lanes,
    ask_for_strips,
    cut_loops,
    has_near_lanes,
)
from clprim.plan.product.in_place_tile import (
    FEW_LANES,
    FEW_ROWS,
    SHORT,
    SHORT_OF_FEW,
    UNROLL,
    WASTE,
    column_tile,
    crossed_tile,
    has_alternate_columns,
    has_columns,
    is_crossed,
    is_planar,
    is_short,
    row_limits,
    row_tile,
)
from clprim.plan.product.pack import pack_plan, passes_in_place
from clprim.plan.product.panels import LONGEST_CHAIN
from clprim.plan.product.problem import Bounds, Contraction, Digits, moved_bytes
from clprim.plan.product.register_code import (
    ContractionCode,
    contraction_code,
    parameters_of,
    past_caches,
)
from clprim.plan.product.register_tile import (
    FEW_SUMS,
    Tile,
    lanes_of,
    panel_of,
)
from clprim.traits import DeviceTraits

# Taps of a row that it takes at a time, where these follow each other.
MOST_TAPS = 7
# If the packed operand is at most this large, it stays in cache and gathered tiles are streamed:
# the result is then written line by line instead of strip by strip.
STAYS_BYTES = 256 << 10
# Planes after which a line of the next one is copied: no hardware follows such steps.
AHEAD = 8
# As many times a tile's vectors are asked for a few at a time at most; else all at once.
MOST_ASKED = 3
# Bytes of a result that a near cache does not keep until it is written again.
FAR_BYTES = 3 << 20
# Outputs whose places are known at a time.
NOTED = 512
# Lines of memory, one a step of depth, that columns are read from in place.
MOST_LINES = 1024
# Lines that hardware follows at the same time. More of them, which come from memory once, are
# packed, but not for two outputs, nor for fewer multiply-adds. Measured, calls in a row:
# 16×4096×4096 takes 0.31 of the time, 8×4096×4096 and 12×4000×2000 0.75 to 0.85; of fewer,
# 8×1000×2048, 8×4096×1024 and 144→14 of 28², batch 8, 1.3 to 1.55; of 32 lines 1.03 to 1.28.
STREAMS, FEWEST, FAR_PRODUCTS = 32, 2, 60 << 20
# What vectors of a plane's pixels may compute twice where there are so many lanes and outputs; and
# multiply-adds that are too few to pack the other operand for, as are `FEW_LANES`.
WASTED, MANY_LANES, MANY_OUTPUTS, SMALL = 1.06, 512, 128, 1 << 20


def plan_in_place(what: Contraction, traits: DeviceTraits, tile: Tile | None = None) -> Plan | None:
    """Plans the kernels of a contraction, or returns None where its rows must be gathered.

    Args:
        what: The contraction.
        traits: Of the device.
        tile: The tile to use; chosen by a rule where left out.
    """
    if what.plain is not None and plan_in_place(_plainly(what), traits, tile) is None:
        return None
    turned = _plan_windows(what, traits, tile)
    if turned is not None:
        return turned
    what = _collapse(what)
    x, bounds = what.gathered, what.gathered.bounds
    if x.dtype != what.value:
        return None
    planar = bounds is not None and is_planar(what, traits)
    crossed = bounds is not None and is_crossed(what, bounds, traits)
    rows = what.near.output == 1 and what.outputs > 1 and x.depth[2] == 1 and not crossed
    rows = rows or planar
    alternate = not (rows or crossed) and has_alternate_columns(what, traits)
    if not (rows or crossed or alternate or has_columns(what)):
        return None
    if not 0 < math.prod(what.depths) <= LONGEST_CHAIN:
        return None
    if bounds is not None and not _is_image(bounds):
        return None
    taps, run = _runs(what, rows=rows and not planar)
    # Of planes any step of depth may come next: the longer of the two runs.
    taps_inside = planar and taps > run
    if taps_inside:
        taps, run = run, taps
    # Columns have a run as long as they want: the next step of depth is another line.
    short = crossed or not rows or is_short(what, traits, SHORT)
    if run < (2 if planar else 1 if short else UNROLL):
        return None
    unit = min(run, MOST_TAPS if taps_inside else UNROLL)
    if crossed:
        tile = crossed_tile(what, traits)
    width = lanes_of(what.value.itemsize, traits)
    streaming = past_caches(what, width, traits, along_outputs=rows and not planar)
    ruled = tile is None
    if tile is None:
        once = not rows and not _stays_near(what)
        if rows:
            most, outputs = row_limits(what, width, traits, planar=planar, streaming=streaming)
            found: Tile | None = row_tile(what, traits, most, outputs, planar=planar)
        else:
            found = column_tile(what, traits, once=once)
        if found is None:
            return None
        tile = found
    if (tile.rows if rows else tile.vectors * width) > what.lanes[2]:
        return None  # a line's last tile is moved back so far that it ends where the line does
    if not rows and what.outputs > tile.rows and not _stays_near(what):
        return None
    if not rows and what.outputs <= tile.rows and _is_far(what):
        return None
    along = "depth" if rows else "lanes"
    code = contraction_code(
        what,
        tile,
        width=width,
        panel=panel_of(what.value.itemsize, traits),
        along=along,
        unit=unit,
        gathered_rows=rows,
        planar=planar,
        crossed=crossed,
        streaming=streaming,
        traits=traits,
    )
    code = replace(code, alternate=alternate)
    if planar:
        assert bounds is not None
        code = replace(code, step=bounds.column_lane[1], taps_inside=taps_inside)
    elif rows:
        step = x.lane[2] if bounds is None else bounds.column_lane[1] * what.depths[2]
        code = replace(code, step=step if tile.rows > FEW_ROWS else 0)
    cut = cut_loops(what, code, traits)
    if cut is None:
        return None
    depth = math.prod(what.depths)
    share = cut.packed_a_group * code.packed_lanes * depth * what.value.itemsize
    # Each order reads one side again and again; where the result is written in lines across all
    # packed tiles, or is the smaller one, that side is the packed operand.
    stays = share <= STAYS_BYTES and (depth >= what.outputs if not rows else not planar)
    most = max(1, NOTED // code.packed_lanes) if code.digits else cut.packed_a_group
    code = replace(code, noted=most if code.digits else 1)
    names = {
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
        "packed_a_tile": min(cut.packed_a_group, most) if stays else 1,
        "depth_padded": depth,
        "taps": taps,
        "run": run,
        **{f"depth_{d}": size for d, size in enumerate(what.depths)},
    }
    if bounds is None:
        names.update({f"x_lane_{d}": x.lane[d] for d in (1, 2)})
        names.update({f"x_depth_{d}": x.depth[d] for d in (0, 1)})
    else:
        names.update(
            height=bounds.height,
            width=bounds.width,
            row_start=bounds.row_start,
            column_start=bounds.column_start,
            row_lane_1=bounds.row_lane[1],
            row_depth_0=bounds.row_depth[0],
            column_lane_2=bounds.column_lane[1],
            column_depth_1=bounds.column_depth[0],
            x_pixel_row=_per(x.lane[1], bounds.row_lane[1], x.depth[0], bounds.row_depth[0]),
            x_pixel=_per(x.lane[2], bounds.column_lane[1], x.depth[1], bounds.column_depth[0]),
        )
    names.update(x_start=x.start, x_group=x.group, x_lane_0=x.lane[0], x_depth_2=x.depth[2])
    names.update(x_size=x.size)
    dense = bounds is not None and not planar and names["x_pixel"] == what.depths[2]
    neighbours = bounds is not None and names["x_pixel"] == 1
    code = replace(code, band=bounds is not None, dense=dense, neighbours=neighbours)
    if planar and neighbours and traits.prefetch:
        code = replace(code, ahead=AHEAD)
    few = is_short(what, traits, SHORT_OF_FEW if rows else SHORT)
    if bounds is not None and not crossed and few:
        code = replace(code, unit=run, fixed=(what.depths[0], taps, run))
    if traits.prefetch and code.asked:
        some = _asked_a_step(code, depth // run * (run // code.unit))
        asks = _waits_for_memory(what, FAR_BYTES if some else traits.cache_bytes // 2)
        code = replace(code, asks=asks, asked_a_step=some if asks else 0)
    if passes_in_place(what, code, math.prod(what.lanes) // code.lanes):
        wide = code.vectors > 2 and traits.sums > FEW_SUMS
        if ruled and wide and not what.lanes[2] % FEW_ROWS and has_near_lanes(what):
            # More rows read the other matrix less often: squares of 128 to 320 take 0.95 to 0.98 of
            # the time, lanes that come from afar 1.01.
            return plan_in_place(what, traits, Tile(FEW_ROWS, 2))
        code = replace(code, passed_in_place=True)
        w = what.packed
        names.update(w_start=w.start, w_group=w.group, w_depth=w.depth[2])
    if stays or cut.packed_a_group == 1:
        code = replace(code, asking=ask_for_lanes(what, code, traits))
    else:
        passes = cut.rows_a_group * cut.tiles_a_group
        asking = ask_for_strips(what, code, passes, cut.packed_a_group, traits)
        code = replace(code, asking=asking)
    code = replace(code, asking=code.asking or ask_for_band(what, code, traits))
    parameters, arguments = parameters_of(code, names, what)
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
    pack = pack_plan(_taps_last(what) if taps_inside else what, code, cut.packed_tiles, depth)
    return Plan((pack, main), {"packed": (packed, what.value)})


def _waits_for_memory(what: Contraction, far: int) -> bool:
    """Whether tiles wait for what they are stored to, or for what their epilogue reads there.

    Measured, batch 8: asking for all of it at once takes 0.7 to 0.95 of the time where a residual
    is added or the result leaves the cache, and 1.03 to 1.14 where neither is so.

    Args:
        what: The contraction.
        far: Bytes of a result that is not near any more.
    """
    result = what.groups * math.prod(what.lanes) * what.outputs * what.y.dtype.itemsize
    reads = any(any(o.lane) for o in what.epilogue.arrays) or what.epilogue.beta
    return reads or result > far


def _asked_a_step(code: ContractionCode, steps: int) -> int:
    """How many of a tile's vectors are asked for in each of so many steps; 0: all before the first.

    Many at once keep what the sums need waiting. Measured beside asking for all at once or not at
    all, batch 8: 64→256 of 56² and 128→512 of 28², 3→64 of 7×7 and of 3×3 take 0.92 to 0.94 of the
    time, 256→1024 of 14² with a residual 0.96, 64→64 and 128→128 of 56² 0.92 to 0.95; 512→2048,
    whose tiles take long, 1.05.
    """
    lines, wide = code.rows * code.vectors, code.vectors
    rows = code.gathered == "rows" and not (code.planar or code.digits)
    if not rows or any(o.inner != "one" for o in code.asked):
        return 0
    parts = (wide >> n for n in (2, 1, 0)) if wide in (2, 4) else (wide,)
    fitting = (n for n in parts if n and lines <= n * steps < MOST_ASKED * lines)
    return next(fitting, 0)


def _plainly(what: Contraction) -> Contraction:
    """The same sums, stored with outputs as channels."""
    assert what.plain is not None
    packed = replace(what.packed, digits=None)
    return replace(what, packed=packed, y=what.plain, epilogue=NO_EPILOGUE, digits=None, plain=None)


def _taps_last(what: Contraction) -> Contraction:
    """The same sums with the taps of a row as the last digit of depth."""
    w = what.packed

    def swapped(digits: Digits) -> Digits:
        return digits[0], digits[2], digits[1]

    packed = replace(w, depth=swapped(w.depth))
    return replace(what, depths=swapped(what.depths), packed=packed)


def _is_image(bounds: Bounds) -> bool:
    """Whether lanes are (image, y, x) and depths (y, x, channel), both upwards."""
    still = (bounds.row_lane[0], bounds.column_lane[0], bounds.row_depth[1], bounds.column_depth[1])
    steps = (bounds.row_lane[1], bounds.column_lane[1], bounds.row_depth[0], bounds.column_depth[0])
    return (
        not any(still) and min(steps) >= 0 and bounds.row_lane[1] > 0 and bounds.column_lane[1] > 0
    )


def _per(lane: int, lane_step: int, depth: int, depth_step: int) -> int:
    """Elements from a pixel to the next one, known from the windows' steps."""
    return lane // lane_step if lane_step else depth // max(1, depth_step)


def _runs(what: Contraction, *, rows: bool) -> tuple[int, int]:
    """Taps of a row, and neighbours of a tap: all of them as one where taps are neighbours too."""
    _, taps, channels = what.depths
    bounds = what.gathered.bounds
    step = what.gathered.depth[1] if bounds is None else bounds.column_depth[0] * channels
    return (1, taps * channels) if rows and step == channels else (taps, channels)


def _collapse(what: Contraction) -> Contraction:
    """Lines of lanes that follow each other in every operand, as one line."""
    if what.gathered.bounds is not None:
        return what
    for outer, inner in ((1, 2), (0, 2)):
        size = what.lanes[inner]
        lanes_of = [what.gathered.lane, *(o.lane for o in what.stored)]
        if what.lanes[outer] > 1 and any(lane[outer] != size * lane[inner] for lane in lanes_of):
            return what

        def merged(lane: Digits, outer: int = outer) -> Digits:
            return (lane[0] if outer else 0, 0, lane[2])

        lanes = (what.lanes[0] if outer else 1, 1, what.lanes[outer] * size)
        what = replace(
            what,
            lanes=lanes,
            gathered=replace(what.gathered, lane=merged(what.gathered.lane)),
            y=replace(what.y, lane=merged(what.y.lane)),
            epilogue=what.epilogue.placed(lambda e: replace(e, lane=merged(e.lane))),
        )
    return what


def _plan_windows(what: Contraction, traits: DeviceTraits, tile: Tile | None) -> Plan | None:
    """Plans pixels that are neighbours as windows, if vectors waste many at the end of a plane.

    They are copied to a band then, and most become rows, whose sums are turned over. Measured with
    two runtimes, in planes: 7² of 8 to 1024 channels takes 0.5 to 1 of the time; 8 images of 9²,
    14² and 15² to 128 outputs or more 0.88 to 1.02, to 16 to 64 1.05 to 1.25, and one image of them
    with 192 to 960 channels 1.02 to 1.2. Few of them do not pay for a kernel that packs the other
    operand: gradients of 16 to 96 channels of 7² to 14² in one image take 0.6 to 0.96 of the time.
    """
    plane, width = _collapse(what), lanes_of(what.value.itemsize, traits)
    lone = what.gathered.bounds is None and what.depths[:2] == (1, 1)
    if traits.sums <= FEW_SUMS or not (lone and has_columns(plane)):
        return None
    spent, lanes = round_up(plane.lanes[2], width) / plane.lanes[2], math.prod(what.lanes)
    if spent > WASTED and (lanes <= FEW_LANES or lanes * what.outputs * what.depths[2] <= SMALL):
        found = plan_in_place(_windows(what), traits, tile)
        if found is not None and len(found.stages) == 1:
            return found
    many = lanes >= MANY_LANES and what.outputs >= MANY_OUTPUTS and what.depths[2] > SHORT
    if spent > (WASTED if many else WASTE):
        return plan_in_place(_windows(plane), traits, tile)
    return None


def _windows(what: Contraction) -> Contraction:
    """Pixels of images, or lanes of lines, as windows of one element."""
    _, rows, columns = what.lanes
    bounds = Bounds(rows, columns, 0, 0, (0, 1), (1, 0), (0, 1), (1, 0))
    return replace(what, gathered=replace(what.gathered, bounds=bounds))


def _stays_near(what: Contraction) -> bool:
    """Whether the lines that a tile of columns reads stay in a near cache until the next tile.

    Many of them do not, and steps of a power of two send them all to the same few places of it.
    """
    x = what.gathered
    step = x.depth[2] * x.dtype.itemsize
    return x.bounds is not None or (math.prod(what.depths) <= MOST_LINES and step % 1024 != 0)


def _is_far(what: Contraction) -> bool:
    """Whether columns come from memory in more lines than hardware follows."""
    lines = math.prod(what.depths)
    products = what.groups * math.prod(what.lanes) * what.outputs * lines
    plain = what.gathered.bounds is None and what.outputs > FEWEST
    return plain and lines > STREAMS and products > FAR_PRODUCTS
