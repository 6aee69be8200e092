"""What the house may hold: figures that only fall, or rise with a capability and its reason.

`python tests/project/test_budget.py` prints today's.
"""

import ast
import io
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = (".py", ".pyi", ".jinja", ".cl")
# Lines of rooms: what is not named is part of the room above it. One launch of a graph took 1,200,
# with groups of GPUs' sizes 1,300, with what decides for it and its page 1,750; attention over a
# static cache 400, the word for the precision of products 90, weights of few bits 2,500, language
# models 1,500, matrix units 1,450, convolutions by them 500, attention 1,050, pairs 300, texts
# that are continued together and served 1,000, packings of weights by other packages 650, Fourier
# transforms 1,300, complex numbers 1,000, complex tensors of PyTorch's device 300,
# Fourier transforms 2,100, real ones by halves and primes by convolutions in one kernel 600,
# the strings that they run 650, those that graphs make 140 and along several dimensions 170,
# in place 90, mels and cepstra 375, their page of timings 125,
# decompositions of matrices 3,200, gradients through complex numbers and transforms 250.
# Decompositions of larger matrices by reflections in panels took 130, spectra by blocks 270,
# NumPy's other names and PyTorch's least squares 260.
# Dropout and gradients of masks by units, and nets of 16 bits that units compute, took 250,
# whole numbers beside weights of 4 bits 370, strings on scores of attention 700,
# listings' shares of units' peak and larger tiles of units 400.
# Epilogues of products of complex matrices took 45 of ops and 130 of tests, groups of complex
# numbers 90 and 90.
LINES = {
    "bench": 10_045,
    "templates": 13_875,
    "ops": 29_883,
    "clprim": 80_830,
    "clprim/language": 10_780,
    "clprim/plan": 23_868,
    "clprim/runtime": 4_529,
    "clprim/arrays": 2_427,
    "clprim/call": 1_164,
    "clprim/primitives": 3_660,
    "clprim/gradients": 2_783,
    "clprim/graph": 8_588,
    "clprim/functions": 2_005,
    "clprim/torch": 9_317,
    "clprim/onnx": 4_188,
    "tests": 71_202,
}
# Files of clprim and ops that say an operator: define, import, look up or name it in a string.
PLACES = {"conv2d": 8, "softmax": 6, "sort": 5, "relu": 3, "layer_norm": 5}
# Hundredths of PyTorch's overloads and of ONNX's names that operators' records say. They rise;
# `torch.linalg` took four, whose overloads return what gradients want beside results.
RECORDS = {"torch": 67, "onnx": 60}
# Formulas of activations, which rows of ops/elementwise/table.py have.
FORMULAS = ("tanh(", "exp(-", "erf(", "log1p(exp")
# Places that bind a graph's kernels: graph/compiled.py, and what checks passes.
REPLAYS = 2
# Names that say the same of every family of plans, or of every table.
PARTS = {"__init__.py", "code.py", "family.py", "planner.py", "problem.py", "table.py"}
# Handlers of a front end stand in files by the names of the families in ops.
HANDLERS = (Path("clprim/torch/kernels"), Path("clprim/onnx/operators"))
# `stft` and `istft` have the ten of PyTorch, `spectrogram` and `mel_spectrogram` torchaudio's.
LONGEST, PARAMETERS, FORMULA_FILES, THREE_TIMES = 60, 22, 9, 0


def files(*rooms, ending=".py"):
    for room in rooms:
        yield from sorted(p for p in (ROOT / room).rglob(f"*{ending}") if p.is_file())


@cache
def source(path):
    return path.read_text(encoding="utf-8")


@cache
def tree(path):
    return ast.parse(source(path))


def functions(*rooms):
    for path in files(*rooms):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def lines(room):
    found = [p for ending in CODE for p in files(room, ending=ending) if "golden" not in p.parts]
    return sum(len(source(p).splitlines()) for p in found)


@cache
def docstrings(path):
    """Where the docstrings of a file begin."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for n in ast.walk(tree(path)) if isinstance(n, kinds) and ast.get_docstring(n)]
    return {node.body[0].lineno for node in nodes}


def code_lines(path, node):
    """Lines of a function that hold code: no docstring, comment or blank line."""
    text = source(path).splitlines()[node.lineno - 1 : node.end_lineno]
    doc = node.body[0] if ast.get_docstring(node) else None
    prose = doc.end_lineno - doc.lineno + 1 if doc else 0
    return sum(bool(line.strip()) and line.strip()[0] != "#" for line in text) - prose


def parameters(node):
    given = node.args
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs])


@cache
def said(path):
    """Words that a file's code has as names of operators: defined, imported, looked up, quoted."""
    words = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef):
            words.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            words.update(a.name for a in node.names)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("ops", "F"):
            words.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            quoted = node.value.replace(".", " ").replace(",", " ").split()
            if len(quoted) < 200 and node.lineno not in docstrings(path):
                words.update(quoted)
    return words


def strings(path):
    """String tokens of a file that are no docstrings."""
    known = docstrings(path)
    for token in tokenize.generate_tokens(io.StringIO(source(path)).readline):
        if token.type == tokenize.STRING and token.start[0] not in known:
            yield token.string


def places(word):
    # Models are made of operators as users make theirs.
    mine = (p.relative_to(ROOT) for p in files("clprim", "ops") if word in said(p))
    return [p.as_posix() for p in mine if not p.is_relative_to("clprim/llm")]


def longest():
    return max((code_lines(p, n), n.name, p.name) for p, n in functions("clprim", "ops"))


def crowded():
    return [n.name for _, n in functions("clprim", "ops") if parameters(n) >= 10]


def formula_files():
    found = [p for p in files("clprim", "ops") if p.parts[-2:] != ("elementwise", "table.py")]
    found = [p for p in found if any(f in s for s in strings(p) for f in FORMULAS)]
    return [p.relative_to(ROOT).as_posix() for p in found]


def replays():
    """Files and lines that build a `Replay`."""
    found = ((p, n) for p in files("clprim", "ops") for n in ast.walk(tree(p)))
    calls = ((p, n) for p, n in found if isinstance(n, ast.Call))
    return [(p.name, n.lineno) for p, n in calls if ast.unparse(n.func).endswith("Replay")]


def names_three_times():
    """Names of files that stand three times and more, but for those that are a system."""
    found = (p for p in files("clprim", "ops") if p.relative_to(ROOT).parent not in HANDLERS)
    names = Counter(p.name for p in found if p.name not in PARTS)
    return sorted(n for n, count in names.items() if count > 2)


def recorded(front_end):
    """Hundredths of a front end's names that records of operators say, not functions by hand."""
    pytest.importorskip(front_end)
    if front_end == "torch":
        from clprim.torch.table import kernels

        ours = [(kernel.record, name) for kernel in kernels() for name in kernel.names
                if not str(kernel.function.__module__).startswith("torch.")]  # fmt: skip
        return 100 * sum(bool(record) for record, _ in ours) / len(ours)
    from clprim.onnx.table import load, names
    from clprim.ops import registry

    load()
    return 100 * len(registry.recorded()) / len(names())


def counted(front_end):
    """What `recorded` says, or which package it lacks."""
    try:
        return recorded(front_end)
    except pytest.skip.Exception as missing:
        return f"not counted: {missing}"


@pytest.mark.parametrize("front_end", RECORDS)
def test_names_from_records(front_end):
    assert recorded(front_end) >= RECORDS[front_end]


@pytest.mark.parametrize("room", LINES)
def test_lines(room):
    assert lines(room) <= LINES[room]


@pytest.mark.parametrize("word", PLACES)
def test_places_that_know_an_operator(word):
    assert len(places(word)) <= PLACES[word], places(word)


def test_functions():
    assert longest() <= (LONGEST, "~")
    assert len(crowded()) <= PARAMETERS, crowded()


def test_formulas_of_activations_are_rows():
    assert len(formula_files()) <= FORMULA_FILES, formula_files()


def test_one_owner_of_compiled_calls():
    assert len(replays()) <= REPLAYS, replays()


def test_names_of_files():
    assert len(names_three_times()) <= THREE_TIMES, names_three_times()


if __name__ == "__main__":
    for room in LINES:
        print(f"{room:20} {lines(room):7,}")
    for word in PLACES:
        print(f"{word:20} {len(places(word)):7}  {' '.join(places(word))}")
    print("records", {front_end: counted(front_end) for front_end in RECORDS})
    print("longest", longest(), "crowded", len(crowded()))
    print("formulas", len(formula_files()), formula_files())
    print("replays", replays())
    print("three times", len(names_three_times()), names_three_times())
