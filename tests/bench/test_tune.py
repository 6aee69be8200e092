"""`bench tune`: what is taken, what is kept, what is said; clocks are made up."""

import dataclasses
import statistics

import numpy as np
import pytest
from support import clock_of

import clprim as cp
from bench import tune
from bench.__main__ import main
from bench.cases.arithmetic import DIRECTIONS, Conv, Gemm, row_of
from bench.tune import entries_of, notes_of, table_of, to_ship, tune_all
from clprim.plan.families import FAMILIES
from clprim.plan.table import Entry, TuningFile
from clprim.tune.measure import Case, Memory
from clprim.tune.networks import Layer

LAYER = Layer(20, 20, 3, 8, 1, 1, 20)
DEPTHWISE_ROW = Conv(LAYER, 1, "channels_last", "forward")
# Three by three, of a size that Winograd's algorithm is meant for.
WINDOWS_ROW = Conv(Layer(64, 64, 3, 14, 1, 1), 2, "channels_last", "forward")


def record(jobs):
    return tune.record([row_of(job, "a table", job.memory_format) for job in jobs])


@pytest.fixture(scope="module")
def windows():
    """Sums of products and, as another case, algorithms with errors of the same layer."""
    if not cp.current_device().traits.is_cpu:
        pytest.skip("the choices below are a CPU's")
    return record([WINDOWS_ROW])


@pytest.fixture(scope="module")
def case():
    (found,) = record([Gemm(48, 32, 40)])
    return found


def choices(case):
    return case.candidates


def run(case, factors):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Case, "candidates", choices(case)[:4])
        (found,) = tune_all([case], 5, clock=clock_of(factors))
    return found


def test_a_call_is_recorded_as_its_contraction(case):
    assert case.problem.outputs == 32
    assert case.problem.lanes == (1, 1, 48)
    assert case.family.name == "product"
    twice = record([Gemm(48, 32, 40), Gemm(48, 32, 40), Gemm(48, 32, 41)])
    assert len(twice) == 1  # of one class


def test_a_layer_is_recorded_for_each_error_that_decides(windows):
    exact, allowed = windows
    assert (exact.family.name, allowed.family.name) == ("product", "windows")
    assert exact.problem.error == 0 < allowed.problem.error
    assert "errors up to 5e-06" in allowed.title
    traits = cp.current_device().traits
    errors = {allowed.family.error(allowed.problem, traits, c) for c in choices(allowed)}
    assert len(errors) == 3  # none, F(2 x 2) and F(4 x 4)
    assert set(choices(exact)) < set(choices(allowed))
    with cp.options(convolution_error=0):
        assert [c.key for c in record([WINDOWS_ROW])] == [exact.key]


def test_the_page_tells_the_gain(case):
    rule, other = choices(case)[:2]
    clock, said = clock_of({str(other): 0.5}), []
    found = tune_all([case], 3, clock=clock, say=said.append)
    same = tune_all([case], 3, clock=clock_of({}))
    _, _, rows = table_of([*found, *same])
    assert rows[0][1:6] == [str(rule), "1000.000", str(other), "500.000", "2.00×"]
    assert rows[1][3] == "the same"
    first, _, *others = notes_of([*found, *same], 3, "kept there")
    mean = statistics.geometric_mean([2, 1])
    assert f"gained: {100 * (mean - 1):.1f} % in the geometric mean of 2 problems" in first
    assert "1 of them got another tile" in first
    assert others == ["kept there", "1 more have one tile that fits"]
    assert said == [case.title]
    assert "of 0 problems" in notes_of([], 0, "")[0]


def test_shipped_is_what_beats_the_rule(case):
    _, other = choices(case)[:2]
    found, same = run(case, {str(other): 0.5}), run(case, {})
    device = cp.current_device()
    file = to_ship([found], device, ("Some",))
    assert file.entries == {case.key: Entry(other, 2.0)}
    assert file.is_for("Some device", device.platform, device.driver, device.traits)
    assert not to_ship([same], device, ("Some",)).entries


def test_what_a_run_did_not_look_at_stays(case):
    other = choices(case)[1]
    device = cp.current_device()
    found, same = run(case, {str(other): 0.5}), run(case, {})
    (depthwise,) = record([DEPTHWISE_ROW])
    wide = run(depthwise, {str(choices(depthwise)[1]): 0.5})
    both = to_ship([wide], device, ("Some",), to_ship([found], device, ("Some",)))
    assert both.entries == entries_of([found, wide])
    # Of what it looked at, nothing old stays; nor of a device that was another one.
    assert to_ship([same], device, ("Some",), both).entries == entries_of([wide])
    strange = dataclasses.replace(both, traits={})
    assert to_ship([same], device, ("Some",), strange).entries == {}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_depthwise_convolutions_are_tuned_as_well(direction):
    (case,) = record([dataclasses.replace(DEPTHWISE_ROW, direction=direction)])
    assert case.family.name == "conv"
    bench = Memory(case)
    first, second = [bench.result(bench.call(choice)) for choice in choices(case)[:2]]
    assert first.any()
    np.testing.assert_array_equal(first, second)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path / "cache"))
    options = ["tune", "--products", "--quick", "--repeats", "1", "--ship", "Some", "--output"]
    assert main([*options, str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "gained: " in said and "kept nowhere: --quick" in said
    (page,) = tmp_path.glob("tune-*.md")
    (table,) = {*tmp_path.glob("*.json")} - {*tmp_path.glob("tune-*")}
    assert TuningFile.parse(table.read_text(encoding="utf-8"), FAMILIES).names == ("Some",)
    assert "16×16×16 NN" in page.read_text(encoding="utf-8")
    assert not (tmp_path / "cache" / "tuning").exists()
