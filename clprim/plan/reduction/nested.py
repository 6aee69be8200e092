"""Reductions over pairs whose pairs are reductions themselves: nothing of all pairs is stored.

``reduction/nested``: a work-item holds a tile of rows and walks all columns, a panel at a time. The
inner reduction of a panel is that of ``reduction/pairs``, in registers; its results go through
``expr`` into the outer partials of each row. Memory is that of operands and panels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.dtypes import AnyDType, stored_type
from clprim.language.definition import ReductionDefinition
from clprim.language.pairs import PairsDefinition
from clprim.plan.arguments import Arguments
from clprim.plan.kernel import (
    BAKED_DIMS,
    KernelCode,
    KernelPlan,
    OperandCode,
    Plan,
    ScalarCode,
    power_of_two,
    round_up,
)
from clprim.plan.product.pack import Packing, pack_kernel
from clprim.plan.reduction.code import PartialCode, partial_code
from clprim.plan.reduction.pairs import PairLoops, panel_numbers
from clprim.plan.reduction.schedule import GROUPS_PER_UNIT
from clprim.plan.reduction.stage import PAIRS_CHAIN, levels_of_pairs
from clprim.plan.snippets import Printed, index_type, own_names, unified_functions
from clprim.plan.strides import Dim, Operand, Space
from clprim.traits import DeviceTraits

# Vectors of columns of a panel, and rows of a tile, where the inner one has registers for them.
PANEL = 4
# Scalars of a panel and rows, where strings are no vectors.
SCALARS, SCALAR_ROWS = 32, 2
# Vectors that a work-item's outer partials and values may take, in a near cache.
MOST_VECTORS = 768
# Strips of rows that take a panel one after another, and vectors that all their partials are.
STRIPS, STRIP_VECTORS = 8, 128


@dataclass(frozen=True)
class Nested:
    """One call of a `Pairs`.

    Attributes:
        definition: The checked strings.
        shape: Batches, then rows, then columns.
        depth: Elements of a pair.
        spread: Elements of a result's own axis; 1 where it has none.
        inputs: Where arrays lie, with all of ``shape`` and, of inner ones, ``depth``; of outer
            ones, ``spread``.
        strides: Of each in elements: batches, rows, columns, and the last axis (0 without).
        results: Where results go.
        result_strides: Of each in elements: batches, rows, and their own axis.
        scalars: dtypes of the numbers.
        real: dtype that everything is computed in.
        partials: dtypes of the outer partials.
    """

    definition: PairsDefinition
    shape: tuple[int, ...]
    depth: int
    spread: int
    inputs: tuple[Operand, ...]
    strides: tuple[tuple[int, ...], ...]
    results: tuple[Operand, ...]
    result_strides: tuple[tuple[int, ...], ...]
    scalars: tuple[AnyDType, ...]
    real: AnyDType
    partials: tuple[AnyDType, ...]


@dataclass(frozen=True)
class FoldPart:
    """What the macros of reductions print of one of the two; see `ReductionCode`."""

    expr: str
    init: str
    step: str
    combine: str
    finalize: str
    results: tuple[OperandCode, ...]
    inputs: tuple[OperandCode, ...]
    partials: tuple[PartialCode, ...]
    values: tuple[tuple[str, str], ...]
    scalars: tuple[ScalarCode, ...]
    merge: str
    kept: int
    levels: int
    endless: bool
    chain: int
    combine_vectors: bool
    added: tuple[str, ...]
    scaling: tuple[tuple[str, str], ...]
    parts: tuple[str, str, str]
    init_part: str
    finalize_part: str
    positions: tuple[()] = ()
    finalized: tuple[()] = ()
    partial: bool = False
    random: bool = False


@dataclass(frozen=True)
class NestedCode(KernelCode):
    """What reduction/nested.cl.jinja prints.

    Attributes:
        real: OpenCL C type of everything but positions.
        inner: The reduction of a pair, or None.
        expr: The map of its results.
        outer: The reduction over pairs.
        inputs: Arrays of pairs: the inner one's, then those of ``expr``.
        first: How many of them are the inner one's.
        kinds: What each of them varies with: ``row``, ``column``, ``both``, ``neither``.
        packed: Names of those that lie in panels.
        values: How many values a pair has.
        spread: Arrays of the outer one along the results' own axis.
        spread_rows: Whether each of these varies with rows; else it lies in a panel.
        mode: ``vectors``: a row's partials are vectors; ``scalars``; or ``spread``.
        vector, unroll, tall: A tile's vectors of columns and rows.
        strips: How many such rows take a panel one after another, while a cache holds it.
        wide: Elements of a vector along the results' own axis.
        across: Such vectors of a row, and ...
        beside: ... those of which registers hold partials of all rows.
        position: Whether the outer one asks for a pair's position.
        scalars: The run-time numbers.
        kept: Loops of batches.
    """

    real: str
    inner: FoldPart | None
    expr: str
    outer: FoldPart
    inputs: tuple[OperandCode, ...]
    first: int
    kinds: tuple[str, ...]
    packed: tuple[str, ...]
    values: int
    spread: tuple[OperandCode, ...]
    spread_rows: tuple[bool, ...]
    mode: str
    vector: int
    unroll: int
    tall: int
    strips: int
    wide: int
    across: int
    beside: int
    position: bool
    scalars: tuple[ScalarCode, ...]
    kept: int
    partials: tuple[PartialCode, ...] = ()


@dataclass(frozen=True)
class NestedTile:
    """How pairs are cut.

    Attributes:
        vector, unroll, tall, strips, wide, across, beside, mode: See `NestedCode`.
        per_group, groups: Tiles of rows of a work-item, and work-items.
    """

    vector: int
    unroll: int
    tall: int
    strips: int
    wide: int
    across: int
    beside: int
    mode: str
    per_group: int
    groups: int


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
        unroll = max(1, min(PANEL, registers, -(-columns // vector)))
        tall = max(1, registers // unroll)
    else:
        vector, unroll, tall = 1, max(1, min(SCALARS, columns)), SCALAR_ROWS
    own_vectors = outer.componentwise and not outer.positions
    mode = "vectors" if own_vectors and vector > 1 else "scalars"
    wide = across = beside = 1
    if definition.spread:
        mode = "spread"
        own = own_vectors and lanes > 1 and what.spread > 1
        wide = min(lanes, power_of_two(what.spread)) if own else 1
        across = -(-what.spread // wide)
        held = 1 + sum(1 for row in _spread_rows(what) if row)
        tall = max(1, min(tall, MOST_VECTORS // (across * held * outer.partials)))
        if own:
            beside = max(1, min(across, traits.sums * 6 // (7 * tall * outer.partials)))
        else:
            beside = min(across, SCALARS)
        across = round_up(across, beside)
    tall = min(tall, rows)
    batches = math.prod(what.shape[:-2])
    wanted = -(-GROUPS_PER_UNIT * traits.compute_units // batches)
    most = max(1, STRIP_VECTORS // (tall * across * outer.partials))
    strips = max(1, min(STRIPS, most, rows // (tall * wanted)))
    strips = 1 << (strips.bit_length() - 1)
    tiles = -(-rows // (tall * strips))
    per_group = max(1, tiles // wanted)
    return NestedTile(
        vector, unroll, tall, strips, wide, across, beside, mode, per_group, -(-tiles // per_group)
    )


def _spread_rows(what: Nested) -> tuple[bool, ...]:
    """Whether arrays along the results' own axis vary with rows."""
    return tuple(not s[-2] for s in what.strides[what.definition.shared :])


def plan_nested(what: Nested, traits: DeviceTraits) -> Plan:
    """Plans a call, of whose results none is empty."""
    definition, tile = what.definition, nested_tile(what, traits)
    columns = what.shape[-1]
    panel = tile.vector * tile.unroll
    panels = -(-columns // panel)
    type_name = stored_type(what.real).value
    spread_lanes = tile.wide * tile.across
    space = Space(
        tuple(
            Dim(n, tuple(s[d] for s in what.strides))
            for d, n in enumerate((*what.shape, max(what.depth, what.spread)))
        ),
        tuple(a.in_elements(a.offset) for a in what.inputs),
    )
    index = index_type(space, compared=definition.outer.positions != frozenset(), traits=traits)
    batch_dims = [Dim(n, tuple(s[d] for s in what.strides)) for d, n in enumerate(what.shape[:-2])]
    kinds = tuple(_kind(s) for s in what.strides[: definition.shared])
    stages: list[KernelPlan] = []
    workspace: dict[str, tuple[int, AnyDType]] = {}
    numbers: dict[str, int] = {"depth": what.depth, "height": what.shape[-2], "width": columns}
    numbers |= {"spread": what.spread, "per_group": tile.per_group}
    numbers |= {f"k{d}": n for d, n in enumerate(what.shape[:-2])}
    packed, codes = [], []
    for k, (a, strides) in enumerate(zip(what.inputs, what.strides, strict=True)):
        name, own_axis = f"x{k}", k >= definition.shared
        inner = k < definition.own
        code = OperandCode.of(name, a.dtype, what.real, strides[-1] if own_axis else strides[-2])
        rows = not strides[-2] if own_axis else False
        if (inner and kinds[k] == "column") or (own_axis and not rows):
            packed.append(name)
            lanes, size, tiles = (
                (what.spread, spread_lanes, 1) if own_axis else (columns, panel, panels)
            )
            depth = columns if own_axis else what.depth
            column, step = (strides[-1], strides[-2]) if own_axis else (strides[-2], strides[-1])
            groups = math.prod(d.size for d in batch_dims if d.strides[k])
            elements = groups * tiles * size * depth
            index = "long" if elements >= 2**31 - 2**20 else index
            one = Dim(1, (0,) * len(what.strides))
            loops = PairLoops(one, one, tuple(batch_dims), (), (), ())
            numbers |= dict(panel_numbers(name, k, loops, tiles * size * depth))
            workspace[f"{name}_panels"] = max(1, elements), what.real
            codes.append(OperandCode(name, type_name, type_name, "direct", "one"))
            if not elements:
                continue
            moves = [d.strides[k] for d in batch_dims if d.strides[k]]
            stages.append(
                pack_kernel(
                    Packing(
                        name=definition.name,
                        buffer=name,
                        operand=OperandCode.of("x", a.dtype, what.real, column),
                        itemsizes=(a.dtype.itemsize, what.real.itemsize),
                        start=a.in_elements(a.offset),
                        depths=(1, 1, depth),
                        strides=(0, 0, step),
                        places={"x_group": moves[-1] if moves else 0, "x_lane": column},
                        lanes=lanes,
                        groups=groups,
                        tile=size,
                        width=tile.vector if not own_axis else 1,
                        index=index,
                        to=f"{name}_panels",
                        repeats=True,
                        once=False,
                    ),
                    tiles,
                    depth,
                )
            )
        else:
            numbers[f"{name}_start"] = a.in_elements(a.offset)
            numbers |= {f"{name}_k{d}": s for d, s in enumerate(strides[:-3])}
            numbers |= {f"{name}_row": strides[-3], f"{name}_column": strides[-2]}
            numbers[f"{name}_step"] = strides[-1]
            codes.append(code)
    for n, (y, strides) in enumerate(zip(what.results, what.result_strides, strict=True)):
        name = f"y{n}"
        numbers[f"{name}_start"] = y.in_elements(y.offset)
        numbers |= {f"{name}_k{d}": s for d, s in enumerate(strides[:-2])}
        numbers |= {f"{name}_row": strides[-2], f"{name}_column": strides[-1]}
    code = _code(what, tile, tuple(codes), kinds, tuple(packed), index, panels, traits)
    baked = len(what.shape) + 2 > BAKED_DIMS
    found = Arguments(index)
    for y in code.outer.results:
        found.memory(y.storage, f"{y.name}_memory", read_only=False)
    for x in (*code.inputs, *code.spread):
        found.memory(x.storage, f"{x.name}_memory")
    found.scalars(code.scalars)
    if not baked:
        found.numbers(**numbers)
    code = replace(
        code,
        parameters=tuple(found.parameters),
        constants=tuple(numbers.items()) if baked else (),
    )
    ops = (0 if definition.inner is None else what.depth) * _flops(definition.inner)
    ops += definition.expr.flops + what.spread * _flops(definition.outer)
    main = KernelPlan(
        "reduction/nested",
        code,
        tuple(found.arguments),
        (1, tile.groups, math.prod(what.shape[:-2])),
        (1, 1, 1),
        sum(a.size * a.dtype.itemsize for a in (*what.inputs, *what.results)),
        ops * math.prod(what.shape),
    )
    names = {name: f"{name}_panels" for name in packed}
    return Plan((*stages, main.renamed(names)), workspace)


def _flops(definition: ReductionDefinition | None) -> int:
    return 0 if definition is None else definition.expr.flops + definition.step.flops


def _kind(strides: Sequence[int]) -> str:
    row, column = strides[-3], strides[-2]
    if row and column:
        return "both"
    return "row" if row else "column" if column else "neither"


def _code(
    what: Nested,
    tile: NestedTile,
    codes: tuple[OperandCode, ...],
    kinds: tuple[str, ...],
    packed: tuple[str, ...],
    index: str,
    panels: int,
    traits: DeviceTraits,
) -> NestedCode:
    """What the template prints."""
    definition, real = what.definition, stored_type(what.real).value
    printed = Printed()
    types = {f"x{k}": real for k in range(len(codes))}
    types |= {f"w{n}": real for n in range(definition.scalars)}
    types |= {
        f"{family}{n}": real for family in ("y", "reduce_y") for n in range(definition.values)
    }
    scalars = tuple(ScalarCode(f"w{n}", real) for n in range(definition.scalars))
    everything = definition.snippets
    results = tuple(
        OperandCode.of(
            f"y{n}", r.dtype, r.dtype if r.dtype.kind in "iu" else what.real, strides[-1]
        )
        for n, (r, strides) in enumerate(zip(what.results, what.result_strides, strict=True))
    )
    inner = None
    if definition.inner is not None:
        partials = (what.real,) * definition.inner.partials
        inner = _part(definition.inner, what, printed, partials, "inner", what.depth)
        inner = replace(inner, chain=PAIRS_CHAIN, scalars=scalars)
    # Steps into one accumulator of a panel: vectors, or scalars one after another.
    each = {"vectors": tile.unroll, "scalars": tile.vector * tile.unroll}.get(tile.mode, 1)
    chain = max(1, PAIRS_CHAIN // each) if tile.mode != "spread" else 4
    outer = _part(definition.outer, what, printed, what.partials, "outer", panels, chain=chain)
    outer = replace(outer, results=results, scalars=scalars, kept=len(what.shape) - 2)
    shared = definition.shared
    return NestedCode(
        name=definition.name,
        preamble=definition.preamble,
        parameters=(),
        index=index,
        unified=unified_functions(everything, definition.preamble, traits),
        divided=printed.divided,
        doubles=real == "double",
        own=own_names(everything, definition.preamble),
        real=real,
        inner=inner,
        expr=printed.text(definition.expr, types),
        outer=outer,
        inputs=codes[:shared],
        first=definition.own,
        kinds=kinds,
        packed=packed,
        values=definition.values,
        spread=codes[shared:],
        spread_rows=_spread_rows(what),
        mode=tile.mode,
        vector=tile.vector,
        unroll=tile.unroll,
        tall=tile.tall,
        strips=tile.strips,
        wide=tile.wide,
        across=tile.across,
        beside=tile.beside,
        position="reduce_item" in definition.outer.step.used | definition.outer.expr.used,
        scalars=scalars,
        kept=len(what.shape) - 2,
    )


def _part(
    definition: ReductionDefinition,
    what: Nested,
    printed: Printed,
    partials: Sequence[AnyDType],
    side: str,
    steps: int,
    chain: int = PAIRS_CHAIN,
) -> FoldPart:
    """What is printed of one of the two reductions.

    Args:
        definition: Which.
        what: The call.
        printed: Collects what is divided.
        partials: dtypes of its partials.
        side: ``inner`` or ``outer``.
        steps: That take something in, one after another.
        chain: How many of them make a chain.
    """
    real = stored_type(what.real).value
    codes = tuple(partial_code(n, d, definition.family) for n, d in enumerate(partials))
    types = {f"x{n}": real for n in range(definition.inputs)}
    types |= {f"w{n}": real for n in range(definition.scalars)}
    types |= {p.name: p.value for p in codes} | {p.other: p.value for p in codes}
    values = tuple(
        (f"y{n}", codes[n].value if definition.values_are_partials else real)
        for n in range(definition.values)
    )
    summed = any(d.kind == "f" and n in definition.summed for n, d in enumerate(partials))
    levels, endless = 0, False
    if summed:
        levels, endless = levels_of_pairs(steps, chain)
    snippet_types = types | dict(values)
    return FoldPart(
        expr=printed.text(definition.expr, snippet_types),
        init=printed.text(definition.init, types),
        step=printed.text(definition.step, snippet_types),
        combine=printed.text(definition.combine, types),
        finalize=printed.text(definition.finalize, snippet_types),
        results=(),
        inputs=tuple(OperandCode(f"x{n}", real, real, "direct") for n in range(definition.inputs)),
        partials=codes,
        values=values,
        scalars=(),
        merge=f"take_{side}",
        parts=(f"{side}_expr", f"{side}_step", f"{side}_combine"),
        init_part=f"{side}_init",
        finalize_part=f"{side}_finalize",
        kept=0,
        levels=levels,
        endless=endless,
        chain=chain,
        combine_vectors=definition.combine_componentwise,
        added=tuple(
            p.name
            for n, (p, d) in enumerate(zip(codes, partials, strict=True))
            if n in definition.added and d.kind == "f"
        ),
        scaling=(("plain", ""),) * definition.results,
    )
