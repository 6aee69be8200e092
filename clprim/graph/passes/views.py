"""Nodes over other shapes of the same elements."""

from __future__ import annotations

import math
from dataclasses import replace

from clprim.call.primitive import NoPlanError
from clprim.errors import ClprimError
from clprim.graph.graph import Node, planned
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


def in_shape(device: Device, node: Node, shape: tuple[int, ...]) -> Node | None:
    """Returns an elementwise node that computes the same elements in another shape."""
    if node.problem.shape == shape:
        return node
    primitive = node.primitive
    assert isinstance(primitive, Pointwise)
    expr = primitive.definition.expr
    if expr.lookups or expr.dims or "coord" in expr.used:
        return None
    own: tuple[int, ...] = node.problem.shape
    operands = []
    for operand in (*node.writes, *node.reads):
        if not broadcasts_to(operand.shape, own):
            return None
        whole = replace(operand, shape=own, strides=in_bytes(operand, own))
        found = reshaped(whole, shape)
        if found is None:
            return None
        operands.append(found)
    writes, reads = operands[: len(node.writes)], operands[len(node.writes) :]
    try:
        return planned(device, primitive, reads, writes, node.numbers, shape, line=node.line)
    except (ClprimError, NoPlanError, ValueError):
        return None
