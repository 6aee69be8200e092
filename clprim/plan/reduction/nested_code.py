"""Nested reductions over pairs as a problem, and what reduction/nested.cl.jinja prints of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clprim.dtypes import AnyDType, stored_type
from clprim.language.definition import ReductionDefinition
from clprim.language.pairs import PairsDefinition
from clprim.plan.kernel import KernelCode, OperandCode, ScalarCode
from clprim.plan.reduction.code import PartialCode, partial_code
from clprim.plan.reduction.stage import PAIRS_CHAIN, levels_of_pairs
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Nested:
    """One call of a `Pairs`."""

    definition: PairsDefinition
    shape: tuple[int, ...]  # Batches, then rows, then columns
    depth: int
    spread: int  # Elements of a result's own axis; 1 where it has none
    # Where arrays lie, with all of ``shape`` and, of inner ones, ``depth``; of outer ones,
    # ``spread``
    inputs: tuple[Operand, ...]
    # Of each in elements: batches, rows, columns, and the last axis (0 without)
    strides: tuple[tuple[int, ...], ...]
    results: tuple[Operand, ...]
    # Of each in elements: batches, rows, and their own axis
    result_strides: tuple[tuple[int, ...], ...]
    scalars: tuple[AnyDType, ...]
    real: AnyDType  # dtype that everything is computed in
    partials: tuple[AnyDType, ...]  # dtypes of the outer partials


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
    """What reduction/nested.cl.jinja prints."""

    real: str  # OpenCL C type of everything but positions
    inner: FoldPart | None  # The reduction of a pair, or None
    expr: str  # The map of its results
    outer: FoldPart
    inputs: tuple[OperandCode, ...]  # Arrays of pairs: the inner one's, then those of ``expr``
    first: int  # How many of them are the inner one's
    # What each of them varies with: ``row``, ``column``, ``both``, ``neither``
    kinds: tuple[str, ...]
    packed: tuple[str, ...]  # Names of those that lie in panels
    values: int  # How many values a pair has
    spread: tuple[OperandCode, ...]  # Arrays of the outer one along the results' own axis
    spread_rows: tuple[bool, ...]  # Whether each of these varies with rows; else it lies in a panel
    mode: str  # ``vectors``: a row's partials are vectors; ``scalars``; or ``spread``
    vector: int  # A tile's vectors of columns and rows
    unroll: int
    tall: int
    strips: int  # How many such rows take a panel one after another, while a cache holds it
    wide: int  # Elements of a vector along the results' own axis
    across: int  # Such vectors of a row, and
    beside: int  # ... those of which registers hold partials of all rows
    position: bool  # Whether the outer one asks for a pair's position
    scalars: tuple[ScalarCode, ...]
    kept: int
    # The outer partial that is the largest exponent, where the others are sums of exponentials; see
    # `clprim.language.online_softmax`. Else ""
    maximum: str = ""
    exponent: str = ""  # What assigns the exponent of a pair, and
    factors: tuple[str, ...] = ()  # ... what every partial's exponentials are multiplied by, or ""
    partials: tuple[PartialCode, ...] = ()


@dataclass(frozen=True)
class NestedTile:
    """How pairs are cut."""

    vector: int  # See `NestedCode`
    unroll: int
    tall: int
    strips: int
    wide: int
    across: int
    beside: int
    mode: str
    per_group: int  # Tiles of rows of a work-item, and work-items
    groups: int


def spread_rows(what: Nested) -> tuple[bool, ...]:
    """Whether arrays along the results' own axis vary with rows."""
    return tuple(not s[-2] for s in what.strides[what.definition.shared :])


def nested_code(
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
    scalar_types = {f"w{n}": real for n in range(definition.scalars)}
    types |= scalar_types
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
    given = {y.name: y.value for y in results}
    outer = _part(
        definition.outer, what, printed, what.partials, "outer", panels, given, chain=chain
    )
    expr = printed.text(definition.expr, types)
    outer = replace(outer, results=results, scalars=scalars, kept=len(what.shape) - 2)
    shared, online = definition.shared, definition.online
    softmax: dict[str, Any] = {}
    if online is not None:
        taken = (
            {f"x{n}": real for n in range(definition.outer.inputs)} | scalar_types | {"y0": real}
        )
        softmax["maximum"] = outer.partials[online.maximum].name
        softmax["exponent"] = printed.text(online.exponent, taken)
        softmax["factors"] = tuple(printed.text(f, taken) for f in online.factors)
    return NestedCode(
        name=definition.name,
        preamble=definition.preamble,
        parameters=(),
        index=index,
        unified=unified_functions(everything, definition.preamble, traits),
        guards=printed.guards,
        doubles=real == "double",
        own=own_names(everything, definition.preamble),
        real=real,
        inner=inner,
        expr=expr,
        outer=outer,
        inputs=codes[:shared],
        first=definition.own,
        kinds=kinds,
        packed=packed,
        values=definition.values,
        spread=codes[shared:],
        spread_rows=spread_rows(what),
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
        **softmax,
    )


def _part(
    definition: ReductionDefinition,
    what: Nested,
    printed: Printed,
    partials: Sequence[AnyDType],
    side: str,
    steps: int,
    results: Mapping[str, str] | None = None,
    chain: int = PAIRS_CHAIN,
) -> FoldPart:
    """What is printed of one of the two reductions."""
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
    if results and definition.finalize is None:
        printed.cast((p.value for p in codes), results.values())
    return FoldPart(
        expr=printed.text(definition.expr, snippet_types),
        init=printed.text(definition.init, types),
        step=printed.text(definition.step, snippet_types),
        combine=printed.text(definition.combine, types),
        finalize=printed.text(definition.finalize, snippet_types | dict(results or {})),
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
