"""What the kernels of depthwise convolutions print in common, and the parameters they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from clprim.dtypes import stored_type
from clprim.plan.cost import WEIGHTS, fewest_groups
from clprim.plan.depthwise.problem import Depthwise, Line, index_of, moved_bytes
from clprim.plan.kernel import (
    KernelCode,
    KernelPlan,
    OperandCode,
    mask_type,
    power_of_two,
    round_up,
)
from clprim.plan.machine import GROUP, ITEMS
from clprim.plan.parameters import Arguments
from clprim.plan.place import Place
from clprim.plan.store import StoredCode, StoringCode, add_store, storing
from clprim.traits import DeviceTraits

# What its strategies take, for messages.
NEEDS = (
    "a group for every channel of the input, outputs that stay what they are, and windows that "
    "share elements, or a CPU's vectors"
)
# What examples do to results.
HALVED = "y0 *= 0.5f;"
# Work-items a compute unit that are worth timing.
ITEMS_WORTH_TIMING = tuple(1 << n for n in range((2 * ITEMS).bit_length()))
# Axes of a `Place`.
IMAGE_AXES = ("image", "channel", "row", "column")
# Square kernels, and those one row high, whose taps are unrolled.
UNROLLED = (3, 5, 7)


@dataclass(frozen=True)
class BandTile:
    """What a table keeps of strategies that copy bands of rows."""

    # Rows of the result (or of the gradient that is given) whose input is in local memory at a time
    band: int
    items: int


@dataclass(frozen=True)
class DepthwiseCode(StoringCode):
    """What every kernel of the convolution prints: see depthwise/_parts.cl.jinja."""

    # The operand that windows walk over; its ``inner`` is its step from one lane to the next
    x: OperandCode
    adjoint: bool  # Whether it is the gradient in the convolution's input
    kernel: tuple[int, int]  # Taps (rows, columns) where loops over them are unrolled; else (0, 0)
    stride: tuple[int, int]  # (rows, columns) where ``kernel`` is there; else (0, 0)

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors of sums."""
        return mask_type(self.value)


@dataclass(frozen=True)
class TiledCode(DepthwiseCode):
    """What kernels print that sum up tiles in registers; ``kernel`` is the taps there."""

    rows: int
    columns: int
    # Of the adjoint: by how much the first tile is off a whole number of strides
    phase: tuple[int, int]

    @property
    def lead(self) -> tuple[int, int]:
        """Of the adjoint: rows and columns of x above and beside a tile's first place in it."""
        (h, v), (sh, sv) = self.kernel, self.stride
        return (h - 1) // sh, (v - 1) // sv

    @property
    def below(self) -> tuple[int, int]:
        """Rows and columns of x that are below a tile."""
        sizes = zip((self.rows, self.columns), self.kernel, self.stride, strict=True)
        if not self.adjoint:
            rows, columns = ((size - 1) * stride + taps for size, taps, stride in sizes)
            return rows, columns
        places = zip(sizes, self.lead, self.phase, strict=True)
        rows, columns = (lead + (n - 1 + off) // s + 1 for (n, _, s), lead, off in places)
        return rows, columns


@dataclass(frozen=True)
class PackCode(KernelCode):
    """What depthwise/pack.cl.jinja prints: ``x`` is the weight."""

    value: str
    x: OperandCode


def stores(
    what: Depthwise, width: int, along: str, traits: DeviceTraits, *, streaming: bool
) -> dict[str, Any]:
    """Returns the fields of a `DepthwiseCode`, but for its parameters and loops."""

    def step(place: Place) -> int:
        return getattr(place, along) if along != "none" else 2

    def code(place: Place) -> StoredCode:
        return StoredCode.at(place.name, place.dtype, what.value, step(place))

    return storing(what, width, code, traits, streaming=streaming) | {
        "index": index_of(what),
        "adjoint": what.adjoint,
        "x": OperandCode.of("x", what.x.dtype, what.value, step(what.x)),
    }


def items_of(what: Depthwise, traits: DeviceTraits) -> int:
    """Returns the work-items a compute unit that take a CPU least."""
    work = what.flops / 2 / traits.lanes(what.value.itemsize)
    groups = fewest_groups(work, traits.compute_units, WEIGHTS.group)
    return min(ITEMS, groups // traits.compute_units)


def around(number: int) -> list[int]:
    """Returns numbers worth timing beside one that a rule chose."""
    return sorted({1, max(1, number // 2), number, 2 * number})


def near_bands(rule: BandTile, *_: object) -> Iterator[BandTile]:
    """Yields tiles worth timing beside the rule's."""
    for band in around(rule.band):
        yield replace(rule, band=band)
    for items in ITEMS_WORTH_TIMING:
        yield replace(rule, items=items)


def on_cpus(_: object, traits: DeviceTraits) -> bool:
    """Whether it is a device whose work-items have a core each."""
    return traits.is_cpu


def prefetches_rows(what: Depthwise, traits: DeviceTraits) -> bool:
    """Whether the next rows of planes are prefetched while some are summed up."""
    # They are where input and result are more than half of the last cache.
    return traits.prefetches(2 * moved_bytes(what))


def joins_rows(what: Depthwise) -> bool:
    """Whether rows follow each other without gaps in the result, and in what the epilogue reads."""
    columns = what.columns.outputs
    return all((p.row, p.column) in ((columns, 1), (0, 0)) for p in what.stored)


def is_masked(line: Line, tap: int) -> bool:
    """Whether some output's tap lies outside of its row."""
    first = tap * line.dilation - line.before
    last = first + (line.outputs - 1) * line.stride
    return first < 0 or last >= line.inputs


def unrolls(h: Line, v: Line) -> bool:
    """Whether loops over the taps are unrolled: of the kernels and strides that networks have."""
    kernels = v.kernel in UNROLLED and h.kernel in (1, v.kernel)
    lines = [line for line in (h, v) if line.kernel > 1]
    return kernels and all(line.dilation == 1 for line in lines) and max(h.stride, v.stride) <= 2


def add_place(found: Arguments, place: Place, *axes: str) -> None:
    """Adds the start of an array and its strides along ``axes``, by default all four."""
    strides = {f"{place.name}_{a}": getattr(place, a) for a in axes or IMAGE_AXES}
    found.numbers(**{f"{place.name}_start": place.start}, **strides)


def add_results(found: Arguments, what: Depthwise, code: dict[str, Any]) -> None:
    """Adds the result, what the epilogue reads, and where they lie."""
    add_store(found, what, code)
    for place in what.stored:
        add_place(found, place)


def add_planes(found: Arguments, what: Depthwise, planes_a_item: int) -> None:
    """Adds what kernels count with whose work-items take some planes."""
    h, v = what.rows, what.columns
    found.numbers(
        planes=what.images * what.channels,
        planes_a_item=planes_a_item,
        channels=what.channels,
        multiplier=what.multiplier,
        x_size=what.x_end,
        x_rows=h.inputs,
        x_columns=v.inputs,
        y_rows=h.outputs,
        y_columns=v.outputs,
        rows_before=h.before,
        columns_before=v.before,
    )


def add_taps(found: Arguments, h: Line, v: Line) -> None:
    """Adds what loops over the taps count with."""
    found.numbers(
        kernel_rows=h.kernel,
        kernel_columns=v.kernel,
        row_stride=h.stride,
        column_stride=v.stride,
        row_dilation=h.dilation,
        column_dilation=v.dilation,
    )


def arguments_of(what: Depthwise, code: dict[str, Any], w: str) -> Arguments:
    """Returns the parameters that all kernels of the convolution have."""
    found = Arguments(str(code["index"]))
    found.memory(stored_type(what.x.dtype).storage, "x_memory")
    if w == "packed":
        found.memory(stored_type(what.value).value, "packed")
    else:
        found.memory(stored_type(what.w.dtype).storage, "w_memory")
    add_results(found, what, code)
    add_place(found, what.x)
    if w == "w":
        place = what.w
        found.numbers(
            w_start=place.start, w_channel=place.image, w_row=place.row, w_column=place.column
        )
    return found


def pack_taps(what: Depthwise, traits: DeviceTraits) -> tuple[KernelPlan, int]:
    """Returns the kernel that packs the weight as [tap][channel], and how many elements that is."""
    w = what.w
    total = what.channels * (what.multiplier if what.adjoint else 1)
    taps = what.rows.kernel * what.columns.kernel
    operand = OperandCode.of("x", w.dtype, what.value, w.image)
    index = index_of(what)
    found = Arguments(index)
    found.memory(operand.storage, "x_memory", "w")
    found.memory(operand.value, "packed", read_only=False)
    found.numbers(
        channels=total,
        kernel_rows=what.rows.kernel,
        kernel_columns=what.columns.kernel,
        x_start=w.start,
        x_channel=w.image,
        x_row=w.row,
        x_column=w.column,
    )
    code = PackCode(
        name=f"{what.name}_pack",
        parameters=tuple(found.parameters),
        index=index,
        doubles=operand.value == "double",
        value=operand.value,
        x=operand,
    )
    nbytes = total * taps * (w.dtype.itemsize + what.value.itemsize)
    group = min(GROUP, power_of_two(traits.max_work_group_size + 1) // 2)
    size = (round_up(total, group),)
    arguments = tuple(found.arguments)
    plan = KernelPlan("depthwise/pack", code, arguments, size, (group,), nbytes, 0, once=True)
    return plan, total * taps


def spread_rows(images: int, rows: int, step: int, wanted: int) -> int:
    """Returns how many rows a work-item takes: about ``wanted`` bands of rows in all images."""
    # Whatever windows share between rows is read once a band.
    steps = -(-rows // step)
    pieces = max(1, min(steps, -(-wanted // images)))
    return step * -(-steps // pieces)
