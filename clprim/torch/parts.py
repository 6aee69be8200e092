"""Parts of PyTorch's graphs: what runs on the device as one replay, and what the host runs."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx

from clprim.torch import private
from clprim.torch.tensors import is_lazy

_LIES = "clprim_lies"
#: What programs look at, of all that is noted of nodes.
NOTES = (_LIES, "stack_trace")
_FILE = re.compile(r'File "(.*)", line (\d+)')
# What hands a state of random numbers from a forward pass on to a backward pass.
STATES = private.rng_operators()
# Takes the state of random numbers as tensors of the host.
_ATTENDS = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default
# What returns a number of what a tensor holds.
_READS = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default}


class Lies(NamedTuple):
    """What programs look at of what PyTorch tells of a node's tensor; it goes to disk."""

    device: str
    strides: tuple[int, ...] | None
    lazy: bool


def note(graph: fx.Graph) -> None:
    """Notes of every node how its tensors lie, where that is not noted yet."""
    for node in graph.nodes:
        if _LIES not in node.meta:
            value = node.meta.get("val")
            several = isinstance(value, (list, tuple))
            node.meta[_LIES] = [*map(_lies, value)] if several else _lies(value)


def _lies(value: Any) -> Lies | None:
    if not isinstance(value, torch.Tensor):
        return None
    known = all(isinstance(step, int) for step in value.stride())
    return Lies(value.device.type, tuple(value.stride()) if known else None, is_lazy(value))


def lies_of(node: fx.Node) -> Lies | list[Lies | None] | None:
    """Returns how a node's tensor lies, or each of several; None for what is none."""
    found: Lies | list[Lies | None] | None = node.meta.get(_LIES)
    return found


@dataclass
class Part:
    """Nodes of a graph that run one after another."""

    traced: bool
    nodes: list[fx.Node]
    reads: list[fx.Node] = field(default_factory=list)
    makes: list[fx.Node] = field(default_factory=list)


def is_random(node: fx.Node) -> bool:
    """Whether a node draws random numbers."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or node.target in STATES


def is_written(node: fx.Node) -> bool:
    """Whether a node writes to one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def devices_of(node: fx.Node) -> set[str]:
    """Returns the kinds of devices that a node's tensors are on."""
    found = lies_of(node)
    return {f.device for f in (found if isinstance(found, list) else [found]) if f is not None}


def parts_of(graph: fx.Graph, *, everywhere: bool) -> list[Part]:
    """Returns the parts of a graph, as few as the order of its nodes allows."""
    nodes = [n for n in graph.nodes if n.op not in ("placeholder", "output")]
    kinds: dict[fx.Node, bool | None] = {}
    for node in nodes:
        # A result of several is where all of them are.
        whole = node.args[0] if node.target is operator.getitem else None
        kinds[node] = kinds[whole] if whole in kinds else _is_traced(node, everywhere)
    first = next((k for k, node in enumerate(nodes) if is_written(node)), len(nodes))
    body, end = nodes[:first], nodes[first:]
    ordered = _scheduled(body, kinds)
    if all(is_written(n) and all(u.op == "output" for u in n.users) for n in end):
        # Each writes to an argument of its own.
        last = bool(ordered) and kinds[ordered[-1]]
        end = sorted(end, key=lambda node: kinds[node] is not last)
    found: list[Part] = []
    for node in (*ordered, *end):
        kind = kinds[node]
        if not found or (kind is not None and kind is not found[-1].traced):
            found.append(Part(kind is not False, []))
        found[-1].nodes.append(node)
    return connected(found, graph)


def _is_traced(node: fx.Node, everywhere: bool) -> bool | None:
    """Whether a node is traced; None for arithmetic of sizes, which is where its neighbours are."""
    if node.target in _READS or node.target in STATES or _drops_out(node):
        return False
    if everywhere:
        return True
    found = devices_of(node)
    if not found:
        found = {kind for other in node.all_input_nodes for kind in devices_of(other)}
    return private.NAME in found if found else None


def _drops_out(node: fx.Node) -> bool:
    """Whether a node draws the numbers again that its forward pass drew, by a state of the host."""
    if node.target is not _ATTENDS:
        return False
    names = [a.name for a in _ATTENDS._schema.arguments]
    return bool(node.args[names.index("dropout_p")])


def takes_numbers(node: fx.Node) -> bool:
    """Whether a value is a number of the host for all that take it, although PyTorch's tensor."""
    return bool(node.users) and all(user.target is _ATTENDS for user in node.users)


def _scheduled(nodes: Sequence[fx.Node], kinds: dict[fx.Node, bool | None]) -> list[fx.Node]:
    """Returns nodes in an order that changes as seldom as may be between device and host."""
    waits: dict[fx.Node, set[fx.Node]] = {}
    inside, before = set(nodes), None
    for node in nodes:
        waits[node] = {n for n in node.all_input_nodes if n in inside}
        if is_random(node):
            if before is not None:
                waits[node].add(before)
            before = node
    done: dict[fx.Node, None] = {}
    left, kind = [*nodes], False
    while left:
        rest = []
        for node in left:
            if kinds[node] in (kind, None) and all(n in done for n in waits[node]):
                done[node], kinds[node] = None, kind
            else:
                rest.append(node)
        left, kind = rest, not kind
    return [*done]


def connected(parts: Iterable[Part], graph: fx.Graph) -> list[Part]:
    """Fills in what parts take and make, in the order of their nodes."""
    found = [*parts]
    output = next(n for n in graph.nodes if n.op == "output")
    wanted = set(output.all_input_nodes)
    for part in reversed(found):
        inside = set(part.nodes)
        part.makes = [n for n in part.nodes if n in wanted]
        reads = {n: None for node in part.nodes for n in node.all_input_nodes if n not in inside}
        part.reads = [*reads]
        wanted |= set(part.reads)
    return found


def split(parts: list[Part], place: int, node: fx.Node, graph: fx.Graph) -> list[Part]:
    """Returns parts of which one is cut at a node, which runs on the host."""
    part = parts[place]
    n = part.nodes.index(node)
    results = [u for u in node.users if u.target is operator.getitem]
    after = [other for other in part.nodes[n + 1 :] if other not in results]
    cut = [Part(True, part.nodes[:n]), Part(False, [node, *results]), Part(True, after)]
    return connected([*parts[:place], *(p for p in cut if p.nodes), *parts[place + 1 :]], graph)


def line_of(node: fx.Node) -> str:
    """Returns the line of the model that a node is of, as ``file:line``."""
    found = _FILE.findall(node.stack_trace or "")
    return ":".join(found[-1]) if found else ""
