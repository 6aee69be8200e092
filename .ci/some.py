"""A plugin of pytest's: of the tests that are left it runs one of so many as `CI_EVERY` says.

For runtimes on which every test takes long and that see what others have seen as well.
"""

import os

import pytest

EVERY = int(os.environ["CI_EVERY"])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the others; neighbours differ in a parameter alone, so all functions have some."""
    config.hook.pytest_deselected(items=[i for n, i in enumerate(items) if n % EVERY])
    items[:] = items[::EVERY]
