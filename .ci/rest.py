"""A plugin of pytest's: what passed before, by the file that `CI_PASSED` names, is not run again.

So the suite runs once in an environment that holds what the README installs, and its rest where
optional packages are there. `ANEW` is what goes another way then without being skipped before:
peers are raced, models and pages are asked for.
"""

import os
from pathlib import Path

import pytest

ANEW = (
    *("tests/bench/test_pages.py::test_page", "tests/bench/test_subpixel", "tests/examples"),
    *("tests/command/test_cli.py::test_demo", "tests/project/test_portability"),
)
PATH = Path(os.environ["CI_PASSED"])
before = set(PATH.read_text(encoding="utf-8").split("\n")) if PATH.exists() else set()
passed: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what passed before."""
    known = {item for item in items if item.nodeid in before and not item.nodeid.startswith(ANEW)}
    if known:
        config.hook.pytest_deselected(items=[*known])
        items[:] = [item for item in items if item not in known]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes what has passed."""
    if report.when == "call" and report.passed:
        passed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes what has passed, in the process that has heard of all of it."""
    if not hasattr(session.config, "workerinput"):
        PATH.write_text("\n".join([*before, *passed]), encoding="utf-8")
