"""``python -m bench step``: training beside PyTorch's CPU."""

import pytest

pytest.importorskip("torch")

from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock.timing import Spread
from bench.page.report import slug
from bench.page.step import step_report
from bench.work import models, step
from bench.work.step import CALLS, COMPILED, TORCH, Footprint, StepJob, StepRow, step_jobs


def invoke(folder, *options):
    arguments = ["step", "--repeats", "1", "--output", str(folder), *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_small_network(tmp_path, monkeypatch):
    measured = step._footprint

    def footprint(job, where, device):  # PyTorch's process does the same as clprim's
        if where == "opencl":
            return measured(job, where, device)
        return {"rise": 1, "state": 1, "process": 1}

    monkeypatch.setattr(step, "_footprint", footprint)
    result = invoke(tmp_path, "--quick")
    assert result.exit_code == 0, result.output
    name = f"step-{slug(cp.current_device())}-quick"
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.md", f"{name}.png"}
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    for part in ("Training step, batch 2", "the whole process", "--quick"):
        assert part in page


def test_what_makes_one_computation_of_a_step_takes_part(tmp_path, monkeypatch):
    monkeypatch.setattr(step, "compiled_step", lambda given: given)
    result = invoke(tmp_path, "--quick", "--net", "small", "--batch", "2", "--no-chart")
    assert result.exit_code == 0, result.output
    assert "times as fast, compiled" in result.output
    monkeypatch.setattr(step, "compiled_step", lambda given: lambda: given() + 1)
    result = invoke(tmp_path, "--quick", "--net", "small", "--batch", "2", "--no-chart")
    assert result.exit_code == 1
    assert "clprim and PyTorch disagree" in result.output


def rows(times, name="resnet18", compiled=None, **more):
    spread = {CALLS: Spread(times, times, times)}
    if compiled:
        spread[COMPILED] = Spread(compiled, compiled, compiled)
    rates = {**dict.fromkeys(spread, 10.0), TORCH: 8.0}
    given = {"correct": True, "on_cpu": (), **more}
    return [StepRow(StepJob(name, 8, 224), rates, spread, **given)]


def outcomes(report):
    return {v.target.limit: v.outcome for v in report.verdicts}


def test_targets():
    memory = Footprint(StepJob("resnet50", 8, 224), 100, {CALLS: 40, TORCH: 0},
                       {CALLS: 4, TORCH: 2})  # fmt: skip
    report = step_report([*rows(2.0, compiled=1.95), *rows(0.8, "mobilenet_v2")], memory)
    assert outcomes(report) == {
        "≥ 1.3×": "MISSED",  # the mean of 2 and 0.8 is 1.26
        "≥ 0.9×": "MISSED",
        "≥ 1.9×": "hit",
        "≥ 1.6×": "not judged",
        "≤ 1.1×": "MISSED",
    }
    assert not report.failures


def test_wrong_numbers_and_the_cpu_are_failures():
    report = step_report([*rows(2.0, correct=False), *rows(2.0, on_cpu=("sort",))], None)
    assert len(report.failures) == 2
    assert "disagree" in report.failures[0]
    assert "on the CPU ran sort" in report.failures[1]


def test_rows():
    assert {"resnet18", "mobilenet_v2"} < {job.name for job in step_jobs()}
    assert {job.batch for job in step_jobs()} == {8}
    assert step_jobs(names=["vgg16"], batches=[2]) == [StepJob("vgg16", 2, 112)]
    assert invoke(".", "--net", "nothing").exit_code == 2
    assert invoke(".", "--net", "bert").exit_code == 2  # tokens have no classes here


def test_what_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: None)
    result = invoke(tmp_path, "--net", "resnet18")
    assert result.exit_code == 2
    assert "pip install torch torchvision" in result.output
