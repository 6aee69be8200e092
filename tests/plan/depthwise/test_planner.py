"""Plans of depthwise convolutions: which kernels, what they cover, and what a kernel's key is."""

import dataclasses
import itertools

import numpy as np
import pytest
from planning import CPU, GPU, depthwise, depthwise_weight, numbers, plan_depthwise

from clprim.plan.conv.dense import dense_depthwise
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.depthwise.code import joins_rows, unrolls
from clprim.plan.machine import CHAIN

NARROW = dataclasses.replace(CPU, vector_bytes=16, local_memory=8192)
EACH = {"cpu": CPU, "narrow": NARROW, "gpu": GPU}
each_device = pytest.mark.parametrize("traits", EACH.values(), ids=EACH)


def template(what, traits=CPU):
    return plan_depthwise(what, traits).main.template


def test_what_lies_side_by_side_decides():
    assert template(depthwise(8, 32, 56, last=True)) == "depthwise/channels"
    assert template(depthwise(8, 32, 56)) == "depthwise/runs"
    assert template(depthwise(8, 32, 112)) == "depthwise/runs"
    assert template(depthwise(8, 32, 160)) == "depthwise/runs"
    assert template(depthwise(8, 32, 112, stride=2)) == "depthwise/runs"
    assert template(depthwise(8, 32, 7)) == "depthwise/runs"
    assert template(depthwise(8, 32, 7, kernel=7)) == "depthwise/runs"
    assert template(depthwise(8, 32, 14, kernel=7)) == "depthwise/planes"
    assert template(depthwise(8, 32, 14, kernel=5)) == "depthwise/planes"
    assert template(depthwise(8, 32, 8, kernel=5)) == "depthwise/runs"
    assert template(depthwise(8, 32, 10, kernel=5)) == "depthwise/planes"
    assert template(depthwise(8, 32, 16, kernel=5)) == "depthwise/planes"
    assert template(depthwise(8, 32, 56, stride=2)) == "depthwise/runs"
    assert template(depthwise(8, 32, 56, padding=0)) == "depthwise/planes"
    assert template(depthwise(8, 1, 56)) == "depthwise/runs"
    # Nothing is: every second column, a weight of many outputs with channels last.
    assert template(depthwise(8, 32, 56, step=2)) == "depthwise/windows"
    assert template(depthwise(8, 32, 56, last=True, multiplier=2)) == "depthwise/windows"
    assert template(depthwise(8, 32, 56, multiplier=2)) == "depthwise/runs"


def test_gradients_in_the_weight():
    assert template(depthwise_weight(8, 32, 56, last=True)) == "depthwise/weight/channels"
    assert template(depthwise_weight(8, 32, 56)) == "depthwise/weight/planes"
    assert template(depthwise_weight(8, 32, 56, kernel=4)) == "depthwise/weight/windows"
    assert template(depthwise_weight(8, 8, 56, last=True)) == "depthwise/weight/windows"


def test_gpus_get_windows():
    for last, adjoint in itertools.product((False, True), repeat=2):
        along = "channel" if last else "column"
        plan = plan_depthwise(depthwise(2, 8, 14, last=last, adjoint=adjoint), GPU)
        weight = plan_depthwise(depthwise_weight(2, 8, 14, last=last), GPU)
        assert (plan.main.template, plan.main.code.along) == ("depthwise/windows", along)
        assert (weight.main.template, weight.main.code.along) == ("depthwise/weight/windows", along)


def test_windows_that_share_nothing_are_products():
    for options in (
        {"stride": 4},
        {"kernel": 50},
        {"stride": 2, "dilation": 2},
        {"direction": "input", "stride": 2, "dilation": 2},
        {"direction": "input", "stride": 2, "kernel": 31},
        {"direction": "weight", "stride": 4},
    ):
        plan = CONVOLUTIONS.plan(dense_depthwise(2, 8, 64, **options), GPU)
        assert plan.main.template == "product/tiles", options
    plan = CONVOLUTIONS.plan(dense_depthwise(2, 8, 64, direction="weight", stride=4), CPU)
    assert plan.main.template == "product/panels"


@pytest.mark.parametrize("last", [False, True])
def test_what_a_tile_needs_fits_the_registers(last):
    for kernel, dtype, registers in itertools.product(
        (1, 3, 5, 7, 9, 31), (np.float32, np.float64), (256, 512, 1024)
    ):
        traits = dataclasses.replace(GPU, register_bytes=registers)
        what = depthwise(32, 96, 56, kernel, last=last, dtype=dtype)
        code = plan_depthwise(what, traits).main.code
        rows, columns = code.kernel
        assert kernel % rows == 0
        assert columns == kernel
        sums = code.rows * code.columns
        assert sums == 1 or (sums + rows * columns) * what.value.itemsize < registers


def test_windows_share_what_they_read():
    def tile(*shape, **options):
        code = plan_depthwise(depthwise(*shape, **options), GPU).main.code
        return code.rows, code.columns

    assert tile(32, 96, 56, last=True) == (4, 4)
    assert tile(32, 96, 56) == (4, 4)
    assert tile(32, 96, 1, last=True) == (1, 1)
    # Planes that are as large as taps are apart share nothing.
    assert tile(32, 96, 12, dilation=12, padding=12, last=True) == (1, 1)
    assert tile(32, 96, 48, dilation=12, padding=12, last=True) == (4, 4)
    # Few outputs are spread over the device before they share much.
    rows, columns = tile(1, 16, 14, last=True)
    assert rows * columns < 16


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dilation", [1, 5])
def test_tiles_cover_every_output(last, dilation):
    for size, stride, adjoint in itertools.product((7, 30), (1, 2, 3), (False, True)):
        if dilation > 1 and (stride > 1 or adjoint):
            continue
        what = depthwise(
            3, 20, size, last=last, stride=stride, dilation=dilation, adjoint=adjoint
        ).simplified()
        for rows, columns in itertools.product((1, 2, 3, 4), (1, 2, 3)):
            plan = plan_depthwise(what, GPU, "depthwise/windows", (rows, columns, 64)).main
            code, given = plan.code, numbers(plan)
            outputs = what.rows.outputs
            tiles = given["tile_rows"] if last else plan.global_size[1]
            covered = {
                t // dilation * dilation * code.rows + t % dilation + r * dilation
                for t, r in itertools.product(range(tiles), range(code.rows))
            }
            assert covered >= set(range(outputs))


def test_an_adjoint_of_stride_1_is_a_convolution():
    what = depthwise(2, 8, 14, adjoint=True, kernel=5, padding=1)
    other = what.simplified()
    assert not other.adjoint
    assert other.rows.before == 3
    assert (other.w.start, other.w.row, other.w.column) == (24, -5, -1)
    strided = depthwise(2, 8, 14, adjoint=True, stride=2)
    assert strided.simplified() is strided


@each_device
@pytest.mark.parametrize("last", [False, True])
def test_one_kernel_for_all_sizes(traits, last):
    # What a key holds is dtypes, taps and strides, and how a plane is cut; no sizes, if there is
    # enough to do for the whole device.
    plans = [
        plan_depthwise(depthwise(n, c, size, last=last), traits).main
        for n, c, size in (
            (4, 32, 56),
            (8, 64, 56),
            (2, 128, 112 if not traits.is_cpu else 56 if last else 64),
        )
    ]
    assert len({plan.code for plan in plans}) == 1
    assert len({plan.arguments for plan in plans}) == 3


@each_device
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("adjoint", [False, True])
def test_work_items_cover_every_row_once(traits, last, stride, adjoint):
    for n, channels, size in ((1, 20, 7), (3, 33, 30), (2, 16, 112)):
        what = depthwise(n, channels, size, last=last, stride=stride, adjoint=adjoint)
        what = what.simplified()
        plan = plan_depthwise(what, traits).main
        given = numbers(plan)
        if plan.template == "depthwise/channels":
            rows = what.rows.outputs
            assert given["rows_a_item"] % plan.code.rows == 0
            assert plan.code.rows % what.rows.stride == 0 or not what.adjoint
            assert plan.global_size[1] * given["rows_a_item"] >= rows
            assert (plan.global_size[1] - 1) * given["rows_a_item"] < rows
            assert plan.global_size[0] * given["vectors_a_item"] >= given["vectors"]
            assert given["vectors"] * plan.code.width >= channels
        elif plan.template != "depthwise/windows":
            assert plan.global_size[0] * given["planes_a_item"] >= n * channels
            assert (plan.global_size[0] - 1) * given["planes_a_item"] < n * channels
            assert plan.global_size[1] * given["rows_a_item"] >= what.rows.outputs


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("size", [7, 60, 200, 900])
def test_bands_fit_local_memory(size, stride, adjoint):
    for local_memory in (4096, 32768, 1 << 20):
        traits = dataclasses.replace(CPU, local_memory=local_memory)
        what = depthwise(1, 4, size, stride=stride, adjoint=adjoint, padding=0).simplified()
        plan = plan_depthwise(what, traits).main
        if plan.template == "depthwise/planes":
            given, code = numbers(plan), plan.code
            assert 4 * (code.source + 2 * code.wide) <= local_memory
            assert given["source_used"] <= code.source
            assert given["rows_a_band"] * given["wide_pitch"] <= code.wide
            assert given["rows_a_band"] * what.columns.outputs <= code.wide


def test_epilogues_on_vectors():
    what = depthwise(2, 32, 14)
    assert joins_rows(what)
    assert plan_depthwise(what, CPU).main.code.vector_store
    what = dataclasses.replace(what, y=dataclasses.replace(what.y, row=15))
    assert not joins_rows(what)
    assert template(what) == "depthwise/planes"


def test_results_that_no_cache_holds_go_past_it():
    for last in (False, True):
        assert not plan_depthwise(depthwise(8, 32, 28, last=last), CPU).main.code.streaming
        assert plan_depthwise(depthwise(32, 64, 112, last=last), CPU).main.code.streaming
        # Neither do those whose input is what does not fit, a quarter of it written.
        assert plan_depthwise(depthwise(8, 96, 112, last=last, stride=2), CPU).main.code.streaming
        assert not plan_depthwise(depthwise(32, 64, 112, last=last), GPU).main.code.streaming


def test_what_comes_from_memory_is_prefetched_before():
    # That is where input and result fill half of the last cache.
    large, small = depthwise(8, 96, 56, last=True), depthwise(8, 96, 28, last=True)
    new = dataclasses.replace(CPU, prefetch=True)
    assert plan_depthwise(large, new).main.code.ahead
    assert not plan_depthwise(large, CPU).main.code.ahead
    assert not plan_depthwise(small, new).main.code.ahead


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("size", [14, 56])
def test_planes_are_prefetched_where_they_fill_half_of_the_cache(adjoint, size):
    def prefetches(cache, prefetch=True):
        traits = dataclasses.replace(CPU, cache_bytes=cache, prefetch=prefetch)
        what = depthwise(2, 16, size, stride=2, adjoint=adjoint)
        return plan_depthwise(what, traits).main.code.ahead

    moved = 4 * 16 * (2 * (size**2 + (size // 2) ** 2) + 9)
    assert (
        prefetches(2 * moved - 1)
        and not prefetches(2 * moved)
        and not prefetches(1, prefetch=False)
    )


def test_tiles_waste_few_outputs():
    def tile(size, **options):
        code = plan_depthwise(depthwise(8, 64, size, last=True, **options), CPU).main.code
        return code.rows, code.columns

    assert [tile(size) for size in (7, 14, 28, 56)] == [(7, 1), (7, 2), (7, 2), (4, 4)]
    # Of what comes from memory a near cache keeps a column, and of few rows.
    assert [tile(112), tile(112, stride=2)] == [(7, 1), (4, 1)]
    assert tile(28, stride=2) == (7, 2)
    assert tile(57, adjoint=True, stride=2, padding=1) == (4, 4)


def test_bands_of_runs_end_with_whole_vectors():
    for size in (112, 100, 56):
        plan = plan_depthwise(depthwise(8, 96, size, stride=2), CPU).main
        assert plan.template == "depthwise/runs"
        given = numbers(plan)
        band, columns = given["rows_a_band"], given["y_columns"]
        assert band == given["y_rows"] or band * columns % plan.code.width == 0


def test_bands_of_runs_are_as_large_as_each_other():
    assert numbers(plan_depthwise(depthwise(8, 144, 56), CPU).main)["rows_a_band"] == 56
    assert numbers(plan_depthwise(depthwise(8, 32, 112), CPU).main)["rows_a_band"] == 28


def test_long_indices():
    assert plan_depthwise(depthwise(8, 32, 28), CPU).main.code.index == "int"
    assert plan_depthwise(depthwise(800, 320, 128), CPU).main.code.index == "long"
    assert plan_depthwise(depthwise_weight(800, 320, 128), CPU).main.code.index == "long"


def test_splits_bound_the_length_of_sums():
    for traits, last in itertools.product((CPU, GPU), (False, True)):
        plan = plan_depthwise(depthwise_weight(1, 16, 600, last=last), traits)
        given, code = numbers(plan.main), plan.main.code
        lanes = 1 if last or traits is GPU else 16
        rows = given["tile_rows_a_split"] * code.rows if traits is GPU else given["rows_a_split"]
        assert rows * 600 <= CHAIN * lanes
        assert plan.workspace["partial"][0] == given["bands"] * 9 * 16
        assert numbers(plan.stages[1])["splits"] == given["bands"]


def test_unrolled_are_the_kernels_that_networks_have():
    def is_unrolled(**options):
        what = depthwise(1, 16, 64, **options)
        return unrolls(what.rows, what.columns)

    for kernel, unrolled in ((3, True), (5, True), (7, True), (1, False), (4, False), (31, False)):
        assert is_unrolled(kernel=kernel) is unrolled
    assert not is_unrolled(stride=3)
    assert not is_unrolled(dilation=2)


def test_halves_are_summed_up_in_float():
    plan = plan_depthwise(depthwise(1, 16, 14, dtype=np.float16), CPU)
    assert (plan.main.code.value, plan.main.code.x.load) == ("float", "half")
    assert plan.main.nbytes == 2 * 2 * 16 * 14 * 14 + 2 * 16 * 9
    assert plan.main.flops == 2 * 9 * 16 * 14 * 14


def test_a_weight_that_changes_is_not_packed_for_little():
    small = dataclasses.replace(depthwise(1, 40, 7, stride=2, last=True), kept=False)
    large = dataclasses.replace(depthwise(8, 144, 28, last=True), kept=False)
    shared = dataclasses.replace(CPU, sub_group_size=16)

    def strategy(what, traits):
        return plan_depthwise(what, traits).choice.strategy

    assert strategy(small, shared) == "depthwise/windows"
    assert strategy(dataclasses.replace(small, kept=True), shared) == "depthwise/channels"
    assert strategy(small, CPU) == "depthwise/channels"  # work-items do not share vectors
    assert strategy(large, shared) == "depthwise/channels"


def test_what_the_rule_leaves_is_timed_as_well():
    small = dense_depthwise(1, 40, 7, stride=2, last=True)
    traits = dataclasses.replace(CPU, sub_group_size=16)
    for what in (dataclasses.replace(small, kept=False), dense_depthwise(8, 32, 14, 5)):
        chosen, *others = CONVOLUTIONS.candidates(what, traits)
        assert chosen.strategy in ("depthwise/windows", "depthwise/planes")
        left = "channels" if what.w_shape[2] == 3 else "runs"
        assert f"depthwise/{left}" in {other.strategy for other in others}
