"""How the CPU strategies of contractions cut what caches and cores make dear."""

import itertools
from dataclasses import replace

import numpy as np

from clprim.plan.conv.dense import CPU, dense_convolution
from clprim.plan.conv.lowering import contractions, forward
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import PRODUCTS
from clprim.plan.product.in_place import FEW_ROWS
from clprim.plan.product.outline import _outlines, best_outline, ordered_tiles
from clprim.plan.product.register_tile import Tile, tiles_of

plan_in_place, plan_panels = (PRODUCTS.strategy(name).planned for name in ("in_place", "panels"))


def _pixels(channels, outputs, traits=CPU):
    """The kernel of a convolution of single pixels."""
    image = dense_convolution(8, channels, 14, outputs, 1, last=True)
    return plan_in_place(forward(image), traits).main.code


def test_results_that_no_cache_holds_go_past_it():
    def code(*sizes, traits=CPU, plan=plan_in_place, **options):
        return plan(forward(dense_convolution(*sizes, **options)), traits).main.code

    large = (32, 16, 56, 96, 1)
    for last in (False, True):
        assert code(*large, last=last).streaming
        assert code(*large, last=last, plan=plan_panels).streaming
        assert not code(8, 16, 56, 96, 1, last=last).streaming
        assert not code(*large, last=last, beta=True).streaming
        assert not code(*large, last=last, traits=replace(CPU, streaming=False)).streaming
    # A residual is read as well; nothing is stored past a cache that has brought its lines.
    residual = {"epilogue": "y0 += x0;", "last": True}
    assert code(16, 16, 56, 96, 1, **residual).streaming
    what = forward(dense_convolution(*large, **residual))
    what = replace(what, epilogue=replace(what.epilogue, in_place=True))
    assert not plan_in_place(what, CPU).main.code.streaming
    # Vectors would not be lines of memory, or not whole ones.
    assert not code(32, 16, 56, 100, 1, last=True).streaming
    assert not code(32, 16, 55, 96, 1).streaming
    assert not code(8, 64, 112, 96).streaming


def test_the_tile_that_is_chosen_costs_least():
    for what in (
        dense_product(96, 128, 64),
        dense_product(5, 123, 631),
        forward(dense_convolution(2, 32, 14, 64, last=True)),
        forward(dense_convolution(2, 32, 14, 64)),
        forward(dense_convolution(2, 64, 14, 32, 1)),
    ):
        least, outline, _ = best_outline(what, CPU, None)
        for tile in ordered_tiles(what, CPU, 99):
            other = best_outline(what, CPU, tile)
            assert other is None or other[1].tile == tile
            assert other is None or other[0] >= 0.98 * least, (tile, outline.tile)
        assert outline.tile.rows * outline.tile.vectors >= 6  # else sums wait for each other


def test_many_rows_have_a_constant_step():
    for rows, step in (FEW_ROWS, 0), (13, 1040):
        what = forward(dense_convolution(8, 1040, 14, 64, 1, last=True))
        assert plan_in_place(what, CPU, Tile(rows, 2)).main.code.step == step


def test_pixels_of_every_second_column_are_sorted():
    def code(channels, size, outputs, **options):
        image = dense_convolution(8, channels, size, outputs, **options)
        return plan_in_place(forward(image), CPU).main.code

    strided = code(3, 112, 16, stride=2)
    assert (strided.gathered, strided.alternate) == ("columns", True)
    assert code(3, 112, 64, stride=3).planar
    assert code(8, 14, 64, stride=2).planar


def test_lines_of_a_few_places_of_a_cache_are_far():
    def far(size, channels):
        what = forward(dense_convolution(8, channels, size, 64, 1))
        (columns,) = (
            o for o in _outlines(what, CPU, Tile(13, 2)) if o.what.gathered.bounds is None
        )
        return columns.work.far / columns.work.steps

    assert far(28, 64) == 0
    assert far(32, 64) == 2  # a multiple of half a page apart
    assert far(56, 512) == 2  # more pages than a processor knows at a time


def test_few_planes_are_read_in_place():
    def code(channels, outputs, **options):
        plan = plan_in_place(forward(dense_convolution(8, channels, 112, outputs, **options)), CPU)
        return plan.main.code if plan is not None else None

    for channels in (1, 2, 3):
        assert code(channels, 8).gathered == "columns"
        assert code(channels, 8, kernel=5).gathered == "columns"


def test_long_rows_are_not_prefetched_where_sums_leave_no_pause():
    prefetching = replace(CPU, prefetch=True)

    def prefetches(depth, outputs):
        code = plan_in_place(dense_product(4096, outputs, depth), prefetching).main.code
        return code.prefetch is not None and code.prefetch.what == "lanes"

    assert prefetches(1024, 16) and prefetches(1536, 32) and prefetches(4096, 64)
    assert not prefetches(1536, 16) and not prefetches(4096, 8)


def test_what_comes_from_afar_is_prefetched():
    prefetching = replace(CPU, prefetch=True)
    first = _pixels(256, 64, prefetching).prefetch
    assert (first.what, first.passes) == ("lanes", 1)
    # A tile's lanes are prefetched as long as the first strip is passed.
    assert first.lines * first.line >= _pixels(256, 64).rows * 4
    assert _pixels(256, 64).prefetch is None
    windows = forward(dense_convolution(8, 64, 56, 64, stride=2, last=True))
    assert plan_in_place(windows, prefetching).main.code.prefetch.what == "rows"
    assert plan_in_place(windows, CPU).main.code.prefetch is None
    two = replace(prefetching, compute_units=2)
    assert _pixels(1024, 512, two).prefetch.what == "strip"
    two = replace(two, local_memory=1 << 18)
    planes = forward(dense_convolution(8, 256, 28, 256, stride=2))
    assert plan_in_place(planes, two).main.code.prefetch.passes == 2
    columns = forward(dense_convolution(8, 512, 14, 512, stride=2))
    assert plan_panels(columns, two).main.code.prefetch.passes == 1


def test_results_are_prefetched_a_few_lines_at_a_time():
    prefetching = replace(CPU, prefetch=True)
    wide = _pixels(64, 1024, prefetching)
    steps = 64 // wide.unit
    assert wide.rows * wide.vectors <= wide.prefetch_a_step * steps <= 3 * wide.rows * wide.vectors
    assert not _pixels(64, 64, prefetching).prefetch_stores  # near anyway
    assert not _pixels(64, 1024).prefetch_stores


def test_lanes_far_apart_are_packed_by_squares():
    def transposed(outputs, depth, form="NT"):
        pack = plan_in_place(dense_product(96, outputs, depth, form), CPU).stages[0]
        return pack.code.shuffles is not None

    assert transposed(128, 64)
    assert transposed(100, 20)  # all but the ends
    assert not transposed(128, 12)  # no vector of depths
    assert not transposed(100, 64, "NN")  # lanes are neighbours


def _panels(what, local_memory=1 << 18):
    """The kernel of panels on two cores, and the numbers that it is given."""
    traits = replace(CPU, compute_units=2, local_memory=local_memory)
    main = plan_panels(what, traits, Tile(13, 2)).main
    names = (parameter.declaration.split()[-1] for parameter in main.code.parameters)
    return main.code, dict(zip(names, main.arguments, strict=True))


def test_splits_fit_the_panel():
    _, numbers = _panels(forward(dense_convolution(8, 512, 14, 512, stride=2)))
    assert numbers["chunk"] == numbers["block"]


def test_panels_of_long_depths_have_many_tiles():
    def tiles(m, n, k, form="NN"):
        _, numbers = _panels(dense_product(m, n, k, form))
        return numbers["tiles"], numbers["tiles_a_group"]

    assert tiles(256, 64, 25088, "TN") == tiles(256, 64, 25000) == (20, 7)  # not 8, 8 and 4
    assert tiles(64, 64, 65536) == (5, 3)  # rows are aliased; not 4 and 1
    assert tiles(2048, 2048, 2048, "TN") == (158, 4)  # not deep


def test_tiles_fit_panels_of_any_size():
    sizes = (1 << 10, 3 << 10, 4 << 10, 32 << 10)
    for size, dtype, form in itertools.product(sizes, ("float32", "float64"), ("NN", "TN")):
        code, numbers = _panels(dense_product(256, 64, 25000, form, dtype=dtype), size)
        used = numbers["tiles_a_group"] * (numbers["block"] * code.lanes + code.slack)
        assert used <= code.panel == size // np.dtype(dtype).itemsize


def test_every_core_gets_as_many_splits():
    deep = forward(dense_convolution(1, 512, 14, 512, 3, stride=2, last=True))
    splits = plan_panels(deep, replace(CPU, compute_units=2)).main.global_size[2]
    assert splits > 2
    assert splits % 2 == 0


def test_sixteen_registers_read_less_often_than_they_multiply():
    few = replace(CPU, vector_bytes=32)
    for size, outputs in itertools.product((14, 28, 56), (64, 256, 2048)):
        windows = forward(dense_convolution(8, 64, size, outputs, stride=1, last=True))
        for plan in (plan_in_place(windows, few), plan_panels(windows, few)):
            code = plan.main.code
            assert 8 <= code.rows * code.vectors <= 12
            assert code.rows + code.vectors < code.rows * code.vectors


def test_short_windows_have_kernels_of_their_own():
    few = replace(CPU, vector_bytes=32)

    def code(channels, outputs, kernel, traits, **options):
        image = dense_convolution(1, channels, 56, outputs, kernel, **{"last": True, **options})
        return plan_in_place(forward(image), traits).main.code

    def fixed(*args):
        return code(*args).fixed

    assert fixed(3, 64, 3, few) == (3, 1, 9)
    assert fixed(6, 12, 5, few) is None
    assert fixed(32, 64, 3, few) is None
    assert fixed(3, 64, 3, CPU) is None
    assert fixed(3, 16, 3, CPU) is None  # loops are faster where registers are 32
    short = code(3, 64, 3, few, last=False)
    assert short.fixed == (3, 3, 3)
    strided = code(3, 64, 3, few, last=False, stride=2)
    assert strided.planar
    assert strided.fixed == (3, 3, 3)
    assert code(32, 64, 3, few, last=False).planar
    assert code(3, 64, 3, CPU, last=False).fixed is None


def test_work_groups_keep_all_units_busy_to_the_end():
    def loads(images, channels, size, outputs, units):
        """The most that a unit does, and what it would be if all did the same; in tiles."""
        traits = replace(CPU, compute_units=units)
        what = forward(dense_convolution(images, channels, size, outputs, 1, last=True))
        plan = plan_in_place(what, traits).main
        named = {
            p.declaration.split()[-1]: a
            for p, a in zip(plan.code.parameters, plan.arguments, strict=True)
        }
        tiles, packed = named["tiles"], named["packed_tiles"]
        sizes = [
            min(named["tiles_a_group"], tiles - t) * min(named["packed_a_group"], packed - p)
            for p in range(0, packed, named["packed_a_group"])
            for t in range(0, tiles, named["tiles_a_group"])
        ]
        busy = [0] * units
        for size in sorted(sizes, reverse=True):
            busy[busy.index(min(busy))] += size
        return max(busy), sum(sizes) / units

    for layer in (1, 256, 56, 64), (1, 96, 14, 576), (1, 512, 28, 256), (8, 160, 7, 960):
        for units in 2, 3:
            most, fair = loads(*layer, units)
            assert most <= 1.04 * fair, (layer, units, most, fair)


def test_gradients_of_pixels_gather_nothing():
    def bounds(kernel, **options):
        image = dense_convolution(2, 8, 12, 16, kernel, direction="input", **options)
        return [c.gathered.bounds is not None for c in contractions(image)]

    assert bounds(1) == [False]
    assert bounds(1, stride=2)[0] is False
    assert bounds(1, padding=1) == [False]  # what lies outside of the image has no gradient
    assert bounds(3) == [True]


def test_tiles_leave_room_beside_sums():
    for traits in (CPU, replace(CPU, vector_bytes=32)):
        registers = traits.vector_registers
        assert all(
            (tile.rows + 1) * tile.vectors < registers for tile in tiles_of(traits, plain=True)
        )
        assert all(tile.fits(4, 1, traits) for tile in tiles_of(traits, plain=True))
        assert not any(tile.fills(traits) for tile in tiles_of(traits, plain=False))
        assert not Tile(7, 4).fits(4, 1, traits)


def test_near_matrices_are_not_prefetched():
    prefetching = replace(CPU, prefetch=True)

    def code(rows):
        return plan_in_place(dense_product(rows, 256, 256), prefetching).main.code

    assert code(256).prefetch is None
    assert code(4096).prefetch.what == "lanes"
