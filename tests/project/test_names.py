"""Plans, templates, golden files and tests of a kernel are found by its strategy's name."""

import re
from pathlib import Path

import pytest
from rendered import main_of

from clprim.plan.families import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
TESTS = {
    file: file.read_text(encoding="utf-8")
    for folder in ("plan", "ops")
    for file in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
}
STRATEGIES = {
    strategy.name: (strategy, example)
    for family in FAMILIES
    for _, strategy, example in reversed([*family.examples()])
}


def room(name):
    """The folder of a strategy's templates, and its name there."""
    strategy, example = STRATEGIES[name]
    plan = strategy.planned(example.problem, example.traits, example.tile)
    template = main_of(strategy, plan).template
    last = name.rpartition("/")[2]
    folder = template.rpartition("/")[0]
    # A strategy of several kernels has a folder of its own.
    return (folder.rpartition("/")[0], last) if folder.endswith(f"/{last}") else (folder, last)


def named(folder, last, ending):
    """The files ``last*`` and those of the folder ``last`` that have an ending."""
    return [*folder.glob(f"{last}{ending}"), *folder.glob(f"{last}[-_]*{ending}")] or [
        *(folder / last).glob(f"*{ending}")
    ]


def plans(folder, last, name):
    """Its files of plans, or those of its folder that say its whole name."""
    room = ROOT / "clprim" / "plan" / folder
    said = (f for f in room.glob("*.py") if f'"{name}"' in f.read_text(encoding="utf-8"))
    return named(room, last, ".py") or [*said]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_found_by_its_name(name):
    folder, last = room(name)
    if not name.endswith("/passes"):  # which other families' kernels make
        assert plans(folder, last, name), "no plan"
        assert named(ROOT / "templates" / folder, last, ".cl.jinja"), "no template"
        assert named(ROOT / "tests" / "golden" / folder, last, ".cl"), "no golden file"
    said = re.compile(f"[\"']{re.escape(name)}[\"']")
    assert any(said.search(text) for text in TESTS.values()), f"no test says {name!r}"


def test_templates_and_plans_have_the_same_folders():
    templates = {
        file.parent.relative_to(ROOT / "templates")
        for file in (ROOT / "templates").rglob("*.cl.jinja")
        if not file.name.startswith("_")
    }
    for folder in templates - {Path("measure")}:  # which runs no user's strings
        assert (ROOT / "clprim" / "plan" / folder / "__init__.py").is_file()
        assert list((ROOT / "tests" / "golden" / folder).glob("*.cl"))
