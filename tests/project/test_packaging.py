"""The wheel and the editable install, each in a fresh virtual environment, run an operator."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("clprim", "ops", "templates", "pyproject.toml", "README.md", "LICENSE")
PROGRAM = """\
import numpy as np, clprim as cp
from clprim import ops
print(cp.__file__)
print(ops.__file__)
x = cp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
print(ops.sum(x, axis=0).get().tolist(), (x * 2)[1, 2].item())
"""

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="the tests lie beside no sources"
)


def pip(*words, python=sys.executable):
    done = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy, as building leaves its traces beside the sources."""
    folder = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sources)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture
def fresh(tmp_path):
    """A virtual environment that lacks clprim and sees what else is installed here."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    own = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # A path file puts packages on the path, but does not follow their path files: an editable
    # clprim that is installed here stays out.
    lines = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    Path(own, "installed-here.pth").write_text("\n".join(lines) + "\n")
    scripts = sysconfig.get_path("scripts", vars={"base": str(folder), "platbase": str(folder)})
    return Path(scripts)


def output(command, cwd):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_wheel_carries_everything(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package, folder in (("clprim", "clprim"), ("clprim/ops", "ops")):
        for file in (ROOT / folder).rglob("*.py"):
            assert f"{package}/{file.relative_to(ROOT / folder).as_posix()}" in names
    for file in (ROOT / "templates").rglob("*.jinja"):
        assert f"clprim/templates/{file.relative_to(ROOT / 'templates').as_posix()}" in names
    for file in (ROOT / "clprim" / "tuned").glob("*.json"):
        assert f"clprim/tuned/{file.name}" in names
    assert "clprim/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "bench/", "ops/", "templates/")) for name in names)


def test_wheel_needs_three_packages(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert [line.split()[1].partition(">")[0] for line in needed] == ["pyopencl", "numpy", "jinja2"]
    extras = {line.split()[1] for line in lines if line.startswith("Provides-Extra")}
    assert {"cpu", "bench", "demo", "test", "dev"} <= extras


def test_every_folder_of_python_and_templates_is_listed_as_a_package():
    tomllib = pytest.importorskip("tomllib")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    roots = {"clprim": "clprim", "clprim.ops": "ops", "clprim.templates": "templates"}
    expected = {
        ".".join((name, *file.parent.relative_to(ROOT / folder).parts))
        for name, folder in roots.items()
        for pattern in ("*.py", "*.jinja", "*.json")
        for file in (ROOT / folder).rglob(pattern)
    }
    assert set(settings["tool"]["setuptools"]["packages"]) == expected


def test_wheel_in_a_fresh_environment(wheel, fresh, tmp_path):
    pip("--python", fresh / "python", "install", "--quiet", "--no-deps", wheel)
    clprim, ops, result = output([fresh / "python", "-c", PROGRAM], tmp_path)
    assert Path(clprim).is_relative_to(fresh.parent)
    assert Path(ops).is_relative_to(fresh.parent)
    assert result == "[3.0, 5.0, 7.0] 10.0"
    listed = output([fresh / "clprim", "devices"], tmp_path)
    assert any(line.startswith("current: ") for line in listed)


def test_editable_install_in_a_fresh_environment(sources, fresh, tmp_path):
    pip(
        "--python", fresh / "python", "install", "--quiet", "--no-deps", "--no-build-isolation",
        "--editable", sources,
    )  # fmt: skip
    clprim, ops, result = output([fresh / "python", "-c", PROGRAM], tmp_path)
    assert Path(clprim) == sources / "clprim" / "__init__.py"
    assert Path(ops) == sources / "ops" / "__init__.py"
    assert result == "[3.0, 5.0, 7.0] 10.0"
