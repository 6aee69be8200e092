"""Which tiles Winograd's algorithm gets: by error, by size, and those worth timing."""

from dataclasses import replace

import numpy as np
import pytest
from planning import CPU, GPU, convolution

from clprim.plan.conv.dense import dense_convolution
from clprim.plan.conv.family import CONVOLUTIONS, WINDOWS
from clprim.plan.conv.lowering import forward
from clprim.plan.conv.winograd.kernels import plan_winograd
from clprim.plan.conv.winograd.strategy import WINOGRAD
from clprim.plan.conv.winograd.tile import (
    WinogradTile,
    fits_winograd,
    near_winograd,
    tiling_of,
)
from clprim.plan.conv.winograd.weight_cut import WeightTile
from clprim.plan.conv.winograd.weight_tile import fits_weight, weight_tile

CPU2 = replace(CPU, compute_units=2, local_memory=1 << 18)


def problem(channels, size, images=8, error=5e-6, **options):
    found = convolution(images, channels, size, channels, last=True, **options)
    return replace(found, error=error)


def winograd_tile(what, traits):
    return WINOGRAD.decide(what, traits).tile


def winograd_applicable(what, traits):
    return WINOGRAD.decide(what, traits) is not None


def pays_winograd(what, traits):
    return WINDOWS.plan(what, traits).choice.strategy == "winograd"


@pytest.mark.parametrize(
    ("channels", "size", "images", "kernels"),
    [(64, 56, 8, 1), (128, 28, 8, 1), (256, 56, 8, 1), (512, 28, 8, 1), (512, 7, 8, 3)],
)
def test_the_layers_of_networks(channels, size, images, kernels):
    what = problem(channels, size, images)
    tile = winograd_tile(what, CPU2)
    assert (tile.outputs, tile.kernels) == (4, kernels)
    assert winograd_applicable(what, CPU2)
    assert pays_winograd(what, CPU2)


@pytest.mark.parametrize(("channels", "size", "blocks"), [(256, 14, 9), (512, 28, 9), (128, 28, 9)])
def test_blocks_are_equal_shares(channels, size, blocks):
    """No worker waits for another one's last block, but for half of one."""
    tile = winograd_tile(problem(channels, size), CPU2)
    assert -(-tiling_of(problem(channels, size), tile.outputs).tiles // tile.tiles) == blocks


def test_workers_that_share_strips_have_equally_many():
    """Eight tiles × three vectors waste less by themselves, but give eleven strips."""
    assert winograd_tile(problem(512, 7), CPU2).vectors == 3
    tile = winograd_tile(replace(problem(512, 7), kept=False), CPU2)
    assert (tile.kernels, 512 // 16 // tile.vectors % 2) == (2, 0)


def test_the_error_decides_the_tile():
    assert winograd_tile(problem(64, 28, error=6e-7), CPU2).outputs == 2
    assert not winograd_applicable(problem(64, 28, error=0), CPU2)
    assert not winograd_applicable(problem(64, 28, error=1e-8), CPU2)


@pytest.mark.parametrize(
    ("channels", "size", "images", "outputs"),
    [
        (64, 112, 8, 4),
        (128, 56, 8, 2),
        (256, 28, 8, 2),
        (128, 56, 1, 2),
    ],
)
def test_layers_of_stride_2(channels, size, images, outputs):
    """Larger tiles where they fit: 14² outputs would waste a quarter of them."""
    what = problem(channels, size, images, stride=2)
    tile = winograd_tile(what, CPU2)
    assert tile.outputs == outputs
    assert pays_winograd(what, CPU2)


def test_strides_stay_sums_where_weights_come_from_afar_or_channels_are_few():
    for channels, size, images in ((512, 14, 1), (512, 14, 8), (16, 112, 8), (256, 14, 8)):
        what = problem(channels, size, images, stride=2)
        assert not pays_winograd(what, CPU2)


def test_long_strides_have_no_transforms():
    for stride, taps, able in ((4, 8, True), (16, 32, False)):
        what = replace(convolution(8, 64, 224, 64, taps, stride=stride, last=True), error=1e-3)
        assert winograd_applicable(what, CPU2) == able


def test_windows_of_a_stride_need_several_taps_in_a_phase():
    def takes(kernel, **options):
        what = replace(convolution(8, 32, 28, 32, kernel, **options), error=1e-4)
        return winograd_applicable(what, CPU2)

    assert all(takes(kernel, stride=2) for kernel in (3, 4, 5, 6))
    assert not any(takes(kernel, stride=kernel) for kernel in (2, 3))
    assert not takes(3, stride=4)  # pixels between windows
    assert not takes(3, stride=2, dilation=2)
    assert not takes(7, stride=2)  # no transform of 4 taps


def test_tiles_of_long_strides_fit_their_lines():
    """Seventeen lines of as many pixels would not: F(4 × 4, 5 × 5) with a stride of 4."""
    what = replace(convolution(8, 32, 28, 32, 5, last=True, stride=4), error=1e-4)
    assert not fits_winograd(WinogradTile(4, 6, 4, 24, 1), what, CPU2)
    tile = winograd_tile(what, CPU2)
    assert tile.outputs == 2
    _, kernel = plan_winograd(what, CPU2, tile).stages
    names = [p.declaration.split()[-1] for p in kernel.code.parameters]
    pitch = kernel.arguments[names.index("line_pitch")]
    assert 9 * pitch * kernel.code.width <= kernel.code.panel


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "chain"),
    [
        (12, 3, 1, 64),  # the transforms alone err too much
        (16, 3, 1, 4),
        (24, 3, 1, 16),
        (32, 3, 1, 64),
        (512, 3, 1, 64),
        (1536, 3, 1, 48),
        (2048, 3, 1, 64),
        (64, 2, 1, 32),
        (16, 3, 2, 64),
        (1024, 3, 2, 64),
    ],
)
def test_chains_are_so_long_that_errors_are_at_most_twice_those_of_sums(
    channels, kernel, stride, chain
):
    what = forward(dense_convolution(1, channels, 14, 16, kernel, stride=stride))
    what = replace(what, error=1.0)
    assert tiling_of(what, 4).chain == chain


def test_few_images_with_many_weights_get_small_tiles():
    assert winograd_tile(problem(512, 7, 1), CPU2).outputs == 2


def test_small_and_narrow_convolutions_stay_sums():
    for what in (problem(16, 8, 1), problem(3, 112, 8)):
        assert not pays_winograd(what, CPU2)


@pytest.mark.parametrize(
    ("channels", "outputs", "size", "last", "pays"),
    [
        (8, 8, 112, False, False),
        (4, 8, 112, False, False),
        (8, 64, 56, False, True),
        (12, 48, 56, False, True),
        (64, 8, 56, False, True),
        (48, 12, 56, False, True),
        (64, 3, 56, True, False),
        (64, 8, 56, True, True),
        (12, 12, 64, True, True),
        (8, 64, 56, True, True),
    ],
)
def test_few_channels_pay_where_the_model_says_so(channels, outputs, size, last, pays):
    what = replace(convolution(8, channels, size, outputs, last=last), error=5e-6)
    assert pays_winograd(what, CPU2) is pays


@pytest.mark.parametrize("last", [False, True])
def test_the_gradient_in_the_weight_of_layers_of_networks(last):
    what = dense_convolution(8, 64, 56, 64, 3, last=last, direction="weight")
    assert CONVOLUTIONS.plan(replace(what, error=5e-6), CPU2).choice.strategy == "winograd/weight"
    assert CONVOLUTIONS.plan(replace(what, error=0), CPU2).choice.strategy == "panels"
    assert CONVOLUTIONS.plan(replace(what, error=5e-6), GPU).choice.strategy == "tiles"


def test_gradients_of_few_tiles_and_many_products_take_three_kernels():
    def kernels(channels, size):
        what = dense_convolution(8, channels, size, channels, 3, last=True, direction="weight")
        return weight_tile(replace(what, error=5e-6), CPU2).kernels

    assert [kernels(64, 56), kernels(128, 28), kernels(512, 7)] == [2, 2, 3]


@pytest.mark.parametrize("last", [False, True])
def test_vectors_of_the_gradient_in_the_weight_are_of_what_fills_them(last):
    what = dense_convolution(8, 3, 224, 64, 3, last=last, direction="weight")
    plan = CONVOLUTIONS.plan(replace(what, error=5e-6), CPU2)
    tile = WeightTile(*plan.choice.numbers)
    assert (plan.choice.strategy, tile.rows, tile.vectors) == ("winograd/weight", 4, 4)


def test_one_kernel_reads_images_of_one_dtype():
    what = dense_convolution(8, 64, 56, 64, 3, last=True, direction="weight")
    what = replace(what, error=5e-6)
    fused = weight_tile(what, CPU2)
    mixed = replace(what, x=replace(what.x, dtype=np.dtype(np.float16)))
    assert weight_tile(mixed, CPU2).kernels == 3
    assert fits_weight(fused, what, CPU2)
    assert not fits_weight(fused, mixed, CPU2)
    assert not fits_weight(replace(fused, rows=6), what, CPU2)


def test_devices_and_windows_that_it_does_not_know():
    assert not winograd_applicable(problem(64, 28), GPU)
    assert not winograd_applicable(problem(64, 28), replace(CPU2, local_memory=1 << 13))
    assert not winograd_applicable(problem(64, 28, kernel=1, padding=0), CPU2)
    assert not winograd_applicable(problem(64, 28, kernel=4, padding=0), CPU2)


@pytest.mark.parametrize("traits", [CPU2, replace(CPU2, vector_bytes=32)])
@pytest.mark.parametrize("what", [problem(64, 56), problem(512, 7), problem(20, 9, 1)])
def test_tiles_worth_timing_fit_and_differ_from_the_rules(what, traits):
    rule = winograd_tile(what, traits)
    near = list(near_winograd(rule, what, traits))
    assert len(near) == len(set(near)) >= 2
    assert rule not in near
    assert all(fits_winograd(tile, what, traits) for tile in (rule, *near))
    assert {1, 3} <= {tile.kernels for tile in near} | {rule.kernels}
