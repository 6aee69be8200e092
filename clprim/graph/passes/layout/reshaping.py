"""Nodes over other shapes of the same elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from clprim.graph.graph import Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.snippets import knows_no_place, pointwise
from clprim.graph.relocation import relocation
from clprim.language.rename import renamed
from clprim.plan.strides import Operand, broadcast_strides, broadcasts_to
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device


def reshaped(operand: Operand, shape: tuple[int, ...]) -> Operand | None:
    """Returns an operand's elements in another shape; None where no strides say that."""
    if math.prod(shape) != operand.size or not operand.size:
        return None
    old = [(n, s) for n, s in zip(operand.shape, operand.strides, strict=True) if n != 1]
    strides: list[int] = []
    rest = [*shape]
    while rest:
        if rest[0] == 1:
            strides.append(0)
            del rest[0]
            continue
        # As many dimensions of each as have equally many elements, walked by one stride.
        n = m = 1
        size, (have, step) = rest[0], old[0]
        while size != have:
            if size < have:
                size *= rest[n]
                n += 1
            else:
                if old[m - 1][1] != old[m][0] * old[m][1]:
                    return None
                have, step = have * old[m][0], old[m][1]
                m += 1
        strides += [step * math.prod(rest[d + 1 : n]) for d in range(n)]
        del rest[:n], old[:m]
    return replace(operand, shape=shape, strides=tuple(strides))


def in_bytes(operand: Operand, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides of an operand that is broadcast to a shape."""
    return tuple(s * operand.dtype.itemsize for s in broadcast_strides(operand, shape))


def broadcast(operand: Operand, shape: tuple[int, ...]) -> Operand:
    """Returns an operand that is broadcast to a shape."""
    return replace(operand, shape=shape, strides=in_bytes(operand, shape))


def in_shape(device: Device, node: Node, shape: tuple[int, ...]) -> Node | None:
    """Returns an elementwise node that computes the same elements in another shape."""
    own: tuple[int, ...] = node.problem.shape
    if own == shape:
        return node
    expr = node.primitive.definition.expr  # type: ignore[attr-defined]
    if expr.lookups or expr.dims or "coord" in expr.used:
        return None
    operands = (*node.writes, *node.reads)
    if not all(broadcasts_to(operand.shape, own) for operand in operands):
        return None
    return _over(device, node, shape, [reshaped(broadcast(o, own), shape) for o in operands])


def in_place_of(device: Device, node: Node, operand: Operand, place: Operand) -> Node | None:
    """Returns an elementwise node that sees an operand of its as another one, or a part of it.

    It computes those elements alone then, in the shape and order of that one.
    """
    own: tuple[int, ...] = node.problem.shape
    found = in_shape(device, node, place.shape) if operand.size == place.size else None
    if found is not None and any(same_place(o, place) for o in (*found.reads, *found.writes)):
        return found
    operands = (*node.writes, *node.reads)
    if not knows_no_place(node.primitive.definition):  # type: ignore[attr-defined]
        return None
    if not all(broadcasts_to(each.shape, own) for each in operands):
        return None
    whole = broadcast(operand, own)
    moved: list[Operand | None] = []
    for n, each in enumerate(operands):
        places = relocation(whole, broadcast(each, own))
        if places is None or (n < len(node.writes) and not places.keeps_order):
            return None
        there = places(place, each.memory)
        moved.append(there and replace(there, dtype=each.dtype))
    return _over(device, node, place.shape, moved)


def of_whole_numbers(device: Device, node: Node, y: Operand) -> Node:
    """Returns an elementwise node that reads complex numbers where it read views of their parts."""
    found = [*node.reads]
    names: dict[str, str] = {}
    for n, read in enumerate(node.reads):
        if buffer_of(read) is not buffer_of(y) or read.dtype.kind == "c" or y.dtype.kind != "c":
            continue
        behind = (read.offset - y.offset) % y.dtype.itemsize
        names[f"x{n}"] = f"{'imag' if behind else 'real'}(x{n})"
        found[n] = replace(read, dtype=y.dtype, offset=read.offset - behind)
    if not names or not isinstance(node.primitive, Pointwise):
        return node
    expr, types = node.primitive.definition.expr, tuple(w.dtype for w in node.writes)
    if expr.lookups or any(f"typeof_{name}" in expr.words for name in names):
        return node
    given = node.primitive.definition.preamble, node.primitive.definition.name
    primitive = pointwise(renamed(expr, names), types, *given)
    told = {"primitive": primitive, "options": node.problem.shape}
    return replanned(device, node, found, node.writes, **told) or node


def _over(
    device: Device, node: Node, shape: tuple[int, ...], operands: Sequence[Operand | None]
) -> Node | None:
    """Returns an elementwise node over other results and arrays, of a shape."""
    found = [operand for operand in operands if operand is not None]
    if len(found) < len(operands):
        return None
    count = len(node.writes)
    return replanned(device, node, found[count:], found[:count], options=shape)
