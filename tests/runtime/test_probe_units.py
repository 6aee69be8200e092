"""Matrix units are found by multiplying whole numbers; here by work-items that stand for them."""

import dataclasses

import numpy as np
import pyopencl as cl
import pytest

from clprim.plan.units import mma_sync, subgroup_matrix, wmma
from clprim.plan.units.known import PARTS, UNITS, unit_questions
from clprim.plan.units.unit import Fragment
from clprim.runtime import probe, probe_units, query


@pytest.fixture
def queue(device):
    return device.queue


def emulated(monkeypatch, unit):
    """Lets a unit be found by its name, as data say that it is."""
    monkeypatch.setattr("clprim.plan.product.matrix_tile.unit_of", lambda _: unit)
    return unit


# One of every set; products have them all.
ONE_OF_EACH = (*mma_sync.UNITS[2:4], *mma_sync.OLDER, *subgroup_matrix.UNITS[:1], *wmma.LATER[:1])


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("unit", ONE_OF_EACH, ids=lambda unit: unit.name.replace("/", "-"))
def test_units_that_multiply_are_found(queue, monkeypatch, unit):
    assert probe_units.multiplies(queue, emulated(monkeypatch, unit.as_emulated()))


@pytest.mark.usefixtures("unoptimised")
def test_a_unit_whose_sums_lie_elsewhere_is_not(queue, monkeypatch):
    unit = mma_sync.UNITS[0].as_emulated()
    for half in (Fragment("lane / 8", "lane % 8", 4), Fragment("lane / 4", "element", 4)):
        wrong = dataclasses.replace(unit, c=half)
        assert not probe_units.multiplies(queue, emulated(monkeypatch, wrong))


@pytest.mark.usefixtures("unoptimised")
def test_three_parts_are_measured(queue, monkeypatch):
    unit = next(u for u in mma_sync.UNITS if "tf32" in u.operands).as_emulated()
    assert probe_units.adds_parts(queue, emulated(monkeypatch, unit))
    monkeypatch.setattr(probe_units, "_product", lambda q, u, a, b, *_: (a @ b) * np.float32(1.001))
    assert not probe_units.adds_parts(queue, unit)


def test_extensions_say_which_sets_are_asked_for():
    assert unit_questions("cl_khr_fp16 cl_khr_subgroups") == []
    found = unit_questions("cl_khr_fp64 cl_nv_device_attribute_query")
    assert "mma.sync/m16n8k16/float16/32" in found
    assert found[-1] == PARTS
    found = unit_questions("cl_amd_device_attribute_query")
    assert {name.partition("/")[0] for name in found} == {"wmma_gfx11", "wmma_gfx12", "mfma"}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (b".version 8.8\n.target sm_90\n", "mma.sync/m16n8k16/float16/32"),
        (b".version 8.8\n.target sm_120, debug\n", "mma.sync/m16n8k16/float16/32"),
        (b".version 7.5\n.target sm_75\n", "mma.sync/m16n8k8/float16/32"),
        (b".version 7.5\n.target sm_61\n", None),
        (b"\x7fELF amdgcn-amd-amdhsa--gfx1100", "wmma_gfx11/m16n16k16/float16/32"),
        (b"\x7fELF amdgcn-amd-amdhsa--gfx90a:sramecc+", "mfma/m32n32k8/float16/64"),
        (b"\x7fELF amdgcn-amd-amdhsa--gfx1030", None),
    ],
)
def test_the_drivers_program_says_what_may_be_there(queue, monkeypatch, text, first):
    class Program:
        def __init__(self, *_):
            pass

        def _build(self, **_):
            pass

        def get_info(self, _):
            return [text]

    monkeypatch.setattr(cl._cl, "_Program", Program)
    found = [unit.name for unit in UNITS if probe_units._may_have(queue, unit)]
    found = [name for name in found if not name.startswith("subgroup")]
    assert found[:1] == ([] if first is None else [first])


def test_traits_have_what_was_found(device, monkeypatch):
    names = ("mma.sync/m16n8k16/float16/32", PARTS, "kernel")
    monkeypatch.setattr(probe, "abilities", lambda _: frozenset(names))
    traits = probe.refine(query.query_traits(device.cl), device.cl)
    assert traits.matrix_units == names[:1]
    assert traits.matrix_parts
