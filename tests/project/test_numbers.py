"""Numbers that decide in plans are few, and each says what it counts.

Beside them stand bounds, whose comment begins with that word: what errors, OpenCL or the text of a
kernel allow, and no clock has a say in.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "clprim" / "plan"
FILES = sorted(ROOT.rglob("*.py"))
#: How many decide, and how many are bounds; a new one has to be worth another.
MOST, MOST_BOUNDS = 100, 29


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


def is_bound(lines, line):
    """Whether the comment above a line says that it is a bound."""
    first = line - 2
    while lines[first - 1].startswith("#"):
        first -= 1
    return lines[first].removeprefix("#:").removeprefix("#").startswith(" Bound: ")


def test_numbers_are_few():
    found = [
        is_bound(file.read_text(encoding="utf-8").splitlines(), line)
        for file in FILES
        for line, _ in numbers(file)
    ]
    assert found.count(False) <= MOST
    assert found.count(True) <= MOST_BOUNDS


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_numbers_say_what_they_count(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    for line, name in numbers(file):
        assert lines[line - 2].startswith("#"), name
