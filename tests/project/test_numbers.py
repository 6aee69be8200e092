"""Numbers that decide in plans are few, and each says what it counts."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "clprim" / "plan"
FILES = sorted(ROOT.rglob("*.py"))
#: How many there are in all; a new one has to be worth another.
MOST = 196


def numbers(file):
    """(line, name) of what a module calls by a name in capitals and is a number."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            targets = node.targets[0]
            pairs = (
                zip(targets.elts, node.value.elts, strict=True)
                if isinstance(targets, ast.Tuple) and isinstance(node.value, ast.Tuple)
                else [(targets, node.value)]
            )
            for name, value in pairs:
                parts = list(ast.walk(value))
                known = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
                plain = all(isinstance(part, known) for part in parts) and not any(
                    isinstance(part, ast.Constant) and not isinstance(part.value, int | float)
                    for part in parts
                )
                if isinstance(name, ast.Name) and name.id.isupper() and plain:
                    yield node.lineno, name.id


def test_numbers_are_few():
    assert sum(len(list(numbers(file))) for file in FILES) <= MOST


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_numbers_say_what_they_count(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    for line, name in numbers(file):
        assert lines[line - 2].startswith("#"), name
