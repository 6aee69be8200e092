"""Plans of `Reduction`: splits that cover everything, groups that fit, keys without shapes."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import ARGMAX, FLOAT, SUM, array, define, numbers
from planning import reduce_plan as plan

from clprim.errors import ShapeError
from clprim.plan.kernel import BAKED_DIMS, Buffer, Scalar
from clprim.plan.machine import ITEMS
from clprim.plan.reduction.code import Scaling
from clprim.render import render
from clprim.traits import DeviceTraits

TRAITS = {
    "cpu": DeviceTraits(is_cpu=True, compute_units=2, max_work_group_size=4096, vector_bytes=64),
    "sse": DeviceTraits(is_cpu=True, compute_units=64, max_work_group_size=1024),
    "simd": DeviceTraits(is_cpu=True, compute_units=8, vector_bytes=64, sub_group_size=16),
    "gpu": DeviceTraits(compute_units=40, max_work_group_size=1024, sub_group_size=32),
    "modest": DeviceTraits(compute_units=2, max_work_group_size=64, local_memory=4096),
    "tiny": DeviceTraits(compute_units=1, max_work_group_size=1, local_memory=64),
    "odd": DeviceTraits(compute_units=3, max_work_group_size=96, local_memory=1000),
}
each_device = pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)

TEN = define(
    init=" ".join(f"reduce_y{n} = 0;" for n in range(10)),
    step=" ".join(f"reduce_y{n} += y0;" for n in range(10)),
)


def check(found, shape, axes, traits, partial_bytes):
    """What holds for every plan of a reduction on every device."""
    length = math.prod(shape[d] for d in axes)
    outputs = math.prod(size for d, size in enumerate(shape) if d not in axes)
    schedule = found.schedule
    assert (
        (schedule.splits - 1) * schedule.chunk < max(1, length) <= schedule.splits * schedule.chunk
    )
    for stage in found.stages:
        assert len(stage.global_size) == len(stage.local_size)
        assert all(g % s == 0 for g, s in zip(stage.global_size, stage.local_size, strict=True))
        assert all(s > 0 for s in stage.local_size)
        items = math.prod(stage.local_size)
        assert items <= traits.max_work_group_size
        shared = items if stage.code.lanes * stage.code.rows > 1 else 0
        assert shared * partial_bytes <= traits.local_memory
        tree = stage.code.lanes if stage.template != "reduction/lanes" else stage.code.rows
        assert tree & (tree - 1) == 0  # a tree halves it

    first = found.stages[0]
    given = numbers(first)
    assert (given["length"], given["outputs"], given["chunk"]) == (length, outputs, schedule.chunk)
    assert given["outputs"] % given["width"] == 0
    groups = first.global_size[0] // first.local_size[0]
    assert first.global_size[1] // first.local_size[1] == schedule.splits
    if first.template == "reduction/inner":
        tiles = outputs
    elif first.template == "reduction/narrow":
        assert schedule.unroll == given["width"] < schedule.vector
        tiles = outputs // given["width"]
    else:
        side = schedule.vector * schedule.unroll * schedule.lanes
        assert first.template == "reduction/lanes" or side <= given["width"]
        tiles = outputs // given["width"] * -(-given["width"] // side)
    assert (groups - 1) * given["per_group"] < tiles <= groups * given["per_group"]

    if schedule.splits == 1:
        assert len(found.stages) == 1
        assert found.workspace == {}
    else:
        second = found.stages[1]
        assert (first.code.partial, second.code.partial) == (True, False)
        assert second.template == "reduction/finish"
        assert [size for size, _ in found.workspace.values()] == [outputs * schedule.splits] * len(
            found.workspace
        )
        assert numbers(second)["splits"] == schedule.splits
        tile = second.code.vector * second.code.unroll
        assert second.global_size[0] * tile >= outputs * second.code.lanes
        if tile > 1:
            assert tile <= outputs and second.code.lanes == 1
            assert (second.global_size[0] - 1) * tile < outputs
        if second.code.lanes > 1:
            assert second.local_size == (second.code.lanes, 1)
            assert second.global_size[0] == outputs * second.code.lanes


SIZES = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 129, 255, 1000, 1025, 4097, 70000]


@each_device
@pytest.mark.parametrize("definition", [SUM, ARGMAX, TEN], ids=["sum", "argmax", "ten"])
def test_every_length_is_covered_exactly(traits, definition):
    partials = [np.float32, np.int64] if definition is ARGMAX else None
    bytes_ = {SUM: 4, ARGMAX: 12, TEN: 40}[definition]
    for n in SIZES:
        for shape, axes in [
            ((n,), (0,)),
            ((3, n), (1,)),
            ((200, n), (1,)),
            ((n, 3), (0,)),
            ((n, 200), (0,)),
            ((5, n, 7), (1,)),
            ((4, 3, n), (0, 2)),
            ((n, 5, 40), (0, 2)),
        ]:
            check(
                plan(array(shape), axes, traits, definition, partials), shape, axes, traits, bytes_
            )


@st.composite
def reductions(draw):
    ndim = draw(st.integers(0, 5))
    size = st.sampled_from([1, 2, 3, 5, 8, 16, 31, 64, 100, 257])
    shape = tuple(draw(st.lists(size, min_size=ndim, max_size=ndim)))
    axes = tuple(d for d in range(ndim) if draw(st.booleans()))
    order = tuple(draw(st.permutations(range(ndim))))
    return shape, axes, order, draw(st.sampled_from([1, 1, 2, 3]))


@each_device
@settings(max_examples=150, derandomize=True, deadline=None)
@given(made=reductions())
def test_any_shape_and_any_axes_are_covered_exactly(traits, made):
    shape, axes, order, steps = made
    found = plan(array(shape, order=order, steps=steps), axes, traits)
    check(found, shape, axes, traits, 4)
    assert found == plan(array(shape, order=order, steps=steps), axes, traits)


@each_device
def test_chains_of_additions_stay_short(traits):
    for n in (10**5, 10**6, 10**7, 10**8):
        for shape, axes in [((n,), (0,)), ((n, 4), (0,)), ((n, 1000), (0,)), ((4, n), (1,))]:
            found = plan(array(shape), axes, traits)
            schedule = found.schedule
            if schedule.template in ("reduction/inner", "reduction/narrow"):
                parallel = schedule.vector * schedule.lanes
            else:
                parallel = schedule.rows
            assert schedule.chunk // parallel <= 2 * 8192


@each_device
@pytest.mark.parametrize(
    ("shape", "axes"), [((1 << 24,), (0,)), ((1 << 20, 16), (0,)), ((2, 1 << 23), (1,))]
)
def test_few_outputs_still_keep_the_device_busy(traits, shape, axes):
    found = plan(array(shape), axes, traits)
    first = found.stages[0]
    groups = math.prod(first.global_size) // math.prod(first.local_size)
    assert groups >= 2 * traits.compute_units


# --- strategies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "shape", "axes", "order", "template"),
    [
        ("cpu", (64, 1000), (1,), None, "reduction/inner"),
        ("cpu", (64, 1000), (0,), None, "reduction/columns"),
        ("cpu", (64, 1000), (0,), (1, 0), "reduction/inner"),
        ("cpu", (64, 1000), (0, 1), None, "reduction/inner"),
        ("cpu", (8, 64, 56, 56), (0, 2, 3), None, "reduction/inner"),
        ("cpu", (8, 64, 56, 56), (0, 2, 3), (0, 2, 3, 1), "reduction/columns"),
        ("gpu", (64, 1000), (1,), None, "reduction/inner"),
        ("gpu", (64, 1000), (0,), None, "reduction/lanes"),
        ("gpu", (8, 64, 56, 56), (0, 2, 3), None, "reduction/inner"),
        ("gpu", (8, 64, 56, 56), (0, 2, 3), (0, 2, 3, 1), "reduction/lanes"),
        ("gpu", (10000, 3), (1,), None, "reduction/lanes"),
        ("cpu", (10000, 3), (0,), None, "reduction/narrow"),
        ("gpu", (10000, 3), (0,), None, "reduction/lanes"),
    ],
)
def test_the_fastest_loop_in_memory_decides(device, shape, axes, order, template):
    assert plan(array(shape, order=order), axes, TRAITS[device]).schedule.template == template


@pytest.mark.parametrize("device", ["gpu", "modest"])
def test_neighbouring_work_items_of_a_gpu_read_neighbouring_elements(device):
    traits = TRAITS[device]
    inner = plan(array((64, 4096)), (1,), traits).schedule
    assert (inner.template, inner.rows) == ("reduction/inner", 1)
    assert inner.lanes >= 32
    lanes = plan(array((4096, 64)), (0,), traits).schedule
    assert (lanes.template, lanes.vector) == ("reduction/lanes", 1)
    assert lanes.lanes >= 16


def test_a_cpu_runs_one_work_item_a_group():
    for device, axes in itertools.product(("cpu", "sse"), ((0,), (1,))):
        schedule = plan(array((500, 1000)), axes, TRAITS[device]).schedule
        assert (schedule.lanes, schedule.rows) == (1, 1)


@pytest.mark.parametrize(
    ("device", "dtype", "partial", "vector"),
    [
        ("cpu", np.float32, np.float32, 16),
        ("sse", np.float32, np.float32, 4),
        ("cpu", np.float64, np.float64, 8),
        ("cpu", np.float16, np.float32, 16),
        ("cpu", np.int64, np.int64, 8),
        ("cpu", np.int8, np.int64, 8),  # widened as they are read
        ("cpu", np.bool_, np.int64, 1),
        ("cpu", np.float32, np.float64, 8),
    ],
)
@pytest.mark.parametrize("axes", [(0,), (1,)])
def test_vectors_are_used_where_they_mean_the_same(device, dtype, partial, vector, axes):
    found = plan(array((512, 512), dtype), axes, TRAITS[device], partials=[partial])
    assert found.schedule.vector == vector
    strided = array((512, 512), dtype, steps=2)
    assert plan(strided, axes, TRAITS[device], partials=[partial]).schedule.vector == 1
    argmax = plan(array((512, 512), dtype), axes, TRAITS[device], ARGMAX, [partial, np.int64])
    assert argmax.schedule.vector == 1


# --- the key is the kernel, not the shape -----------------------------------------------------

CLASSES = [
    [((b, 1000), (1,)) for b in (2, 8, 50, 500)],
    [((n,), (0,)) for n in (1 << 14, 100_000, 200_000)],
    [((b, 200), (0,)) for b in (60, 64, 100, 300)],
    [((b, 64, 28, 28), (0, 2, 3)) for b in (8, 16, 32)],
]


@each_device
@pytest.mark.parametrize("calls", CLASSES, ids=lambda calls: str(calls[0]))
def test_shapes_of_one_class_share_their_code(traits, calls):
    # In one stage or in two: a few kernels serve all shapes.
    codes = {
        stage.code for shape, axes in calls for stage in plan(array(shape), axes, traits).stages
    }
    assert len(codes) <= 4
    # In the second stage, as many work-items share an output as its splits are worth; a GPU's
    # work-groups are smaller where rows alone keep it busy.
    plans = [plan(array(shape), axes, traits) for shape, axes in calls[1:3]]
    busy = {numbers(p.stages[0])["outputs"] >= ITEMS * traits.compute_units for p in plans}
    if len({len(p.stages) for p in plans}) == 1 and (traits.is_cpu or len(busy) == 1):
        assert len({p.stages[0].code for p in plans}) == 1
        assert len({dataclasses.replace(p.stages[-1].code, lanes=1) for p in plans}) == 1


@pytest.mark.parametrize(
    ("sizes", "size", "lanes"),
    [((8, 16, 32), 32, 16), ((), 32, 32), ((), 64, 64), ((), 1, 32), ((8,), 8, 32)],
)
def test_many_short_rows_are_a_sub_group_each(sizes, size, lanes):
    traits = DeviceTraits(
        compute_units=16, max_work_group_size=256, sub_groups=sizes, sub_group_size=size
    )

    def group(rows, length):
        (stage,) = plan(array((rows, length)), (1,), traits).stages
        assert stage.template == "reduction/inner"
        return stage.code.lanes

    assert group(ITEMS * 16, 1000) == lanes
    assert group(ITEMS * 16 - 1, 1000) == 64
    assert group(ITEMS * 16, 1 << 16) == 256  # long ones share a large group


@each_device
def test_an_offset_or_another_stride_is_the_same_kernel(traits):
    codes = {
        tuple(s.code for s in plan(array((300, 500), offset=o, steps=k), (1,), traits).stages)
        for o, k in itertools.product((0, 4, 400), (2, 3, 5))
    }
    assert len(codes) == 1


def test_plans_are_values():
    one, two = (plan(array((8, 9)), (1,)) for _ in range(2))
    assert one == two
    assert hash(one.stages[0].code) == hash(two.stages[0].code)
    text = [render(s.template, s.code) for s in one.stages]
    assert text == [render(s.template, s.code) for s in two.stages]


# --- indices and dimensions -------------------------------------------------------------------


@each_device
@pytest.mark.parametrize(
    ("operand", "axes", "expected"),
    [
        (array((1 << 30,), np.int8), (0,), "int"),
        (array((2**31 + 5,), np.int8), (0,), "long"),
        (array((1 << 16, 1 << 15), np.int8), (0,), "long"),
        (array((1 << 16, 1 << 15), np.int8), (1,), "long"),
        (array((1000,), np.int8, offset=2**31), (0,), "long"),
        (array((1000, 3), np.int8, steps=2**22), (1,), "long"),
        (array((1 << 16, 1 << 14), np.float64), (0,), "int"),
    ],
    ids=str,
)
def test_indices_are_as_wide_as_they_must(operand, axes, expected, traits):
    found = plan(operand, axes, traits, partials=[np.int64])
    assert {stage.code.index for stage in found.stages} == {expected}
    for stage in found.stages:
        text = render(stage.template, stage.code)
        assert f"typedef {expected} index_t;" in text


def test_arrays_past_2_to_the_31_are_covered():
    for traits in TRAITS.values():
        for shape, axes in [((2**31 + 7,), (0,)), ((2**16, 2**16), (0,)), ((2**16, 2**16), (1,))]:
            found = plan(array(shape, np.int8), axes, traits, partials=[np.int64])
            check(found, shape, axes, traits, 8)


@each_device
@pytest.mark.parametrize("ndim", [1, 2, 4, BAKED_DIMS, BAKED_DIMS + 1, 13, 20])
def test_any_number_of_dimensions(traits, ndim):
    shape = (2,) * ndim
    axes = tuple(range(0, ndim, 2))  # reduced and kept dimensions by turns never collapse
    found = plan(array(shape), axes, traits)
    check(found, shape, axes, traits, 4)
    assert bool(found.stages[0].code.constants) == (ndim > BAKED_DIMS)


@pytest.mark.parametrize("inputs", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("ndim", [1, 4, BAKED_DIMS, BAKED_DIMS + 1, 16])
def test_arguments_fit_what_opencl_promises(ndim, inputs):
    total = " + ".join(f"x{n}" for n in range(inputs))
    definition = define(f"y0 = {total} + index + coord(0);", step="reduce_y0 += y0 * reduce_item;")
    found = plan([array((2,) * ndim)] * inputs, tuple(range(0, ndim, 2)), definition=definition)
    sizes = {"": 8, "i": 4, "l": 8, "f": 4, "d": 8}
    for stage in found.stages:
        assert sum(sizes[p.format] for p in stage.code.parameters) <= 1024


def test_a_dimension_that_is_not_there_is_refused():
    with pytest.raises(ShapeError, match=r"coord\(2\) is out of bounds for a broadcast shape of 2"):
        plan(array((3, 4)), (1,), definition=define("y0 = x0 * coord(2);"))


# --- arguments --------------------------------------------------------------------------------


def test_operands_are_results_inputs_and_workspace():
    one = plan([array((5, 4)), array((5, 4))], (1,), definition=define("y0 = x0 * x1;")).stages[0]
    assert one.arguments[:3] == (Buffer("y0"), Buffer("x0"), Buffer("x1"))
    found = plan(array((1 << 22,)), (0,))
    first, second = found.stages
    assert first.arguments[:2] == (Buffer("x0"), Buffer("reduce_y0"))
    assert second.arguments[:2] == (Buffer("y0"), Buffer("reduce_y0"))


def test_alpha_and_beta_follow_the_scalars():
    scaling = [Scaling("accumulate", FLOAT)]
    stage = plan(array((5, 4)), (1,), scaling=scaling).stages[0]
    assert stage.arguments[2:4] == (Scalar(0), Scalar(1))
    names = [p.declaration for p in stage.code.parameters[2:4]]
    assert names == ["const float alpha0", "const float beta0"]
    two = plan(array((1 << 22,)), (0,), scaling=scaling).stages
    assert [sum(isinstance(a, Scalar) for a in s.arguments) for s in two] == [0, 2]


def test_work_is_counted_for_profiles():
    stage = plan([array((100, 10)), array((10,))], (1,), definition=define("y0 = x0 * x1;")).stages[
        0
    ]
    assert stage.nbytes == 4 * (1000 + 10 + 100)
    assert stage.flops == 2000


@each_device
def test_more_memory_than_a_group_has_shrinks_the_group(traits):
    generous = dataclasses.replace(traits, local_memory=1 << 20)
    for local in (4096, 1024, 256, 64):
        shrunk = dataclasses.replace(traits, local_memory=local)
        for axes in ((0,), (1,)):
            found = plan(array((4096, 4096)), axes, shrunk, TEN)
            check(found, (4096, 4096), axes, shrunk, 40)
            large = plan(array((4096, 4096)), axes, generous, TEN).schedule
            small = found.schedule
            assert small.lanes * small.rows <= large.lanes * large.rows


def test_tiles_of_columns_overlap_little():
    traits = TRAITS["cpu"]
    for definition, partials in ((SUM, 1), (TEN, 10)):
        for width in range(16, 4096, 16):
            code = plan(array((100_000, width)), (0,), traits, definition).stages[0].code
            assert code.vector == 16
            tile = code.vector * code.unroll
            assert code.unroll * partials <= max(12, partials)
            if partials == 1:
                assert -(-width // tile) * tile <= 1.15 * width


def test_partials_are_merged_in_long_runs_where_vectors_merge_as_elements_do():
    shape, traits = (64, 128, 56, 56), TRAITS["cpu"]
    second = plan(array(shape), (1, 3), traits).stages[1].code
    assert (second.vector, second.unroll) == (16, 8)
    second = plan(array(shape), (1, 3), traits, ARGMAX, [np.float32, np.int64]).stages[1].code
    assert (second.vector, second.unroll) == (1, 1)
    second = plan(array(shape), (1, 3), TRAITS["gpu"]).stages[-1].code
    assert (second.vector, second.unroll) == (1, 1)


def test_what_all_elements_of_an_output_read_alike_does_not_walk():
    definition = define("y0 = x0 - x1;")
    for shape, axes, other in [
        ((100, 64), (0,), (1, 64)),
        ((8, 64, 30), (0, 2), (1, 64, 1)),
    ]:
        stage = plan([array(shape), array(other)], axes, TRAITS["cpu"], definition).stages[0]
        assert stage.code.still == ("x1",)
        assert "x0_step" in numbers(stage) and "x1_step" not in numbers(stage)
        assert "x1_at +=" not in render(stage.template, stage.code)
    walks = plan([array((100, 64)), array((100, 1))], (0,), TRAITS["cpu"], definition).stages[0]
    assert walks.code.still == ()


def test_levels_of_columns_end_their_chains():
    for length in (33, 200, 511, 512, 513, 100_000):
        (first, *_) = plan(array((length, 512)), (0,), traits=TRAITS["cpu"]).stages
        assert first.template == "reduction/columns"
        chain = 24 if first.code.fours else 6
        assert first.code.endless or chain * 4**first.code.levels >= numbers(first)["chunk"]


def test_groups_of_columns_in_a_cache_take_neighbouring_tiles():
    traits = dataclasses.replace(TRAITS["cpu"], cache_bytes=1 << 25)
    for shape, tiles in (((1568, 2048), 3), ((6272, 512), 2), ((60_000, 512), 1)):
        assert plan(array(shape), (0,), traits=traits).schedule.per_group == tiles


def test_columns_that_lie_apart_in_the_cache_take_four_rows_a_step():
    traits = dataclasses.replace(TRAITS["cpu"], vector_bytes=64)
    for (rows, width), fours in {
        (1000, 512): True,
        (4000, 512): False,  # in memory
        (1000, 128): False,  # a tile is a row
        (40_000, 128): False,
    }.items():
        (first, *_) = plan(array((rows, width)), (0,), traits=traits).stages
        assert first.code.fours == fours
