"""``python -m bench ops``: its tables, its promises, and that it notices wrong results."""

import pytest
from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock.timing import Spread
from bench.page.operators import ops_report
from bench.work import operator_cases
from bench.work.operator_case import MEMORY, OpCase
from bench.work.operator_cases import op_cases
from bench.work.operators import OpJob, OpRow, op_jobs


def invoke(folder, *options):
    arguments = ["ops", "--quick", "--repeats", "1", "--no-chart", "--output", str(folder)]
    return CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)


def test_command(tmp_path):
    result = invoke(tmp_path, "--family", "cumsum,Adam")
    assert result.exit_code == 0, result.output
    (page,) = tmp_path.iterdir()
    assert page.name.startswith("ops-cumsum-Adam-")
    text = page.read_text(encoding="utf-8")
    for part in ("## cumsum (ms)", "along lines of 1024", "--family cumsum,Adam", "--quick"):
        assert part in text
    assert "WRONG" not in text


def test_families_are_known(tmp_path):
    assert invoke(tmp_path, "--family", "cumsum,knitting").exit_code == 2


def test_a_wrong_result_is_an_error(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(operator_cases.ops, "cumsum", lambda x, _: x)
    result = invoke(tmp_path, "--family", "cumsum")
    assert result.exit_code == 1
    assert "WRONG RESULT" in result.output


def test_what_is_measured():
    jobs = op_jobs()
    families = {job.case.family for job in jobs}
    assert {
        "pooling",
        "softmax",
        "cross_entropy",
        "interpolate",
        "gather",
        "scatter_add",
    } < families
    assert {MEMORY, "cumsum", "sort", "topk", "attention", "Adam"} < families
    assert len({(job.case.family, job.title) for job in jobs}) == len(jobs)
    assert {job.memory_format for job in jobs} == {"", "contiguous", "channels_last"}
    assert all(case.ceiling for case in op_cases() if case.family == MEMORY)


def row(times, family="sort", share=None):
    case = OpCase(family, "lines", (), None, None, "copy" if share else "")
    spread = None if share is None else Spread(share, share, share)
    return OpRow(
        OpJob(case), 1 << 30, 1e-3, spread, times * 1e-3, Spread(times, times, times), True
    )


def test_promises():
    rows = [row(1.0), row(4.0), row(9.0, MEMORY, 0.84)]
    share, mean = ops_report(rows, [], cp.current_device()).verdicts[-2:]
    assert (share.measured, share.outcome) == (0.84, "MISSED")
    assert (mean.measured, mean.outcome) == (pytest.approx(2.0), "hit")
    verdicts = ops_report([row(0.8)], [], cp.current_device()).verdicts
    assert [v.outcome for v in verdicts] == ["MISSED", "MISSED"]
    verdicts = ops_report(rows, [], cp.current_device(), quick=True).verdicts
    assert {v.outcome for v in verdicts} == {"not judged"}
