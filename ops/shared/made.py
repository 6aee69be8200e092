"""Functions that are made of a table: compiled, so that a call has no step more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def made(
    name: str, signature: str, value: str, module: str, doc: str, space: dict[str, Any]
) -> Callable[..., Any]:
    """Returns a function as if it were written in a module."""
    space = {**space, "__name__": module}
    exec(f"def {name}{signature}:\n    return {value}\n", space)
    function: Callable[..., Any] = space[name]
    function.__doc__ = doc
    return function
