"""How scores of attention are made of a product: a scale, and a mask that is added.

A mask may be numbers that are added, or a condition where scores are -∞ without it. What is neither
is a string on scores, which attention runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from clprim.arrays.creation import full
from clprim.dtypes import AnyDType
from clprim.graph.graph import Buffer, Node, buffer_of, replanned
from clprim.graph.passes.fuse.affine import is_affine, is_masked
from clprim.graph.passes.fuse.snippets import knows_no_place, on_value
from clprim.graph.passes.layout.moves import moves_of
from clprim.graph.passes.layout.reshaping import broadcast
from clprim.graph.passes.simplify.constant_folding import array_of, constant_of, made_once
from clprim.plan.fused.score import Score
from clprim.plan.strides import Operand, dense_strides
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device


class Scores(NamedTuple):
    """How the scores that softmax reads are made of a product's."""

    scale: float = 1.0
    mask: Operand | None = None
    maker: Node | None = None
    # A string, of arrays in the shape of scores and numbers
    score: Score | None = None
    arrays: tuple[Operand, ...] = ()
    numbers: tuple[float, ...] = ()


def string_of(node: Node, k: int) -> Scores | None:
    """Returns an elementwise node as a string on scores, its ``k``-th array; None if it is none."""
    read, shape = node.reads[k], node.problem.shape
    expr = node.primitive.definition.expr  # type: ignore[attr-defined]
    others = [r for m, r in enumerate(node.reads) if m != k]
    whole = {r.dtype for r in others if r.dtype.kind in "biu"}
    # A string's numbers are floats: where it has other integers, or two, these may be divided.
    odd = sum(not isinstance(n, float) for n in node.numbers)
    fits = (
        read.shape == shape
        and node.writes[0].dtype == read.dtype
        and all(r.dtype == read.dtype or r.dtype in whole for r in others)
        and len(whole) < 2
        and odd <= (not (whole or expr.dims))
        and not (expr.lookups or expr.draws or expr.preamble.text or "index" in expr.used)
        and sum(buffer_of(r) is buffer_of(read) for r in node.reads) == 1
    )
    if not fits:
        return None
    score = Score(on_value(expr, k), batch=shape[:-2], first=1)
    arrays = tuple(broadcast(r, shape) for r in others)
    return Scores(score=score, arrays=arrays, numbers=tuple(map(float, node.numbers)))


def scores_of(device: Device, node: Node, k: int) -> Scores | None:
    """Returns the scale and the mask of an elementwise node; None where it does something else."""
    read, shape = node.reads[k], node.problem.shape
    definition = node.primitive.definition  # type: ignore[attr-defined]
    others = [r for m, r in enumerate(node.reads) if m != k]
    choices = [m for m, r in enumerate(node.reads) if r.dtype.kind in "biu"]
    names = [f"x{m}" for m in range(len(node.reads)) if m not in choices]
    fits = (
        node.reads[k].shape == shape
        and all(r.dtype == read.dtype or r.dtype.kind in "biu" for r in others)
        and knows_no_place(definition)
        and k in definition.expr.numbers("x")
        and is_masked(definition.expr, names, [f"x{m}" for m in choices], node.numbers)
    )
    scale = _scale(node, k, choices) if fits else None
    if scale is None:
        return None
    if not others:
        shifted = _shift(node.primitive, node.numbers, read.dtype)
        return None if shifted else Scores(scale)
    if all(buffer_of(r).frozen for r in others):
        return Scores(scale, _mask(device, node, k, shape))
    if len(others) == 1 and not choices and _is_plain_sum(node, 1 - k, read.dtype):
        return Scores(scale, broadcast(others[0], shape))
    made = _masking(device, node, k)
    return None if made is None else Scores(scale, broadcast(made.writes[0], shape), made)


def _scale(node: Node, k: int, choices: Sequence[int]) -> float | None:
    """Returns what scores are multiplied with where they are not masked; None if unknown."""
    types = tuple(r.dtype for r in node.reads)
    for chosen in product((0, 1), repeat=min(len(choices), 4)):
        given = dict(zip(choices, chosen, strict=False))
        zero, one = (_value(node.primitive, {**given, k: x}, node.numbers, types) for x in (0, 1))
        slope = one - zero
        if math.isfinite(slope) and slope:
            return slope
    return None


def _is_plain_sum(node: Node, other: int, dtype: AnyDType) -> bool:
    """Whether a map adds an array to scores as it is."""
    numbers = node.numbers
    return not _shift(node.primitive, numbers, dtype) and (
        _slope(node.primitive, other, numbers, dtype) == 1
    )


def _own_shape(node: Node, k: int) -> tuple[int, ...]:
    """The shape that a mask has by itself, with all dimensions of the scores."""
    dims = len(node.problem.shape)
    sizes = [(1,) * (dims - r.ndim) + r.shape for m, r in enumerate(node.reads) if m != k]
    return tuple(max(n) for n in zip(*sizes, strict=True))


def _masking(device: Device, node: Node, k: int) -> Node | None:
    """Returns what computes a mask: what a node makes of scores of 0, queries side by side."""
    own = _own_shape(node, k)
    order = (*range(len(own) - 2), len(own) - 1, len(own) - 2)
    dtype = node.writes[0].dtype
    zero = constant_of(full((1,) * len(own), 0, node.reads[k].dtype))
    reads = [zero if m == k else r for m, r in enumerate(node.reads)]
    buffer = Buffer(math.prod(own) * dtype.itemsize)
    strides = dense_strides(own, dtype.itemsize, order)
    mask = Operand(own, strides, 0, dtype, (buffer, 0))
    return replanned(device, node, reads, (mask,), options=own)


def _mask(device: Device, node: Node, k: int, shape: tuple[int, ...]) -> Operand:
    """Returns what a node adds to scores, a constant whose queries lie side by side."""
    others = [r for m, r in enumerate(node.reads) if m != k]
    dims, own = len(shape), _own_shape(node, k)
    map_: Any = node.primitive

    def make() -> tuple[Operand]:
        zeros = full((1,) * dims, 0, node.writes[0].dtype)
        arrays = [zeros if m == k else array_of(device, r) for m, r in enumerate(node.reads)]
        order = (*range(dims - 2), dims - 1, dims - 2)
        return (constant_of(map_(*arrays, *node.numbers, shape=own).transpose(*order).copy()),)

    key = "attention's mask", node.primitive, k, repr(node.numbers), tuple(others)
    return broadcast(turned(made_once(others, key, make)[0]), shape)


def turned(operand: Operand) -> Operand:
    """Returns a stack of matrices, transposed."""
    shape, strides = operand.shape, operand.strides
    return replace(
        operand,
        shape=(*shape[:-2], shape[-1], shape[-2]),
        strides=(*strides[:-2], strides[-1], strides[-2]),
    )


def factor_of(node: Node) -> float | None:
    """Returns what a node multiplies its only array with; None where it does something else."""
    primitive = node.primitive
    if moves_of(node) is not None:
        return 1.0
    if not isinstance(primitive, Pointwise) or node.writes[0].shape != node.problem.shape:
        return None
    definition = primitive.definition
    if not knows_no_place(definition) or not is_affine(definition.expr, "x0"):
        return None
    if _shift(primitive, node.numbers, node.reads[0].dtype):
        return None
    return _slope(primitive, 0, node.numbers, node.reads[0].dtype)


@lru_cache(maxsize=256)
def _values(
    map_: Any, given: tuple[tuple[int, int], ...], numbers: tuple[Any, ...], types: tuple[Any, ...]
) -> float:
    """What a map makes of some arrays, by number, that are no 0."""
    values = dict(given)
    arrays = [full((1,), values.get(n, 0), dtype) for n, dtype in enumerate(types)]
    return float(map_(*arrays, *numbers).get()[0])


def _value(
    map_: Any, given: dict[int, int], numbers: tuple[Any, ...], types: tuple[Any, ...]
) -> float:
    return _values(map_, tuple(given.items()), numbers, types)


def _shift(map_: Any, numbers: tuple[Any, ...], dtype: AnyDType) -> float:
    return _value(map_, {}, numbers, (dtype,) * map_.inputs)


def _slope(map_: Any, k: int, numbers: tuple[Any, ...], dtype: AnyDType) -> float | None:
    """Returns the scale of an affine map in an array, the same everywhere."""
    slope = _value(map_, {k: 1}, numbers, (dtype,) * map_.inputs) - _shift(map_, numbers, dtype)
    return slope if math.isfinite(slope) and slope else None
