"""Functions whose host reads: split there into graphs, of which each call replays those it needs.

A part is what happens up to a read. What it makes that the program still holds goes on to the
parts behind it, which are told apart by the bytes that were read: where they have been met, nobody
calls the function. Where not, it is called under a trace that knows what the parts have made, and
what follows the read becomes a graph of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clprim.arrays.array import Array, array_over
from clprim.arrays.transfer import download
from clprim.graph.compiled import Compiled
from clprim.graph.explain import explained
from clprim.graph.graph import Buffer, Graph, Node, buffer_of, layout_of, replanned
from clprim.graph.signature import filled, form_of
from clprim.graph.text import kind_text
from clprim.graph.trace import Trace
from clprim.plan.strides import Operand
from clprim.runtime import tracing
from clprim.runtime.device import Device

# What is read at once decides how a function goes on where it is no longer than this.
MOST_BYTES = 64
# Contents of one read that are remembered; a function that meets more of them runs uncompiled.
MOST_CONTENTS = 8
_BYTES = np.dtype(np.uint8)


@dataclass(eq=False)
class Part:
    """What a function launches up to a read, or to its end."""

    compiled: Compiled
    inputs: tuple[int, ...]
    written: tuple[int, ...]
    read: tuple[int, Operand] | None = None
    line: str = ""
    next: dict[bytes, Part] = field(default_factory=dict)
    results: tuple[Any, list[tuple[int, Operand]]] | None = None

    def run(self, memory: list[Any]) -> None:
        """Replays it, and adds what goes on to what is there."""
        replay = self.compiled.replay
        found = replay([memory[n] for n in self.inputs])
        memory += [replay.memory_of(buffer_of(o), found) for o in replay.graph.outputs]


class Split:
    """A function for one signature, in parts."""

    def __init__(
        self, device: Device, what: str, prepare: Callable[[Trace, Sequence[Node]], None]
    ) -> None:
        self.device, self.what, self.prepare = device, what, prepare
        self.first: Part | None = None
        self.over = False

    def __call__(self, arrays: Sequence[Any], function: Callable[[], Any]) -> Any:
        """Runs it."""
        memory = [array.base_data for array in arrays]
        path: list[bytes] = []
        part = self.first
        while part is not None:
            part.run(memory)
            if part.read is None:
                return self.returned(part, memory, arrays)
            path.append(_bytes(real(self.device, memory, *part.read)))
            part = part.next.get(path[-1])
        return _Splitting(self, arrays, memory, path).call(function)

    def returned(self, part: Part, memory: Sequence[Any], arrays: Sequence[Any]) -> Any:
        """Returns what the function does at the end of a part."""
        assert part.results is not None
        form, places = part.results
        return filled(form, [real(self.device, memory, *place) for place in places], arrays)

    def explain(self) -> str:
        """Returns what is known so far: a graph a part, and what is read behind it."""
        lines: list[str] = []
        ahead = [(self.first, "")] if self.first is not None else []
        while ahead:
            part, when = ahead.pop()
            assert part is not None
            lines += [when, explained(part.compiled), ""]
            if part.read is not None:
                lines.append(f"the host reads {kind_text(part.read[1])} at {part.line}")
                for content, following in reversed(part.next.items()):
                    value = np.frombuffer(content, part.read[1].dtype)
                    ahead.append((following, f"where {part.line} has read {value}:"))
        return "\n".join(lines).strip() or f"{self.what}: not called yet"


def real(device: Device, memory: Sequence[Any], place: int, operand: Operand) -> Array:
    """Returns an operand as an array over what is there."""
    return array_over(device, memory[place], *layout_of(operand))


def _bytes(array: Array) -> bytes:
    return download(array, range(array.ndim)).tobytes()


class _Splitting(Trace):
    """A trace that goes on where the host reads."""

    def __init__(
        self, split: Split, arrays: Sequence[Any], memory: list[Any], path: list[bytes]
    ) -> None:
        with tracing.switched_to(None):
            super().__init__(arrays)
            given = [buffer_of(self.operand(array)) for array in arrays]
        self._split, self._arrays, self._memory, self._path = split, arrays, memory, path
        self._places: dict[Buffer, int] = {buffer: n for n, buffer in reversed([*enumerate(given)])}
        self._count = len(arrays)  # of places that parts so far have filled
        self._reads = 0
        self._part: Part | None = None  # the last one
        self._next = split.first

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls the function, and returns what it returns."""
        with tracing.switched_to(self):
            result = function()
        with tracing.switched_to(None):
            form, made = form_of(self._split.what, result, self._arrays)
            wanted = [*map(self.operand, made)]
            del result
            part = self._made(wanted)
            places = [(self._places[buffer_of(operand)], _apart(operand)) for operand in wanted]
            part.results = form, places
            made.clear()
            self._add(part)
            return self._split.returned(part, self._memory, self._arrays)

    def download(self, array: Any, order: Sequence[int]) -> np.ndarray[Any, Any]:
        """Returns what an array holds; what comes before has become a part."""
        line = tracing.line()
        if array.size * array.dtype.itemsize > MOST_BYTES:
            tracing.end("a download of a large array")
        if any(n.draws or any(b.kind != "temporary" for b in n.written) for n in self.nodes):
            tracing.end("a download after a draw, or after a write to memory that was there")
        with tracing.switched_to(None):
            operand = self.operand(array)
            if buffer_of(operand).kind == "constant":
                tracing.end("a download of an array that is no argument")
            if self._next is not None:
                self._pass(self._next)
            else:
                part = self._made([operand])
                part.read = self._places[buffer_of(operand)], _apart(operand)
                part.line = line
                self._add(part)
            place = self._places[buffer_of(operand)]
            found = real(self._split.device, self._memory, place, _apart(operand))
            if self._reads == len(self._path):
                self._path.append(_bytes(found))
            content = self._path[self._reads]
            self._reads += 1
            assert self._part is not None
            self._next = self._part.next.get(content)
            if self._next is None and len(self._part.next) >= MOST_CONTENTS:
                tracing.end("a download that has had too many contents")
            return download(found, order)

    def _add(self, part: Part) -> None:
        """Hangs a part behind the last one."""
        if self._part is None:
            self._split.first = part
        else:
            self._part.next[self._path[self._reads - 1]] = part
        self._part = part

    def _pass(self, part: Part) -> None:
        """Takes what a part has made in this call in the place of what was noted."""
        written = _temporaries(self.nodes)
        for n in part.written:
            written[n].kind = "input"
            self._places[written[n]] = self._count
            self._count += 1
        self.nodes.clear()
        self._part = part

    def _made(self, wanted: Sequence[Operand]) -> Part:
        """Compiles what was noted and runs it: what is wanted of it, and what the program holds."""
        split, nodes = self._split, [*self.nodes]
        split.prepare(self, nodes)
        written = _temporaries(nodes)
        own = {b: Buffer(b.nbytes) for b in written}
        used = {b for node in nodes for b in node.touched}
        inputs = [b for b in self._places if b in used]
        if any(b.kind == "temporary" and b not in own for b in used):
            tracing.end("an array that was not held before")
        own |= {b: Buffer(b.nbytes, "input", self._memory[self._places[b]]) for b in inputs}
        moved = [_moved(split.device, node, own) for node in nodes]
        asked = {id(buffer_of(operand)) for operand in wanted}
        alive = [weakref.ref(buffer) for buffer in written]
        kept = [n for n, buffer in enumerate(written) if id(buffer) in asked]
        stand_ins = [own[buffer] for buffer in written]
        reads = tuple(_whole(own[buffer]) for buffer in inputs)
        places = tuple(self._places[buffer] for buffer in inputs)
        self.nodes.clear()
        own.clear()
        del nodes, written, inputs, used
        held = [n for n, each in enumerate(alive) if each() is not None]
        going = tuple(sorted({*kept, *held}))
        fixed = [buffer_of(o) for o in wanted if buffer_of(o).kind == "constant"]
        outputs = (*(_whole(stand_ins[n]) for n in going), *map(_whole, fixed))
        graph = Graph(split.what, reads, tuple(moved), outputs)
        part = Part(Compiled(split.device, graph), places, going)
        part.run(self._memory)
        for n in going:
            buffer = alive[n]()
            if buffer is not None:
                buffer.kind = "input"
                self._places[buffer] = self._count
            self._count += 1
        for buffer in fixed:
            self._places[buffer] = self._count
            self._count += 1
        return part


def _temporaries(nodes: Sequence[Node]) -> list[Buffer]:
    """What nodes write that is their function's own, in order."""
    found = dict.fromkeys(buffer for node in nodes for buffer in node.written)
    return [buffer for buffer in found if buffer.kind == "temporary"]


def _moved(device: Device, node: Node, own: dict[Buffer, Buffer]) -> Node:
    """The same node over other buffers."""
    moved = node.rebased(own, own)
    found = replanned(device, node, moved.reads, moved.writes)
    if found is None:
        tracing.end(f"{node.primitive.what} cannot go on behind a download")
    return found


def _whole(buffer: Buffer) -> Operand:
    return Operand((buffer.nbytes,), (1,), 0, _BYTES, (buffer, 0))


def _apart(operand: Operand) -> Operand:
    """An operand without its memory, which lives as long as the program holds it."""
    return replace(operand, memory=None)
