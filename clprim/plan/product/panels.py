"""The CPU strategy of contractions: packed panels in the cache, and a tile of sums in registers.

One work-item takes some tiles of the gathered operand, copies them to a panel in local memory, and
multiplies them by every tile of the packed operand; product/panels.cl.jinja draws it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.plan.cost import CoreWork
from clprim.plan.epilogue import NO_EPILOGUE
from clprim.plan.kernel import KernelPlan, Plan, round_up
from clprim.plan.machine import CHAIN, LINE, STEPS_AHEAD
from clprim.plan.machine import second as second_cache
from clprim.plan.product.cut import NEAR, strip_prefetch
from clprim.plan.product.pack import pack_plan, packing_work, passes_in_place
from clprim.plan.product.problem import (
    Contraction,
    Gathered,
    moved_bytes,
)
from clprim.plan.product.register_code import (
    ContractionCode,
    contraction_code,
    parameters_of,
    streaming_stores,
)
from clprim.plan.product.register_tile import (
    MOST_TILES,
    Tile,
    lanes_of,
    panel_of,
    promising,
    tiles_of,
)
from clprim.plan.product.shape import Shape
from clprim.plan.strategy import Weighed
from clprim.traits import DeviceTraits

# How many times as long as lines and rows of the result a depth is that work-groups share.
DEEP = 2
# What the place of a lane costs, in elements that are copied; and how much dearer a tile is whose
# lanes' places are noted, than one of a line.
PLACE, PLACED = 12, 3.5


def panels_cost(what: Contraction, traits: DeviceTraits, tile: Tile) -> float:
    """Returns what a tile costs, as `CoreWork` counts."""
    width = lanes_of(what.value.itemsize, traits)
    shape, along, unit = _shape(what, tile, width, traits)
    cut = _cut(what, shape, traits, unit=unit, slack=_slack(shape, along))
    tiles = what.groups * cut.tiles * cut.packed_tiles
    blocks = cut.splits * -(-cut.chunk // cut.block)
    sums, lanes, size = tile.rows * tile.vectors, shape.lanes, what.value.itemsize
    gathered = what.groups * cut.tiles * cut.packed_groups * cut.depth_padded
    vectors = lanes / width if along == "depth" else -(-lanes // width) if along == "lanes" else 0
    places = PLACE * what.groups * cut.tiles * cut.packed_groups * cut.splits * lanes
    elements = float(places + (gathered * lanes if along == "none" else 0))
    copies = float(gathered * vectors)
    kernels = 1 + (cut.splits > 1)
    if shape.lanes_are_rows:
        left = what.outputs % shape.packed_lanes
        odd = tiles / cut.packed_tiles * tile.rows * (left // width + left % width)
    else:  # tiles that a line of lanes ends in
        odd = tiles * sums * width * min(1, (lanes - 1) / what.lanes[2])
    if not (what.kept or passes_in_place(what, shape, cut.tiles, traits)):
        packed = packing_work(what, cut.packed_tiles * shape.packed_lanes)
        copies, elements = copies + packed[0] / width, elements + packed[1]
        kernels += 1
    # A strip is passed by all tiles of a panel, which are in the second cache.
    steps, of_strip = tiles * cut.depth_padded, shape.packed_lanes * size / LINE
    near = (lanes + shape.packed_lanes) * cut.block * size <= NEAR * traits.l1_bytes
    second = of_strip / (cut.tiles_a_group if near else 1) + lanes * size / LINE
    far = cut.packed * size > second_cache(traits)
    return CoreWork(
        steps=steps,
        sums=sums,
        operands=tile.rows + tile.vectors,
        full=tile.fills(traits),
        tiles=PLACED * tiles * blocks,
        second=steps * second,
        far=steps * of_strip / cut.tiles_a_group if far else 0,
        stores=tiles * sums * (2 * blocks - 1 if cut.partial else 1),
        pieces=odd,
        copies=copies,
        elements=elements,
        groups=cut.tile_groups * cut.packed_groups * what.groups * cut.splits,
        kernels=kernels,
    ).cost(traits)


def panels_tiles(what: Contraction, traits: DeviceTraits) -> list[Weighed]:
    """Returns the tiles that panels have room for, those of the least cost first."""
    size = what.value.itemsize
    every = tiles_of(traits, plain=what.epilogue == NO_EPILOGUE)
    width, most = lanes_of(size, traits), panel_of(size, traits) // MOST_TILES
    fitting = [t for t in every if t.rows > 1 and t.rows + t.vectors * width <= most]
    lanes, outputs = math.prod(what.lanes), what.outputs
    rows, columns = (lanes, outputs) if _gathers_rows(what) else (outputs, lanes)
    found = promising(rows, columns, width, fitting)
    weighed = (Weighed(panels_cost(what, traits, tile), tile) for tile in found)
    return sorted(weighed, key=lambda one: one.cost)


def _shape(
    what: Contraction, tile: Tile, width: int, traits: DeviceTraits
) -> tuple[Shape, str, int]:
    """The shape of tiles, what lies side by side in what is gathered, and steps taken at once."""
    rows = _gathers_rows(what)
    along = _along(what.gathered, rows)
    unit = width if along == "depth" and rows else 1
    if along == "depth" and not rows:
        along = "none"  # the panel's steps of k lie a row of columns apart
    panel = panel_of(what.value.itemsize, traits)
    shape = Shape(tile.rows, tile.vectors, width, panel, rows)
    return shape, along, unit


def _slack(shape: Shape, along: str) -> int:
    """Elements behind a tile in the panel, for vectors of lanes that end past it."""
    return shape.width if along == "lanes" and shape.lanes % shape.width else 0


def plan_panels(what: Contraction, traits: DeviceTraits, tile: Tile) -> Plan:
    """Plans the kernels of a contraction."""
    lanes, depth = math.prod(what.lanes), math.prod(what.depths)
    width = lanes_of(what.value.itemsize, traits)
    shape, along, unit = _shape(what, tile, width, traits)
    code = contraction_code(
        what,
        shape,
        traits,
        along=along,
        unit=unit,
        streaming=streaming_stores(what, width, traits, along_outputs=shape.lanes_are_rows),
        most_tiles=MOST_TILES,
    )
    cut = _cut(what, shape, traits, unit=unit, slack=code.slack)
    # A step further in depth is another line of memory, which no prefetcher foresees.
    ahead = STEPS_AHEAD if along == "lanes" and traits.prefetch else 0
    # Its lines must be as many as the panel has steps of k, which come in whole units.
    in_place = depth % code.unit == 0 and passes_in_place(what, code, cut.tiles, traits)
    code = replace(
        code,
        ahead=ahead,
        split=cut.splits > 1,
        streaming=code.streaming and cut.splits == 1,
        partial=cut.splits > 1 or cut.block < cut.chunk,
        passed_in_place=in_place,
    )
    prefetch = strip_prefetch(what, code, cut.tiles_a_group, cut.packed_a_group, traits)
    code = replace(code, prefetch=prefetch)

    parameters, arguments = parameters_of(code, _numbers(what, cut), what)
    flops = 2 * what.groups * lanes * what.outputs * depth
    nbytes = moved_bytes(what)
    main = KernelPlan(
        "product/panels",
        replace(code, parameters=parameters),
        arguments,
        (cut.tile_groups, cut.packed_groups, what.groups * cut.splits),
        (1, 1, 1),
        nbytes,
        flops,
    )
    stages, workspace = [main], {}
    if cut.partial:
        workspace["partial"] = (cut.partial, what.value)
    if cut.splits > 1:
        stages.append(_finish(what, code, cut))
    if not code.passed_in_place:
        stages.insert(0, pack_plan(what, code, cut.packed_tiles, cut.depth_padded))
        workspace["packed"] = (cut.packed, what.value)
    return Plan(tuple(stages), workspace)


def _finish(what: Contraction, code: ContractionCode, cut: _Cut) -> KernelPlan:
    """The kernel that adds up the sums of work-groups that share the depth."""
    code = replace(code, name=f"{code.name}_finish", most_tiles=1, split=False)
    parameters, arguments = parameters_of(code, _loops(what, cut), what, finish=True)
    results = math.prod(what.lanes) * what.outputs
    return KernelPlan(
        "product/panels_finish",
        replace(code, parameters=parameters),
        arguments,
        (cut.tiles, cut.packed_tiles, what.groups),
        (1, 1, 1),
        cut.partial * what.value.itemsize + what.y.dtype.itemsize * results,
        cut.partial,
    )


def _gathers_rows(what: Contraction) -> bool:
    """Whether lanes are rows: columns are what lies side by side in the result."""
    return (what.near.output == 1 and what.outputs > 1) or what.near.lane[2] != 1


def _along(gathered: Gathered, gathered_rows: bool) -> str:
    if gathered_rows and gathered.depth[2] == 1:
        return "depth"
    if gathered.lane[2] == 1:
        return "lanes"
    return "depth" if gathered.depth[2] == 1 else "none"


@dataclass(frozen=True)
class _Cut:
    """How the loops are cut."""

    tiles: int  # In all, of a group
    packed_tiles: int
    tiles_a_group: int
    packed_a_group: int
    splits: int  # The depth is cut into ``splits`` of ``chunk`` for different work-groups
    chunk: int
    block: int  # Depth that the panel holds at a time
    depth_padded: int  # Depth of the packed operand, in whole units
    packed: int
    partial: int

    @property
    def tile_groups(self) -> int:
        return -(-self.tiles // self.tiles_a_group)

    @property
    def packed_groups(self) -> int:
        return -(-self.packed_tiles // self.packed_a_group)


def _cut(what: Contraction, code: Shape, traits: DeviceTraits, *, unit: int, slack: int) -> _Cut:
    lanes, depth = math.prod(what.lanes), math.prod(what.depths)
    tiles = -(-lanes // code.lanes)
    packed_tiles = -(-what.outputs // code.packed_lanes)
    room = code.panel
    wanted = 8 * traits.compute_units
    enough = 4 * traits.compute_units

    # Where depth is long, work-groups share it; where it is not, each takes some of the tiles.
    deep = depth >= DEEP * max(lanes, what.outputs)
    fair = tiles if deep else tiles * what.groups // wanted
    # However little local memory there is, a panel has room for a unit of depth of each tile.
    fitting = room // (code.lanes * unit + slack)
    tiles_a_group = max(1, min(MOST_TILES, tiles, fair, fitting))
    packed_a_group = packed_tiles
    parallel = -(-tiles // tiles_a_group) * what.groups
    if parallel < enough and not deep:
        # Each of several work-groups then gathers the same tiles again.
        packed_a_group = max(1, packed_tiles * parallel // enough)
        parallel *= -(-packed_tiles // packed_a_group)
    splits = least = max(1, -(-depth // CHAIN))
    if parallel < enough or deep:
        splits = max(least, min(-(-wanted // parallel), depth // 512))
    if splits > traits.compute_units:  # then all of them are busy until the end
        splits = max(least, splits - splits % traits.compute_units)
    chunk = max(1, round_up(-(-depth // splits), unit))
    splits = max(1, -(-depth // chunk))

    padded = round_up(chunk, unit)
    # Few tiles have long blocks of depth; many need the packed operand fewer times.
    fewest = MOST_TILES if deep and not what.gathered.aliased else MOST_TILES // 2
    while tiles_a_group > fewest and tiles_a_group * (code.lanes * padded + slack) > room:
        tiles_a_group -= 1
    tiles_a_group = -(-tiles // -(-tiles // tiles_a_group))  # equal shares: not four and one
    block = (room // tiles_a_group - slack) // code.lanes // unit * unit
    if splits > 1 and block < chunk < 2 * block:
        # For a short block sums would be written and read once more.
        splits = round_up(-(-depth // block), traits.compute_units)
        chunk = max(1, round_up(-(-depth // splits), unit))
        splits, padded = max(1, -(-depth // chunk)), round_up(chunk, unit)
    block = max(unit, min(padded, block))
    partial = 0
    if splits > 1 or block < chunk:
        tile = code.rows * code.vectors * code.width
        partial = splits * what.groups * tiles * packed_tiles * tile
    depth_padded = max(1, round_up(depth, unit))
    packed = what.groups * packed_tiles * depth_padded * code.packed_lanes
    return _Cut(
        tiles=tiles,
        packed_tiles=packed_tiles,
        tiles_a_group=tiles_a_group,
        packed_a_group=packed_a_group,
        splits=splits,
        chunk=chunk,
        block=block,
        depth_padded=depth_padded,
        packed=packed,
        partial=partial,
    )


def _loops(what: Contraction, cut: _Cut) -> dict[str, int]:
    """The numbers that both kernels need."""
    return {
        "lanes": math.prod(what.lanes),
        "lane_1": max(1, what.lanes[1]),
        "lane_2": max(1, what.lanes[2]),
        "outputs": what.outputs,
        "tiles": cut.tiles,
        "packed_tiles": cut.packed_tiles,
        "groups": what.groups,
        "splits": cut.splits,
    }


def _numbers(what: Contraction, cut: _Cut) -> dict[str, int]:
    """The numbers that the kernel that multiplies needs."""
    x = what.gathered
    numbers = {
        **_loops(what, cut),
        "tiles_a_group": cut.tiles_a_group,
        "packed_a_group": cut.packed_a_group,
        "chunk": cut.chunk,
        "block": cut.block,
        "depth": math.prod(what.depths),
        "depth_padded": cut.depth_padded,
        "depth_1": max(1, what.depths[1]),
        "depth_2": max(1, what.depths[2]),
        "x_start": x.start,
        "x_group": x.group,
        "x_size": x.size,
        **{f"x_lane_{d}": stride for d, stride in enumerate(x.lane)},
        **{f"x_depth_{d}": stride for d, stride in enumerate(x.depth)},
        "w_start": what.packed.start,
        "w_group": what.packed.group,
        "w_depth": what.packed.depth[2],
    }
    if x.bounds is not None:
        b = x.bounds
        numbers.update(
            height=b.height,
            width=b.width,
            row_start=b.row_start,
            column_start=b.column_start,
            row_lane_0=b.row_lane[0],
            row_lane_1=b.row_lane[1],
            row_depth_0=b.row_depth[0],
            row_depth_1=b.row_depth[1],
            column_lane_1=b.column_lane[0],
            column_lane_2=b.column_lane[1],
            column_depth_1=b.column_depth[0],
            column_depth_2=b.column_depth[1],
        )
    return numbers
