"""Schemas of ONNX's operators: which attributes they have, and their defaults."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from onnx import defs, helper


@lru_cache(maxsize=4096)
def schema_of(domain: str, name: str, version: int) -> Any:
    """Returns the schema of an operator in a version of its set; None where there is none."""
    try:
        return defs.get_schema(name, version, domain)
    except defs.SchemaError:
        return None


@lru_cache(maxsize=4096)
def defaults_of(domain: str, name: str, version: int) -> dict[str, Any]:
    """Returns the defaults of an operator's attributes."""
    schema = schema_of(domain, name, version)
    told = [a.default_value for a in schema.attributes.values()] if schema else []
    return {d.name: text_of(helper.get_attribute_value(d)) for d in told if d.name}


def text_of(value: Any) -> Any:
    """Returns an attribute's value with texts, and lists, in place of protocol buffers' own."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    several = hasattr(value, "__len__") and not isinstance(value, str)
    return list(map(text_of, value)) if several else value
