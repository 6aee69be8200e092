"""How the loops of a contraction whose rows are read in place are cut into work-groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clprim.plan.kernel import round_up
from clprim.plan.machine import ITEMS, LINE, PAGE, UNROLL
from clprim.plan.product.problem import Bounds, Contraction
from clprim.plan.product.register_code import ContractionCode, Prefetch
from clprim.plan.product.register_tile import PANEL_BYTES, lanes_of
from clprim.plan.product.shape import Shape
from clprim.traits import DeviceTraits

# Gathered tiles that a work-group takes: each strip of the packed operand is fetched from the far
# cache once and then used this many times.
TILES = 32
# Work-groups of a unit that are enough where each runs a snippet on what it reads.
GROUPS_READING = 2
# How much sooner the last core must be done with other tiles of a work-group, of a matrix: an odd
# work-group keeps one core of two waiting.
SOONER = 0.98
# The part of a second cache for the matrix that a work-group keeps while it streams packed tiles.
# A smaller one does no harm, since a tile reads its rows at only a few bytes a cycle.
NEAR = 0.75
# Lines of a strip that are prefetched every `UNROLL` steps of k.
LINES = 2
# Pixels that lie so many times as far apart as they are long are prefetched with what is between.
GAP = 2
# Passes of a strip for each of its pieces at most: where they are more, waiting for the first one
# costs less than prefetching.
PASSES = 4
# Fewest lanes that a strip of the packed operand is used for, if it is fetched from a far cache.
FEW_LANES = 32


@dataclass(frozen=True)
class WorkGroupCut:
    """How the loops are cut; a work-group takes so many rows of so many tiles."""

    tiles: int
    packed_tiles: int
    tiles_a_group: int
    rows_a_group: int
    packed_a_group: int

    def row_groups(self, what: Contraction) -> int:
        """Work-groups that share the rows of all images."""
        return what.lanes[0] * -(-what.lanes[1] // self.rows_a_group)


def cut_loops(what: Contraction, code: Shape, traits: DeviceTraits) -> WorkGroupCut | None:
    """Returns what a work-group takes, or None where rows are not to be read in place."""
    # That is where no row buffer fits into local memory, a strip would serve too few lanes, or
    # splitting the depth keeps more of the device busy.
    images, rows, lanes = what.lanes
    tiles = -(-lanes // code.lanes)
    packed_tiles = -(-what.outputs // code.packed_lanes)
    wanted = ITEMS * traits.compute_units
    enough = 4 * traits.compute_units
    channels = what.depths[2]
    bounds = what.gathered.bounds

    # The gathered tiles stay in the L2 cache while the packed ones are streamed.
    near = TILES
    if bounds is None:
        near = int(NEAR * traits.l2_bytes)
        near = max(1, near // what.value.itemsize // (code.lanes * channels))
    products = images * rows * tiles * packed_tiles * what.groups // wanted
    # The shape of a block of tiles that reads the least of both operands together.
    fair = math.isqrt(products * code.packed_lanes // code.lanes)
    fair = max(1, images * rows * tiles * what.groups // wanted, fair)
    most = min(tiles, TILES, near, fair)
    tiles_a_group = -(-tiles // -(-tiles // most))
    if bounds is None:
        lines = images * rows * what.groups
        ends = {
            some: _end(some, tiles, packed_tiles, lines, traits.compute_units)
            for some in range(most // 2 + 1, min(tiles, TILES, most + most // 8) + 1)
        }
        best = min(reversed(ends), key=ends.__getitem__)
        if ends[best] < SOONER * ends[tiles_a_group]:
            tiles_a_group = best
    rows_a_group = max(1, min(rows, TILES // tiles_a_group)) if tiles_a_group == tiles else 1
    if code.transposed and tiles_a_group == tiles:
        rows_a_group = rows  # as many as the row buffer has room for: its rows overlap
    # Several work-groups may share lines, each with some of the packed tiles: better than few lines
    # each, for which a strip would come from afar again and again.
    shares = what.groups * packed_tiles
    while rows_a_group > 1 and images * -(-rows // rows_a_group) * shares < wanted:
        rows_a_group -= 1
    if bounds is not None:
        while _buffered(what, bounds, code, tiles_a_group, rows_a_group) + code.width > code.panel:
            if rows_a_group > 1:
                rows_a_group -= 1
            elif tiles_a_group > 1:
                tiles_a_group -= 1
            else:
                return None
        strip = code.packed_lanes * math.prod(what.depths) * what.value.itemsize
        passed = rows_a_group * min(tiles_a_group * code.lanes, lanes)
        if strip > PANEL_BYTES and passed < FEW_LANES:
            return None  # a panel holds windows of several images
    parallel = images * -(-rows // rows_a_group) * -(-tiles // tiles_a_group) * what.groups
    # Work-groups that share lanes each run the prologue on all of them.
    groups = ITEMS if what.prologue.snippet is None else GROUPS_READING
    packed_a_group = _packed_share(packed_tiles, parallel, groups * traits.compute_units)
    parallel *= -(-packed_tiles // packed_a_group)
    if parallel < enough and math.prod(what.depths) >= 1024 and what.plain is None:
        return None  # splitting the depth gives more
    return WorkGroupCut(tiles, packed_tiles, tiles_a_group, rows_a_group, packed_a_group)


def _packed_share(packed_tiles: int, parallel: int, wanted: int) -> int:
    """Packed tiles of a work-group, where so many others take no part of them; equal shares."""
    share = max(1, min(packed_tiles, packed_tiles * parallel // wanted))
    return -(-packed_tiles // -(-packed_tiles // share))


def _end(some: int, tiles: int, packed_tiles: int, lines: int, units: int) -> int:
    """When work-groups of so many tiles are done, in half tiles; fetching a strip takes one."""
    # Some runtimes hand out work-groups one by one, others give a unit its part of those left.
    blocks = -(-tiles // some)
    share = _packed_share(packed_tiles, lines * blocks, ITEMS * units)
    whole = lines * (tiles // some) * (packed_tiles // share)
    groups = lines * blocks * -(-packed_tiles // share)
    rounds = -(-whole // units)
    edges = max(0, groups - rounds * units)
    edge = max((2 * (tiles % some) + 1) * share, (2 * some + 1) * (packed_tiles % share))
    full = (2 * some + 1) * share
    one_by_one = rounds * full + -(-edges // units) * edge
    passes, rest = divmod(-(-groups // units), lines * blocks)
    return max(one_by_one, passes * lines * (2 * tiles + blocks) * share + rest * full)


def _buffered(what: Contraction, bounds: Bounds, code: Shape, tiles: int, rows: int) -> int:
    """Elements of the row buffer that so many rows of so many tiles need."""
    height = (rows - 1) * bounds.row_lane[1] + (what.depths[0] - 1) * bounds.row_depth[0] + 1
    lanes = min(tiles * code.lanes, what.lanes[2])
    width = (lanes - 1) * bounds.column_lane[1]
    width += (what.depths[1] - 1) * bounds.column_depth[0] + 1
    if code.alternate:  # two parts of whole vectors
        width = round_up(width, 2 * code.width)
    return height * width * what.depths[2]


def strip_prefetch(
    what: Contraction, code: ContractionCode, passes: int, strips: int, traits: DeviceTraits
) -> Prefetch | None:
    """Returns how a strip is prefetched while the one before it is passed, or None: it is near."""
    # No hardware looks as far ahead as the end of a strip, and its first pass would wait for
    # memory. A weight that stays in a near cache is better left alone.
    size = what.value.itemsize
    if not traits.prefetch or code.passed_in_place or strips == 1:
        return None
    packed = what.groups * what.outputs * math.prod(what.depths) * size
    if packed <= NEAR * traits.l2_bytes:
        return None
    if code.planar:
        # Halves, which each of two passes takes.
        lines = code.unit * code.packed_lanes * size // (2 * LINE)
        whole = code.unit % UNROLL == 0 and passes > 1
        return Prefetch("strip", 2, lines, LINE // size, code.packed_lanes // 2) if whole else None
    if code.gathered == "columns":
        # A row of a strip is shorter than a line: the first pass takes all.
        lines = -(-code.packed_lanes * size // LINE)
        whole = code.unit == 1 and passes > 1
        return Prefetch("strip", 1, lines, LINE // size) if whole else None
    pieces = UNROLL * code.packed_lanes * size // (LINES * LINE)
    if code.unit % UNROLL or not pieces <= passes <= PASSES * pieces:
        return None
    lines = LINES * code.unit // UNROLL
    return Prefetch("strip", pieces, lines, LINE // size, code.packed_lanes // pieces)


def has_near_lanes(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether a near cache has all lanes of a contraction without windows."""
    lanes = what.groups * math.prod(what.lanes) * math.prod(what.depths)
    return lanes * what.gathered.dtype.itemsize <= NEAR * traits.l2_bytes


def lane_prefetch(
    what: Contraction, code: ContractionCode, traits: DeviceTraits
) -> Prefetch | None:
    """Returns how the next tile's lanes are prefetched while a tile is summed up."""
    # They are one piece of memory, but a tile walks all its rows at once, so that no hardware sees
    # it unless they are long. Near ones are better left alone.
    size, x = what.value.itemsize, what.gathered
    depth = what.depths[2]
    whole = x.bounds is None and x.lane[2] == depth == math.prod(what.depths)
    if not (
        traits.prefetch and whole and code.gathered == "rows" and not has_near_lanes(what, traits)
    ):
        return None
    # Hardware follows long rows, if all outputs are one vector, whose sums leave memory no pause.
    if depth * size > PAGE and what.outputs <= lanes_of(size, traits):
        return None
    return Prefetch("lanes", 1, -(-code.lanes * code.unit * size // LINE), LINE // size)


def row_prefetch(
    what: Contraction, code: ContractionCode, strips: int, traits: DeviceTraits
) -> Prefetch | None:
    """Returns how what the next work-item copies is prefetched while tiles are summed up."""
    # A line every four steps of k is soon enough, but for a snippet that waits for every pixel.
    line, depth, step = LINE // what.value.itemsize, what.depths[2], what.gathered.lane[2]
    near = code.dense if code.prologue is None else depth <= step <= GAP * depth
    rows = code.gathered == "rows" and near and not code.planar
    if not (traits.prefetch and rows and code.unit == UNROLL):
        return None
    lines, share = 1, line // UNROLL
    if code.prologue is not None:
        lines = -(-code.lanes * step // (depth * share * strips))
    return Prefetch("rows", 0, lines, line, share)
