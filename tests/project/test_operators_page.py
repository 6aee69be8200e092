"""`docs/operators.md` is made from the code: signatures, dtypes that are taken, gradients, peers.

Which dtypes an operator takes is found by planning calls with arrays of no elements; the tests of
operators build and run the kernels.
``python -m pytest tests/project/test_operators_page.py --update-golden`` rewrites it.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from support import DTYPES

import clprim as cp
from clprim import ops
from clprim.call import launch
from clprim.call.signature import Calls
from clprim.graph import replay
from clprim.ops.registry import OPERATORS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operators.md"
HEAD = """# Operators

All of `clprim.ops`, by family; names, arguments and meaning are PyTorch's where it has them. This
page is made from the code (`tests/project/test_operators_page.py`).

Arrays may have any strides, and so every memory format; a result has that of the first array with
all its dimensions. *dtypes*: what the first array may hold; `float` is float16, bfloat16, float32
and float64 (where the device has it), `int` all integers of 8 to 64 bits. *gradient*: the operator
that computes it, or what it is. *checked against*: what the operator's tests compare it with.

"""
FAMILIES = {
    "elementwise": "Elementwise",
    "reduction": "Reductions",
    "scan": "Scans",
    "product": "Products of matrices",
    "conv": "Convolutions",
    "norm": "Normalisations",
    "pool": "Pooling",
    "sample": "Interpolation",
    "index": "By index",
    "shape": "Shapes",
    "random": "Random numbers",
    "loss": "Losses",
    "attention": "Attention",
}


def _like(x):
    return x.dtype if x.dtype.kind not in "biu" else np.dtype(np.float32)


def _call(sample, function, x):
    """Calls an operator with the sample of its record."""

    def empty(shape, dtype=x.dtype):
        return cp.empty(shape, dtype)

    def cell(height, *, pair=False):
        h = empty((0, 2))
        return x[:, 0, 0], (h, h) if pair else h, empty((height, 4)), empty((height, 2))

    names = {
        "x": x,
        "f": function,
        "empty": empty,
        "cell": cell,
        "image": lambda ndim: empty((0, 3, 4, 4, 4)[: ndim + 2]),
        "index": cp.empty((0, 3), np.int64),
        "number": _like(x),
        "int64": np.int64,
        "float32": np.float32,
    }
    eval(f"f({sample})", names)


def _dtypes(name):
    """What the first array may hold, in few words; nothing where there is no array."""
    function = getattr(ops, name)
    taken = []
    for dtype in DTYPES:
        x = cp.empty((0, 3, 4, 4), dtype)
        sample = OPERATORS[name].sample if name in OPERATORS else ""
        for given in (sample,) if sample else ("x", "x, x"):
            try:
                _call(given, function, x)
            except cp.DTypeError:
                continue
            except Exception as error:  # a guess need not fit, whatever it meets
                if sample:
                    raise AssertionError(f"the sample of {name} is none: {error}") from error
                continue
            taken.append(dtype)
            break
    floats = [d.name for d in DTYPES if d in taken and d.kind not in "biu"]
    whole = [d.name for d in DTYPES if d in taken and d.kind in "iu"]
    words = ["float"] if len(floats) == 4 else floats
    words += ["int"] if len(whole) == 8 else whole
    words += ["bool"] if np.dtype(bool) in taken else []
    return ", ".join(words)


def _peers():
    """The operators that a file of tests names, and what it compares them with."""
    found = {}
    for file in sorted((ROOT / "tests" / "ops").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        peer = "PyTorch" if re.search(r'import torch|skip\("torch"', text) else "NumPy"
        for name in re.findall(r"\bops\.(\w+)", text) + re.findall(r'"(\w+)"', text):
            found.setdefault(name, set()).add(peer)
    return found


def _page():
    peers = _peers()
    families = {}
    for name in ops.__all__:
        function = getattr(ops, name)
        if inspect.ismodule(function) or name.endswith("_backward"):
            continue
        module = inspect.getmodule(inspect.unwrap(function)).__name__
        families.setdefault(module.split(".")[2], []).append(name)
    titles = {**FAMILIES, **{f: f.capitalize() for f in sorted(families) if f not in FAMILIES}}
    parts = [HEAD]
    for family, title in titles.items():
        if family not in families:
            continue
        parts.append(f"## {title}\n\n| operator | dtypes | gradient | checked against |\n")
        parts.append("|---|---|---|---|\n")
        for name in families[family]:
            gradient = f"`{name}_backward`" if f"{name}_backward" in ops.__all__ else ""
            gradient = (name in OPERATORS and OPERATORS[name].gradient) or gradient
            peer = ", ".join(sorted(peers.get(name, ())))
            parts.append(f"| `{name}` | {_dtypes(name)} | {gradient} | {peer} |\n")
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


class Planned:
    """A kernel that is not built; it takes any argument."""

    def set_arg(self, *_):
        pass

    _set_arg_buf_pack_multi = set_arg


@pytest.fixture
def nothing_is_built(monkeypatch):
    monkeypatch.setattr(launch, "kernel_of", lambda *_, **__: Planned())
    monkeypatch.setattr(launch.Launch, "enqueue", lambda *_: None)
    monkeypatch.setattr(replay.cl, "enqueue_nd_range_kernel", lambda *_: None)
    yield
    Calls.forget()


def test_page_is_what_the_code_says(nothing_is_built, request):
    page = _page()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, "run again with --update-golden"


def test_what_all_operators_share_is_said_by_all():
    doc = inspect.getdoc(ops.cdist_backward)
    assert "\n    grad: Of the result.\n    x1: As in `cdist`.\n" in doc
    doc = inspect.getdoc(ops.cumsum)
    assert doc.index("\n    dim: ") < doc.index("\n    axis: The same") < doc.index("\n    out: ")
