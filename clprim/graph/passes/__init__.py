"""The passes in their order: each takes a graph and returns one that does the same.

A pass is a function of a graph and a device. It may drop, join and plan nodes anew, and adds a note
for what it did. Results keep their bits, but where a pass's own text says how far they may differ.
"""

from __future__ import annotations

from clprim.graph.graph import Graph
from clprim.graph.passes.constants import constants, packed
from clprim.graph.passes.dead import dead
from clprim.graph.passes.elementwise import elementwise
from clprim.graph.passes.fold import fold
from clprim.graph.passes.in_place import in_place
from clprim.graph.passes.overwrite import overwrite
from clprim.graph.passes.stores import stores
from clprim.graph.passes.versions import versions
from clprim.runtime.device import Device

PASSES = (dead, versions, constants, fold, elementwise, stores, in_place, overwrite, packed, dead)


def optimised(graph: Graph, device: Device) -> Graph:
    """Returns what all passes make of a graph."""
    for run in PASSES:
        graph = run(graph, device)
    return graph
