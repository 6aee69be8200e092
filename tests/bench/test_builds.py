"""`python -m bench builds`: programs of every template and dtype, some of which are compiled."""

import re
import sys

import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from bench.builds.examples import DTYPES, Build, kernels, printed
from bench.builds.run import compile_all, part_of
from clprim.runtime import trial


@pytest.mark.alone
def test_every_template_is_there_in_many_dtypes(device):
    found = list(kernels(device))
    assert len({(k.plan.template, k.plan.code) for k in found}) == len(found) > 2000
    templates = {k.name.partition(":")[0] for k in found}
    assert len(templates) > 50
    for template in ("reduction/inner", "pointwise/elements"):
        names = [k.name for k in found if k.name.startswith(f"{template}:")]
        for dtype in DTYPES:
            assert any(re.search(rf"\b{dtype.name}\b", name) for name in names), (template, dtype)
    # Each part has some of everything, and all parts have all.
    parts = [part_of(found, f"{n}/3", 1) for n in (1, 2, 3)]
    assert sorted(k.name for part in parts for k in part) == sorted(k.name for k in found)
    assert part_of(found, "2/3", 4) == found[1::3][::4]
    with pytest.raises(ValueError, match="expected 1/3 to 3/3"):
        part_of(found, "4/3", 1)


@pytest.mark.alone
def test_what_dies_and_what_is_refused_is_told_apart(device, monkeypatch):
    child = trial._CHILD.replace(
        "main()",
        "import os, clprim.runtime.trial as t; store = t.cl._cl._Program; build = store._build; "
        "store._build = lambda p, options, devices: os.abort() if b'DEADLY' in options "
        "else build(p, options=options, devices=devices); main()",
    )
    monkeypatch.setattr(trial, "_CHILD", child)
    kernel = "__kernel void k(__global int *a) { a[0] = %s; }"
    some = [
        Build("good", kernel % 1, b""),
        Build("deadly", kernel % 2, b"-DDEADLY"),
        Build("wrong", kernel % "b", b""),
        Build("last", kernel % 3, b""),
    ]
    found = compile_all(device, some, 1)
    assert {o: [b.name for b in of] for o, of in found.items()} == {
        "built": ["good", "last"],
        "refused": ["wrong"],
        "died": ["deadly"],
    }


@pytest.mark.everywhere
def test_a_part_of_all_kernels_is_compiled(device):
    some = list(printed(part_of(list(kernels(device)), "7/500", 1), device))
    assert len({(build.source, build.options) for build in some}) == len(some)
    found = compile_all(device, some, 1)
    assert not found[trial.DIED]
    assert not found[trial.REFUSED]
    assert len(found[trial.BUILT]) > 4


@pytest.mark.alone
def test_the_command_says_what_died(device, monkeypatch):
    def compiled(device, some, children, say):
        return {trial.BUILT: some[1:], trial.REFUSED: [], trial.DIED: some[:1]}

    monkeypatch.setattr(sys.modules["bench.commands.builds"], "compile_all", compiled)
    arguments = ["builds", "--device", str(device.index), "--only", "reduction/narrow"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 1
    assert "1 died" in result.output
    assert "died: reduction/narrow: " in result.output
