"""Plans the gradients of attention by matrix units: two kernels, of queries and of keys.

Each passes over all rows of the other side with some of its own, and makes the weights again from
the logarithms of sums. Nobody adds to what another one has written, so results repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from clprim.plan.fused.attention_gradient import HeadGradients
from clprim.plan.fused.attention_matrix import attention_kernel
from clprim.plan.fused.heads import ROWS, Heads, head_kernel
from clprim.plan.fused.matrix_heads import (
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
class AttentionMatrixGradientCode(MatrixHeadsCode):
    """What fused/attention_matrix_gradient.cl.jinja prints."""

    of_keys: bool  # Whether own rows are keys and values, not queries
    summed: bool  # Whether weights are made from `ROWS`, not from logarithms of sums
    # Tiles in local memory: own rows, those of the other side, the latter as the products with
    # gradients of scores and with weights read them, and these
    mine: RowsCode
    mine_value: RowsCode
    theirs: RowsCode
    theirs_value: RowsCode
    across: RowsCode
    across_value: RowsCode
    slope: RowsCode
    weight: RowsCode


def _needs(
    unit: MatrixUnit, tile: HeadTile, size: int, features: int, *, of_keys: bool
) -> tuple[int, int]:
    """Words of a work-item, and bytes of local memory."""
    side, _, own, other = sides(unit)
    rows, items = tile.units * side / unit.items, tile.down * tile.across * unit.items
    kept = unit.kept and tile.across == 1
    sums = size + of_keys * features + 2 * tile.block + kept * tile.block
    fragments = own.elements // 2 + 2 * other.elements
    heads = size + features
    waiting = 0 if unit.copies else tile.block * heads // 2 // items
    words = int(rows * sums / tile.across) + fragments + waiting
    owned = tile.down * tile.units * side
    turned = 0 if unit.matrices else size + of_keys * features
    local = owned * heads + tile.block * (heads + turned)
    local += 0 if kept else (1 + of_keys) * owned * tile.block
    return words, 2 * local


def plan_attention_matrix_gradient(what: HeadGradients, traits: DeviceTraits) -> Plan | None:
    """Plans the gradients of `plan_attention_matrix`, a mask's too where no heads share it."""
    unit = unit_for(what, traits)
    if unit is None or what.shared > 1 or what.arrays["grad"].dtype != what.arrays["q"].dtype:
        return None
    kernels = [_kernel(what, unit, traits, of_keys=of_keys) for of_keys in (True, False)]
    workspace = {}
    if _summed(what):
        # Of scores that one large number masks, a logarithm has lost how many they are.
        names = ("q", "k", "v", "sums", "mask")
        forward = Heads(what.only(names), what.causal, score=what.score)
        kernels.insert(0, attention_kernel(forward, traits, sums_alone=True))
        workspace[ROWS] = 2 * what.heads * what.sizes["queries"], what.value
    found = tuple(kernel for kernel in kernels if kernel is not None)
    return Plan(found, workspace) if len(found) == len(kernels) else None


def _summed(what: Heads) -> bool:
    """Whether a mask, or a string, may bring scores far from 0."""
    mask = what.arrays.get("mask")
    return what.score is not None or (mask is not None and mask.dtype.kind != "b")


def _kernel(
    what: HeadGradients, unit: MatrixUnit, traits: DeviceTraits, *, of_keys: bool
) -> KernelPlan | None:
    queries, keys, size, features = what.sizes.values()
    rooms = head_room(size), head_room(features)
    rows = keys if of_keys else queries
    for tile in head_tiles(unit, traits, what.heads * rows, smaller=True):
        words, local = _needs(unit, tile, *rooms, of_keys=of_keys)
        known = 12 * max(tile.block, tile.down * tile.units * sides(unit)[0])
        room = fits(unit, tile, words, local + known, traits)
        if room and not tile.held and divides(unit, tile, *rooms):
            return _planned(what, unit, tile, rooms, local, traits, of_keys=of_keys)
    return None


def _planned(
    what: HeadGradients,
    unit: MatrixUnit,
    tile: HeadTile,
    rooms: tuple[int, int],
    local: int,
    traits: DeviceTraits,
    *,
    of_keys: bool,
) -> KernelPlan | None:
    queries, keys, size, features = what.sizes.values()
    items = tile.down * tile.across * unit.items
    owned = tile.down * tile.units * sides(unit)[0]
    arrays = what.arrays
    mine, theirs = (("k", "v"), ("q", "grad"))[:: 1 if of_keys else -1]
    along = "lanes" if unit.matrices else "turned"

    def read(tile_name: str, name: str, rows: int, along: str = "depth") -> RowsCode:
        room = rooms[1] if name in ("v", "grad") else rooms[0]
        return read_tile(name, tile_name, arrays[name], (rows, room), items, along)

    written = ("dk", "dv") if of_keys else ("dq",)
    names = ("q", "k", "v", "grad", "sums", "delta", *written, "mask")
    names += () if of_keys else ("dmask",)
    rows = keys if of_keys else queries
    launch = (
        (-(-rows // owned), what.heads),
        what.nbytes(("q", "k", "v", "grad", *written)),
        2 * what.pairs * ((3 if of_keys else 2) * size + 2 * features),
    )
    return head_kernel(
        replace(what, arrays=what.only(names)),
        "attention_matrix_gradient",
        (*written, "dmask"),
        launch,
        AttentionMatrixGradientCode,
        {},
        traits,
        "read" if _summed(what) else "",
        group=items,
        unit=unit,
        tile=tile,
        kept=unit.kept and tile.across == 1,
        of_keys=of_keys,
        summed=_summed(what),
        mine=read("mine", mine[0], owned),
        mine_value=read("mine_value", mine[1], owned),
        theirs=read("theirs", theirs[0], tile.block),
        theirs_value=read("theirs_value", theirs[1], tile.block),
        across=read("across", theirs[0], tile.block, along),
        across_value=read("across_value", theirs[1], tile.block, along),
        slope=between("slope", tile.block),
        weight=between("weight", tile.block),
        memory=local,
        exchanged=exchanged_words(unit, tile),
        query_room=rooms[0],
        value_room=rooms[1],
    )
