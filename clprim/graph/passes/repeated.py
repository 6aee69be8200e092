"""A node that computes what another one has computed goes; its readers read that one's results."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of
from clprim.plan.strides import Operand
from clprim.runtime.device import Device


def repeated(graph: Graph, device: Device) -> Graph:
    """Drops nodes whose results are there; what is returned keeps memory of its own."""
    del device
    uses, results = Uses(graph.nodes), graph.results()
    nodes: list[Node] = []
    known: dict[Hashable, int] = {}
    instead: dict[Buffer, Buffer] = {}

    def moved(operand: Operand) -> Operand:
        found = instead.get(buffer_of(operand))
        return operand if found is None else replace(operand, memory=(found, 0))

    for n, node in enumerate(graph.nodes):
        reads = tuple(map(moved, node.reads))
        same = all(a is b for a, b in zip(reads, node.reads, strict=True))
        fresh = node if same else replace(node, reads=reads)
        key = _key(fresh) if _is_pure(fresh, uses) else None
        first = n if key is None else known.setdefault(key, n)
        made = [buffer_of(w) for w in node.writes]
        stays = any(first <= m < n for r in reads for m in uses.writers.get(buffer_of(r), ()))
        if first == n or stays or any(b in results for b in made):
            nodes.append(fresh)
            continue
        there = graph.nodes[first].writes
        instead |= {b: buffer_of(w) for b, w in zip(made, there, strict=True)}
    dropped = len(graph.nodes) - len(nodes)
    note = f"repeated: {dropped} nodes compute what others have"
    return graph.with_nodes(nodes, note) if dropped else graph


def _is_pure(node: Node, uses: Uses) -> bool:
    """Whether a node's results depend on what it reads alone, and stay."""
    return not (node.draws or node.changed) and all(
        uses.only_writer(buffer_of(w)) is not None
        and w.size * w.dtype.itemsize == buffer_of(w).nbytes
        for w in node.writes
    )


def _key(node: Node) -> Hashable:
    """What is the same of nodes that compute the same."""
    numbers = tuple((type(n), repr(n)) for n in node.numbers)
    kept = tuple((name, id(weight)) for name, weight in node.kept.items())
    told: Any = node.options
    reads = tuple((buffer_of(r), r) for r in node.reads)
    key = node.primitive, reads, node.writes, numbers, told, kept
    try:
        hash(key)
    except TypeError:
        return None
    return key
