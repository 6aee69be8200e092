"""`python -m bench builds`: kernels of every template and dtype, some of which are run."""

import re
import sys

import pytest

from bench.__main__ import main
from bench.builds.examples import DTYPES, Build, kernels, printed
from bench.builds.run import BUILT, DIED, HUNG, OUTCOMES, RAN, REFUSED, part_of, run_all
from clprim.plan.kernel import Buffer, KernelPlan, Parameter, PrintedCode


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


# What happens in a child before a kernel of such a name is built, or run.
_STAND_INS = """import sys; sys.path[:] = {path!r}
import os, time
from bench.builds import child
launch, lacking = child.Launch, child._lacking
def built(device, plan, **options):
    if plan.code.name == "deadly_to_build":
        os.abort()
    return launch(device, plan, **options)
def tried(device, one, plan):
    if plan.code.name == "deadly":
        child._buffer = lambda *args: os.abort()
    if plan.code.name == "endless":
        child._buffer = lambda *args: time.sleep(99)
    return lacking(device, one, plan)
child.Launch, child._lacking = built, tried
child.main()
"""


def _build(name, text="a[0] = 1;", items=1):
    parameters = (Parameter.memory("int", "a", read_only=False),)
    source = f"__kernel void {name}(__global int *a) {{ {text} }}"
    code = PrintedCode(
        name=name, parameters=parameters, index="int", doubles=False, text=source, version=(1, 2)
    )
    sizes = ((items,), (items,))
    return Build(name, KernelPlan("printed", code, (Buffer("a"),), *sizes, nbytes=4, flops=1))


@pytest.mark.alone
def test_what_dies_hangs_and_is_refused_is_told_apart(device, monkeypatch):
    monkeypatch.setattr(sys.modules["bench.builds.run"], "TASK", _STAND_INS)
    names = "good deadly_to_build deadly endless".split()
    wide = _build("wide", items=1 << 20)
    some = [*map(_build, names), _build("wrong", "a[0] = b;"), wide, _build("last")]
    found = run_all(device, some, 1, bound=5)
    assert {outcome: [build.name for build, _ in of] for outcome, of in found.items()} == {
        RAN: ["good", "last"],
        BUILT: ["wide"],
        REFUSED: ["wrong"],
        DIED: ["deadly_to_build", "deadly"],
        HUNG: ["endless"],
    }
    assert [about for _, about in found[DIED]] == ["building", "running"]
    assert found[BUILT][0][1] == "work-groups of 1048576"
    assert "wrong" in found[REFUSED][0][1]


@pytest.mark.everywhere
def test_a_part_of_all_kernels_is_built_and_run(device, monkeypatch):
    monkeypatch.delenv("CLPRIM_BUILD_OPTIONS", raising=False)  # as the command does
    some = list(printed(part_of(list(kernels(device)), "7/500", 1), device))
    if device.index:  # whose compilers may take minutes over large kernels of another dtype
        large = ("product", "fused/inverted_residual", "conv/winograd")
        some = [one for one in some if not one.name.startswith(large)]
    found = run_all(device, some, 1)
    bad = {o: [b.name for b, _ in found[o]] for o in (DIED, HUNG, REFUSED)}
    assert not any(bad.values()), bad
    assert len(found[RAN]) > 2


@pytest.mark.alone
def test_the_command_says_what_died(device, monkeypatch, capsys):
    def tried(device, some, children, say):
        first, second, third, *rest = [(build, "running") for build in some]
        found = {outcome: [] for outcome in OUTCOMES}
        return found | {RAN: rest, BUILT: [second], HUNG: [third], DIED: [first]}

    monkeypatch.setattr(sys.modules["bench.builds.run"], "run_all", tried)
    arguments = ["builds", "--device", str(device.index), "--only", "reduction/narrow"]
    assert main(arguments) == 1
    said = capsys.readouterr().out
    assert "1 built, 0 refused, 1 died, 1 hung" in said
    assert "the device lacks running: 1" in said
    for outcome in ("died", "hung"):
        assert re.search(rf"{outcome}: reduction/narrow: .* \(running\)", said)
