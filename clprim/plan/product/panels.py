"""The CPU strategy of contractions: packed panels in the cache, and a tile of sums in registers.

One work-item takes some tiles of the gathered operand, copies them to a panel in local memory, and
multiplies them by every tile of the packed operand; product/panels.cl.jinja draws it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from clprim.plan.epilogue import NO_EPILOGUE
from clprim.plan.kernel import KernelPlan, Plan, round_up
from clprim.plan.product.cut import strip_prefetch
from clprim.plan.product.pack import pack_plan, passes_in_place
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
from clprim.plan.product.register_tile import MOST_TILES, Tile, choose_tile, lanes_of, panel_of
from clprim.traits import DeviceTraits

# Products added one after another into one sum: rounding errors grow with their number, so longer
# depths are split, and the splits' sums added up.
LONGEST_CHAIN = 8192
# How many times as long as lines and rows of the result a depth is that work-groups share.
DEEP = 2
# Gathered tiles that a work-group has at least before its blocks of depth become shorter, but where
# depth is long and lanes are not aliased.
FEW_TILES = 4
# Steps of k that lines of memory are prefetched in advance.
AHEAD = 8


def plan_panels(what: Contraction, traits: DeviceTraits, tile: Tile | None = None) -> Plan:
    """Plans the kernels of a contraction.

    Args:
        what: The contraction; neither lanes nor outputs nor groups may be 0.
        traits: Of the device.
        tile: The tile to use; chosen by a rule where left out.
    """
    lanes, depth = math.prod(what.lanes), math.prod(what.depths)
    gathered_rows = _gathers_rows(what)
    if tile is None:
        rows, columns = (lanes, what.outputs) if gathered_rows else (what.outputs, lanes)
        plain = what.epilogue == NO_EPILOGUE
        tile = choose_tile(rows, columns, what.value.itemsize, traits, plain=plain)
    along = _along(what.gathered, gathered_rows)
    width = lanes_of(what.value.itemsize, traits)
    unit = width if along == "depth" and gathered_rows else 1
    if along == "depth" and not gathered_rows:
        along = "none"  # the panel's steps of k lie a row of columns apart
    code = contraction_code(
        what,
        tile,
        width=width,
        panel=panel_of(what.value.itemsize, traits),
        most_tiles=MOST_TILES,
        along=along,
        unit=unit,
        gathered_rows=gathered_rows,
        streaming=streaming_stores(what, width, traits, along_outputs=gathered_rows),
        traits=traits,
    )
    cut = _cut(what, code, lanes, depth, traits)
    # A step further in depth is another line of memory, which no prefetcher foresees.
    ahead = AHEAD if along == "lanes" and traits.prefetch else 0
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
        finish_code = replace(code, name=f"{code.name}_finish", most_tiles=1, split=False)
        parameters, arguments = parameters_of(finish_code, _loops(what, cut), what, finish=True)
        finish = KernelPlan(
            "product/panels_finish",
            replace(finish_code, parameters=parameters),
            arguments,
            (cut.tiles, cut.packed_tiles, what.groups),
            (1, 1, 1),
            cut.partial * what.value.itemsize + what.y.dtype.itemsize * lanes * what.outputs,
            cut.partial,
        )
        stages.append(finish)
    if not code.passed_in_place:
        stages.insert(0, pack_plan(what, code, cut.packed_tiles, cut.depth_padded))
        workspace["packed"] = (cut.packed, what.value)
    return Plan(tuple(stages), workspace)


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
    """How the loops are cut.

    Attributes:
        tiles, packed_tiles: In all, of a group.
        tiles_a_group, packed_a_group: That a work-group takes.
        splits, chunk: The depth is cut into ``splits`` of ``chunk`` for different work-groups.
        block: Depth that the panel holds at a time.
        depth_padded: Depth of the packed operand, in whole units.
        packed, partial: Elements of workspace.
    """

    tiles: int
    packed_tiles: int
    tiles_a_group: int
    packed_a_group: int
    splits: int
    chunk: int
    block: int
    depth_padded: int
    packed: int
    partial: int

    @property
    def tile_groups(self) -> int:
        return -(-self.tiles // self.tiles_a_group)

    @property
    def packed_groups(self) -> int:
        return -(-self.packed_tiles // self.packed_a_group)


def _cut(
    what: Contraction, code: ContractionCode, lanes: int, depth: int, traits: DeviceTraits
) -> _Cut:
    tiles = -(-lanes // code.lanes)
    packed_tiles = -(-what.outputs // code.packed_lanes)
    room = code.panel
    wanted = 8 * traits.compute_units
    enough = 4 * traits.compute_units

    # Where depth is long, work-groups share it; where it is not, each takes some of the tiles.
    deep = depth >= DEEP * max(lanes, what.outputs)
    fair = tiles if deep else tiles * what.groups // wanted
    # However little local memory there is, a panel has room for a unit of depth of each tile.
    fitting = room // (code.lanes * code.unit + code.slack)
    tiles_a_group = max(1, min(code.most_tiles, tiles, fair, fitting))
    packed_a_group = packed_tiles
    parallel = -(-tiles // tiles_a_group) * what.groups
    if parallel < enough and not deep:
        # Each of several work-groups then gathers the same tiles again.
        packed_a_group = max(1, packed_tiles * parallel // enough)
        parallel *= -(-packed_tiles // packed_a_group)
    splits = least = max(1, -(-depth // LONGEST_CHAIN))
    if parallel < enough or deep:
        splits = max(least, min(-(-wanted // parallel), depth // 512))
    if splits > traits.compute_units:  # then all of them are busy until the end
        splits = max(least, splits - splits % traits.compute_units)
    chunk = max(1, round_up(-(-depth // splits), code.unit))
    splits = max(1, -(-depth // chunk))

    padded = round_up(chunk, code.unit)
    # Few tiles have long blocks of depth; many need the packed operand fewer times.
    fewest = code.most_tiles if deep and not what.gathered.aliased else FEW_TILES
    while tiles_a_group > fewest and tiles_a_group * (code.lanes * padded + code.slack) > room:
        tiles_a_group -= 1
    tiles_a_group = -(-tiles // -(-tiles // tiles_a_group))  # equal shares: not four and one
    block = (room // tiles_a_group - code.slack) // code.lanes // code.unit * code.unit
    if splits > 1 and block < chunk < 2 * block:
        # For a short block sums would be written and read once more.
        splits = round_up(-(-depth // block), traits.compute_units)
        chunk = max(1, round_up(-(-depth // splits), code.unit))
        splits, padded = max(1, -(-depth // chunk)), round_up(chunk, code.unit)
    block = max(code.unit, min(padded, block))
    partial = 0
    if splits > 1 or block < chunk:
        tile = code.rows * code.vectors * code.width
        partial = splits * what.groups * tiles * packed_tiles * tile
    depth_padded = max(1, round_up(depth, code.unit))
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
