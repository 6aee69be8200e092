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
from dataclasses import replace
from typing import Any

import numpy as np

from clprim.dtypes import AnyDType, stored_type, value_dtype
from clprim.language.definition import PointwiseDefinition
from clprim.plan.arguments import Arguments
from clprim.plan.kernel import (
    BAKED_DIMS,
    KernelPlan,
    LookupCode,
    OperandCode,
    PositionCode,
    ScalarCode,
    inner_step,
    round_up,
    work_group,
)
from clprim.plan.pointwise.code import PointwiseCode, TileCode
from clprim.plan.pointwise.lookups import plan_lookups, vector_lanes
from clprim.plan.pointwise.placing import place_tiles
from clprim.plan.pointwise.schedule import (
    CHUNK,
    PEELED,
    SIZES,
    aligned,
    chunk_vector,
    find_period,
    group_size,
    in_words,
    may_stream,
    prefetched,
    rows_together,
    run_length,
    vector_width,
    widest,
)
from clprim.plan.pointwise.tiling import find_tiling
from clprim.plan.snippets import (
    Printed,
    index_type,
    own_names,
    refuse_byte_choices,
    resolve_positions,
    unified_functions,
)
from clprim.plan.strides import (
    Dim,
    Operand,
    Space,
    broadcast_strides,
    collapse,
    memory_order,
)
from clprim.traits import DeviceTraits

# Of arguments, which OpenCL promises room for.
ARGUMENT_BYTES = 1024
# Vectors compute as their components do only where C does not promote the components first.
_VECTOR_TYPES = frozenset("int uint long ulong float double".split())


def plan_pointwise(
    definition: PointwiseDefinition,
    shape: tuple[int, ...],
    results: Sequence[Operand],
    inputs: Sequence[Operand],
    scalars: Sequence[AnyDType],
    traits: DeviceTraits,
    *,
    in_place: bool = False,
) -> KernelPlan:
    """Plans one call.

    Args:
        definition: The checked snippet.
        shape: The broadcast shape, which is also the results' shape; not empty.
        results: Where the results go.
        inputs: Where the inputs lie, before broadcasting.
        scalars: dtypes of the run-time scalars.
        traits: Of the device.
        in_place: Whether results take the places of inputs, whose lines a cache then has: a store
            past it would have to take them out first (a step of Adam took twice as long).

    Raises:
        ShapeError: ``coord(d)`` of a dimension that is not there, a lookup with more or fewer
            coordinates than dimensions, a stride of half an element.
    """
    what = definition.name
    refuse_byte_choices(definition.snippets, inputs, traits)
    arrays = [*results, *(inputs[n] for n in definition.broadcast)]
    strides = [broadcast_strides(a, shape) for a in arrays]
    counted = {"index": None} if "index" in definition.expr.used or definition.draws else {}
    position_names, position_strides, coords, sizes = resolve_positions(
        what, definition.snippets, shape, counted
    )

    order = memory_order(shape, strides)
    everything = [*strides, *position_strides]
    space = collapse(
        Space(
            tuple(Dim(shape[d], tuple(s[d] for s in everything)) for d in order),
            (*(a.in_elements(a.offset) for a in arrays), *(0 for _ in position_strides)),
        )
    )
    copied = definition.copies and results[0].dtype == inputs[0].dtype
    types = [a.dtype for a in arrays]
    if copied:
        space, itemsize = in_words(space, types[0].itemsize, traits)
        types = [np.dtype(f"u{itemsize}")] * 2
    dims = space.dims or (Dim(1, (1,) * len(everything)),)
    inner, outer = dims[-1], dims[:-1]

    elsewhere = [a.dtype for n, a in enumerate(inputs) if n not in definition.broadcast]
    dtypes = [*types, *elsewhere, *scalars]
    lookups, places = plan_lookups(definition, inputs, dtypes)
    values = [t if t.kind in "iub" else value_dtype(t, dtypes) for t in types[: len(results)]] + [
        value_dtype(t, dtypes) for t in types[len(results) :]
    ]
    operands = [
        OperandCode.of(name, dtype, value, inner.strides[k])
        for k, (name, dtype, value) in enumerate(
            zip(_names(len(results), definition.broadcast), types, values, strict=True)
        )
    ]
    # What is read backwards is read by vectors, whose lanes change places.
    operands = [
        replace(o, inner="back") if inner.strides[k] == -1 and k >= len(results) else o
        for k, o in enumerate(operands)
    ]
    scalar_codes = tuple(
        ScalarCode(f"w{n}", stored_type(value_dtype(d, dtypes)).value)
        for n, d in enumerate(scalars)
    )
    value = operands[0].value if copied else _vector_type(definition, operands, scalar_codes)
    along = None
    if lookups and traits.is_cpu and not definition.draws:
        walks = inner.strides[len(arrays) :]
        lane = [n for n, walk in zip(position_names, walks, strict=True) if walk]
        if len(lane) == 1 and lane[0] != "index" and 1 in walks:
            along = vector_lanes(
                definition, operands, lookups, len(results), int(lane[0][6:]), len(shape)
            )
    if along is not None:
        value, operands, lookups = along
    periodic = None if lookups else find_period(dims, len(arrays), len(results), value, traits)
    nbytes = sum(_touched(a, shape) for a in (*results, *inputs))
    index = index_type(
        Space(dims, space.offsets),
        [inputs[int(k.name[1:])] for k in lookups],
        compared=bool(position_names or sizes or lookups),
        traits=traits,
    )
    given = Arguments(index)
    for o in (*operands, *lookups):  # a pointer for every array, also where it is read in two ways
        if not (isinstance(o, LookupCode) and o.named):
            given.memory(o.storage, f"{o.name}_memory", read_only=not o.name.startswith("y"))
    given.scalars(scalar_codes)
    if definition.draws:
        given.random()
    of_scalars = {w.value for w in scalar_codes}
    printed = Printed()
    known = {o.name: o.value for o in (*operands, *lookups)}
    known |= {w.name: w.value for w in scalar_codes}
    expr = printed.text(definition.expr, known)
    common: dict[str, Any] = {
        "name": what,
        "preamble": definition.preamble,
        "index": index,
        "unified": unified_functions(definition.snippets, definition.preamble, traits),
        "doubles": "double" in {*(o.value for o in (*operands, *lookups)), *of_scalars},
        "own": own_names(definition.snippets, definition.preamble),
        "part": definition.expr.rules.part,
        "expr": expr,
        "divided": printed.divided,
        "scalars": scalar_codes,
        "lookups": lookups,
        "positions": tuple(
            PositionCode(name, inner_step(stride))
            for name, stride in zip(position_names, inner.strides[len(arrays) :], strict=True)
        ),
        "coords": coords,
        "sizes": sizes,
        "random": definition.draws,
        "walks": False,
        "prefetched": (),
    }
    flops = definition.expr.flops * math.prod(shape)

    # A part of an array stands for the whole: what is written into its gaps comes soon.
    reach = nbytes + sum(_reach(a) - _touched(a, shape) for a in results)
    vector = vector_width(value, operands, len(results), inner, traits)
    if periodic is None and value is not None and not lookups and len(dims) <= BAKED_DIMS:
        tiling = find_tiling(
            dims,
            len(arrays),
            len(results),
            vectors=(widest(value, traits), vector),
            sizes=(types[0].itemsize, SIZES[value]),
            is_cpu=traits.is_cpu,
        )
        if tiling is not None:
            placed = place_tiles(tiling, dims, space.offsets, operands, types[0], reach, traits)
            given.numbers(**dict(placed.numbers))
            return KernelPlan(
                template=tiling.template,
                code=TileCode(
                    **common,
                    parameters=tuple(given.parameters),
                    results=placed.operands[: len(results)],
                    inputs=placed.operands[len(results) :],
                    outer=placed.outer,
                    vector=tiling.vector,
                    patterns=1,
                    chunk=0,
                    peeled=False,
                    streaming=not in_place
                    and all(
                        may_stream(t, tiling.vector, reach, traits) for t in types[: len(results)]
                    ),
                    middle=placed.middle,
                    tile=tiling.room or tiling.tile,
                    result_step=tiling.result_step,
                    input_step=tiling.input_step,
                    result_rows=tiling.result_rows,
                    input_rows=tiling.input_rows,
                    shuffles=tiling.shuffles,
                    whole=bool(tiling.room),
                    ahead=placed.ahead,
                ),
                arguments=tuple(given.arguments),
                global_size=placed.global_size,
                local_size=(1, 1),
                nbytes=nbytes,
                flops=flops,
            )

    period, patterns = inner.size, 1
    if periodic is not None:
        vector, patterns = periodic
        operands = [
            replace(o, inner="period") if (s, row) == (1, 0) else o
            for o, s, row in zip(operands, inner.strides, dims[-2].strides, strict=False)
        ]
        inner = Dim(period * dims[-2].size, inner.strides)
        outer = outer[:-1]
    chunk = 0
    if vector == 1 and not (lookups or in_place or definition.draws):
        vector = chunk_vector(definition, operands, types[: len(results)], inner, reach, traits)
        chunk = CHUNK if vector > 1 else 0
    whole = aligned(len(results), outer, space, vector)
    streaming = (
        vector > 1
        and not in_place
        and all(may_stream(t, vector, reach, traits) for t in types[: len(results)])
        and (whole or (periodic is None and inner.size >= PEELED * vector))
    )

    labels = [*(o.name for o in operands), *position_names]
    together = 1 if periodic else rows_together(inner.size, outer, vector, traits)
    pieces = -(-outer[-1].size // together) if together > 1 else 1
    rows = math.prod(d.size for d in (outer[:-1] if together > 1 else outer)) * pieces
    numbers = [("n", inner.size), ("rows", rows)]
    numbers += [(f"n{d}", dim.size) for d, dim in enumerate(outer)]
    run = run_length(inner.size, vector, patterns, traits)
    if vector > 1:
        numbers.append(("run", run))
    if together > 1:
        numbers += [("pieces", pieces), ("together", together)]
    if periodic is not None:
        numbers.append(("period", period))
    steps = [o.inner for o in (*operands, *common["positions"])]
    for k, label in enumerate(labels):
        numbers.append((f"{label}_start", space.offsets[k]))
        if steps[k] == "any":
            numbers.append((f"{label}_step", inner.strides[k]))
        numbers += [(f"{label}_s{d}", dim.strides[k]) for d, dim in enumerate(outer)]
    numbers += [(f"size_{axis}", shape[axis]) for axis in sorted({axis for _, axis in sizes})]
    numbers += places
    room = ARGUMENT_BYTES - 8 * len(given.parameters)
    baked = len(dims) > BAKED_DIMS or len(numbers) * SIZES[index] > room
    if not baked:
        given.numbers(**dict(numbers))

    work = (-(-inner.size // run), rows)
    group = 1 if chunk else group_size(inner.size // work[0] * together, vector, traits)
    # A CPU's group that takes a piece of many rows reads lines of memory that it leaves at once:
    # images of 112 and 56 columns were resized four times as slowly by groups of 16 columns.
    local = work_group(work, group, whole_rows=traits.is_cpu and vector == 1)
    return KernelPlan(
        template="pointwise/elements" if periodic is None else "pointwise/periodic",
        code=PointwiseCode(
            **common
            | {
                "walks": together > 1,
                "prefetched": prefetched(
                    operands[len(results) :], dims, len(results), reach, traits
                )
                if vector > 1 and not chunk
                else (),
            },
            parameters=tuple(given.parameters),
            constants=tuple(numbers) if baked else (),
            results=tuple(operands[: len(results)]),
            inputs=tuple(operands[len(results) :]),
            outer=len(outer),
            vector=vector,
            patterns=patterns,
            chunk=chunk,
            peeled=streaming and not whole,
            streaming=streaming,
        ),
        arguments=tuple(given.arguments),
        global_size=tuple(round_up(w, g) for w, g in zip(work, local, strict=True)),
        local_size=local,
        nbytes=nbytes,
        flops=flops,
    )


def _names(results: int, inputs: Sequence[int]) -> list[str]:
    return [f"y{n}" for n in range(results)] + [f"x{n}" for n in inputs]


def _vector_type(
    definition: PointwiseDefinition,
    operands: Sequence[OperandCode],
    scalars: Sequence[ScalarCode],
) -> str | None:
    """The one type that everything is calculated in, where vectors compute as elements do."""
    types = {*(o.value for o in operands), *(w.value for w in scalars)}
    value = next(iter(types))
    if len(types) > 1 or value not in _VECTOR_TYPES or not definition.componentwise:
        return None
    if definition.needs_float and value not in ("float", "double"):
        return None
    return value


def _reach(operand: Operand) -> int:
    """Bytes from the first element to the last one."""
    steps = zip(operand.strides, operand.shape, strict=True)
    return operand.dtype.itemsize + sum(abs(s) * (n - 1) for s, n in steps)


def _touched(operand: Operand, shape: tuple[int, ...]) -> int:
    return min(operand.size, math.prod(shape)) * operand.dtype.itemsize
