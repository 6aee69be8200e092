"""What a backward pass computes again of a batch norm's input, instead of it being kept.

A network of convolutions keeps what each makes, for the batch norm behind it. What follows up to
the next convolution, a norm by known statistics, an activation, a sum, costs one pass to compute
again, and is most of what else would be kept. Along a chain of residuals every other sum is kept,
so that no more than one is computed again for another.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

_aten = torch.ops.aten
_NORMS = {
    _aten._native_batch_norm_legit_functional.default,
    _aten._native_batch_norm_legit.no_stats,
    _aten.native_batch_norm.default,
}
_APPLIED = _aten.batch_norm_elemt.default
_CHEAP = {
    _aten.relu.default, _aten.hardtanh.default, _aten.silu.default, _aten.hardswish.default,
    _aten.leaky_relu.default, _aten.gelu.default, _aten.elu.default, _aten.mul.Tensor,
    _aten.add.Tensor,
}  # fmt: skip
# Sums that may lie between what is kept and what is computed again.
_MOST_SUMS = 1
# A factor of this part of an image's elements, or fewer, is small.
_SMALL = 8


def partition_with(cut: Callable[..., Any]) -> Callable[..., Any]:
    """Returns how forward and backward pass are told apart."""

    def partition(joint: fx.GraphModule, inputs: Any, **options: Any) -> Any:
        norms = _taken_apart(joint.graph)
        if norms:
            _mark(joint.graph)
        forward, backward = cut(joint, inputs, **options)
        if norms:
            _put_together(forward)
        return forward, backward

    return partition


def _taken_apart(graph: fx.Graph) -> bool:
    """Lets results of norms be computed from their statistics, which are kept anyhow."""
    found = False
    for node in [n for n in graph.nodes if n.target in _NORMS]:
        named = {a.name: v for a, v in zip(node.target._schema.arguments, node.args, strict=False)}
        named |= node.kwargs
        parts = {u.args[1]: u for u in node.users if u.target is operator.getitem}
        if named["training"] is not True or not {0, 1, 2} <= parts.keys():
            continue
        norms = named["weight"], named["bias"], parts[1], parts[2], named["eps"]
        last = max(parts[k] for k in (0, 1, 2))
        with graph.inserting_after(last):
            again = graph.call_function(_APPLIED, (named["input"], *norms))
        again.meta = {**parts[0].meta}
        parts[0].replace_all_uses_with(again)
        found = True
    return found


def _put_together(module: fx.GraphModule) -> None:
    """Takes the results of norms from the norms again, in a forward pass."""
    graph = module.graph
    for node in [n for n in graph.nodes if n.target is _APPLIED]:
        norm = node.args[3].args[0] if node.args[3].target is operator.getitem else None
        if norm is None or norm.target not in _NORMS:
            continue
        with graph.inserting_after(norm):
            result = graph.call_function(operator.getitem, (norm, 0))
        result.meta = {**node.meta}
        node.replace_all_uses_with(result)
        graph.erase_node(node)
    module.recompile()


def _mark(graph: fx.Graph) -> None:
    """Says of the results of norms, and of what is made of them, whether they are made again."""
    behind = _backward_nodes(graph)
    sums: dict[fx.Node, int] = {}
    for node in graph.nodes:
        if node not in behind and (found := _sums(node, sums, behind)) is not None:
            sums[node] = found
    wanted: set[fx.Node] = set()
    for node in reversed(sums):
        if any(user in behind or user in wanted for user in node.users):
            wanted.add(node)
            node.meta["recompute"] = CheckpointPolicy.PREFER_RECOMPUTE


def _backward_nodes(graph: fx.Graph) -> set[fx.Node]:
    found: set[fx.Node] = set()
    for node in graph.nodes:
        given = node.op == "placeholder" and "tangents" in node.name
        if given or any(n in found for n in node.all_input_nodes):
            found.add(node)
    return found


def _sums(node: fx.Node, known: dict[fx.Node, int], behind: set[fx.Node]) -> int | None:
    """How many sums of images lead to a node from what is kept; None where it is kept itself."""
    if "recompute" in node.meta:  # the user said so
        return None
    if node.target is _APPLIED:
        return 0
    if node.target not in _CHEAP:
        return None
    images = [n for n in node.all_input_nodes if n in known]
    size = _elements(node)
    for other in node.all_input_nodes:
        small = _elements(other) * _SMALL <= size
        if other not in known and not small and not any(u in behind for u in other.users):
            return None
    if not images:
        return None
    found = max(known[n] for n in images) + (node.target is _aten.add.Tensor)
    return found if found <= _MOST_SUMS else None


def _elements(node: fx.Node) -> int:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return 0
    count = 1
    for size in value.shape:
        count *= size if isinstance(size, int) else size.node.hint or 1
    return count
