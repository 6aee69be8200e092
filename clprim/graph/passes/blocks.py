"""Depthwise convolutions and the 1 × 1 ones around them become one kernel: mobile networks' blocks.

What lies between has several times as many channels as what goes in, and never reaches memory.
Sums of both products are added up in another order: relative differences are some units in the
last place of the largest term of each sum.
"""

from __future__ import annotations

import math
from typing import Any

from clprim.call.block import Settings, block
from clprim.call.primitive import NoPlanError
from clprim.call.product import ContractionPrimitive
from clprim.errors import ClprimError
from clprim.graph.graph import Buffer, Graph, Node, Uses, buffer_of, planned, same_place
from clprim.graph.passes.elementwise import lone_producers
from clprim.language.epilogue import define_epilogue
from clprim.language.rename import renamed
from clprim.runtime.device import Device


def blocks(graph: Graph, device: Device) -> Graph:
    """Joins up to three convolutions."""
    nodes: list[Node | None] = [*graph.nodes]
    results, found, uses = graph.results(), 0, Uses(nodes)
    for n, node in enumerate(nodes):
        if node is None or not _is_product(node):
            continue
        middle = _producer(nodes, uses, n, results)
        between = None if middle is None else nodes[middle]
        if middle is None or between is None or not _is_depthwise(between):
            continue
        first = _producer(nodes, uses, middle, results)
        before = None if first is None else nodes[first]
        made = None
        if first is not None and before is not None and _is_product(before):
            still = all(
                not first < w < n
                for buffer in map(buffer_of, before.reads)
                for w in uses.writers.get(buffer, ())
            )
            made = _joined(device, before, between, node) if still else None
        if made is None:
            first, made = None, _joined(device, None, between, node)
        if made is not None:
            if first is not None:
                uses.change(first, nodes[first], None)
                nodes[first] = None
            uses.join(nodes, middle, n, made)
            found += 1
    if not found:
        return graph
    left = [node for node in nodes if node is not None]
    return graph.with_nodes(left, f"blocks: {found} depthwise convolutions run with 1 x 1 ones")


def _producer(nodes: list[Node | None], uses: Uses, n: int, results: set[Buffer]) -> int | None:
    """The node whose result the ``n``-th is the only one to read, as its first operand."""
    node = nodes[n]
    assert node is not None
    for producer, k in lone_producers(nodes, uses, n, results):
        before = nodes[producer]
        if k == 0 and before is not None and same_place(before.writes[0], node.reads[0]):
            return producer
    return None


def _is_convolution(node: Node) -> bool:
    """Whether a node is a convolution whose weight and bias are constants."""
    if not isinstance(node.primitive, ContractionPrimitive) or node.primitive.what != "conv2d":
        return False
    told, weights = node.options, node.reads[1 : 2 + node.options.bias]
    return (
        len(node.writes) == 1
        and node.writes[0].dtype.itemsize >= 4  # halves would be rounded between
        and told.depth_to_space is None
        and told.algorithm == "auto"
        and node.numbers[0] == 0
        and all(buffer_of(r).frozen and buffer_of(r).weight is not None for r in weights)
    )


def _is_product(node: Node) -> bool:
    if not _is_convolution(node):
        return False
    x, y, told = node.reads[0], node.writes[0], node.options
    return told.groups == 1 and node.reads[1].shape[2:] == (1, 1) and x.shape[2:] == y.shape[2:]


def _is_depthwise(node: Node) -> bool:
    if not _is_convolution(node):
        return False
    x, y = node.reads[0], node.writes[0]
    return node.options.groups == x.shape[1] == y.shape[1] and x.shape[1] > 1


def _joined(device: Device, a: Node | None, b: Node, c: Node) -> Node | None:
    """Returns one node that does what two or three convolutions do."""
    there = [node for node in (a, b, c) if node is not None]
    try:
        texts = [_text(node) for node in there]
    except ValueError:
        return None
    extras = [node.reads[2 + node.options.bias :] for node in there]
    if any(extras[:-1]):
        return None
    names = ("w_expand", "w_depthwise", "w_project")[3 - len(there) :]
    kept: dict[str, Any] = {
        name: buffer_of(node.reads[1]).weight for name, node in zip(names, there, strict=True)
    }
    biases = [node.reads[2] for node in there if node.options.bias]
    reads = (there[0].reads[0], *(n.reads[1] for n in there), *biases, *extras[-1])
    told = Settings(
        a is not None,
        a is not None and a.options.bias,
        b.options.bias,
        c.options.bias,
        b.options.stride,
        b.options.padding,
        b.options.dilation,
        (texts[0], texts[-2]),
        False,
        "auto",
        texts[-1],
        len(extras[-1]),
    )
    try:
        return planned(device, block(), reads, c.writes, (), told, kept, c.line or b.line)
    except (ClprimError, NoPlanError, ValueError):
        return None


def _text(node: Node) -> str | None:
    """Returns a convolution's epilogue with its numbers in it.

    Raises:
        ValueError: They cannot be written down.
    """
    text = node.options.epilogue
    numbers = [float(number) for number in node.numbers[1:]]
    if text is None or not numbers:
        return text  # type: ignore[no-any-return]
    if not all(map(math.isfinite, numbers)) or "typeof_w" in str(text):
        raise ValueError("numbers that C has no literal for")
    literals = {f"w{n}": f"({number!r})" for n, number in enumerate(numbers)}
    return renamed(define_epilogue(node.primitive.what, text), literals)
