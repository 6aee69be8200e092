"""Inverted residuals: depthwise convolutions and the 1 × 1 ones around them become one kernel.

What lies between has several times as many channels as what goes in, and never reaches memory.
Sums of both products are added up in another order: relative differences are some units in the
last place of the largest term of each sum.
"""

from __future__ import annotations

import math
from typing import Any, TypeGuard

from clprim.graph.graph import Graph, Node, buffer_of, replanned
from clprim.graph.passes.rewrite import Rewrite
from clprim.language.epilogue_snippet import define_epilogue
from clprim.language.rename import renamed
from clprim.primitives.block import Settings, block
from clprim.runtime.device import Device


def inverted_residuals(graph: Graph, device: Device) -> Graph:
    """Joins two or three convolutions."""
    rewrite, found = Rewrite(graph, device), 0
    for n, node in enumerate(rewrite.nodes):
        middle = rewrite.lone_maker(n) if _is_product(node) else None
        if middle is None or not _is_depthwise(rewrite.nodes[middle]):
            continue
        first = rewrite.lone_maker(middle)
        if first is not None and _is_product(rewrite.nodes[first]):
            found += _join(rewrite, first, middle, n)
    for n, node in enumerate(rewrite.nodes):
        first = rewrite.lone_maker(n) if _is_depthwise(node) else None
        if first is not None and _is_product(rewrite.nodes[first]):
            found += _join(rewrite, first, n)
    note = f"inverted residuals: {found} depthwise convolutions run with 1 x 1 ones"
    return rewrite.graph_with(note)


def _join(rewrite: Rewrite, *places: int) -> bool:
    """Puts one node in the place of the last one, if it can do what all do."""
    parts = [rewrite.node(m) for m in places]
    *before, end = places
    if any(rewrite.is_written(buffer_of(r), before[0] + 1, end) for r in parts[0].reads):
        return False
    made = _joined(rewrite.device, parts)
    if made is None:
        return False
    for m in before:
        rewrite.put(m, None)
    rewrite.put(end, made)
    return True


def _is_convolution(node: Node | None) -> TypeGuard[Node]:
    """Whether a node is a convolution whose weight and bias are constants."""
    if node is None or node.primitive.kind != "conv":
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
    changed = {"primitive": block(), "numbers": (), "options": told, "kept": kept, "line": line}
    return replanned(device, parts[-1], reads, parts[-1].writes, **changed)


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
