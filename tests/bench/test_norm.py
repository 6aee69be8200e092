"""``python -m bench norm``: its tables, its promises, and that it notices wrong results."""

import pytest
from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock.timing import Spread
from bench.page.norm import norm_report
from bench.work import norm
from bench.work.norm import NormJob, NormRow, norm_jobs


def invoke(folder, *options):
    arguments = ["norm", "--quick", "--repeats", "1", "--no-chart", "--output", str(folder)]
    return CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)


def test_command(tmp_path):
    result = invoke(tmp_path)
    assert result.exit_code == 0, result.output
    (page,) = tmp_path.iterdir()
    text = page.read_text(encoding="utf-8")
    for part in ("ResNet-50: training forward, channels_last", "1280×7²", "64×96", "--quick"):
        assert part in text


def test_one_network_has_a_page_of_its_own(tmp_path):
    assert invoke(tmp_path, "--network", "transformers").exit_code == 0
    (page,) = tmp_path.iterdir()
    assert page.name.startswith("norm-transformers-")
    assert "--network transformers" in page.read_text(encoding="utf-8")
    assert invoke(tmp_path, "--network", "vgg").exit_code == 2


def test_a_wrong_result_is_an_error(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(norm.ops, "layer_norm", lambda x, *_: x)
    result = invoke(tmp_path, "--network", "transformers")
    assert result.exit_code == 1
    assert "WRONG RESULT" in result.output


def test_every_layer_of_the_networks():
    # Fifty-three and fifty-two convolutions, each with its normalisation.
    for network, layers in (("resnet50", 53), ("mobilenetv2", 52)):
        jobs = norm_jobs(network=network)
        for kind in {job.kind for job in jobs}:
            for memory_format in ("contiguous", "channels_last"):
                found = [j for j in jobs if (j.kind, j.memory_format) == (kind, memory_format)]
                assert sum(job.count for job in found) == layers
                assert len({job.shape for job in found}) == len(found)
    assert {job.shape[0] for job in jobs} == {32}


def row(kind, times, share=None, channels=64, memory_format="contiguous"):
    job = NormJob(kind, "Net", (32, channels, 112, 112), memory_format)
    spread = None if share is None else Spread(share, share, share)
    return NormRow(job, 1e-3, spread, times * 1e-3, Spread(times, times, times), True)


def test_promises_are_judged_by_geometric_means():
    rows = [row("backward", 1.0), row("backward", 4.0, channels=32)]
    (verdict,) = norm_report(rows, [], cp.current_device()).verdicts
    assert (verdict.measured, verdict.outcome) == (pytest.approx(2.0), "hit")
    rows += [row("backward", 1.0, memory_format="channels_last"), row("statistics", 9.0, 0.85)]
    verdicts = norm_report(rows, [], cp.current_device()).verdicts
    assert sorted(v.outcome for v in verdicts) == ["MISSED", "MISSED", "hit"]
    verdicts = norm_report(rows, [], cp.current_device(), quick=True).verdicts
    assert {v.outcome for v in verdicts} == {"not judged"}
