"""Attention: products with keys, softmax and products with values, fused without stored scores.

A scale, in front or behind the first product, is attention's own. What is added to scores, and -∞
in the place of some, is its mask: read where it lies, else computed, once where it is made of
constants, in every call in the shape that it has by itself where it is not. What else is made of
scores, element by element, is a string that attention runs. Copies of queries, keys
and values, and one of the result, go: attention reads and writes where these lie. Exponentials and
sums are computed in another way: relative differences are some units in the last place of the
largest term of each sum. A query of whose scores all are -∞ gets zeros, not NaN; a score that is
masked and NaN stays NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from clprim.dtypes import value_dtype
from clprim.graph.graph import Buffer, Graph, Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.attention_scores import (
    Scores,
    factor_of,
    scores_of,
    string_of,
    turned,
)
from clprim.graph.passes.layout.moves import moves_of
from clprim.graph.passes.layout.reshaping import broadcast, in_shape, reshaped
from clprim.graph.passes.rewrite import Rewrite
from clprim.graph.relocation import relocation
from clprim.plan.strides import Operand, dense_strides
from clprim.primitives.attention import ATTENTION, Options
from clprim.primitives.grouped import Grouped
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device
from clprim.traits import DeviceTraits

_EACH = "y0 = exp(x0 - group_y0) * group_y1;"
_FINALIZE = "group_y0 = reduce_y0; group_y1 = 1 / reduce_y1 + (reduce_y0 - reduce_y0);"


def attention(graph: Graph, device: Device) -> Graph:
    """Joins two products and what is between them, where a device has one kernel for them."""
    traits = device.traits
    if not (traits.is_cpu or traits.matrix_units):
        return graph  # GPUs' only kernel of attention multiplies by matrix units
    rewrite, found = Rewrite(graph, device), 0
    for n, node in enumerate(rewrite.nodes):
        if node is not None and _is_product(node, traits):
            found += _join(_Heads(rewrite, n))
        elif node is not None and node.primitive is ATTENTION:
            _write_in_place(_Heads(rewrite, n))
    return rewrite.graph_with(f"attention: {found} pairs of products are one kernel each")


def _is_product(node: Node, traits: DeviceTraits) -> bool:
    """Whether a node is nothing but a product of stacks of matrices, of no halves but by units."""
    if node.primitive.kind != "matmul":
        return False
    a, b = node.reads[:2]
    return (
        len(node.reads) == 2
        and len(node.writes) == 1
        and node.numbers == (0,)
        and node.options.epilogue is None
        and node.options.algorithm == "auto"
        and a.ndim == b.ndim == node.writes[0].ndim > 1
        and a.shape[:-2] == b.shape[:-2]
        and a.dtype == b.dtype == node.writes[0].dtype
        and value_dtype(a.dtype, (a.dtype,)).kind == "f"
        and (a.dtype.itemsize >= 4 or bool(traits.matrix_units))
    )


def _is_softmax(node: Node) -> bool:
    """Whether a node is a softmax along the last axis."""
    primitive = node.primitive
    if not isinstance(primitive, Grouped) or len(node.reads) != 1 or len(node.writes) != 1:
        return False
    told = {name: str(text).strip() for name, text in primitive.form.told.items()}
    problem = node.problem
    return (
        problem.axes == (len(problem.shape) - 1,)
        and node.reads[0].dtype == node.writes[0].dtype
        and not told["expr"]
        and told["each"] == _EACH
        and told["finalize"] == _FINALIZE
    )


class _Source(NamedTuple):
    """Where an operand of a product can be read, and what it is multiplied with then."""

    operand: Operand
    factor: float = 1.0


@dataclass
class _Heads:
    """What may be one attention: nodes from its last product backwards."""

    rewrite: Rewrite
    last: int
    taken: list[int] = field(default_factory=list)

    def node(self, n: int) -> Node:
        """A node that is there."""
        return self.rewrite.node(n)

    def maker(self, n: int, read: Operand) -> int | None:
        """The node whose only result is what the ``n``-th alone reads as ``read``, whole."""
        for maker, k in self.rewrite.lone_makers(n):
            node = self.node(maker)
            if self.node(n).reads[k] is read and len(node.writes) == 1:
                whole = reshaped(node.writes[0], read.shape)
                return maker if whole is not None and same_place(whole, read) else None
        return None

    def source(self, n: int, read: Operand, wanted: Operand) -> _Source:
        """Reads an operand of the ``n``-th node where copies, and multiples, of it are made."""
        found = _Source(wanted)
        while True:
            makers = self.rewrite.lone_makers(n)
            made = [maker for maker, k in makers if self.node(n).reads[k] is read]
            node = self.node(made[0]) if made else None
            if node is None or len(node.writes) != 1 or len(node.reads) != 1:
                return found
            factor = factor_of(node)
            (y,), (x,) = node.writes, node.reads
            if factor is None or x.dtype != y.dtype:
                return found
            whole = broadcast(x, y.shape)
            places = relocation(y, whole)
            place = None if places is None else places(found.operand, whole.memory)
            if place is None:
                return found
            self.taken.append(made[0])
            n, read, found = made[0], x, _Source(place, found.factor * factor)


def _join(heads: _Heads) -> bool:
    """Puts attention in the place of its last product, or of the copy of that one's result."""
    node, rewrite = heads.node(heads.last), heads.rewrite
    softmax = heads.maker(heads.last, node.reads[0])
    if softmax is None or node.options.transpose_a or not _is_softmax(heads.node(softmax)):
        return False
    shape = heads.node(softmax).problem.shape
    heads.taken.append(softmax)
    first = heads.maker(softmax, heads.node(softmax).reads[0])
    if first is None or len(shape) < 2:
        return False
    between, found = first, Scores()
    if isinstance(heads.node(first).primitive, Pointwise):
        wanted = _between(heads, first, shape)
        if wanted is None:
            return False
        heads.taken.append(first)
        first, found = wanted
    if not _is_product(heads.node(first), rewrite.device.traits) or not _fits(heads, first, shape):
        return False
    heads.taken.append(first)
    made = _made(heads, first, shape, found)
    if made is None:
        return False
    attends, end = made
    begin = min(heads.taken)
    for number, read in enumerate(attends.reads):
        since = begin if number < 3 else between
        if rewrite.is_written(buffer_of(read), since + 1, end):
            return False
    for n in {*heads.taken, heads.last, end}:
        rewrite.put(n, attends if n == end else found.maker if n == between else None)
    return True


def _write_in_place(heads: _Heads) -> None:
    """Lets attention that was asked for write to the other end of a copy of its result."""
    node, rewrite = heads.node(heads.last), heads.rewrite
    end, y = _written(heads, node.writes[0])
    if end == heads.last or any(
        rewrite.is_written(buffer_of(read), heads.last + 1, end) for read in node.reads
    ):
        return
    made = replanned(rewrite.device, node, node.reads, (y, *node.writes[1:]))
    if made is not None:
        rewrite.put(heads.last, None)
        rewrite.put(end, made)


def _fits(heads: _Heads, first: int, shape: tuple[int, ...]) -> bool:
    """Whether stacks of both products are those of the scores that softmax sees."""
    a, b = heads.node(first).writes[0], heads.node(heads.last).reads[0]
    stacks = [math.prod(o.shape[:-2]) for o in (a, b)]
    ends = a.shape[-2:] == b.shape[-2:] == shape[-2:]
    return ends and stacks == [math.prod(shape[:-2])] * 2


def _between(heads: _Heads, n: int, shape: tuple[int, ...]) -> tuple[int, Scores] | None:
    """Returns the product behind an affine map of scores, that map's scale and its mask."""
    device = heads.rewrite.device
    node = in_shape(device, heads.node(n), shape)
    if node is None or len(node.writes) != 1 or node.problem.shape != shape:
        return None
    own = heads.node(n)
    for k, read in enumerate(own.reads):
        product = heads.maker(n, read)
        if product is None or not _is_product(heads.node(product), device.traits):
            continue
        found = scores_of(device, node, k) or string_of(node, k)
        return None if found is None else (product, found)
    return None


def _made(
    heads: _Heads, first: int, shape: tuple[int, ...], found: Scores
) -> tuple[Node, int] | None:
    """Returns attention, and in whose place it runs."""
    *batch, queries, _ = shape
    products = heads.node(first), heads.node(heads.last)
    one, two = (node.options for node in products)
    across = one.transpose_a, not one.transpose_b, two.transpose_b
    sources: list[_Source] = []
    given = ((first, 0), (first, 1), (heads.last, 1))
    for (n, number), turns in zip(given, across, strict=True):
        read = heads.node(n).reads[number]
        whole = reshaped(read, (*batch, *read.shape[-2:]))
        if whole is None:
            return None
        sources.append(heads.source(n, read, turned(whole) if turns else whole))
    q, k, v = sources
    y = reshaped(products[1].writes[0], (*batch, queries, v.operand.shape[-1]))
    if y is None or v.factor != 1:
        return None
    end, y = _written(heads, y)
    dtype = value_dtype(y.dtype, (y.dtype,))
    column = (*batch, queries, 1)
    nbytes = math.prod(column) * dtype.itemsize
    strides = dense_strides(column, dtype.itemsize, range(len(column)))
    sums = Operand(column, strides, 0, dtype, (Buffer(nbytes), 0))
    masks = [] if found.mask is None else [found.mask]
    reads = [q.operand, k.operand, v.operand, *masks, *found.arrays]
    told = {"primitive": ATTENTION, "options": Options(score=found.score), "kept": {}}
    told["numbers"] = (found.scale * q.factor * k.factor, *found.numbers)
    made = replanned(heads.rewrite.device, products[1], reads, (y, sums), **told)
    return None if made is None else (made, end)


def _written(heads: _Heads, y: Operand) -> tuple[int, Operand]:
    """Where the result is wanted: at the other end of a copy that alone reads it, or as it is."""
    buffer = buffer_of(y)
    readers = heads.rewrite.uses.readers.get(buffer, [])
    if buffer in heads.rewrite.results or len(readers) != 1:
        return heads.last, y
    moves = moves_of(heads.node(readers[0]))
    if moves is None or len(moves) != 1 or moves[0].read.size != y.size:
        return heads.last, y
    places = relocation(*moves[0])
    place = None if places is None else places(y, moves[0].write.memory)
    return (heads.last, y) if place is None else (readers[0], place)
