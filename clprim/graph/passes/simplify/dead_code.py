"""Dead-code elimination: of nodes, and of results that elementwise nodes need not store."""

from __future__ import annotations

from clprim.errors import ClprimError
from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, replanned
from clprim.graph.passes.fuse.snippets import block, fresh, joined, kind_of, pointwise
from clprim.language.unused import without_unused
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device


def dead_code(graph: Graph, device: Device) -> Graph:
    """Drops nodes that write temporaries alone, none of which is read later or returned.

    What draws random numbers stays, as the next draw depends on how many there were.
    """
    del device
    wanted: set[Buffer] = graph.results()
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.draws or any(b in wanted or b.kind != "temporary" for b in node.written):
            kept.append(node)
            wanted.update(node.read)
    dropped = len(graph.nodes) - len(kept)
    note = f"dead code: {dropped} nodes dropped"
    return graph.with_nodes(kept[::-1], note) if dropped else graph


def dead_stores(graph: Graph, device: Device) -> Graph:
    """Lets elementwise nodes store no more than what is read or returned."""
    uses, results, dropped = graph.uses, graph.results(), 0
    nodes: list[Node] = []
    for node in graph.nodes:
        kept = [n for n, w in enumerate(node.writes) if _is_wanted(uses, results, buffer_of(w))]
        made = None
        if isinstance(node.primitive, Pointwise) and 0 < len(kept) < len(node.writes):
            made = storing(device, node, kept)
        dropped += len(node.writes) - len(kept) if made else 0
        nodes.append(made or node)
    note = f"dead stores: {dropped} results are not stored"
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
    types = tuple(w.dtype for w in writes)
    given = types, definition.preamble, definition.name
    try:
        # What they alone were computed of would keep other results from vectors.
        needed = without_unused(pointwise(text, *given).definition.expr)
        primitive = pointwise(needed.text, *given)
    except (ClprimError, ValueError):
        return None
    reads = [node.reads[n] for n in needed.arrays]
    numbers = [node.numbers[n] for n in needed.numbers]
    told = {"primitive": primitive, "numbers": numbers, "options": node.problem.shape}
    made = replanned(device, node, reads, writes, **told)
    scalars = tuple(node.problem.scalars[n] for n in needed.numbers)
    return made if made is not None and made.problem.scalars == scalars else None
