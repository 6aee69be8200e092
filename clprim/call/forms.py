"""Forms: what a primitive can be made again from, as data that files hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from clprim.dtypes import as_dtype
from clprim.errors import DefinitionError, quoted


class Form(NamedTuple):
    """What makes a primitive again."""

    kind: str
    told: dict[str, Any]


#: What makes primitives again, by their kinds.
makers: dict[str, Callable[..., Any]] = {}
_classes: dict[str, type] = {}


def register_form(kind: str, make: Callable[..., Any], *options: type) -> None:
    """Registers what makes primitives of a kind, and the classes of their options."""
    makers[kind] = make
    for each in options:
        _classes[_name(each)] = each


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def made(form: Form) -> Any:
    """Returns the primitive of a form."""
    make = makers.get(form.kind)
    if make is None:
        raise DefinitionError(f"no primitive is called {quoted(form.kind)}")
    try:
        return make(**form.told)
    except (TypeError, AttributeError, KeyError) as error:
        raise DefinitionError(f"{form.kind}: {error}") from error


def encoded(value: Any) -> Any:
    """Returns options or numbers as JSON has them."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return float(value) if type(value) is not bool and isinstance(value, np.floating) else value
    if isinstance(value, np.generic):
        return {"number": value.item(), "dtype": str(value.dtype)}
    if isinstance(value, np.dtype):
        return {"dtype": str(value)}
    name = _name(type(value))
    if name in _classes:
        told: dict[str, Any] = _fields(value) if is_dataclass(value) else value._asdict()
        return {"class": name, "told": {k: encoded(v) for k, v in told.items()}}
    if isinstance(value, (tuple, list)):
        return [encoded(each) for each in value]
    raise DefinitionError(f"{quoted(value)} of {type(value).__name__} is nothing that a file holds")


def _fields(value: Any) -> dict[str, Any]:
    assert is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


def decoded(value: Any) -> Any:
    """Returns what was encoded; sequences are tuples."""
    if isinstance(value, list):
        return tuple(map(decoded, value))
    if not isinstance(value, dict):
        return value
    try:
        if "class" in value:
            made_of = {k: decoded(v) for k, v in value["told"].items()}
            return _classes[value["class"]](**made_of)
        dtype = as_dtype(value["dtype"])
        return dtype.type(value["number"]) if "number" in value else dtype
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise DefinitionError(f"{quoted(value)}: no options: {error}") from error
