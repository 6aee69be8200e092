"""Common-subexpression elimination: what was computed already is not computed again."""

from __future__ import annotations

from collections.abc import Hashable

from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, is_whole
from clprim.runtime.device import Device


def common_subexpressions(graph: Graph, device: Device) -> Graph:
    """Drops nodes whose results are there; what is returned keeps memory of its own."""
    del device
    uses, results = graph.uses, graph.results()
    nodes: list[Node] = []
    known: dict[Hashable, int] = {}
    instead: dict[Buffer, Buffer] = {}
    for n, old in enumerate(graph.nodes):
        node = old.rebased(instead)
        key = _key(node) if _is_pure(node, uses) else None
        first = n if key is None else known.setdefault(key, n)
        made = [buffer_of(w) for w in node.writes]
        changed = any(first <= m < n for b in node.read for m in uses.writers.get(b, ()))
        if first == n or changed or any(b in results for b in made):
            nodes.append(node)
            continue
        there = graph.nodes[first].writes
        instead |= {b: buffer_of(w) for b, w in zip(made, there, strict=True)}
    dropped = len(graph.nodes) - len(nodes)
    note = f"common subexpressions: {dropped} nodes compute what others have"
    return graph.with_nodes(nodes, note) if dropped else graph


def _is_pure(node: Node, uses: Uses) -> bool:
    """Whether a node's results depend on what it reads alone, and stay."""
    return not (node.draws or node.changed) and all(
        uses.only_writer(buffer_of(w)) is not None and is_whole(w) for w in node.writes
    )


def _key(node: Node) -> Hashable:
    """What is the same of nodes that compute the same."""
    numbers = tuple((type(n), repr(n)) for n in node.numbers)
    kept = tuple((name, id(weight)) for name, weight in node.kept.items())
    reads = tuple((buffer_of(r), r) for r in node.reads)
    key = node.primitive, reads, node.writes, numbers, node.options, kept
    try:
        hash(key)
    except TypeError:
        return None
    return key
