"""`bench tune`: what is taken, what is kept, what is said; clocks are made up."""

import dataclasses
import statistics

import numpy as np
import pytest
from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.tune.tune import (
    entries_of,
    record,
    to_ship,
    tune_all,
    tune_report,
)
from bench.work.conv import DIRECTIONS, Conv
from bench.work.gemm import Gemm
from clprim.plan.families import FAMILIES
from clprim.plan.table import Entry, TuningFile
from clprim.tune.measure import Case, Memory
from clprim.tune.networks import Layer

LAYER = Layer(20, 20, 3, 8, 1, 1, 20)
DEPTHWISE_ROW = Conv(LAYER, 1, "channels_last", "forward")
# Three by three, of a size that Winograd's algorithm is meant for.
WINDOWS_ROW = Conv(Layer(64, 64, 3, 14, 1, 1), 2, "channels_last", "forward")


@pytest.fixture(scope="module")
def windows():
    """Sums of products and, as another case, algorithms with errors of the same layer."""
    if not cp.current_device().traits.is_cpu:
        pytest.skip("the choices below are a CPU's")
    return record([WINDOWS_ROW], cp.current_device())


@pytest.fixture(scope="module")
def case():
    (found,) = record([Gemm(48, 32, 40)], cp.current_device())
    return found


def clock_of(factors):
    """A clock that gives each tile a time; a list of them is one a round."""

    def clock(device, calls, rounds, stop):
        found = {}
        for choice in calls:
            times = factors.get(str(choice), 1.0)
            times = times if isinstance(times, list) else [times]
            found[choice] = [times[n % len(times)] for n in range(rounds)]
        return found

    return clock


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
    twice = record([Gemm(48, 32, 40), Gemm(48, 32, 40), Gemm(48, 32, 41)], cp.current_device())
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
        assert [c.key for c in record([WINDOWS_ROW], cp.current_device())] == [exact.key]


def test_the_report_tells_the_gain(case):
    rule, other = choices(case)[:2]
    clock = clock_of({str(other): 0.5})
    parts = []
    found = tune_all([case], 3, clock=clock, progress=lambda _, part: parts.append(part))
    same = tune_all([case], 3, clock=clock_of({}))
    report = tune_report([*found, *same], 3, "kept there")
    (table,) = report.tables
    assert table.rows[0][1:6] == (str(rule), "1000.000", str(other), "500.000", "2.00×")
    assert table.rows[1][3] == "the same"
    mean = statistics.geometric_mean([2, 1])
    assert (
        f"gained: {100 * (mean - 1):.1f} % in the geometric mean of 2 problems" in report.notes[0]
    )
    assert "1 of them got another tile" in report.notes[0]
    assert "kept there" in report.notes
    assert "1 more have one tile that fits" in report.notes
    assert sum(parts) == 1
    assert not report.failures
    assert "of 0 problems" in tune_report([], 0, "").notes[0]


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
    (depthwise,) = record([DEPTHWISE_ROW], device)
    wide = run(depthwise, {str(choices(depthwise)[1]): 0.5})
    both = to_ship([wide], device, ("Some",), to_ship([found], device, ("Some",)))
    assert both.entries == entries_of([found, wide])
    # Of what it looked at, nothing old stays; nor of a device that was another one.
    assert to_ship([same], device, ("Some",), both).entries == entries_of([wide])
    strange = dataclasses.replace(both, traits={})
    assert to_ship([same], device, ("Some",), strange).entries == {}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_depthwise_convolutions_are_tuned_as_well(direction):
    (case,) = record([dataclasses.replace(DEPTHWISE_ROW, direction=direction)], cp.current_device())
    assert case.family.name == "conv"
    bench = Memory(case)
    first, second = [bench.result(bench.call(choice)) for choice in choices(case)[:2]]
    assert first.any()
    np.testing.assert_array_equal(first, second)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path / "cache"))
    options = ["tune", "--products", "--quick", "--repeats", "1", "--ship", "Some", "--output"]
    result = CliRunner().invoke(app, [*options, str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "gained: " in result.output
    assert "kept nowhere: --quick" in result.output
    (page,) = tmp_path.glob("*.md")
    (table,) = tmp_path.glob("*.json")
    assert TuningFile.parse(table.read_text(encoding="utf-8"), FAMILIES).names == ("Some",)
    assert "16×16×16 NN" in page.read_text(encoding="utf-8")
    assert not (tmp_path / "cache" / "tuning").exists()
