"""Stubs are what type checkers read of functions that are made from tables and records.

``python -m pytest tests/project/test_stubs.py --update-golden`` rewrites them.
"""

from pathlib import Path

import pytest

from clprim.functions.named import SIGNATURES
from clprim.ops.elementwise.calls import signatures
from clprim.ops.elementwise.table import ROWS
from clprim.ops.loss import losses
from clprim.ops.loss.table import LOSSES

ROOT = Path(__file__).parents[2]
HEAD = """from typing import Any

from clprim.arrays.array import Array

"""
SHOWN = [row for row in ROWS.values() if row.shown]
STUBS = {
    "ops/elementwise/operators.pyi": dict(pair for row in SHOWN for pair in signatures(row)),
    "ops/loss/losses.pyi": dict(pair for row in LOSSES for pair in losses.signatures(row)),
    "clprim/functions/named.pyi": SIGNATURES,
}


def _formatted(name, signature):
    line = f"def {name}{signature}: ...\n"
    if len(line) <= 101:
        return line
    parameters, _, returned = signature[1:].rpartition(") -> ")
    if len(parameters) > 96:
        parameters = parameters.replace(", ", ",\n    ") + ","
    return f"def {name}(\n    {parameters}\n) -> {returned}: ...\n"


@pytest.mark.parametrize("path", STUBS)
def test_stubs_are_what_the_table_says(path, request):
    lines = [_formatted(name, signature) for name, signature in sorted(STUBS[path].items())]
    text = HEAD + "".join(lines)
    if request.config.getoption("--update-golden"):
        (ROOT / path).write_text(text, encoding="utf-8")
    assert (ROOT / path).read_text(encoding="utf-8") == text, "run again with --update-golden"
