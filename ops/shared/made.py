"""Functions that are made of a table: compiled, so that a call has no step more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clprim.arrays.validation import in_own_name
from clprim.errors import ComplexError

_TEXT = """
def {name}{signature}:
    try:
        return {value}
    except ComplexError as error:
        raise own({name!r}, locals(), error) from None
"""


def made(
    name: str, signature: str, value: str, module: str, doc: str, space: dict[str, Any]
) -> Callable[..., Any]:
    """Returns a function as if it were written in a module."""
    space = {**space, "__name__": module, "ComplexError": ComplexError, "own": in_own_name}
    exec(_TEXT.format(name=name, signature=signature, value=value), space)
    function: Any = space[name]
    function.__doc__ = doc
    function.speaks_for_itself = True  # see `clprim.arrays.validation.checked`
    return function
