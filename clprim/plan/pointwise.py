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
from dataclasses import dataclass

from clprim.dtypes import AnyDType, stored_type, value_dtype
from clprim.language.definition import PointwiseDefinition
from clprim.language.names import UNIFIED
from clprim.plan.kernel import (
    BAKED_DIMS,
    Argument,
    Buffer,
    KernelCode,
    KernelPlan,
    OperandCode,
    Parameter,
    PositionCode,
    Scalar,
    ScalarCode,
    index_type,
    resolve_dims,
    round_up,
    unified_functions,
    work_group,
)
from clprim.plan.layout import (
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
# Vectors compute as their components do only where C does not promote the components first.
_VECTOR_TYPES = frozenset("int uint long ulong float double".split())


@dataclass(frozen=True)
class PointwiseCode(KernelCode):
    """What pointwise.cl.jinja prints.

    Attributes:
        expr: The snippet.
        results, inputs: The array operands.
        scalars: The run-time scalars.
        positions: ``index`` and ``coord_D`` where the snippet uses them.
        coords, sizes: (dimension as written, axis) of every ``coord(d)`` and ``size(d)``.
        outer: Dimensions outside the innermost one.
        vector: Elements a work-item takes at a time.
        streaming: Whether results go past the cache to memory, as they would only displace
            what is in it.
    """

    expr: str
    results: tuple[OperandCode, ...]
    inputs: tuple[OperandCode, ...]
    scalars: tuple[ScalarCode, ...]
    positions: tuple[PositionCode, ...]
    coords: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    outer: int
    vector: int
    streaming: bool


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
        ShapeError: ``coord(d)`` of a dimension that is not there, a stride of half an element.
    """
    what = definition.name
    arrays = [*results, *inputs]
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
    dims = space.dims or (Dim(1, (1,) * len(everything)),)
    inner, outer = dims[-1], dims[:-1]

    dtypes = [*(a.dtype for a in arrays), *scalars]
    values = [
        r.dtype if r.dtype.kind in "iub" else value_dtype(r.dtype, dtypes) for r in results
    ] + [value_dtype(a.dtype, dtypes) for a in inputs]
    operands = [
        OperandCode.of(name, array.dtype, value, inner.strides[k])
        for k, (name, array, value) in enumerate(
            zip(_names(len(results), len(inputs)), arrays, values, strict=True)
        )
    ]
    scalar_codes = tuple(
        ScalarCode(f"w{n}", stored_type(value_dtype(d, dtypes)).value)
        for n, d in enumerate(scalars)
    )
    vector = _vector_width(definition, operands, scalar_codes, inner, traits)
    nbytes = sum(_touched(a, shape) for a in arrays)
    streaming = vector > 1 and _streams(results, outer, space, vector, nbytes, traits)

    index = index_type(Space(dims, space.offsets))
    labels = [*(o.name for o in operands), *position_names]
    parameters, arguments = _memory(operands, len(results))
    for n, code in enumerate(scalar_codes):
        prefix = "arg_" if code.value == "bool" else ""
        parameters.append(Parameter.number(code.argument, prefix + code.name))
        arguments.append(Scalar(n))
    numbers = [("n", inner.size), ("rows", math.prod(d.size for d in outer))]
    numbers += [(f"n{d}", dim.size) for d, dim in enumerate(outer)]
    run = _run(inner.size, vector, traits)
    if vector > 1:
        numbers.append(("run", run))
    for k, label in enumerate(labels):
        numbers.append((f"{label}_start", space.offsets[k]))
        if k >= len(operands) or operands[k].inner == "any":
            numbers.append((f"{label}_step", inner.strides[k]))
        numbers += [(f"{label}_s{d}", dim.strides[k]) for d, dim in enumerate(outer)]
    numbers += [(f"size_{axis}", shape[axis]) for axis in sorted({axis for _, axis in sizes})]
    constants: tuple[tuple[str, int], ...] = ()
    if len(dims) > BAKED_DIMS:
        constants = tuple(numbers)
    else:
        parameters += [Parameter.number(index, name) for name, _ in numbers]
        arguments += [value for _, value in numbers]

    work = (-(-inner.size // run), math.prod(d.size for d in outer))
    group = _group_size(inner.size // work[0], vector, traits)
    local = work_group(work, group, 16 if traits.is_cpu else 32)
    total = math.prod(shape)
    return KernelPlan(
        template="pointwise",
        code=PointwiseCode(
            name=what,
            preamble=definition.preamble,
            parameters=tuple(parameters),
            constants=constants,
            index=index,
            unified=unified_functions(definition.snippets, definition.preamble, UNIFIED),
            doubles="double" in {*(o.value for o in operands), *(w.value for w in scalar_codes)},
            expr=definition.expr.body,
            results=tuple(operands[: len(results)]),
            inputs=tuple(operands[len(results) :]),
            scalars=scalar_codes,
            positions=tuple(PositionCode(name) for name in position_names),
            coords=coords,
            sizes=sizes,
            outer=len(outer),
            vector=vector,
            streaming=streaming,
        ),
        arguments=tuple(arguments),
        global_size=tuple(round_up(w, g) for w, g in zip(work, local, strict=True)),
        local_size=local,
        nbytes=nbytes,
        flops=definition.expr.flops * total,
    )


def _names(results: int, inputs: int) -> list[str]:
    return [f"y{n}" for n in range(results)] + [f"x{n}" for n in range(inputs)]


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
    if "index" in definition.expr.used:
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
    parameters = [
        Parameter.memory(o.storage, f"{o.name}_memory", read_only=k >= results)
        for k, o in enumerate(operands)
    ]
    return parameters, [Buffer(k) for k in range(len(operands))]


def _vector_width(
    definition: PointwiseDefinition,
    operands: Sequence[OperandCode],
    scalars: Sequence[ScalarCode],
    inner: Dim,
    traits: DeviceTraits,
) -> int:
    """Elements a work-item takes: a register of the value type, where vectors are the same."""
    types = {*(o.value for o in operands), *(w.value for w in scalars)}
    value = next(iter(types))
    if len(types) > 1 or value not in _VECTOR_TYPES or not definition.componentwise:
        return 1
    if definition.needs_float and value not in ("float", "double"):
        return 1
    if any(o.inner == "any" for o in operands) or any(
        o.inner != "one" for o in operands[: definition.results]
    ):
        return 1
    size = 8 if value in ("long", "ulong", "double") else 4
    width = max(2, traits.vector_bytes // size)
    while width > 2 and width > inner.size:
        width //= 2
    return width if width <= inner.size else 1


def _run(inner: int, vector: int, traits: DeviceTraits) -> int:
    """Elements of a row that one work-item takes: a vector, and on a CPU a run of them.

    At memory speed a 64-byte vector is gone in some 18 cycles, about what finding its place takes;
    a CPU's work-item therefore stays for RUN elements once it is there.
    """
    if vector == 1 or not traits.is_cpu:
        return vector
    pieces = -(-inner // RUN)
    return round_up(-(-inner // pieces), vector)


def _group_size(run: int, vector: int, traits: DeviceTraits) -> int:
    # A CPU runs a work-group as one loop: long ones cost less to start. Measured: 1024 scalar
    # work-items, or vectors that make up a RUN, are within 2 % of the best of all sizes on three
    # runtimes.
    wanted = max(1, RUN // run) if vector > 1 else 1024
    return min(wanted if traits.is_cpu else 256, traits.max_work_group_size)


def _touched(operand: Operand, shape: tuple[int, ...]) -> int:
    return min(operand.size, math.prod(shape)) * operand.dtype.itemsize


def _streams(
    results: Sequence[Operand],
    outer: Sequence[Dim],
    space: Space,
    vector: int,
    nbytes: int,
    traits: DeviceTraits,
) -> bool:
    """Whether stores may and should bypass the cache.

    Such stores save reading each line before it is overwritten (27 → 42 GB/s on the CPU at hand),
    but cost a reader that comes soon; so only for data that would not stay in the cache anyway.
    They need whole aligned registers.
    """
    if not traits.is_cpu or nbytes <= traits.cache_bytes:
        return False
    for k, result in enumerate(results):
        register = vector * result.dtype.itemsize
        if stored_type(result.dtype).load != "direct" or register < 16:
            return False
        places = [space.offsets[k], *(d.strides[k] for d in outer)]
        if any(place % vector for place in places):
            return False
    return True
