"""Reductions over pairs whose pairs are reductions themselves: nothing of all pairs is stored.

``reduction/nested``: a work-item holds a tile of rows and walks all columns, a panel at a time. The
inner reduction of a panel is that of ``reduction/pairs``, in registers; its results go through
``expr`` into the outer partials of each row. Memory is that of operands and panels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.dtypes import stored_type
from clprim.language.definition import ReductionDefinition
from clprim.plan.arguments import Arguments
from clprim.plan.kernel import (
    BAKED_DIMS,
    KernelPlan,
    OperandCode,
    Plan,
    power_of_two,
    round_up,
)
from clprim.plan.machine import ITEMS, UNROLL, near
from clprim.plan.product.pack import Packing, pack_kernel
from clprim.plan.reduction.nested_code import Nested, NestedTile, nested_code, spread_rows
from clprim.plan.reduction.pairs import SCALARS, PairLoops, panel_numbers
from clprim.plan.snippets import index_type
from clprim.plan.strides import Dim, Space
from clprim.traits import DeviceTraits


def nested_tile(what: Nested, traits: DeviceTraits) -> NestedTile:
    """Chooses the tile."""
    definition, outer = what.definition, what.definition.outer
    rows, columns = what.shape[-2:]
    lanes = traits.lanes(what.real.itemsize)
    vectors = definition.componentwise and lanes > 1 and columns >= 4
    inner_partials = 1 if definition.inner is None else definition.inner.partials
    if vectors:
        vector = min(lanes, 1 << (columns.bit_length() - 1))
        registers = max(1, traits.sums * 6 // (7 * inner_partials))
        unroll = max(1, min(UNROLL, registers, -(-columns // vector)))
        tall = max(1, registers // unroll)
    else:
        vector, unroll, tall = 1, max(1, min(SCALARS, columns)), 2
    # Vectors that a near cache has room for.
    room = near(traits) // traits.vector_bytes
    online, sums = definition.online, outer.partials
    own_vectors = outer.componentwise and not outer.positions
    if online is not None:  # the others are the same along results' own axis
        own_vectors = online.componentwise and outer.combine_componentwise
        sums = max(1, sum(factor is not None for factor in online.factors))
    mode = "vectors" if own_vectors and vector > 1 else "scalars"
    wide = across = beside = 1
    if definition.spread:
        mode = "spread"
        own = own_vectors and lanes > 1 and what.spread > 1
        wide = min(lanes, power_of_two(what.spread)) if own else 1
        across = -(-what.spread // wide)
        held = 1 + sum(1 for row in spread_rows(what) if row)
        tall = max(1, min(tall, room // (across * held * outer.partials)))
        if own:
            beside = max(1, min(across, traits.sums * 6 // (7 * tall * sums)))
        else:
            beside = min(across, SCALARS)
        across = round_up(across, beside)
    tall = min(tall, rows)
    batches = math.prod(what.shape[:-2])
    wanted = -(-ITEMS * traits.compute_units // batches)
    most = max(1, room // 4 // (tall * across * outer.partials))
    strips = max(1, min(most, rows // (tall * wanted)))
    strips = 1 << (strips.bit_length() - 1)
    tiles = -(-rows // (tall * strips))
    per_group = max(1, tiles // wanted)
    return NestedTile(
        vector, unroll, tall, strips, wide, across, beside, mode, per_group, -(-tiles // per_group)
    )


def plan_nested(what: Nested, traits: DeviceTraits) -> Plan:
    """Plans a call, of whose results none is empty."""
    definition, tile = what.definition, nested_tile(what, traits)
    columns = what.shape[-1]
    space = Space(
        tuple(
            Dim(n, tuple(s[d] for s in what.strides))
            for d, n in enumerate((*what.shape, max(what.depth, what.spread)))
        ),
        tuple(a.in_elements(a.offset) for a in what.inputs),
    )
    index = index_type(space, compared=definition.outer.positions != frozenset(), traits=traits)
    packings = [_packing(what, tile, k, index) for k in range(len(what.inputs))]
    workspace = {p.what.to: (max(1, p.elements), what.real) for p in packings if p is not None}
    if any(elements >= 2**31 - 2**20 for elements, _ in workspace.values()):
        index = "long"
    numbers: dict[str, int] = {"depth": what.depth, "height": what.shape[-2], "width": columns}
    numbers |= {"spread": what.spread, "per_group": tile.per_group}
    numbers |= {f"k{d}": n for d, n in enumerate(what.shape[:-2])}
    type_name = stored_type(what.real).value
    codes = []
    for k, (a, strides, packed) in enumerate(zip(what.inputs, what.strides, packings, strict=True)):
        name, last = f"x{k}", -1 if k >= definition.shared else -2
        code = OperandCode.of(name, a.dtype, what.real, strides[last])
        if packed is not None:
            code = OperandCode(name, type_name, type_name, "direct", "one")
            numbers |= packed.numbers
        else:
            numbers[f"{name}_start"] = a.in_elements(a.offset)
            numbers |= {f"{name}_k{d}": s for d, s in enumerate(strides[:-3])}
            numbers |= {f"{name}_row": strides[-3], f"{name}_column": strides[-2]}
            numbers[f"{name}_step"] = strides[-1]
        codes.append(code)
    for n, (y, strides) in enumerate(zip(what.results, what.result_strides, strict=True)):
        numbers[f"y{n}_start"] = y.in_elements(y.offset)
        numbers |= {f"y{n}_k{d}": s for d, s in enumerate(strides[:-2])}
        numbers |= {f"y{n}_row": strides[-2], f"y{n}_column": strides[-1]}
    names = {f"x{k}": p.what.to for k, p in enumerate(packings) if p is not None}
    main = _main(what, tile, tuple(codes), tuple(names), numbers, index, traits)
    stages = [
        pack_kernel(replace(p.what, index=index), p.tiles, p.depth)
        for p in packings
        if p is not None and p.elements
    ]
    return Plan((*stages, main.renamed(names)), workspace)


@dataclass(frozen=True)
class _Packed:
    """What is packed of an operand, and the numbers that the main kernel finds it by."""

    what: Packing
    tiles: int
    depth: int
    elements: int
    numbers: dict[str, int]


def _packing(what: Nested, tile: NestedTile, k: int, index: str) -> _Packed | None:
    """How an operand is packed; None where it is read in place."""
    definition, strides, a = what.definition, what.strides[k], what.inputs[k]
    further, columns = k >= definition.shared, what.shape[-1]
    inner = k < definition.own and _kind(strides) == "column"
    if not inner and not (further and strides[-2]):
        return None
    if further:  # along the results' own axis, column by column
        lanes, size, tiles, depth = what.spread, tile.wide * tile.across, 1, columns
        column, step = strides[-1], strides[-2]
    else:
        size = tile.vector * tile.unroll
        lanes, tiles, depth = columns, -(-columns // size), what.depth
        column, step = strides[-2], strides[-1]
    batch = tuple(Dim(n, tuple(s[d] for s in what.strides)) for d, n in enumerate(what.shape[:-2]))
    moves = [d for d in batch if d.strides[k]]
    groups = math.prod(d.size for d in moves)
    one = Dim(1, (0,) * len(what.strides))
    loops = PairLoops(one, one, batch, (), (), ())
    return _Packed(
        Packing(
            name=definition.name,
            buffer=f"x{k}",
            operand=OperandCode.of("x", a.dtype, what.real, column),
            itemsizes=(a.dtype.itemsize, what.real.itemsize),
            start=a.in_elements(a.offset),
            depths=(1, 1, depth),
            strides=(0, 0, step),
            places={"x_group": moves[-1].strides[k] if moves else 0, "x_lane": column},
            lanes=lanes,
            groups=groups,
            tile=size,
            width=1 if further else tile.vector,
            index=index,
            to=f"x{k}_panels",
            repeats=True,
            once=False,
        ),
        tiles,
        depth,
        groups * tiles * size * depth,
        dict(panel_numbers(f"x{k}", k, loops, tiles * size * depth)),
    )


def _main(
    what: Nested,
    tile: NestedTile,
    codes: tuple[OperandCode, ...],
    packed: tuple[str, ...],
    numbers: dict[str, int],
    index: str,
    traits: DeviceTraits,
) -> KernelPlan:
    """The kernel itself."""
    definition = what.definition
    panels = -(-what.shape[-1] // (tile.vector * tile.unroll))
    kinds = tuple(_kind(s) for s in what.strides[: definition.shared])
    code = nested_code(what, tile, codes, kinds, packed, index, panels, traits)
    baked = len(what.shape) + 2 > BAKED_DIMS
    found = Arguments(index)
    for y in code.outer.results:
        found.memory(y.storage, f"{y.name}_memory", read_only=False)
    for x in (*code.inputs, *code.spread):
        found.memory(x.storage, f"{x.name}_memory")
    found.scalars(code.scalars)
    if not baked:
        found.numbers(**numbers)
    ops = (0 if definition.inner is None else what.depth) * _flops(definition.inner)
    ops += definition.expr.flops + what.spread * _flops(definition.outer)
    return KernelPlan(
        "reduction/nested",
        replace(
            code,
            parameters=tuple(found.parameters),
            constants=tuple(numbers.items()) if baked else (),
        ),
        tuple(found.arguments),
        (1, tile.groups, math.prod(what.shape[:-2])),
        (1, 1, 1),
        sum(a.size * a.dtype.itemsize for a in (*what.inputs, *what.results)),
        ops * math.prod(what.shape),
    )


def _flops(definition: ReductionDefinition | None) -> int:
    return 0 if definition is None else definition.expr.flops + definition.step.flops


def _kind(strides: Sequence[int]) -> str:
    row, column = strides[-3], strides[-2]
    if row and column:
        return "both"
    return "row" if row else "column" if column else "neither"
