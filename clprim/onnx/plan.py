"""A model's steps compiled: traced once for a signature, cut where the host has to know a value.

A segment is as many steps as one trace can note. Where a step asks for a value of the device (the
number of what NonZero found, a condition), the trace ends before it: the segment's kernels run, the
step runs as it is, and what follows is a segment of its own, one for every signature of the values
that reach it.
"""

from __future__ import annotations

import hashlib
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array
from clprim.call.packed import PackedWeight
from clprim.graph import check, frozen
from clprim.graph.compiled import Compiled
from clprim.graph.graph import Buffer
from clprim.graph.passes import optimised
from clprim.graph.replay import Replay
from clprim.graph.trace import traced
from clprim.onnx.context import Context, run_steps
from clprim.onnx.model import Program, Step
from clprim.onnx.source import Source
from clprim.onnx.values import Stored
from clprim.options import current_options
from clprim.runtime import disk_cache, tracing
from clprim.runtime.device import Device
from clprim.runtime.query import identity
from clprim.runtime.source_cache import version_of_sources
from clprim.runtime.tables import table_of

# Signatures that are remembered where a segment begins; the oldest goes first.
MOST_SIGNATURES = 64

# On disk: that what is kept depends on the elements of all weights.
_WHOLE = b"whole"

Scope = dict[str, Any]


class Place(NamedTuple):
    """Stands for an array of the device: of what was given, or of what is made."""

    number: int
    given: bool


class Form:
    """Values by name, with places for the device's arrays."""

    def __init__(self, scope: Scope, given: Sequence[Any] = ()) -> None:
        self.arrays: list[Array] = []
        self._given = {id(array): n for n, array in enumerate(given)}
        key: list[Hashable] = []
        self.places = {name: self._read(value, key) for name, value in scope.items()}
        self.key: Hashable = (tuple(scope), tuple(key))

    def _read(self, value: Any, key: list[Hashable]) -> Any:
        if isinstance(value, Array):
            if id(value) in self._given:
                return Place(self._given[id(value)], True)
            key.append((value.shape, value.strides, value.dtype, value.offset))
            same = [n for n, a in enumerate(self.arrays) if a.base_data is value.base_data]
            key.append(same[0] if same else -1)
            self.arrays.append(value)
            return Place(len(self.arrays) - 1, False)
        if isinstance(value, Stored):
            key.append(value.dtype)
            return Stored(self._read(value.codes, key), value.dtype)
        if isinstance(value, list):
            key.append(len(value))
            return [self._read(each, key) for each in value]
        if isinstance(value, np.ndarray):
            data = tuple(value.flat) if value.dtype.kind == "O" else value.tobytes()
            key.append((value.dtype.str, value.shape, data))
        return value

    def __call__(self, make: Callable[[int], Any], given: Sequence[Any] = ()) -> Scope:
        """Returns the values with other arrays in the places."""
        return {name: _filled(value, make, given) for name, value in self.places.items()}


def _filled(value: Any, make: Callable[[int], Any], given: Sequence[Any]) -> Any:
    if isinstance(value, Place):
        return given[value.number] if value.given else make(value.number)
    if isinstance(value, Stored):
        return Stored(_filled(value.codes, make, given), value.dtype)
    return [_filled(v, make, given) for v in value] if isinstance(value, list) else value


class Plan:
    """What runs a program."""

    def __init__(self, what: str, program: Program, context: Context, source: Source) -> None:
        self.what, self.program, self.context, self.source = what, program, context, source
        self.kept = bool(source.digest) and not check.is_on()
        self._known: OrderedDict[Hashable, Segment] = OrderedDict()
        self._needed = _needed(program)

    def __call__(self, device: Device, scope: Scope) -> tuple[list[Any], list[Segment]]:
        """Runs the program."""
        at, ran, steps = 0, list[Segment](), self.program.steps
        while True:
            given = Form(scope)
            key = device.index, at, given.key
            segment = self._known.get(key)
            if segment is None:
                segment = Segment(self, device, at, given)
                self._known[key] = segment
                if len(self._known) > MOST_SIGNATURES * 4:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            scope = segment(given.arrays)
            ran += [segment] if segment.compiled else []
            at = segment.end
            if at == len(steps):
                whole = ChainMap(scope, self.program.constants)
                return [whole[name] for name in self.program.outputs], ran
            run_steps(self.context, steps[at : at + 1], ChainMap(scope, self.program.constants))
            at += 1
            scope = {n: v for n, v in scope.items() if n in self._needed[at]}

    def names_of_weights(self) -> dict[int, str]:
        """By the memory of constants that are on the device: their names."""
        found = {}
        for name, value in self.program.constants.items():
            known = self.context.uploaded(value)
            if known is not None:
                found[id(known.base_data)] = name
        return found

    def weight(self, name: str) -> PackedWeight:
        """Returns a constant on the device, which is uploaded once."""
        value = self.context.device(self.program.constants[name])
        codes = value.codes if isinstance(value, Stored) else value
        return self.context.weights[id(codes.base_data)]

    def traced_anew(self) -> None:
        """Forgets what came from disk, which says nothing of what it computes, from now on."""
        self.kept = False
        for key in [k for k, steps in self._known.items() if steps.thawed]:
            del self._known[key]

    def needed(self, at: int) -> set[str]:
        """Names that are read by steps from a number on, or are outputs."""
        return self._needed[at]


class Segment:
    """Steps that one trace notes, for one signature."""

    results: Form
    compiled: Compiled | None = None

    def __init__(self, plan: Plan, device: Device, start: int, given: Form) -> None:
        self._plan, self._device, self._given = plan, device, given
        self.end, self.thawed = start, False
        kept = start == 0 and plan.kept and disk_cache.default_cache() is not None
        if kept and self._thaw():
            return
        self._trace(start)
        if kept and self.compiled and self.end == len(plan.program.steps):
            self._freeze(self.compiled)

    def _trace(self, start: int) -> None:
        plan, given, found = self._plan, self._given, dict[str, Any]()
        steps, whole = plan.program.steps, ChainMap(found, plan.program.constants)

        def until_cut() -> None:
            found.update(given(given.arrays.__getitem__))
            try:
                for number in range(start, len(steps)):
                    run_steps(plan.context, steps[number : number + 1], whole)
                    self.end = number + 1
            except tracing.TraceEndedError:
                if self.end == len(steps):
                    raise

        trace, graph, _ = traced(plan.what, until_cut, given.arrays)
        needed = {n: v for n, v in found.items() if n in plan.needed(self.end)}
        self.results = Form(needed, given.arrays)
        if not self.results.arrays:
            return
        weights = plan.context.weights
        for buffer in {b for node in graph.nodes for b in node.buffers()}:
            if buffer.kind == "constant" and buffer.weight is None:
                buffer.weight = weights.get(id(buffer.memory))
        outputs = tuple(map(trace.operand, self.results.arrays))
        graph = replace(graph, outputs=outputs)
        replay = Replay(self._device, optimised(graph, self._device))
        self.compiled = Compiled(graph, replay, self.results)

    def __call__(self, arrays: Sequence[Any]) -> Scope:
        """Runs the steps and returns the values that are still needed."""
        if self.compiled is None:
            return self.results(lambda number: None, arrays)
        found: Scope = self.compiled(arrays)
        return found

    # --- on disk ---------------------------------------------------------------------------------

    def _key(self, digest: str) -> str:
        """What all that is planned depends on."""
        device = self._device
        told = (digest, self._given.key, identity(device.cl), device.traits, current_options(),
                table_of(device).choices, version_of_sources())  # fmt: skip
        return hashlib.sha256(f"onnx:{told!r}".encode()).hexdigest()

    def _freeze(self, compiled: Compiled) -> None:
        """Keeps what was planned; where something was computed of weights, with all of theirs."""
        names, source = self._plan.names_of_weights(), self._plan.source
        graph = compiled.replay.graph
        before = {b for n in compiled.traced.nodes for b in n.buffers()}
        now = {b for n in graph.nodes for b in n.buffers() if b.kind == "constant"}

        def name_of(buffer: Buffer) -> str | None:
            return names.get(id(buffer.memory))

        data = frozen.freeze(self._device, graph, name_of, self.results.places)
        if data is None:
            return
        key = self._key(source.digest)
        if self._plan.context.computed or any(name_of(b) is None for b in now - before):
            disk_cache.store(key, _WHOLE)
            key = self._key(source.whole)
        disk_cache.store(key, data)

    def _thaw(self) -> bool:
        plan, device = self._plan, self._device
        data = disk_cache.load(self._key(plan.source.digest))
        if data == _WHOLE:
            data = disk_cache.load(self._key(plan.source.whole))
        if data is None:
            return False
        try:
            graph, places = frozen.thaw(device, data, plan.weight)
        except Exception:  # whatever a pickle of another make does
            return False
        self.results = Form({})
        self.results.places = places
        self.compiled = Compiled(graph, Replay(device, graph), self.results)
        self.end, self.thawed = len(plan.program.steps), True
        return True


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
