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
    """Refuses a model with operators that nothing computes, or that ask for what is not known."""
    found = []
    for step in program.all_steps():
        known = entry(step.domain, step.name)
        what = known.refused(step) if known is not None else ""
        if what or not way(step.domain, step.name, step.version):
            found.append(f"  {step}" + (f": {what}" if what else ""))
    if not found:
        return
    lines = found[:_MOST]
    if len(found) > _MOST:
        lines.append(f"  and {len(found) - _MOST} more")
    raise DefinitionError("\n".join(["onnx: nothing computes these nodes:", *lines]))
