"""One step of a model, run: where its inputs go, and which of several ways computes it."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.call.packed import PackedWeight
from clprim.errors import ClprimError, DefinitionError
from clprim.onnx.model import Program, Step
from clprim.onnx.reference import body_of, check, computed
from clprim.onnx.table import Entry, entry, host_entry
from clprim.onnx.values import SMALL, Stored, downloaded, uploaded
from clprim.runtime import tracing

# Numbers that the host computes with: those of shapes, never those of images.
MOST_INTEGERS, MOST_FLOATS = 1 << 16, 1 << 10
# What NumPy and protocol buffers raise of values that do not fit, and numbers out of all bounds.
FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
          ValueError)  # fmt: skip


class Context:
    """What handlers ask about the model that runs."""

    def __init__(self) -> None:
        self.step: Step = None  # type: ignore[assignment]
        self.computed = False
        self.asked: set[int] = set()  # ids of device arrays that were wanted on the host
        self.scope: MutableMapping[str, Any] = {}
        self.weights: dict[int, PackedWeight] = {}  # constants on the device, by their memory
        self._kept: dict[int, Any] = {}
        self._uploads: dict[int, Any] = {}
        self._warned: set[str] = set()

    @property
    def version(self) -> int:
        """The version of the operator set."""
        return self.step.version

    def wanted(self, number: int) -> bool:
        """Whether the node has an output of that number."""
        return number < len(self.step.outputs) and bool(self.step.outputs[number])

    def device(self, value: Any) -> Any:
        """Returns a value on the device; one of the host is uploaded once."""
        if not isinstance(value, np.ndarray):
            return value
        if id(value) not in self._kept:
            return uploaded(value)
        known = self._uploads.get(id(value))
        if known is None:
            with tracing.switched_to(None):
                known = self._uploads[id(value)] = uploaded(value)
            codes = known.codes if isinstance(known, Stored) else known
            if codes.size:
                self.weights[id(codes.base_data)] = PackedWeight(codes)
        return known

    def uploaded(self, value: Any) -> Array | None:
        """Returns where a constant of the host is on the device; None where it is not."""
        known = self._uploads.get(id(value))
        return known.codes if isinstance(known, Stored) else known

    def stored(self, value: Any) -> Stored | None:
        """Returns a value of a dtype that is stored as codes, on the device; None of others."""
        if isinstance(value, np.ndarray) and value.dtype.name in SMALL:
            value = self.device(value)
        return value if isinstance(value, Stored) else None

    def keep(self, program: Program) -> None:
        """Says that a program's constants are uploaded once, and never change."""
        for step in program.all_steps():
            for value in step.attributes.values():
                if isinstance(value, Program):
                    self._kept.update((id(v), v) for v in value.constants.values())
        self._kept.update((id(v), v) for v in program.constants.values())

    def host(self, value: Any) -> Any:
        """Returns a value on the host. Inside a trace one of the device ends it."""
        if isinstance(value, (Array, Stored)):
            codes = value.codes if isinstance(value, Stored) else value
            if tracing.active.now is not None:
                self.asked.add(id(codes))
                tracing.end("the host asks for a value of the device")
            return downloaded(value)
        return [self.host(each) for each in value] if isinstance(value, list) else value

    def run(self, program: Program, inputs: Sequence[Any]) -> list[Any]:
        """Runs a graph that is an attribute; it sees the names around its node."""
        outer, step = self.scope, self.step
        given = dict(zip(program.inputs, inputs, strict=False))
        scope = ChainMap(given, program.constants, outer)
        try:
            run_steps(self, program.steps, scope)
            return [scope[name] for name in program.outputs]
        finally:
            self.scope, self.step = outer, step

    def warn(self, text: str) -> None:
        """Warns, once."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, stacklevel=2)


def run_steps(context: Context, steps: Sequence[Step], scope: ChainMap[str, Any]) -> None:
    """Runs steps in order; results go into the first of the maps."""
    for step in steps:
        inputs = [scope[name] if name else None for name in step.inputs]
        context.scope = scope
        results = run_step(context, step, inputs)
        scope.update((n, v) for n, v in zip(step.outputs, results, strict=False) if n)


def run_step(context: Context, step: Step, inputs: list[Any]) -> tuple[Any, ...]:
    """Runs one step and returns its results."""
    context.step = step
    outer, tracing.active.line = tracing.active.line, f"{step.name} {step.label}".replace("/", ".")
    try:
        found = _found(context, step, inputs)
    except (tracing.TraceEndedError, MemoryError):
        raise
    except ClprimError as error:
        if str(error).startswith("node "):
            raise
        raise type(error)(f"{step}: {error}") from error
    except FAULTS as error:
        raise DefinitionError(f"{step}: {type(error).__name__}: {error}") from error
    finally:
        tracing.active.line = outer
    results = found if isinstance(found, tuple) else (found,)
    known = entry(step.domain, step.name)
    empty = known is not None and known.makes is None
    made = [value is not None or empty for value in results]
    for number, name in enumerate(step.outputs):
        if name and not (number < len(made) and made[number]):
            raise DefinitionError(f"{step}: output {number} ({name!r}) is not made")
    return results


def on_the_host(value: Any) -> bool:
    """Whether a value is the host's, and small enough to be computed with there."""
    if value is None:
        return True
    if not isinstance(value, np.ndarray) or value.dtype.name in SMALL:
        return False
    return value.size <= (MOST_INTEGERS if value.dtype.kind in "iub" else MOST_FLOATS)


def host_way(step: Step, values: Sequence[Any]) -> Entry | None:
    """Returns what computes a step on the host, where its inputs are there and it knows all."""
    known = host_entry(step.domain, step.name)
    return known if known and all(map(on_the_host, values)) and not known.refused(step) else None


def _found(context: Context, step: Step, inputs: list[Any]) -> Any:
    told = step.attributes
    if "broadcast" in told and len(inputs) == 2:
        # Before opset 7: where the second one's dimensions begin.
        told = {n: v for n, v in told.items() if n not in ("broadcast", "axis")}
        inputs = [inputs[0], _spread(inputs[0], inputs[1], step.attributes.get("axis"))]
    on_host = host_way(step, inputs)
    if on_host is not None:
        return on_host.run(context, told, inputs, host=True)
    texts = any(isinstance(v, np.ndarray) and v.dtype.kind in "OUSTcM" for v in inputs)
    known = None if texts else entry(step.domain, step.name)
    if known is None:
        return elsewhere(context, step, inputs)
    dtype = next((v.dtype for v in map(context.stored, inputs) if v is not None), None)
    if dtype is None or not known.moves:
        return known.run(context, told, inputs)
    codes = [v if (s := context.stored(v)) is None else s.codes for v in inputs]
    found = known.run(context, told, codes)
    many = found if isinstance(found, tuple) else (found,)
    return tuple(Stored(each, dtype) for each in many)


def _spread(a: Any, b: Any, axis: int | None) -> Any:
    after = 0 if axis is None else a.ndim - axis % a.ndim - b.ndim
    return b.reshape((*b.shape, *[1] * after))


def elsewhere(context: Context, step: Step, inputs: list[Any]) -> Any:
    """ONNX's function body, else its reference on the host, with a warning."""
    program = body_of(step, inputs)
    if program is not None:
        check(program)
        outer = context.scope
        context.scope = {}
        try:
            given = [*inputs, *[None] * (len(program.inputs) - len(inputs))]
            return tuple(context.run(program, given))
        finally:
            context.scope = outer
    on_host = [context.host(v) for v in inputs]
    context.computed = True
    context.warn(f"ONNX's {step.name} runs on the host")
    return computed(step, on_host)
