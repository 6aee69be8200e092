"""The passes in their order: each takes a graph and returns one that does the same.

A pass is a function of a graph and a device. It may drop, join and plan nodes anew, and adds a note
for what it did. Results keep their bits, but where `BOUNDS` says how far they may differ;
``CLPRIM_CHECK=passes`` holds every pass to that.
"""

from __future__ import annotations

from collections.abc import Callable

from clprim.graph import check
from clprim.graph.graph import Graph
from clprim.graph.passes.attention import attention
from clprim.graph.passes.blocks import blocks
from clprim.graph.passes.constants import constants, packed
from clprim.graph.passes.copies import copies
from clprim.graph.passes.dead import dead
from clprim.graph.passes.elementwise import elementwise
from clprim.graph.passes.fold import fold
from clprim.graph.passes.formats import formats
from clprim.graph.passes.gates import gates
from clprim.graph.passes.in_place import in_place
from clprim.graph.passes.overwrite import overwrite
from clprim.graph.passes.reads import reads
from clprim.graph.passes.recompute import recompute
from clprim.graph.passes.repeated import repeated
from clprim.graph.passes.siblings import siblings
from clprim.graph.passes.stores import stores
from clprim.graph.passes.unread import unread
from clprim.graph.passes.uploads import uploads
from clprim.graph.passes.versions import versions
from clprim.runtime.device import Device

Pass = Callable[[Graph, Device], Graph]

PASSES: tuple[Pass, ...] = (
    uploads,
    dead,
    unread,
    versions,
    repeated,
    constants,
    fold,
    elementwise,
    attention,
    stores,
    gates,
    formats,
    in_place,
    copies,
    blocks,
    siblings,
    reads,
    siblings,
    recompute,
    overwrite,
    packed,
    dead,
)
# Of passes that round elsewhere: by dtype how far a node's results may be from what they were, in
# units of the last place of the largest of them.
BOUNDS: dict[Pass, check.Units] = {
    fold: check.SUMS,
    elementwise: {"float16": 8.0, "bfloat16": 8.0},
    stores: {"float16": 8.0, "bfloat16": 8.0},
    attention: check.SUMS,
    gates: check.SUMS,
    formats: check.SUMS,
    blocks: check.SUMS,
    # Of 0 and -0 the greatest is the one that comes first.
    siblings: check.ZEROS,
    # Of other strides a reduction may add up in another order.
    in_place: {"float16": 2.0, "bfloat16": 2.0, "float32": 16.0, "float64": 64.0},
}


def optimised(graph: Graph, device: Device) -> Graph:
    """Returns what all passes make of a graph."""
    checked = check.is_on()
    for run in PASSES:
        before, graph = graph, run(graph, device)
        if checked and graph is not before:
            check.check(run.__name__, before, graph, device, BOUNDS.get(run, {}))
    if checked:
        check.check_replay(graph, device)
    return graph
