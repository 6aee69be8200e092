"""A model as a list of steps: functions are inlined, what does nothing is dropped.

Names are those of the model, but for what functions define: these begin with the number of the
call. A graph that is an attribute (of If, Loop, Scan) is a program of its own, which reads the
names around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from clprim.errors import DefinitionError
from clprim.onnx.schema import defaults_of, schema_of
from clprim.onnx.source import tensor_of

# Calls of functions within each other, and graphs within graphs.
_DEEPEST = 64
_OWN = ("", "ai.onnx")
_ATTRIBUTE = onnx.AttributeProto


@dataclass(frozen=True, eq=False)
class Step:
    """An operator, applied.

    Attributes:
        name: Of the operator.
        domain: Of its set; ONNX's own is empty.
        version: Of the set.
        attributes: Values by name, defaults included; tensors are arrays, graphs `Program`.
        inputs: Names of values; empty where an optional one is left out.
        outputs: Likewise.
        label: What messages call the node.
        proto: The node, for ONNX's own implementations; attributes are resolved.
    """

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
    """A graph.

    Attributes:
        steps: In an order that computes them.
        inputs: Names of what is given.
        outputs: Names of the results, as the steps call them.
        constants: What is known, by name.
    """

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


def program_of(model: onnx.ModelProto, folder: Path | None) -> Program:
    """Returns a model's graph.

    Raises:
        DefinitionError: A name that nothing defines, a cycle, functions that call themselves, a
            tensor that is broken, an operator set that is not imported.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    reader = _Reader(_versions(model.opset_import), functions, folder)
    return reader.graph(model.graph, {}, 0)


def program_of_function(function: onnx.FunctionProto, step: Step) -> Program:
    """Returns the body of an operator as a program, with the attributes of a node."""
    versions = _versions(function.opset_import) or {"": step.version}
    versions.setdefault(step.domain, step.version)
    versions.setdefault("", onnx.defs.onnx_opset_version())
    reader = _Reader(versions, {}, None)
    given = {a.name: a for a in step.proto.attribute}
    schema = schema_of(step.domain, step.name, step.version)
    for attribute in schema.attributes.values() if schema else ():
        if attribute.default_value.name and attribute.name not in given:
            given[attribute.name] = attribute.default_value
    scope = {name: name for name in function.input}
    steps: list[Step] = []
    constants: dict[str, Any] = {}
    reader.nodes(function.node, scope, given, "", steps, constants, 0)
    # A body may leave outputs undefined that the node does not ask for.
    asked = function.output[: len(step.outputs)]
    outputs = tuple(scope.get(name, "") for name in asked)
    constants.setdefault("", None)
    return Program(tuple(steps), tuple(function.input), outputs, constants)


def _versions(imports: Any) -> dict[str, int]:
    return {("" if o.domain in _OWN else o.domain): o.version for o in imports}


class _Reader:
    """Reads graphs of one model."""

    def __init__(
        self,
        versions: dict[str, int],
        functions: Mapping[tuple[str, str, str], onnx.FunctionProto],
        folder: Path | None,
    ) -> None:
        self.versions, self.functions, self.folder = versions, functions, folder
        self.calls = 0
        self.open: list[tuple[str, str, str]] = []

    def graph(
        self, graph: onnx.GraphProto, outer: Mapping[str, str], depth: int, prefix: str = "",
        bound: Mapping[str, Any] | None = None,
    ) -> Program:  # fmt: skip
        """Returns a graph that sees the names of the scopes around it."""
        if depth > _DEEPEST:
            raise DefinitionError("onnx: graphs within graphs are too deep")
        scope = dict(outer)
        constants: dict[str, Any] = {}
        for tensor in graph.initializer:
            scope[tensor.name] = name = prefix + tensor.name
            constants[name] = tensor_of(tensor, self.folder)
        for sparse in graph.sparse_initializer:
            scope[sparse.values.name] = name = prefix + sparse.values.name
            constants[name] = self.dense(sparse)
        inputs = []
        for info in graph.input:
            if info.name not in scope or prefix + info.name not in constants:
                scope[info.name] = prefix + info.name
                inputs.append(prefix + info.name)
        if len(set(inputs)) != len(inputs):
            raise DefinitionError("onnx: two inputs of a graph have one name")
        steps: list[Step] = []
        self.nodes(graph.node, scope, bound or {}, prefix, steps, constants, depth)
        missing = [o.name for o in graph.output if o.name not in scope]
        if missing:
            raise DefinitionError(f"onnx: nothing makes the output {missing[0]!r}")
        outputs = tuple(scope[o.name] for o in graph.output)
        return Program(tuple(steps), tuple(inputs), outputs, constants)

    def dense(self, sparse: onnx.SparseTensorProto) -> np.ndarray[Any, Any]:
        """Returns a sparse tensor as an array."""
        values, places = (
            tensor_of(sparse.values, self.folder),
            tensor_of(sparse.indices, self.folder),
        )
        shape = tuple(sparse.dims)
        if np.prod(shape, dtype=float) > 1 << 31:
            raise DefinitionError(f"onnx: a sparse tensor of shape {shape} is too large")
        found = np.zeros(shape, values.dtype)
        try:
            found[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, shape)] = values
        except (ValueError, IndexError) as error:
            raise DefinitionError(f"onnx: a sparse tensor: {error}") from error
        return found

    def nodes(
        self,
        nodes: Sequence[onnx.NodeProto],
        scope: dict[str, str],
        bound: Mapping[str, Any],
        prefix: str,
        steps: list[Step],
        constants: dict[str, Any],
        depth: int,
    ) -> None:
        """Adds the steps of nodes; ``scope`` learns the names that they define.

        Args:
            nodes: In order.
            scope: By name in the graph, the name of the value.
            bound: Attributes of the function around the nodes.
            prefix: Of names that are defined.
            steps: Where they go.
            constants: Likewise.
            depth: Of calls and graphs around.
        """
        own: set[str] = set()
        for number, node in enumerate(nodes):
            label = repr(node.name or f"#{number}")
            for name in node.input:
                if name and name not in scope:
                    later = any(name in n.output for n in nodes[number:])
                    what = "nodes are in a cycle, or out of order" if later else "nothing makes it"
                    raise DefinitionError(
                        f"onnx: node {label} ({node.op_type}) reads {name!r}: {what}"
                    )
            again = [name for name in node.output if name and name in own]
            if again:
                raise DefinitionError(f"onnx: two nodes make {again[0]!r}")
            own.update(node.output)
            self.node(node, label, scope, bound, prefix, steps, constants, depth)

    def node(
        self,
        node: onnx.NodeProto,
        label: str,
        scope: dict[str, str],
        bound: Mapping[str, Any],
        prefix: str,
        steps: list[Step],
        constants: dict[str, Any],
        depth: int,
    ) -> None:
        """Adds what one node is; see `nodes`."""
        domain = "" if node.domain in _OWN else node.domain
        function = self.functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            self.call(function, node, scope, bound, steps, constants, depth)
            return
        if domain not in self.versions:
            if domain in ("com.microsoft",):
                self.versions[domain] = 1
            else:
                raise DefinitionError(
                    f"onnx: node {label} ({node.op_type}): operator set {domain!r} is not imported"
                )
        version = self.versions[domain]
        proto = _resolved(node, bound)
        inputs = tuple(scope[name] if name else "" for name in node.input)
        if _does_nothing(node, domain, version, inputs, constants):
            scope[node.output[0]] = inputs[0]
            return
        given = {a.name: self.attribute(a, scope, depth, prefix, bound) for a in proto.attribute}
        for name in node.output:
            if name:
                scope[name] = prefix + name
        outputs = tuple(prefix + name if name else "" for name in node.output)
        if node.op_type == "Constant" and not domain and len(outputs) == 1:
            constants[outputs[0]] = _constant(given, label)
            return
        _check(node, domain, version, label, given)
        attributes = {**defaults_of(domain, node.op_type, version), **given}
        steps.append(Step(node.op_type, domain, version, attributes, inputs, outputs, label, proto))

    def call(
        self,
        function: onnx.FunctionProto,
        node: onnx.NodeProto,
        scope: dict[str, str],
        bound: Mapping[str, Any],
        steps: list[Step],
        constants: dict[str, Any],
        depth: int,
    ) -> None:
        """Adds the body of a function in place of its call."""
        key = function.domain, function.name, function.overload
        if key in self.open or depth > _DEEPEST:
            raise DefinitionError(f"onnx: the function {function.name!r} calls itself")
        if len(node.input) > len(function.input):
            raise DefinitionError(f"onnx: {len(node.input)} inputs for {function.name!r}")
        self.calls += 1
        prefix = f"{self.calls}/"
        inner = dict.fromkeys(function.input, "")
        for name, given in zip(function.input, node.input, strict=False):
            inner[name] = scope[given] if given else ""
        attributes = {a.name: a for a in function.attribute_proto}
        attributes.update({a.name: a for a in _resolved(node, bound).attribute})
        versions, self.versions = self.versions, _versions(function.opset_import) or self.versions
        self.open.append(key)
        try:
            self.nodes(function.node, inner, attributes, prefix, steps, constants, depth + 1)
        finally:
            self.versions = versions
            self.open.pop()
        if len(steps) + len(constants) > 1 << 20:
            raise DefinitionError("onnx: functions call functions, a million nodes and more")
        for made, name in zip(function.output, node.output, strict=False):
            if name:
                if made not in inner:
                    raise DefinitionError(f"onnx: {function.name!r} does not make {made!r}")
                scope[name] = inner[made]

    def attribute(
        self, attribute: onnx.AttributeProto, scope: Mapping[str, str], depth: int, prefix: str,
        bound: Mapping[str, Any],
    ) -> Any:  # fmt: skip
        """Returns the value of an attribute."""
        kind = attribute.type
        if kind == _ATTRIBUTE.TENSOR:
            return tensor_of(attribute.t, self.folder)
        if kind == _ATTRIBUTE.TENSORS:
            return [tensor_of(t, self.folder) for t in attribute.tensors]
        if kind == _ATTRIBUTE.SPARSE_TENSOR:
            return self.dense(attribute.sparse_tensor)
        if kind == _ATTRIBUTE.GRAPH:
            inner = f"{prefix}{attribute.name}{depth}/" if prefix else ""
            return self.graph(attribute.g, scope, depth + 1, inner, bound)
        try:
            value = helper.get_attribute_value(attribute)
        except ValueError as error:
            raise DefinitionError(f"onnx: attribute {attribute.name!r}: {error}") from error
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if kind == _ATTRIBUTE.STRINGS:
            return [v.decode("utf-8", "replace") for v in value]
        return list(value) if kind in (_ATTRIBUTE.INTS, _ATTRIBUTE.FLOATS) else value


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
    dtype = {
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_string": object,
        "value_strings": object,
    }
    return np.array(value, dtype[kind]) if kind in dtype else value


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
        if known is None and domain == "" and a.name not in ("consumed_inputs",):
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
