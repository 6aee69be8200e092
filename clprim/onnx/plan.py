"""A model's steps compiled: traced once for a signature, cut where the host has to know a value.

A segment is as many steps as one trace can note. Where a step asks for a value of the device (the
number of what NonZero found, a condition), the trace ends before it: the segment's kernels run, the
step runs as it is, and what follows is a segment of its own, one for every signature of the values
that reach it.
"""

from __future__ import annotations

import hashlib
from collections import ChainMap
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from clprim.call.packed import PackedWeight
from clprim.graph import check, frozen
from clprim.graph.compiled import Compiled, Signatures
from clprim.graph.graph import Buffer
from clprim.graph.signature import Arguments, described, filled
from clprim.graph.trace import traced
from clprim.onnx.context import Context, run_steps
from clprim.onnx.model import Program, Step
from clprim.onnx.source import Source
from clprim.onnx.values import Stored
from clprim.runtime import disk_cache, tracing
from clprim.runtime.device import Device
from clprim.runtime.query import identity
from clprim.runtime.source_cache import version_of_sources
from clprim.runtime.tables import table_of

# On disk: that what is kept depends on the elements of all weights.
_WHOLE = b"whole"
# Signatures that are remembered, of all segments together.
_MOST = 256

Scope = dict[str, Any]


class Plan:
    """What runs a program."""

    def __init__(self, what: str, program: Program, context: Context, source: Source) -> None:
        self.what, self.program, self.context, self.source = what, program, context, source
        self.kept = bool(source.digest) and not check.is_on()
        self._known: Signatures[Segment] = Signatures(_MOST)
        self._needed = _needed(program)

    def __call__(self, device: Device, scope: Scope) -> tuple[list[Any], list[Segment]]:
        """Runs the program."""
        at, ran, steps = 0, list[Segment](), self.program.steps
        constants = self.program.constants
        while True:
            given = described(self.what, device, (at,), scope, host=True)
            if given is None:  # memory overlaps in part
                run_steps(self.context, steps[at:], ChainMap(scope, constants))
                at = len(steps)
            else:
                segment = self._known.get(given.key)
                if segment is None:
                    made = Segment(self, device, at, scope, given)
                    segment = self._known.keep(given.key, made)
                scope, at = segment(given.arrays), segment.end
                ran += [segment] if segment.compiled else []
            if at == len(steps):
                whole = ChainMap(scope, constants)
                return [whole[name] for name in self.program.outputs], ran
            run_steps(self.context, steps[at : at + 1], ChainMap(scope, constants))
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
        if self.kept:
            self._known.clear()
        self.kept = False

    def needed(self, at: int) -> set[str]:
        """Names that are read by steps from a number on, or are outputs."""
        return self._needed[at]


class Segment:
    """Steps that one trace notes, for one signature."""

    compiled: Compiled | None = None

    def __init__(
        self, plan: Plan, device: Device, start: int, scope: Scope, given: Arguments
    ) -> None:
        self._plan, self._device, self._signature = plan, device, given.key[1:]
        self.end, self.form = start, Scope()
        kept = start == 0 and plan.kept and disk_cache.default_cache() is not None
        if kept and self._thaw():
            return
        self._trace(start, scope, given.arrays)
        if kept and self.compiled and self.end == len(plan.program.steps):
            self._freeze(self.compiled)

    def _trace(self, start: int, scope: Scope, arrays: Sequence[Any]) -> None:
        plan = self._plan
        steps, found = plan.program.steps, {**scope}
        whole = ChainMap(found, plan.program.constants)

        def until_cut() -> Scope:
            try:
                for number in range(start, len(steps)):
                    run_steps(plan.context, steps[number : number + 1], whole)
                    self.end = number + 1
            except tracing.TraceEndedError:
                if self.end == len(steps):
                    raise
            needed = plan.needed(self.end)
            return {n: v for n, v in found.items() if n in needed}

        _, graph, self.form = traced(plan.what, until_cut, arrays, leaves=object)
        if not graph.outputs:
            return
        weights = plan.context.weights
        for buffer in {b for node in graph.nodes for b in node.touched}:
            if buffer.kind == "constant" and buffer.weight is None:
                buffer.weight = weights.get(id(buffer.memory))
        self.compiled = Compiled(self._device, graph, self.form)

    def __call__(self, arrays: Sequence[Any]) -> Scope:
        """Runs the steps and returns the values that are still needed."""
        run = self.compiled
        found: Scope = filled(self.form, (), arrays) if run is None else run(arrays)
        return found

    # --- on disk ---------------------------------------------------------------------------------

    @cached_property
    def _told(self) -> str:
        """What all that is planned depends on, but for the model."""
        device = self._device
        return repr((self._signature, identity(device.cl), device.traits, table_of(device).choices,
                     version_of_sources()))  # fmt: skip

    def _key(self, digest: str) -> str:
        return hashlib.sha256(f"onnx:{digest}:{self._told}".encode()).hexdigest()

    def _freeze(self, compiled: Compiled) -> None:
        """Keeps what was planned; where something was computed of weights, with all of theirs."""
        names, source = self._plan.names_of_weights(), self._plan.source
        graph = compiled.replay.graph
        before = {b for n in compiled.traced.nodes for b in n.touched}
        now = {b for n in graph.nodes for b in n.touched if b.kind == "constant"}

        def name_of(buffer: Buffer) -> str | None:
            return names.get(id(buffer.memory))

        data = frozen.freeze(self._device, graph, name_of, self.form)
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
            graph, self.form = frozen.thaw(device, data, plan.weight)
        except Exception:  # whatever a pickle of another make does
            return False
        self.compiled = Compiled(device, graph, self.form, passes=False)
        self.end = len(plan.program.steps)
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
