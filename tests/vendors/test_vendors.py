"""Every kernel builds for GPUs that are not here, and tuned tiles stay in registers.

Compilers that are not installed are skipped; `bench/offline.py` says where they come from.
"""

import re

import pytest

from bench.gpus import GPUS
from bench.machine_code import product_loops
from bench.offline import available, compile_for
from bench.vendors import Row, kernels, run_vendors, tables, vendors_report
from clprim.render import render

BY_TARGET = {gpu.target: gpu for gpu in GPUS}
each_gpu = pytest.mark.parametrize("gpu", GPUS, ids=BY_TARGET)


def compiled(gpu, name):
    """One kernel by one compiler, which must take it."""
    missing = available(gpu.target)
    if missing:
        pytest.skip(f"not installed: {missing}")
    plan = dict(kernels(gpu.traits))[name]
    source = render(plan.template, plan.code)
    found = compile_for(gpu.target, source, plan.code.name, doubles=plan.code.doubles)
    assert found.builds, found.message
    return Row(gpu, name, plan, found)


@each_gpu
def test_launches_fit_the_device(gpu):
    for name, plan in kernels(gpu.traits):
        items = 1
        for size, group in zip(plan.global_size, plan.local_size, strict=True):
            assert size % group == 0, name
            items *= group
        assert items <= gpu.traits.max_work_group_size, name
        source = render(plan.template, plan.code)
        for width, count in re.findall(r"__local float(\d*) \w+\[(\d+)\]", source):
            assert 4 * int(width or 1) * int(count) <= gpu.traits.local_memory, name


@each_gpu
@pytest.mark.parametrize("name", ["matmul NN 2048³", "conv 3×3 + x0, ReLU NHWC"])
def test_tiles_stay_in_registers(gpu, name):
    row = compiled(gpu, name)
    assert row.compiled.spilled == 0
    assert (row.compiled.local or 0) <= gpu.traits.local_memory


@pytest.mark.parametrize("target", ["gfx1030", "sm_90"])
@pytest.mark.parametrize(
    "name", ["matmul NT 2048³", "conv 3×3 128→128 56² NHWC", "conv 3×3 128→128 56² NCHW"]
)
def test_the_inner_loop_multiplies(target, name):
    row = compiled(BY_TARGET[target], name)
    if row.compiled.loops is None:
        pytest.skip("not installed: nvdisasm")
    assert row.inner >= 0.8
    assert row.inner >= row.round >= 0.7
    inner, _ = product_loops(row.compiled.loops)
    assert inner.flops % (row.plan.code.rows * row.plan.code.columns) == 0


def test_the_language_of_1_2_is_enough():
    gpu = BY_TARGET["spir64"]
    if available(gpu.target):
        pytest.skip("not installed: clang")
    for name, plan in kernels(gpu.traits):
        found = compile_for("spir64", render(plan.template, plan.code), plan.code.name)
        assert found.builds, f"{name}: {found.message}"


def test_what_does_not_build_is_told():
    gpu = BY_TARGET["spir64"]
    if available(gpu.target):
        pytest.skip("not installed: clang")
    found = compile_for("spir64", "__kernel void f(__global float *a) { a[0] = b; }", "f")
    assert not found.builds
    name, plan = next(kernels(gpu.traits))
    report = vendors_report([Row(gpu, name, plan, found)])
    assert "does not build" in report.failures[0]
    assert "undeclared identifier 'b'" in report.failures[0]


def test_compilers_that_are_missing_are_named(monkeypatch):
    monkeypatch.setattr("bench.vendors.available", lambda _: "ocloc")
    rows = run_vendors(GPUS[:1], quick=True)
    (summary,) = tables(rows)
    assert summary.rows[0][1] == "not installed: ocloc"
    assert not vendors_report(rows).failures
