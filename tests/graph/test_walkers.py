"""Walkers as GPUs get them, on every runtime: groups of many work-items, local memory, barriers."""

import dataclasses

import numpy as np
import pyopencl as cl
import pytest
from graph.test_one_launch import MIX, bits, both, data, random_graph

import clprim as cp
from bench.vendors import GPUS
from clprim import ops
from clprim.graph.compiled import Compiled
from clprim.graph.one_launch import Walk
from clprim.graph.trace import traced
from clprim.traits import DeviceTraits

pytestmark = pytest.mark.usefixtures("device", "walks", "unoptimised")

# What plans go by; the rest is the device's own.
LIMITS = "compute_units max_work_group_size local_memory vector_bytes sub_group_size register_bytes"
KINDS = {name: GPUS[name] for name in "skl gfx803 gfx1030 sm_61 sm_90 spir64".split()}
KINDS["lanes of 8"] = DeviceTraits(
    max_work_group_size=128, sub_group_size=8, sub_groups=(8,), register_bytes=256
)
KINDS["lanes of 16"] = DeviceTraits(
    max_work_group_size=512, sub_group_size=16, local_memory=40960, register_bytes=512
)


@pytest.fixture
def walks(device):
    if not device.traits.walks:
        pytest.skip("the device launches kernels apart")


def plan_as(device, monkeypatch, kind, **limits):
    """Lets a device be planned for as a GPU, with no more memory and work-items than it has."""
    own, gpu = device.traits, KINDS[kind]
    limits = {name: getattr(gpu, name) for name in LIMITS.split()} | limits
    for name in ("max_work_group_size", "local_memory"):
        limits[name] = min(limits[name], getattr(own, name))
    sizes = tuple(size for size in gpu.sub_groups if size in own.sub_groups)
    planned = dataclasses.replace(own, is_cpu=False, sub_groups=sizes, **limits)
    monkeypatch.setitem(device.__dict__, "traits", planned)
    monkeypatch.setattr(device, "index", f"{device.index} as {kind}")


def parts_of(compiled):
    """Of every walk its work-items and texts; of other kernels nothing."""
    return [
        (part.code.items, part.code.bodies) if isinstance(part, Walk) else None
        for part in compiled.replay.parts
    ]


def layers(image, wide, each, far):
    """Kernels of most families."""
    y = ops.relu(ops.conv2d(image, wide, padding=1))
    y = ops.conv2d(y, each, padding=1, groups=16)
    z = ops.layer_norm(ops.matmul(y.mean((2, 3)), far), 24)
    return y, ops.softmax(z, dim=1), ops.cumsum(z, dim=1), ops.sort(z, dim=1)[0], z.max()


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_planned_for_gpus_have_the_bits_of_kernels_apart(device, monkeypatch, kind):
    plan_as(device, monkeypatch, kind)
    drawn = np.random.default_rng(4)
    shapes = (2, 8, 9, 9), (16, 8, 3, 3), (16, 1, 3, 3), (16, 24)
    given = [cp.asarray(drawn.standard_normal(s).astype(np.float32)) for s in shapes]
    jobs = [(layers, given, True), *((random_graph(seed), data(seed), False) for seed in range(3))]
    found = []
    for function, arrays, passes in jobs:
        one, each = both(device, function, arrays, passes=passes)
        wanted = bits(each(arrays))
        for _ in range(3):
            assert bits(one(arrays)) == wanted
        found += filter(None, parts_of(one))
        assert len(one.replay.parts) < len(each.replay.parts)
    sizes = {items for items, _ in found}
    assert min(sizes) > 1
    assert max(sizes) <= device.traits.max_work_group_size
    # Several kernels of a launch that share local memory, each in its own way.
    assert any(sum(bool(body.arrays) for body in bodies) > 1 for _, bodies in found)


@pytest.mark.oclgrind
def test_one_work_group_after_another_neither_hangs_nor_races(device, monkeypatch):
    plan_as(device, monkeypatch, "spir64")
    given = data(1)
    one, each = both(device, random_graph(1), given)
    assert bits(one(given)) == bits(each(given))


@pytest.mark.oclgrind
def test_units_one_after_another_share_local_memory(device, monkeypatch):
    # A work-group takes several rows' groups as one tile: the next one waits for the last one.
    plan_as(device, monkeypatch, "spir64", compute_units=1)
    drawn = np.random.default_rng(1).standard_normal((150, 40)).astype(np.float32)
    given = [cp.asarray(drawn), cp.asarray(drawn[::-1].copy())]

    def function(x, y):
        return ops.layer_norm(ops.softmax(x, dim=1), 40), ops.softmax(y, dim=1)

    one, each = both(device, function, given)
    (walk,) = one.replay.parts
    for phase, tiles in zip(walk.phases, walk.tiles(), strict=True):
        assert tiles < np.prod(phase.units)
    assert bits(one(given)) == bits(each(given))


def test_groups_of_a_launch_are_of_one_size(device, monkeypatch):
    plan_as(device, monkeypatch, "sm_90")
    given = data(0)

    def function(a, b, c, d):
        a = ops.softmax(MIX(a, b), dim=1)  # 256 work-items
        return ops.softmax(ops.matmul(ops.matmul(a, c), d), dim=1) + d  # 64, and 256

    one, each = both(device, function, given)
    sizes = [items for items, _ in filter(None, parts_of(one))]
    assert sizes == [256, 64, 256]
    assert None not in parts_of(one)
    assert bits(one(given)) == bits(each(given))


def test_kernels_of_sub_groups_are_launched_between(device, monkeypatch):
    plan_as(device, monkeypatch, "skl")
    if not device.traits.sub_groups:
        pytest.skip("the device has no sub-groups")
    given = data(3)

    def function(a, b, c, d):
        y = ops.matmul(MIX(MIX(a, b), c), d, algorithm="sub_groups")
        return MIX(MIX(y, a), b)

    one, each = both(device, function, given)
    assert [found is None for found in parts_of(one)] == [False, True, False]
    assert bits(one(given)) == bits(each(given))


def test_what_finds_no_local_memory_is_launched_apart(device, monkeypatch):
    plan_as(device, monkeypatch, "sm_90")
    given = data(2)
    _, graph, form = traced("random", lambda: random_graph(2)(*given), given)

    def made(launches):
        with cp.options(launches=launches):
            return Compiled(device, graph, form, passes=False)

    each, one = made("each"), made("one")
    asked = cl.kernel_work_group_info.LOCAL_MEM_SIZE
    kernels = [part.launch.parts()[0] for part in one.replay.parts if isinstance(part, Walk)]
    sizes = [kernel.get_work_group_info(asked, device.cl) for kernel in kernels]
    planned = dataclasses.replace(device.traits, local_memory=max(sizes) - 1)
    monkeypatch.setitem(device.__dict__, "traits", planned)
    few = made("one")
    assert sum(map(bool, parts_of(few))) == sum(size < max(sizes) for size in sizes) > 0
    assert bits(few(given)) == bits(one(given)) == bits(each(given))
