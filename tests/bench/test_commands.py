"""Every command runs, prints and writes; small and fast."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyopencl as cl
import pytest
from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock import bandwidth
from bench.commands.options import RESULTS, folder_of
from bench.page.report import slug
from bench.peers import peer as peers
from bench.work.launch import bare_enqueue

ROOT = Path(__file__).parents[2]


def invoke(command, folder, *options):
    arguments = [command, "--quick", "--repeats", "1", "--output", str(folder), *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("pointwise", ["64 Ki floats", "copy", "≥ 95% of the best copy kernel"]),
        ("reduce", ["channels_last", "31×65, axis 1", "≥ 15× as fast as torch.var_mean"]),
        ("layout", ["depth_to_space by 2", "channels_last, CRD", "≥ 80% of the best copy kernel"]),
        ("gradient", ["gelu", "focal loss", "≥ 95% of the kernel by hand"]),
        ("launch", ["conv2d, 16→16", "import clprim", "≤ 3× a bare enqueue, with out="]),
    ],
)
def test_command(command, parts, tmp_path):
    result = invoke(command, tmp_path / "new")
    assert result.exit_code == 0, result.output
    name = f"{command}-{slug(cp.current_device())}-quick"
    files = {path.name for path in (tmp_path / "new").iterdir()}
    assert files == {f"{name}.md", f"{name}.png"}
    page = (tmp_path / "new" / f"{name}.md").read_text(encoding="utf-8")
    assert f"({name}.png)" in page
    for part in [*parts, cp.current_device().driver, "--quick"]:
        assert part in page
        assert part in result.output


def test_results_are_recorded_only_when_asked_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder_of(None, ship=False) == Path("build", "bench")
    assert folder_of(None, ship=True) == RESULTS
    assert folder_of(tmp_path, ship=False) == tmp_path
    result = invoke("pointwise", tmp_path, "--ship")
    assert result.exit_code == 2
    assert "--ship and --output: expected one of them" in result.output


def test_without_a_chart(tmp_path):
    assert invoke("pointwise", tmp_path, "--no-chart").exit_code == 0
    (page,) = tmp_path.iterdir()
    assert page.suffix == ".md"
    assert ".png" not in page.read_text(encoding="utf-8")


def test_a_wrong_result_is_an_error(tmp_path, monkeypatch):
    wrong = cp.Pointwise("y0 = x0 * w0 - x1;")
    monkeypatch.setattr(peers, "definition", lambda op: wrong)
    result = invoke("pointwise", tmp_path, "--no-chart")
    assert result.exit_code == 1
    assert "WRONG RESULT" in result.output
    (page,) = tmp_path.iterdir()
    assert "clprim's result is not NumPy's" in page.read_text(encoding="utf-8")


def test_a_workload_that_does_not_fit_is_a_remark(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise cp.DeviceError("no room for 1 byte")

    monkeypatch.setattr(bandwidth, "Inputs", refuse)
    result = invoke("pointwise", tmp_path, "--no-chart")
    assert result.exit_code == 0
    assert "not measured: no room for 1 byte" in result.output


def test_caches_are_emptied_only_of_what_exceeds_them(monkeypatch):
    monkeypatch.setattr(bandwidth, "_EVICTING", 1 << 20)
    reads = []

    def candidates(device, nbytes):
        event = SimpleNamespace(wait=lambda: reads.append(nbytes))
        return [SimpleNamespace(enqueue=lambda: event)]

    monkeypatch.setattr(bandwidth, "read_candidates", candidates)
    device = cp.current_device()
    ceilings = bandwidth.Ceilings(device)
    ceilings.before(device.traits.cache_bytes)()
    assert reads == []
    ceilings.before(device.traits.cache_bytes + 1)()
    assert reads == [1 << 20]


def test_an_unknown_device(tmp_path):
    result = invoke("launch", tmp_path, "--device", "no such device")
    assert result.exit_code == 2
    assert "no OpenCL device matches 'no such device'" in result.output


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [(name, "bench", "reduce") for name in ("rich", "typer", "matplotlib")]
    + [(name, "test", "builds") for name in ("pytest", "ml_dtypes")],
)
def test_a_missing_extra_is_named(package, extra, words):
    code = (
        f"import sys, runpy; sys.modules[{package!r}] = None; sys.argv = ['bench', {words!r}]; "
        "runpy.run_module('bench', run_name='__main__')"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert found.stderr == f'The benchmarks need {package}: pip install "clprim[{extra}]"\n'


def test_the_bare_enqueue_runs_the_same_kernel():
    x, y = cp.full(100, 1.0), cp.zeros(100)
    double = cp.Pointwise("y0 = x0 * w0;")
    device = cp.current_device()
    bare = bare_enqueue(device, lambda: double(x, 2.0, out=y))
    y.fill(0)
    assert isinstance(bare(), cl.Event)
    assert (y.get() == 2).all()


def test_a_call_without_a_kernel_has_no_bare_enqueue():
    with pytest.raises(RuntimeError, match="enqueued no kernel"):
        bare_enqueue(cp.current_device(), lambda: None)
