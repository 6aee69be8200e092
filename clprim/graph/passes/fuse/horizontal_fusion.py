"""Horizontal fusion: reductions of the same data along the same axes become one kernel.

Of means and greatest elements, sums of x and of x², users' own. The second runs where the first
does, or the first where the second does, whichever order of the nodes between allows. What is
added up is added up in the same order, as the one kernel has to cut its loops like the others;
where nothing is computed, as of greatest elements, the order is free, so that of 0 and -0 another
may be taken. All else keeps its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.graph.graph import Buffer, Graph, Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.group_fusion import primitive_of
from clprim.graph.passes.fuse.snippets import MOST_ARRAYS, block, both_preambles, joined, number_in
from clprim.graph.passes.rewrite import Rewrite
from clprim.language.combine import is_selection
from clprim.plan.strides import Operand
from clprim.primitives.reduction import Options, Reduction, keep_axes
from clprim.runtime.device import Device

# Partials of one kernel: with more they spill registers.
_MOST_PARTIALS = 8
# Of a kernel: what decides in which order elements of a result are taken, and in which type.
_CODE = "vector lanes rows partial row_a_split exact levels fours endless chain combine_vectors"
_NUMBERS = frozenset(["n", "length", "chunk", "width", "outputs", "splits"])


def horizontal_fusion(graph: Graph, device: Device) -> Graph:
    """Joins reductions that read the same array."""
    rewrite, joins = Rewrite(graph, device), 0
    for n in range(len(rewrite.nodes)):
        while _join(rewrite, n):
            joins += 1
    note = f"horizontal fusion: {joins} reductions run with others of the same data"
    return rewrite.graph_with(note)


def _join(rewrite: Rewrite, n: int) -> bool:
    """Joins a reduction with one before it; both run where one of them does."""
    node = rewrite.nodes[n]
    if node is None or not _is_plain(node):
        return False
    before = {m for r in node.reads for m in rewrite.uses.readers[buffer_of(r)] if m < n}
    for m in sorted(before, reverse=True):
        other = rewrite.node(m)
        if not _is_plain(other) or not _fits(other, node):
            continue
        sinks = rewrite.can_sink(m, n)
        made = _joined(rewrite.device, other, node) if sinks or rewrite.can_rise(m, n) else None
        if made is not None:
            rewrite.join(*((m, n) if sinks else (n, m)), made)
            return True
    return False


def _is_plain(node: Node) -> bool:
    """Whether a node is a reduction of numbers whose results are stored as they are."""
    if not isinstance(node.primitive, Reduction) or node.changed:
        return False
    definition = node.primitive.definition
    pairs = any("pairs" in stage.template for stage in node.plan.stages)
    scaled = any(s.kind != "plain" for s in node.problem.scaling)
    positions = any(s.dims or s.lookups or "index" in s.used for s in definition.snippets)
    return not (pairs or scaled or positions or definition.draws)


def _fits(a: Node, b: Node) -> bool:
    """Whether two reductions walk the same loops and read one array alike, all of it."""
    one, other = a.problem, b.problem
    if (one.shape, one.axes) != (other.shape, other.axes):
        return False
    written: set[Buffer] = {buffer_of(w) for w in a.writes}
    if any(buffer_of(o) in written for o in (*b.reads, *b.writes)):
        return False
    if any(buffer_of(w) in {buffer_of(r) for r in a.reads} for w in b.writes):
        return False
    if len(one.partials) + len(other.partials) > _MOST_PARTIALS:
        return False
    return any(r.shape == one.shape and any(same_place(r, s) for s in b.reads) for r in a.reads)


def _joined(device: Device, a: Node, b: Node) -> Node | None:
    """Returns the node that does both; None where it would add up in another order."""
    first, second = a.primitive.definition, b.primitive.definition  # type: ignore[attr-defined]
    reads: list[Operand] = [*a.reads]
    names: dict[str, str] = {f"w{n}": f"w{n + first.scalars}" for n in range(second.scalars)}
    for n, read in enumerate(b.reads):
        names[f"x{n}"] = f"x{number_in(reads, read)}"
    for n in range(second.partials):
        for family in ("reduce_y", "other_y"):
            names[f"{family}{n}"] = f"{family}{n + first.partials}"
    preamble = both_preambles(first.snippets[0], second.snippets[0])
    if preamble is None or len(reads) + len(a.writes) + len(b.writes) > MOST_ARRAYS:
        return None
    values = {f"y{n}": f"y{n + first.values}" for n in range(second.values)}
    told: dict[str, Any] = {
        part: joined(
            [
                block(getattr(first, part), {}, {}),
                block(getattr(second, part), names | values, {}),
            ]
        )
        for part in ("expr", "init", "step", "combine")
    }
    if first.finalize is not None or second.finalize is not None:
        results = {f"y{n}": f"y{n + first.results}" for n in range(second.results)}
        counts = first.results, first.partials
        behind = [_finalized(first, {}, 0, 0), _finalized(second, names | results, *counts)]
        told["finalize"] = joined(behind)
    writes = [
        keep_axes(w, n.problem.axes, keepdims=Options(*n.options).keepdims)
        for n in (a, b)
        for w in n.writes
    ]
    partials = (*a.problem.partials, *b.problem.partials)
    told |= {
        "name": "_".join(dict.fromkeys([*first.name.split("_"), *second.name.split("_")])),
        "preamble": preamble,
        "result_type": [str(w.dtype) for w in writes],
        "partial_type": [str(p) for p in partials],
    }
    options = Options(a.problem.axes, keepdims=True)
    line = a.line or b.line
    found = primitive_of("Reduction", told)
    changed = {"primitive": found, "numbers": (*a.numbers, *b.numbers), "options": options}
    made = found and replanned(device, a, reads, writes, line=line, **changed)
    return made if made is not None and _keeps(made, (a, b)) else None


def _finalized(definition: Any, names: dict[str, str], results: int, partials: int) -> Any:
    """What makes results of partials, with other names."""
    if definition.finalize is not None:
        return block(definition.finalize, names, {})
    return "".join(f"y{n + results} = reduce_y{n + partials};\n" for n in range(definition.results))


def _keeps(made: Node, parts: Sequence[Node]) -> bool:
    """Whether a kernel of several computes each as its own does, and as wide."""
    if _types([made]) != _types(parts):
        return False
    known = _order(made)
    for part in parts:
        own = _order(part)
        definition = part.primitive.definition  # type: ignore[attr-defined]
        free = is_selection(definition.combine) or all(
            p.kind in "biu" for p in part.problem.partials
        )
        if own != known and not (free and _width(part) <= _width(made)):
            return False
    return True


def _width(node: Node) -> int:
    """Elements of a vector."""
    return node.plan.stages[0].code.vector  # type: ignore[attr-defined,no-any-return]


def _order(node: Node) -> list[Any]:
    """What tells two orders of adding up apart, and the loops."""
    found: list[Any] = []
    for stage in node.plan.stages:
        code: Any = stage.code
        names = [p.declaration.rpartition(" ")[2] for p in code.parameters]
        given = zip(names, stage.arguments, strict=True)
        sizes = {name: n for name, n in (*given, *code.constants) if _is_size(name)}
        side = 0 if stage.template == "reduction/columns" else code.unroll
        found.append((stage.template, side, sizes, [getattr(code, f) for f in _CODE.split()]))
    return found


def _is_size(name: str) -> bool:
    return name in _NUMBERS or (name[0] in "kr" and name[1:].isdecimal())


def _types(nodes: Sequence[Node]) -> tuple[Any, ...]:
    """Which types nodes compute in, part by part."""
    codes: list[Any] = [(node.plan.stages[0].code, node.plan.stages[-1].code) for node in nodes]
    reads = {
        (buffer_of(read), read.offset, x.value)
        for node, (code, _) in zip(nodes, codes, strict=True)
        for read, x in zip(node.reads, code.inputs, strict=True)
    }
    return (
        reads,
        {code.doubles for code, _ in codes},
        [kind for code, _ in codes for _, kind in code.values],
        [p.value for code, _ in codes for p in code.partials],
        [w.value for code, _ in codes for w in code.scalars],
        [y.value for _, code in codes for y in code.results],
    )
