"""Nested reductions over pairs as a problem, and what reduction/nested.cl.jinja prints of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clprim.dtypes import AnyDType, stored_type
from clprim.language.definition import ReductionDefinition
from clprim.language.pairs_definition import PairsDefinition
from clprim.plan.kernel import KernelCode, OperandCode, ScalarCode
from clprim.plan.reduction.code import PartialCode, partial_code
from clprim.plan.reduction.stage import PAIRS_CHAIN, added_names, levels_of_pairs
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
class NestedTile:
    """How pairs are cut."""

    vector: int  # A panel's vectors of columns, and rows
    unroll: int
    tall: int
    strips: int  # How many such rows take a panel one after another, while a cache holds it
    wide: int  # Elements of a vector along the results' own axis
    across: int  # Such vectors of a row, and
    beside: int  # ... those of which registers hold partials of all rows
    mode: str  # ``vectors``: a row's partials are vectors; ``scalars``; or ``spread``

    @property
    def size(self) -> int:
        """Columns of a panel."""
        return self.vector * self.unroll


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
    tile: NestedTile
    position: bool  # Whether the outer one asks for a pair's position
    scalars: tuple[ScalarCode, ...]
    kept: int
    # The outer partial that is the largest exponent, where the others are sums of exponentials; see
    # `clprim.language.online_softmax`. Else ""
    maximum: str = ""
    exponent: str = ""  # What assigns the exponent of a pair, and
    factors: tuple[str, ...] = ()  # ... what every partial's exponentials are multiplied by, or ""
    partials: tuple[PartialCode, ...] = ()


def spread_rows(what: Nested) -> tuple[bool, ...]:
    """Whether arrays along the results' own axis vary with rows."""
    return tuple(not s[-2] for s in what.strides[what.definition.shared :])


def nested_fields(
    what: Nested, tile: NestedTile, codes: tuple[OperandCode, ...], traits: DeviceTraits
) -> dict[str, Any]:
    """What the template prints, but for what the launch brings."""
    definition, real = what.definition, stored_type(what.real).value
    parts, shared = _Parts(what), definition.shared
    inner, outer, pair = definition.inner, definition.outer, {"x": real, "y": real, "w": real}
    panels = -(-what.shape[-1] // tile.size)
    # Steps into one accumulator of a panel: vectors, or scalars one after another.
    each = {"vectors": tile.unroll, "scalars": tile.size}.get(tile.mode, 1)
    chain = max(1, PAIRS_CHAIN // each) if tile.mode != "spread" else 4
    found: dict[str, Any] = {
        "name": definition.name,
        "preamble": definition.preamble,
        "unified": unified_functions(definition.snippets, definition.preamble, traits),
        "doubles": real == "double",
        "own": own_names(definition.snippets, definition.preamble),
        "real": real,
        "inner": None if inner is None else parts.inner(inner),
        "outer": parts.outer(outer, panels, chain),
        "expr": parts.printed.text(definition.expr, pair | {"reduce_y": real}),
        "inputs": codes[:shared],
        "first": definition.own,
        "values": definition.values,
        "spread": codes[shared:],
        "spread_rows": spread_rows(what),
        "tile": tile,
        "position": "reduce_item" in outer.step.used | outer.expr.used,
        "scalars": parts.scalars,
        "kept": len(what.shape) - 2,
    }
    if (online := definition.online) is not None:
        found["maximum"] = found["outer"].partials[online.maximum].name
        found["exponent"] = parts.printed.text(online.exponent, pair)
        found["factors"] = tuple(parts.printed.text(f, pair) for f in online.factors)
    return found | {"guards": parts.printed.guards}


class _Parts:
    """What is printed of both reductions."""

    def __init__(self, what: Nested) -> None:
        self.what, self.printed = what, Printed()
        self.real = stored_type(what.real).value
        numbers = range(what.definition.scalars)
        self.scalars = tuple(ScalarCode(f"w{n}", self.real) for n in numbers)

    def inner(self, definition: ReductionDefinition) -> FoldPart:
        """The reduction of a pair."""
        partials = (self.what.real,) * definition.partials
        return self._part("inner", definition, partials, self.what.depth, PAIRS_CHAIN, ())

    def outer(self, definition: ReductionDefinition, steps: int, chain: int) -> FoldPart:
        """The reduction of the pairs."""
        what = self.what
        results = tuple(
            OperandCode.of(f"y{n}", r.dtype, r.dtype if r.dtype.kind in "iu" else what.real, s[-1])
            for n, (r, s) in enumerate(zip(what.results, what.result_strides, strict=True))
        )
        if definition.finalize is None:
            codes = (partial_code(n, d) for n, d in enumerate(what.partials))
            self.printed.cast((p.value for p in codes), (y.value for y in results))
        return self._part("outer", definition, what.partials, steps, chain, results)

    def _part(
        self,
        side: str,
        definition: ReductionDefinition,
        partials: Sequence[AnyDType],
        steps: int,
        chain: int,
        results: tuple[OperandCode, ...],
    ) -> FoldPart:
        real, printed = self.real, self.printed
        codes = tuple(partial_code(n, d, definition.family) for n, d in enumerate(partials))
        types = {"x": real, "w": real}
        types |= {p.name: p.value for p in codes} | {p.other: p.value for p in codes}
        values = tuple(
            (f"y{n}", codes[n].value if definition.values_are_partials else real)
            for n in range(definition.values)
        )
        assigned = types | dict(values)
        summed = any(d.kind == "f" and n in definition.summed for n, d in enumerate(partials))
        levels, endless = levels_of_pairs(steps, chain) if summed else (0, False)
        finished = assigned | {y.name: y.value for y in results}
        return FoldPart(
            expr=printed.text(definition.expr, assigned),
            init=printed.text(definition.init, types),
            step=printed.text(definition.step, assigned),
            combine=printed.text(definition.combine, types),
            finalize=printed.text(definition.finalize, finished),
            results=results,
            inputs=tuple(
                OperandCode(f"x{n}", real, real, "direct") for n in range(definition.inputs)
            ),
            partials=codes,
            values=values,
            scalars=self.scalars,
            merge=f"take_{side}",
            parts=(f"{side}_expr", f"{side}_step", f"{side}_combine"),
            init_part=f"{side}_init",
            finalize_part=f"{side}_finalize",
            kept=len(self.what.shape) - 2,
            levels=levels,
            endless=endless,
            chain=chain,
            combine_vectors=definition.combine_componentwise,
            added=added_names(definition, codes, partials),
            scaling=(("plain", ""),) * definition.results,
        )
