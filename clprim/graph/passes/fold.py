"""Affine maps of channels behind a convolution go into its weight and bias, as batch norms do.

Products of the weight with the scales are rounded once more: relative differences are some units
in the last place of the largest term of each sum.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import full
from clprim.call.primitive import NoPlanError
from clprim.errors import ClprimError
from clprim.graph.graph import Graph, Node, Uses, buffer_of, planned, same_place
from clprim.graph.passes.affine import is_affine
from clprim.graph.passes.constants import array_of, constant_of
from clprim.graph.passes.elementwise import lone_producers
from clprim.graph.store import kept_with
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.runtime.device import Device

# The channels' axis of the weight.
_AXES = {"conv2d": 0, "conv_transpose2d": 1}


def fold(graph: Graph, device: Device) -> Graph:
    """Folds scales and shifts that are constants into convolutions before them."""
    nodes: list[Node | None] = [*graph.nodes]
    results, joins, uses = graph.results(), 0, Uses(nodes)
    for n, node in enumerate(nodes):
        if node is None or not isinstance(node.primitive, Pointwise) or len(node.writes) != 1:
            continue
        for producer, k in lone_producers(nodes, uses, n, results):
            before = nodes[producer]
            assert before is not None
            made = _folded(device, before, node, k)
            if made is not None:
                uses.join(nodes, producer, n, made)
                joins += 1
                break
    if not joins:
        return graph
    left = [node for node in nodes if node is not None]
    return graph.with_nodes(left, f"fold: {joins} affine maps are in weights and biases")


def _folded(device: Device, a: Node, b: Node, k: int) -> Node | None:
    """Returns the convolution of both nodes; None where there is none."""
    options: Any = a.options
    axis = _AXES.get(a.primitive.what)
    if not isinstance(a.primitive, ContractionPrimitive) or axis is None or a.numbers[0]:
        return None
    definition = b.primitive.definition  # type: ignore[attr-defined]
    place, shape = a.writes[0], a.writes[0].shape
    others = [r for n, r in enumerate(b.reads) if n != k]
    known = [*others, a.reads[1], *([a.reads[2]] if options.bias else [])]
    channels = shape[1]
    fits = (
        options.epilogue is None
        and options.depth_to_space is None
        and not (axis and options.groups != 1)
        and place.dtype.kind == "f"
        and place.dtype == b.writes[0].dtype
        and same_place(place, b.reads[k])
        and b.writes[0].shape == shape
        and all(buffer_of(r).frozen for r in known)
        and all(_of_channels(r, channels) for r in others)
        and not (definition.expr.lookups or definition.expr.dims or definition.draws)
        and "index" not in definition.expr.used
        and is_affine(definition.expr, f"x{k}")
    )
    if not fits:
        return None

    def make() -> tuple[Operand, Operand]:
        return _made(device, a, b, k, axis)

    weights = [buffer_of(r).weight for r in known]
    key = b.primitive, k, repr(b.numbers), tuple(known), options.bias
    try:
        w, bias = kept_with([x for x in weights if x is not None], key, make)
        reads = (a.reads[0], w, bias)
        told = options._replace(bias=True)
        kept = {} if (weight := buffer_of(w).weight) is None else {"w": weight}
        rest = a.numbers, told, kept, a.line or b.line
        return planned(device, a.primitive, reads, b.writes, *rest)
    except (ClprimError, NoPlanError, ValueError, TypeError):
        return None


def _of_channels(operand: Operand, channels: int) -> bool:
    """Whether an operand varies with channels alone, where it broadcasts to images."""
    sizes = (1,) * (4 - operand.ndim) + operand.shape
    return operand.ndim <= 4 and sizes in ((1, channels, 1, 1), (1, 1, 1, 1))


def _made(device: Device, a: Node, b: Node, k: int, axis: int) -> tuple[Operand, Operand]:
    """Returns the weight and the bias that do what both nodes do."""
    map_: Any = b.primitive
    channels = a.writes[0].shape[1]
    column = 1, channels, 1, 1

    def of(operand: Operand) -> Array:
        return array_of(device, operand, buffer_of(operand))

    zeros = full(column, 0, a.writes[0].dtype)
    arrays = [zeros if n == k else of(r) for n, r in enumerate(b.reads)]
    shift = map_(*arrays, *b.numbers, shape=column)
    scale = _slope(map_, f"x{k}")(*arrays, *b.numbers, grad=full(column, 1, shift.dtype))
    w = of(a.reads[1])
    steps = [0] * 4
    steps[axis] = scale.strides[1]
    sizes = tuple(channels if d == axis else 1 for d in range(4))
    along = view_of(scale, sizes, tuple(steps), scale.offset)
    weight = _scaled()(w, along)
    flat = [view_of(v, (channels,), (v.strides[1],), v.offset) for v in (scale, shift)]
    bias = _shifted()(of(a.reads[2]), *flat) if a.options.bias else flat[1].copy()
    return constant_of(weight), constant_of(bias)


@lru_cache(maxsize=256)
def _slope(map_: Any, name: str) -> Any:
    """Returns the gradient of a map; networks have one of them many times."""
    return map_.gradient(wrt=(name,))


@lru_cache(maxsize=1)
def _scaled() -> Pointwise:
    return Pointwise("y0 = x0 * x1;", name="fold_weight")


@lru_cache(maxsize=1)
def _shifted() -> Pointwise:
    return Pointwise("y0 = x0 * x1 + x2;", name="fold_bias")
