"""Plans a `Pointwise`: every element of the results is computed by itself.

The loops are ordered as the first result lies in memory and collapsed. The innermost one runs
along the first dimension of the launch, all outer ones along the second, so that an index is
decomposed once a row and neighbouring work-items touch neighbouring elements.

Where the snippet means the same on vectors (`componentwise`) and memory is contiguous, a work-item
takes one whole vector; else one element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clprim.dtypes import AnyDType
from clprim.language.definition import PointwiseDefinition
from clprim.plan.kernel import BAKED_DIMS, OperandCode, Plan, round_up, work_group
from clprim.plan.machine import UNROLL
from clprim.plan.parameters import Arguments
from clprim.plan.pointwise.code import PointwiseCode, TileCode
from clprim.plan.pointwise.elements import Elements
from clprim.plan.pointwise.placing import place_tiles
from clprim.plan.pointwise.schedule import (
    SIZES,
    aligned,
    chunk_vector,
    group_size,
    prefetched,
    rows_together,
    run_length,
)
from clprim.plan.strides import Dim, Operand
from clprim.traits import DeviceTraits

# Bound: of arguments, which OpenCL promises room for.
ARGUMENT_BYTES = 1024


@dataclass(frozen=True)
class Mapped:
    """What a call computes: elements of ``shape``, which has some, each by itself."""

    definition: PointwiseDefinition
    shape: tuple[int, ...]
    results: tuple[Operand, ...]
    inputs: tuple[Operand, ...]
    scalars: tuple[AnyDType, ...] = ()
    in_place: bool = False  # Whether a result takes the place of an input
    # What devices' traits make of it
    found: dict[DeviceTraits, Elements] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{'×'.join(map(str, self.shape))} elements"

    def elements(self, traits: DeviceTraits) -> Elements:
        """Returns what all kernels have in common on a device, which is found once."""
        if traits not in self.found:
            given = self.definition, self.shape, self.results, self.inputs, self.scalars
            self.found[traits] = Elements(*given, traits)
        return self.found[traits]


def plan_tiled(template: str, what: Mapped, traits: DeviceTraits) -> Plan | None:
    """Plans tiles for operands that lie in different orders; None where others, or none, pay."""
    call = what.elements(traits)
    tiling, given = call.tiling, call.given.copy()
    if tiling is None or tiling.template != template:
        return None
    where = call.dims, call.space.offsets, call.operands, call.types[0], call.reach, traits
    placed = place_tiles(tiling, *where)
    given.numbers(**dict(placed.numbers))
    code = TileCode(
        **call.common,
        **call.split(placed.operands),
        parameters=tuple(given.parameters),
        outer=placed.outer,
        vector=tiling.vector,
        patterns=1,
        chunk=0,
        peeled=False,
        streaming=not what.in_place and call.streams(tiling.vector),
        middle=placed.middle,
        tile=tiling.room or tiling.tile,
        result_step=tiling.result_step,
        input_step=tiling.input_step,
        result_rows=tiling.result_rows,
        input_rows=tiling.input_rows,
        shuffles=tiling.shuffles,
        whole=bool(tiling.room),
        ahead=placed.ahead,
    )
    return call.plan(template, code, given, placed.global_size, (1, 1))


def plan_walked(template: str, what: Mapped, traits: DeviceTraits) -> Plan | None:
    """Plans one loop, along which runs or vectors are taken, inside of all others."""
    # Where operands repeat along memory it is ``pointwise/periodic``, else ``elements``.
    call, in_place = what.elements(traits), what.in_place
    periodic, operands, given = call.periodic, call.operands, call.given.copy()
    if (periodic is None) is (template == "pointwise/periodic"):
        return None
    inner, outer, vector, patterns = call.dims[-1], call.dims[:-1], call.vector, 1
    if periodic is not None:
        vector, patterns = periodic
        operands = [
            replace(o, inner="period") if (s, row) == (1, 0) else o
            for o, s, row in zip(operands, inner.strides, outer[-1].strides, strict=False)
        ]
        inner, outer = Dim(inner.size * outer[-1].size, inner.strides), outer[:-1]
    chunk, count = 0, len(call.results)
    if vector == 1 and not (call.lookups or in_place or call.definition.draws):
        stored = call.types[:count]
        vector = chunk_vector(call.definition, operands, stored, inner, call.reach, traits)
        chunk = UNROLL * vector if vector > 1 else 0
    whole = aligned(count, outer, call.space, vector)
    # Of two vectors of a row one takes a streaming store, where others are not aligned.
    long = whole or (periodic is None and inner.size >= 2 * vector)
    streaming = vector > 1 and not in_place and call.streams(vector) and long
    together = 1 if periodic else rows_together(inner.size, outer, vector, traits)
    pieces = -(-outer[-1].size // together) if together > 1 else 1
    rows = math.prod(d.size for d in (outer[:-1] if together > 1 else outer)) * pieces
    run = run_length(inner.size, vector, patterns, traits)
    numbers = [("n", inner.size), ("rows", rows)]
    numbers += [(f"n{d}", dim.size) for d, dim in enumerate(outer)]
    numbers += [("run", run)] if vector > 1 else []
    numbers += [("pieces", pieces), ("together", together)] if together > 1 else []
    numbers += [("period", call.dims[-1].size)] if periodic is not None else []
    numbers += _strides(call, operands, inner, outer)
    baked = _pass(call, given, numbers)

    work = (-(-inner.size // run), rows)
    group = 1 if chunk else group_size(inner.size // work[0] * together, vector, traits)
    # A CPU's group that takes a piece of many rows reads lines of memory that it leaves at
    # once: whole rows are read by one.
    local = work_group(work, group, whole_rows=traits.is_cpu and vector == 1)
    ahead: tuple[Any, ...] = ()
    if vector > 1 and not chunk:
        ahead = prefetched(operands[count:], call.dims, count, call.reach, traits)
    code = PointwiseCode(
        **call.common | {"walks": together > 1, "prefetched": ahead},
        **call.split(operands),
        parameters=tuple(given.parameters),
        constants=tuple(numbers) if baked else (),
        outer=len(outer),
        vector=vector,
        patterns=patterns,
        chunk=chunk,
        peeled=streaming and not whole,
        streaming=streaming,
    )
    sizes = tuple(round_up(w, g) for w, g in zip(work, local, strict=True))
    return call.plan(template, code, given, sizes, local)


def _strides(
    call: Elements, operands: Sequence[OperandCode], inner: Dim, outer: Sequence[Dim]
) -> list[tuple[str, int]]:
    """Where operands and positions begin and how they step, and sizes that strings read."""
    found: list[tuple[str, int]] = []
    named = [(o.name, o.inner) for o in (*operands, *call.common["positions"])]
    for k, (label, step) in enumerate(named):
        found.append((f"{label}_start", call.space.offsets[k]))
        if step == "any":
            found.append((f"{label}_step", inner.strides[k]))
        found += [(f"{label}_s{d}", dim.strides[k]) for d, dim in enumerate(outer)]
    read = sorted({axis for _, axis in call.sizes})
    return [*found, *((f"size_{axis}", call.shape[axis]) for axis in read), *call.places]


def _pass(call: Elements, given: Arguments, numbers: Sequence[tuple[str, int]]) -> bool:
    """Makes numbers arguments; returns whether they are to be printed, being too many."""
    room = ARGUMENT_BYTES - 8 * len(given.parameters)
    if len(call.dims) > BAKED_DIMS or len(numbers) * SIZES[call.index] > room:
        return True
    given.numbers(**dict(numbers))
    return False
