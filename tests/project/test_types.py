"""A user's file under `mypy --strict`: operators and arrays have types, and completion works."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clprim import ops

pytest.importorskip("mypy")
ROOT = Path(__file__).parents[2]

LINES = {
    "axpb(x, x, 2.0)": "Array",
    "sums(x, axis=0)": "Array",
    "scan(x)": "Array",
    "ops.conv2d(x, x, padding=1)": "Array",
    "ops.matmul(x, x)": "Array",
    "ops.relu(x)": "Array",
    "ops.max_pool2d(x, 2)": "Array",
    "ops.max_pool2d(x, 2, return_indices=True)": "tuple[Array, Array]",
    "ops.adaptive_max_pool1d(x, 2, True)": "tuple[Array, Array]",
    "ops.median(x)": "Array",
    "ops.median(x, axis=1)": "tuple[Array, Array]",
    "ops.unique(x)": "Array",
    "ops.unique(x, return_inverse=True)": "tuple[Array, Array]",
    "ops.unique_consecutive(x, return_counts=True)": "tuple[Array, Array]",
    "ops.layer_norm(x, (3,))": "Array",
    "x + 1": "Array",
    "1 - x": "Array",
    "x @ x": "Array",
    "x == x": "Array",
    "x[0]": "Array",
    "x[x > 0]": "Array",
    "x.T": "Array",
    "x.mean(axis=0)": "Array",
    "x.argsort()": "Array",
    "cp.exp(x)": "Array",
    "cp.where(x > 0, x, 0)": "Any",
    "cp.concatenate([x, x])": "Array",
    "cp.zeros((2, 3))": "Array",
    "cp.from_dlpack(x)": "Array",
    "cp.random.uniform((2, 3))": "Array",
    "x.device": "Device",
    "x.shape": "tuple[int, ...]",
    "cp.current_device()": "Device",
}
FILE = """
import numpy as np

import clprim as cp
from clprim import ops

axpb = cp.Pointwise("y0 = x0 * w0 + x1;")
sums = cp.Reduction("y0 = x0; y1 = 1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
scan = cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")
x = cp.asarray(np.ones((2, 3), np.float32))
first, second = sums(x, axis=0)


def network(x: cp.Array, w: cp.Array) -> cp.Array:
    with cp.on("cpu"):
        return ops.relu(ops.conv2d(x, w, padding=1)).mean(axis=(2, 3))


"""


def test_a_users_file_is_typed(tmp_path):
    shutil.copytree(ROOT / "clprim", tmp_path / "clprim")
    shutil.copytree(ROOT / "ops", tmp_path / "clprim" / "ops")
    asked = "".join(f"reveal_type({line})\n" for line in LINES)
    (tmp_path / "user.py").write_text(FILE + asked + "x.no_such_name\ncp.no_such_name\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "user.py"]
    environment = {**os.environ, "MYPYPATH": "", "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    short = [re.sub(r"clprim\.[\w.]+\.(\w+)", r"\1", found) for found in revealed]
    assert dict(zip(LINES, short, strict=True)) == LINES, done.stdout
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2, done.stdout
    assert all("no_such_name" in line for line in errors)


def test_no_operator_returns_anything():
    functions = {name: inspect.unwrap(getattr(ops, name)) for name in ops.__all__}
    said = {
        name: str(function.__annotations__.get("return", "nothing"))
        for name, function in functions.items()
        if inspect.isfunction(function)
    }
    assert len(said) > 250
    assert not {name: text for name, text in said.items() if re.search(r"\bAny\b|nothing", text)}
