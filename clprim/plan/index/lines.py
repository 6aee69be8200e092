"""Plans writing at indices, every line by itself: a work-item takes elements in, one by one.

No two work-items write to one line, so nothing is atomic and results repeat bit for bit; and
nothing is sorted. That suits CPUs, whose cores are few; where many cores have fewer lines, or on
GPUs, indices are sorted instead. A single line is one core's: two that share its places, and pick
their indices out of all, are no faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clprim.dtypes import stored_type
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, Plan
from clprim.plan.machine import LINE, LOOPS
from clprim.plan.parameters import Arguments
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Operand, Space, collapse
from clprim.traits import DeviceTraits

#: Ways to take the element ``v`` into ``y``.
HOW = {
    "sum": "y + v",
    "prod": "y * v",
    "amax": "v > y || v != v ? v : y",
    "amin": "v < y || v != v ? v : y",
    "last": "v",
}
# How many times as long as taking elements in sorting takes them: so few units by one line each.
SORTING = 16

_INT64 = np.dtype(np.int64)


@dataclass(frozen=True)
class LinesCode(KernelCode):
    """What index/lines.cl.jinja prints."""

    value: str  # Type that elements are taken in as
    # All: ``y``, ``index``, ``source`` and, where copied, ``x``; ``inner`` is along the axis, of a
    # single line
    arrays: tuple[OperandCode, ...]
    taken: str  # An expression of ``y`` and ``v``
    single: bool  # Whether a work-item has one line
    copied: bool  # Whether it first copies that line from ``x``, which is then in a near cache
    # Neighbouring lines taken at a time where an index holds for all of them, or elements copied at
    # a time; else 1
    vector: int
    ahead: bool  # Whether places are prefetched before they are written


@dataclass(frozen=True)
class Taken:
    """What is to be done: elements of ``source`` are taken into ``y`` where ``index`` says."""

    y: Operand
    index: Operand
    source: Operand
    axis: int  # Along which
    how: str  # One of `HOW`
    own: Operand | None = None  # What ``y`` holds before, if that lies elsewhere


def plan_lines(what: Taken, traits: DeviceTraits) -> Plan | None:
    """Plans the kernel."""
    # None where it does not suit: on a GPU, with few lines and many cores, sums of 16
    # bits, which would be rounded after every element, or lines in more than four loops.
    y, index, axis, how, own = what.y, what.index, what.axis, what.how, what.own
    narrow = y.dtype.itemsize < 4 and how in ("sum", "prod") and y.dtype.kind not in "iu"
    others = [d for d in range(len(y.shape)) if d != axis]
    lines = math.prod(index.shape[d] for d in others)
    busy = SORTING * lines >= traits.compute_units
    if not traits.is_cpu or narrow or y.dtype.kind == "b" or not busy:
        return None
    copied = own is not None and _copied(own, y, index, axis, lines, traits)
    arrays = (y, index, what.source, own) if copied and own else (y, index, what.source)
    space = _loops(arrays, others)
    if len(space.dims) > LOOPS:
        return None
    run = _run(space, y.strides[axis], y.dtype.itemsize, traits)
    if copied and run > 1:
        return plan_lines(replace(what, own=None), traits)
    return Plan((_kernel(arrays, axis, how, space, run, traits),))


def _loops(arrays: Sequence[Operand], others: Sequence[int]) -> Space:
    """The loops over lines, as the result lies in memory; at least as many as the kernel has."""
    y, index = arrays[:2]
    order = sorted(others, key=lambda d: -abs(y.strides[d]))
    dims = tuple(Dim(index.shape[d], tuple(a.strides[d] for a in arrays)) for d in order)
    space = collapse(Space(dims, tuple(a.offset for a in arrays)), flip=False)
    single = Dim(1, (0,) * len(arrays))
    return Space((single,) * (LOOPS - len(space.dims)) + space.dims, space.offsets)


def _run(space: Space, step: int, itemsize: int, traits: DeviceTraits) -> int:
    """Neighbouring lines that a work-item takes, whose elements are so many bytes apart."""
    # Neighbours in a line of the cache are one work-item's, but where they are of one line.
    *outer, inner = space.dims
    apart = abs(inner.strides[0]) > abs(step)
    items = math.prod(d.size for d in outer)
    run = 1 if apart else max(LINE // itemsize, -(-inner.size * items // traits.compute_units))
    return min(run, inner.size)


def _vector(
    arrays: Sequence[Operand], inner: Dim, run: int, traits: DeviceTraits, *, copied: bool
) -> int:
    """Neighbouring lines that share an index, or elements that are copied at a time; else 1."""
    y, _, source = arrays[:3]
    stored, lanes = stored_type(y.dtype), traits.lanes(y.dtype.itemsize)
    same = stored.load == "direct" and stored.storage == stored.value and source.dtype == y.dtype
    steps = [a.in_elements(s) for a, s in zip(arrays, inner.strides, strict=True)]
    return lanes if copied or (same and run >= lanes and steps == [1, 0, 1]) else 1


def _kernel(
    arrays: Sequence[Operand], axis: int, how: str, space: Space, run: int, traits: DeviceTraits
) -> KernelPlan:
    """The kernel whose work-items take so many lines of these loops each."""
    y, index = arrays[:2]
    *outer, inner = space.dims
    items, copied = math.prod(d.size for d in outer), len(arrays) > 3
    lines = items * inner.size
    longest = max(y.shape[axis], index.shape[axis])
    whole = Space(
        (*space.dims, Dim(longest, tuple(a.strides[axis] for a in arrays))), space.offsets
    )
    kind = index_type(whole)
    found = Arguments(kind)
    along = [a.in_elements(a.strides[axis]) for a in arrays]
    known = along if run == 1 else [2] * len(arrays)
    codes = tuple(
        OperandCode.of(name, a.dtype, _INT64 if name == "index" else y.dtype, step)
        for name, a, step in zip(("y", "index", "source", "x"), arrays, known, strict=False)
    )
    for code in codes:
        found.memory(code.storage, f"{code.name}_memory", read_only=code.name != "y")
    sizes = {f"size_{n}": d.size for n, d in enumerate(space.dims)}
    found.numbers(length=index.shape[axis], places=y.shape[axis], run=run, **sizes)
    for k, (code, a, step) in enumerate(zip(codes, arrays, along, strict=True)):
        numbers = {f"{code.name}_start": a.in_elements(space.offsets[k])}
        for n, d in enumerate(space.dims):
            numbers[f"{code.name}_{n}"] = a.in_elements(d.strides[k])
        if code.inner != "one":
            numbers[f"{code.name}_step"] = step
        found.numbers(**numbers)
    vector = _vector(arrays, inner, run, traits, copied=copied)
    value = stored_type(y.dtype).value
    return KernelPlan(
        "index/lines",
        LinesCode(
            name="index_lines",
            parameters=tuple(found.parameters),
            index=kind,
            doubles=value == "double",
            value=value,
            arrays=codes,
            taken=HOW[how],
            single=run == 1,
            copied=copied,
            vector=vector,
            ahead=run > 1 and vector > 1 and traits.prefetches(y.size * y.dtype.itemsize),
        ),
        tuple(found.arguments),
        (-(-inner.size // run), items),
        (1, 1),
        lines * index.shape[axis] * (2 * y.dtype.itemsize + index.dtype.itemsize),
        lines * index.shape[axis],
    )


def _copied(
    own: Operand, y: Operand, index: Operand, axis: int, lines: int, traits: DeviceTraits
) -> bool:
    """Whether work-items that take lines in can copy them before: all of them, and side by side."""
    every = all(
        n == m or d == axis for d, (n, m) in enumerate(zip(y.shape, index.shape, strict=True))
    )
    dense = own.strides[axis] == y.strides[axis] == y.dtype.itemsize
    shared = lines >= traits.compute_units or y.shape[axis] <= index.shape[axis]
    return every and dense and shared and stored_type(y.dtype).load == "direct"
