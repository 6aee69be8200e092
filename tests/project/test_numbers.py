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
MOST, MOST_BOUNDS = 142, 43


def is_number(node):
    """Whether an expression is one number, as ``1 << 16`` is, that nothing else gives."""
    parts = list(ast.walk(node))
    known = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    return all(isinstance(part, known) for part in parts) and not any(
        isinstance(part, ast.Constant) and type(part.value) not in (int, float) for part in parts
    )


def numbers_in(node):
    """How many numbers an expression holds: in tuples, in a dict and as fields of a value too."""
    if is_number(node):
        return 1
    if isinstance(node, ast.Tuple | ast.List):
        return sum(map(numbers_in, node.elts))
    if isinstance(node, ast.Call):  # a value of numbers alone; traits are an example's
        if node.args or ast.unparse(node.func) == "DeviceTraits":
            return 0
        fields = [keyword.value for keyword in node.keywords]
        return len(fields) if all(map(is_number, fields)) else 0
    return sum(map(numbers_in, node.values)) if isinstance(node, ast.Dict) else 0


def numbers(file):
    """(line, name, how many) of what a module calls by a name in capitals and is numbers."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            unpacked = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs = (
                zip(target.elts, node.value.elts, strict=True)
                if unpacked
                else [(target, node.value)]
            )
            for name, value in pairs:
                count = numbers_in(value)
                if isinstance(name, ast.Name) and name.id.isupper() and count:
                    yield node.lineno, name.id, count


def is_bound(lines, line):
    """Whether the comment above a line says that it is a bound."""
    first = line - 2
    while lines[first - 1].startswith("#"):
        first -= 1
    return lines[first].removeprefix("#:").removeprefix("#").startswith(" Bound: ")


def test_numbers_are_few():
    found = {True: 0, False: 0}
    for file in FILES:
        lines = file.read_text(encoding="utf-8").splitlines()
        for line, _, count in numbers(file):
            found[is_bound(lines, line)] += count
    assert found[False] <= MOST
    assert found[True] <= MOST_BOUNDS


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_numbers_say_what_they_count(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    for line, name, _ in numbers(file):
        assert lines[line - 2].startswith("#"), name
