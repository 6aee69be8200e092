"""A model as a list of steps: functions are inlined, what does nothing is dropped.

Names are those of the model, but for what functions define: these begin with the number of the
call. A graph that is an attribute (of If, Loop, Scan) is a program of its own, which reads the
names around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from clprim.errors import DefinitionError
from clprim.onnx.schema import defaults_of, schema_of, text_of
from clprim.onnx.source import Source, tensor_of

# Calls of functions within each other, and graphs within graphs.
_DEEPEST = 64
_OWN = ("", "ai.onnx")
_ATTRIBUTE = onnx.AttributeProto
# Of constants that are no tensors, by the attribute, of one or several.
_DTYPES = {"value_int": np.int64, "value_float": np.float32, "value_string": object}


@dataclass(frozen=True, eq=False)
class Step:
    """An operator, applied."""

    name: str
    domain: str
    version: int
    attributes: dict[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str
    proto: onnx.NodeProto = field(repr=False)

    def __str__(self) -> str:
        of = f"{self.domain}." if self.domain else ""
        return f"node {self.label} ({of}{self.name}, opset {self.version})"


@dataclass(frozen=True, eq=False)
class Program:
    """A graph."""

    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Any]

    def all_steps(self) -> list[Step]:
        """The steps and those of graphs within them."""
        found: list[Step] = []
        for step in self.steps:
            found.append(step)
            for value in step.attributes.values():
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, Program):
                        found += each.all_steps()
        return found


def program_of(model: onnx.ModelProto, source: Source) -> Program:
    """Returns a model's graph."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    reader = _Reader(_versions(model.opset_import), functions, source)
    return reader.graph(model.graph, _Scope({}))


def program_of_function(function: onnx.FunctionProto, step: Step) -> Program:
    """Returns the body of an operator as a program, with the attributes of a node."""
    versions = _versions(function.opset_import) or {"": step.version}
    versions = {step.domain: step.version, "": onnx.defs.onnx_opset_version(), **versions}
    schema = schema_of(step.domain, step.name, step.version)
    defaults = [a.default_value for a in schema.attributes.values()] if schema else []
    bound = {a.name: a for a in (*(d for d in defaults if d.name), *step.proto.attribute)}
    scope = _Scope({name: name for name in function.input}, bound)
    _Reader(versions, {}, Source()).nodes(function.node, scope)
    # A body may leave outputs undefined that the node does not ask for.
    outputs = tuple(scope.names.get(name, "") for name in function.output[: len(step.outputs)])
    return Program(
        tuple(scope.steps), tuple(function.input), outputs, {"": None, **scope.constants}
    )


def _versions(imports: Any) -> dict[str, int]:
    return {("" if o.domain in _OWN else o.domain): o.version for o in imports}


@dataclass
class _Scope:
    """Where nodes are read."""

    names: dict[str, str]
    bound: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ""
    depth: int = 0
    steps: list[Step] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)


class _Reader:
    """Reads graphs of one model."""

    def __init__(
        self,
        versions: dict[str, int],
        functions: Mapping[tuple[str, str, str], onnx.FunctionProto],
        source: Source,
    ) -> None:
        self.versions, self.functions, self.source = versions, functions, source
        self.calls = 0
        self.open: list[tuple[str, str, str]] = []

    def graph(self, graph: onnx.GraphProto, scope: _Scope) -> Program:
        """Returns a graph that sees the names of the scopes around it."""
        if scope.depth > _DEEPEST:
            raise DefinitionError("onnx: graphs within graphs are too deep")
        names, prefix, constants, inputs = scope.names, scope.prefix, scope.constants, []
        for tensor in graph.initializer:
            names[tensor.name] = name = prefix + tensor.name
            constants[name] = tensor_of(tensor, self.source)
        for sparse in graph.sparse_initializer:
            names[sparse.values.name] = name = prefix + sparse.values.name
            constants[name] = self.dense(sparse)
        for info in graph.input:
            if prefix + info.name not in constants:
                names[info.name] = prefix + info.name
                inputs.append(prefix + info.name)
        if len(set(inputs)) != len(inputs):
            raise DefinitionError("onnx: two inputs of a graph have one name")
        self.nodes(graph.node, scope)
        missing = [o.name for o in graph.output if o.name not in names]
        if missing:
            raise DefinitionError(f"onnx: nothing makes the output {missing[0]!r}")
        outputs = tuple(names[o.name] for o in graph.output)
        return Program(tuple(scope.steps), tuple(inputs), outputs, constants)

    def dense(self, sparse: onnx.SparseTensorProto) -> np.ndarray[Any, Any]:
        """Returns a sparse tensor as an array."""
        values, places = (tensor_of(t, self.source) for t in (sparse.values, sparse.indices))
        shape = tuple(sparse.dims)
        if np.prod(shape, dtype=float) > 1 << 31:
            raise DefinitionError(f"onnx: a sparse tensor of shape {shape} is too large")
        found = np.zeros(shape, values.dtype)
        try:
            found[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, shape)] = values
        except (ValueError, IndexError) as error:
            raise DefinitionError(f"onnx: a sparse tensor: {error}") from error
        return found

    def nodes(self, nodes: Sequence[onnx.NodeProto], scope: _Scope) -> None:
        """Adds the steps of nodes to a scope, which learns the names that they define."""
        own: set[str] = set()
        for number, node in enumerate(nodes):
            label = repr(node.name or f"#{number}")
            for name in node.input:
                if name and name not in scope.names:
                    later = any(name in n.output for n in nodes[number:])
                    what = "nodes are in a cycle, or out of order" if later else "nothing makes it"
                    raise DefinitionError(
                        f"onnx: node {label} ({node.op_type}) reads {name!r}: {what}"
                    )
            again = [name for name in node.output if name and name in own]
            if again:
                raise DefinitionError(f"onnx: two nodes make {again[0]!r}")
            own.update(node.output)
            function = self.functions.get((node.domain, node.op_type, node.overload))
            if function is None:
                self.node(node, label, scope)
            else:
                self.call(function, node, scope)

    def node(self, node: onnx.NodeProto, label: str, scope: _Scope) -> None:
        """Adds what one node is."""
        domain = "" if node.domain in _OWN else node.domain
        if domain not in self.versions and domain != "com.microsoft":
            raise DefinitionError(
                f"onnx: node {label} ({node.op_type}): operator set {domain!r} is not imported"
            )
        version, names = self.versions.setdefault(domain, 1), scope.names
        proto = _resolved(node, scope.bound)
        inputs = tuple(names[name] if name else "" for name in node.input)
        if _does_nothing(node, domain, version, inputs, scope.constants):
            names[node.output[0]] = inputs[0]
            return
        given = {a.name: self.attribute(a, scope) for a in proto.attribute}
        names.update((name, scope.prefix + name) for name in node.output if name)
        outputs = tuple(scope.prefix + name if name else "" for name in node.output)
        if node.op_type == "Constant" and not domain and len(outputs) == 1:
            scope.constants[outputs[0]] = _constant(given, label)
            return
        _check(node, domain, version, label, given)
        told = {**defaults_of(domain, node.op_type, version), **given}
        step = Step(node.op_type, domain, version, told, inputs, outputs, label, proto)
        scope.steps.append(step)

    def call(self, function: onnx.FunctionProto, node: onnx.NodeProto, scope: _Scope) -> None:
        """Adds the body of a function in place of its call."""
        key = function.domain, function.name, function.overload
        if key in self.open or scope.depth > _DEEPEST:
            raise DefinitionError(f"onnx: the function {function.name!r} calls itself")
        for what in ("input", "output"):
            count = len(getattr(node, what))
            if count > len(getattr(function, what)):
                raise DefinitionError(f"onnx: {count} {what}s for {function.name!r}")
        taken = {*function.attribute, *(a.name for a in function.attribute_proto)}
        unknown = [a.name for a in node.attribute if a.name not in taken]
        if unknown:
            raise DefinitionError(f"onnx: {function.name!r} has no attribute {unknown[0]!r}")
        self.calls += 1
        inner = dict.fromkeys(function.input, "")
        for name, given in zip(function.input, node.input, strict=False):
            inner[name] = scope.names[given] if given else ""
        told = *function.attribute_proto, *_resolved(node, scope.bound).attribute
        rest = scope.depth + 1, scope.steps, scope.constants
        body = _Scope(inner, {a.name: a for a in told}, f"{self.calls}/", *rest)
        versions, self.versions = self.versions, _versions(function.opset_import) or self.versions
        self.open.append(key)
        try:
            self.nodes(function.node, body)
        finally:
            self.versions = versions
            self.open.pop()
        if len(scope.steps) + len(scope.constants) > 1 << 20:
            raise DefinitionError("onnx: functions call functions, a million nodes and more")
        for made, name in zip(function.output, node.output, strict=False):
            if name:
                if made not in inner:
                    raise DefinitionError(f"onnx: {function.name!r} does not make {made!r}")
                scope.names[name] = inner[made]

    def attribute(self, attribute: onnx.AttributeProto, scope: _Scope) -> Any:
        """Returns the value of an attribute."""
        kind = attribute.type
        if kind == _ATTRIBUTE.TENSOR:
            return tensor_of(attribute.t, self.source)
        if kind == _ATTRIBUTE.TENSORS:
            return [tensor_of(t, self.source) for t in attribute.tensors]
        if kind == _ATTRIBUTE.SPARSE_TENSOR:
            return self.dense(attribute.sparse_tensor)
        if kind == _ATTRIBUTE.GRAPH:
            prefix = f"{scope.prefix}{attribute.name}{scope.depth}/" if scope.prefix else ""
            inner = _Scope(dict(scope.names), scope.bound, prefix, scope.depth + 1)
            return self.graph(attribute.g, inner)
        try:
            value = helper.get_attribute_value(attribute)
        except ValueError as error:
            raise DefinitionError(f"onnx: attribute {attribute.name!r}: {error}") from error
        return text_of(value)


def _resolved(node: onnx.NodeProto, bound: Mapping[str, Any]) -> onnx.NodeProto:
    """Returns a node whose attributes are values, where they named a function's."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    found = onnx.NodeProto()
    found.CopyFrom(node)
    del found.attribute[:]
    for a in node.attribute:
        if not a.ref_attr_name:
            found.attribute.append(a)
        elif a.ref_attr_name in bound:
            value = found.attribute.add()
            value.CopyFrom(bound[a.ref_attr_name])
            value.name = a.name
    return found


def _does_nothing(
    node: onnx.NodeProto, domain: str, version: int, inputs: Sequence[str], constants: Any
) -> bool:
    """Whether a node passes its first input on."""
    if domain or not inputs or not inputs[0] or not node.output or not node.output[0]:
        return False
    if node.op_type == "Identity":
        return True
    if node.op_type != "Dropout" or any(node.output[1:]):
        return False
    training = inputs[2] if len(inputs) > 2 else ""
    if version < 7:
        return any(a.name == "is_test" and a.i for a in node.attribute)
    if not training:
        return True
    known = constants.get(training)
    return known is not None and not bool(np.any(known))


def _constant(given: Mapping[str, Any], label: str) -> Any:
    if len(given) != 1:
        raise DefinitionError(f"onnx: node {label} (Constant): expected one value")
    ((kind, value),) = given.items()
    dtype = _DTYPES.get(kind.removesuffix("s"))
    return value if dtype is None else np.array(value, dtype)


def _check(
    node: onnx.NodeProto, domain: str, version: int, label: str, given: Mapping[str, Any]
) -> None:
    """Refuses what the operator's schema does not allow."""
    schema = schema_of(domain, node.op_type, version)
    if schema is None:
        return
    what = f"onnx: node {label} ({node.op_type}, opset {version})"
    if not schema.min_input <= len(node.input) <= schema.max_input:
        raise DefinitionError(f"{what}: {len(node.input)} inputs")
    if not schema.min_output <= len(node.output) <= schema.max_output:
        raise DefinitionError(f"{what}: {len(node.output)} outputs")
    for a in node.attribute:
        known = schema.attributes.get(a.name)
        if known is None and a.name != "consumed_inputs":
            raise DefinitionError(f"{what}: it has no attribute {a.name!r}")
        if known is not None and int(known.type) != a.type and not a.ref_attr_name:
            raise DefinitionError(f"{what}: attribute {a.name!r} is of another type")
    for name, known in schema.attributes.items():
        if known.required and name not in given:
            raise DefinitionError(f"{what}: the attribute {name!r} is missing")
    option = onnx.defs.OpSchema.FormalParameterOption
    for formal, name in zip(schema.inputs, node.input, strict=False):
        if not name and formal.option == option.Single:
            raise DefinitionError(f"{what}: the input {formal.name!r} is left out")
