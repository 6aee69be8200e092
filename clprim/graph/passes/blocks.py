"""Depthwise convolutions and the 1 × 1 ones around them become one kernel: mobile networks' blocks.

What lies between has several times as many channels as what goes in, and never reaches memory.
Sums of both products are added up in another order: relative differences are some units in the
last place of the largest term of each sum.
"""

from __future__ import annotations

import math
from typing import Any, TypeGuard

from clprim.call.primitive import NoPlanError
from clprim.errors import ClprimError
from clprim.graph.graph import Graph, Node, Uses, buffer_of, planned
from clprim.graph.passes.elementwise import lone_producer
from clprim.language.epilogue import define_epilogue
from clprim.language.rename import renamed
from clprim.primitives.block import Settings, block
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device


def blocks(graph: Graph, device: Device) -> Graph:
    """Joins two or three convolutions."""
    nodes: list[Node | None] = [*graph.nodes]
    results, found, uses = graph.results(), 0, Uses(nodes)
    for n, node in enumerate(nodes):
        middle = lone_producer(nodes, uses, n, results) if _is_product(node) else None
        if middle is None or not _is_depthwise(nodes[middle]):
            continue
        first = lone_producer(nodes, uses, middle, results)
        if first is not None and _is_product(nodes[first]):
            found += _join(device, nodes, uses, (first, middle, n))
    for n, node in enumerate(nodes):
        first = lone_producer(nodes, uses, n, results) if _is_depthwise(node) else None
        if first is not None and _is_product(nodes[first]):
            found += _join(device, nodes, uses, (first, n))
    if not found:
        return graph
    left = [node for node in nodes if node is not None]
    return graph.with_nodes(left, f"blocks: {found} depthwise convolutions run with 1 x 1 ones")


def _join(device: Device, nodes: list[Node | None], uses: Uses, places: tuple[int, ...]) -> bool:
    """Puts one node in the place of the last one, if it can do what all do."""
    parts = [node for m in places if (node := nodes[m]) is not None]
    begin, end = places[0], places[-1]
    written = {w for r in parts[0].reads for w in uses.writers.get(buffer_of(r), ())}
    made = None if any(begin < w < end for w in written) else _joined(device, parts)
    if made is None:
        return False
    for m in places:
        new = made if m == end else None
        uses.change(m, nodes[m], new)
        nodes[m] = new
    return True


def _is_convolution(node: Node | None) -> TypeGuard[Node]:
    """Whether a node is a convolution whose weight and bias are constants."""
    if node is None or not isinstance(node.primitive, ContractionPrimitive):
        return False
    if node.primitive.what != "conv2d":
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


def _is_product(node: Node | None) -> bool:
    if not _is_convolution(node):
        return False
    x, y, told = node.reads[0], node.writes[0], node.options
    return told.groups == 1 and node.reads[1].shape[2:] == (1, 1) and x.shape[2:] == y.shape[2:]


def _is_depthwise(node: Node | None) -> bool:
    if not _is_convolution(node):
        return False
    x, y = node.reads[0], node.writes[0]
    return node.options.groups == x.shape[1] == y.shape[1] and x.shape[1] > 1


def _joined(device: Device, parts: list[Node]) -> Node | None:
    """Returns one node that does what two or three convolutions do."""
    *first, extras = [node.reads[2 + node.options.bias :] for node in parts]
    projects = len(parts) == 3
    if any(first) or (extras and not projects):
        return None
    try:
        texts = [*map(_text, parts)]
    except ValueError:
        return None
    biases = [bool(node.options.bias) for node in parts]
    reads = (
        parts[0].reads[0],
        *(node.reads[1] for node in parts),
        *(node.reads[2] for node in parts if node.options.bias),
        *extras,
    )
    names = zip(("w_expand", "w_depthwise", "w_project"), parts, strict=False)
    kept: dict[str, Any] = {name: buffer_of(node.reads[1]).weight for name, node in names}
    options = parts[1].options
    told = Settings(
        expands=True,
        b_expand=biases[0],
        b_depthwise=biases[1],
        b_project=projects and biases[2],
        stride=options.stride,
        padding=options.padding,
        dilation=options.dilation,
        activations=(texts[0], texts[1]),
        residual=False,
        algorithm="auto",
        epilogue=texts[2] if projects else None,
        extras=len(extras),
        projects=projects,
    )
    line = next(filter(None, (node.line for node in reversed(parts))), "")
    try:
        return planned(device, block(), reads, parts[-1].writes, (), told, kept, line)
    except (ClprimError, NoPlanError, ValueError):
        return None


def _text(node: Node) -> str | None:
    """Returns a convolution's epilogue with its numbers in it."""
    text = node.options.epilogue
    numbers = [float(number) for number in node.numbers[1:]]
    if text is None or not numbers:
        return text  # type: ignore[no-any-return]
    if not all(map(math.isfinite, numbers)) or "typeof_w" in str(text):
        raise ValueError("numbers that C has no literal for")
    literals = {f"w{n}": f"({number!r})" for n, number in enumerate(numbers)}
    return renamed(define_epilogue(node.primitive.what, text), literals)
