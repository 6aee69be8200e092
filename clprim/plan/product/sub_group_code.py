"""What the kernels of sub-groups print, and the kernel that packs one of their operands."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.kernel import KernelCode, KernelPlan, OperandCode, round_up
from clprim.plan.machine import GROUP, UNROLL
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
    run: int  # Steps of k that a work-item packs
    depth_digits: int  # How many digits a step of k has
    digits: bool  # Whether outputs are numbers of three digits


def pack_panels(
    what: Contraction,
    depths: Walk,
    code: SubGroupsCode,
    numbers: dict[str, int],
    elements: int,
    traits: DeviceTraits,
) -> KernelPlan:
    """Plans the kernel that packs the other operand, once for all calls."""
    w = what.packed
    operand = OperandCode.of("w", w.dtype, what.value, 0)
    run, items = min(2 * UNROLL, code.lanes), min(GROUP, traits.max_work_group_size)
    found = Arguments(code.index)
    found.memory(operand.storage, "w_memory", w.buffer)
    found.memory(code.value, "packed", read_only=False)
    digits = range(3 - code.depth_digits, 3)
    wanted = ["outputs", "groups", "output_tiles", "depth", "depth_padded", "w_start"]
    wanted += output_steps(code, "w")
    wanted += ["output_1", "output_2"] if code.digits else []
    wanted += [f"w_depth_{d}" for d in digits]
    wanted += [f"depth_{d}" for d in digits[1:]]
    found.numbers(**{name: numbers[name] for name in wanted})
    return KernelPlan(
        "product/sub_groups_pack",
        PanelCode(
            name=f"{what.name}_pack",
            parameters=tuple(found.parameters),
            index=code.index,
            doubles=operand.value == "double" or operand.storage == "double",
            w=operand,
            tile=code.other_vectors * code.lanes,
            run=run,
            depth_digits=code.depth_digits,
            digits=code.digits,
        ),
        tuple(found.arguments),
        (round_up(elements // run, items),),
        (items,),
        what.groups * depths.size * what.outputs * w.dtype.itemsize + elements * 4,
        0,
        once=True,
    )
