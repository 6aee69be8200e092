"""Plans attention by matrix units: a work-group passes over all keys with some queries.

Maxima and sums over keys are those of whoever holds a query's products; what they make of a block
of keys, weights of 16 bits, is multiplied with its values before the next block is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.fused.heads import Heads, head_kernel
from clprim.plan.fused.matrix_heads import (
    DRAWN,
    HeadTile,
    MatrixHeadsCode,
    RowsCode,
    between,
    divides,
    exchanged_words,
    fits,
    head_room,
    head_tiles,
    read_tile,
    sides,
    unit_for,
)
from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.units.unit import MatrixUnit
from clprim.traits import DeviceTraits


@dataclass(frozen=True, kw_only=True)
class AttentionMatrixCode(MatrixHeadsCode):
    """What fused/attention_matrix.cl.jinja prints."""

    query: RowsCode  # Tiles in local memory
    key: RowsCode
    value_tile: RowsCode
    weight: RowsCode
    sums_alone: bool  # Whether all that is stored is each query's largest score and its sum


def _registers(unit: MatrixUnit, tile: HeadTile, size: int, features: int) -> int:
    """Words that a work-item holds: sums of both products, weights, queries, operands, copies."""
    side, _, mine, theirs = sides(unit)
    rows = tile.units * side / unit.items
    own, other = mine.elements // 2, theirs.elements // 2
    held = tile.units * size // unit.steps * own if tile.held else own
    weights = tile.block // 2 if unit.kept and tile.across == 1 else 0
    sums = int(rows * (features + tile.block + weights) / tile.across)
    items = tile.down * tile.across * unit.items
    waiting = 0 if unit.copies else tile.block * (size + features) // 2 // items
    return sums + held + 2 * other + waiting


def _local(unit: MatrixUnit, tile: HeadTile, size: int, features: int) -> int:
    """Bytes of queries, keys, values, and of weights and maxima that go through local memory."""
    own = tile.down * tile.units * sides(unit)[0]
    kept = 2 * tile.block * (size + features)
    queries = 2 * own * size
    kept = max(kept, queries) if tile.held else kept + queries
    return kept + (0 if unit.kept and tile.across == 1 else 2 * own * tile.block)


def plan_attention_matrix(what: Heads, traits: DeviceTraits) -> Plan | None:
    """Plans softmax(q kᵀ · scale + mask) v; None without a unit, and of caches."""
    kernel = attention_kernel(what, traits)
    return None if kernel is None else Plan((kernel,))


def attention_kernel(
    what: Heads, traits: DeviceTraits, *, sums_alone: bool = False
) -> KernelPlan | None:
    """The kernel, or one that keeps of each query what its weights are made from: `ROWS`."""
    unit = unit_for(what, traits)
    if unit is None:
        return None
    queries, _, size, features = what.sizes.values()
    rooms = head_room(size), head_room(features)
    for tile in head_tiles(unit, traits, what.heads * queries):
        words, local = _registers(unit, tile, *rooms), _local(unit, tile, *rooms)
        words += DRAWN * (what.drop_rows > 0)
        shared = 4 * tile.across * tile.down * tile.units * sides(unit)[0]
        if divides(unit, tile, rooms[1]) and fits(unit, tile, words, local + shared, traits):
            return _planned(what, unit, tile, rooms, local, traits, sums_alone=sums_alone)
    return None


def _planned(
    what: Heads,
    unit: MatrixUnit,
    tile: HeadTile,
    rooms: tuple[int, int],
    local: int,
    traits: DeviceTraits,
    *,
    sums_alone: bool,
) -> KernelPlan | None:
    queries, _, size, features = what.sizes.values()
    items = tile.down * tile.across * unit.items
    own = tile.down * tile.units * sides(unit)[0]
    q, k, v = (what.arrays[name] for name in "qkv")
    along = "lanes" if unit.matrices else "turned"
    launch = (
        (-(-queries // own), what.heads),
        what.nbytes("qk" if sums_alone else "qkvy"),
        2 * what.pairs * (size + features * (not sums_alone)),
    )
    return head_kernel(
        what,
        "attention_matrix",
        ("y", "sums"),
        launch,
        AttentionMatrixCode,
        {},
        traits,
        "written" if sums_alone else "",
        group=items,
        unit=unit,
        tile=tile,
        kept=unit.kept and tile.across == 1,
        query=read_tile("q", "query", q, (own, rooms[0]), items),
        key=read_tile("k", "key", k, (tile.block, rooms[0]), items),
        value_tile=read_tile("v", "value", v, (tile.block, rooms[1]), items, along),
        weight=between("weight", tile.block),
        memory=local,
        exchanged=exchanged_words(unit, tile),
        query_room=rooms[0],
        value_room=rooms[1],
        sums_alone=sums_alone,
    )
