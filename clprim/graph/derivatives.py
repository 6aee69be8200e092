"""Gradients of the calls of primitives that users' strings make, and of pieces put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from clprim.arrays.array import Array, array_over, new_array
from clprim.call.primitive import run
from clprim.errors import DefinitionError
from clprim.gradients.request import is_floating
from clprim.graph.backward import DERIVATIVES, Call, Derivative
from clprim.graph.graph import Node
from clprim.plan.strides import Operand, dense_strides, memory_order
from clprim.primitives.fourier import Fourier, elementwise, transform
from clprim.primitives.fourier import Options as Transformed
from clprim.primitives.grouped import Grouped
from clprim.primitives.grouped import Options as GroupedOptions
from clprim.primitives.pairs import Pairs
from clprim.primitives.pieces import PiecesPrimitive
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Options as ReductionOptions
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import current_device

Gradients = Sequence[Array | None]
_SCALE = Pointwise("y0 = x0 * w0;", name="scale")


@lru_cache(maxsize=1024)
def _gradient(primitive: Any, names: tuple[str, ...], saves: tuple[str, ...] = ()) -> Any:
    return primitive.gradient(names, **({"saves": saves} if saves else {}))


def _names(call: Call) -> tuple[str, ...]:
    return tuple(f"x{n}" for n, wanted in enumerate(call.wanted) if wanted)


def _in_order(call: Call, found: Any) -> Gradients:
    """The gradients of what is wanted in places of the arrays that were read."""
    made = iter(found if isinstance(found, tuple) else (found,))
    return [next(made) if wanted else None for wanted in call.wanted]


def _arrays(call: Call, gradient: Any) -> list[Array]:
    """The arrays that a call read; of some only the shape matters."""
    read = _read(call, gradient)
    return [call.read(n) if n in read else call.like(n) for n in range(len(call.node.reads))]


def _of_pointwise(call: Call) -> Gradients:
    node, names = call.node, _names(call)
    gradient = _gradient(node.primitive, names)
    saves = tuple(f"y{n}" for n, y in enumerate(node.writes) if is_floating(y.dtype))
    # Results are there anyway; what they were computed of then need not be.
    of_results = _gradient(node.primitive, names, saves)
    if _read(call, of_results) < _read(call, gradient):
        gradient = of_results
    else:
        saves = ()
    saved = tuple(call.written(int(name[1:])) for name in saves)
    arrays = [*_arrays(call, gradient), *node.numbers]
    return _in_order(call, gradient(*arrays, grad=tuple(call.grads), saved=saved))


def _read(call: Call, gradient: Any) -> set[int]:
    """Numbers of the arrays that a gradient reads."""
    pairs = {f"x{n}" for n, o in enumerate(call.node.reads) if o.dtype.kind == "c"}
    pairs |= {f"w{n}" for n, w in enumerate(call.node.numbers) if isinstance(w, complex)}
    told = [frozenset(pairs)] if pairs else []
    return {n for n in range(len(call.node.reads)) if gradient.reads(f"x{n}", *told)}


def _of_reduction(call: Call) -> Gradients:
    node = call.node
    options = ReductionOptions(*node.options)
    count = len(node.writes)
    alpha, beta = (
        tuple(v) if isinstance(v, tuple | list) else (v,) * count
        for v in (options.alpha, options.beta)
    )
    grads = list(call.grads)
    for n, grad in enumerate(call.grads):
        if grad is None:
            continue
        if beta[n]:
            call.add(node.writes[n], _SCALE(grad, beta[n]))
        if alpha[n] != 1:
            grads[n] = _SCALE(grad, alpha[n])
    plain = all(a == 1 for a in alpha) and not any(beta)
    saves = tuple(f"y{n}" for n in range(count)) if plain else ()
    gradient = _gradient(node.primitive, _names(call), saves)
    if saves and gradient.reduces:  # all of it: results are of no use
        saves, gradient = (), _gradient(node.primitive, _names(call))
    arrays = [call.read(n) for n in range(len(node.reads))]
    numbers = node.numbers[: node.primitive.scalars]  # type: ignore[attr-defined]
    saved = tuple(map(call.written, range(len(saves))))
    how = {"axis": options.axis, "keepdims": options.keepdims, "saved": saved}
    return _in_order(call, gradient(*arrays, *numbers, grad=tuple(grads), **how))


def _of_groups(call: Call) -> Gradients:
    node = call.node
    options: GroupedOptions = node.options
    count = node.primitive.definition.results  # type: ignore[attr-defined]
    if any(g is not None for g in call.grads[count:]):
        raise DefinitionError("values of groups that keep= returns have no gradient")
    kept = [n for n, wanted in enumerate(options.keep) if wanted is not None]
    saves = tuple(f"group_y{n}" for n in kept)
    gradient = _gradient(node.primitive, _names(call), saves)
    saved = tuple(call.written(count + n) for n in range(len(kept)))
    grads = tuple(call.grads[:count])
    arrays = [*_arrays(call, gradient), *node.numbers]
    return _in_order(call, gradient(*arrays, grad=grads, axis=options.axis, saved=saved))


def _places(node: Node) -> Sequence[Operand]:
    """Where pieces go, or the whole result where a number is between them."""
    (y,) = node.writes
    return node.writes if node.options.filled else [*_parts(y, node)]


def _parts(y: Operand, node: Node) -> list[Operand]:
    found = []
    for piece, start in zip(node.reads, node.options.starts, strict=True):
        offset = y.offset + sum(s * b for s, b in zip(y.strides, start, strict=True))
        found.append(Operand(piece.shape, y.strides, offset, y.dtype, y.memory))
    return found


def _of_pieces(call: Call) -> Gradients:
    node = call.node
    options = node.options
    if not options.filled:
        return call.grads
    (grad,) = call.grads
    assert grad is not None
    device = current_device()
    if options.cut is not None:
        order = memory_order(grad.shape, [grad.strides])
        strides = dense_strides(grad.shape, grad.dtype.itemsize, order)
        out = new_array(device, grad.shape, grad.dtype, strides, grad.size)
        return run(node.primitive, (grad,), (0,), (out,), options)
    operand = Operand(grad.shape, grad.strides, grad.offset, grad.dtype)
    return [
        array_over(device, grad.base_data, p.shape, p.dtype, p.strides, p.offset, p.size)
        for p in _parts(operand, node)
    ]


def _of_pairs(call: Call) -> Gradients:
    node = call.node
    gradient = _gradient(node.primitive, _names(call))
    arrays = [call.read(n) for n in range(len(node.reads))]
    (axis,) = node.options
    return _in_order(call, gradient(*arrays, *node.numbers, grad=tuple(call.grads), axis=axis))


def _of_transform(call: Call) -> Gradients:
    """The transform with the other sign of what is wanted of the result, the rest of which is 0.

    Of a real array it is the real part of that; of half a spectrum every number that stands for
    two counts twice.
    """
    options: Transformed = call.node.options
    x, (grad,) = call.node.reads[0], call.grads
    axis, n = options.axis, options.n
    kept = min(x.shape[axis], n // 2 + 1 if options.half else n)
    adjoint = Transformed(n, axis, not options.inverse, kept, False, False, options.pairs)
    found: Any = transform(grad, adjoint, call.node.numbers[0])
    if options.half:
        twice = found[(slice(None),) * axis + (slice(1, (n + 1) // 2),)]
        _SCALE(twice, 2.0, out=twice)
    if options.pairs:
        found = found[..., : x.shape[-1]]
    elif x.dtype.kind != "c":
        found = found.real
    call.add(replace(x, shape=found.shape), found)  # what was cut off has none
    return None, None


def _strings_apart(node: Node, reads: Sequence[Array], writes: Sequence[Array]) -> bool:
    """Notes a transform and the strings that it runs as nodes of their own."""
    options: Transformed = node.options
    if not (options.load or options.store):
        return False
    x, _, *arrays = reads
    scale, *numbers = node.numbers
    first, count = options.arrays, options.numbers
    if options.load:
        x = elementwise("load", options.load)(x, *arrays[:first], *numbers[:count])
    y = transform(x, options._replace(load="", store="", arrays=0, numbers=0), scale)
    store = elementwise("store", options.store or "y0 = x0;")
    store(y, *arrays[first:], *numbers[count:], out=writes[0])
    return True


DERIVATIVES[Fourier] = Derivative(_of_transform, instead=_strings_apart)
DERIVATIVES[Pairs] = Derivative(_of_pairs)
DERIVATIVES[Pointwise] = Derivative(_of_pointwise)
DERIVATIVES[Reduction] = Derivative(_of_reduction)
DERIVATIVES[Grouped] = Derivative(_of_groups)
DERIVATIVES[PiecesPrimitive] = Derivative(_of_pieces, _places)
