"""PyTorch finds the device by itself: by the entry point that the package declares."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
tomllib = pytest.importorskip("tomllib")

import clprim as cp  # noqa: E402
from clprim.torch import private  # noqa: E402

ROOT = Path(__file__).parents[2]
GROUP = "torch.backends"


@pytest.fixture
def run(tmp_path):
    """Runs Python with the package's entry points as they are declared, installed or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [f"{name} = {where}" for name, where in project["entry-points"][GROUP].items()]
    info = tmp_path / "clprim-0.dist-info"  # found before that of an older installation
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clprim\nVersion: 0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *declared]) + "\n")

    def run(program, **variables):
        paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [sys.executable, "-W", "error::UserWarning", "-c", program]
        found = subprocess.run(
            command, env=environment | variables, capture_output=True, text=True, check=False
        )
        return found.returncode, found.stdout.strip(), found.stderr

    return run


def test_the_import_may_be_left_out(run):
    code, out, err = run("import torch; print((torch.ones(3, device='opencl') + 1).tolist())")
    assert (code, out) == (0, "[2.0, 2.0, 2.0]"), err


def test_the_import_may_come_first(run):
    code, out, err = run("import clprim.torch, torch; print(torch.opencl.current_device())")
    assert (code, out) == (0, "0"), err


def test_pytorch_works_without_it(run):
    program = """
import sys, warnings
warnings.simplefilter("always")
sys.modules["clprim.torch"] = None
import torch
print(torch.ones(1).item())
"""
    code, out, err = run(program)
    assert (code, out) == (0, "1.0"), err
    assert "clprim could not register the device 'opencl'" in err
    code, out, err = run(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (code, out) == (0, "1.0"), err
    assert "clprim" not in err


def test_a_version_that_nobody_ran_is_told_so(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.99.1+cpu")
    with pytest.warns(UserWarning, match=r"PyTorch 2\.13, 2\.14 and not yet with 2\.99\.1\+cpu"):
        private._check()
    monkeypatch.setattr(private, "_NEEDED", ("_C.no_such_name",))
    with pytest.raises(cp.DeviceError, match=r"2\.99.*no torch\._C\.no_such_name.*2\.13, 2\.14"):
        private._check()


def test_the_versions_that_were_run_are_those_that_are_installed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pin = extras["optional-dependencies"]["torch"][0]
    first, last = private.TESTED[0], int(private.TESTED[-1].rpartition(".")[2])
    assert pin == f"torch>={first},<2.{last + 1}"
