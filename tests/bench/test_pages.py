"""Every page runs, small and fast: results are compared, printed and written."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

import clprim as cp
from bench import limits, runner
from bench.__main__ import main
from bench.case import Case, Data, Page
from bench.cases import PAGES, launch, memory, operators
from bench.cases.launch import bare_enqueue
from bench.runner import INTERRUPTED, Runner, error_of
from bench.table import RESULTS, slug

ROOT = Path(__file__).parents[2]
# Where PyTorch's compiler is at work, of whose own parts this is said.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def run(folder, *words):
    return main([*words, "--quick", "--repeats", "1", "--output", str(folder)])


def page_in(folder):
    (page,) = folder.glob("*.md")
    return page.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr("bench.timing.SETTLE", 0)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["pointwise"], ["64 Ki floats", "share"]),
        (["reduce"], ["channels_last", "31×65, axis 1"]),
        (["ops", "--only", "moving"], ["depth_to_space by 2, channels_last", "share"]),
        (["gemm", "--peers", "mkl,clblast"], ["31×33×17 NN", "31×31×31 TT", "geometric mean"]),
        (["conv", "--network", "alexnet", "--memory-format", "channels_last", "--direction",
          "gradients"], ["AlexNet, batch 1, NHWC, gradient by input", "by weight", "groups 2"]),
        (["conv", "--residual", "--network", "mobilenet-v2"], ["NCHW, with what follows", "ReLU6"]),
        (["depthwise", "--network", "deeplab"], ["dilation 24", "grouped products"]),
        (["blocks"], ["inverted residuals", "20→40→20", "clprim, separate"]),
        (["norm"], ["ResNet-50: training forward, channels_last", "1280×7²", "64×96"]),
        (["ops", "--only", "cumsum"], ["along lines of 1024", "MB"]),
        (["ops", "--only", "Adam"], ["3 parameters"]),
        (["ops", "--only", "cross_entropy"], ["1000 classes, backward", "50257 words"]),
        (["gradient"], ["gelu", "focal loss", "deriving", "clprim, by hand"]),
        (["pairs"], ["our matmul", "16 nearest of 300", "our attention"]),
        (["linalg"], ["40 of 8 × 8", "cholesky", "PyTorch"]),
        (["fft"], ["rfft of 40 × 97", "fft2 of 8 × 8", "SciPy", "window, rfft, power", "80 mels"]),
        (["language"], ["64→96, 3 rows", "ONNX Runtime, integers", "40 keys"]),
        (["subpixel"], ["Pictures of 6 × 10", "64→128 of 6 × 10, NCHW", "clprim, plain stores"]),
        (["launch"], ["conv2d, 16→16", "import clprim", "bare enqueue"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else value,
)  # fmt: skip
def test_page(words, parts, tmp_path, capsys):
    assert run(tmp_path / "new", *words) == 0
    page, said = page_in(tmp_path / "new"), capsys.readouterr().out
    for part in [*parts, cp.current_device().driver, f"`python -m bench {' '.join(words)}"]:
        assert part in page and part in said
    assert "left out" not in page and "wrong" not in page


def test_recorded_pages_are_those_of_commands():
    pages = {path.name.partition("-")[0] for path in RESULTS.glob("*-*.md")}
    assert pages <= {*PAGES, "tune", "regret", "cookbook", "doctor"}


def test_names_of_files_tell_the_options(tmp_path):
    options = ("--network", "vgg16", "--memory-format", "channels_last", "--peers", "nobody")
    assert run(tmp_path, "conv", *options) == 0
    name = f"conv-vgg16-channels-last-peers-nobody-{slug(cp.current_device())}-quick"
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.md"}


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["conv", "--network", "lenet"], "resnet50"),
        (["conv", "--memory-format", "nhwc"], "channels_last"),
        (["conv", "--direction", "back"], "gradients"),
        (["conv", "--batch", "1,0"], "numbers from 1"),
        (["nets", "--net", "resnet50,nothing"], "bert"),
        (["nets", "--peers", "nobody"], "openvino"),
        (["step", "--net", "bert"], "resnet18"),  # tokens have no classes here
        (["torch"], "--compiled"),
        (["knitting"], "gemm"),
    ],
    ids="-".join,
)
def test_unknown_values(words, known, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        run(tmp_path, *words)
    assert end.value.code == 2 and known in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_is_not_there(tmp_path, capsys, monkeypatch):
    assert run(tmp_path, "launch", "--device", "no such device") == 2
    assert "no OpenCL device matches 'no such device'" in capsys.readouterr().err
    assert run(tmp_path, "pointwise", "--ship") == 2
    assert "--ship and --output: expected one of them" in capsys.readouterr().err
    monkeypatch.setattr("bench.models.importlib.util.find_spec", lambda name: None)
    assert run(tmp_path, "step", "--net", "resnet18") == 2
    assert "pip install torch torchvision" in capsys.readouterr().err


def test_a_wrong_result_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "axpb", lambda: cp.Pointwise("y0 = x0 * w0 - x1;"))
    assert run(tmp_path, "pointwise") == 1
    assert "WRONG RESULT: clprim" in page_in(tmp_path)


def test_another_rounding_than_pytorchs_is_none_but_another_number_is(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(operators.ops, "cumsum", lambda x, _: x)
    assert run(tmp_path, "ops", "--only", "cumsum") == 1
    assert "WRONG RESULT: clprim" in page_in(tmp_path)


def test_errors_are_those_of_the_largest_number():
    wanted = [np.float32([1, -4]), np.float32([0, 0])]
    assert error_of([np.float32([1, -2]), np.float32([0, 0])], wanted) == 0.5
    assert error_of(wanted, wanted) == 0
    assert error_of([np.float32([np.nan, 1]), wanted[1]], wanted) == np.inf
    assert error_of(wanted[:1], wanted) == error_of([np.ones(3)], wanted[:1]) == np.inf


def page_of(*cases, **told):
    return Page("A page", "GB/s", lambda args: list(cases), sample=1e-9, **told)


def case(title="a", limit="", tolerance=0.0, **makers):
    own = {"clprim": lambda data: lambda: data.device[0] + 1}
    return Case("G", title, 8, lambda: Data(np.ones(2, np.float32)), {**own, **makers},
                limit=limit, tolerance=tolerance)  # fmt: skip


def outcome(*cases, repeats=1, **told):
    page = page_of(*cases)
    return Runner(page, cp.current_device(), repeats=repeats, quick=True, **told).run(
        page.cases(None), lambda text: None
    )


def test_peers_that_are_wrong_or_fail_are_left_out():
    def fails(data):
        raise NotImplementedError("no such operator")

    expected = np.full(2, 2, np.float32)
    made = case(
        NumPy=lambda data: lambda: expected, SciPy=lambda data: lambda: expected + 1, mine=fails,
        none=lambda data: None,
    )  # fmt: skip
    rows, remarks, failures = outcome(made)
    assert failures == ["G: a: WRONG RESULT: SciPy"] and not remarks
    (row,) = rows
    assert set(row.times) == {"NumPy"} and row.wrong == ["SciPy"]
    assert row.absent == {"mine": "NotImplementedError: no such operator"}
    rows, _, failures = outcome(made, wanted=["num"])
    assert not failures and not rows[0].absent


def test_what_fails_leaves_other_rows():
    def no_room(data):
        raise cp.DeviceError("no room for 1 byte")

    def stopped(data):
        raise KeyboardInterrupt

    odd = [case("b", clprim=no_room), case("c", clprim=lambda data: lambda: 1 / 0)]
    rows, remarks, failures = outcome(*odd, case(), case("d", clprim=stopped), case("e"))
    assert [row.title for row in rows] == ["a"]
    assert remarks == ["G: b: not measured: no room for 1 byte"]
    assert failures == ["G: c: ZeroDivisionError: division by zero", INTERRUPTED]


def test_slow_peers_run_less_often(monkeypatch):
    monkeypatch.setattr(runner, "_FEW", 1)
    calls = []

    def slow(data):
        def call():
            calls.append(1)
            import time

            time.sleep(0.05)
            return np.full(2, 2, np.float32)

        return call

    (row,), _, _ = outcome(case(limit="calm", NumPy=slow), repeats=9)
    # Compared, twice to count, a look, a run that does not count, one that does.
    assert len(calls) == 6 and row.times["NumPy"][0] > 8 and row.share is None


def test_rows_are_held_against_the_best_of_the_run(monkeypatch):
    import time

    speeds = iter([0.008] * 3 + [0.001] * 30)  # a busy beginning, which nothing betrays yet
    event = SimpleNamespace(wait=lambda: time.sleep(next(speeds)))
    kernel = limits.Candidate("peak", lambda: event, 1)
    monkeypatch.setattr(limits, "peak_candidates", lambda device: [kernel])
    monkeypatch.setattr(limits, "best", lambda candidates: (candidates[0], 1.0))
    rows, _, _ = outcome(case(limit="peak"), case("b", limit="peak"), repeats=2)
    assert [row.calm for row in rows] == [False, True]
    assert rows[0].share is not None


def test_caches_are_emptied_only_of_what_exceeds_them(monkeypatch):
    monkeypatch.setattr(limits, "_EVICTING", 1 << 20)
    reads = []

    def candidates(device, nbytes):
        event = SimpleNamespace(wait=lambda: reads.append(nbytes))
        return [SimpleNamespace(enqueue=lambda: event)]

    monkeypatch.setattr(limits, "read_candidates", candidates)
    ceilings = limits.Ceilings(cp.current_device())
    cache = cp.current_device().traits.cache_bytes
    ceilings.before(cache)()
    assert reads == []
    ceilings.before(cache + 1)()
    assert reads == [1 << 20]


@pytest.mark.parametrize(("package", "words"), [("pytest", "builds"), ("ml_dtypes", "builds")])
def test_a_missing_extra_is_named(package, words):
    code = (
        f"import sys, runpy; sys.modules[{package!r}] = None; sys.argv = ['bench', {words!r}]; "
        "runpy.run_module('bench', run_name='__main__')"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert found.stderr == f'The benchmarks need {package}: pip install "clprim[test]"\n'


def test_the_bare_enqueue_runs_the_same_kernel():
    x, y = cp.full(100, 1.0), cp.zeros(100)
    double = cp.Pointwise("y0 = x0 * w0;")
    bare = bare_enqueue(lambda: double(x, 2.0, out=y))
    y.fill(0)
    assert isinstance(bare(), cl.Event)
    assert (y.get() == 2).all()
    with pytest.raises(RuntimeError, match="enqueued no kernel"):
        bare_enqueue(lambda: None)


def test_a_warm_start_that_builds_is_refused(monkeypatch):
    monkeypatch.setattr("bench.probe.probe", lambda *what, **more: {"call": 1.0, "builds": 2.0})
    with pytest.raises(RuntimeError, match="2 programs were not on disk"):
        launch.cold_and_warm("pointwise")


def test_every_page_has_cases_that_are_told_apart():
    from bench.options import defaults_of

    for quick in (False, True):
        for name in set(PAGES) - {"nets", "step", "torch", "onnx"}:
            cases = PAGES[name].cases(defaults_of(name, quick=quick))
            assert cases, name
            assert len({case.label for case in cases}) == len(cases), name
            assert all(next(iter(case.makers)) == "clprim" for case in cases), name
