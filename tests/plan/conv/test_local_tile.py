"""Which tiles Winograd's algorithm gets in local memory, and where it is meant to be chosen."""

from dataclasses import replace

import numpy as np
import pytest
from planning import CPU, GPU, convolution

from clprim.plan.conv.dense import dense_convolution
from clprim.plan.conv.family import CONVOLUTIONS, WINDOWS
from clprim.plan.conv.winograd.local import plan_local
from clprim.plan.conv.winograd.local_tile import (
    WinogradLocalTile,
    fits_local,
    local_tile,
    local_tiles,
)
from clprim.plan.conv.winograd.strategy import WINOGRAD_LOCAL
from clprim.plan.product.family import LANES

MODEST = replace(GPU, max_work_group_size=64, local_memory=4096)


def problem(channels, size, images=32, error=5e-6, **options):
    found = convolution(images, channels, size, channels, last=True, **options)
    return replace(found, error=error)


def local_applicable(what, traits):
    return WINOGRAD_LOCAL.decide(what, traits) is not None


def pays_local(what, traits):
    return WINDOWS.plan(what, traits).choice.strategy == "winograd/local"


def test_strides_are_left_to_sums_of_products():
    assert local_applicable(problem(64, 56), GPU)
    assert not local_applicable(problem(64, 56, stride=2), GPU)
    layer = replace(dense_convolution(32, 64, 56, 64, stride=2), error=5e-6)
    assert CONVOLUTIONS.plan(layer, GPU).choice.strategy == "tiles"


@pytest.mark.parametrize(("channels", "size"), [(64, 56), (128, 28), (256, 14), (512, 7)])
@pytest.mark.parametrize("direction", ["forward", "input"])
def test_the_layers_of_networks(channels, size, direction):
    layer = dense_convolution(32, channels, size, channels, direction=direction)
    plan = CONVOLUTIONS.plan(replace(layer, error=5e-6), GPU)
    assert plan.choice.strategy == "winograd/local"
    assert plan.choice.numbers[0] == 2  # of larger tiles tuning has to say that they pay
    assert [stage.once for stage in plan.stages] == [True, False]
    assert CONVOLUTIONS.plan(replace(layer, error=0), GPU).choice.strategy == "tiles"


def test_large_layers_get_the_tile_that_fills_local_memory():
    assert local_tile(problem(128, 56), GPU) == WinogradLocalTile(2, 32, 32, 8, 8, 8)


def test_what_it_is_not_meant_for():
    for what in (problem(16, 8, 1), problem(3, 112, 8)):
        assert local_applicable(what, GPU)
        assert not pays_local(what, GPU)
    # Products that need no local memory are faster there.
    assert local_applicable(problem(128, 28), LANES)
    assert not pays_local(problem(128, 28), LANES)
    # Few outputs leave most of a strip idle.
    narrow = replace(convolution(32, 64, 56, 3, last=True), error=5e-6)
    assert not pays_local(narrow, GPU)


def test_devices_windows_and_errors_that_it_does_not_know():
    assert not local_applicable(problem(64, 28), CPU)
    assert not local_applicable(problem(64, 28), replace(GPU, local_memory=512))
    assert not local_applicable(problem(64, 28, kernel=4, padding=0), GPU)
    assert not local_applicable(problem(64, 28, stride=2), GPU)
    assert not local_applicable(problem(64, 28, error=0), GPU)
    assert {tile.outputs for tile in local_tiles(problem(64, 28, error=6e-7), GPU)} == {2}
    assert {tile.outputs for tile in local_tiles(problem(64, 28), GPU)} == {2, 4}


@pytest.mark.parametrize("traits", [GPU, MODEST, LANES])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [2, 3, 5])
def test_tiles_worth_timing_fit(traits, dtype, kernel):
    what = problem(20, 28, kernel=kernel, padding=kernel // 2, dtype=dtype, error=1)
    tiles = local_tiles(what, traits)
    assert tiles
    assert len(tiles) == len(set(tiles))
    assert all(fits_local(tile, what, traits) for tile in tiles)
    for tile in tiles:
        main = plan_local(what, traits, tile).main
        assert main.local_size[0] <= traits.max_work_group_size
        assert main.code.local * 16 <= traits.local_memory


def test_tiles_that_do_not_fit():
    what, tile = problem(64, 28, error=6e-7), WinogradLocalTile(2, 32, 32, 8, 8, 8)
    assert fits_local(tile, what, GPU)
    assert not fits_local(replace(tile, outputs=4), what, GPU)  # its error is larger
    assert not fits_local(replace(tile, steps=16), what, GPU)  # local memory
    assert not fits_local(replace(tile, rows=16, columns=16), what, GPU)  # registers
    assert not fits_local(replace(tile, rows=2), what, GPU)  # no vector
    assert not fits_local(replace(tile, tiles=24), what, GPU)
    assert not fits_local(replace(tile, steps=1), what, GPU)  # less than a vector each to copy
    assert not fits_local(tile, what, replace(GPU, max_work_group_size=128))


def test_places_past_31_bits():
    for size, images, index in ((56, 32, "int"), (2048, 16, "long")):
        what = problem(64, size, images)
        plan = plan_local(what, GPU, local_tile(what, GPU))
        assert {stage.code.index for stage in plan.stages} == {index}
