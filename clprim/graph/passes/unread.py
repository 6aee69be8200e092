"""Results of elementwise nodes that nobody reads are not stored, such as positions of a pooling."""

from __future__ import annotations

from clprim.call.primitive import NoPlanError
from clprim.errors import ClprimError
from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, planned
from clprim.graph.passes.elementwise import kind_of, pointwise
from clprim.graph.passes.strings import block, fresh, joined
from clprim.language.unused import without_unused
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device


def unread(graph: Graph, device: Device) -> Graph:
    """Lets elementwise nodes store no more than what is read or returned."""
    uses, results, dropped = Uses(graph.nodes), graph.results(), 0
    nodes: list[Node] = []
    for node in graph.nodes:
        kept = [n for n, w in enumerate(node.writes) if _is_wanted(uses, results, buffer_of(w))]
        made = None
        if isinstance(node.primitive, Pointwise) and 0 < len(kept) < len(node.writes):
            made = storing(device, node, kept)
        dropped += len(node.writes) - len(kept) if made else 0
        nodes.append(made or node)
    note = f"unread: {dropped} results are not stored"
    return graph.with_nodes(nodes, note) if dropped else graph


def _is_wanted(uses: Uses, results: set[Buffer], buffer: Buffer) -> bool:
    temporary = buffer.kind == "temporary" and buffer not in results
    return not temporary or buffer in uses.readers or len(uses.writers[buffer]) > 1


def storing(device: Device, node: Node, kept: list[int]) -> Node | None:
    """Returns an elementwise node that stores some of the results; None where there is none."""
    definition = node.primitive.definition  # type: ignore[attr-defined]
    local = fresh([definition.expr.text])
    writes = tuple(node.writes[n] for n in kept)
    names = {f"y{n}": f"y{m}" for m, n in enumerate(kept)}
    kinds: dict[str, str] = {}
    for n, write in enumerate(node.writes):
        if n not in kept:
            kind = kind_of(write.dtype, writes, node.reads)
            if kind is None or (write.dtype.itemsize < 4 and write.dtype.kind in "biu"):
                return None
            names[f"y{n}"] = f"{local}_{n}"
            kinds[f"{local}_{n}"] = kind
    declared = [f"{kind} {name} = 0;\n" for name, kind in kinds.items()]
    text = joined([*declared, block(definition.expr, names, kinds)])
    try:
        types = tuple(w.dtype for w in writes)
        given = definition.preamble, definition.name
        primitive = pointwise(text, types, *given)
        # What they alone were computed of would keep other results from vectors.
        needed = without_unused(primitive.definition.expr)
        primitive = pointwise(needed.text, types, *given)
        reads = [node.reads[n] for n in needed.arrays]
        numbers = [node.numbers[n] for n in needed.numbers]
        shape, scalars = node.problem.shape, node.problem.scalars
        made = planned(device, primitive, reads, writes, numbers, shape, line=node.line)
    except (ClprimError, NoPlanError, ValueError):
        return None
    return made if made.problem.scalars == tuple(scalars[n] for n in needed.numbers) else None
