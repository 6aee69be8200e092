"""Ways to read a contraction in place: readings and tiles, and what each costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from clprim.plan.cost import CoreWork
from clprim.plan.epilogue import NO_EPILOGUE
from clprim.plan.kernel import round_up
from clprim.plan.machine import LINE, PAGE
from clprim.plan.machine import second as second_cache
from clprim.plan.product.cut import NEAR, TILES, WorkGroupCut, cut_loops
from clprim.plan.product.pack import packing_work, passes_in_place
from clprim.plan.product.problem import Contraction, result_bytes
from clprim.plan.product.reading import Reading, forms_of, pixel_steps, readings_of
from clprim.plan.product.register_code import streaming_stores
from clprim.plan.product.register_tile import (
    PANEL_BYTES,
    Tile,
    lanes_of,
    panel_of,
    promising,
    tiles_of,
)
from clprim.plan.product.shape import Shape
from clprim.traits import DeviceTraits

# A result of so many second caches is not kept there until it is written again.
FAR = 1.5
# Pages whose places in memory a processor knows at a time.
PAGES = 256
# Lines that a core writes to memory at a time.
WRITTEN = 16


@dataclass(frozen=True)
class Outline:
    """One way to read a contraction in place."""

    what: Contraction  # The contraction, by the loops that are taken
    reading: Reading  # How its lanes are read
    tile: Tile
    work: CoreWork  # What all of it does, but for how work-groups share it
    shape: Shape  # Of tiles, for the cut

    def cut(self, traits: DeviceTraits) -> tuple[float, WorkGroupCut] | None:
        """Returns what it costs, and the tiles of a work-group; None where there is no room."""
        cut = cut_loops(self.what, self.shape, traits)
        if cut is None:
            return None
        groups = cut.row_groups(self.what) * -(-cut.tiles // cut.tiles_a_group)
        shares = -(-cut.packed_tiles // cut.packed_a_group)
        groups *= shares * self.what.groups
        work = replace(self.work, groups=groups)
        if shares > 1 and self.what.gathered.bounds is not None:  # each copies the same windows
            work = replace(work, copies=shares * work.copies, elements=shares * work.elements)
        return work.cost(traits), cut


def best_outline(
    what: Contraction, traits: DeviceTraits, tile: Tile | None = None
) -> tuple[float, Outline, WorkGroupCut] | None:
    """Returns the outline of the least cost, with it and its cut; None where there is none."""
    best: tuple[float, Outline, WorkGroupCut] | None = None
    for outline in _outlines(what, traits, tile):
        cut = outline.cut(traits)
        if cut is not None and (best is None or cut[0] < best[0]):
            best = cut[0], outline, cut[1]
    return best


def ordered_tiles(what: Contraction, traits: DeviceTraits, count: int) -> list[Tile]:
    """Returns the tiles that promise most, of so many."""
    found = sorted(_outlines(what, traits), key=lambda outline: outline.work.cost(traits))
    return [*dict.fromkeys(outline.tile for outline in found)][:count]


def _outlines(
    what: Contraction, traits: DeviceTraits, tile: Tile | None = None
) -> Iterator[Outline]:
    width, panel = lanes_of(what.value.itemsize, traits), panel_of(what.value.itemsize, traits)
    for form in forms_of(what):
        for reading in readings_of(form, traits):
            if form.prologue.snippet is not None and not reading.along_outputs:
                continue
            waits = _waits(form, reading, width, traits)
            for one in _tiles(form, reading, width, traits, tile):
                shape = Shape(
                    one.rows,
                    one.vectors,
                    width,
                    panel,
                    reading.rows,
                    reading.transposed,
                    reading.alternate,
                )
                work = _work(form, reading, one, shape, traits, waits)
                yield Outline(form, reading, one, work, shape)


def _tiles(
    what: Contraction, reading: Reading, width: int, traits: DeviceTraits, tile: Tile | None
) -> list[Tile]:
    """The tiles that promise most, of those that lines have room for; or the given one."""
    lanes, outputs = what.lanes[2], what.outputs
    plain = what.epilogue == NO_EPILOGUE
    every: Iterable[Tile] = tiles_of(traits, plain=plain) if tile is None else (tile,)
    if reading.transposed:  # a tile has the outputs of a pixel
        every = (Tile(outputs, v) for v in (4, 2, 1) if tile in (None, Tile(outputs, v)))
    # A line's last tile is moved back so far that it ends where the line does.
    if reading.rows:
        fitting = [t for t in every if t.rows <= lanes]
        return promising(lanes, outputs, width, fitting)
    fitting = [t for t in every if t.vectors * width <= lanes]
    return promising(outputs, lanes, width, fitting)


def _work(
    what: Contraction,
    reading: Reading,
    tile: Tile,
    shape: Shape,
    traits: DeviceTraits,
    waits: Callable[[Shape], int],
) -> CoreWork:
    """What tiles of a contraction do: sums, stores, and copies of the windows."""
    width, (images, lines, lanes) = shape.width, what.lanes
    across, down = -(-lanes // shape.lanes), -(-what.outputs // shape.packed_lanes)
    planes = what.groups * images * lines
    tiles, sums, depth = planes * across * down, tile.rows * tile.vectors, math.prod(what.depths)
    turns = pieces = 0.0
    if reading.planar:
        stores = turns = float(tiles * tile.vectors * round_up(tile.rows, width))
    else:
        # Of the last vectors of a line, or of outputs, there are pieces.
        size, ends = (what.outputs, down) if reading.rows else (lanes, across)
        left = size % (tile.vectors * width)
        stores = tiles * sums * (1 - (left > 0) / ends)
        if left:
            odd = left % width if reading.rows else (left % width).bit_count()
            pieces = tiles / ends * tile.rows * (tile.vectors + left // width + odd)
    bounds, copies, elements = what.gathered.bounds, 0.0, 0.0
    if bounds is not None:
        height = lines * bounds.row_lane[1] + (what.depths[0] - 1) * bounds.row_depth[0]
        row = lanes * bounds.column_lane[1] + (what.depths[1] - 1) * bounds.column_depth[0]
        pixels = what.groups * images * height * row * what.depths[2]
        if reading.planar and pixel_steps(what, bounds)[1] != 1:
            elements = float(pixels)
        else:
            copies = pixels / width
    kernels = 1
    if not (what.kept or passes_in_place(what, shape, -(-planes * lanes // shape.lanes), traits)):
        kernels, packed = 2, packing_work(what, down * shape.packed_lanes)
        copies, elements = copies + packed[0] / width, elements + packed[1]
    second, far = _lines(what, shape, across * lines, down, traits)
    return CoreWork(
        steps=tiles * depth,
        sums=sums,
        operands=tile.rows + tile.vectors,
        full=tile.fills(traits),
        tiles=tiles,
        second=tiles * depth * second,
        far=tiles * depth * far,
        stores=stores,
        pieces=pieces,
        waits=tiles * waits(shape),
        turns=turns + (tiles * sums if reading.transposed else 0),
        copies=copies,
        elements=elements,
        kernels=kernels,
    )


def _lines(
    what: Contraction, shape: Shape, passes: int, strips: int, traits: DeviceTraits
) -> tuple[float, float]:
    """Lines a step that come from the second cache, and from beyond it."""
    x, size, depth = what.gathered, what.value.itemsize, math.prod(what.depths)
    strip = shape.packed_lanes * depth * size
    own = shape.lanes * depth * size
    if x.bounds is not None:  # windows overlap
        row = (shape.lanes - 1) * x.bounds.column_lane[1] + what.depths[1]
        own = row * what.depths[0] * what.depths[2] * size
    of_strip, of_lanes = shape.packed_lanes * size / LINE, shape.lanes * size / LINE
    passes, room = min(TILES // 2, passes), NEAR * traits.l1_bytes
    second = 0.0
    if strips * strip + own > room:
        if strips * strip <= PANEL_BYTES or passes == 1:
            second = of_strip
        else:
            second = of_lanes + (of_strip if strip + own > room else 0)
    stays = second_cache(traits)
    far = of_strip if strip > stays else of_strip / passes if strips * strip > stays else 0.0
    if x.bounds is None:
        step = (x.lane[2] if shape.lanes_are_rows else x.depth[2]) * x.dtype.itemsize
        many = not shape.lanes_are_rows and depth * min(step, PAGE) > PAGES * PAGE
        again = shape.lanes_are_rows or strips > 1
        if again and (many or step % (PAGE // 2) == 0):
            far += of_lanes
    return second, far


def _waits(
    what: Contraction, reading: Reading, width: int, traits: DeviceTraits
) -> Callable[[Shape], int]:
    """Returns how many lines of tiles wait to be stored: those that no buffer has room for."""
    # Lines that follow each other wait as one, unless they pass the caches.
    if streaming_stores(what, width, traits, along_outputs=reading.along_outputs):
        return lambda shape: max(0, shape.rows * shape.vectors - WRITTEN)
    if result_bytes(what) <= FAR * traits.l2_bytes:
        return lambda _: 0
    if reading.planar:
        return lambda shape: shape.packed_lanes
    outputs = what.outputs if reading.rows else math.inf
    return lambda shape: 1 if shape.packed_lanes >= outputs else shape.rows
