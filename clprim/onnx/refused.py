"""What cannot run, found before anything does: all of it at once."""

from __future__ import annotations

from clprim.errors import DefinitionError
from clprim.onnx.model import Program
from clprim.onnx.reference import has_reference
from clprim.onnx.schema import schema_of
from clprim.onnx.table import entry, host_entry

_MOST = 20


def way(domain: str, name: str, version: int) -> str:
    """Returns how an operator is computed: ``kernel``, ``body``, ``host`` or, of none, nothing."""
    if entry(domain, name) is not None:
        return "kernel"
    schema = schema_of(domain, name, version)
    if schema is not None and (schema.has_function or schema.has_context_dependent_function):
        return "body"
    if host_entry(domain, name) is not None or has_reference(domain, name, version):
        return "host"
    return ""


def check(program: Program) -> None:
    """Refuses a model some of whose operators nothing computes.

    Raises:
        DefinitionError: Which, by operator, operator set and node.
    """
    found = [s for s in program.all_steps() if not way(s.domain, s.name, s.version)]
    if not found:
        return
    lines = [f"  {step}" for step in found[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"  and {len(found) - _MOST} more")
    raise DefinitionError("\n".join(["onnx: nothing computes these nodes:", *lines]))
