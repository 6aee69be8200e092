"""Reductions of operands that broadcast against each other: products with strings of the user's.

Of the kept loops two are the *rows* and the *columns* of results. Operands that the reduced loops
move vary with the rows, with the columns or with neither, so that each element is used many times:

* ``reduction/pairs``, on CPUs: what varies with columns is packed into panels, as matrix products
  pack; a work-item holds a tile of rows and vectors of columns in registers.
* ``reduction/pairs_local``, on GPUs: a work-group copies what a few steps need to local memory, and
  every work-item has a tile of scalars.

Chains of additions depend on the length of the reduced space alone, never on rows or columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import Any

from clprim.dtypes import AnyDType, stored_type
from clprim.plan.kernel import BAKED_DIMS, KernelPlan, OperandCode, inner_step, round_up
from clprim.plan.machine import ITEMS, LAUNCH, STEPS, UNROLL, WORK
from clprim.plan.product.pack import Packing, pack_kernel
from clprim.plan.reduction.code import KernelLoops
from clprim.plan.reduction.loops import FoldLoops, operand_numbers
from clprim.plan.reduction.schedule import Schedule
from clprim.plan.reduction.stage import Folding, Stage
from clprim.plan.snippets import index_type
from clprim.plan.strides import REACH, Dim, Operand

# Bound: digits of the reduced space that panels are packed from.
PACKED_DIGITS = 3
# Of scalars that are no vectors: so many neighbours, of which compilers make vectors themselves.
SCALARS = 32


@dataclass(frozen=True)
class PairLoops:
    """What the loops of a reduction over pairs are."""

    row: Dim  # The kept loops that tiles span
    column: Dim
    batch: tuple[Dim, ...]  # The other kept ones, outermost first
    reduced: tuple[Dim, ...]
    # Of every input what it varies with: ``row``, ``column``, ``both`` or ``neither``
    kinds: tuple[str, ...]
    moving: tuple[bool, ...]  # Whether the reduced loops move it

    @property
    def steps(self) -> int:
        """Iterations of the reduced loops."""
        return math.prod(d.size for d in self.reduced)

    @property
    def batches(self) -> int:
        """Tiles' planes of rows and columns."""
        return math.prod(d.size for d in self.batch)


def pair_loops(folding: Folding, loops: FoldLoops) -> PairLoops | None:
    """Finds rows and columns; None where there are none, or too few to share anything."""
    inputs, kept = len(folding.inputs), loops.space.select(False)
    reduced = loops.space.select(True)
    if folding.definition.draws or len(kept) < 2 or len(reduced) > PACKED_DIGITS:
        return None
    if any(a.dtype.kind == "b" for a in folding.inputs):
        return None
    found = []
    for r, c in permutations(range(len(kept)), 2):
        row, column = kept[r], kept[c]
        if min(row.size, column.size) < 2 * UNROLL:
            continue
        kinds = tuple(kind_of(row.strides[k], column.strides[k]) for k in range(inputs))
        moving = tuple(any(d.strides[k] for d in reduced) for k in range(inputs))
        moved = {kind for kind, moves in zip(kinds, moving, strict=True) if moves}
        # What moves with both is read once a term, and there is nothing to share.
        if "both" in moved or not {"row", "column"} <= {*moved} | {*kinds}:
            continue
        if not moved & {"row", "column"}:
            continue
        batch = tuple(d for n, d in enumerate(kept) if n not in (r, c))
        if not all(_linear(batch, k) for k in range(inputs) if kinds[k] == "column" and moving[k]):
            continue
        side_by_side = sum(column.strides[inputs + n] == 1 for n in range(len(folding.results)))
        order = (side_by_side, row.size * column.size, c)
        found.append((order, PairLoops(row, column, batch, reduced, kinds, moving)))
    best = max(found, key=lambda entry: entry[0], default=None)
    if best is None:
        return None
    pairs = best[1]
    terms = pairs.row.size * pairs.column.size * pairs.steps * pairs.batches
    return pairs if pairs.steps > 1 and terms >= LAUNCH else None


def kind_of(row: int, column: int) -> str:
    """What an operand of these strides varies with."""
    if row and column:
        return "both"
    return "row" if row else "column" if column else "neither"


def _linear(batch: Sequence[Dim], k: int) -> bool:
    """Whether what moves an operand from batch to batch is one loop."""
    own = [d for d in batch if d.strides[k]]
    return all(outer.strides[k] == inner.strides[k] * inner.size for outer, inner in pairwise(own))


def pairs_schedule(folding: Folding, pairs: PairLoops) -> Schedule | None:
    """Cuts rows and columns into tiles; None where tiles are too few to keep the device busy."""
    traits, partials = folding.traits, len(folding.partials)
    steps = pairs.steps
    if not traits.is_cpu:
        return _local_schedule(folding, pairs)
    value, columns = folding.vector_type(), pairs.column.size
    if value is None:
        vector, unroll = 1, min(SCALARS, columns)
        tall = 2 if partials <= 2 else 1
    else:
        widest = traits.lanes(8 if value in ("long", "ulong", "double") else 4)
        vector = max(2, min(widest, 1 << (columns.bit_length() - 1)))
        # Registers keep room for an operand's vectors and for what strings compute.
        registers = max(1, traits.sums * 6 // (7 * partials))
        unroll = _side_by_side(columns, vector, min(UNROLL, registers))
        tall = max(1, registers // unroll)
    tall = min(tall, pairs.row.size)
    panels = -(-columns // (vector * unroll))
    tiles = -(-pairs.row.size // tall)
    if panels * tiles * pairs.batches < 2 * traits.compute_units:
        return None
    work = tall * vector * unroll * steps
    wanted = max(1, 2 * ITEMS * traits.compute_units // (panels * pairs.batches))
    per_group = max(1, min(tiles, max(-(-tiles // wanted), -(-WORK // work))))
    per_group = -(-tiles // -(-tiles // per_group))  # shared out equally
    return Schedule(
        "reduction/pairs",
        vector=vector,
        unroll=unroll,
        tall=tall,
        chunk=steps,
        per_group=per_group,
        groups=-(-tiles // per_group),
    )


def _side_by_side(columns: int, vector: int, most: int) -> int:
    """Vectors of a tile: those that leave least of the last panel empty, the more the better."""
    return min(
        range(1, most + 1),
        key=lambda n: (round_up(columns, n * vector) * (1 + 1 / (8 * n)), -n),
    )


def _local_schedule(folding: Folding, pairs: PairLoops) -> Schedule | None:
    """The tiles of a GPU's work-group of 16 by 16."""
    traits = folding.traits
    lanes = rows = 16
    while lanes * rows > traits.max_work_group_size:
        rows, lanes = (rows // 2, lanes) if rows == lanes else (rows, lanes // 2)
    held = [
        (kind, dtype.itemsize)
        for kind, moving, dtype in zip(pairs.kinds, pairs.moving, folding.input_values, strict=True)
        if moving and kind != "neither"
    ]
    for tile in (UNROLL, UNROLL // 2) if len(folding.partials) <= 2 else (UNROLL // 2,):
        lines = sum(size * (tile * (rows if k == "row" else lanes) + 1) for k, size in held)
        if STEPS * lines <= traits.local_memory:
            return Schedule(
                "reduction/pairs_local",
                unroll=tile,
                tall=tile,
                lanes=lanes,
                rows=rows,
                chunk=pairs.steps,
                groups=-(-pairs.row.size // (rows * tile)),
            )
    return None


def plan_pairs(
    folding: Folding, loops: FoldLoops, pairs: PairLoops, schedule: Schedule, nbytes: int
) -> tuple[tuple[KernelPlan, ...], dict[str, tuple[int, Any]]]:
    """Plans the kernels, and the memory of panels."""
    traits, steps, space = folding.traits, pairs.steps, loops.space
    tile = schedule.vector * schedule.unroll
    panels = -(-pairs.column.size // (tile * schedule.lanes))
    packed = [
        k
        for k, (kind, moving) in enumerate(zip(pairs.kinds, pairs.moving, strict=True))
        if kind == "column" and moving and traits.is_cpu
    ]
    index = index_type(space, compared=loops.counts)
    groups = {k: math.prod(d.size for d in pairs.batch if d.strides[k]) for k in packed}
    elements = {k: groups[k] * panels * steps * tile for k in packed}
    if any(n >= REACH for n in elements.values()):
        index = "long"
    walked = _walked(folding, loops, pairs, schedule, packed, index)
    partial_ops = folding.definition.expr.flops + folding.definition.step.flops
    stage = Stage(
        schedule,
        walked,
        partial=False,
        nbytes=nbytes,
        flops=partial_ops * loops.kept * loops.reduced,
        global_size=(panels * schedule.lanes, schedule.groups * schedule.rows, pairs.batches),
        local_size=(schedule.lanes, schedule.rows, 1),
        kinds=pairs.kinds,
        packed=tuple(f"x{k}" for k in packed),
    )
    main = folding.kernel(stage)
    stages, workspace = [], {}
    missing = PACKED_DIGITS - len(pairs.reduced)
    for k in packed:
        operand, value, column = folding.inputs[k], folding.input_values[k], pairs.column
        workspace[f"x{k}_panels"] = elements[k], value
        packing = packing_of(
            (folding.definition.name, k, operand, value),
            pairs.batch,
            column.strides[k],
            start=space.offsets[k],
            depths=(*(1,) * missing, *(d.size for d in pairs.reduced)),
            strides=(*(0,) * missing, *(d.strides[k] for d in pairs.reduced)),
            lanes=column.size,
            groups=groups[k],
            tile=tile,
            width=schedule.vector,
            index=index,
        )
        stages.append(pack_kernel(packing, panels, steps))
    stages.append(main.renamed({f"x{k}": f"x{k}_panels" for k in packed}))
    return tuple(stages), workspace


def _walked(
    folding: Folding,
    loops: FoldLoops,
    pairs: PairLoops,
    schedule: Schedule,
    packed: Sequence[int],
    index: str,
) -> KernelLoops:
    """What the main kernel walks over."""
    space, outer, step = loops.space, pairs.reduced[:-1], pairs.reduced[-1]
    inputs = []
    still = []
    for k, (a, value) in enumerate(zip(folding.inputs, folding.input_values, strict=True)):
        code = OperandCode.of(f"x{k}", a.dtype, value, pairs.column.strides[k])
        if k in packed:
            type_name = stored_type(value).value
            code = OperandCode(code.name, type_name, type_name, "direct", "one")
        elif pairs.moving[k]:
            code = replace(code, inner=inner_step(step.strides[k]))  # neighbours are steps
        inputs.append(code)
        if not pairs.moving[k]:
            still.append(code.name)
    count = len(inputs)
    results = tuple(
        replace(y, inner="one" if pairs.column.strides[count + n] == 1 else "any")
        for n, y in enumerate(folding.result_codes)
    )
    numbers = [("n", step.size), ("length", pairs.steps)]
    numbers += [("height", pairs.row.size), ("width", pairs.column.size)]
    numbers += [("per_group", schedule.per_group)]
    numbers += [(f"k{d}", dim.size) for d, dim in enumerate(pairs.batch)]
    numbers += [(f"r{d}", dim.size) for d, dim in enumerate(outer)]
    names = [o.name for o in (*inputs, *results)] + [p.name for p in loops.positions]
    tile = schedule.vector * schedule.unroll
    panel = pairs.steps * tile * -(-pairs.column.size // tile)
    for k, name in enumerate(names):
        if k in packed:
            numbers += panel_numbers(k, pairs.batch, panel)
            continue
        along: dict[str, Any] = {} if name in still else {"step": step, "reduced": outer}
        if len(inputs) <= k < len(inputs) + len(results):
            along = {}
        numbers += operand_numbers(
            name, k, space.offsets[k], pairs.batch, column=pairs.column, **along
        )
        numbers += [(f"{name}_row", pairs.row.strides[k])]
    return KernelLoops(
        numbers=(*numbers, *loops.size_numbers()),
        index=index,
        baked=len(space.dims) > BAKED_DIMS,
        inputs=tuple(inputs),
        results=results,
        kept=len(pairs.batch),
        positions=loops.positions,
        coords=loops.coords,
        sizes=loops.sizes,
        reduced=len(outer),
        still=tuple(still),
    )


def panel_numbers(k: int, batch: Sequence[Dim], panel: int) -> list[tuple[str, int]]:
    """Where a batch's panels begin."""
    found, stride = [], panel
    for d in reversed(range(len(batch))):
        own = batch[d].strides[k] != 0
        found.append((f"x{k}_k{d}", stride if own else 0))
        stride *= batch[d].size if own else 1
    return [(f"x{k}_start", 0), *reversed(found)]


def packing_of(
    read: tuple[str, int, Operand, AnyDType], batch: Sequence[Dim], column: int, **loops: Any
) -> Packing:
    """How an operand is packed: of a definition's name, its own number, and what it becomes."""
    name, k, operand, value = read
    moves = [d.strides[k] for d in batch if d.strides[k]]
    return Packing(
        name=name,
        buffer=f"x{k}",
        operand=OperandCode.of("x", operand.dtype, value, column),
        itemsizes=(operand.dtype.itemsize, value.itemsize),
        places={"x_group": moves[-1] if moves else 0, "x_lane": column},
        to=f"x{k}_panels",
        repeats=True,
        once=False,
        **loops,
    )


def takes_pairs(folding: Folding, loops: FoldLoops) -> tuple[PairLoops, Schedule] | None:
    """Returns how a reduction is cut, if it is one over pairs that shares enough."""
    pairs = pair_loops(folding, loops)
    schedule = None if pairs is None else pairs_schedule(folding, pairs)
    return None if pairs is None or schedule is None else (pairs, schedule)
