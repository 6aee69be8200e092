"""Plans an inverted residual on CPUs as one kernel: 1 × 1, depthwise, 1 × 1 convolution.

Between the three lie two tensors of many channels. Here a work-item walks down a band of rows of
an image and keeps of both only what its next few rows of the result need, in local memory, which
is a near cache; fused/inverted_residual.cl.jinja draws it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.dtypes import AnyDType, stored_type
from clprim.plan.arguments import Arguments
from clprim.plan.depthwise.code import add_place, pack_taps, spread_rows, unrolls
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.problem import index_of as depthwise_index
from clprim.plan.kernel import (
    KernelCode,
    KernelPlan,
    OperandCode,
    Plan,
    power_of_two,
    round_up,
)
from clprim.plan.place import Place
from clprim.plan.product.pack import pack_plan
from clprim.plan.product.problem import Contraction
from clprim.plan.product.problem import index_of as contraction_index
from clprim.plan.product.register_code import ContractionCode, contraction_code
from clprim.plan.product.register_tile import Tile
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.plan.store import add_store
from clprim.traits import DeviceTraits

# Local memory for everything: a part of the second cache that every CPU's local memory has room
# for.
NEAR_BYTES = 256 << 10
# Steps of depth that the products' loops take at a time.
UNROLL = 4
# Rows that a tile of a product may have: few, as each is another kernel to compile.
ROWS = (14, 12, 9, 7, 4, 2, 1)
# Columns that a tile of the depthwise convolution has.
COLUMNS = 7
# Of the smallest of a kernel's arrays of places.
LEAST_PLACES = 512


@dataclass(frozen=True)
class InvertedResidual:
    """What to compute; what lies between the three has any strides, as it is never stored.

    Attributes:
        expand: The first product; None where the depthwise convolution reads the input.
        depthwise: The convolution; ``x`` is the input's place where there is no ``expand``.
        project: The last product, with the operator's epilogue.
    """

    expand: Contraction | None
    depthwise: Depthwise
    project: Contraction

    @property
    def value(self) -> AnyDType:
        """What sums are added up in."""
        return self.project.value


@dataclass(frozen=True)
class InvertedCode(KernelCode):
    """What fused/inverted_residual.cl.jinja prints.

    Attributes:
        value: Type that sums are added up in.
        width: Elements of a vector.
        x: The input, as ``a``; ``inner`` is its step from channel to channel.
        expand: Rows and vectors of the first product's tile; None where there is no product.
        kernel, stride: Of the depthwise convolution where its taps are unrolled; else (0, 0).
        rows, columns: Of its tile.
        activation: The snippet after the first two; it may be empty.
        vector_activation: Whether it computes the same on vectors.
        expand_bias, taps_bias: What is added before it.
        project: The last product, as matrix products are printed.
        near: Elements of local memory for values.
        places: Elements of each array of places.
    """

    value: str
    width: int
    x: OperandCode
    expand: tuple[int, int] | None
    kernel: tuple[int, int]
    stride: tuple[int, int]
    rows: int
    columns: int
    activation: str
    vector_activation: bool
    expand_bias: OperandCode | None
    taps_bias: OperandCode | None
    project: ContractionCode
    near: int
    places: int


@dataclass(frozen=True)
class _Bias:
    """Where the bias of a channel lies, in elements."""

    name: str
    dtype: AnyDType
    start: int
    channel: int


@dataclass(frozen=True)
class _Room:
    """How local memory is divided; all sizes in elements.

    Attributes:
        rows: Of the result, of a step.
        pitch: From a pixel of the middle to the next one.
        middle: Channels of the middle, in whole tiles.
        ring_rows, ring_row: Rows of the ring, and a row's size.
        between: Results of the depthwise convolution.
        places: Of every array of places.
        nbytes: Of everything.
    """

    rows: int
    pitch: int
    middle: int
    ring_rows: int
    ring_row: int
    between: int
    places: int
    nbytes: int


def plan_inverted_residual(what: InvertedResidual, traits: DeviceTraits) -> Plan | None:
    """Plans the kernels, or returns None where one kernel cannot do it.

    Args:
        what: What to compute; nothing of it may be empty.
        traits: Of the device.
    """
    d, expand, project = what.depthwise, what.expand, what.project
    h, v = d.rows, d.columns
    values = {w.value for w in (d, project, expand) if w is not None}
    width = _width(d.channels, what.value.itemsize, traits)
    x = _input(what)
    if len(values) > 1 or d.multiplier != 1 or width < 2:
        return None
    if expand is not None and h.inputs > 1 and x.row != v.inputs * x.column:
        return None
    sums = traits.sums
    index = _index(what)
    block = (1, 1) if expand is None else _block(v.inputs, d.channels, width, sums)
    tile = Tile(*_block(v.outputs, project.outputs, width, sums))
    code = contraction_code(
        project, tile, width=width, along="depth", unit=UNROLL, gathered_rows=True, traits=traits
    )
    code = replace(code, index=index)
    unrolled = unrolls(d.rows, d.columns)
    tile_rows = 2 if unrolled and (h.stride, h.kernel) == (1, 3) and sums == 28 else 1
    kept = 4 + (4 if index == "int" else 8) * sum(o.moves for o in code.outputs)
    room = _room(what, width, width * block[1], tile_rows, kept, traits)
    if room is None:
        return None
    near = (min(traits.local_memory, NEAR_BYTES) - kept * room.places) // what.value.itemsize
    strips = 0 if expand is None else room.middle // (width * block[1])
    project_strips = -(-project.outputs // (tile.vectors * width))
    depth = 1 if expand is None else math.prod(expand.depths)
    a_item = spread_rows(d.images, h.outputs, room.rows, 4 * traits.compute_units)
    biases = _biases(what)

    found = _memory(what, x, biases, code, index)
    found.numbers(
        channels=depth,
        middle=d.channels,
        middle_padded=room.middle,
        outputs=project.outputs,
        expand_strips=strips,
        project_strips=project_strips,
        x_rows=h.inputs,
        x_columns=v.inputs,
        y_rows=h.outputs,
        y_columns=v.outputs,
        rows_before=h.before,
        columns_before=v.before,
        rows_reach=h.reach,
        rows_a_item=a_item,
        rows_a_step=room.rows,
        pitch=room.pitch,
        ring_rows=room.ring_rows,
        ring_row=room.ring_row,
        row_stride=h.stride,
    )
    if not unrolled:
        found.numbers(
            kernel_rows=h.kernel,
            kernel_columns=v.kernel,
            column_stride=v.stride,
            row_dilation=h.dilation,
            column_dilation=v.dilation,
        )
    activation = d.epilogue
    snippets = [s for s in (activation.snippet, project.epilogue.snippet) if s is not None]
    printed = Printed()
    operands = {b.name: OperandCode.of(b.name, b.dtype, what.value, 2) for b in biases}
    a = OperandCode.of("a", x.dtype, what.value, x.channel)
    main = KernelPlan(
        "fused/inverted_residual",
        InvertedCode(
            name="inverted_residual",
            parameters=tuple(found.parameters),
            index=index,
            unified=unified_functions(snippets, "", traits),
            doubles=code.doubles or "double" in {o.value for o in (a, *operands.values())},
            own=own_names(snippets, ""),
            value=code.value,
            width=width,
            x=a,
            expand=None if expand is None else block,
            kernel=(h.kernel, v.kernel) if unrolled else (0, 0),
            stride=(h.stride, v.stride) if unrolled else (0, 0),
            rows=tile_rows,
            columns=min(COLUMNS, v.outputs),
            activation=printed.text(activation.snippet, dict.fromkeys("xwy", code.value)),
            divided=tuple({*printed.divided, *code.divided}),
            vector_activation=activation.on_vectors(what.value),
            expand_bias=operands.get("expand_bias"),
            taps_bias=operands.get("taps_bias"),
            project=code,
            near=near,
            places=room.places,
        ),
        tuple(found.arguments),
        (-(-h.outputs // a_item), d.images),
        (1, 1),
        _moved_bytes(what),
        _flops(what),
    )
    taps, size_taps = pack_taps(d, traits)
    packs = [
        _named(taps, "taps", "w_depthwise"),
        _named(pack_plan(project, code, project_strips, d.channels), "project", "w_project"),
    ]
    sizes = {
        "taps_packed": size_taps,
        "project_packed": project_strips * d.channels * code.packed_lanes,
    }
    if expand is not None:
        tile = Tile(*block)
        strip = contraction_code(
            expand, tile, width=width, along="depth", unit=UNROLL, gathered_rows=True, traits=traits
        )
        packs.insert(0, _named(pack_plan(expand, strip, strips, depth), "expand", "w_expand"))
        sizes["expand_packed"] = room.middle * depth
    workspace = {name: (size, what.value) for name, size in sizes.items()}
    return Plan((*packs, main), workspace)


def _named(pack: KernelPlan, part: str, weight: str) -> KernelPlan:
    """One of three kernels that pack, with names of its own for what it reads and writes."""
    return pack.renamed({"w": weight, "packed": f"{part}_packed"})


def _input(what: InvertedResidual) -> Place:
    """The input, as the place of its pixels."""
    if what.expand is None:
        return replace(what.depthwise.x, name="a")
    x = what.expand.gathered
    return Place("a", x.dtype, x.start, x.lane[0], x.depth[2], x.lane[1], x.lane[2])


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
    what: InvertedResidual, x: Place, biases: Sequence[_Bias], code: ContractionCode, index: str
) -> Arguments:
    """The arguments that say where arrays lie."""
    found = Arguments(index)
    found.memory(stored_type(x.dtype).storage, "x_memory")
    if what.expand is not None:
        found.memory(code.value, "expand_packed")
    found.memory(code.value, "taps_packed")
    found.memory(code.value, "project_packed")
    for bias in biases:
        found.memory(stored_type(bias.dtype).storage, f"{bias.name}_memory")
    add_store(found, what.project, code)
    for bias in biases:
        places = {"start": bias.start, "channel": bias.channel}
        found.numbers(**{f"{bias.name}_{axis}": stride for axis, stride in places.items()})
    project = what.project
    for o, out in zip(code.outputs, project.stored, strict=True):
        places = {"start": out.start, "channel": out.output}
        if o.moves:
            places |= dict(zip(("image", "row", "column"), out.lane, strict=True))
        found.numbers(**{f"{o.name}_{axis}": stride for axis, stride in places.items()})
    add_place(found, x)
    return found


def _index(what: InvertedResidual) -> str:
    products = [p for p in (what.expand, what.project) if p is not None]
    indices = {depthwise_index(what.depthwise), *map(contraction_index, products)}
    return "long" if "long" in indices else "int"


def _width(channels: int, itemsize: int, traits: DeviceTraits) -> int:
    """Lanes of a vector: what a register has, or the largest power of two that channels fill."""
    most = min(16, traits.vector_bytes // itemsize, channels)
    largest = power_of_two(max(1, most))
    return largest if largest == most else largest // 2


def _block(pixels: int, outputs: int, width: int, sums: int) -> tuple[int, int]:
    """Rows and vectors of a tile, for lines of so many pixels: those that cost least.

    A step of depth costs a product for each sum, and loads of what they share.
    """
    wide = -(-outputs // width)

    def cost(tile: tuple[int, int]) -> float:
        rows, vectors = tile
        return -(-wide // vectors) / rows * (rows * vectors + rows + vectors)

    tiles = [(r, v) for r in ROWS if r <= pixels for v in (1, 2, 3, 4) if r * v <= sums]
    return min(tiles, key=cost)


def _room(
    what: InvertedResidual, width: int, whole: int, tile_rows: int, kept: int, traits: DeviceTraits
) -> _Room | None:
    """Divides local memory among as many rows of the result as fit; None where not one does.

    Args:
        what: What to compute.
        width: Elements of a vector.
        whole: What channels of the middle are rounded up to.
        tile_rows: What the depthwise convolution computes at once.
        kept: Bytes of a pixel's places.
        traits: Of the device.
    """
    h, v = what.depthwise.rows, what.depthwise.columns
    itemsize = what.value.itemsize
    middle = round_up(what.depthwise.channels, whole)
    # Pixels a power of two apart would all go to the same few places of the nearest cache.
    pitch = middle + (width if middle * itemsize % 1024 == 0 else 0)
    ring_row = max(v.before + v.inputs, (v.outputs - 1) * v.stride + v.reach) * pitch
    best = None
    for rows in range(1, h.outputs + 1):
        ring_rows = min((rows - 1) * h.stride + h.reach, h.inputs)
        pixels = max(ring_rows * v.inputs, rows * v.outputs)
        places = power_of_two(max(LEAST_PLACES, pixels))
        between = round_up(rows, tile_rows) * v.outputs * pitch
        nbytes = (2 * middle + ring_rows * ring_row + between) * itemsize + kept * places
        if nbytes > min(traits.local_memory, NEAR_BYTES):
            break
        best = _Room(rows, pitch, middle, ring_rows, ring_row, between, places, nbytes)
    return best


def _moved_bytes(what: InvertedResidual) -> int:
    """The bytes of the input, of the weights and of the result, once each."""
    d, project = what.depthwise, what.project
    x = _input(what)
    channels = d.channels if what.expand is None else math.prod(what.expand.depths)
    weights = d.channels * (channels * (what.expand is not None) + project.outputs)
    weights += d.channels * d.rows.kernel * d.columns.kernel
    pixels = d.images * d.rows.inputs * d.columns.inputs
    results = math.prod(project.lanes) * project.outputs
    return (
        pixels * channels * x.dtype.itemsize
        + weights * what.value.itemsize
        + results * project.y.dtype.itemsize
    )


def _flops(what: InvertedResidual) -> int:
    products = [p for p in (what.expand, what.project) if p is not None]
    return what.depthwise.flops + sum(
        2 * math.prod(p.lanes) * math.prod(p.depths) * p.outputs for p in products
    )
