"""The passes in their order: each takes a graph and returns one that does the same.

A pass is a function of a graph and a device. It may drop, join and plan nodes anew, and adds a note
for what it did. Results keep their bits, but where `BOUNDS` says how far they may differ;
``CLPRIM_CHECK=passes`` holds every pass to that.
"""

from __future__ import annotations

from collections.abc import Callable

from clprim.graph import check
from clprim.graph.graph import Graph
from clprim.graph.passes.fuse.attention_fusion import attention
from clprim.graph.passes.fuse.batch_norm_folding import batch_norm_folding
from clprim.graph.passes.fuse.elementwise_fusion import elementwise_fusion
from clprim.graph.passes.fuse.epilogue_fusion import epilogue_fusion
from clprim.graph.passes.fuse.horizontal_fusion import horizontal_fusion
from clprim.graph.passes.fuse.inverted_residuals import inverted_residuals
from clprim.graph.passes.fuse.prologue_fusion import prologue_fusion
from clprim.graph.passes.fuse.squeeze_excitation import squeeze_excitation
from clprim.graph.passes.layout.copy_elision import copy_elision
from clprim.graph.passes.layout.copy_fusion import copy_fusion
from clprim.graph.passes.layout.layout_assignment import layout_assignment
from clprim.graph.passes.memory.in_place_reuse import in_place_reuse
from clprim.graph.passes.memory.rematerialisation import rematerialisation
from clprim.graph.passes.simplify.common_subexpressions import common_subexpressions
from clprim.graph.passes.simplify.constant_folding import constant_folding, weight_packing
from clprim.graph.passes.simplify.dead_code import dead_code, dead_stores
from clprim.graph.passes.simplify.ssa import copy_on_write, ssa
from clprim.runtime.device import Device

Pass = Callable[[Graph, Device], Graph]

PASSES: tuple[Pass, ...] = (
    copy_on_write,
    dead_code,
    dead_stores,
    ssa,
    common_subexpressions,
    constant_folding,
    batch_norm_folding,
    elementwise_fusion,
    attention,
    epilogue_fusion,
    squeeze_excitation,
    layout_assignment,
    copy_elision,
    copy_fusion,
    inverted_residuals,
    horizontal_fusion,
    prologue_fusion,
    horizontal_fusion,
    rematerialisation,
    in_place_reuse,
    weight_packing,
    dead_code,
)
# Of passes that round elsewhere: by dtype how far a node's results may be from what they were, in
# units of the last place of the largest of them.
BOUNDS: dict[Pass, check.Units] = {
    batch_norm_folding: check.SUMS,
    elementwise_fusion: {"float16": 8.0, "bfloat16": 8.0},
    epilogue_fusion: {"float16": 8.0, "bfloat16": 8.0},
    attention: check.SUMS,
    squeeze_excitation: check.SUMS,
    layout_assignment: check.SUMS,
    inverted_residuals: check.SUMS,
    prologue_fusion: {"float16": 8.0, "bfloat16": 8.0},
    # Of 0 and -0 the greatest is the one that comes first.
    horizontal_fusion: check.ZEROS,
    # Of other strides a reduction may add up in another order.
    copy_elision: {"float16": 2.0, "bfloat16": 2.0, "float32": 16.0, "float64": 64.0},
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
