"""A compiler that ends the process does so in a child: the program goes on."""

import subprocess
import sys

import numpy as np
import pytest
from support import BFLOAT16, equal, numbers

import clprim as cp
from clprim.runtime import probe, program, trial
from clprim.runtime.stats import stats

pytestmark = pytest.mark.optimised  # without optimisations nothing is suspected

SERIES = """\
__constant float table[64] = {1, -2, 3, 4};
float series(int n)
{
    float s = 0;
    for (int i = 0; i < n; i += 3)
        s += fabs(table[i]);
    return s;
}"""


def total(tag):
    return cp.Reduction(
        f"y0 = x0; // {tag}",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="y0 = series((int)reduce_y0);",
        preamble=SERIES,
    )


@pytest.fixture
def suspicious(device, monkeypatch, tmp_path):
    """The device as one whose compiler was seen to die; what children do can be replaced."""
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    program.forget()
    found = probe.abilities(device.cl) - {"strided_sums"}
    monkeypatch.setattr(probe, "abilities", lambda device: found)

    def deadly(condition):
        child = trial._CHILD.replace(
            "main()",
            "import os, clprim.runtime.trial as t; store = t.disk_cache.store; "
            "raw = t.cl._cl._Program; build = raw._build; "
            f"raw._build = lambda p, options, devices: os.abort() if {condition} "
            "else build(p, options=options, devices=devices); main()",
        )
        monkeypatch.setattr(trial, "_CHILD", child)

    yield deadly
    program.forget()


@pytest.mark.alone
def test_what_kills_with_optimisations_is_built_without(device, suspicious):
    suspicious("b'-cl-opt-disable' not in options")
    x = np.full((2, 5), 0.5, np.float32)
    before = stats()
    equal(total("calm")(cp.asarray(x), axis=1), np.full(2, 1, np.float32))
    assert (stats() - before).builds
    program.forget()
    before = stats()
    equal(total("calm")(cp.asarray(x), axis=1), np.full(2, 1, np.float32))
    assert (stats() - before).builds == 0  # it lies on disk


@pytest.mark.alone
def test_what_kills_in_any_case_is_an_error(device, suspicious):
    suspicious("True")
    with pytest.raises(cp.BuildError, match="ends the process that compiles it"):
        total("deadly")(cp.asarray(np.ones((2, 5), np.float32)), axis=1)
    equal(cp.asarray(numbers((3, 4))).sum(axis=0), numbers((3, 4)).sum(0))


@pytest.mark.alone
def test_what_a_child_refuses_is_explained_here(device, suspicious):
    broken = SERIES.replace("return s;", "return nothing;")
    with pytest.raises(cp.BuildError, match="nothing"):
        cp.Reduction(
            "y0 = series(x0);", init="reduce_y0 = 0;", step="reduce_y0 += y0;", preamble=broken
        )(cp.asarray(np.ones((2, 5), np.float32)), axis=1)


@pytest.mark.alone
def test_others_are_built_here_at_once(device, suspicious, monkeypatch):
    monkeypatch.setattr(trial, "outcomes", None)
    a = numbers((30, 3))
    equal(cp.asarray(a).sum(axis=0), a.sum(0))
    equal(cp.Pointwise("for (int i = 0; i < 2; ++i) y0 += x0;")(cp.asarray(a)), 2 * a)


def test_a_series_of_every_third_number_is_survived(device):
    script = f"""
import numpy as np, clprim as cp
cp.set_device({device.index})
total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;",
    finalize="y0 = series((int)reduce_y0);", preamble={SERIES!r})
assert total(cp.asarray(np.full((2, 40), 0.1, np.float32)), axis=1).get().tolist() == [5, 5]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


@pytest.mark.everywhere
@pytest.mark.parametrize(
    ("dtype", "text"),
    [(BFLOAT16, "y0 = x0;"), (np.float32, "y0 = fabs(x0);"), (np.float16, "y0 = exp(x0);")],
    ids=["bfloat16", "float32-fabs", "float16-exp"],
)
def test_sums_of_few_columns_are_compiled(device, dtype, text):
    # In child processes: one compiler died of functions of every third element.
    from planning import array, define, reduce_plan

    from clprim.call.launch import build_options
    from clprim.render import render

    definition = define(text)
    plan = reduce_plan(array((255, 3), dtype), (0,), device.traits, definition, results=[dtype])
    programs = [
        (render(s.template, s.code), " ".join(build_options(s.code, device)).encode(), "")
        for s in plan.stages
    ]
    assert trial.outcomes(device.cl, programs) == [trial.BUILT] * len(programs)
