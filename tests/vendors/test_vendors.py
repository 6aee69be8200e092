"""Every kernel builds for GPUs that are not here, and tuned tiles stay in registers.

Compilers that are not installed are skipped; `bench/vendors.py` says where they come from.
"""

import dataclasses
import functools
import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench import vendors
from bench.__main__ import main
from bench.vendors import GPUS, available, compile_for, kernels
from clprim.errors import DeviceError
from clprim.render import render
from clprim.runtime.program import cl_std_option

each_gpu = pytest.mark.parametrize("target", GPUS)


@functools.cache
def kernels_of(target):
    """Names and plans, made once."""
    return list(kernels(GPUS[target]))


def compiler_of(target):
    """A word for it; targets of other makers begin with what they share."""
    return {"skl": "ocloc", "dg2": "ocloc"}.get(target, target[:2])


@functools.cache
def shares():
    """By target, a GPU's part of what its compiler builds: half of the kernels, of every template.

    The next compiler builds the others, so that AMD's or NVIDIA's has every kernel; the GPUs of one
    compiler take turns. ``python -m bench vendors`` builds all of them for all.
    """
    parts = {target: [] for target in GPUS}
    known = [(name, compiler_of(target)) for target in GPUS for name, _ in kernels_of(target)]
    numbers = {name: n for n, name in enumerate(dict.fromkeys(name for name, _ in known))}
    owned = Counter(name for name, compiler in {*known} if compiler in {"gf", "sm"})
    for turn, compiler in enumerate(dict.fromkeys(map(compiler_of, GPUS))):
        named, templates = {}, set()
        for target in GPUS:
            if compiler_of(target) == compiler:
                for name, plan in kernels_of(target):
                    named.setdefault(name, []).append((target, plan))
        for place, (name, owners) in enumerate(named.items()):
            target, plan = owners[place // 2 % len(owners)]
            alone = plan.template not in templates or owned[name] < 2
            templates.add(plan.template)
            if alone or (numbers[name] + turn) % 2:
                parts[target].append((name, plan))
    return parts


@each_gpu
def test_launches_fit_the_device(target):
    traits = GPUS[target]
    for name, plan in kernels_of(target):
        items = 1
        for size, group in zip(plan.global_size, plan.local_size, strict=True):
            assert size % group == 0, name
            items *= group
        assert items <= traits.max_work_group_size, name
        source = render(plan.template, plan.code)
        for width, count in re.findall(r"__local float(\d*) \w+\[(\d+)\]", source):
            assert 4 * int(width or 1) * int(count) <= traits.local_memory, name


def test_every_compiler_builds_every_template():
    for compiler in {compiler_of(target) for target in GPUS}:
        same = [target for target in GPUS if compiler_of(target) == compiler]
        built = {plan.template for target in same for _, plan in shares()[target]}
        assert built == {plan.template for target in same for _, plan in kernels_of(target)}
    built = {name for target in GPUS if target[:2] in {"gf", "sm"} for name, _ in shares()[target]}
    assert built >= {name for name, _ in kernels_of("sm_90")}


@each_gpu
def test_everything_builds_and_stays_in_registers(target):
    # OpenCL C 1.2 (`bench/vendors.py`): no trait of the catalogue asks for more.
    missing = available(target)
    if missing:
        pytest.skip(f"not installed: {missing}")

    def compiled(named):
        name, plan = named
        source = render(plan.template, plan.code)
        return name, compile_for(target, source, plan.code.options, doubles=plan.code.doubles)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, found in pool.map(compiled, shares()[target]):
            assert found.builds, f"{name}: {found.message}"
            # What a launch of several keeps beside its kernels may be more than registers hold.
            assert name == "kernels in one launch" or not found.spilled, name
            assert (found.local or 0) <= GPUS[target].local_memory, name


def test_the_devices_version_of_the_language_decides():
    # A platform may offer OpenCL 3.0 beside a device that compiles C 1.2 only, and the other way.
    for version in ((1, 2), (2, 0), (3, 0)):
        traits = dataclasses.replace(GPUS["sm_90"], c_version=version)
        assert cl_std_option(traits) == "-cl-std=CL1.2"
        assert cl_std_option(traits, version) == f"-cl-std=CL{version[0]}.{version[1]}"
    with pytest.raises(DeviceError, match=r"the device compiles OpenCL C 1\.2"):
        cl_std_option(GPUS["spir64"], (2, 0))
    old = dataclasses.replace(GPUS["spir64"], c_version=(1, 1))
    with pytest.raises(DeviceError, match=r"written in OpenCL C 1\.2"):
        cl_std_option(old)


def test_a_compiler_that_does_not_know_a_gpu_is_missing(tmp_path, monkeypatch):
    # CUDA 13 knows none before sm_75.
    script = tmp_path / "ptxas"
    script.write_text("#!/bin/sh\necho \"Allowed values:  'sm_75','sm_90'\"\n")
    script.chmod(0o755)
    monkeypatch.setattr(vendors, "tool", lambda name: str(script))
    monkeypatch.setattr(vendors, "_library", str)
    assert available("sm_90") == ""
    assert available("sm_61") == "ptxas for sm_61"


def test_what_does_not_build_is_told():
    if available("spir64"):
        pytest.skip("not installed: clang")
    found = compile_for("spir64", "__kernel void f(__global float *a) { a[0] = b; }")
    assert not found.builds and "undeclared identifier 'b'" in found.message


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr(vendors, "available", lambda target: "ocloc" if target == "skl" else "")
    failed = vendors.Compiled(builds=False, message="no such word\nat all")
    answers = {"gfx803": vendors.Compiled(builds=True), "gfx900": failed}
    answers["sm_90"] = vendors.Compiled(builds=True, spilled=8)
    monkeypatch.setattr(vendors, "compile_for", lambda target, *_, **__: answers[target])
    assert main(["vendors", "--quick", "--targets", "skl,gfx803"]) == 0
    said = capsys.readouterr().out
    assert "skl: not installed: ocloc" in said and "gfx803: 1 of 1 kernels build" in said
    assert main(["vendors", "--quick", "--targets", "gfx900,sm_90"]) == 1
    said = capsys.readouterr().out
    assert "does not build: no such word\n" in said and "spills 8 bytes" in said
    assert main(["vendors", "--targets", "voodoo2"]) == 2
