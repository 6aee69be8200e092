"""The kernel that packs the other operand of a contraction on CPUs, and when none is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode
from clprim.plan.machine import PAGE, second
from clprim.plan.parameters import Arguments
from clprim.plan.permutation import transpose
from clprim.plan.pointwise.code import Shuffles
from clprim.plan.product.problem import Contraction
from clprim.plan.product.register_code import ContractionCode
from clprim.plan.product.shape import Shape
from clprim.traits import DeviceTraits

# Elements that one work-item packs: long enough not to notice its start.
PACK_RUN = 256


# Packing costs more than it saves if the operand is streamed no more often than this.
FEW_PASSES = 12


@dataclass(frozen=True)
class PackCode(KernelCode):
    """What product/pack.cl.jinja prints."""

    lanes: int
    x: OperandCode  # The operand; ``inner`` tells whether lanes are neighbours
    digits: bool  # Whether lanes are numbers of three digits
    width: int
    # How a square of vectors is transposed, if steps of k lie side by side
    shuffles: Shuffles | None
    repeats: bool = False  # Whether lanes that are not there are the last one, not 0


def passes_in_place(
    what: Contraction, code: Shape | ContractionCode, passes: int, traits: DeviceTraits
) -> bool:
    """Whether the other operand is read where it lies, in lines of whole vectors."""
    w, depth = what.packed, what.depths[2]
    lines = w.output == 1 and w.digits is None and what.depths[:2] == (1, 1)
    whole = code.gathered == "rows" and what.outputs % code.packed_lanes == 0
    step = w.depth[2] * w.dtype.itemsize
    cheap = passes <= FEW_PASSES or step * depth <= second(traits)
    # Beyond half a page every line is on a page of its own, and many share a cache set.
    return lines and whole and 0 < step <= PAGE // 2 and w.dtype == what.value and cheap


def packing_work(what: Contraction, outputs: int) -> tuple[float, float]:
    """Returns the elements that are packed by vectors, and those that are one by one."""
    elements = float(what.groups * outputs * math.prod(what.depths))
    whole = what.packed.output == 1 or what.packed.depth[2] == 1
    return (elements, 0.0) if whole else (0.0, elements)


def pack_plan(
    what: Contraction, code: ContractionCode, tiles: int, depth_padded: int
) -> KernelPlan:
    """Plans the kernel that packs an operand into so many tiles of so much depth."""
    w = what.packed
    if w.digits is None or what.digits is None:
        places = {"x_group": w.group, "x_lane": w.output}
    else:
        places = {f"x_output_{d}": stride for d, stride in enumerate(w.digits)}
        places |= {"output_1": what.digits[1], "output_2": what.digits[2]}
    return pack_kernel(
        Packing(
            name=what.name,
            buffer=w.buffer,
            operand=OperandCode.of("x", w.dtype, what.value, 2 if w.digits else w.output),
            itemsizes=(w.dtype.itemsize, what.value.itemsize),
            start=w.start,
            depths=what.depths,
            strides=w.depth,
            places=places,
            lanes=what.outputs,
            groups=what.groups,
            tile=code.packed_lanes,
            width=code.width,
            index=code.index,
        ),
        tiles,
        depth_padded,
    )


@dataclass(frozen=True)
class Packing:
    """What is packed, and how."""

    name: str  # Of the kernel, before ``_pack``
    buffer: str
    operand: OperandCode  # How it is read; ``inner`` tells whether lanes are neighbours
    itemsizes: tuple[int, int]  # Bytes of an element in memory, and packed
    start: int
    depths: tuple[int, int, int]  # Three digits of the depth
    strides: tuple[int, int, int]
    places: Mapping[str, int]  # Strides of groups and lanes, or those of the digits of lanes
    lanes: int  # In all, of a group
    groups: int
    tile: int
    width: int
    index: str  # OpenCL C type of indices
    to: str = "packed"  # The buffer that is written
    repeats: bool = False  # Whether lanes that are not there are the last one, not 0
    once: bool = True  # Whether it may be kept, being of a weight


def pack_kernel(what: Packing, tiles: int, depth_padded: int) -> KernelPlan:
    """Plans the kernel of so many tiles of so much depth."""
    operand, depth = what.operand, math.prod(what.depths)
    # Where outputs lie side by side, a work-item reads whole lines of them, of all tiles.
    all_tiles = operand.inner == "one"
    run = min(PACK_RUN // 4 if all_tiles else PACK_RUN, depth_padded)
    numbers = {
        "lanes": what.lanes,
        "tiles": tiles,
        "depth": depth,
        "depth_padded": depth_padded,
        "depth_1": max(1, what.depths[1]),
        "depth_2": max(1, what.depths[2]),
        "run": run,
        "x_start": what.start,
        **{f"x_depth_{d}": stride for d, stride in enumerate(what.strides)},
        **what.places,
    }
    digits = "x_lane" not in what.places
    # Read an element at a time, lines that are a power of two apart leave a near cache before all
    # of their elements are taken.
    along = what.strides[2] == 1 and not all_tiles and not digits
    squares = along and 1 < what.width <= what.depths[2] and what.tile % what.width == 0
    found = Arguments(what.index)
    found.memory(operand.storage, "x_memory", what.buffer)
    found.memory(operand.value, "packed", what.to, read_only=False)
    found.numbers(**numbers)
    read, written = what.itemsizes
    return KernelPlan(
        "product/pack",
        PackCode(
            name=f"{what.name}_pack",
            parameters=tuple(found.parameters),
            index=what.index,
            doubles=operand.value == "double",
            lanes=what.tile,
            x=operand,
            digits=digits,
            width=what.width,
            shuffles=transpose(what.width) if squares else None,
            repeats=what.repeats,
        ),
        tuple(found.arguments),
        (-(-depth_padded // run), 1 if all_tiles else tiles, what.groups),
        (1, 1, 1),
        what.groups * depth * what.lanes * read
        + what.groups * tiles * depth_padded * what.tile * written,
        0,
        once=what.once,
    )
