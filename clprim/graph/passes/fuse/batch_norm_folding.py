"""Batch norms, and other affine maps of channels, are folded into the convolution before them.

Products of the weight with the scales are rounded once more: relative differences are some units
in the last place of the largest term of each sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any

from clprim.arrays.array import Array, view_of
from clprim.arrays.creation import full
from clprim.dtypes import AnyDType
from clprim.errors import ClprimError
from clprim.graph.graph import Graph, Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.affine import is_affine
from clprim.graph.passes.fuse.snippets import knows_no_place
from clprim.graph.passes.layout.reshaping import in_bytes
from clprim.graph.passes.rewrite import Rewrite
from clprim.graph.passes.simplify.constant_folding import array_of, constant_of, made_once
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device

# The channels' axis of the weight, by the kind of convolution.
_AXES = {"conv": 0, "conv_transpose": 1}
# Returns a column of so many channels that holds a number.
_Filled = Callable[[int, int, AnyDType], Array]


def batch_norm_folding(graph: Graph, device: Device) -> Graph:
    """Folds scales and shifts that are constants into convolutions before them."""
    rewrite, joins = Rewrite(graph, device), 0

    @cache
    def filled(channels: int, value: int, dtype: AnyDType) -> Array:
        return full((1, channels, 1, 1), value, dtype)

    for n, node in enumerate(rewrite.nodes):
        if node is not None and isinstance(node.primitive, Pointwise) and len(node.writes) == 1:
            joins += rewrite.into_makers(n, partial(_folded, filled))
    return rewrite.graph_with(f"batch norm folding: {joins} affine maps are in weights and biases")


def _folded(filled: _Filled, device: Device, a: Node, b: Node, k: int) -> Node | None:
    """Returns the convolution of both nodes; None where there is none."""
    options: Any = a.options
    axis = _AXES.get(a.primitive.kind)
    if axis is None or a.numbers[0]:
        return None
    definition = b.primitive.definition  # type: ignore[attr-defined]
    place, shape = a.writes[0], a.writes[0].shape
    columns = [None if n == k else _column(r, shape) for n, r in enumerate(b.reads)]
    others = [column for column in columns if column is not None]
    known = [*others, a.reads[1], *([a.reads[2]] if options.bias else [])]
    fits = (
        options.epilogue is None
        and options.depth_to_space is None
        and not (axis and options.groups != 1)
        and place.dtype.kind == "f"
        and place.dtype == b.writes[0].dtype
        and same_place(place, b.reads[k])
        and b.writes[0].shape == shape
        and len(others) == len(b.reads) - 1
        and all(buffer_of(r).frozen for r in known)
        and knows_no_place(definition)
        and is_affine(definition.expr, f"x{k}")
    )
    if not fits:
        return None

    def make() -> tuple[Operand, Operand]:
        return _made(filled, device, a, b, columns, axis)

    key = b.primitive, k, repr(b.numbers), tuple(known), options.bias
    try:
        w, bias = made_once(known, key, make)
    except (ClprimError, ValueError, TypeError):
        return None
    told = {"options": options._replace(bias=True), "line": a.line or b.line}
    told["kept"] = {} if (weight := buffer_of(w).weight) is None else {"w": weight}
    return replanned(device, a, (a.reads[0], w, bias), b.writes, **told)


def _column(operand: Operand, shape: tuple[int, ...]) -> Operand | None:
    """Returns what varies with channels alone as (1, C, 1, 1); None where more does."""
    steps = in_bytes(operand, shape)
    if any(step for d, step in enumerate(steps) if d != 1 and shape[d] > 1):
        return None
    channels = shape[1] if steps[1] else 1
    return replace(operand, shape=(1, channels, 1, 1), strides=(0, steps[1], 0, 0))


def _made(
    filled: _Filled, device: Device, a: Node, b: Node, columns: list[Operand | None], axis: int
) -> tuple[Operand, Operand]:
    """Returns the weight and the bias that do what both nodes do."""
    map_: Any = b.primitive
    channels = a.writes[0].shape[1]
    column = 1, channels, 1, 1

    def of(operand: Operand) -> Array:
        return array_of(device, operand)

    arrays = [filled(channels, 0, a.writes[0].dtype) if r is None else of(r) for r in columns]
    shift = map_(*arrays, *b.numbers, shape=column)
    scale = _slope(map_, f"x{columns.index(None)}")(
        *arrays, *b.numbers, grad=filled(channels, 1, shift.dtype)
    )
    w = of(a.reads[1])
    steps = [0] * 4
    steps[axis] = scale.strides[1]
    sizes = tuple(channels if d == axis else 1 for d in range(4))
    along = view_of(scale, sizes, tuple(steps), scale.offset)
    weight = _scaled()(w, along)
    flat = [view_of(v, (channels,), (v.strides[1],), v.offset) for v in (scale, shift)]
    bias = _shifted()(of(a.reads[2]), *flat) if a.options.bias else flat[1]
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
