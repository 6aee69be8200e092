"""Rematerialisation: what is wanted again much later is computed again, to save memory.

Where the nodes' temporaries take more than that, one that is alive and not used there is dropped
after its last use before, and the nodes that made it run once more before its next one, from what
is there then. Which one: where a byte is had for the least work, that of other dropped values
counted in, so that values which are kept lie apart.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from clprim.graph.graph import Buffer, Graph, Node, buffer_of
from clprim.graph.memory import Allocations, allocations_of, grain_of, lives_of
from clprim.graph.passes.memory.in_place_reuse import in_place_reuse
from clprim.primitives.grouped import Grouped
from clprim.primitives.pieces import PiecesPrimitive
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.primitives.reduction import Options as ReductionOptions
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import Device

# Arithmetic that takes as long as a byte that is moved: processors and GPUs have 10 to 20.
_FLOPS = 16
# What is dropped before memory is planned anew is such a part of it: where all is dropped, all is
# made again at once.
_PARTS = 16
_MIB = 2**20


def rematerialisation(graph: Graph, device: Device) -> Graph:
    """Lets nodes run again until temporaries fit into the graph's budget, or as nearly as may be.

    A clone is planned as its node is, so that all keeps its bits.
    """
    if graph.budget is None:
        return graph
    grain = grain_of(device)
    placed = in_place_reuse(graph, device)  # as it will be where all stays
    if _allocated(placed, [*placed.nodes], grain).nbytes <= graph.budget:
        return graph
    values, dropped = _Values(graph), set[Buffer]()
    nodes, places = [*graph.nodes], [*range(len(graph.nodes))]
    before = least = _allocated(graph, nodes, grain)
    best = nodes
    found = before
    while found.nbytes > graph.budget:
        at = places[found.peak]
        if not values.drop(dropped, at, min(found.nbytes - graph.budget, found.live // _PARTS)):
            break
        nodes, places = values.nodes_without(dropped)
        found = _allocated(graph, nodes, grain)
        if found.nbytes < least.nbytes:
            least, best = found, nodes
    if best is nodes and found is before:
        return graph
    sizes = f"{least.nbytes / _MIB:.1f} MiB between nodes instead of {before.nbytes / _MIB:.1f}"
    more, told = len(best) - len(graph.nodes), f"memory={graph.budget / _MIB:.1f} MiB"
    return graph.with_nodes(best, f"rematerialisation: {more} nodes run again, {sizes} ({told})")


def _allocated(graph: Graph, nodes: list[Node], grain: int) -> Allocations:
    spaces = ([Buffer(n * d.itemsize) for n, d in node.plan.workspace.values()] for node in nodes)
    taken = ((*node.touched, *own) for node, own in zip(nodes, spaces, strict=True))
    return allocations_of(lives_of(taken, graph.results()), grain)


class _Values:
    """Temporaries that nodes may make again."""

    def __init__(self, graph: Graph) -> None:
        self._nodes, uses, results = graph.nodes, graph.uses, graph.results()
        self._reads = [node.read for node in graph.nodes]
        self._costs = [_cost(node) for node in graph.nodes]
        self._source: dict[Buffer, int] = {}  # the only node that makes it
        self._last: dict[Buffer, int] = {}
        self._gap: dict[Buffer, tuple[int, int]] = {}  # the longest time between two uses
        ends: dict[int, int] = {}  # when something that a node reads is overwritten
        for n, node in enumerate(graph.nodes):
            if not _is_repeatable(node):
                continue
            end = len(graph.nodes)
            for read in self._reads[n]:
                if uses.only_writer(read) is None:
                    later = (w for w in uses.writers.get(read, ()) if w > n)
                    end = min(end, next(later, end))
                elif read in self._source:
                    end = min(end, ends[self._source[read]])
            ends[n] = end
            for buffer in map(buffer_of, node.writes):
                readers = uses.readers.get(buffer)
                if buffer in results or uses.only_writer(buffer) != n or not readers:
                    continue
                if readers[0] <= n or readers[-1] > end:
                    continue
                moments = [n, *readers]
                gap = max(pairwise(moments), key=lambda g: g[1] - g[0])
                self._source[buffer], self._last[buffer] = n, readers[-1]
                self._gap[buffer] = gap

    def _is_gone(self, buffer: Buffer, at: int, dropped: set[Buffer]) -> bool:
        """Whether what a buffer held is not there before a node, and can be made again."""
        if buffer in dropped:
            return self._gap[buffer][0] < at
        return buffer in self._source and self._last[buffer] < at

    def _makers(self, buffer: Buffer, at: int, dropped: set[Buffer], there: Any) -> list[int]:
        """Returns the nodes that make a value again, in order."""
        ahead, found = [buffer], set[int]()
        while ahead:
            n = self._source[ahead.pop()]
            if n not in found:
                found.add(n)
                ahead += [
                    r for r in self._reads[n] if r not in there and self._is_gone(r, at, dropped)
                ]
        return sorted(found)

    def drop(self, dropped: set[Buffer], at: int, nbytes: int) -> bool:
        """Adds values to those that are dropped, until bytes are free at a node."""
        held = [b for b, (a, b_) in self._gap.items() if a < at < b_ and b not in dropped]
        some = bool(held)
        while held and nbytes > 0:

            def price(buffer: Buffer) -> float:
                again = self._makers(buffer, self._gap[buffer][1], dropped, ())
                return sum(self._costs[n] for n in again) / max(buffer.nbytes, 1)

            least = min(held, key=price)
            held.remove(least)
            dropped.add(least)
            nbytes -= least.nbytes
        return some

    def nodes_without(self, dropped: set[Buffer]) -> tuple[list[Node], list[int]]:
        """Returns the nodes with those that run again, and of each before which it was to run."""
        made: list[Node] = []
        places: list[int] = []
        now: dict[Buffer, Buffer] = {}  # where dropped values are since they were made again

        for n, node in enumerate(self._nodes):
            for read in self._reads[n]:
                if read not in dropped or read in now or n <= self._gap[read][0]:
                    continue
                where = dict(now)
                for k in self._makers(read, n, dropped, now):
                    old = self._nodes[k]
                    new = {b: Buffer(b.nbytes) for b in map(buffer_of, old.writes)}
                    made.append(old.rebased(where, new))
                    where |= new
                    now |= {b: c for b, c in new.items() if b in dropped}
                    places.append(n)
            made.append(node.rebased(now))
            places.append(n)
        return made, places


def _cost(node: Node) -> float:
    return sum(stage.nbytes + stage.flops / _FLOPS for stage in node.plan.stages)


def _is_repeatable(node: Node) -> bool:
    """Whether a node makes temporaries alone, the same ones whenever it runs."""
    kind, old = node.primitive, None  # what an old result is scaled with
    if isinstance(kind, ContractionPrimitive):
        old = node.numbers[0]
    elif isinstance(kind, Reduction):
        old = ReductionOptions(*node.options).beta
    elif not isinstance(kind, Pointwise | Grouped | PiecesPrimitive):
        return False
    if any(old) if isinstance(old, tuple | list) else old:
        return False
    if node.draws or node.changed:
        return False
    return all(buffer_of(w).kind == "temporary" for w in node.writes)
