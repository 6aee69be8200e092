"""Python functions as snippets: called once with values that write down what is done to them.

A function of one element, such as ``lambda x, a: x / (1 + cp.exp(-a * x))``, becomes the string
that a user would write: ``y0 = x0 / (1 + exp(-w0 * x0));``. What is used several times becomes a
local. Loops and branches of Python run while it is read; a branch on a value has no answer then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from clprim.errors import DefinitionError
from clprim.language.traced_text import LONGEST, in_order, text_of
from clprim.language.traced_value import Value, as_value

_BITWISE = frozenset("& ^ | << >>".split())


@dataclass(frozen=True)
class Traced:
    """What a function came to."""

    text: str
    logical: tuple[bool, ...]
    of_floats: str


Given = ParamSpec("Given")
Result = TypeVar("Result")


def _not_too_deep(written: Callable[Given, Result]) -> Callable[Given, Result]:
    """Makes Python's limit of nested calls an error that says where it comes from."""

    @functools.wraps(written)
    def checked(*args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return written(*args, **named)
        except RecursionError:
            raise DefinitionError(
                f"{args[0]}: it calls itself without end, or its terms are nested too deeply"
            ) from None

    return checked


@_not_too_deep
def trace(what: str, function: Callable[..., Any], names: Sequence[str]) -> list[Value]:
    """Returns what a function makes of elements of these names."""
    try:
        found = function(*(Value("name", name) for name in names))
    except DefinitionError as error:
        raise DefinitionError(f"{what}: {error}") from None
    results = list(found) if isinstance(found, tuple | list) else [found]
    try:
        return [as_value(result) for result in results]
    except DefinitionError as error:
        raise DefinitionError(f"{what} returned {type(found).__name__}: {error}") from None


@_not_too_deep
def write(
    what: str, targets: Sequence[str], values: Sequence[Value], local_type: str | None = None
) -> Traced:
    """Writes statements that assign values."""
    uses: dict[int, int] = {}
    order: list[Value] = []
    for value in values:
        in_order(value, uses, order)
    lines: list[str] = []
    names: dict[int, str] = {}
    for value in order:
        shared = uses[id(value)] > 1 and value.kind in ("binary", "call", "choice")
        if shared and value.word not in _BITWISE and (local_type or value.logical):
            text = text_of(value, names)
            names[id(value)] = f"t{len(names)}"
            lines.append(f"{'bool' if value.logical else local_type} t{len(names) - 1} = {text};")
        if len(lines) > LONGEST // 40:
            raise DefinitionError(f"{what}: its string is too long: write it in several functions")
    budget = [LONGEST]
    lines += [f"{t} = {text_of(v, names, budget)};" for t, v in zip(targets, values, strict=True)]
    if budget[0] < 0:
        raise DefinitionError(f"{what}: its string is too long: write it in several functions")
    of_floats = next((v.of_floats for v in order if v.of_floats), "")
    between = "\n" if len(lines) > len(targets) or len("".join(lines)) > 80 else " "
    return Traced(between.join(lines), tuple(v.logical for v in values), of_floats)


def reads(value: Value, names: set[str]) -> bool:
    """Whether a value is made of one of some names."""
    order: list[Value] = []
    in_order(value, {}, order)
    return any(part.kind == "name" and part.word in names for part in order)
