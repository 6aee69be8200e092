"""What the GPU strategies of contractions share: depth cut into splits, and their second kernel.

Where there are fewer tiles than keep the device busy, depth is split, and a second kernel adds up
what the splits give: always in the same order, so that the same inputs give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from clprim.plan.kernel import KernelPlan, Plan, power_of_two, round_up
from clprim.plan.machine import CHAIN, GROUP
from clprim.plan.parameters import Arguments
from clprim.plan.product.pixels import step_of
from clprim.plan.product.problem import Contraction, Output
from clprim.plan.product.walk import Walk, depths_of, lanes_of
from clprim.plan.store import StoredCode, StoringCode, add_store
from clprim.traits import DeviceTraits

# Steps of k that are worth a split: its tile is written and read once more.
SHORTEST_CHAIN = 256
#: Names of the numbers of a plane.
PLANE = ("height", "width", "row_start", "column_start")


@dataclass(frozen=True)
class TileCode(StoringCode):
    """What a kernel prints that computes a tile, and the one that adds up splits of it."""

    gathered: str  # What the gathered operand's lanes are: ``rows`` or ``columns`` of the result
    lane_digits: int  # How many digits a lane has
    digits: bool  # Whether outputs are numbers of three digits
    split: bool  # Whether another kernel adds up and stores what the splits give


@dataclass(frozen=True)
class Cut:
    """How depth is cut, and how large the workspace is."""

    lane_tiles: int  # Tiles along lanes and outputs
    output_tiles: int
    splits: int
    chunk: int
    rows: int  # Of a group's result in the workspace, in whole tiles
    pitch: int

    def partial(self, groups: int) -> int:
        """Elements of the workspace."""
        return self.splits * groups * self.rows * self.pitch if self.splits > 1 else 0


def cut_depth(
    what: Contraction, shape: tuple[int, int], steps: int, busy: int, *, gathered_rows: bool
) -> Cut:
    """Splits depth until there is enough to do at the same time, and no sum is too long."""
    lanes, depth = lanes_of(what).size, depths_of(what).size
    lane_tile, output_tile = shape if gathered_rows else shape[::-1]
    lane_tiles, output_tiles = -(-lanes // lane_tile), -(-what.outputs // output_tile)
    splits, chunk = split_depth(depth, steps, lane_tiles * output_tiles * what.groups, busy)
    rows, pitch = lane_tiles * lane_tile, output_tiles * output_tile
    if not gathered_rows:
        rows, pitch = pitch, rows
    return Cut(lane_tiles, output_tiles, splits, chunk, rows, pitch)


def split_depth(depth: int, steps: int, tiles: int, busy: int) -> tuple[int, int]:
    """Returns into how many parts depth is cut, and the steps of each."""
    splits = max(1, -(-depth // CHAIN), min(busy // tiles, depth // SHORTEST_CHAIN))
    chunk = max(steps, round_up(-(-depth // splits), steps))
    return max(1, -(-depth // chunk)), chunk


def without_bounds(what: Contraction) -> Contraction:
    """Returns the contraction without bounds that no window leaves."""
    b = what.gathered.bounds
    if b is None:
        return what
    lanes, depths = lanes_of(what), depths_of(what)
    for name, start, size in (("row", b.row_start, b.height), ("column", b.column_start, b.width)):
        (low, high), (least, most) = lanes.reach(name), depths.reach(name)
        if start + low + least < 0 or start + high + most >= size:
            return what
    return replace(what, gathered=replace(what.gathered, bounds=None))


def gathers_rows(what: Contraction, lanes: Walk) -> bool:
    """Whether lanes are rows: columns are what lies side by side in the result."""
    if what.plain is not None:
        return (what.plain.output == 1 and what.outputs > 1) or what.plain.lane[2] != 1
    return (what.y.output == 1 and what.outputs > 1) or lanes.last("y0") != 1


def stored_at(
    what: Contraction, array: Output, lanes: Walk, piece: int, *, gathered_rows: bool
) -> StoredCode:
    """Describes an array that a tile is stored to or read from."""
    moves = any(array.lane)
    if gathered_rows:
        column = array.output if what.digits is None else step_of(what, array, piece)
    else:  # 2 for any step: lanes are neighbours wherever those of the result are
        column = 0 if not moves else 1 if lanes.last(array.name) == 1 else 2
    return StoredCode.at(array.name, array.dtype, what.value, column, moves=moves)


def numbers_of(what: Contraction, lanes: Walk, depths: Walk, cut: Cut) -> dict[str, int]:
    """Returns every number that a kernel may ask for, by name; places in elements."""
    numbers = {
        "lanes": lanes.size,
        "outputs": what.outputs,
        "groups": what.groups,
        "splits": cut.splits,
        "lane_tiles": cut.lane_tiles,
        "output_tiles": cut.output_tiles,
        "depth": depths.size,
        "chunk": cut.chunk,
        "padded_rows": cut.rows,
        "pitch": cut.pitch,
        "x_start": what.gathered.start,
        "x_group": what.gathered.group,
        "w_start": what.packed.start,
        "w_group": what.packed.group,
        "w_output": what.packed.output,
    }
    numbers |= {f"{name}_step": depths.only(name).last(name) for name in ("x", "w")}
    for d in range(3):
        numbers[f"lane_{d}"] = max(1, lanes.sizes[d])
        numbers[f"depth_{d}"] = max(1, depths.sizes[d])
        numbers |= {f"{name}_lane_{d}": step[d] for name, step in lanes.steps.items()}
        numbers |= {f"{name}_depth_{d}": step[d] for name, step in depths.steps.items()}
    b = what.gathered.bounds
    if b is not None:
        numbers |= zip(PLANE, (b.height, b.width, b.row_start, b.column_start), strict=True)
    for o in what.stored:
        numbers[f"{o.name}_start"] = o.start
        numbers[f"{o.name}_group"] = o.group
        numbers[f"{o.name}_output"] = o.output
        numbers |= {f"{o.name}_output_{d}": step for d, step in enumerate(o.digits or ())}
    numbers |= {f"w_output_{d}": step for d, step in enumerate(what.packed.digits or ())}
    numbers |= {f"output_{d}": size for d, size in enumerate(what.digits or ())}
    return numbers


def output_steps(name: str, *, digits: bool) -> list[str]:
    """Returns names of the numbers that tell where outputs lie."""
    if digits:
        return [f"{name}_output_{d}" for d in range(3)]
    return [f"{name}_group", f"{name}_output"]


def output_wanted(code: TileCode, *, split: bool, stores: bool) -> list[str]:
    """Returns names of the numbers that a kernel takes of its result and of the workspace."""
    wanted = ["padded_rows", "pitch"] if split else []
    if stores:
        digits = range(3 - code.lane_digits, 3)
        for o in code.outputs:
            wanted += [f"{o.name}_start", *output_steps(o.name, digits=code.digits)]
            wanted += [f"{o.name}_lane_{d}" for d in digits if o.moves]
    return wanted


def with_finish(
    what: Contraction,
    main: KernelPlan,
    numbers: dict[str, int],
    cut: Cut,
    traits: DeviceTraits,
    before: tuple[KernelPlan, ...] = (),
) -> Plan:
    """Returns the plan of a kernel, and of the one that adds up its splits, if it has any."""
    code = main.code
    assert isinstance(code, TileCode)
    if not code.split:
        return Plan((*before, main))
    code = replace(code, name=f"{code.name}_finish", split=False)
    found = Arguments(code.index)
    found.memory(code.value, "partial")
    add_store(found, what, code)
    wanted = ["lanes", "outputs", "groups", "splits"]
    wanted += [f"lane_{d}" for d in range(4 - code.lane_digits, 3)]
    wanted += ["output_1", "output_2"] if code.digits else []
    wanted += output_wanted(code, split=True, stores=True)
    found.numbers(**{name: numbers[name] for name in wanted})
    partial = cut.partial(what.groups)
    rows = numbers["lanes" if code.gathered == "rows" else "outputs"]
    items = min(GROUP, power_of_two(traits.max_work_group_size + 1) // 2)
    vectors = what.groups * rows * (cut.pitch // code.width)
    results = numbers["lanes"] * what.outputs * what.groups
    finish = KernelPlan(
        "product/tiles_finish",
        replace(code, parameters=tuple(found.parameters)),
        tuple(found.arguments),
        (round_up(vectors, items),),
        (items,),
        partial * what.value.itemsize + results * what.y.dtype.itemsize,
        partial,
    )
    return Plan((*before, main, finish), {"partial": (partial, what.value)})
