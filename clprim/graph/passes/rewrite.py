"""A graph while a pass changes it: nodes that go, join and move, as long as nobody minds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from clprim.graph.graph import Buffer, Graph, Node, buffer_of, same_place
from clprim.graph.passes.layout.reshaping import in_place_of, of_whole_numbers
from clprim.plan.strides import shares_memory
from clprim.primitives.fourier import Fourier
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device


def _is_between(numbers: Sequence[int], begin: int, end: int) -> bool:
    return bisect_left(numbers, begin) < bisect_left(numbers, end)


class Rewrite:
    """Nodes of a graph, by their numbers, None for those that went, and the uses of buffers."""

    def __init__(self, graph: Graph, device: Device) -> None:
        self.graph, self.device = graph, device
        self.nodes: list[Node | None] = [*graph.nodes]
        self.uses, self.results = graph.uses, graph.results()

    def graph_with(self, *notes: str) -> Graph:
        """Returns the graph of what is left, if something was put."""
        if self.uses is self.graph.uses:
            return self.graph
        return self.graph.with_nodes([n for n in self.nodes if n is not None], *notes)

    def node(self, n: int) -> Node:
        """A node that is there."""
        found = self.nodes[n]
        assert found is not None
        return found

    def put(self, n: int, new: Node | None) -> None:
        """Puts another node, or none, in the place of one."""
        if self.uses is self.graph.uses:
            self.uses = self.uses.copy()  # those of the graph stay
        self.uses.change(n, self.nodes[n], new)
        self.nodes[n] = new

    def join(self, first: int, second: int, made: Node) -> None:
        """Puts a node in the place of the second of two, which goes like the first one."""
        self.put(first, None)
        self.put(second, made)

    def can_sink(self, first: int, second: int) -> bool:
        """Whether a node can run where a later one does: nobody between minds."""
        node = self.node(first)
        made = set(map(buffer_of, node.writes))
        return not (
            any(self._touched(buffer, first + 1, second) for buffer in made)
            or any(self.is_written(buffer, first + 1, second) for buffer in node.read)
        )

    def can_rise(self, first: int, second: int, without: Buffer | None = None) -> bool:
        """Whether a node can run where an earlier one does, but for what it reads of a buffer."""
        node = self.node(second)
        return not (
            any(self.is_written(b, first, second) for b in node.read if b is not without)
            or any(self._touched(buffer_of(w), first, second) for w in node.writes)
        )

    def is_written(self, buffer: Buffer, begin: int, end: int) -> bool:
        """Whether one of some nodes writes to a buffer."""
        return _is_between(self.uses.writers.get(buffer, ()), begin, end)

    def _touched(self, buffer: Buffer, begin: int, end: int) -> bool:
        readers = self.uses.readers.get(buffer, ())
        return self.is_written(buffer, begin, end) or _is_between(readers, begin, end)

    def maker(self, n: int, buffer: Buffer) -> int | None:
        """The only node that writes a temporary, if it stands before another one."""
        found = self.uses.only_writer(buffer)
        return None if found is None or found >= n else found

    def is_read_by(self, n: int, buffer: Buffer) -> bool:
        """Whether a node alone wants what a buffer holds."""
        return buffer not in self.results and self.uses.readers.get(buffer) == [n]

    def makers(self, n: int) -> Iterator[tuple[int, int]]:
        """Nodes that each alone make something that the n-th reads, and its array."""
        for k, read in enumerate(self.node(n).reads):
            maker = self.maker(n, buffer_of(read))
            if maker is not None:
                yield maker, k

    def lone_makers(self, n: int) -> list[tuple[int, int]]:
        """Nodes whose result the n-th alone reads and that can run in its place, and its array."""
        reads = self.node(n).reads
        return [
            (maker, k)
            for maker, k in self.makers(n)
            if self.is_read_by(n, buffer_of(reads[k])) and self.can_sink(maker, n)
        ]

    def lone_maker(self, n: int) -> int | None:
        """The node whose result the n-th alone reads as its first operand."""
        for maker, k in self.lone_makers(n):
            if k == 0 and same_place(self.node(maker).writes[0], self.node(n).reads[0]):
                return maker
        return None

    def makers_of_parts(self, n: int) -> list[tuple[Sequence[int], int]]:
        """Several nodes that each write a part of what the n-th alone reads, and its array.

        The n-th could run where they do, a part with each of them.
        """
        found: list[tuple[Sequence[int], int]] = []
        for k, read in enumerate(self.node(n).reads):
            buffer = buffer_of(read)
            makers = self.uses.writers.get(buffer, ())
            if len(makers) < 2 or makers[-1] >= n or buffer.kind != "temporary":
                continue
            parts = [w for m in makers for w in self.node(m).writes if buffer_of(w) is buffer]
            if (
                self.is_read_by(n, buffer)
                and len(parts) == len(makers)
                and sum(part.size for part in parts) == read.size
                and self.can_rise(makers[0], n, without=buffer)
                and not any(shares_memory(a, b) for a, b in combinations(parts, 2))
            ):
                found.append(([*makers], k))
        return found

    def into_makers(self, n: int, fused: Callable[[Device, Node, Node, int], Node | None]) -> bool:
        """Lets an elementwise node run in contractions or transforms that make what it alone reads.

        ``fused`` returns one node for a maker and what the node does to that one's result, which it
        sees as its array ``k``, in the result's shape.
        """
        node = self.node(n)

        def made(maker: int, k: int) -> Node | None:
            before = self.node(maker)
            if not isinstance(before.primitive, ContractionPrimitive | Fourier):
                return None
            place = next(w for w in before.writes if buffer_of(w) is buffer_of(node.reads[k]))
            whole = of_whole_numbers(self.device, node, place)
            after = in_place_of(self.device, whole, whole.reads[k], place)
            return None if after is None else fused(self.device, before, after, k)

        # Of several makers the last one: what the others make is there then.
        for maker, k in sorted(self.lone_makers(n), reverse=True):
            whole = sum(w.size for w in self.node(maker).writes) == node.reads[k].size
            found = made(maker, k) if whole else None
            if found is not None:
                self.join(maker, n, found)
                return True
        for makers, k in self.makers_of_parts(n):
            every = [made(maker, k) for maker in makers]
            if all(each is not None for each in every):
                for maker, each in zip(makers, every, strict=True):
                    self.put(maker, each)
                self.put(n, None)
                return True
        return False
