"""Which convolutions Winograd's algorithm can do, how it cuts them, and when that pays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from clprim.dtypes import AnyDType
from clprim.plan.conv.winograd.image import image_of
from clprim.plan.conv.winograd.transform import Transform, relative_error, sum_error, transform
from clprim.plan.cost import WEIGHTS, core_step
from clprim.plan.kernel import round_up
from clprim.plan.machine import LINE, near, second
from clprim.plan.product.problem import Contraction
from clprim.plan.product.register_tile import lanes_of
from clprim.plan.strategy import Weighed
from clprim.traits import DeviceTraits

# Taps along an axis that there are transforms of, and outputs of a tile that are worth a try: with
# more of them errors grow faster than products become fewer.
OUTPUTS = {2: (2, 4), 3: (2, 4), 5: (2,), 7: (2, 3)}
# One tap needs no transform.
TAPS = (1, *OUTPUTS)
# Bound: channels whose products are added one after another, and then to what there is, which keeps
# errors small. Where all channels are 16, chains may be shorter than a vector, at a price.
CHAINS, SHORT_CHAIN = (64, 48, 32, 16), 4
# Bound: errors of F(4 × 4), of normally distributed numbers, are to be at most so many times those
# of sums of products, which add up this many in a row at least, where workers share their depth.
MOST_ERROR, LEAST_SUM = 2, 550
# Parts of the tiles that weights are worth to be transformed for again.
MOST_CHUNKS = 2
# Tiles of a block at least, even where its transforms leave a second cache: all weights are
# read again for each block. As many more as these are dearer from afar.
LEAST_TILES = 24
# What reading the weights again costs, in tiles.
PASS = 1.5
# Bound: longer strides, of signals, have tiles of as many phases, which no work-item keeps to
# itself, and whose errors take seconds to compute.
MOST_STRIDE = 8
# What a vector costs that is transformed, and a line that comes from the second cache, and from
# beyond, as weights do in networks: in multiply-adds of vectors, as costs of sums of products.
MOVED, NEAR_LINE, FAR_LINE = 13.0, 8.0, 28.0
# How many times as fast it has to promise to be, for its errors to be worth it.
LEAST_GAIN = 1.1


@dataclass(frozen=True)
class WinogradTile:
    """How the loops are cut."""

    outputs: int  # Rows and columns of outputs of a tile, m; 1 along an axis with one tap
    rows: int  # Tiles × vectors of outputs whose products are summed up in registers
    vectors: int
    tiles: int  # Of a block that is transformed before it is multiplied
    # 1, and blocks stay in a second cache; 3, one after another; or 2, and weights are transformed
    # where products need them, in a second cache
    kernels: int

    @property
    def fused(self) -> bool:
        """Whether one kernel does it all."""
        return self.kernels == 1


@dataclass(frozen=True)
class Tiling:
    """F(m, r) of a convolution: its transforms, and what all tiles of such outputs share."""

    problem: Contraction
    outputs: int  # Rows and columns of outputs of a tile, m; 1 along an axis with one tap
    down: Transform  # Along columns of pixels
    across: Transform
    elements: int  # Of a transformed tile
    weights: int  # Of a transformed window
    tiles: int  # Of all images

    @staticmethod
    def of(problem: Contraction, outputs: int, strides: tuple[int, int]) -> Tiling:
        """Returns that of a convolution's windows."""
        (rows, columns, _), (images, height, width) = problem.depths, problem.lanes
        down = transform(outputs if rows > 1 else 1, rows, strides[0])
        across = transform(outputs if columns > 1 else 1, columns, strides[1])
        elements, weights = down.size * across.size, down.weights * across.weights
        tiles = images * -(-height // down.m) * -(-width // across.m)
        return Tiling(problem, outputs, down, across, elements, weights, tiles)

    def error(self, chain: int) -> float:
        """Returns the relative root mean square error; see `relative_error`."""
        channels, value = self.problem.depths[2], self.problem.value
        return winograd_error(self.down, self.across, channels, value, chain)

    @cached_property
    def chain(self) -> int:
        """How many channels are added up in a row, so that F(4 × 4) errs little enough."""
        depths = self.problem.depths
        if self.outputs < 4:
            return CHAINS[0]
        most = MOST_ERROR * sum_error(min(math.prod(depths), LEAST_SUM), 1)
        both = self.down, self.across
        for chain in (*CHAINS, SHORT_CHAIN) if depths[2] == CHAINS[-1] else CHAINS:
            if relative_error(*both, depths[2], 1, chain=chain, random_taps=True) <= most:
                return chain
        return CHAINS[0]

    def weight_lines(self, elements: int, traits: DeviceTraits) -> float:
        """Returns lines of a group's weights of so many elements a channel and an output."""
        problem = self.problem
        outputs = round_up(problem.outputs, lanes_of(problem.value.itemsize, traits))
        return elements * problem.depths[2] * outputs * (problem.value.itemsize / LINE)


def tiling_of(problem: Contraction, outputs: int) -> Tiling:
    """Returns how tiles of so many rows of outputs cut a convolution."""
    image = image_of(problem)
    assert image is not None
    return Tiling.of(problem, outputs, image.strides)


def admitted(problem: Contraction, *, chains: bool) -> list[Tiling]:
    """Returns the tilings that have a transform and no larger error than is allowed."""
    image = image_of(problem)
    if problem.value.kind != "f" or problem.depths[2] <= 0 or image is None:
        return []
    # Of a stride every phase has some of the taps.
    pairs = zip(problem.depths[:2], image.strides, strict=True)
    taps = [-(-r // stride) if r >= stride or r == 1 else 0 for r, stride in pairs]
    if math.prod(taps) <= 1 or any(r not in TAPS for r in taps) or max(image.strides) > MOST_STRIDE:
        return []
    every = [Tiling.of(problem, m, image.strides) for m in OUTPUTS[max(taps)]]
    depth = problem.depths[2]
    return [t for t in every if t.error(t.chain if chains else depth) <= problem.error]


def winograd_error(
    down: Transform, across: Transform, channels: int, value: AnyDType, chain: int | None = None
) -> float:
    """Returns the relative root mean square error of two transforms; see `relative_error`."""
    unit = 2.0**-24 if value.itemsize == 4 else 2.0**-53
    return relative_error(down, across, channels, unit, chain=chain)


def winograd_tile(problem: Contraction, traits: DeviceTraits) -> Weighed | None:
    """Returns the tile of the least cost whose error is allowed, beside sums of far weights."""
    tilings = _admitted(problem, traits)
    if not tilings:
        return None
    tiles = ((_tile_of(tiling, traits), tiling) for tiling in tilings)
    cost, _, tile, tiling = min(
        (winograd_cost(tiling, traits, tile), n, tile, tiling)
        for n, (tile, tiling) in enumerate(tiles)
    )
    taps = math.prod(problem.depths[:2])
    lines = problem.groups * tiling.weight_lines(taps, traits)
    return Weighed(cost * LEAST_GAIN - FAR_LINE * lines / traits.compute_units, tile)


def fits_winograd(tile: WinogradTile, problem: Contraction, traits: DeviceTraits) -> bool:
    """Whether a tile can be taken for a convolution that `winograd_tile` finds one for."""
    sizes = (tile.rows, tile.vectors, tile.tiles)
    fits = min(sizes) >= 1 and tile.kernels in (1, 2, 3)
    fits = fits and (tile.rows + 1) * tile.vectors < traits.vector_registers
    return fits and any(t.outputs == tile.outputs for t in _admitted(problem, traits))


def near_winograd(
    tile: WinogradTile, problem: Contraction, traits: DeviceTraits
) -> Iterator[WinogradTile]:
    """Yields tiles that are worth timing beside the rule's, those that promise most first."""
    for tiling in reversed(_admitted(problem, traits)):
        found = _tile_of(tiling, traits)
        candidates = [found]
        for kernels in {1, 3} - {found.kernels}:
            other = replace(found, kernels=kernels)
            candidates.append(replace(other, tiles=_block(tiling, traits, other)))
        if found.fused:
            blocks = [round_up(int(found.tiles * factor), found.rows) for factor in (2, 0.5)]
            candidates += [replace(found, tiles=tiles) for tiles in blocks]
        yield from (c for c in dict.fromkeys(candidates) if c != tile)


def winograd_cost(tiling: Tiling, traits: DeviceTraits, tile: WinogradTile) -> float:
    """Returns what a tile costs, in multiply-adds of vectors of the busiest core."""
    problem, down, across = tiling.problem, tiling.down, tiling.across
    width = lanes_of(problem.value.itemsize, traits)
    elements, tiles, channels = tiling.elements, tiling.tiles, problem.depths[2]
    vectors = -(-problem.outputs // width)
    blocks = 1 if tile.kernels == 3 else -(-tiles // tile.tiles)
    steps = elements * -(-tiles // tile.rows) * -(-vectors // tile.vectors) * channels
    sums = tile.rows * tile.vectors
    w = WEIGHTS
    work = steps * (core_step(sums, tile.rows + tile.vectors) + w.full * sums)
    # Of a stride every phase is transformed for itself.
    phases = max(down.stride, across.stride)
    moved = elements * tiles * (phases * -(-channels // width) + vectors)
    if problem.gathered.depth[2] != 1:  # pixels and results of planes are transposed
        pixels = down.reads * across.reads * -(-channels // width)
        work += w.turn * tiles * (pixels + down.m * across.m * vectors)
    lines = tiling.weight_lines(tiling.weights, traits)
    leaving = elements * _leaving(tiling, tile, width, traits)
    far = lines + leaving * (problem.value.itemsize / LINE)
    # A kernel that transforms begins and ends as slowly as two.
    near, kernels = lines * (blocks - 1), 2 if tile.fused else 4
    if lines * LINE > second(traits):
        far, near = far + near, 0
    if not problem.kept:
        # Transformed weights are written as well, and far away, but where they meet products.
        kernels += 1
        moved += (blocks if tile.kernels == 2 else 1) * tiling.weights * channels * vectors
        far += 0 if tile.kernels == 2 else lines
    work += MOVED * moved + NEAR_LINE * near + FAR_LINE * far
    share = 1 / traits.compute_units
    if tile.fused:
        share = _longest(tiling, traits, tile.tiles)
        share /= problem.groups * (tiles + PASS * blocks)
    return problem.groups * work * share + w.kernel * kernels


def _leaving(tiling: Tiling, tile: WinogradTile, width: int, traits: DeviceTraits) -> int:
    """Elements, one of each tile's, that are written, or read, beyond the second cache."""
    problem, tiles, channels = tiling.problem, tiling.tiles, tiling.problem.depths[2]
    if tile.kernels == 3:
        return 2 * tiles * (channels + round_up(problem.outputs, width))
    strip = tile.vectors * width
    a_tile = tiling.elements * problem.value.itemsize * (channels + strip)
    if not tile.fused or a_tile * min(tile.tiles, LEAST_TILES) <= second(traits):
        return 0
    return tiles * channels * -(-problem.outputs // strip)


def _admitted(problem: Contraction, traits: DeviceTraits) -> list[Tiling]:
    """The tilings of a CPU, whose cache keeps the lines of a tile, which are long of strides."""
    x = problem.gathered
    side_by_side = 1 in (x.depth[1], x.depth[2])
    if not traits.is_cpu or traits.local_memory < near(traits) or not side_by_side:
        return []
    width = lanes_of(problem.value.itemsize, traits)
    room = near(traits) // (width * problem.value.itemsize)
    found = admitted(problem, chains=True)
    return [t for t in found if t.down.size * (round_up(t.across.reads, width) + 1) <= room]


def _tile_of(tiling: Tiling, traits: DeviceTraits) -> WinogradTile:
    """The rule's tile of F(outputs, …)."""
    problem, tiles, outputs = tiling.problem, tiling.tiles, tiling.outputs
    vectors = -(-problem.outputs // lanes_of(problem.value.itemsize, traits))
    if not problem.kept:
        # Strips are what the workers share.
        rows, wide = _register_tile(tiles, vectors, traits, traits.compute_units)
        tile = WinogradTile(outputs, rows, wide, 1, kernels=2)
        chunks = _chunks(tiling, traits, tile)
        if chunks is not None:
            return replace(tile, tiles=round_up(-(-tiles // chunks), rows))
    rows, wide = _register_tile(tiles, vectors, traits, 1)
    tile = WinogradTile(outputs, rows, wide, 1, kernels=1)
    tile = replace(tile, tiles=_block(tiling, traits, tile))
    blocks = -(-tiles // tile.tiles)
    # Either all weights are read for each block, or transforms are written and read again.
    channels = problem.depths[2]
    weights = channels * problem.outputs
    stays = second(traits) // 4
    pieces = -(-tiles * channels * problem.value.itemsize // stays)
    # The latter takes twice what a weight takes that is streamed, and twice that from afar.
    far = weights * pieces + 4 * tiles * (channels + problem.outputs)
    if weights * blocks <= far and blocks * problem.groups >= traits.compute_units:
        return tile
    tile = replace(tile, kernels=3)
    return replace(tile, tiles=_block(tiling, traits, tile))


def _block(tiling: Tiling, traits: DeviceTraits, tile: WinogradTile) -> int:
    """Tiles of a block: what a cache has room for, in equal shares."""
    problem, tiles, channels = tiling.problem, tiling.tiles, tiling.problem.depths[2]
    width = lanes_of(problem.value.itemsize, traits)
    itemsize = tiling.elements * problem.value.itemsize
    if tile.fused:
        room = second(traits) // 2 // (itemsize * (channels + tile.vectors * width))
        weights = tiling.weights * channels * problem.outputs
        far = weights * problem.value.itemsize > traits.l2_bytes
        most = max(2 * LEAST_TILES if far else LEAST_TILES, room)
        found = range(tile.rows, max(most, tile.rows) + 1, tile.rows)
        return min(reversed(found), key=lambda block: _longest(tiling, traits, block))
    columns = channels + round_up(problem.outputs, tile.vectors * width)
    room = traits.cache_bytes // (itemsize * columns * problem.groups)
    most = max(LEAST_TILES, room) // tile.rows * tile.rows or tile.rows
    return round_up(-(-tiles // -(-tiles // most)), tile.rows)


def _longest(tiling: Tiling, traits: DeviceTraits, block: int) -> float:
    """Returns what the worker with most of the blocks has to do, in tiles."""
    blocks = -(-tiling.tiles // block)
    items, units = blocks * tiling.problem.groups, traits.compute_units
    bounds = [items * n // units for n in range(units + 1)]
    # The last block of a group is short.
    short = blocks * block - tiling.tiles
    return max(
        (end - begin) * (block + PASS) - (end // blocks - begin // blocks) * short
        for begin, end in pairwise(bounds)
    )


def _chunks(tiling: Tiling, traits: DeviceTraits, tile: WinogradTile) -> int | None:
    """Parts of the tiles that are multiplied while some weights are near; None where too many."""
    problem, tiles = tiling.problem, tiling.tiles
    strip = tile.vectors * lanes_of(problem.value.itemsize, traits)
    weights = tiling.weights * problem.depths[2] * problem.outputs
    if weights * problem.value.itemsize < 2 * second(traits):
        return None
    a_tile = tiling.elements * strip * problem.value.itemsize
    room = second(traits) // a_tile // tile.rows * tile.rows
    strips, units = -(-problem.outputs // strip) * problem.groups, traits.compute_units
    for chunks in range(-(-tiles // max(room, tile.rows)), MOST_CHUNKS + 1):
        items = strips * chunks
        if items >= 4 * units or items % units == 0:
            return chunks
    return None


def _register_tile(tiles: int, vectors: int, traits: DeviceTraits, shares: int) -> tuple[int, int]:
    """Tiles × vectors of outputs that fill the registers and leave little over at the ends."""
    # A step of k costs a product for each sum, as much for each load of what they share, and one
    # for itself.
    registers, best, least = traits.vector_registers, (1, 1), math.inf
    for wide in (4, 3, 2, 1):
        strips = round_up(-(-vectors // wide), shares)
        for rows in range(registers - 2, 0, -1):
            cost = -(-tiles // rows) * strips * (rows * wide + rows + wide + 1)
            if (rows + 1) * wide < registers and wide <= max(vectors, 1) and cost < least:
                best, least = (rows, wide), cost
    return best
