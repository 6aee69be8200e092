"""``python -m bench torch``: networks beside PyTorch's CPU."""

import pytest

pytest.importorskip("torch")

from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock.timing import Spread
from bench.page.report import slug
from bench.page.torch_device import torch_report
from bench.peers import vision
from bench.work import torch_device
from bench.work.torch_device import INFERENCE, TRAINING, Footprint, TorchJob, TorchRow, torch_jobs


def invoke(folder, *options):
    arguments = ["torch", "--repeats", "1", "--output", str(folder), *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_small_network(tmp_path, monkeypatch):
    measured = torch_device._footprint

    def footprint(job, where, device):  # PyTorch's process does the same as clprim's
        if where == "opencl":
            return measured(job, where, device)
        return {"rise": 1, "state": 1, "process": 1}

    monkeypatch.setattr(torch_device, "_footprint", footprint)
    result = invoke(tmp_path, "--quick")
    assert result.exit_code == 0, result.output
    name = f"torch-{slug(cp.current_device())}-quick"
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.md", f"{name}.png"}
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    for part in ("Training step, batch 2", "clprim, fused", "the whole process", "--quick"):
        assert part in page


def rows(times, kind=TRAINING, fused=1.0, **more):
    spread = {"clprim": Spread(times, times, times)}
    if kind == INFERENCE:
        spread["clprim, fused"] = Spread(fused, fused, fused)
    rates = {**dict.fromkeys(spread, 10.0), "PyTorch": 8.0}
    given = {"correct": True, "on_cpu": (), **more}
    return [TorchRow(TorchJob(kind, "resnet18", 8, 224), rates, spread, **given)]


def outcomes(report):
    return {v.target.limit: v.outcome for v in report.verdicts}


def test_targets():
    memory = Footprint(TorchJob(TRAINING, "resnet50", 8, 224), 100, {"clprim": 40, "PyTorch": 0},
                       {"clprim": 4, "PyTorch": 2})  # fmt: skip
    report = torch_report([*rows(2.0), *rows(0.8), *rows(1.3, INFERENCE, 1.5)], memory)
    assert outcomes(report) == {
        "≥ 1.3×": "MISSED",  # the mean of 2 and 0.8 is 1.26
        "≥ 0.9×": "MISSED",
        "≥ 1.2×": "hit",
        "≥ 1.6×": "MISSED",
        "≤ 1.1×": "MISSED",
    }
    assert not report.failures


def test_wrong_numbers_and_the_cpu_are_failures():
    report = torch_report([*rows(2.0, correct=False), *rows(2.0, on_cpu=("sort",))], None)
    assert len(report.failures) == 2
    assert "disagree" in report.failures[0]
    assert "on the CPU ran sort" in report.failures[1]


def test_rows():
    jobs = torch_jobs()
    assert {job.batch for job in jobs} == {8, 32}
    assert {job.kind for job in jobs} == {TRAINING, INFERENCE}
    assert {job.network for job in torch_jobs(only="vgg16", batch=2)} == {"vgg16"}
    assert invoke(".", "--network", "nothing").exit_code == 2


def test_what_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(vision.importlib.util, "find_spec", lambda name: None)
    result = invoke(tmp_path, "--network", "resnet18")
    assert result.exit_code == 2
    assert "pip install torch torchvision" in result.output
