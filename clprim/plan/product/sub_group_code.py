"""What the kernels of sub-groups print, and the kernel that packs one of their operands."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, round_up
from clprim.plan.machine import GROUP
from clprim.plan.parameters import Arguments
from clprim.plan.product.problem import Contraction
from clprim.plan.product.splits import TileCode, output_steps
from clprim.plan.product.walk import Walk
from clprim.traits import DeviceTraits

# Vectors that are read at once of the other operand: more of them would not stay in registers.
AHEAD = 2


@dataclass(frozen=True)
class SubGroupsCode(TileCode):
    """What product/sub_groups.cl.jinja prints."""

    lanes: int
    sub_groups: int
    rows: int
    columns: int
    x: OperandCode
    along: str  # What the lanes of its vectors are: steps of ``depth``, or its ``lanes``
    bounds: bool  # Whether its windows leave the plane
    nested: bool  # Whether places grow evenly along depth, or along the last digit of it
    blocks: bool  # Whether neighbouring elements are read by one address
    x_blocks: bool  # Whether those of the gathered operand are such
    depth_digits: int  # How many digits a step of k has
    ragged: bool  # Whether the last steps of k may be fewer

    @property
    def gathered_lanes(self) -> int:
        """Lanes of the gathered operand in a tile."""
        return self.rows if self.gathered == "rows" else self.columns

    @property
    def vectors(self) -> int:
        """Vectors of so many lanes."""
        return -(-self.gathered_lanes // self.lanes)

    @property
    def other_vectors(self) -> int:
        """Vectors of the other operand for a step of k."""
        return (self.columns if self.gathered == "rows" else self.rows) // self.lanes

    @property
    def ahead(self) -> int:
        """Steps of k that are read at a time of what is read step by step."""
        return max(1, AHEAD // self.other_vectors)


@dataclass(frozen=True)
class PanelCode(KernelCode):
    """What product/sub_groups_pack.cl.jinja prints."""

    w: OperandCode
    tile: int
    run: int  # Steps of k that a work-item packs; they divide those of the panels
    depth_digits: int  # How many digits a step of k has
    digits: bool  # Whether outputs are numbers of three digits


def pack_panels(
    what: Contraction,
    depths: Walk,
    numbers: dict[str, int],
    code: PanelCode,
    traits: DeviceTraits,
) -> KernelPlan:
    """Plans the kernel that packs the other operand, once for all calls."""
    w = what.packed
    found = Arguments(code.index)
    found.memory(code.w.storage, "w_memory", w.buffer)
    found.memory(code.w.value, "packed", read_only=False)
    digits = range(3 - depths.digits, 3)
    wanted = ["outputs", "groups", "output_tiles", "depth", "depth_padded", "w_start"]
    wanted += output_steps("w", digits=code.digits)
    wanted += ["output_1", "output_2"] if code.digits else []
    wanted += [f"w_depth_{d}" for d in digits]
    wanted += [f"depth_{d}" for d in digits[1:]]
    found.numbers(**{name: numbers[name] for name in wanted})
    elements = what.groups * numbers["depth_padded"] * numbers["output_tiles"] * code.tile
    items = min(GROUP, traits.max_work_group_size)
    return KernelPlan(
        "product/sub_groups_pack",
        replace(code, parameters=tuple(found.parameters)),
        tuple(found.arguments),
        (round_up(elements // code.run, items),),
        (items,),
        what.groups * depths.size * what.outputs * w.dtype.itemsize
        + elements * what.value.itemsize,
        0,
        once=True,
    )
