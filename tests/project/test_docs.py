import doctest
import importlib
import pkgutil
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import clprim
from clprim import ops
from clprim.call.signature import Calls
from clprim.runtime import ceilings

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MODULES = sorted(
    module.name
    for package in (clprim, ops)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
)
FLAGS = doctest.NORMALIZE_WHITESPACE
# What the README's commands do not install; any other import that fails is a fault of the page.
OPTIONAL = ("torch", "onnx", "lightning")


def needed(examples):
    """Skips examples that import what is not installed here, by its name."""
    code = "\n".join(example.source for example in examples.examples)
    missing = [
        name
        for name in OPTIONAL
        if re.search(rf"import\b.*\b{name}\b|^from {name}\b", code, re.MULTILINE)
        and find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"{examples.name} needs {', '.join(missing)}")
    return examples


def run(examples):
    Calls.forget()  # lest it be done amid a page, whose examples count what is planned
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    report = []
    runner.run(examples, out=report.append)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page(page, device):
    # A fence would count as output of the example before it.
    text = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    run(needed(doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)))


@pytest.mark.parametrize("line", ["import torch, clprim.torch", "from torch import nn"])
def test_a_page_without_its_package_is_skipped_by_name(line, monkeypatch):
    monkeypatch.setitem(globals(), "find_spec", lambda name: None)
    examples = doctest.DocTestParser().get_doctest(f">>> {line}\n", {}, "torch.md", "", 0)
    with pytest.raises(pytest.skip.Exception, match=r"torch\.md needs torch"):
        needed(examples)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name, monkeypatch):
    monkeypatch.setattr(ceilings, "_BUFFER", 1 << 20)  # times nothing that anybody reads
    if name.startswith("clprim.torch"):
        pytest.importorskip("torch")
    if name.startswith("clprim.onnx"):
        pytest.importorskip("onnx")
    if name == "clprim.torch.lightning":
        pytest.importorskip("lightning")
    if name == "clprim.llm.server":
        pytest.importorskip("starlette")
        pytest.importorskip("uvicorn")
    module = importlib.import_module(name)
    for examples in doctest.DocTestFinder(exclude_empty=True).find(
        module, extraglobs={"cp": clprim}
    ):
        run(examples)


def test_there_are_pages_and_modules():
    assert {"README.md", "guide.md", "language.md"} <= {page.name for page in PAGES}
    assert {"clprim.primitives.pointwise", "clprim.ops.reduction.reduce"} <= set(MODULES)


def test_one_place_says_that_strings_are_code():
    told = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    assert [n for n, text in told.items() if "never feed those of strangers" in text] == [
        "language.md"
    ]
    promised = re.search(r"## What is promised\n(.*?)\n## ", told["language.md"], re.DOTALL)[1]
    for claim in (r"Strings are code", r"`preamble=` may\s+include files", r"no fence"):
        assert re.search(claim, promised), claim


# The README is read on PyPI as well, where only whole addresses lead somewhere.
OWN = re.compile(
    r"https://(?:raw\.githubusercontent|github)\.com/clprim/clprim/(?:(?:blob|tree)/)?main/"
)


@pytest.mark.parametrize("page", sorted([*PAGES, *ROOT.glob("C*.md")]), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        own = OWN.match(target)
        if own:
            assert (ROOT / target[own.end() :]).exists(), target
        elif page.name == "README.md" or target.startswith("https://"):
            assert target.startswith("https://"), target
        else:
            assert (page.parent / target).exists(), target


def test_the_readme_shows_what_was_recorded():
    from bench.table import insert, speed_table

    table = speed_table()
    assert len(table.splitlines()) == 2 + 7
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text == insert(text, table), "python -m bench pages"


def test_readme_has_two_set_up_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [line for line in text.split("\n") if "pip install" in line]
    demo, tests = commands
    assert demo.endswith("&& clprim demo")
    assert tests.endswith("&& python -m pytest")
    # CI runs both as they stand there, before it installs anything that they do not.
    run, _, rest = (ROOT / ".ci" / "run").read_text(encoding="utf-8").partition(".ci/optional")
    assert rest
    for line, end in ((demo, "clprim demo"), (tests, "python -m pytest")):
        (pattern,) = re.findall(rf"grep -E '(.*&& {end}\$)' README\.md", run)
        assert re.fullmatch(pattern, line)
    assert "pip install" not in run.replace("pip install -e .* &&", "")


def test_names_in_docs_exist():
    # The guide and the README speak of `ops.x` and `cp.x` that are there.
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"\bcp\.(\w+)\(", text):
            assert hasattr(clprim, name), f"{page.name}: cp.{name}"
        for name in re.findall(r"\bops\.(\w+)\(", text):
            assert hasattr(ops, name), f"{page.name}: ops.{name}"
