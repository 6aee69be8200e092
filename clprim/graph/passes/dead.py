"""Nodes whose results nobody reads are dropped."""

from __future__ import annotations

from clprim.graph.graph import Buffer, Graph, Node, buffer_of
from clprim.runtime.device import Device


def dead(graph: Graph, device: Device) -> Graph:
    """Drops nodes that write temporaries alone, none of which is read later or returned.

    What draws random numbers stays, as the next draw depends on how many there were.
    """
    del device
    wanted: set[Buffer] = graph.results()
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        made = [buffer_of(w) for w in (*node.writes, *node.changed)]
        if node.draws or any(b in wanted or b.kind != "temporary" for b in made):
            kept.append(node)
            wanted.update(map(buffer_of, node.reads))
    dropped = len(graph.nodes) - len(kept)
    notes = [f"dead: {dropped} nodes dropped"] if dropped else []
    return graph.with_nodes(kept[::-1], *notes) if dropped else graph
