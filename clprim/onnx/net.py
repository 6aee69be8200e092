"""`load`: a model that is called as a function."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pyopencl.array as cl_array
from onnx import helper, numpy_helper

from clprim.arrays.array import Array
from clprim.errors import ClprimError, DefinitionError, DTypeError, ShapeError, quoted
from clprim.graph.graph import Graph
from clprim.onnx.context import FAULTS, Context, host_way, on_the_host, run_step
from clprim.onnx.model import Program, Step, program_of
from clprim.onnx.plan import Plan, Segment
from clprim.onnx.reference import check
from clprim.onnx.source import Source, proto_of
from clprim.onnx.values import Stored, downloaded, uploaded
from clprim.options import options
from clprim.runtime.device import current_device
from clprim.runtime.profile import profile
from clprim.text_table import format_table

Kind = tuple[str, tuple[Any, ...] | None]


class NodeTime(NamedTuple):
    """A node's part of a run."""

    node: str
    seconds: float
    kernels: int


def load(source: Any) -> Net:
    """Reads an ONNX model.

    Args:
        source: A path, a file's bytes, or an ``onnx.ModelProto``. External data have to lie in the
            folder of the path.

    Returns:
        What is called with the model's inputs.

    Raises:
        DefinitionError: No model, a broken one, or one with operators that nothing computes: all
            of them are named.

    Example:
        >>> import numpy as np, clprim.onnx
        >>> from onnx import parser
        >>> net = clprim.onnx.load(parser.parse_model('''
        ...     <ir_version: 8, opset_import: ["" : 17]>
        ...     g (float[n] x) => (float[n] y) { y = Relu(x) }'''))
        >>> net.inputs
        {'x': ('float32', ('n',))}
        >>> net(np.float32([-1, 2]))
        array([0., 2.], dtype=float32)
    """
    model, found = proto_of(source)
    try:
        program = _folded(program_of(model, found))
        check(program)
        return Net(model, program, found)
    except ClprimError:
        raise
    except (*FAULTS, MemoryError) as error:
        raise DefinitionError(f"onnx: the model is broken: {error}") from error


class Net:
    """A model; see `load`. Several threads may call one.

    Attributes:
        inputs: By name: dtype and shape; sizes that are free have their name, or None.
        outputs: Likewise.
        options: What `cp.options` takes, for calls of this model: ``net.options["launches"] =
            "one"``.
    """

    def __init__(self, model: onnx.ModelProto, program: Program, source: Source) -> None:
        self.what = model.graph.name or "model"
        self._program, self._context, self._model = program, Context(), model
        self._context.keep(program)
        given = {i.name: i for i in model.graph.input}
        self.inputs = {n: _kind(given[n]) for n in program.inputs}
        self.outputs = {o.name: _kind(o) for o in model.graph.output}
        self._optional = {n for n in program.inputs if given[n].type.HasField("optional_type")}
        self._plan = Plan(self.what, program, self._context, source)
        self._host: set[str] = set()
        self.options: dict[str, Any] = {}
        # Of the host's time alone: kernels of several threads follow each other on the queue.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<clprim.onnx {self.what}: {len(self._program.steps)} steps>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Runs the model.

        Args:
            args: The inputs in order, or one dict of them by name.
            named: Inputs by name.

        Returns:
            The output, or a dict of several by name: arrays of the device where an input was one,
            else NumPy's.

        Raises:
            ShapeError: Inputs that are missing, or of another shape.
            DTypeError: Another dtype, or something that is no array.
            ClprimError: What an operator refuses, with its node.
        """
        given = self._bound(args, named)
        on_device = any(isinstance(v, cl_array.Array) for v in given.values())
        found, _ = self._run(given)
        found = [_on_device(v) if on_device else downloaded(v) for v in found]
        return found[0] if len(found) == 1 else dict(zip(self.outputs, found, strict=True))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Returns the outputs for inputs in order, as arrays of the host."""
        found, _ = self._run(self._bound(inputs, {}))
        return [downloaded(v) for v in found]

    def _run(self, given: dict[str, Any]) -> tuple[list[Any], list[Segment]]:
        device = current_device()
        with self._lock, options(**self.options) if self.options else nullcontext():
            scope = {n: self._placed(n, v) for n, v in given.items()}
            self._context.asked.clear()
            found = self._plan(device, scope)
            # An input that the host wanted to see is a part of the signature from now on.
            self._host |= {
                n for n, v in scope.items()
                if isinstance(v, Array) and id(v) in self._context.asked and v.size <= 64
            }  # fmt: skip
            return found

    def _placed(self, name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._placed(name, each) for each in value]
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OUSTMc":
            return value
        counts = value.dtype.kind in "iub" and value.size == 1
        if (counts or name in self._host) and on_the_host(value):
            return value
        return uploaded(value)

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the inputs of a call by name: each is one that the model takes."""
        if len(args) == 1 and isinstance(args[0], Mapping):
            named, args = {**args[0], **named}, ()
        if len(args) > len(self.inputs):
            raise ShapeError(f"{self.what}: {len(args)} inputs given, expected {list(self.inputs)}")
        given = dict(zip(self.inputs, args, strict=False))
        for name, value in named.items():
            if name not in self.inputs or name in given:
                problem = "is given twice" if name in given else "is none of its inputs"
                raise ShapeError(f"{self.what}: {name!r} {problem}: {list(self.inputs)}")
            given[name] = value
        missing = [n for n in self.inputs if given.get(n) is None and n not in self._optional]
        if missing:
            raise ShapeError(f"{self.what}: the inputs {missing} are missing")
        return {n: self._checked(n, *kind, given.get(n)) for n, kind in self.inputs.items()}

    def _checked(self, name: str, kind: str, shape: tuple[Any, ...] | None, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list) and not kind:
            return [self._checked(name, "", None, v) for v in value]
        if not isinstance(value, cl_array.Array):
            try:
                value = np.asarray(value)
            except (TypeError, ValueError) as error:
                raise DTypeError(f"{self.what}: {name}={quoted(value)} is no array") from error
            value = value.astype(object) if value.dtype.kind in "US" else value
        if kind and kind != str(value.dtype):
            raise DTypeError(f"{self.what}: {name} is {value.dtype}, expected {kind}")
        if shape is not None and not _fits(value.shape, shape):
            raise ShapeError(f"{self.what}: {name} has shape {value.shape}, expected {shape}")
        return value

    def explain(self, *args: Any, **named: Any) -> str:
        """Returns the steps; with inputs, also the kernels that run them and their memory."""
        rows = [
            [n, s.name, s.label, ", ".join(s.inputs), ", ".join(s.outputs)]
            for n, s in enumerate(self._program.steps)
        ]
        text = format_table(["", "operator", "node", "reads", "makes"], rows, align="rllll")
        if not args and not named:
            return text
        from clprim.graph.explain import explained

        self._plan.traced_anew()
        _, ran = self._run(self._bound(args, named))
        return "\n\n".join([text, *(explained(s.compiled) for s in ran if s.compiled)])

    def graph(self, *args: Any, **named: Any) -> Graph:
        """Returns the graph that runs the model for inputs of these shapes, and can be saved.

        It takes the inputs as device arrays, in order, but for those that the host computes with,
        whose values stay in it: single integers, and what was taken for a shape.

        Raises:
            DefinitionError: There is not one graph: a value decides what is computed, or no kernel
                is launched.
        """
        self._plan.traced_anew()
        outputs, ran = self._run(self._bound(args, named))
        found = ran[0].compiled.replay.graph if len(ran) == 1 and ran[0].compiled else None
        whole = all(isinstance(v, Array) for v in outputs)
        if found is None or not whole or len(found.outputs) != len(outputs):
            raise DefinitionError(
                f"{self.what}: {len(ran)} graphs run it, and what the host computes between or "
                "behind them; one is needed"
            )
        places = ran[0].form
        ordered = tuple(found.outputs[places[n].number] for n in self._program.outputs)
        return replace(found, outputs=ordered)

    def times(self, *args: Any, **named: Any) -> list[NodeTime]:
        """Runs the model and returns where the device's time went, by node, the longest first.

        Kernels of nodes that became one are the last one's, and what the device computes where the
        plan is cut is left out.
        """
        given = self._bound(args, named)
        _, ran = self._run(given)
        with ExitStack() as stack:
            for segment in ran:
                if segment.compiled:
                    stack.enter_context(segment.compiled.replay.apart())
            found = stack.enter_context(profile())
            self._run(given)
        steps = [s for segment in ran if segment.compiled for s in segment.compiled.replay.steps]
        events, seconds = iter(found.events), dict[str, list[float]]()
        for step in steps:
            name = step.launch.plan.code.name
            event = next((e for e in events if e.name == name), None)
            if event is not None:
                seconds.setdefault(step.node.line, []).append(event.seconds)
        rows = [NodeTime(line, sum(each), len(each)) for line, each in seconds.items()]
        return sorted(rows, key=lambda row: -row.seconds)

    def profile(self, *args: Any, **named: Any) -> Any:
        """Runs the model and returns its profile: ``print(p.table())`` has a row a kernel."""
        given = self._bound(args, named)
        self._run(given)
        with profile() as found:
            self._run(given)
        return found

    def save(self, path: Any) -> None:
        """Writes the model to one file, its weights included.

        Raises:
            DefinitionError: A file that cannot be written, or a model of 2 GiB and more.
        """
        whole = onnx.ModelProto()
        whole.CopyFrom(self._model)
        for tensor in whole.graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                found = self._program.constants[tensor.name]
                tensor.CopyFrom(numpy_helper.from_array(found, tensor.name))
        try:
            Path(path).write_bytes(whole.SerializeToString())
        except (OSError, ValueError) as error:
            raise DefinitionError(f"{self.what}: {path}: {error}") from error


def _on_device(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OUS":
        return uploaded(value)
    return value.codes if isinstance(value, Stored) else value


def _kind(info: onnx.ValueInfoProto) -> Kind:
    kind = info.type
    if kind.HasField("optional_type"):
        kind = kind.optional_type.elem_type
    if not kind.HasField("tensor_type"):
        return "", None
    tensor = kind.tensor_type
    try:
        dtype = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    except KeyError:
        dtype = ""
    if not tensor.HasField("shape"):
        return dtype, None
    sizes = [  # some exporters write -1 where a size is free
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or None
        for d in tensor.shape.dim
    ]
    return dtype, tuple(sizes)


def _fits(shape: tuple[int, ...], wanted: tuple[Any, ...]) -> bool:
    if len(shape) != len(wanted):
        return False
    for n, w in zip(shape, wanted, strict=True):  # noqa: SIM110 - the hot path
        if isinstance(w, int) and n != w:
            return False
    return True


def _folded(program: Program) -> Program:
    """Runs steps of the host whose inputs are constants."""
    constants, left = dict(program.constants), list[Step]()
    context = Context()
    for step in program.steps:
        known = all(not n or n in constants for n in step.inputs)
        values = [constants[n] if n else None for n in step.inputs] if known else []
        if known and host_way(step, values):
            try:
                results = run_step(context, step, values)
            except ClprimError:
                results = None  # what is wrong with it shows where it runs
            if results is not None:
                constants.update(zip((n for n in step.outputs), results, strict=False))
                continue
        left.append(step)
    return Program(tuple(left), program.inputs, program.outputs, constants)
