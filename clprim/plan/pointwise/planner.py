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
from clprim.plan.kernel import (
    BAKED_DIMS,
    Argument,
    Buffer,
    KernelPlan,
    LookupCode,
    OperandCode,
    Parameter,
    PositionCode,
    Scalar,
    ScalarCode,
    inner_step,
    random_arguments,
    round_up,
    work_group,
)
from clprim.plan.pointwise.code import PointwiseCode, TileCode
from clprim.plan.pointwise.lookups import plan_lookups, vector_lanes
from clprim.plan.pointwise.tiling import find_tiling, place_tiles
from clprim.plan.snippets import index_type, own_names, resolve_dims, unified_functions
from clprim.plan.strides import (
    Dim,
    Operand,
    Space,
    broadcast_strides,
    collapse,
    memory_order,
    row_major_strides,
)
from clprim.traits import DeviceTraits

__all__ = ["PointwiseCode", "plan_pointwise"]

# Elements that a CPU's work-group takes.
RUN = 8192
# Of arguments, which OpenCL promises room for.
ARGUMENT_BYTES = 1024
# The same where the work-item prepares patterns first, a few hundred loads.
PATTERN_RUN = 32768
# Vectors compute as their components do only where C does not promote the components first.
_VECTOR_TYPES = frozenset("int uint long ulong float double".split())
_SIZES = {"uchar": 1, "ushort": 2, "int": 4, "uint": 4, "float": 4} | dict.fromkeys(
    ("long", "ulong", "double"), 8
)


def plan_pointwise(
    definition: PointwiseDefinition,
    shape: tuple[int, ...],
    results: Sequence[Operand],
    inputs: Sequence[Operand],
    scalars: Sequence[AnyDType],
    traits: DeviceTraits,
) -> KernelPlan:
    """Plans one call.

    Args:
        definition: The checked snippet.
        shape: The broadcast shape, which is also the results' shape; not empty.
        results: Where the results go.
        inputs: Where the inputs lie, before broadcasting.
        scalars: dtypes of the run-time scalars.
        traits: Of the device.

    Raises:
        ShapeError: ``coord(d)`` of a dimension that is not there, a lookup with more or fewer
            coordinates than dimensions, a stride of half an element.
    """
    what = definition.name
    arrays = [*results, *(inputs[n] for n in definition.broadcast)]
    strides = [broadcast_strides(a, shape) for a in arrays]
    position_names, position_strides, coords, sizes = _positions(definition, shape)

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
        space, itemsize = _in_words(space, types[0].itemsize, traits)
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
    periodic = None if lookups else _periodic(dims, len(arrays), len(results), value, traits)
    nbytes = sum(_touched(a, shape) for a in (*results, *inputs))
    index = index_type(
        Space(dims, space.offsets),
        [inputs[int(k.name[1:])] for k in lookups],
        compared=bool(position_names or sizes or lookups),
        traits=traits,
    )
    parameters, arguments = _memory([*operands, *lookups], len(results))
    for n, code in enumerate(scalar_codes):
        prefix = "arg_" if code.value == "bool" else ""
        parameters.append(Parameter.number(code.argument, prefix + code.name))
        arguments.append(Scalar(n))
    if definition.draws:
        more, given = random_arguments()
        parameters += more
        arguments += given
    of_scalars = {w.value for w in scalar_codes}
    common: dict[str, Any] = {
        "name": what,
        "preamble": definition.preamble,
        "index": index,
        "unified": unified_functions(definition.snippets, definition.preamble, traits),
        "doubles": "double" in {*(o.value for o in (*operands, *lookups)), *of_scalars},
        "own": own_names(definition.snippets, definition.preamble),
        "part": definition.expr.rules.part,
        "expr": definition.expr.body,
        "scalars": scalar_codes,
        "lookups": lookups,
        "positions": tuple(
            PositionCode(name, inner_step(stride))
            for name, stride in zip(position_names, inner.strides[len(arrays) :], strict=True)
        ),
        "coords": coords,
        "sizes": sizes,
        "random": definition.draws,
    }
    flops = definition.expr.flops * math.prod(shape)

    vector = _vector_width(value, operands, len(results), inner, traits)
    if periodic is None and value is not None and not lookups and len(dims) <= BAKED_DIMS:
        tiling = find_tiling(
            dims,
            len(arrays),
            len(results),
            vectors=(_widest(value, traits), vector),
            sizes=(types[0].itemsize, _SIZES[value]),
            is_cpu=traits.is_cpu,
        )
        if tiling is not None:
            placed = place_tiles(tiling, dims, space.offsets, operands, types[0], traits)
            parameters += [Parameter.number(index, name) for name, _ in placed.numbers]
            arguments += [number for _, number in placed.numbers]
            return KernelPlan(
                template=tiling.template,
                code=TileCode(
                    **common,
                    parameters=tuple(parameters),
                    constants=(),
                    results=placed.operands[: len(results)],
                    inputs=placed.operands[len(results) :],
                    outer=placed.outer,
                    vector=tiling.vector,
                    patterns=1,
                    streaming=all(
                        _may_stream(t, tiling.vector, nbytes, traits) for t in types[: len(results)]
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
                arguments=tuple(arguments),
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
    streaming = (
        vector > 1
        and all(_may_stream(t, vector, nbytes, traits) for t in types[: len(results)])
        and _aligned(len(results), outer, space, vector)
    )

    labels = [*(o.name for o in operands), *position_names]
    numbers = [("n", inner.size), ("rows", math.prod(d.size for d in outer))]
    numbers += [(f"n{d}", dim.size) for d, dim in enumerate(outer)]
    run = _run(inner.size, vector, patterns, traits)
    if vector > 1:
        numbers.append(("run", run))
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
    constants: tuple[tuple[str, int], ...] = ()
    room = ARGUMENT_BYTES - 8 * len(parameters)
    if len(dims) > BAKED_DIMS or len(numbers) * _SIZES[index] > room:
        constants = tuple(numbers)
    else:
        parameters += [Parameter.number(index, name) for name, _ in numbers]
        arguments += [number for _, number in numbers]

    work = (-(-inner.size // run), math.prod(d.size for d in outer))
    group = _group_size(inner.size // work[0], vector, traits)
    # A CPU's group that takes a piece of many rows reads lines of memory that it leaves at once:
    # images of 112 and 56 columns were resized four times as slowly by groups of 16 columns.
    local = work_group(work, group, whole_rows=traits.is_cpu and vector == 1)
    return KernelPlan(
        template="pointwise/elements" if periodic is None else "pointwise/periodic",
        code=PointwiseCode(
            **common,
            parameters=tuple(parameters),
            constants=constants,
            results=tuple(operands[: len(results)]),
            inputs=tuple(operands[len(results) :]),
            outer=len(outer),
            vector=vector,
            patterns=patterns,
            streaming=streaming,
        ),
        arguments=tuple(arguments),
        global_size=tuple(round_up(w, g) for w, g in zip(work, local, strict=True)),
        local_size=local,
        nbytes=nbytes,
        flops=flops,
    )


def _in_words(space: Space, itemsize: int, traits: DeviceTraits) -> tuple[Space, int]:
    """Returns the loops of a copy over larger elements, and how large they are.

    What is copied need not be known: neighbours that stay neighbours are one word, up to 4 bytes;
    where rows are shorter than a register up to 8, so that a row is fewer.
    """
    while space.dims:
        *outer, inner = space.dims
        row = inner.size * itemsize
        if itemsize == 8 or (itemsize == 4 and not (traits.is_cpu and row < traits.vector_bytes)):
            break
        places = [*space.offsets, *(s for d in outer for s in d.strides), inner.size]
        if any(s != 1 for s in inner.strides) or any(place % 2 for place in places):
            break
        halved = [Dim(d.size, tuple(s // 2 for s in d.strides)) for d in outer]
        inner = Dim(inner.size // 2, inner.strides)
        space = Space((*halved, inner), tuple(place // 2 for place in space.offsets))
        itemsize *= 2
    return space, itemsize


def _names(results: int, inputs: Sequence[int]) -> list[str]:
    return [f"y{n}" for n in range(results)] + [f"x{n}" for n in inputs]


Pairs = tuple[tuple[int, int], ...]


def _positions(
    definition: PointwiseDefinition, shape: tuple[int, ...]
) -> tuple[list[str], list[tuple[int, ...]], Pairs, Pairs]:
    """Returns the positions the snippet uses, as operands without memory.

    ``index`` walks the broadcast shape in C order, ``coord_D`` steps by one along D alone.
    Collapsing then takes care of them by itself.
    """
    names: list[str] = []
    strides: list[tuple[int, ...]] = []
    if "index" in definition.expr.used or definition.draws:
        names.append("index")
        strides.append(row_major_strides(shape))
    coords: list[tuple[int, int]] = []
    sizes: list[tuple[int, int]] = []
    for function, d, axis in resolve_dims(definition.name, definition.snippets, len(shape)):
        (coords if function == "coord" else sizes).append((d, axis))
    for axis in sorted({axis for _, axis in coords}):
        names.append(f"coord_{axis}")
        strides.append(row_major_strides(shape, [axis]))
    return names, strides, tuple(coords), tuple(sizes)


def _memory(
    operands: Sequence[OperandCode], results: int
) -> tuple[list[Parameter], list[Argument]]:
    """A pointer for every array, also where it is read in two ways."""
    parameters: list[Parameter] = []
    arguments: list[Argument] = []
    for o in operands:
        if isinstance(o, LookupCode) and o.named:
            continue
        read_only = not o.name.startswith("y")
        parameters.append(Parameter.memory(o.storage, f"{o.name}_memory", read_only=read_only))
        arguments.append(Buffer(o.name))
    return parameters, arguments


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


def _widest(value: str, traits: DeviceTraits) -> int:
    """Elements of a register; OpenCL C has vectors of up to 16."""
    return min(16, max(2, traits.vector_bytes // _SIZES[value]))


def _vector_width(
    value: str | None,
    operands: Sequence[OperandCode],
    results: int,
    inner: Dim,
    traits: DeviceTraits,
) -> int:
    """Elements a work-item takes at a time: a register where memory is contiguous, else one."""
    if value is None or any(o.inner == "any" for o in operands):
        return 1
    if any(o.inner != "one" for o in operands[:results]):
        return 1
    width = _widest(value, traits)
    while width > 2 and width > inner.size:
        width //= 2
    return width if width <= inner.size else 1


def _periodic(
    dims: Sequence[Dim], arrays: int, results: int, value: str | None, traits: DeviceTraits
) -> tuple[int, int] | None:
    """Vector width and vectors a period, where operands repeat along contiguous memory.

    The last two loops are then one for all operands but those that have a value for every
    iteration of the inner one, over and over. Measured beside rows walked one by one, on images of
    3 to 192 channels with a bias, or with a factor and a bias, on two cores with AVX-512 and two
    runtimes: 3.4 to 11 times as fast with 3 channels, 1.3 to 2.7 with 24, 1.25 to 1.9 with 16, 1.0
    to 1.6 with 32 and more.
    """
    if value is None or not traits.is_cpu or len(dims) < 2:
        return None
    rows, inner = dims[-2:]
    steps = list(zip(rows.strides[:arrays], inner.strides[:arrays], strict=True))
    full, repeated, constant = (inner.size, 1), (0, 1), (0, 0)
    if any(s not in (full, repeated, constant) for s in steps):
        return None
    if any(s != full for s in steps[:results]):
        return None
    vector = _widest(value, traits)
    patterns = inner.size // math.gcd(inner.size, vector)
    # Patterns are to stay in registers, and to be made seldom.
    if patterns * steps.count(repeated) > 12 or rows.size * inner.size < 4 * patterns * vector:
        return None
    return vector, patterns


def _run(inner: int, vector: int, patterns: int, traits: DeviceTraits) -> int:
    """Elements of a row that one work-item takes: a vector, and on a CPU a run of them.

    At memory speed a 64-byte vector is gone in some 18 cycles, about what finding its place takes;
    a CPU's work-item therefore stays for RUN elements once it is there.
    """
    if vector == 1 or not traits.is_cpu:
        return vector
    pieces = -(-inner // (RUN if patterns == 1 else PATTERN_RUN))
    return round_up(-(-inner // pieces), vector * patterns)


def _group_size(run: int, vector: int, traits: DeviceTraits) -> int:
    # A CPU runs a work-group as one loop: long ones cost less to start. Measured: 1024 scalar
    # work-items, or vectors that make up a RUN, are within 2 % of the best of all sizes on three
    # runtimes.
    wanted = max(1, RUN // run) if vector > 1 else 1024
    return min(wanted if traits.is_cpu else 256, traits.max_work_group_size)


def _touched(operand: Operand, shape: tuple[int, ...]) -> int:
    return min(operand.size, math.prod(shape)) * operand.dtype.itemsize


def _may_stream(dtype: AnyDType, vector: int, nbytes: int, traits: DeviceTraits) -> bool:
    """Whether stores of a result should bypass the cache.

    Such stores save reading each line before it is overwritten (27 → 42 GB/s on the CPU at hand),
    but cost a reader that comes soon; so only for data that would not stay in the cache anyway.
    They need whole registers.
    """
    if not (traits.is_cpu and traits.streaming) or nbytes <= traits.cache_bytes:
        return False
    return stored_type(dtype).load == "direct" and vector * dtype.itemsize >= 16


def _aligned(results: int, outer: Sequence[Dim], space: Space, vector: int) -> bool:
    """Whether all rows of the results start where a register may be stored."""
    places = [
        place
        for k in range(results)
        for place in (space.offsets[k], *(d.strides[k] for d in outer))
    ]
    return not any(place % vector for place in places)
