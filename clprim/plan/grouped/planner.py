"""Plans kernels that sum groups of elements up and then map them, while they are in a near cache.

A normalisation reads its input twice: for the statistics of a group, and to apply them. Where the
elements of a group lie in runs and fit a core's second cache, one work-item does both, and memory
is read once:

    sums    of terms of every element                     Σ (x - origin), Σ (x - origin)²
    values  of the group, from the sums                   mean, 1 / deviation
    each    element again, with the values                (x - mean) / deviation

The three are snippets of a `Pointwise` each. Groups that are neighbours in memory, as channels of
NHWC, are not for this: a few of their columns, rows apart, share few sets of a cache, and a vector
at a time is no way to read memory (0.5 to 1.1 times as fast as two passes, on two cores).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clprim.dtypes import AnyDType, stored_type, value_dtype
from clprim.language.definition import PointwiseDefinition
from clprim.language.names import UNIFIED
from clprim.plan.kernel import (
    Argument,
    Buffer,
    KernelCode,
    KernelPlan,
    OperandCode,
    Parameter,
    Scalar,
    index_type,
    own_names,
    unified_functions,
)
from clprim.plan.strides import Dim, Operand, Space, broadcast_strides, collapse, memory_order
from clprim.traits import DeviceTraits

__all__ = ["Grouped", "GroupedCode", "PartCode", "plan_grouped"]

# Of a group, what the second pass still finds in a core's second cache; and the core's part of the
# last one, where that is more.
NEAR_BYTES = 1 << 20
SHARE = 4
# Work-items a compute unit, and how few still share the work evenly.
ITEMS, FEW_ITEMS = 8, 2
# Vectors of a group, below which what there is one of a group costs more than a second pass; of
# short runs vectors are whole rarely.
SMALLEST = 4
# Values added one after another into one sum; then they go into a sum of such sums.
LONGEST_CHAIN = 1024
MOST_CHAINS = 4096
# Independent sums of a long run.
UNROLL = 4


@dataclass(frozen=True)
class Grouped:
    """What to compute.

    Attributes:
        name: For kernels and messages.
        sums: Of the moving arrays, then the first still ones: the terms that are added up.
        values: Of the sums, then the still arrays, and numbers.
        each: Of the moving arrays, then the first values, then the extra arrays, and numbers.
        shape: Of the elements.
        axes: That a group extends along.
        value: dtype that is calculated in.
        moving: Arrays of an element each.
        still: Arrays of one element a group, with size 1 along ``axes``.
        extra: Arrays that broadcast to ``shape``.
        out: The result of ``each``.
        kept: Where the values go, each as ``still``; None for those that nobody wants.
    """

    name: str
    sums: PointwiseDefinition
    values: PointwiseDefinition
    each: PointwiseDefinition
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    value: AnyDType
    moving: tuple[Operand, ...]
    still: tuple[Operand, ...]
    extra: tuple[Operand, ...]
    out: Operand
    kept: tuple[Operand | None, ...]

    @property
    def arrays(self) -> tuple[Operand, ...]:
        """All of them, as the kernel takes them: results first."""
        kept = [k for k in self.kept if k is not None]
        return (self.out, *kept, *self.moving, *self.still, *self.extra)


@dataclass(frozen=True)
class PartCode:
    """One of the snippets.

    Attributes:
        part: ``sums``, ``values`` or ``each``.
        text: The snippet.
        inputs: (its name there, what it is: an array, ``total_N`` or ``value_N``).
        results: How many ``yN``.
        scalars: How many ``wN``; as arguments they begin with ``part``.
    """

    part: str
    text: str
    inputs: tuple[tuple[str, str], ...]
    results: int
    scalars: int


@dataclass(frozen=True)
class GroupedCode(KernelCode):
    """What grouped_rows.cl.jinja prints.

    Attributes:
        value: Type that is calculated in.
        widths: Elements of a vector, and of shorter ones for what is left of a run; the last is 1.
        unroll: Independent sums of a run.
        arrays: All operands by name; ``inner`` is the step to the next lane of a vector.
        still: Names of those that have one element a group.
        kept: Names of the values that are stored, by number.
        sums, values, each: The snippets.
        streaming: Whether results go past the cache.
        ahead: Whether the next run is asked for while one is summed up.
    """

    value: str
    widths: tuple[int, ...]
    unroll: int
    arrays: tuple[OperandCode, ...]
    still: tuple[str, ...]
    kept: tuple[tuple[int, str], ...]
    sums: PartCode
    values: PartCode
    each: PartCode
    streaming: bool
    ahead: bool

    @property
    def width(self) -> int:
        """Elements of a vector."""
        return self.widths[0]

    @property
    def vectors(self) -> list[str]:
        """Types of vectors that snippets compute with."""
        return [f"{self.value}{w}" for w in self.widths if w > 1]

    @property
    def named(self) -> dict[str, OperandCode]:
        """The operands by name."""
        return {a.name: a for a in self.arrays}

    @property
    def moving(self) -> tuple[OperandCode, ...]:
        """The operands that walk along a group."""
        return tuple(a for a in self.arrays if a.name not in self.still)


@dataclass(frozen=True)
class _Loops:
    """What a group is in memory.

    Attributes:
        outer, group: The groups, along one axis or two.
        row, run: Elements of a group: runs of neighbours, and how often there is one.
        starts: Of all arrays, in elements.
        index: Type that reaches every element.
    """

    outer: Dim
    group: Dim
    row: Dim
    run: Dim
    starts: tuple[int, ...]
    index: str

    @property
    def groups(self) -> int:
        """How many."""
        return self.outer.size * self.group.size


def plan_grouped(what: Grouped, traits: DeviceTraits) -> KernelPlan | None:
    """Plans the kernel, or returns None where a group is no such thing as above, or too large.

    Args:
        what: What to compute; nothing of it may be empty.
        traits: Of the device: a CPU, whose caches the kernel counts on.
    """
    if not traits.is_cpu or not (what.sums.componentwise and what.each.componentwise):
        return None
    arrays, names = what.arrays, _names(what)
    if any(value_dtype(a.dtype, [a.dtype]) != what.value for a in arrays):
        return None
    loops = _loops(what)
    if loops is None:
        return None
    outer, group, row, run = loops.outer, loops.group, loops.row, loops.run
    moving = [n for n in range(len(names)) if run.strides[n] or row.strides[n]]
    width = max(1, min(16, traits.vector_bytes // what.value.itemsize))
    if not _pays(what, loops, moving, width, traits):
        return None
    unroll = UNROLL if run.size >= 2 * UNROLL * width else 1
    steps = -(-run.size // (width * unroll))
    rows_a_chain = max(1, LONGEST_CHAIN // steps)
    if steps > MOST_CHAINS or row.size > MOST_CHAINS * rows_a_chain:
        return None
    an_item = max(1, loops.groups // (ITEMS * traits.compute_units))

    numbers = {
        "groups": loops.groups,
        "inner_groups": group.size,
        "groups_an_item": an_item,
        "rows": row.size,
        "n": run.size,
        "rows_a_chain": rows_a_chain,
    }
    for n, name in enumerate(names):
        numbers[f"{name}_start"] = loops.starts[n]
        numbers[f"{name}_outer"] = outer.strides[n]
        numbers[f"{name}_group"] = group.strides[n]
        if n in moving:
            numbers[f"{name}_row"] = row.strides[n]
    operands = tuple(
        OperandCode.of(name, a.dtype, what.value, step)
        for name, a, step in zip(names, arrays, run.strides, strict=True)
    )
    value = stored_type(what.value).value
    results = 1 + sum(k is not None for k in what.kept)
    numbered = [("values", what.values.scalars), ("each", what.each.scalars)]
    scalars = [f"{part}_w{n}" for part, count in numbered for n in range(count)]
    parameters = [
        *(
            Parameter.memory(o.storage, f"{o.name}_memory", read_only=n >= results)
            for n, o in enumerate(operands)
        ),
        *(Parameter.number(value, name) for name in scalars),
        *(Parameter.number(loops.index, name) for name in numbers),
    ]
    elements = math.prod(what.shape)
    moved = elements * sum(arrays[n].dtype.itemsize for n in moving if run.strides[n])
    # Whole vectors go past the cache, if they are those of memory and lie where these begin.
    places = (run.size, loops.starts[0], outer.strides[0], group.strides[0], row.strides[0])
    aligned = width > 1 and all(place % width == 0 for place in places)
    direct = operands[0].load == "direct" and operands[0].storage == value
    snippets = (what.sums.expr, what.values.expr, what.each.expr)
    code = GroupedCode(
        name=what.name,
        preamble="",
        parameters=tuple(parameters),
        constants=(),
        index=loops.index,
        unified=unified_functions(snippets, "", UNIFIED),
        doubles=value == "double",
        own=own_names(snippets, ""),
        value=value,
        widths=tuple(dict.fromkeys(w for w in (width, 4, 1) if w <= width)),
        unroll=unroll,
        arrays=operands,
        still=tuple(name for n, name in enumerate(names) if n not in moving),
        kept=tuple((n, f"kept_{n}") for n, k in enumerate(what.kept) if k is not None),
        sums=_part(what.sums, what, "sums"),
        values=_part(what.values, what, "values"),
        each=_part(what.each, what, "each"),
        streaming=traits.streaming and moved > traits.cache_bytes and aligned and direct,
        ahead=traits.prefetch,
    )
    arguments: list[Argument] = [Buffer(name) for name in names]
    arguments += [Scalar(n) for n in range(len(scalars))]
    arguments += numbers.values()
    flops = what.sums.expr.flops + what.sums.results + what.each.expr.flops
    size = (-(-loops.groups // an_item),)
    return KernelPlan("grouped/runs", code, tuple(arguments), size, (1,), moved, flops * elements)


def _loops(what: Grouped) -> _Loops | None:
    """Returns the loops, if what is reduced are runs of one axis or two."""
    strides = [broadcast_strides(a, what.shape) for a in what.arrays]
    order = memory_order(what.shape, [broadcast_strides(what.moving[0], what.shape)])
    dims = (Dim(what.shape[d], tuple(s[d] for s in strides), d in what.axes) for d in order)
    starts = tuple(a.in_elements(a.offset) for a in what.arrays)
    space = collapse(Space(tuple(dims), starts), turn=False)
    kept, reduced = space.select(reduced=False), space.select(reduced=True)
    if len(kept) > 2 or not 1 <= len(reduced) <= 2 or not space.dims[-1].reduced:
        return None
    once = Dim(1, (0,) * len(starts))
    outer, group = (once, once, *kept)[-2:]
    row, run = (once, *reduced)[-2:]
    return _Loops(outer, group, row, run, space.offsets, index_type(space))


def _pays(
    what: Grouped, loops: _Loops, moving: Sequence[int], width: int, traits: DeviceTraits
) -> bool:
    """Whether runs are vectors, and a cache holds a group; ``moving`` arrays walk along it."""
    row, run, names = loops.row, loops.run, _names(what)
    size = row.size * run.size
    if size < SMALLEST * width or (run.size < width and row.size > 1):
        return False
    read = {name for _, name in _inputs(what.sums, what, "sums")}
    runs = {*read, "out"}
    if any(run.strides[n] not in ((1,) if names[n] in runs else (0, 1)) for n in moving):
        return False
    near = max(NEAR_BYTES, traits.cache_bytes // (SHARE * traits.compute_units))
    nbytes = size * sum(what.arrays[n].dtype.itemsize for n in moving if names[n] in read)
    return nbytes <= near and loops.groups >= FEW_ITEMS * traits.compute_units


def _names(what: Grouped) -> list[str]:
    """Of all arrays, in order."""
    kept = [f"kept_{n}" for n, k in enumerate(what.kept) if k is not None]
    lists = ("moving", what.moving), ("still", what.still), ("extra", what.extra)
    return ["out", *kept, *(f"{name}_{n}" for name, all_ in lists for n in range(len(all_)))]


def _inputs(
    definition: PointwiseDefinition, what: Grouped, part: str
) -> tuple[tuple[str, str], ...]:
    """What the inputs of a snippet are."""
    moving = [f"moving_{n}" for n in range(len(what.moving))]
    still = [f"still_{n}" for n in range(len(what.still))]
    extra = [f"extra_{n}" for n in range(len(what.extra))]
    values = [f"value_{n}" for n in range(what.values.results)]
    totals = [f"total_{n}" for n in range(what.sums.results)]
    if part == "sums":
        found = [*moving, *still][: definition.inputs]
    elif part == "values":
        found = [*totals, *still]
    else:
        wanted = definition.inputs - len(moving) - len(extra)
        found = [*moving, *values[:wanted], *extra]
    return tuple((f"x{n}", name) for n, name in enumerate(found))


def _part(definition: PointwiseDefinition, what: Grouped, part: str) -> PartCode:
    return PartCode(
        part,
        definition.expr.body,
        _inputs(definition, what, part),
        definition.results,
        definition.scalars,
    )
