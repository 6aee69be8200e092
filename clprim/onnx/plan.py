"""A model's steps compiled: traced once for a signature, cut where the host has to know a value.

A segment is as many steps as one trace can note. Where a step asks for a value of the device (the
number of what NonZero found, a condition), the trace ends before it: the segment's kernels run, the
step runs as it is, and what follows is a segment of its own, one for every signature of the values
that reach it.
"""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.graph.graph import Graph
from clprim.graph.jit import Compiled
from clprim.graph.results import Results
from clprim.graph.trace import Trace, traced
from clprim.onnx.context import Context, run_step
from clprim.onnx.model import Program, Step
from clprim.onnx.values import Stored
from clprim.runtime import tracing
from clprim.runtime.device import Device

# Signatures that are remembered where a segment begins; the oldest goes first.
MOST_SIGNATURES = 64

Scope = dict[str, Any]


class Segment(Compiled):
    """What runs some steps for one signature.

    Attributes:
        names: Of the values that are arrays of the device, in the order of the graph's outputs.
    """

    def __init__(
        self, device: Device, graph: Graph, results: Results, names: tuple[str, ...]
    ) -> None:
        super().__init__(device, graph, results)
        self.names = names


class Packer:
    """Takes the device's arrays out of values, and puts others in their places.

    Args:
        scope: Values by name.

    Attributes:
        arrays: In order.
        key: What tells the rest apart: names, shapes, dtypes, strides, values of the host.
        names: Of values that are arrays.
    """

    def __init__(self, scope: Scope) -> None:
        self.arrays: list[Array] = []
        self._form: Any = None
        key: list[Hashable] = []
        self._form = {name: self._read(value, key) for name, value in scope.items()}
        self.key: Hashable = (tuple(scope), tuple(key))
        self.names = [name for name, value in scope.items() if isinstance(value, Array)]

    def _read(self, value: Any, key: list[Hashable]) -> Any:
        if isinstance(value, Array):
            key.append((value.shape, value.strides, value.dtype, value.offset))
            same = [n for n, a in enumerate(self.arrays) if a.base_data is value.base_data]
            key.append(same[0] if same else -1)
            self.arrays.append(value)
            return len(self.arrays) - 1
        if isinstance(value, Stored):
            key.append(value.dtype)
            return Stored(self._read(value.codes, key), value.dtype)
        if isinstance(value, list):
            key.append(len(value))
            return [self._read(each, key) for each in value]
        if isinstance(value, np.ndarray):
            data = tuple(value.flat) if value.dtype.kind == "O" else value.tobytes()
            key.append((value.dtype.str, value.shape, data))
        return _Kept(value)

    def scope(self, arrays: Sequence[Any]) -> Scope:
        """Returns the values with other arrays."""
        return {name: _filled(form, arrays) for name, form in self._form.items()}


class _Kept:
    """A value that is no array of the device."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _filled(form: Any, arrays: Sequence[Any]) -> Any:
    if isinstance(form, _Kept):
        return form.value
    if isinstance(form, Stored):
        return Stored(_filled(form.codes, arrays), form.dtype)
    if isinstance(form, list):
        return [_filled(each, arrays) for each in form]
    return arrays[form]


class Plan:
    """What runs a program.

    Args:
        what: The model's name.
        program: Its steps.
        context: What the steps are run with.
    """

    def __init__(self, what: str, program: Program, context: Context) -> None:
        self.what, self.program, self.context = what, program, context
        self._known: OrderedDict[Hashable, _Steps] = OrderedDict()
        self._needed = _needed(program)

    def __call__(self, device: Device, scope: Scope) -> tuple[list[Any], list[Segment]]:
        """Runs the program.

        Args:
            device: Where.
            scope: Its inputs by name; arrays of the host are a part of the signature.

        Returns:
            The outputs, and what ran.
        """
        at, ran, steps = 0, list[Segment](), self.program.steps
        while True:
            given = Packer(scope)
            key = device.index, at, given.key
            segment = self._known.get(key)
            if segment is None:
                segment = _Steps(self, device, at, given)
                self._known[key] = segment
                if len(self._known) > MOST_SIGNATURES * 4:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            scope = segment(given.arrays)
            ran += segment.compiled
            at = segment.end
            if at == len(steps):
                whole = ChainMap(scope, self.program.constants)
                return [whole[name] for name in self.program.outputs], ran
            run_eagerly(self.context, self.program, steps[at : at + 1], scope)
            at += 1
            scope = {n: v for n, v in scope.items() if n in self._needed[at]}

    def needed(self, at: int) -> set[str]:
        """Names that are read by steps from a number on, or are outputs."""
        return self._needed[at]


def run_eagerly(context: Context, program: Program, steps: Sequence[Step], scope: Scope) -> None:
    """Runs steps over values; the results go into the scope."""
    constants = program.constants
    for step in steps:
        whole = ChainMap(scope, constants)
        context.scope = whole
        inputs = [whole[name] if name else None for name in step.inputs]
        results = run_step(context, step, inputs)
        scope.update((n, v) for n, v in zip(step.outputs, results, strict=False) if n)


class _Steps:
    """Steps that one trace notes.

    Args:
        plan: The program's.
        device: Where.
        start: The first step's number.
        given: What reaches them.

    Attributes:
        end: The number of the step behind the last.
        compiled: What runs them: nothing where none launches a kernel.
    """

    def __init__(self, plan: Plan, device: Device, start: int, given: Packer) -> None:
        self._plan, self._given = plan, given
        context, steps = plan.context, plan.program.steps
        found: dict[str, Any] = {}
        self.end = start

        def call() -> None:
            scope = given.scope(given.arrays)
            found.update(scope)
            for number in range(start, len(steps)):
                run_eagerly(context, plan.program, steps[number : number + 1], found)
                self.end = number + 1

        def until_cut() -> None:
            try:
                call()
            except tracing.TraceEndedError:
                if self.end == len(steps):
                    raise

        trace, graph, _ = traced(plan.what, until_cut, given.arrays)
        kept = {n: v for n, v in found.items() if n in plan.needed(self.end)}
        self._results = Packer(kept)
        self.compiled = self._compiled(device, trace, graph)

    def _compiled(self, device: Device, trace: Trace, graph: Graph) -> list[Segment]:
        given = self._given.arrays
        results = Results(self._plan.what, list(self._results.arrays), given)
        if not results.arrays:
            self._only = results
            return []
        weights = self._plan.context.weights
        for buffer in {b for node in graph.nodes for b in node.buffers()}:
            if buffer.kind == "constant" and buffer.weight is None:
                buffer.weight = weights.get(id(buffer.memory))
        outputs = tuple(map(trace.operand, results.arrays))
        whole = Graph(graph.what, graph.inputs, graph.nodes, outputs)
        return [Segment(device, whole, results, tuple(self._results.names))]

    def __call__(self, arrays: Sequence[Any]) -> Scope:
        """Runs the steps and returns the values that are still needed."""
        if self.compiled:
            return self._results.scope(self.compiled[0](arrays))
        return self._results.scope(self._only(lambda number: None, arrays))


def _needed(program: Program) -> list[set[str]]:
    """By step: names that it or a later one reads, and the outputs."""
    now = set(program.outputs)
    found = [set(now)]
    for step in reversed(program.steps):
        now |= _reads(step)
        found.append(set(now))
    return found[::-1]


def _reads(step: Step) -> set[str]:
    names = set(step.inputs)
    for value in step.attributes.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Program):
                names |= set(each.outputs)
                for inner in each.steps:
                    names |= _reads(inner)
    return names - {""}
