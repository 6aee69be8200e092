"""``python -m bench onnx``: ONNX models beside the runtimes that read the same file."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock.timing import Spread
from bench.page.imported import imported_report
from bench.page.report import slug
from bench.peers.nets import OpenVino
from bench.peers.onnx_runtime import OnnxRuntime
from bench.work import imported
from bench.work.imported import EXPORTED, PACKAGES, ImportedJob, ImportedRow, Loading
from bench.work.package_models import PACKAGE_MODELS, PackageModel


def invoke(folder, *options):
    arguments = ["onnx", "--quick", "--repeats", "1", "--output", str(folder), *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_small_network(tmp_path):
    result = invoke(tmp_path, "--no-starts")
    assert result.exit_code == 0, result.output
    name = f"onnx-no-starts-{slug(cp.current_device())}-quick"
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.md", f"{name}.png"}
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    for part in ("Exported networks, batch 2", "times as fast as onnxruntime", "--quick"):
        assert part in page


def test_wrong_results_are_an_error(tmp_path, monkeypatch):
    error = imported._error
    monkeypatch.setattr(imported, "_error", lambda *given: error(*given) + 0.01)
    monkeypatch.setattr(imported.ImportedInputs, "noise", 1e-6)
    result = invoke(tmp_path, "--no-starts", "--no-chart")
    assert result.exit_code == 1
    assert "off by 1.0e-02" in result.output


def test_errors_are_those_of_the_largest_number():
    wanted = [np.float32([1, -4]), np.float32([0, 0])]
    assert imported._error([np.float32([1, -2]), np.float32([0, 0])], wanted) == 0.5
    assert imported._error(np.float32([1, -4]), wanted[:1]) == 0


def test_what_is_not_installed_is_said(tmp_path, monkeypatch):
    away = PackageModel("a model", "not-there", "not_there_at_all", "a.onnx", {}, "MIT")
    monkeypatch.setitem(PACKAGE_MODELS, "music", away)
    result = invoke(tmp_path, "--net", "music")
    assert result.exit_code == 2
    assert "not installed: not-there" in result.output


def test_inputs_of_packages_models():
    inputs = {
        "a": ("int32", (2, 3)), "b": ("int64", 7), "c": ("float32", (4,)),
        "few": ("int64", (50,), 2), "mask": ("int64", (2,)),
    }  # fmt: skip
    made = PackageModel("", "", "", "", inputs, "MIT")
    given = made.given()
    assert {n: (a.dtype.name, a.shape) for n, a in given.items()} == {
        "a": ("int32", (2, 3)), "b": ("int64", ()), "c": ("float32", (4,)),
        "few": ("int64", (50,)), "mask": ("int64", (2,)),
    }  # fmt: skip
    assert given["b"] == 7
    np.testing.assert_array_equal(given["a"], made.given()["a"])
    assert set(given["few"]) == {0, 1}
    assert set(given["mask"]) == {1}


def test_what_rounding_makes_of_a_model_is_no_error():
    found = row(EXPORTED, "resnet18", 1, {})
    for error, noise, right in ((9e-5, 0, True), (2e-4, 0, False), (2e-4, 6e-5, True)):
        assert replace(found, error=error, noise=noise).correct is right


def row(kind, name, batch, times, loading=None):
    spreads = {peer: Spread(t, t, t) for peer, t in times.items()}
    seconds = {"clprim": 0.01, **{peer: 0.01 * t for peer, t in times.items()}}
    return ImportedRow(ImportedJob(kind, name, batch), seconds, spreads, 1e-6, kernels=5,
                       loading=loading)  # fmt: skip


def test_targets_are_judged_by_kind():
    rows = [
        row(PACKAGES, "files", 1, {"onnxruntime": 2.0}, Loading(0.3, 0.1)),
        row(PACKAGES, "music", 1, {"onnxruntime": 0.9}, Loading(0.1, 0.1)),
        row(EXPORTED, "resnet18", 8, {"onnxruntime": 1.3, "openvino": 1.0}),
    ]
    peers = [OnnxRuntime(None), OpenVino(None)]
    report = imported_report(rows, peers)
    found = {
        (v.target.of, v.subject): (v.measured, v.target.met(v.measured)) for v in report.verdicts
    }
    means = {of: value for (of, _), value in found.items() if "mean" in of}
    assert means["as fast as onnxruntime: packages' models, mean"] == pytest.approx(
        (1.8**0.5, False)
    )
    assert means["as fast as onnxruntime: exported, mean"] == (1.3, True)
    assert means["as fast as openvino: exported, mean"] == (1.0, False)
    text = [table.title for table in report.tables]
    assert text[0] == "Models of packages, batch 1, float32 (ms)"
