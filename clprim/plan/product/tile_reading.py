"""How work-groups read the operands of a contraction where they lie: their parts of a tile.

What the kernels of `clprim.plan.product.tiles` and `clprim.plan.product.matrix` share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clprim.plan.kernel import Argument, OperandCode, Parameter
from clprim.plan.parameters import Arguments
from clprim.plan.product.problem import Contraction, index_of, span_of
from clprim.plan.product.splits import (
    PLANE,
    Cut,
    TileCode,
    gathers_rows,
    output_steps,
    output_wanted,
)
from clprim.plan.product.walk import Walk, depths_of, lanes_of
from clprim.plan.store import add_store
from clprim.plan.strides import REACH


@dataclass(frozen=True)
class ReadCode(OperandCode):
    """One operand, and how a work-group reads its part of a tile."""

    tile: str = "row"  # Which tile in local memory it fills: ``row`` or ``column``
    lanes: int = 1  # Of that tile: lanes of the gathered operand, outputs of the other one
    pitch: int = 1  # Elements from one step of k to the next in local memory
    along: str = "depth"  # What neighbouring work-items read side by side: ``depth`` or ``lanes``
    width: int = 1  # Elements that a work-item reads at once
    units: int = 1  # Such reads of a tile
    reads: int = 1
    linear: bool = False  # Whether all steps of k lie equally far apart
    bounds: bool = False  # Whether its windows leave the plane
    # Where a work-item counts its steps of k up by itself: by how many after each read, or after
    # each of so many reads in ``between``; 0 of them: after all reads of a tile
    leap: int = 0
    between: int = 0


@dataclass(frozen=True)
class ReadingCode(TileCode):
    """What a kernel prints that reads both operands so."""

    steps: int  # Of depth that are in local memory at a time
    x: ReadCode  # The operands: the gathered one and the other one
    w: ReadCode
    depth_digits: int  # How many digits a step of k has
    ragged: bool  # Whether the last steps of k may be fewer


def walked(what: Contraction) -> tuple[Walk, Walk, bool]:
    """Returns how lanes and depths are walked, and whether lanes are rows."""
    lanes = lanes_of(what).merged().ordered("x", "y0").merged()
    near = "wx" if lanes.last("x") == 1 else "xw"
    depths = depths_of(what).merged().ordered(*near).merged()
    return lanes, depths, gathers_rows(what, lanes)


def index_in(what: Contraction, depths: Walk, cut: Cut, items: int) -> str:
    """``int`` where 31 bits reach every element of operands, result and workspace."""
    w = what.packed
    reach = abs(w.start) + abs(w.group) * what.groups + abs(w.output) * what.outputs
    if what.digits is not None and w.digits is not None:
        reach = abs(w.start) + span_of(w.digits, what.digits)
    reach += sum(abs(end) for end in depths.reach("w"))
    all_items = cut.lane_tiles * cut.output_tiles * what.groups * cut.splits * items
    fits = max(reach, cut.partial(what.groups), all_items) < REACH
    return index_of(what) if fits else "long"


def is_aligned(what: Contraction, width: int, lanes: Walk, depths: Walk) -> tuple[bool, str]:
    """Whether vectors of the gathered operand are aligned, and along what they are read."""
    x = what.gathered
    along = "depth" if depths.last("x") == 1 and lanes.last("x") != 1 else "lanes"
    own = depths if x.bounds is not None else depths.only("x")
    walk, other = (own, lanes) if along == "depth" else (lanes, own)
    aligned = walk.whole("x", width) and all(s % width == 0 for s in other.steps["x"])
    aligned &= x.start % width == 0 and x.group % width == 0
    if x.bounds is not None:
        aligned &= walk.last("row") == 0 and walk.last("column") == 0
    return aligned, along


def other_is_aligned(what: Contraction, width: int, depths: Walk) -> tuple[bool, str]:
    """Likewise of the other operand."""
    w, own = what.packed, depths.only("w")
    along = "depth" if own.last("w") == 1 or w.output != 1 or w.digits is not None else "lanes"
    if along == "depth":
        steps = (w.output, w.group) if w.digits is None else w.digits
        aligned = own.whole("w", width) and all(step % width == 0 for step in steps)
    else:
        aligned = what.outputs % width == 0 and all(s % width == 0 for s in own.steps["w"])
        aligned &= w.group % width == 0
    return aligned and w.start % width == 0, along


def widest(what: Contraction, most: int, lanes: Walk, depths: Walk) -> dict[str, tuple[int, str]]:
    """Returns by operand the elements that are read at once, ``most`` or fewer, along what."""
    found = {}
    for name in "xw":
        width = most
        while True:
            aligned, along = (
                is_aligned(what, width, lanes, depths)
                if name == "x"
                else other_is_aligned(what, width, depths)
            )
            if aligned or width == 1:
                break
            width //= 2
        found[name] = width, along
    return found


def parameters_of(
    what: Contraction, code: ReadingCode, numbers: dict[str, int]
) -> tuple[tuple[Parameter, ...], tuple[Argument, ...]]:
    """The parameters of the kernel that multiplies."""
    found = Arguments(code.index)
    found.memory(code.x.storage, "x_memory", what.gathered.buffer)
    found.memory(code.w.storage, "w_memory", what.packed.buffer)
    if code.split:
        found.memory(code.value, "partial", read_only=False)
    else:
        add_store(found, what, code)
    found.numbers(**{name: numbers[name] for name in _wanted(code)})
    return tuple(found.parameters), tuple(found.arguments)


_SIZES = ["lanes", "outputs", "groups", "splits"]
_MAIN = ["lane_tiles", "output_tiles", "depth", "chunk", "x_start", "x_group", "w_start"]


def _wanted(code: ReadingCode) -> Sequence[str]:
    """Names of the numbers that the kernel takes."""
    digits = range(3 - code.lane_digits, 3)
    wanted = [*_SIZES, *(f"lane_{d}" for d in digits[1:])]
    if code.digits:
        wanted += ["output_1", "output_2"]
    wanted += [*_MAIN, *output_steps("w", digits=code.digits), *(f"x_lane_{d}" for d in digits)]
    depth_digits = range(3 - code.depth_digits, 3)
    places = [o.name for o in (code.x, code.w) if not o.linear]
    wanted += [f"{o.name}_step" for o in (code.x, code.w) if o.linear]
    if code.x.bounds:
        places += ["row", "column"]
        wanted += PLANE
        wanted += [f"{name}_lane_{d}" for name in ("row", "column") for d in digits]
    if places:
        wanted += [f"depth_{d}" for d in depth_digits[1:]]
        wanted += [f"{name}_depth_{d}" for name in places for d in depth_digits]
    if code.depth_digits > 1:
        counting = [o.name for o in (code.x, code.w) if o.leap]
        wanted += [f"{name}_leap_{d}" for name in counting for d in depth_digits]
    return wanted + output_wanted(code, split=code.split, stores=not code.split)
