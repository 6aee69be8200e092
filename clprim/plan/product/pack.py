"""The kernel that packs the other operand of a contraction on CPUs, and when none is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clprim.plan.arguments import Arguments
from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode
from clprim.plan.permutation import transpose
from clprim.plan.pointwise.code import Shuffles
from clprim.plan.product.problem import Contraction
from clprim.plan.product.register_code import ContractionCode

# Elements that one work-item packs: long enough not to notice its start.
PACK_RUN = 256


# Largest distance, in bytes, between two lines of the second operand at which it is read in place.
# Beyond it every line is on a page of its own, and many share a cache set.
NEAR_LINES = 2048
# Packing costs more than it saves if the operand is streamed no more often than this, or if all of
# it stays in the L2 cache.
FEW_PASSES = 12
STAYS_BYTES = 1 << 20


@dataclass(frozen=True)
class PackCode(KernelCode):
    """What product/pack.cl.jinja prints.

    Attributes:
        lanes: Of a tile.
        x: The operand; ``inner`` tells whether lanes are neighbours.
        digits: Whether lanes are numbers of three digits.
        width: Elements of a vector.
        shuffles: How a square of vectors is transposed, if steps of k lie side by side.
    """

    lanes: int
    x: OperandCode
    digits: bool
    width: int
    shuffles: Shuffles | None


def passes_in_place(what: Contraction, code: ContractionCode, passes: int) -> bool:
    """Whether the other operand is read where it lies, in lines of whole vectors.

    Args:
        what: The contraction.
        code: Of the kernel that reads it.
        passes: How often each of its elements is read.
    """
    w, depth = what.packed, what.depths[2]
    lines = w.output == 1 and w.digits is None and what.depths[:2] == (1, 1)
    whole = code.gathered == "rows" and what.outputs % code.packed_lanes == 0
    step = w.depth[2] * w.dtype.itemsize
    cheap = passes <= FEW_PASSES or step * depth <= STAYS_BYTES
    return lines and whole and 0 < step <= NEAR_LINES and w.dtype == what.value and cheap


def pack_plan(
    what: Contraction, code: ContractionCode, tiles: int, depth_padded: int
) -> KernelPlan:
    """Plans the kernel that packs an operand into so many tiles of so much depth."""
    w, depth = what.packed, math.prod(what.depths)
    operand = OperandCode.of("x", w.dtype, what.value, 2 if w.digits else w.output)
    # Where outputs lie side by side, a work-item reads whole lines of them, of all tiles.
    all_tiles = operand.inner == "one"
    run = min(PACK_RUN // 4 if all_tiles else PACK_RUN, depth_padded)
    numbers = {
        "lanes": what.outputs,
        "tiles": tiles,
        "depth": depth,
        "depth_padded": depth_padded,
        "depth_1": max(1, what.depths[1]),
        "depth_2": max(1, what.depths[2]),
        "run": run,
        "x_start": w.start,
        **{f"x_depth_{d}": stride for d, stride in enumerate(w.depth)},
    }
    if w.digits is None or what.digits is None:
        numbers.update(x_group=w.group, x_lane=w.output)
    else:
        numbers.update({f"x_output_{d}": stride for d, stride in enumerate(w.digits)})
        numbers.update(output_1=what.digits[1], output_2=what.digits[2])
    # Read an element at a time, lines that are a power of two apart leave a near cache before all
    # of their elements are taken.
    along = w.depth[2] == 1 and not all_tiles and w.digits is None
    squares = along and code.packed_lanes % code.width == 0 and what.depths[2] >= code.width
    found = Arguments(code.index)
    found.memory(operand.storage, "x_memory", w.buffer)
    found.memory(code.value, "packed", read_only=False)
    found.numbers(**numbers)
    return KernelPlan(
        "product/pack",
        PackCode(
            name=f"{what.name}_pack",
            parameters=tuple(found.parameters),
            index=code.index,
            doubles=code.value == "double" or operand.value == "double",
            lanes=code.packed_lanes,
            x=operand,
            digits=w.digits is not None,
            width=code.width,
            shuffles=transpose(code.width) if squares else None,
        ),
        tuple(found.arguments),
        (-(-depth_padded // run), 1 if all_tiles else tiles, what.groups),
        (1, 1, 1),
        what.groups * depth * what.outputs * w.dtype.itemsize
        + what.groups * tiles * depth_padded * code.packed_lanes * what.value.itemsize,
        0,
        once=True,
    )
