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
from clprim.plan.kernel import (
    BAKED_DIMS,
    KernelPlan,
    OperandCode,
    Plan,
    power_of_two,
    round_up,
)
from clprim.plan.machine import ITEMS, UNROLL, near
from clprim.plan.parameters import Arguments
from clprim.plan.product.pack import Packing, pack_kernel
from clprim.plan.reduction.nested_code import (
    Nested,
    NestedCode,
    NestedTile,
    nested_fields,
    spread_rows,
)
from clprim.plan.reduction.pairs import SCALARS, kind_of, packing_of, panel_numbers
from clprim.plan.snippets import index_type
from clprim.plan.strides import REACH, Dim, Operand, Space
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
    most = max(1, room // 4 // (tall * across * outer.partials))
    strips = max(1, min(most, rows // (tall * _wanted(what, traits))))
    strips = 1 << (strips.bit_length() - 1)
    return NestedTile(vector, unroll, tall, strips, wide, across, beside, mode)


def _wanted(what: Nested, traits: DeviceTraits) -> int:
    """Work-items that a batch's rows are to be shared among."""
    return -(-ITEMS * traits.compute_units // math.prod(what.shape[:-2]))


def plan_nested(what: Nested, traits: DeviceTraits) -> Plan | None:
    """Plans a call; None where a result is empty."""
    if not all(y.size for y in what.results):
        return None
    definition, tile = what.definition, nested_tile(what, traits)
    space = Space(
        tuple(
            Dim(n, tuple(s[d] for s in what.strides))
            for d, n in enumerate((*what.shape, max(what.depth, what.spread)))
        ),
        tuple(a.in_elements(a.offset) for a in what.inputs),
    )
    index = index_type(space, compared=traits if definition.outer.positions else None)
    packings = [_packing(what, tile, k, index) for k in range(len(what.inputs))]
    workspace = {p.what.to: (max(1, p.elements), what.real) for p in packings if p is not None}
    if any(elements >= REACH for elements, _ in workspace.values()):
        index = "long"
    names = {f"x{k}": p.what.to for k, p in enumerate(packings) if p is not None}
    main = _main(what, tile, packings, index, traits)
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
    definition, strides = what.definition, what.strides[k]
    further, columns = k >= definition.shared, what.shape[-1]
    inner = k < definition.own and kind_of(*strides[-3:-1]) == "column"
    if not inner and not (further and strides[-2]):
        return None
    if further:  # along the results' own axis, column by column
        lanes, size, tiles, depth = what.spread, tile.wide * tile.across, 1, columns
        column, step = strides[-1], strides[-2]
    else:
        lanes, size, tiles, depth = columns, tile.size, -(-columns // tile.size), what.depth
        column, step = strides[-2], strides[-1]
    batch = tuple(Dim(n, tuple(s[d] for s in what.strides)) for d, n in enumerate(what.shape[:-2]))
    groups = math.prod(d.size for d in batch if d.strides[k])
    packing = packing_of(
        (definition.name, k, what.inputs[k], what.real),
        batch,
        column,
        start=what.inputs[k].in_elements(what.inputs[k].offset),
        depths=(1, 1, depth),
        strides=(0, 0, step),
        lanes=lanes,
        groups=groups,
        tile=size,
        width=1 if further else tile.vector,
        index=index,
    )
    panel = tiles * size * depth
    return _Packed(packing, tiles, depth, groups * panel, dict(panel_numbers(k, batch, panel)))


def _main(
    what: Nested,
    tile: NestedTile,
    packings: Sequence[_Packed | None],
    index: str,
    traits: DeviceTraits,
) -> KernelPlan:
    """The kernel itself."""
    definition, (*batch, rows, columns) = what.definition, what.shape
    tiles = -(-rows // (tile.tall * tile.strips))
    per_group = max(1, tiles // _wanted(what, traits))
    numbers = {"depth": what.depth, "height": rows, "width": columns}
    numbers |= {"spread": what.spread, "per_group": per_group}
    numbers |= {f"k{d}": n for d, n in enumerate(batch)}
    codes, type_name = [], stored_type(what.real).value
    for k, (a, strides, packed) in enumerate(zip(what.inputs, what.strides, packings, strict=True)):
        name, last = f"x{k}", -1 if k >= definition.shared else -2
        if packed is not None:
            codes.append(OperandCode(name, type_name, type_name, "direct", "one"))
            numbers |= packed.numbers
            continue
        codes.append(OperandCode.of(name, a.dtype, what.real, strides[last]))
        numbers |= _places(name, a, strides[:-3])
        numbers |= {f"{name}_row": strides[-3], f"{name}_column": strides[-2]}
        numbers[f"{name}_step"] = strides[-1]
    for n, (y, strides) in enumerate(zip(what.results, what.result_strides, strict=True)):
        numbers |= _places(f"y{n}", y, strides[:-2])
        numbers |= {f"y{n}_row": strides[-2], f"y{n}_column": strides[-1]}
    fields = nested_fields(what, tile, tuple(codes), traits)
    baked = len(what.shape) + 2 > BAKED_DIMS
    found = Arguments(index)
    for y in fields["outer"].results:
        found.memory(y.storage, f"{y.name}_memory", read_only=False)
    for x in codes:
        found.memory(x.storage, f"{x.name}_memory")
    found.scalars(fields["scalars"])
    if not baked:
        found.numbers(**numbers)
    ops = (0 if definition.inner is None else what.depth) * _flops(definition.inner)
    ops += definition.expr.flops + what.spread * _flops(definition.outer)
    code = NestedCode(
        **fields,
        kinds=tuple(kind_of(*s[-3:-1]) for s in what.strides[: definition.shared]),
        packed=tuple(f"x{k}" for k, packed in enumerate(packings) if packed is not None),
        index=index,
        parameters=tuple(found.parameters),
        constants=tuple(numbers.items()) if baked else (),
    )
    return KernelPlan(
        "reduction/nested",
        code,
        tuple(found.arguments),
        (1, -(-tiles // per_group), math.prod(batch)),
        (1, 1, 1),
        sum(a.size * a.dtype.itemsize for a in (*what.inputs, *what.results)),
        ops * math.prod(what.shape),
    )


def _places(name: str, operand: Operand, batch: Sequence[int]) -> dict[str, int]:
    """Where an operand begins, and its steps from batch to batch, by name."""
    start = {f"{name}_start": operand.in_elements(operand.offset)}
    return start | {f"{name}_k{d}": s for d, s in enumerate(batch)}


def _flops(definition: ReductionDefinition | None) -> int:
    return 0 if definition is None else definition.expr.flops + definition.step.flops
