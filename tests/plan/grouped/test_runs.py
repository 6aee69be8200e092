"""Plans of groups that are summed up and mapped at once: which groups, and what they cover."""

import dataclasses

import numpy as np
import pytest
from planning import CPU, GPU, array, numbers

from clprim.language.grouped_definition import define_grouped
from clprim.plan.grouped.family import GROUPS
from clprim.plan.grouped.problem import Groups
from clprim.plan.strides import Operand

WIDE = dataclasses.replace(CPU, compute_units=2)
FLOAT = np.dtype(np.float32)
EACH = "y0 = (x0 - group_y0) * group_y1;"


def define(each=EACH, near=None):
    return define_grouped(
        "y0 = x0; y1 = x0 * x0;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        combine=None,
        finalize="group_y0 = reduce_y0 / count; group_y1 = rsqrt(reduce_y1 / count);",
        each=each,
        name="group",
        preamble="",
        near=near,
    )


def statistics_of(shape, axes):
    """An array of one element a group."""
    kept = tuple(1 if d in axes else size for d, size in enumerate(shape))
    return array(kept)


def plan(x, axes=(0, 2, 3), traits=WIDE, each=EACH, extra=(), out=None, near=None):
    problem = Groups(
        definition=define(each, near),
        shape=x.shape,
        axes=axes,
        value=FLOAT,
        inputs=(x, *extra),
        scalars=(),
        results=(dataclasses.replace(x, offset=0) if out is None else out,),
        kept=(statistics_of(x.shape, axes), None),
    )
    found = GROUPS.strategy("grouped/runs").decide(problem, traits)
    return found and found.plan().main


def test_channels_of_planes():
    found = plan(array((32, 64, 14, 14)))
    assert found.template == "grouped/runs"
    given = numbers(found)
    assert (given["groups"], given["rows"], given["n"]) == (64, 32, 196)
    assert (given["x0_group"], given["x0_row"]) == (196, 64 * 196)
    assert found.global_size[0] * given["groups_an_item"] >= 64
    assert (found.global_size[0] - 1) * given["groups_an_item"] < 64
    assert found.code.widths == (16, 4, 1)


def test_rows_and_groups_of_two_axes():
    given = numbers(plan(array((100, 768)), (1,)))
    assert (given["groups"], given["rows"], given["n"]) == (100, 1, 768)
    # A factor for each channel keeps images and groups apart.
    x, gain = array((8, 4, 6, 50)), array((4, 6, 1))
    found = plan(x, (2, 3), each="y0 = (x0 - group_y0) * group_y1 * x1;", extra=[gain])
    given = numbers(found)
    assert (given["groups"], given["inner_groups"]) == (32, 4)
    assert (given["rows"], given["n"]) == (6, 50)
    assert (given["x1_outer"], given["x1_group"], given["x1_row"]) == (0, 6, 1)


def test_sizes_are_no_part_of_the_key():
    plans = [plan(array((n, c, s, s))) for n, c, s in ((32, 64, 14), (8, 128, 28), (4, 16, 20))]
    assert len({p.code for p in plans}) == 1


@pytest.mark.parametrize(
    ("shape", "axes", "partials"),
    [
        ((1000, 128), (1,), 1),
        ((1, 640), (1,), 2),  # so short that cores need not share it
        ((1000, 256), (1,), 2),
        ((1000, 1023), (1,), 2),
        ((1000, 1024), (1,), 4),
        ((8, 64, 14, 14), (0, 2, 3), 4),  # short runs, of which a group has some
        ((64, 64, 7, 7), (0, 2, 3), 1),  # runs that are too short by themselves
    ],
)
def test_short_groups_have_few_partials_to_merge(shape, axes, partials):
    assert plan(array(shape), axes=axes).code.unroll == partials


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (array((32, 64, 14, 14)), {"traits": GPU}),
        (array((32, 64, 14, 14), order=(0, 2, 3, 1)), {}),  # neighbours belong to other channels
        (array((32, 64, 14, 14), steps=2), {}),
        (array((32, 64, 14, 14), np.float64), {}),  # of another type than what is calculated in
        (array((32, 64, 3, 3)), {}),  # runs that fill no vector
        (array((32, 1, 14, 14)), {}),  # fewer groups than share the work
        (array((1000, 31)), {"axes": (1,)}),
        (array((64, 8, 200, 200)), {}),  # no cache holds a channel
        (array((32, 64, 14, 14)), {"each": "if (x0 > group_y0) y0 = group_y1;"}),  # not for vectors
        (array((4, 6, 4, 6, 4, 20)), {"axes": (1, 3, 5)}),
    ],
    ids=str,
)
def test_what_is_left_to_two_passes(x, options):
    assert plan(x, **options) is None


def test_what_is_begun_has_room_near():
    near = {
        "begin": "y0 = x0;",
        "step": "reduce_y0 += y0; reduce_y1 += y0 * y0;",
        "finish": "y0 = (y0 - group_y0) * group_y1;",
    }
    small = dataclasses.replace(WIDE, local_memory=8192)
    for traits, room in ((WIDE, 4096), (small, 2048)):
        held = plan(array((100, room)), (1,), traits, near=near).code
        assert held.begun == room and [p.parts[0] for p in held.phases] == ["near_begin"]
        # Else elements are read again: the plan is that of the other strings.
        x = array((100, room + 1))
        assert plan(x, (1,), traits, near=near).code == plan(x, (1,), traits).code


def test_what_the_result_is_stored_as_may_differ():
    x = array((32, 64, 14, 14), np.float16)
    found = plan(x, out=array((32, 64, 14, 14)))
    assert [o.load for o in found.code.arrays if o.name in ("y0", "x0")] == [
        "direct",
        "half",
    ]
    assert plan(array((32, 64, 14, 14)), out=array((32, 64, 14, 14), order=(1, 0, 3, 2))) is None


def test_a_core_has_its_part_of_the_last_cache():
    x = array((32, 64, 112, 112))  # 1.6 MB a channel
    assert plan(x, traits=dataclasses.replace(WIDE, cache_bytes=32 << 20)) is not None
    assert plan(x, traits=dataclasses.replace(WIDE, cache_bytes=4 << 20)) is None
    many = dataclasses.replace(WIDE, cache_bytes=32 << 20, compute_units=16)
    assert plan(x, traits=many) is None


def test_only_whole_vectors_go_past_the_cache():
    assert plan(array((32, 64, 64, 64))).code.streaming
    assert not plan(array((32, 64, 62, 63))).code.streaming
    assert not plan(array((4, 64, 64, 64))).code.streaming
    odd = Operand((32, 64, 64, 64), array((32, 64, 64, 64)).strides, 4, np.dtype(np.float32))
    assert not plan(array((32, 64, 64, 64)), out=odd).code.streaming


def test_what_is_counted():
    found = plan(array((32, 64, 14, 14)))
    assert found.nbytes == 2 * 4 * 32 * 64 * 196
    assert found.flops == 5 * 32 * 64 * 196


def test_the_next_run_is_prefetched():
    prefetching = dataclasses.replace(WIDE, prefetch=True)
    begun = {
        "begin": "y0 = x0;",
        "step": "reduce_y0 += y0; reduce_y1 += y0 * y0;",
        "finish": "y0 = (y0 - group_y0) * group_y1;",
    }

    for near in (None, begun):
        assert plan(array((8192, 1024)), (1,), prefetching, near=near).code.ahead
    assert not plan(array((8192, 1024)), (1,), WIDE).code.ahead
