"""Nodes that move elements and compute nothing, as pairs of operands that a pass can take apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from clprim.graph.graph import (
    Buffer,
    Graph,
    Node,
    buffer_of,
    is_whole,
    planned,
    replanned,
    same_place,
)
from clprim.graph.relocation import Relocation
from clprim.plan.strides import Operand, shares_memory
from clprim.primitives.pieces import PiecesPrimitive
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device

_COPY = Pointwise("y0 = x0;", name="copy")


class Move(NamedTuple):
    """Elements that are copied as they are: operands of one shape and dtype."""

    read: Operand
    write: Operand


Moves = tuple[Move, ...]


@dataclass(frozen=True, eq=False)
class Entry:
    """A node, and what it moves where it does nothing else."""

    node: Node
    moves: Moves | None

    @property
    def reads(self) -> tuple[Operand, ...]:
        """Operands that it reads."""
        return self.node.reads if self.moves is None else tuple(m.read for m in self.moves)

    @property
    def writes(self) -> tuple[Operand, ...]:
        """Its results."""
        return self.node.writes if self.moves is None else tuple(m.write for m in self.moves)

    @property
    def written(self) -> tuple[Operand, ...]:
        """Its results, and what it writes among what it reads."""
        return self.writes if self.moves is not None else (*self.writes, *self.node.changed)

    @property
    def is_one_kernel(self) -> bool:
        """Whether what is left goes to the places that the node wrote to."""
        before, moves = moves_of(self.node) or (), self.moves or ()
        return len(moves) == len(before) and all(
            same_place(a.write, b.write) for a, b in zip(moves, before, strict=True)
        )


def moves_of(node: Node) -> Moves | None:
    """Returns what a node moves; None where it computes something."""
    primitive = node.primitive
    if isinstance(primitive, PiecesPrimitive):
        (y,) = node.writes
        covered = len(node.reads) == 1 and node.reads[0].shape == y.shape
        if node.options.cut or (node.options.filled and not covered):
            return None
        return tuple(
            Move(x, _part(y, start, x.shape))
            for x, start in zip(node.reads, node.options.starts, strict=True)
        )
    if not isinstance(primitive, Pointwise) or not primitive.definition.copies_each:
        return None
    pairs = [*zip(node.reads, node.writes, strict=True)]
    if any(x.dtype != y.dtype for x, y in pairs):
        return None
    if len(pairs) > 1 and any(overlap(node.reads, y) for y in node.writes):
        return None  # one after the other they would read what is written
    return tuple(_move(x, y) for x, y in pairs)


def _move(x: Operand, y: Operand) -> Move:
    missing = y.ndim - x.ndim
    strides = [
        0 if n == 1 and size > 1 else stride
        for n, stride, size in zip(x.shape, x.strides, y.shape[missing:], strict=True)
    ]
    return Move(replace(x, shape=y.shape, strides=(*[0] * missing, *strides)), y)


def fills_part(node: Node) -> bool:
    """Whether a node does nothing but copy to parts of pieces of memory."""
    return moves_of(node) is not None and not any(map(is_whole, node.writes))


def _part(y: Operand, start: Iterable[int], shape: tuple[int, ...]) -> Operand:
    offset = y.offset + sum(n * s for n, s in zip(start, y.strides, strict=True))
    return replace(y, shape=shape, offset=offset)


def _entry(node: Node) -> Entry | None:
    """A node's entry; None for a copy onto itself, as ``x[0] += 1`` makes."""
    moves = moves_of(node)
    return None if moves and all(same_place(*m) for m in moves) else Entry(node, moves)


class Entries:
    """A graph's nodes in order, and which of them touch a buffer."""

    def __init__(self, graph: Graph, device: Device) -> None:
        self.graph, self._device = graph, device
        self.now: list[Entry | None] = [_entry(node) for node in graph.nodes]
        self.touching: dict[Buffer, set[int]] = {}
        self._find()

    def _find(self) -> None:
        self.touching.clear()
        for n, entry in enumerate(self.now):
            if entry is not None:
                self._touch(n, entry)

    def _touch(self, n: int, entry: Entry) -> None:
        for operand in (*entry.reads, *entry.writes):
            self.touching.setdefault(buffer_of(operand), set()).add(n)

    def over(self, buffer: Buffer) -> list[tuple[int, Entry]]:
        """Entries that read or write a buffer, in order."""
        found = ((n, self.now[n]) for n in sorted(self.touching.get(buffer, ())))
        return [(n, entry) for n, entry in found if entry is not None]

    def restore(self, before: list[Entry | None]) -> None:
        """Takes back what happened since ``now`` was ``before``."""
        self.now = before
        self._find()

    def changed(
        self,
        buffer: Buffer,
        places: Relocation,
        to: Operand,
        without: Mapping[int, Moves],
    ) -> dict[int, Entry] | None:
        """Returns the entries that touch a buffer as they are with it in another place."""
        found: dict[int, Entry] = {}
        for n, entry in self.over(buffer):
            gone, old = [*map(id, without.get(n, ()))], entry
            if entry.moves is not None:
                old = replace(entry, moves=tuple(m for m in entry.moves if id(m) not in gone))
            reads, writes = (
                [places(o, to.memory) if buffer_of(o) is buffer else o for o in operands]
                for operands in (old.reads, old.writes)
            )
            new_reads, new_writes = ([o for o in each if o] for each in (reads, writes))
            if len(new_reads) < len(reads) or len(new_writes) < len(writes):
                return None
            if old.moves is not None:
                moves = map(Move, new_reads, new_writes)
                left = tuple(move for move in moves if not same_place(*move))
                found[n] = replace(old, moves=left)
                continue
            node = replanned(self._device, old.node, new_reads, new_writes)
            if node is None:
                return None
            found[n] = Entry(node, None)
        return found

    def put(self, changed: Mapping[int, Entry]) -> None:
        """Takes other entries in."""
        for n, entry in changed.items():
            old = self.now[n]
            if old is not None:
                for operand in (*old.reads, *old.writes):
                    self.touching.get(buffer_of(operand), set()).discard(n)
            self.now[n] = None if entry.moves == () else entry
            self._touch(n, entry)

    def nodes(self) -> list[Node]:
        """Returns nodes that do what is left."""
        found: list[Node] = []
        for entry in self.now:
            if entry is not None:
                found += self._nodes(entry)
        return found

    def _nodes(self, entry: Entry) -> list[Node]:
        node, moves = entry.node, entry.moves
        if moves is None:
            return [node]
        if entry.is_one_kernel:
            reads = [m.read for m in moves]
            if all(same_place(a, m.read) for a, m in zip(reads, moves_of(node) or (), strict=True)):
                return [node]
            found = replanned(self._device, node, reads, node.writes)
            if found is not None:
                return [found]
        return [planned(self._device, _COPY, (m.read,), (m.write,), line=node.line) for m in moves]


def overlap(operands: Iterable[Operand], place: Operand) -> bool:
    """Whether one of some operands has a byte in common with another one."""
    buffer = buffer_of(place)
    return any(buffer_of(o) is buffer and shares_memory(o, place) for o in operands)
