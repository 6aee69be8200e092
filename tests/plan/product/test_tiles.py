"""Plans of the GPU strategy: tiles that fit the device, depth cut without a gap, keys, vectors."""

import dataclasses
import itertools
import math
import re

import numpy as np
import pytest
from planning import convolution, numbers, product

from clprim.plan.machine import CHAIN
from clprim.plan.product.family import PRODUCTS
from clprim.plan.product.local_tile import LocalTile, Sizes, local_tiles
from clprim.plan.product.problem import Bounds
from clprim.render import render
from clprim.traits import DeviceTraits

plan_tiles = PRODUCTS.strategy("tiles").planned
TRAITS = {
    "large": DeviceTraits(
        compute_units=132, max_work_group_size=1024, local_memory=49152, sub_group_size=32
    ),
    "wide": DeviceTraits(compute_units=36, local_memory=65536, sub_group_size=64),
    "narrow": DeviceTraits(compute_units=24, local_memory=65536, register_bytes=512),
    "modest": DeviceTraits(
        compute_units=2, max_work_group_size=64, local_memory=32768, register_bytes=512
    ),
    "small": DeviceTraits(
        compute_units=2, max_work_group_size=64, local_memory=4096, register_bytes=512
    ),
    "tiny": DeviceTraits(compute_units=1, max_work_group_size=1, local_memory=1024),
    "odd": DeviceTraits(compute_units=3, max_work_group_size=96, local_memory=5000),
    "cpu": DeviceTraits(is_cpu=True, compute_units=2, max_work_group_size=4096, vector_bytes=64),
}
each_device = pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)

PROBLEMS = {
    "square": product(512, 512, 512),
    "transposed": product(300, 200, 100, transposed=(True, True)),
    "deep": product(8, 8, 100_000),
    "flat": product(100_000, 3, 7),
    "one": product(1, 1, 1),
    "nothing": product(5, 6, 0),
    "batched": product(33, 65, 129, groups=7),
    "doubles": product(200, 100, 300, dtype=np.float64),
    "halves": product(200, 100, 300, dtype=np.float16),
    "images": convolution(8, 64, 28, 64),
    "channels-last": convolution(8, 64, 28, 64, last=True),
    "three channels": convolution(2, 3, 31, 24, kernel=7, padding=3, last=True),
    "pixels": convolution(8, 64, 28, 64, kernel=1, padding=0),
}
each_problem = pytest.mark.parametrize("what", PROBLEMS.values(), ids=PROBLEMS)


def local_bytes(text, record):
    """Bytes of the local memory that a kernel declares."""
    sizes = {"float": 4, "double": 8, "int": 4}
    found = 0
    for kind, width, count in re.findall(r"__local ([a-z]+|step_t)(\d*) \w+\[(\d+)\];", text):
        found += (record if kind == "step_t" else sizes[kind] * int(width or 1)) * int(count)
    return found


@each_device
@each_problem
def test_the_tile_fits_the_device(what, traits):
    found = plan_tiles(what, traits)
    code = found.main.code
    assert found.stages[0] is found.main
    assert found.main.local_size == (code.items,)
    assert code.items <= traits.max_work_group_size
    assert found.main.global_size[0] % code.items == 0
    text = render(found.main.template, code)
    used = local_bytes(text, code.aligned or code.record)
    assert 0 < used <= traits.local_memory
    assert text.count("barrier(") >= 2
    for finish in found.stages[1:]:
        assert finish.local_size[0] <= traits.max_work_group_size


@each_device
@each_problem
def test_depth_is_cut_without_a_gap(what, traits):
    found = plan_tiles(what, traits)
    given, code = numbers(found.main), found.main.code
    depth = math.prod(what.depths)
    splits, chunk = given["splits"], given["chunk"]
    assert given["depth"] == depth
    assert chunk % code.steps == 0
    assert chunk <= max(CHAIN, code.steps)
    assert (splits - 1) * chunk < max(1, depth) <= splits * chunk
    assert (len(found.stages) > 1) == code.split == (splits > 1)
    # Every tile is somebody's, once for every split.
    assert (
        given["lane_tiles"] * code.x.lanes
        >= given["lanes"]
        > (given["lane_tiles"] - 1) * (code.x.lanes)
    )
    groups = given["lane_tiles"] * given["output_tiles"] * what.groups * splits
    assert found.main.global_size == (groups * code.items,)
    if splits > 1:
        padded = given["padded_rows"] * given["pitch"]
        assert found.workspace["partial"][0] == splits * what.groups * padded
        assert padded >= math.prod(what.lanes) * what.outputs
        last = numbers(found.stages[1])
        assert (last["pitch"], last["padded_rows"]) == (given["pitch"], given["padded_rows"])


@each_problem
def test_every_read_of_a_tile_is_somebodys(what):
    for traits in TRAITS.values():
        code = plan_tiles(what, traits).main.code
        for o in (code.x, code.w):
            assert o.units * o.width == o.lanes * code.steps
            assert o.units <= o.reads * code.items
            assert code.steps % (o.width if o.along == "depth" else 1) == 0
        # Tiles are exactly what the work-items' sums cover.
        assert {code.x.lanes, code.w.lanes} == {
            code.items_y * code.rows,
            code.items_x * code.columns,
        }


def test_another_size_needs_no_other_kernel():
    traits, tile = TRAITS["large"], LocalTile(16, 16, 8, 8, 4, 8)
    first = plan_tiles(convolution(32, 64, 56, 64, last=True), traits, tile)
    second = plan_tiles(convolution(64, 128, 56, 128, last=True), traits, tile)
    assert first.main.code == second.main.code
    assert first.main.arguments != second.main.arguments


def test_whole_vectors_are_read_where_they_are_aligned():
    traits = TRAITS["large"]
    assert widths(product(64, 64, 64), traits) == (4, 4)
    assert widths(product(64, 64, 63), traits) == (1, 4)
    assert widths(product(64, 63, 64), traits) == (4, 1)
    assert widths(product(64, 64, 64, start=2), traits) == (1, 4)
    assert widths(product(64, 64, 64, transposed=(True, True)), traits) == (4, 4)
    assert widths(convolution(2, 64, 14, 64, last=True), traits) == (4, 1)
    # Neighbours along a row leave the image one by one; weights (channel, y, x) do not.
    assert widths(convolution(2, 64, 14, 64), traits) == (1, 4)
    assert widths(convolution(2, 64, 14, 64, kernel=1, padding=0), traits) == (4, 4)
    assert widths(convolution(2, 64, 15, 64, kernel=1, padding=0), traits) == (1, 4)


def widths(what, traits):
    code = plan_tiles(what, traits).main.code
    return code.x.width, code.w.width


def test_neighbouring_work_items_read_neighbours():
    def along(what):
        code = plan_tiles(what, TRAITS["large"]).main.code
        return code.x.along, code.w.along

    assert along(product(64, 64, 64)) == ("depth", "lanes")
    assert along(product(64, 64, 64, transposed=(True, False))) == ("lanes", "lanes")
    assert along(product(64, 64, 64, transposed=(False, True))) == ("depth", "depth")
    assert along(convolution(2, 64, 14, 64, last=True)) == ("depth", "depth")
    assert along(convolution(2, 64, 14, 64)) == ("lanes", "depth")


def test_columns_are_what_lies_side_by_side_in_the_result():
    traits = TRAITS["large"]
    assert plan_tiles(convolution(2, 64, 14, 64), traits).main.code.gathered == "columns"
    assert plan_tiles(convolution(2, 64, 14, 64, last=True), traits).main.code.gathered == "rows"


def test_windows_that_never_leave_are_not_checked():
    traits = TRAITS["large"]
    inside = convolution(2, 8, 14, 8, padding=0)
    assert not plan_tiles(inside, traits).main.code.x.bounds
    assert plan_tiles(convolution(2, 8, 14, 8, padding=1), traits).main.code.x.bounds
    gathered = inside.gathered
    for change in ({"row_start": -1}, {"column_start": 1}, {"height": 13}):
        still = Bounds(14, 14, 0, 0, (0, 1), (1, 0), (0, 1), (1, 0))
        bounds = dataclasses.replace(still, **change)
        moved = dataclasses.replace(inside, gathered=dataclasses.replace(gathered, bounds=bounds))
        assert plan_tiles(moved, traits).main.code.x.bounds


def test_steps_of_depth_are_noted_only_where_they_differ():
    def noted(what):
        return "notes[" in render("product/tiles", plan_tiles(what, TRAITS["large"]).main.code)

    assert not noted(product(64, 64, 64))
    assert not noted(convolution(2, 64, 14, 64, kernel=1, padding=0))
    assert noted(convolution(2, 64, 14, 64))


def test_far_places_need_long_indices():
    far = product(64, 64, 64)
    assert plan_tiles(far, TRAITS["large"]).main.code.index == "int"
    packed = dataclasses.replace(far.packed, start=2**31)
    far = dataclasses.replace(far, packed=packed)
    assert plan_tiles(far, TRAITS["large"]).main.code.index == "long"


def test_few_tiles_are_split_for_a_large_device():
    def splits(what, traits):
        return numbers(plan_tiles(what, traits).main)["splits"]

    deep = product(64, 64, 8192)
    assert splits(deep, TRAITS["large"]) > 8
    assert splits(deep, TRAITS["tiny"]) == 1
    assert splits(product(4096, 4096, 4096), TRAITS["large"]) == 1
    assert splits(product(64, 64, CHAIN + 1), TRAITS["tiny"]) == 2


@each_device
def test_smaller_devices_get_smaller_tiles(traits):
    before = None
    for memory in (65536, 32768, 16384, 8192, 4096, 2048, 1024):
        shrunk = dataclasses.replace(traits, local_memory=memory)
        tile = local_tiles(Sizes(4096, 4096, 1, 512, 4), shrunk)[0]
        assert tile.local_bytes(4) <= memory
        area = tile.tile_rows * tile.tile_columns
        assert before is None or area <= before
        before = area


def test_sums_stay_in_registers():
    sizes = [(n, m) for n, m in itertools.product((1, 7, 64, 1000, 100_000), repeat=2)]
    for (rows, columns), itemsize in itertools.product(sizes, (4, 8)):
        for name, most in (("large", 256), ("narrow", 128), ("modest", 128)):
            tile = local_tiles(Sizes(rows, columns, 1, 512, itemsize), TRAITS[name])[0]
            assert tile.rows * tile.columns * itemsize <= most
            assert tile.rows % tile.width == tile.columns % tile.width == 0


def test_little_of_a_tile_is_wasted():
    narrow = local_tiles(Sizes(100_000, 16, 1, 512, 4, (4, 4)), TRAITS["large"])[0]
    assert narrow.tile_columns <= 32
    flat = local_tiles(Sizes(16, 100_000, 1, 512, 4, (4, 4)), TRAITS["large"])[0]
    assert flat.tile_rows <= 32
    square = local_tiles(Sizes(4096, 4096, 1, 512, 4, (4, 4)), TRAITS["large"])[0]
    assert square.tile_rows * square.tile_columns == 128 * 128


def test_wider_tiles_are_timed_and_not_chosen_unseen():
    traits = TRAITS["large"]
    chosen, wide = (
        local_tiles(Sizes(4096, 4096, 1, 4096, 4, (4, 4)), traits, wide=wide)
        for wide in (False, True)
    )
    assert all(tile.rows * tile.columns <= 64 for tile in chosen)
    assert {(tile.rows, tile.columns) for tile in wide} == {(8, 16)}
    assert all(tile.fits(4, traits) for tile in wide)
    problem = product(4096, 4096, 4096)
    strategy = PRODUCTS.strategy("tiles")
    near = list(strategy.near(chosen[0], problem, traits))
    assert set(wide) & set(near) and near[0] == chosen[0]
    few = local_tiles(Sizes(4096, 4096, 1, 4096, 4), TRAITS["narrow"], wide=True)
    assert {tile.rows * tile.columns for tile in few} == {64}
