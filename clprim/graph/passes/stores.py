"""An elementwise node that reads a contraction's result, or groups', runs where that is stored.

Sums reach it in the precision that they are added up in. All else keeps its bits, unless another
strategy computes the contraction with its epilogue. What others read of groups, as gradients read
what was activated, is stored besides.
"""

from __future__ import annotations

from typing import Any

from clprim.call.primitive import NoPlanError
from clprim.dtypes import AnyDType
from clprim.errors import ClprimError
from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, planned, same_place
from clprim.graph.passes.elementwise import lone_producers, movable
from clprim.graph.passes.groups import is_taken, stored
from clprim.graph.passes.moves import fills_part
from clprim.graph.passes.strings import block, joined, on_value
from clprim.graph.passes.views import in_shape
from clprim.language.epilogue import define_epilogue
from clprim.primitives.grouped import Grouped
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device

# Elements whose functions, one by one, take less time than a launch.
_FEW = 1 << 10


def stores(graph: Graph, device: Device) -> Graph:
    """Moves elementwise nodes into the stores of contractions and of groups."""
    nodes: list[Node | None] = [*graph.nodes]
    results, joins, uses, groups = graph.results(), 0, Uses(nodes), 0
    for n, node in enumerate(nodes):
        if node is None or not isinstance(node.primitive, Pointwise) or fills_part(node):
            continue
        # Of several contractions the last one: what the others make is there then.
        for producer, k in sorted(lone_producers(nodes, uses, n, results), reverse=True):
            before = nodes[producer]
            assert before is not None
            made = _stored(device, before, node, k)
            if made is not None:
                uses.join(nodes, producer, n, made)
                joins += 1
                break
        else:
            groups += _in_groups(device, nodes, uses, n, results)
    if not joins and not groups:
        return graph
    left = [node for node in nodes if node is not None]
    notes = {"contractions": joins, "groups": groups}
    told = (f"stores: {m} elementwise nodes run in {what}" for what, m in notes.items() if m)
    return graph.with_nodes(left, *told)


def _in_groups(
    device: Device, nodes: list[Node | None], uses: Uses, n: int, results: set[Buffer]
) -> bool:
    """Moves an elementwise node into the groups whose elements it reads."""
    node = nodes[n]
    assert node is not None
    for k, value in enumerate(node.reads):
        buffer = buffer_of(value)
        producer = uses.only_writer(buffer)
        before = None if producer is None or producer >= n else nodes[producer]
        if producer is None or before is None or not isinstance(before.primitive, Grouped):
            continue
        if not is_taken(before) or not movable(nodes, uses, producer, n):
            continue
        again = buffer in results or uses.readers.get(buffer) != [n]
        made = stored(device, before, node, k, again=again)
        if made is not None:
            uses.join(nodes, producer, n, made)
            return True
    return False


def _stored(device: Device, a: Node, b: Node, k: int) -> Node | None:
    """Returns a contraction that does what follows it; None where it cannot."""
    options: Any = a.options
    if not isinstance(a.primitive, ContractionPrimitive) or not hasattr(options, "epilogue"):
        return None
    moved = in_shape(device, b, a.writes[0].shape)
    if moved is None:
        return None
    b = moved
    definition = b.primitive.definition  # type: ignore[attr-defined]
    fits = (
        len(a.writes) == len(b.writes) == 1
        and same_place(a.writes[0], b.reads[k])
        and b.problem.shape == a.writes[0].shape == b.writes[0].shape
        and a.writes[0].dtype == b.writes[0].dtype
        and not definition.expr.lookups
        and not definition.preamble
        and not definition.draws
        and not a.numbers[0]
        and all(_alike(r.dtype, a.writes[0].dtype) for r in b.reads)
    )
    if not fits or sum(buffer_of(r) is buffer_of(b.reads[k]) for r in b.reads) > 1:
        return None
    owner = a.primitive.what
    before = None if options.epilogue is None else define_epilogue(owner, options.epilogue)
    arrays = max((before.numbers("x") if before else ()), default=-1) + 1
    numbers = max((before.numbers("w") if before else ()), default=-1) + 1
    extras = [read for n, read in enumerate(b.reads) if n != k]
    if any(read.dtype.kind in "biu" for read in extras):
        return None  # epilogues read all arrays as floating numbers, which are no conditions
    first = [block(before, {}, {})] if before else []
    text = joined([*first, on_value(definition.expr, k, arrays, numbers)])
    try:
        made = planned(
            device,
            a.primitive,
            (*a.reads, *extras),
            b.writes,
            (*a.numbers, *b.numbers),
            options._replace(epilogue=text),
            a.kept,
            b.line or a.line,
        )
    except (ClprimError, NoPlanError, ValueError):
        return None
    # Winograd's tiles store rows: of images one pixel wide these are elements, not vectors.
    if made.writes[0].shape[-1:] != (1,) or made.writes[0].size <= _FEW:
        return made
    tiles = any(stage.template.startswith("conv/winograd/") for stage in made.plan.stages)
    return None if tiles else made


def _alike(dtype: AnyDType, stored: AnyDType) -> bool:
    """Whether an epilogue sees an array as the node did: its values are those of what is stored."""
    return dtype == stored or (dtype.kind not in "biu" and stored.kind not in "biu")
