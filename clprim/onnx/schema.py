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
    found: dict[str, Any] = {}
    for attribute in schema.attributes.values() if schema else ():
        if attribute.default_value.name:
            value = helper.get_attribute_value(attribute.default_value)
            if isinstance(value, (list, tuple)):
                value = [v.decode() if isinstance(v, bytes) else v for v in value]
            found[attribute.name] = value.decode() if isinstance(value, bytes) else value
    return found
