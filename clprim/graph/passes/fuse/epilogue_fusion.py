"""Epilogue fusion: an elementwise node runs where what makes its array stores that.

Contractions, transforms and groups do.

Sums, and groups' elements, reach it in the precision that they are calculated in. All else keeps
its bits, unless another strategy computes the contraction with its epilogue. What others
read of groups, as gradients read what was activated, is stored besides. What reductions and groups
add up is stored in 16 bits where it is read to be converted alone.
"""

from __future__ import annotations

from typing import Any

from clprim.dtypes import AnyDType
from clprim.graph.graph import Graph, Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.group_fusion import fuses, given_results, with_epilogue
from clprim.graph.passes.fuse.snippets import behind_epilogue, on_value
from clprim.graph.passes.fuse.transform_strings import with_store
from clprim.graph.passes.layout.moves import fills_part
from clprim.graph.passes.layout.reshaping import reshaped
from clprim.graph.passes.rewrite import Rewrite
from clprim.primitives.fourier import Fourier
from clprim.primitives.grouped import Grouped
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import Device

# Elements whose functions, one by one, take less time than a launch.
_FEW = 1 << 10


def epilogue_fusion(graph: Graph, device: Device) -> Graph:
    """Moves elementwise nodes into the stores of contractions, of transforms and of groups."""
    rewrite, joins, groups = Rewrite(graph, device), 0, 0
    for n, node in enumerate(rewrite.nodes):
        if node is None or not isinstance(node.primitive, Pointwise) or fills_part(node):
            continue
        if rewrite.into_makers(n, _fused):
            joins += 1
        else:
            groups += _in_groups(rewrite, n) or _converted(rewrite, n)
    counts = {"contractions and transforms": joins, "groups": groups}
    notes = [f"epilogue fusion: {m} elementwise nodes run in {w}" for w, m in counts.items() if m]
    return rewrite.graph_with(*notes)


def _in_groups(rewrite: Rewrite, n: int) -> bool:
    """Moves an elementwise node into the groups whose elements it reads."""
    node = rewrite.node(n)
    for maker, k in rewrite.makers(n):
        before = rewrite.node(maker)
        if not isinstance(before.primitive, Grouped) or not fuses(before):
            continue
        if not rewrite.can_sink(maker, n):
            continue
        again = not rewrite.is_read_by(n, buffer_of(node.reads[k]))
        made = with_epilogue(rewrite.device, before, node, k, again=again)
        if made is not None:
            rewrite.join(maker, n, made)
            return True
    return False


def _converted(rewrite: Rewrite, n: int) -> bool:
    """Lets what reduces store a result as a node converts it."""
    node = rewrite.node(n)
    copies = node.primitive.definition.copies_each  # type: ignore[attr-defined]
    if not copies or len(node.writes) != 1 or node.writes[0].dtype.itemsize != 2:
        return False
    (x,), (y,) = node.reads, node.writes
    for maker, _ in rewrite.lone_makers(n):
        before = rewrite.node(maker)
        groups, writes = isinstance(before.primitive, Grouped), [*before.writes]
        if not groups and not isinstance(before.primitive, Reduction):
            continue
        m = next(m for m, w in enumerate(writes) if buffer_of(w) is buffer_of(x))
        whole, place = reshaped(writes[m], x.shape), reshaped(y, writes[m].shape)
        fits = whole is not None and same_place(whole, x) and x.dtype == before.problem.value
        if not fits or place is None:
            continue
        writes[m] = place
        told = {"options": given_results(before.options)} if groups else {}
        made = replanned(rewrite.device, before, before.reads, writes, **told)
        if made is not None:
            rewrite.join(maker, n, made)
            return True
    return False


def _fused(device: Device, a: Node, b: Node, k: int) -> Node | None:
    """Returns a contraction or a transform that does what follows it; None where it cannot."""
    if isinstance(a.primitive, Fourier):
        return with_store(device, a, b, k)
    options: Any = a.options
    if not isinstance(a.primitive, ContractionPrimitive) or not hasattr(options, "epilogue"):
        return None
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
    extras = [read for n, read in enumerate(b.reads) if n != k]
    if any(read.dtype.kind in "biu" for read in extras):
        return None  # epilogues read all arrays as floating numbers, which are no conditions

    def after(arrays: int, numbers: int) -> str:
        return on_value(definition.expr, k, arrays, numbers)

    told = {"options": behind_epilogue(a, after), "numbers": (*a.numbers, *b.numbers)}
    told["line"] = b.line or a.line
    made = replanned(device, a, (*a.reads, *extras), b.writes, **told)
    # Winograd's tiles store rows: of images one pixel wide these are elements, not vectors.
    if made is None or made.writes[0].shape[-1:] != (1,) or made.writes[0].size <= _FEW:
        return made
    tiles = any(stage.template.startswith("conv/winograd/") for stage in made.plan.stages)
    return None if tiles else made


def _alike(dtype: AnyDType, stored: AnyDType) -> bool:
    """Whether an epilogue sees an array as the node did: its values are those of what is stored."""
    return dtype == stored or (dtype.kind not in "biu" and stored.kind not in "biu")
