"""How the CPU strategies of contractions cut what caches and cores make dear."""

import itertools
from dataclasses import replace

import numpy as np

from clprim.plan.conv.dense import CPU, dense_convolution
from clprim.plan.conv.lowering import contractions, forward
from clprim.plan.product.dense import dense_product
from clprim.plan.product.in_place import plan_in_place
from clprim.plan.product.in_place_tile import FEW_ROWS
from clprim.plan.product.panels import plan_panels
from clprim.plan.product.register_tile import SPARE, Tile, choose_tile, near_tiles, register_tiles


def _pixels(channels, outputs, traits=CPU):
    """The kernel of a convolution of single pixels."""
    image = dense_convolution(8, channels, 14, outputs, 1, last=True)
    return plan_in_place(forward(image), traits).main.code


def test_rows_of_matrices_are_few():
    # Rows that share places of a cache always; others unless two vectors have all outputs.
    assert _pixels(1024, 16).rows <= FEW_ROWS < _pixels(1040, 32).rows
    wide = _pixels(1040, 256)
    assert (wide.rows, wide.vectors) == (6, 4)
    assert wide.step == 0  # no kernel for each number of channels


def test_few_rows_of_matrices_are_divided():
    def tile(images, channels, outputs):
        image = dense_convolution(images, channels, 14, outputs, 1, last=True)
        code = plan_in_place(forward(image), CPU).main.code
        return code.rows, code.vectors

    assert tile(1, 96, 576) == (4, 4)
    assert tile(8, 96, 576) == (6, 4)


def test_columns_far_apart_are_packed():
    def in_place(images, channels, size, outputs):
        planes = dense_convolution(images, channels, size, outputs, 1)
        return plan_in_place(forward(planes), CPU) is not None

    assert not in_place(8, 96, 112, 16)
    assert in_place(8, 96, 112, 2)
    assert in_place(8, 32, 112, 16)  # few lines
    assert in_place(1, 96, 28, 16)  # few products
    assert in_place(8, 144, 28, 14)  # likewise


def test_brief_windows_store_whole_pixels():
    def tile(channels, outputs, **options):
        image = dense_convolution(8, channels, 112, outputs, **options)
        code = plan_in_place(forward(image), CPU).main.code
        return code.rows, code.vectors

    assert tile(3, 64, last=True) == (6, 4)
    assert tile(3, 48, last=True) == (8, 3)
    assert tile(3, 32, last=True) == (16, 1)
    assert tile(3, 64, kernel=5, last=True) == (6, 4)
    # Not of stride 2, nor where sums are transposed, nor where windows are large.
    assert tile(3, 32, last=True, stride=2)[0] > FEW_ROWS
    assert tile(3, 64)[0] > FEW_ROWS
    assert tile(32, 64, last=True)[0] > FEW_ROWS


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


def test_tiles_that_pass_the_cache_store_little_at_once():
    def tile(channels, outputs, kernel=1, **options):
        image = dense_convolution(32, channels, 112, outputs, kernel, last=True, **options)
        code = plan_in_place(forward(image), CPU).main.code
        return code.rows, code.vectors

    assert tile(3, 64, 3) == (16, 1)
    assert tile(3, 96, 3, stride=2) == (14, 1)
    assert tile(16, 96)[1] == 1
    assert tile(16, 256) == (4, 4)
    assert tile(16, 96, epilogue="y0 += x0;") == (4, 2)
    assert tile(64, 96) == (8, 2)
    assert tile(64, 144) == (8, 3)


def test_pixels_of_small_windows_are_columns():
    def code(channels, size, outputs, kernel=3, **options):
        image = dense_convolution(8, channels, size, outputs, kernel, **options)
        return plan_in_place(forward(image), CPU).main.code

    for size, outputs, rows in ((224, 64, 16), (63, 24, 12), (56, 48, 16), (30, 20, 10)):
        found = code(3, size, outputs)
        assert (found.gathered, found.rows, found.vectors) == ("columns", rows, 1)
    # Transposing sums costs less than what vectors waste at the ends of lines, or than deep sums;
    # many rows are transposed at the cost of few.
    assert code(3, 33, 64).planar and code(3, 33, 64).rows == 12
    assert code(3, 36, 64).planar and code(3, 36, 64).rows == 12
    assert not code(3, 33, 48).planar
    assert not code(3, 66, 64).planar
    assert code(3, 20, 64).planar
    assert code(4, 56, 32, 5).planar
    assert not code(4, 112, 32, 5).planar
    assert code(32, 112, 64).planar
    # Of a stride of 2, every second one.
    strided = code(3, 112, 64, stride=2)
    assert (strided.gathered, strided.alternate) == ("columns", True)
    assert code(8, 112, 64, stride=2).planar
    assert code(3, 112, 64, stride=3).planar


def test_few_planes_are_read_in_place():
    def code(channels, outputs, **options):
        plan = plan_in_place(forward(dense_convolution(8, channels, 112, outputs, **options)), CPU)
        return plan.main.code if plan is not None else None

    for channels in (1, 2, 3):
        assert code(channels, 8).gathered == "columns"
        assert code(channels, 8, kernel=5).gathered == "columns"
    # Lines may waste a half of their vectors, but one output is read by as few as there are.
    for size, outputs, tile in ((33, 8, (8, 1)), (17, 3, (4, 1)), (66, 1, (1, 1))):
        image = dense_convolution(8, 64, size, outputs)
        found = plan_in_place(forward(image), CPU).main.code
        assert (found.gathered, found.rows, found.vectors) == ("columns", *tile)
    for outputs in (1, 3, 12):  # columns with a step are no vectors, unless they are sorted first
        assert code(3, outputs, stride=2).alternate
        assert code(3, outputs, stride=3).planar
        assert code(32, outputs, stride=2).planar


def test_tiles_leave_room_beside_sums():
    for traits in (CPU, replace(CPU, vector_bytes=32)):
        registers = traits.sums + SPARE
        tiles = list(register_tiles(traits))
        assert all((rows + 1) * vectors < registers for rows, vectors in tiles)
        near = near_tiles(56, 256, 4, traits, len(tiles))
        assert {(tile.rows, tile.vectors) for tile in near} <= set(tiles)
        assert not Tile(7, 4).fits(4, 1, traits)
        chosen = choose_tile(392, 512, 4, traits, plain=False)
        assert (chosen.rows, chosen.vectors) == ((12, 2) if traits is CPU else (6, 2))
        # Compilers are better at 14 rows where nothing follows the sums.
        chosen = choose_tile(392, 512, 4, traits, plain=True)
        assert (chosen.rows, chosen.vectors) == ((14, 2) if traits is CPU else (6, 2))


def test_near_matrices_are_not_prefetched_and_have_few_columns():
    prefetching = replace(CPU, prefetch=True)

    def code(rows, traits=prefetching):
        return plan_in_place(dense_product(rows, 256, 256), traits).main.code

    near, odd, far = code(256), code(262), code(4096)
    assert (near.rows, near.vectors, near.prefetch) == (8, 2, None)
    assert (odd.rows, odd.vectors, odd.prefetch) == (6, 4, None)
    assert far.prefetch.what == "lanes"
    few = code(256, replace(prefetching, vector_bytes=32))
    assert few.rows * few.vectors <= 12


def test_matrices_of_few_sums_are_divided_by_their_tiles():
    def tile(lanes, outputs):
        code = plan_in_place(dense_product(lanes, outputs, 512), CPU).main.code
        return code.rows, code.vectors

    assert tile(784, 192) == tile(784, 256) == (4, 4)
    assert tile(784, 512) == tile(782, 256) == (6, 4)
    assert tile(784, 260) != (4, 4)  # four vectors do not divide the outputs


def test_columns_waste_little_at_the_ends_of_lines():
    def tile(channels, size, outputs, traits=CPU):
        planes = dense_convolution(8, channels, size, outputs, 1)
        code = plan_in_place(forward(planes), traits).main.code
        return code.rows, code.vectors

    assert tile(64, 56, 64) == (4, 4)  # 6 rows would compute 66 outputs
    assert tile(64, 56, 256) == (6, 4)
    assert tile(512, 28, 128) == (13, 2)  # 4 vectors would compute 832 pixels of 784
    assert tile(1024, 14, 512) == (14, 2)
    rows, vectors = tile(512, 28, 128, replace(CPU, vector_bytes=32))
    assert rows * vectors <= 12


def test_pixels_that_vectors_waste_become_rows():
    room = replace(CPU, local_memory=256 << 10)

    def code(images, channels, size, outputs, traits=room):
        planes = dense_convolution(images, channels, size, outputs, 1)
        return plan_in_place(forward(planes), traits).main.code

    for layer in (8, 1024, 14, 512), (8, 256, 9, 128), (1, 960, 7, 64):
        planes = code(*layer)
        assert planes.planar and planes.row_buffer
    assert planes.rows == 7
    assert not code(8, 1024, 14, 512, CPU).planar  # nor where there is no room for a row buffer
    assert not code(8, 1024, 14, 64).planar  # few outputs do not pay for the copy
    assert not code(1, 1024, 14, 512).planar
    assert not code(8, 1024, 28, 512).planar


def test_long_rows_are_not_prefetched_where_sums_leave_no_pause():
    prefetching = replace(CPU, prefetch=True)

    def prefetches(depth, outputs):
        code = plan_in_place(dense_product(4096, outputs, depth), prefetching).main.code
        return code.prefetch is not None and code.prefetch.what == "lanes"

    assert prefetches(1500, 16) and prefetches(1536, 32) and prefetches(4096, 64)
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
    main = plan_panels(what, replace(CPU, compute_units=2, local_memory=local_memory)).main
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
    assert tiles(2048, 2048, 2048, "TN") == (147, 4)  # not deep


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
    assert fixed(6, 12, 5, few) == (5, 1, 30)
    assert fixed(32, 64, 3, few) is None
    assert fixed(3, 64, 3, CPU) is None
    assert fixed(3, 16, 3, CPU) is None  # loops are faster where registers are 32
    short = code(3, 64, 3, few, last=False)
    assert not short.planar
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


def test_few_pixels_do_not_pay_for_a_packed_operand():
    def stages(images, channels, size, outputs):
        image = dense_convolution(images, channels, size, outputs, 1, direction="input")
        return plan_in_place(forward(image), replace(CPU, local_memory=256 << 10)).stages

    (lone,) = stages(1, 96, 14, 64)
    assert lone.code.planar and lone.code.passed_in_place
    _, main = stages(8, 128, 28, 128)
    assert main.code.gathered == "columns" and not main.code.row_buffer


def test_gradients_of_pixels_gather_nothing():
    def bounds(kernel, **options):
        image = dense_convolution(2, 8, 12, 16, kernel, direction="input", **options)
        return [c.gathered.bounds is not None for c in contractions(image)]

    assert bounds(1) == [False]
    assert bounds(1, stride=2)[0] is False
    assert bounds(1, padding=1) == [False]  # what lies outside of the image has no gradient
    assert bounds(3) == [True]
