"""Every kernel builds for GPUs that are not here, and tuned tiles stay in registers.

Compilers that are not installed are skipped; `bench/vendors/offline.py` says where they come from.
"""

import dataclasses
import functools
import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.vendors import offline
from bench.vendors.gpus import GPUS
from bench.vendors.kernels import kernels
from bench.vendors.listings import Row, run_vendors, tables, vendors_report
from bench.vendors.machine_code import product_loops
from bench.vendors.offline import available, compile_for
from clprim.errors import DeviceError
from clprim.render import render
from clprim.runtime.program import cl_std_option

BY_TARGET = {gpu.target: gpu for gpu in GPUS}
each_gpu = pytest.mark.parametrize("gpu", GPUS, ids=BY_TARGET)


@functools.cache
def kernels_of(gpu):
    """Names and plans, made once."""
    return list(kernels(gpu.traits))


@functools.cache
def row_of(target, name, plan):
    """What one compiler says of one kernel, asked once."""
    source = render(plan.template, plan.code)
    found = compile_for(target, source, plan.code.name, doubles=plan.code.doubles)
    return Row(BY_TARGET[target], name, plan, found)


def compiler_of(gpu):
    """A word for it; targets of other makers begin with what they share."""
    return {"skl": "ocloc", "dg2": "ocloc"}.get(gpu.target, gpu.target[:2])


@functools.cache
def shares():
    """By target, a GPU's part of what its compiler builds: half of the kernels, of every template.

    The next compiler builds the others, so that AMD's or NVIDIA's has every kernel; the GPUs of one
    compiler take turns. ``python -m bench vendors`` builds all of them for all.
    """
    parts = {target: [] for target in BY_TARGET}
    for turn, compiler in enumerate(dict.fromkeys(map(compiler_of, GPUS))):
        named, numbers = {}, Counter()
        for gpu in GPUS:
            if compiler_of(gpu) == compiler:
                for name, plan in kernels_of(gpu):
                    named.setdefault(name, []).append((gpu, plan))
        for place, (name, owners) in enumerate(named.items()):
            gpu, plan = owners[place // 2 % len(owners)]
            number = numbers[plan.template]
            numbers[plan.template] += 1
            if number == 0 or (number + turn) % 2:
                parts[gpu.target].append((name, plan))
    return parts


def compiled(gpu, named):
    """Some kernels by one compiler, on all cores; skips where it is not installed."""
    missing = available(gpu.target)
    if missing:
        pytest.skip(f"not installed: {missing}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda pair: row_of(gpu.target, *pair), named))


@each_gpu
def test_launches_fit_the_device(gpu):
    for name, plan in kernels_of(gpu):
        items = 1
        for size, group in zip(plan.global_size, plan.local_size, strict=True):
            assert size % group == 0, name
            items *= group
        assert items <= gpu.traits.max_work_group_size, name
        source = render(plan.template, plan.code)
        for width, count in re.findall(r"__local float(\d*) \w+\[(\d+)\]", source):
            assert 4 * int(width or 1) * int(count) <= gpu.traits.local_memory, name


def test_every_compiler_builds_every_template():
    for compiler in {compiler_of(gpu) for gpu in GPUS}:
        same = [gpu for gpu in GPUS if compiler_of(gpu) == compiler]
        built = {plan.template for gpu in same for _, plan in shares()[gpu.target]}
        assert built == {plan.template for gpu in same for _, plan in kernels_of(gpu)}
    built = {
        name for gpu in GPUS if gpu.target[:2] in {"gf", "sm"} for name, _ in shares()[gpu.target]
    }
    assert built == {name for name, _ in kernels_of(BY_TARGET["sm_90"])}


@each_gpu
def test_everything_builds_and_stays_in_registers(gpu):
    # OpenCL C 1.2 (`bench.vendors.offline`): no trait of the catalogue asks for more.
    for row in compiled(gpu, shares()[gpu.target]):
        assert row.compiled.builds, f"{row.kernel}: {row.compiled.message}"
        assert not row.compiled.spilled, row.kernel
        assert (row.compiled.local or 0) <= gpu.traits.local_memory, row.kernel


@pytest.mark.parametrize("target", ["gfx1030", "sm_90"])
@pytest.mark.parametrize(
    "name",
    [
        "matmul NT 2048³",
        "conv 3×3 128→128 56² NHWC",
        "conv 3×3 128→128 56² NCHW",
        "conv 3×3 128→128 56² NHWC, F(2×2)",
        "conv 3×3 128→128 56² NCHW, F(2×2)",
    ],
)
def test_the_inner_loop_multiplies(target, name):
    plan = dict(kernels_of(BY_TARGET[target]))[name]
    (row,) = compiled(BY_TARGET[target], [(name, plan)])
    if row.compiled.loops is None:
        pytest.skip("not installed: nvdisasm")
    assert row.inner >= 0.8
    code = row.plan.code
    tile = getattr(code, "tile", code)
    # Transforms are a part of a round, and of 2.25 times fewer products.
    assert row.inner >= row.round >= (0.7 if tile is code else 0.55)
    inner, _ = product_loops(row.compiled.loops)
    assert inner.flops % (tile.rows * tile.columns) == 0


def test_the_devices_version_of_the_language_decides():
    # A platform may offer OpenCL 3.0 beside a device that compiles C 1.2 only, and the other way.
    for version in ((1, 2), (2, 0), (3, 0)):
        traits = dataclasses.replace(BY_TARGET["sm_90"].traits, c_version=version)
        assert cl_std_option(traits) == "-cl-std=CL1.2"
        assert cl_std_option(traits, version) == f"-cl-std=CL{version[0]}.{version[1]}"
    with pytest.raises(DeviceError, match=r"the device compiles OpenCL C 1\.2"):
        cl_std_option(BY_TARGET["spir64"].traits, (2, 0))
    old = dataclasses.replace(BY_TARGET["spir64"].traits, c_version=(1, 1))
    with pytest.raises(DeviceError, match=r"written in OpenCL C 1\.2"):
        cl_std_option(old)


def test_the_roofline_is_the_slower_of_two():
    gpu = BY_TARGET["sm_90"]
    plans = dict(kernels_of(gpu))
    add, product = plans["x0 + x1"], plans["matmul NN 2048³"]
    seconds, bound = Row(gpu, "", add, None).roofline
    assert bound == "memory"
    assert seconds == pytest.approx(3 * 4 * 32 * 64 * 56**2 / 3.35e12)
    seconds, bound = Row(gpu, "", product, None).roofline
    assert bound == "arithmetic"
    assert seconds == pytest.approx(2 * 2048**3 / 66.9e12)
    assert Row(gpu, "", plans["matmul double 1024³"], None).roofline is None
    assert Row(BY_TARGET["spir64"], "", add, None).roofline is None


def test_a_compiler_that_does_not_know_a_gpu_is_missing(tmp_path, monkeypatch):
    # CUDA 13 knows none before sm_75.
    script = tmp_path / "ptxas"
    script.write_text("#!/bin/sh\necho \"Allowed values:  'sm_75','sm_90'\"\n")
    script.chmod(0o755)
    monkeypatch.setattr(offline, "tool", lambda name: str(script))
    monkeypatch.setattr(offline, "_library", str)
    assert offline.available("sm_90") == ""
    assert offline.available("sm_61") == "ptxas for sm_61"


def test_what_does_not_build_is_told():
    gpu = BY_TARGET["spir64"]
    if available(gpu.target):
        pytest.skip("not installed: clang")
    found = compile_for("spir64", "__kernel void f(__global float *a) { a[0] = b; }", "f")
    assert not found.builds
    name, plan = kernels_of(gpu)[0]
    report = vendors_report([Row(gpu, name, plan, found)])
    assert "does not build" in report.failures[0]
    assert "undeclared identifier 'b'" in report.failures[0]


def test_compilers_that_are_missing_are_named(monkeypatch):
    monkeypatch.setattr("bench.vendors.listings.available", lambda _: "ocloc")
    rows = run_vendors(GPUS[:1], quick=True)
    (summary,) = tables(rows)
    assert summary.rows[0][1] == "not installed: ocloc"
    assert not vendors_report(rows).failures
