"""Plans an inverted residual on CPUs as one kernel: 1 × 1, depthwise, 1 × 1 convolution.

Either of the two products may be missing.

Between the three lie two tensors of many channels. Here a work-item walks down a band of rows of
an image and keeps of both only what its next few rows of the result need, in local memory, which
is a near cache; fused/inverted_residual.cl.jinja draws it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clprim.dtypes import AnyDType, stored_type
from clprim.plan.depthwise.code import add_place, pack_taps, spread_rows
from clprim.plan.depthwise.registers import COLUMNS
from clprim.plan.epilogue import Epilogue
from clprim.plan.fused.residual_tiles import (
    InvertedResidual,
    ResidualTiles,
    product_code,
    residual_tiles,
)
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, Plan
from clprim.plan.parameters import Arguments
from clprim.plan.place import Place
from clprim.plan.product.pack import pack_plan
from clprim.plan.product.register_code import ContractionCode
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.plan.store import add_store
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class InvertedCode(KernelCode):
    """What fused/inverted_residual.cl.jinja prints."""

    value: str  # Type that sums are added up in
    width: int
    x: OperandCode  # The input, as ``a``; ``inner`` is its step from channel to channel
    # Rows and vectors of the first product's tile; None where there is no product
    expand: tuple[int, int] | None
    kernel: tuple[int, int]  # Of the depthwise convolution where its taps are unrolled; else (0, 0)
    stride: tuple[int, int]
    rows: int
    columns: int
    # The snippets after the first two, which may be empty, and for each whether it computes the
    # same on vectors
    activations: tuple[tuple[str, bool], tuple[str, bool]]
    expand_bias: OperandCode | None  # What is added before them
    taps_bias: OperandCode | None
    # The last product, as matrix products are printed, if there is one
    project: ContractionCode | None
    near: int  # Elements of local memory for values
    places: int  # Elements of each array of places


@dataclass(frozen=True)
class _Bias:
    """Where the bias of a channel lies, in elements."""

    name: str
    dtype: AnyDType
    start: int
    channel: int


def plan_inverted_residual(what: InvertedResidual, traits: DeviceTraits) -> Plan | None:
    """Plans the kernels, or returns None where one kernel cannot do it."""
    tiles = residual_tiles(what, traits)
    if tiles is None:
        return None
    packs, workspace = _packs(what, tiles, traits)
    return Plan((*packs, _main(what, tiles, traits)), workspace)


def _main(what: InvertedResidual, tiles: ResidualTiles, traits: DeviceTraits) -> KernelPlan:
    """The kernel that computes all three."""
    d, code = what.depthwise, tiles.project
    h, v = d.rows, d.columns
    x, biases, value = what.x, _biases(what), stored_type(what.value).storage
    index = what.index
    a_item = spread_rows(d.images, h.outputs, tiles.room.rows, 4 * traits.compute_units)
    found = _memory(what, x, biases, code, index, value)
    found.numbers(**_sizes(what, tiles, a_item))
    between = (d if what.expand is None else what.expand).epilogue, d.epilogue
    every = (*between, *(() if what.project is None else (what.project.epilogue,)))
    snippets = [e.snippet for e in every if e.snippet is not None]
    printed = Printed()
    operands = {b.name: OperandCode.of(b.name, b.dtype, what.value, 2) for b in biases}
    a = OperandCode.of("a", x.dtype, what.value, x.channel)
    types = {o.value for o in (a, *operands.values())}

    def activation(of: Epilogue[Any]) -> tuple[str, bool]:
        text = printed.text(of.snippet, dict.fromkeys("xwy", value))
        return text, of.on_vectors(what.value)

    return KernelPlan(
        "fused/inverted_residual",
        InvertedCode(
            name="inverted_residual",
            parameters=tuple(found.parameters),
            index=index,
            unified=unified_functions(snippets, "", traits),
            doubles="double" in types or (code is not None and code.doubles),
            own=own_names(snippets, ""),
            value=value,
            width=tiles.width,
            x=a,
            expand=None if what.expand is None else tiles.expand,
            kernel=(h.kernel, v.kernel) if tiles.unrolled else (0, 0),
            stride=(h.stride, v.stride) if tiles.unrolled else (0, 0),
            rows=tiles.rows,
            columns=min(COLUMNS, v.outputs),
            activations=(activation(between[0]), activation(between[1])),
            guards=tuple({*printed.guards, *(() if code is None else code.guards)}),
            expand_bias=operands.get("expand_bias"),
            taps_bias=operands.get("taps_bias"),
            project=code,
            near=tiles.near,
            places=tiles.room.places,
        ),
        tuple(found.arguments),
        (-(-h.outputs // a_item), d.images),
        (1, 1),
        _moved_bytes(what),
        _flops(what),
    )


def _sizes(what: InvertedResidual, tiles: ResidualTiles, rows_a_item: int) -> dict[str, int]:
    """Sizes of loops and of local memory, by name."""
    d, room = what.depthwise, tiles.room
    h, v = d.rows, d.columns
    sizes = {
        "channels": what.channels,
        "middle": d.channels,
        "middle_padded": room.middle,
        "outputs": tiles.outputs,
        "expand_strips": 0 if what.expand is None else tiles.expand_strips,
        "project_strips": tiles.project_strips,
        "x_rows": h.inputs,
        "x_columns": v.inputs,
        "y_rows": h.outputs,
        "y_columns": v.outputs,
        "rows_before": h.before,
        "columns_before": v.before,
        "rows_reach": h.reach,
        "rows_a_item": rows_a_item,
        "rows_a_step": room.rows,
        "pitch": room.pitch,
        "ring_rows": room.ring_rows,
        "ring_row": room.ring_row,
        "row_stride": h.stride,
    }
    if not tiles.unrolled:
        sizes |= {
            "kernel_rows": h.kernel,
            "kernel_columns": v.kernel,
            "column_stride": v.stride,
            "row_dilation": h.dilation,
            "column_dilation": v.dilation,
        }
    return sizes


def _packs(
    what: InvertedResidual, tiles: ResidualTiles, traits: DeviceTraits
) -> tuple[list[KernelPlan], dict[str, tuple[int, AnyDType]]]:
    """The kernels that pack the weights, and the memory that these need."""
    d, project = what.depthwise, what.project
    taps, size_taps = pack_taps(d, traits)
    packs, sizes = [_named(taps, "taps", "w_depthwise")], {"taps_packed": size_taps}
    if project is not None and tiles.project is not None:
        strips = tiles.project_strips
        pack = pack_plan(project, tiles.project, strips, d.channels)
        packs.append(_named(pack, "project", "w_project"))
        sizes["project_packed"] = strips * d.channels * tiles.project.packed_lanes
    if what.expand is not None:
        depth = what.channels
        code = product_code(what.expand, tiles.expand, tiles.width, traits)
        pack = pack_plan(what.expand, code, tiles.expand_strips, depth)
        packs.insert(0, _named(pack, "expand", "w_expand"))
        sizes["expand_packed"] = tiles.room.middle * depth
    return packs, {name: (size, what.value) for name, size in sizes.items()}


def _named(pack: KernelPlan, part: str, weight: str) -> KernelPlan:
    """One of three kernels that pack, with names of its own for what it reads and writes."""
    return pack.renamed({"w": weight, "packed": f"{part}_packed"})


def _biases(what: InvertedResidual) -> list[_Bias]:
    found = []
    if what.expand is not None and what.expand.epilogue.has_bias:
        bias = what.expand.epilogue.arrays[0]
        found.append(_Bias("expand_bias", bias.dtype, bias.start, bias.output))
    if what.depthwise.epilogue.has_bias:
        place = what.depthwise.epilogue.arrays[0]
        found.append(_Bias("taps_bias", place.dtype, place.start, place.channel))
    return found


def _memory(
    what: InvertedResidual,
    x: Place,
    biases: Sequence[_Bias],
    code: ContractionCode | None,
    index: str,
    value: str,
) -> Arguments:
    """The arguments that say where arrays lie."""
    found, project = Arguments(index), what.project
    found.memory(stored_type(x.dtype).storage, "x_memory")
    if what.expand is not None:
        found.memory(value, "expand_packed")
    found.memory(value, "taps_packed")
    if code is not None:
        found.memory(value, "project_packed")
    for bias in biases:
        found.memory(stored_type(bias.dtype).storage, f"{bias.name}_memory")
    if code is None or project is None:
        found.memory(value, "y0_memory", read_only=False)
    else:
        add_store(found, project, code)
    for bias in biases:
        places = {"start": bias.start, "channel": bias.channel}
        found.numbers(**{f"{bias.name}_{axis}": stride for axis, stride in places.items()})
    if code is None or project is None:
        add_place(found, what.depthwise.y, "image", "row", "column")
    else:
        for o, out in zip(code.outputs, project.stored, strict=True):
            places = {"start": out.start, "channel": out.output}
            if o.moves:
                places |= dict(zip(("image", "row", "column"), out.lane, strict=True))
            found.numbers(**{f"{o.name}_{axis}": stride for axis, stride in places.items()})
    add_place(found, x)
    return found


def _moved_bytes(what: InvertedResidual) -> int:
    """The bytes of the input, of the weights and of the result, once each."""
    d, project = what.depthwise, what.project
    x = what.x
    channels = d.channels if what.expand is None else math.prod(what.expand.depths)
    outputs = 0 if project is None else project.outputs
    weights = d.channels * (channels * (what.expand is not None) + outputs)
    weights += d.channels * d.rows.kernel * d.columns.kernel
    pixels = d.images * d.rows.inputs * d.columns.inputs
    results = d.images * d.rows.outputs * d.columns.outputs * (outputs or d.channels)
    y = d.y if project is None else project.y
    return (
        pixels * channels * x.dtype.itemsize
        + weights * what.value.itemsize
        + results * y.dtype.itemsize
    )


def _flops(what: InvertedResidual) -> int:
    products = [p for p in (what.expand, what.project) if p is not None]
    return what.depthwise.flops + sum(
        2 * math.prod(p.lanes) * math.prod(p.depths) * p.outputs for p in products
    )
