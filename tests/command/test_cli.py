import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

import clprim as cp
from clprim.command import cli, demo, picture
from clprim.command.explain import COMMON, explain, sketch
from clprim.runtime.ceilings import Measurement

SUMS = [
    "y0 = x0; y1 = x0 * x0",
    "--init=reduce_y0 = 0; reduce_y1 = 0",
    "--step=reduce_y0 += y0; reduce_y1 += y1",
]


@pytest.fixture
def clprim(capsys):
    """Runs the command line; returns status, output and error output."""

    def run(*words):
        try:
            status = cli.main(words)
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


def in_process(*words, **environment):
    """Runs the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "clprim", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def without_devices(folder):
    """An environment in which the loader finds no device."""
    (folder / "broken.icd").write_text("/nowhere/libbroken.so\n")
    return {"OCL_ICD_VENDORS": str(folder), "OCL_ICD_FILENAMES": "", "POCL_DEVICES": "none"}


def test_version(clprim):
    assert clprim("--version") == (0, f"clprim {cp.__version__}\n", "")


def test_without_a_command_help_is_printed(clprim):
    status, out, _ = clprim()
    assert status == 0
    assert all(command in out for command in ("devices", "explain", "demo"))


def test_devices(clprim):
    status, out, err = clprim("devices")
    assert (status, err) == (0, "")
    for device in cp.devices():
        line = next(line for line in out.splitlines() if line.startswith(f"{device.index} "))
        assert device.name in line
        assert device.platform in line
    assert f"current: {cp.current_device().index}" in out


def test_devices_measure(clprim, monkeypatch):
    monkeypatch.setattr(cli, "measure", lambda device: Measurement(12.34e9, 45.67e9, 890e9))
    _, out, _ = clprim("devices", "--measure")
    assert "copy GB/s" in out
    assert len(re.findall(r"12\.3 +45\.7 +890$", out, re.MULTILINE)) == len(cp.devices())


def test_devices_measure_goes_on_after_a_failure(clprim, monkeypatch):
    def fail(device):
        raise cp.DeviceError(f"device {device.index} is out of order")

    monkeypatch.setattr(cli, "measure", fail)
    status, out, err = clprim("devices", "--measure")
    assert status == 2
    assert err.count("is out of order") == len(cp.devices())
    assert "Traceback" not in out + err


@pytest.mark.parametrize("command", [["devices"], ["demo"]], ids=" ".join)
def test_no_device_says_what_hides_them(command, tmp_path):
    done = in_process(*command, **without_devices(tmp_path))
    if "no OpenCL device was found" not in done.stderr:
        pytest.skip("this loader finds devices whatever it is told")
    assert done.returncode == 2
    assert "unset it" in done.stderr
    assert "Traceback" not in done.stderr


def test_explain_without_a_device(tmp_path):
    done = in_process("explain", "y0 = x0", **without_devices(tmp_path))
    if "no OpenCL device here" not in done.stderr:
        pytest.skip("this loader finds devices whatever it is told")
    assert done.returncode == 0
    assert "__kernel void pointwise" in done.stdout


@pytest.mark.parametrize("command", [["devices"], ["demo"], ["explain", "y0 = x0"]], ids=" ".join)
def test_an_unknown_device_is_one_clear_message(command):
    done = in_process(*command, CLPRIM_DEVICE="nope")
    assert done.returncode == 2
    assert done.stderr.startswith("clprim: CLPRIM_DEVICE=nope: no OpenCL device matches 'nope'")
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error():
    words = [sys.executable, "-m", "clprim", "explain", *SUMS, "--traits", "gpu"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # as `head` does
        assert process.stderr.read() == b""
    assert process.returncode == 0


# --- explain -------------------------------------------------------------------------------------


def test_explain_prints_what_source_returns(clprim, device):
    axpb = cp.Pointwise("y0 = x0 * w0 + x1")
    x, b = cp.zeros((8, 4, 5, 5), memory_format="channels_last"), cp.zeros((4, 1, 1))
    status, out, err = clprim(
        "explain", "y0 = x0 * w0 + x1", "--shape=8,4,5,5", "--shape=4,1,1",
        "--memory-format=channels_last", f"--device={device.index}",
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert out.endswith(axpb.source(x, b, 1))
    assert "//   x0  float32 (8, 4, 5, 5), channels_last\n" in out
    assert "//   x1  float32 (4, 1, 1)\n" in out
    assert "// strategy  pointwise" in out
    assert "// launch    pointwise" in out


def test_explain_reductions_print_what_source_returns(clprim, device):
    sums = cp.Reduction(
        "y0 = x0; y1 = x0 * x0",
        init="reduce_y0 = 0; reduce_y1 = 0",
        step="reduce_y0 += y0; reduce_y1 += y1",
    )
    expected = sums.source(cp.zeros((2, 300, 300), np.float16), axis=(-1, 0))
    _, out, _ = clprim(
        "explain", *SUMS, "--axis", "-1,0", "--shape=2,300,300", "--dtype=float16",
        f"--device={device.index}",
    )  # fmt: skip
    heading = r"\n?// --- kernel \d of (\d) -+\n\n"
    kernels = re.split(heading, out)[2::2]
    assert "\n".join(kernels) == expected
    assert out.count("// launch ") == len(kernels)
    assert "//   y1  float16 (300,)" in out


@pytest.mark.parametrize("kind", COMMON)
@pytest.mark.parametrize("axis", [None, (0, 2, 3)], ids=str)
def test_explain_common_devices(kind, axis):
    sums = cp.Reduction("y0 = x0", init="reduce_y0 = 0", step="reduce_y0 += y0")
    x = sketch((32, 64, 112, 112), np.dtype(np.float32), "channels_last")
    text = explain(sums, [x], axis=axis, on=kind)
    assert f"a common {kind.upper()}" in text
    moved = re.search(r"^// launch .*; ([\d.]+) MB", text, re.MULTILINE)
    assert 102.7 <= float(moved[1]) < 110  # x is read once, and little is written
    assert "__kernel" in text


def test_explain_compiles_for_a_device_at_hand(clprim, device):
    status, out, err = clprim("explain", "y0 = x0 +", f"--device={device.index}")
    assert (status, out) == (2, "")
    assert "expr, line 1" in err
    assert "y0 = x0 +" in err


def test_explain_without_elements(clprim):
    status, out, _ = clprim("explain", "y0 = x0", "--shape=0,3")
    assert status == 0
    assert "nothing runs" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["y0 = x0 * (x1"], "unbalanced bracket"),
        (["y0 = q"], "unknown name 'q'"),
        (["y0 = x0 + x1", "--shape=3", "--shape=4"], "do not broadcast"),
        (["y0 = x0 + x1", *["--shape=3"] * 3], "--shape is given 3 times; expected once, or 2"),
        (["y0 = x0", "--shape=3", "--shape=3"], "--shape is given 2 times; expected once\n"),
        (["y0 = x0", "--dtype=complex256"], "complex256 is not supported"),
        (["y0 = x0", "--dtype=real"], "'real' is not a dtype"),
        (["y0 = x0", "--axis=1"], "--axis: only a reduction has it"),
        (["y0 = x0", "--init=reduce_y0 = 0"], "--step is missing"),
        (["y0 = x0", "--step=reduce_y0 += y0"], "--init is missing"),
        ([*SUMS, "--axis=7"], "axis 7 is out of bounds"),
        (["y0 = 1"], "explain needs an array"),
        (["y0 = x0", "--shape=3", "--memory-format=channels_last"], "needs a --shape N,C,H,W"),
        (["y0 = x0", "--device=nope"], "no OpenCL device matches 'nope'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_explain_reports_mistakes(clprim, words, message):
    status, out, err = clprim("explain", *words)
    assert (status, out) == (2, "")
    assert err.startswith("clprim: ")
    assert message in err


@pytest.mark.parametrize(
    "word", ["--shape=3,a", "--shape=-1", "--axis=a", "--scalar=b", "--traits=x"]
)
def test_explain_refuses_malformed_words(clprim, word):
    status, out, err = clprim("explain", "y0 = x0", word)
    assert (status, out) == (2, "")
    assert word.partition("=")[0] in err


# --- demo ----------------------------------------------------------------------------------------


def test_demo(clprim, device):
    pytest.importorskip("skimage")
    status, out, err = clprim("demo", f"--device={device.index}", "--batch=2", "--runs=1")
    assert (status, err) == (0, "")
    assert out.count("right") == 3
    assert "WRONG" not in out
    assert "y0 = x0; y1 = x0 * x0;  // ← expr" in out
    assert "reduce_y0 += y0; reduce_y1 += y1;  // ← step" in out
    assert "PyTorch" in out
    saved = Path(re.search(r"^saved: (\S+\.png) ", out, re.M)[1])
    assert imread(saved).shape == (2 * 224, 2 * 224, 3)
    assert "█" in out
    lines = [line for line in out.splitlines() if not line.startswith("device")]
    assert max(map(len, lines)) <= 120


def test_pictures_are_png_files(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    (tmp_path / "a.png").write_bytes(picture.png(pixels))
    assert np.array_equal(np.rint(255 * imread(tmp_path / "a.png")), pixels)


@pytest.mark.parametrize(
    ("variable", "value", "start"),
    [
        ("KITTY_WINDOW_ID", "1", "\033_Ga=T,f=100,c=96,m=1;"),
        ("TERM_PROGRAM", "WezTerm", "\033]1337;File=inline=1"),
        ("COLORTERM", "truecolor", "\033[38;2;0;9;255;48;2;0;9;255m▀"),
        ("COLORTERM", "", ""),
    ],
)
def test_pictures_in_terminals_that_can(monkeypatch, variable, value, start):
    for name in ("KITTY_WINDOW_ID", "TERM_PROGRAM", "COLORTERM", "TERM"):
        monkeypatch.delenv(name, raising=False)
    pixels = np.tile(np.uint8([0, 9, 255]), (8, 200, 1))
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    monkeypatch.setenv(variable, value)
    shown = pixels if variable == "COLORTERM" else noise
    assert picture.terminal_picture(shown) == ""  # no terminal
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    text = picture.terminal_picture(shown)
    assert text.startswith(start)
    assert bool(text) == bool(start)


def test_demo_full_prints_whole_kernels(clprim):
    pytest.importorskip("skimage")
    _, out, _ = clprim("demo", "--batch=1", "--runs=1", "--full")
    assert "__kernel" in out


def test_demo_says_where_the_photograph_comes_from(clprim, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    monkeypatch.setitem(sys.modules, "skimage.data", None)
    status, out, err = clprim("demo")
    assert (status, out) == (2, "")
    assert "pip install scikit-image" in err


def test_demo_goes_without_pytorch(clprim, monkeypatch):
    pytest.importorskip("skimage")
    monkeypatch.setitem(sys.modules, "torch", None)
    status, out, _ = clprim("demo", "--batch=1", "--runs=1")
    assert status == 0
    assert "PyTorch is not installed" in out


@pytest.mark.parametrize("word", ["--batch=0", "--batch=x", "--runs=-1"])
def test_demo_refuses_malformed_words(clprim, word):
    assert clprim("demo", word)[0] == 2


def test_demo_refuses_a_batch_beyond_the_memory(clprim):
    pytest.importorskip("skimage")
    status, out, err = clprim("demo", "--batch=1000000")
    assert (status, out) == (2, "")
    assert re.match(r"clprim: --batch 1000000: crops of 602.1 GB; expected at most \d+, as", err)


def test_demo_fails_where_results_are_wrong(clprim, monkeypatch):
    pytest.importorskip("skimage")
    wrong = cp.Reduction(
        "y0 = x0; y1 = x0 * x0 * 1.001f;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        name="sums",
    )
    operators = (wrong, demo._operators()[1])
    monkeypatch.setattr(demo, "_operators", lambda: operators)
    monkeypatch.setattr(demo, "_definition", lambda: "")
    status, out, _ = clprim("demo", "--batch=1", "--runs=1")
    assert status == 1
    assert "WRONG" in out


def test_excerpt_shows_the_users_lines(traits):
    operator = cp.Pointwise("float a = x0;\nif (a > 0)\n    y0 = a;")
    shown = demo.excerpt(operator.source(cp.zeros((3, 7))), 30)
    assert shown.count("// ← expr") == 3
    assert "#line" not in shown
    assert len(shown.splitlines()) <= 30


def test_the_command_needs_no_package_that_is_optional():
    """README's first command installs none of these."""
    code = (
        "import sys\n"
        "for name in ('ml_dtypes', 'torch', 'onnx', 'matplotlib', 'rich', 'typer', 'skimage'):\n"
        "    sys.modules[name] = None\n"
        "import clprim.command.cli, clprim.ops, clprim.tune.measure"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
