"""What ONNX says of operators: function bodies, values by NumPy; and what nothing computes."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from onnx import helper

from clprim.arrays.array import Array
from clprim.errors import DefinitionError
from clprim.onnx.model import Program, Step, program_of_function
from clprim.onnx.schema import schema_of
from clprim.onnx.table import entry, host_entry
from clprim.onnx.values import Stored

_bodies: OrderedDict[Any, tuple[Program | None, Step]] = OrderedDict()
_MOST_BODIES = 512
# Nodes that a refusal lists.
_MOST_LISTED = 20


def body_of(step: Step, inputs: list[Any]) -> Program | None:
    """Returns the function body of an operator for values, None where it has none."""
    schema = schema_of(step.domain, step.name, step.version)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    key = id(step), tuple(map(_kind, inputs))
    known = _bodies.get(key)
    if known is None or known[1] is not step:
        known = _bodies[key] = _body(schema, step, inputs), step
        if len(_bodies) > _MOST_BODIES:
            _bodies.popitem(last=False)
    return known[0]


def _kind(value: Any) -> Any:
    if isinstance(value, list):
        return "list", *map(_kind, value[:1])
    return None if value is None else (str(value.dtype), value.ndim)


def _type_of(value: Any) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, list):
        inner = _type_of(value[0]) if value else helper.make_tensor_type_proto(1, None)
        return helper.make_sequence_type_proto(inner)
    element = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_type_proto(element, value.shape)


def _body(schema: Any, step: Step, inputs: list[Any]) -> Program | None:
    typed = schema.has_context_dependent_function
    kind = "context_dependent_function" if typed else "function"
    versions = list(getattr(schema, f"{kind}_opset_versions"))
    version = ([v for v in versions if v <= step.version] or versions[:1])[-1]
    given: tuple[Any, ...] = ()
    if typed:
        types = [_type_of(v).SerializeToString() for v in inputs]
        given = step.proto.SerializeToString(), types
    found = getattr(schema, f"get_{kind}_with_opset_version")(version, *given)
    if not found:
        return None
    function = onnx.FunctionProto.FromString(found) if isinstance(found, bytes) else found
    return program_of_function(function, step)


@lru_cache(maxsize=256)
def has_reference(domain: str, name: str, version: int) -> bool:
    """Whether ONNX's reference computes an operator."""
    folder = {"": "onnx.reference.ops", "ai.onnx.ml": "onnx.reference.ops.aionnxml"}.get(domain)
    if folder is None or schema_of(domain, name, version) is None:
        return False
    known = vars(import_module(f"{folder}._op_list"))
    return any(n == name or n.rpartition("_")[0] == name for n in known)


def computed(step: Step, inputs: list[Any]) -> tuple[Any, ...]:
    """Returns the results of a step by ONNX's reference implementation."""
    from onnx.reference import ReferenceEvaluator  # whose import takes longer than small models do

    assert not any(isinstance(v, (Array, Stored)) for v in inputs)
    proto = onnx.NodeProto()
    proto.CopyFrom(step.proto)
    names = [f"x{n}" if v is not None else "" for n, v in enumerate(inputs)]
    del proto.input[:]
    proto.input.extend(names)
    outputs = [f"y{n}" if name else "" for n, name in enumerate(step.outputs)]
    del proto.output[:]
    proto.output.extend(outputs)
    opsets = {step.domain: step.version}
    try:
        run = ReferenceEvaluator(proto, opsets=opsets)
        given = {n: v for n, v in zip(names, inputs, strict=True) if n}
        found = iter(run.run([n for n in outputs if n], given))
    except Exception as error:
        raise DefinitionError(f"refused on the host: {type(error).__name__}: {error}") from error
    return tuple(_array(next(found)) if name else None for name in outputs)


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [_array(v) for v in value]
    found = np.asarray(value)
    return found.astype(object) if found.dtype.kind in "US" else found


# --- what cannot run, found before anything does --------------------------------------------------


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
    lines = found[:_MOST_LISTED]
    if len(found) > _MOST_LISTED:
        lines.append(f"  and {len(found) - _MOST_LISTED} more")
    raise DefinitionError("\n".join(["onnx: nothing computes these nodes:", *lines]))
