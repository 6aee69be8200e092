"""Which convolutions Winograd's algorithm can do, how it cuts them, and when that pays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from clprim.dtypes import AnyDType
from clprim.plan.conv.winograd.image import image_of
from clprim.plan.conv.winograd.transform import Transform, relative_error, sum_error, transform
from clprim.plan.cost import FULL, KERNEL, TURN, core_step
from clprim.plan.kernel import round_up
from clprim.plan.machine import LINE, near, second
from clprim.plan.product.problem import Contraction
from clprim.traits import DeviceTraits

# Taps along an axis that there are transforms of, and outputs of a tile that are worth a try: with
# more of them errors grow faster than products become fewer.
TAPS = (1, 2, 3, 5, 7)
OUTPUTS = {2: (2, 4), 3: (2, 4), 5: (2,), 7: (2, 3)}
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
# Tiles whose products are summed up in registers.
ROWS = (28, 14, 12, 9, 8, 6, 4, 2, 1)
# Bound: longer strides, of signals, have tiles of as many phases, which no work-item keeps to
# itself, and whose errors take seconds to compute.
MOST_STRIDE = 8
# What a vector costs that is transformed, and a line that comes from the second cache, and from
# beyond, as weights do in networks: in multiply-adds of vectors, as costs of sums of products.
MOVED, NEAR_LINE, FAR_LINE = 13.0, 8.0, 28.0


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


def winograd_applicable(problem: Contraction, traits: DeviceTraits) -> bool:
    """Whether Winograd's algorithm can do a convolution, with the error that is allowed."""
    x = problem.gathered
    return 1 in (x.depth[1], x.depth[2]) and _admitted(problem, traits) != ()


def admitted(problem: Contraction, *, chains: bool) -> tuple[int, ...]:
    """Returns the outputs of tiles that have a transform and no larger error than is allowed."""
    image = image_of(problem)
    if problem.value.kind != "f" or problem.depths[2] <= 0 or image is None:
        return ()
    # Of a stride every phase has some of the taps.
    pairs = zip(problem.depths[:2], image.strides, strict=True)
    taps = [-(-r // stride) if r >= stride or r == 1 else 0 for r, stride in pairs]
    if math.prod(taps) <= 1 or any(r not in TAPS for r in taps) or max(image.strides) > MOST_STRIDE:
        return ()
    sizes = OUTPUTS[max(taps)]
    return tuple(m for m in sizes if error_of(problem, m, chains=chains) <= problem.error)


def error_of(problem: Contraction, outputs: int, *, chains: bool) -> float:
    """Returns the relative root mean square error of tiles of so many rows of outputs."""
    chain = chain_of(problem, outputs) if chains else problem.depths[2]
    down, across = transforms_of(problem, outputs)
    return winograd_error(down, across, problem.depths[2], problem.value, chain)


def winograd_error(
    down: Transform, across: Transform, channels: int, value: AnyDType, chain: int | None = None
) -> float:
    """Returns the relative root mean square error of two transforms; see `relative_error`."""
    unit = float(np.finfo(np.float32 if value.itemsize == 4 else np.float64).eps) / 2
    return relative_error(down, across, channels, unit, chain=chain)


def chain_of(problem: Contraction, outputs: int) -> int:
    """Returns how many channels are added up in a row, so that F(4 × 4) errs little enough."""
    channels = problem.depths[2]
    if outputs < 4:
        return CHAINS[0]
    transforms = transforms_of(problem, outputs)
    most = MOST_ERROR * sum_error(min(math.prod(problem.depths), LEAST_SUM), 1)
    for chain in (*CHAINS, SHORT_CHAIN) if channels == CHAINS[-1] else CHAINS:
        if relative_error(*transforms, channels, 1, chain=chain, random_taps=True) <= most:
            return chain
    return CHAINS[0]


def transforms_of(problem: Contraction, outputs: int) -> tuple[Transform, Transform]:
    """Returns the transforms along columns and along rows of pixels."""
    image = image_of(problem)
    assert image is not None
    pairs = zip(problem.depths, image.strides, strict=False)
    down, across = (transform(outputs if r > 1 else 1, r, stride) for r, stride in pairs)
    return down, across


def vector_width(problem: Contraction, traits: DeviceTraits) -> int:
    """Returns how many elements a vector has."""
    return max(2, min(16, traits.vector_bytes // problem.value.itemsize))


def winograd_tile(problem: Contraction, traits: DeviceTraits) -> WinogradTile:
    """Returns the tile that promises most, of those whose errors are allowed."""
    tiles = (_tile_of(problem, traits, outputs) for outputs in _admitted(problem, traits))
    return min(tiles, key=lambda tile: winograd_cost(problem, traits, tile))


def fits_winograd(tile: WinogradTile, problem: Contraction, traits: DeviceTraits) -> bool:
    """Whether a tile can be taken for an applicable convolution, see `winograd_applicable`."""
    registers = traits.vector_registers
    sizes = (tile.rows, tile.vectors, tile.tiles)
    fits = (
        min(sizes) >= 1 and tile.kernels in (1, 2, 3) and (tile.rows + 1) * tile.vectors < registers
    )
    return fits and tile.outputs in _admitted(problem, traits)


def near_winograd(
    tile: WinogradTile, problem: Contraction, traits: DeviceTraits
) -> Iterator[WinogradTile]:
    """Yields tiles that are worth timing beside the rule's, those that promise most first."""
    for outputs in sorted(_admitted(problem, traits), reverse=True):
        found = _tile_of(problem, traits, outputs)
        candidates = [found]
        for kernels in {1, 3} - {found.kernels}:
            other = replace(found, kernels=kernels)
            candidates.append(replace(other, tiles=_block(problem, traits, other)))
        if found.fused:
            blocks = [round_up(int(found.tiles * factor), found.rows) for factor in (2, 0.5)]
            candidates += [replace(found, tiles=tiles) for tiles in blocks]
        yield from (c for c in dict.fromkeys(candidates) if c != tile)


def winograd_cost(problem: Contraction, traits: DeviceTraits, tile: WinogradTile) -> float:
    """Returns what a tile costs, in multiply-adds of vectors of the busiest core."""
    down, across = transforms_of(problem, tile.outputs)
    width = vector_width(problem, traits)
    elements, channels = down.size * across.size, problem.depths[2]
    tiles, vectors = tile_count(problem, tile.outputs), -(-problem.outputs // width)
    transformed = down.weights * across.weights
    blocks = 1 if tile.kernels == 3 else -(-tiles // tile.tiles)
    steps = elements * -(-tiles // tile.rows) * -(-vectors // tile.vectors) * channels
    sums = tile.rows * tile.vectors
    work = steps * (core_step(sums, tile.rows + tile.vectors) + FULL * sums)
    # Of a stride every phase is transformed for itself.
    phases = max(down.stride, across.stride)
    moved = elements * tiles * (phases * -(-channels // width) + vectors)
    if problem.gathered.depth[2] != 1:  # pixels and results of planes are transposed
        pixels = down.reads * across.reads * -(-channels // width)
        work += TURN * tiles * (pixels + down.m * across.m * vectors)
    lines = weight_lines(problem, transformed, traits)
    far = lines + elements * _leaving(problem, tile, width, traits) * _line(problem)
    # A kernel that transforms begins and ends as slowly as two.
    near, kernels = lines * (blocks - 1), 2 if tile.fused else 4
    if lines * LINE > second(traits):
        far, near = far + near, 0
    if not problem.kept:
        # Transformed weights are written as well, and far away, but where they meet products.
        kernels += 1
        moved += (blocks if tile.kernels == 2 else 1) * transformed * channels * vectors
        far += 0 if tile.kernels == 2 else lines
    work += MOVED * moved + NEAR_LINE * near + FAR_LINE * far
    share = 1 / traits.compute_units
    if tile.fused:
        share = _longest(problem, traits, tiles, tile.tiles)
        share /= problem.groups * (tiles + PASS * blocks)
    return problem.groups * work * share + KERNEL * kernels


def weight_lines(problem: Contraction, elements: int, traits: DeviceTraits) -> float:
    """Returns lines of a group's weights that have so many elements for a channel and an output."""
    outputs = round_up(problem.outputs, vector_width(problem, traits))
    return elements * problem.depths[2] * outputs * _line(problem)


def _line(problem: Contraction) -> float:
    """The part of a line that an element takes."""
    return problem.value.itemsize / LINE


def _leaving(problem: Contraction, tile: WinogradTile, width: int, traits: DeviceTraits) -> int:
    """Elements, one of each tile's, that are written, or read, beyond the second cache."""
    tiles, channels = tile_count(problem, tile.outputs), problem.depths[2]
    if tile.kernels == 3:
        return 2 * tiles * (channels + round_up(problem.outputs, width))
    down, across = transforms_of(problem, tile.outputs)
    strip = tile.vectors * width
    a_tile = down.size * across.size * problem.value.itemsize * (channels + strip)
    if not tile.fused or a_tile * min(tile.tiles, LEAST_TILES) <= second(traits):
        return 0
    return tiles * channels * -(-problem.outputs // strip)


def _admitted(problem: Contraction, traits: DeviceTraits) -> tuple[int, ...]:
    if not traits.is_cpu or traits.local_memory < near(traits):
        return ()
    width = vector_width(problem, traits)

    def lines(outputs: int) -> int:
        """Bytes of the lines of one tile, which are long where strides are."""
        down, across = transforms_of(problem, outputs)
        columns = round_up(across.reads, width) + 1
        return down.size * columns * width * problem.value.itemsize

    return tuple(m for m in admitted(problem, chains=True) if lines(m) <= near(traits))


def tile_count(problem: Contraction, outputs: int) -> int:
    """Returns how many tiles all images have, of so many rows and columns of outputs."""
    sizes = zip(problem.lanes[1:], transforms_of(problem, outputs), strict=True)
    return problem.lanes[0] * math.prod(-(-n // t.m) for n, t in sizes)


def _tile_of(problem: Contraction, traits: DeviceTraits, outputs: int) -> WinogradTile:
    """The rule's tile of F(outputs, …)."""
    tiles = tile_count(problem, outputs)
    vectors = -(-problem.outputs // vector_width(problem, traits))
    if not problem.kept:
        # Strips are what the workers share.
        rows, wide = _register_tile(tiles, vectors, traits, traits.compute_units)
        tile = WinogradTile(outputs, rows, wide, 1, kernels=2)
        chunks = _chunks(problem, traits, tile)
        if chunks is not None:
            return replace(tile, tiles=round_up(-(-tiles // chunks), rows))
    rows, wide = _register_tile(tiles, vectors, traits, 1)
    tile = WinogradTile(outputs, rows, wide, 1, kernels=1)
    tile = replace(tile, tiles=_block(problem, traits, tile))
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
    return replace(tile, tiles=_block(problem, traits, tile))


def _block(problem: Contraction, traits: DeviceTraits, tile: WinogradTile) -> int:
    """Tiles of a block: what a cache has room for, in equal shares."""
    down, across = transforms_of(problem, tile.outputs)
    width, tiles = vector_width(problem, traits), tile_count(problem, tile.outputs)
    itemsize = down.size * across.size * problem.value.itemsize
    channels = problem.depths[2]
    if tile.fused:
        room = second(traits) // 2 // (itemsize * (channels + tile.vectors * width))
        weights = down.weights * across.weights * channels * problem.outputs
        far = weights * problem.value.itemsize > traits.l2_bytes
        most = max(2 * LEAST_TILES if far else LEAST_TILES, room)
        found = range(tile.rows, max(most, tile.rows) + 1, tile.rows)
        return min(reversed(found), key=lambda block: _longest(problem, traits, tiles, block))
    columns = channels + round_up(problem.outputs, tile.vectors * width)
    room = traits.cache_bytes // (itemsize * columns * problem.groups)
    most = max(LEAST_TILES, room) // tile.rows * tile.rows or tile.rows
    return round_up(-(-tiles // -(-tiles // most)), tile.rows)


def _longest(problem: Contraction, traits: DeviceTraits, tiles: int, block: int) -> float:
    """Returns what the worker with most of the blocks has to do, in tiles."""
    blocks = -(-tiles // block)
    items, units = blocks * problem.groups, traits.compute_units
    bounds = [items * n // units for n in range(units + 1)]
    # The last block of a group is short.
    short = blocks * block - tiles
    return max(
        (end - begin) * (block + PASS) - (end // blocks - begin // blocks) * short
        for begin, end in pairwise(bounds)
    )


def _chunks(problem: Contraction, traits: DeviceTraits, tile: WinogradTile) -> int | None:
    """Parts of the tiles that are multiplied while some weights are near; None where too many."""
    down, across = transforms_of(problem, tile.outputs)
    strip = tile.vectors * vector_width(problem, traits)
    elements, tiles = down.size * across.size, tile_count(problem, tile.outputs)
    weights = down.weights * across.weights * problem.depths[2] * problem.outputs
    if weights * problem.value.itemsize < 2 * second(traits):
        return None
    room = second(traits) // (elements * strip * problem.value.itemsize) // tile.rows * tile.rows
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
    registers = traits.vector_registers

    def cost(tile: tuple[int, int]) -> float:
        rows, wide = tile
        step = rows * wide + rows + wide + 1
        return -(-tiles // rows) * round_up(-(-vectors // wide), shares) * step

    found = [
        (rows, wide)
        for wide in (4, 3, 2, 1)
        for rows in ROWS
        if (rows + 1) * wide < registers and (wide == 1 or wide <= vectors)
    ]
    return min(found, key=cost)
