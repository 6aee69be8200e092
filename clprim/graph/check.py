"""``CLPRIM_CHECK=passes``: each pass's graph does what the one before it did, or is refused.

Both run node by node on the same random inputs, each temporary in memory of its own. Behind each
node of the new graph what it made is compared with what the old one made there, and replaced by
that, so that a difference is the node's own and does not grow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clprim.arrays.array import array_over
from clprim.errors import ClprimError, DefinitionError, quoted
from clprim.graph.graph import Buffer, Graph, Node, buffer_of, layout_of, same_place
from clprim.graph.replay import Replay
from clprim.graph.steps import enqueue, steps_of
from clprim.graph.store import copied
from clprim.graph.text import call_text
from clprim.plan.strides import Operand
from clprim.primitives.fourier import Fourier
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime import randomness
from clprim.runtime.device import Device

_SPECIAL = (float("nan"), 0.0, -0.0, float("inf"), -float("inf"), 1e-40, -3e-42, 1.0)
#: Of contractions that another strategy adds up in another order, in units of the last place of
#: the largest result.
SUMS = {"float16": 8.0, "bfloat16": 8.0, "float32": 256.0, "float64": 256.0}
#: Where but the sign of a zero may differ.
ZEROS = dict.fromkeys(SUMS, 2.0**-60)
Units = Mapping[str, float]

_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


class PassError(ClprimError):
    """A pass made a graph that does something else."""


def is_on() -> bool:
    """Whether passes are checked."""
    text = os.environ.get("CLPRIM_CHECK", "")
    if text not in ("", "passes"):
        raise DefinitionError(f"CLPRIM_CHECK={quoted(text)}: expected 'passes' or nothing")
    return text == "passes"


def allowed(before: Graph, after: Graph, declared: Units) -> Units:
    """Returns by dtype how far results may differ, in units of the last place of the largest."""
    if _strategies(before) == _strategies(after):
        return declared
    return {name: max(SUMS[name], declared.get(name, 0)) for name in SUMS}


def _strategies(graph: Graph) -> list[str]:
    nodes = [n for n in graph.nodes if isinstance(n.primitive, ContractionPrimitive | Fourier)]
    return sorted(f"{n.primitive.kind} {n.plan.choice} {_strings(n)}" for n in nodes)


def _strings(node: Node) -> int:
    """How many strings a transform runs, within which compilers round once for two operations."""
    names = ("load", "store") if isinstance(node.primitive, Fourier) else ()
    return sum(bool(getattr(node.options, name)) for name in names)


def check(name: str, before: Graph, after: Graph, device: Device, declared: Units) -> None:
    """Runs both graphs."""
    units = allowed(before, after, declared)
    for special in (True, False):
        known = _Run(device, before, special)
        state = randomness.get_state()
        with randomness.at(state):
            known.go(before, lambda node: None)
        found = _Run(device, after, special, like=known)
        with randomness.at(state):
            _follow(name, known, found, before, after, {} if special and not units else units)


def check_replay(graph: Graph, device: Device) -> None:
    """Runs a graph node by node and replayed, where temporaries lie over one another."""
    runs = [_Run(device, graph, special) for special in (True, False)]
    replay = Replay(device, replace(graph, inputs=tuple(runs[0].given)))
    for known in runs:
        found = _Run(device, graph, known.special, like=known)
        state = randomness.get_state()
        with randomness.at(state):
            known.go(graph, lambda node: None)
        with randomness.at(state):
            memory = replay([found.memory[buffer_of(o)] for o in runs[0].given])
        for operand in (*graph.outputs, *known.given):
            found.memory[buffer_of(operand)] = replay.memory_of(buffer_of(operand), memory)
            why = difference(known.read(operand), found.read(operand), {})
            if why:
                raise PassError(f"{graph.what}: replayed in shared memory, {why}\n{graph}")


def _follow(name: str, known: _Run, found: _Run, before: Graph, after: Graph, units: Units) -> None:
    """Runs the new graph, and compares it node by node, then what is left at its end."""
    uses, new = before.uses, after.uses
    strict = not known.special

    def differs(old: Operand, operand: Operand, node: Node | None) -> None:
        why = difference(known.read(old), found.read(operand), units, strict=strict)
        if why:
            what = f" {call_text(node)} at {node.line or 'an unknown line'}" if node else ""
            raise PassError(f"{before.what}: the pass {name!r} changed{what}: {why}\n{after}")

    def behind(node: Node) -> None:
        for operand in node.writes:
            writer = uses.only_writer(buffer_of(operand))
            if writer is None or new.only_writer(buffer_of(operand)) is None:
                continue
            for old in before.nodes[writer].writes:
                if same_place(old, operand):
                    differs(old, operand, node)
                    found.copy(buffer_of(operand), known)

    found.go(after, behind)
    last = {buffer: after.nodes[writers[-1]] for buffer, writers in new.writers.items()}
    for old, operand in zip(before.outputs, after.outputs, strict=True):
        differs(old, operand, last.get(buffer_of(operand)))
    for operand in known.given:
        if buffer_of(operand).frozen:
            continue  # what was uploaded is the old graph's own to write to
        differs(operand, operand, last.get(buffer_of(operand)))


@dataclass
class _Run:
    """A graph's memory."""

    device: Device
    graph: Graph
    special: bool
    like: _Run | None = None
    memory: dict[Buffer, Any] = field(default_factory=dict)
    given: list[Operand] = field(default_factory=list)
    first: dict[Buffer, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.like is not None:
            self.given, self.first = self.like.given, self.like.first
        else:
            nodes = self.graph.nodes
            written = {buffer for node in nodes for buffer in node.written}
            captured = [o for node in nodes for o in (*node.reads, *node.writes)]
            self.given = [*self.graph.inputs]
            for operand in captured:
                buffer = buffer_of(operand)
                if buffer.kind == "constant" and (buffer in written or not buffer.frozen):
                    self.given.append(operand)
            for operand in self.given:
                buffer = buffer_of(operand)
                if buffer not in self.first:
                    self.first[buffer] = copied(self.device, buffer.memory, buffer.nbytes)
            random = np.random.default_rng(len(self.graph.nodes))
            self.memory = self.first
            whole = {buffer_of(o) for o in self.given if o.dtype.kind not in "fV"}
            for operand in self.graph.inputs:
                if buffer_of(operand) not in whole:
                    self._fill(operand, random)
        self.memory = {b: copied(self.device, m, b.nbytes) for b, m in self.first.items()}

    def go(self, graph: Graph, behind: Callable[[Node], None]) -> None:
        """Runs a graph, and calls ``behind`` after each node."""
        for node in graph.nodes:
            enqueue(self.device, steps_of(self.device, (node,)), self.memory)
            behind(node)

    def read(self, operand: Operand) -> Any:
        """Returns what an operand holds, on the host."""
        return self._array(operand).get()

    def copy(self, buffer: Buffer, other: _Run) -> None:
        """Takes over a buffer's contents."""
        self.memory[buffer] = copied(self.device, other.memory[buffer], buffer.nbytes)

    def _array(self, operand: Operand) -> Any:
        buffer = buffer_of(operand)
        memory = self.memory.get(buffer)
        if memory is None:
            memory = buffer.memory
        return array_over(self.device, memory, *layout_of(operand))

    def _fill(self, operand: Operand, random: Any) -> None:
        array = self._array(operand)
        values = random.standard_normal(operand.shape)
        if self.special:
            some = random.random(operand.shape) < 0.1
            values[some] = random.choice(_SPECIAL, int(some.sum()))
        array[...] = values.astype(operand.dtype)


def difference(wanted: Any, found: Any, units: Units, *, strict: bool = True) -> str:
    """Returns where and by how much two results differ; nothing where they do not."""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return f"{found.dtype} {found.shape} for {wanted.dtype} {wanted.shape}"
    if wanted.dtype.kind == "c":
        parts = (wanted.real, found.real), (wanted.imag, found.imag)
        return next(filter(None, (difference(*p, units, strict=strict) for p in parts)), "")
    most = units.get(str(wanted.dtype), 0.0)
    wrong = _bits(wanted) != _bits(found)
    if wanted.dtype.kind in "fV":
        wrong &= ~(np.isnan(wanted) & np.isnan(found))
        if most:
            with np.errstate(all="ignore"):
                a, b = wanted.astype(np.float64), found.astype(np.float64)
                finite = np.isfinite(a) & np.isfinite(b)
                largest = float(np.abs(a[finite]).max(initial=0))
                near = np.abs(a - b) <= most * _EPS[str(wanted.dtype)] * largest
            wrong &= ~(near & finite) if strict else finite & ~near
    if not wrong.any():
        return ""
    place = tuple(int(n) for n in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} elements differ, the first at {place}: "
        f"{found[place]!r} for {wanted[place]!r}"
    )


def _bits(array: Any) -> Any:
    flat = np.ascontiguousarray(array)
    if flat.dtype.kind == "b":
        return flat
    return flat.view(f"u{flat.dtype.itemsize}").reshape(array.shape)
