"""The GPU strategy of contractions: tiles in local memory, and a part of each in registers.

Both operands are read where they lie, so nothing is packed; product/tiles.cl.jinja draws it.
Where there are fewer tiles than keep the device busy, depth is split, and a second kernel adds up
what the splits give: always in the same order, so that the same inputs give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.plan.arguments import Arguments
from clprim.plan.kernel import (
    Argument,
    KernelPlan,
    OperandCode,
    Parameter,
    Plan,
    power_of_two,
    round_up,
)
from clprim.plan.product.local_tile import LocalTile, busy_items, choose_local_tile
from clprim.plan.product.pixels import piece_of, step_of
from clprim.plan.product.problem import (
    Contraction,
    Output,
    index_of,
    moved_bytes,
    span_of,
)
from clprim.plan.product.walk import Walk, depths_of, lanes_of
from clprim.plan.store import StoredCode, StoringCode, add_store, storing
from clprim.traits import DeviceTraits

__all__ = ["ReadCode", "TilesCode", "plan_tiles"]

# Products added one after another into one sum: rounding errors grow with their number, so longer
# depths are split, and the splits' sums added up.
LONGEST_CHAIN = 8192
# Steps of depth that are worth a split: its tile is written and read once more.
SHORTEST_CHAIN = 256
# Products of floats that the inner loop computes at a time; one of doubles counts as two. Nine
# instructions of ten then are products. Compilers read all that they unroll ahead: with 512 of them
# (8 steps of 64 sums) they took up twice the registers (214 and 102 on a GPU that has 256), so that
# half as many work-groups are there to hide latencies.
UNROLLED = 128
# Vectors of sums up to which each gets its own code that stores it. More would make too much of it;
# but where one piece of code serves all of them in turn, some compilers copy sums in the inner loop
# as well (223 instructions for 128 products, and 167 without), those for GPUs with few registers.
OWN_STORES = 8
# Work-items of a group of the second kernel, which only reads and writes.
FINISH_ITEMS = 64


@dataclass(frozen=True)
class ReadCode(OperandCode):
    """One operand, and how a work-group reads its part of a tile.

    Attributes:
        tile: Which tile in local memory it fills: ``row`` or ``column``.
        lanes: Of that tile: lanes of the gathered operand, outputs of the other one.
        pitch: Elements from one step of depth to the next in local memory.
        along: What neighbouring work-items read side by side: ``depth`` or ``lanes``.
        width: Elements that a work-item reads at once.
        units: Such reads of a tile.
        reads: Of each work-item.
        linear: Whether all steps of depth lie equally far apart.
        bounds: Whether its windows leave the plane.
    """

    tile: str = "row"
    lanes: int = 1
    pitch: int = 1
    along: str = "depth"
    width: int = 1
    units: int = 1
    reads: int = 1
    linear: bool = False
    bounds: bool = False


@dataclass(frozen=True)
class TilesCode(StoringCode):
    """What product/tiles.cl.jinja and product/tiles_finish.cl.jinja print.

    Attributes:
        gathered: What the gathered operand's lanes are: ``rows`` or ``columns`` of the result.
        items_y, items_x: Work-items of a group along rows and columns of its tile.
        rows, columns: Of the sums that each of them keeps.
        steps: Of depth that are in local memory at a time.
        x, w: The operands: the gathered one and the other one.
        lane_digits: How many digits a lane has.
        depth_digits: How many digits a step of depth has.
        unroll: Steps of depth that the inner loop takes at a time.
        shift: Whether rows of sums are stored by one piece of code, through which they move.
        ragged: Whether the last steps of depth may be fewer.
        split: Whether another kernel adds up and stores what the splits give.
        digits: Whether outputs are numbers of three digits.
    """

    gathered: str
    items_y: int
    items_x: int
    rows: int
    columns: int
    steps: int
    x: ReadCode
    w: ReadCode
    lane_digits: int
    depth_digits: int
    unroll: int
    shift: bool
    ragged: bool
    split: bool
    digits: bool

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.items_y * self.items_x

    @property
    def record(self) -> int:
        """Bytes of what is noted of a step of depth."""
        places = (not self.x.linear) + (not self.w.linear)
        return places * (4 if self.index == "int" else 8) + (8 if self.x.bounds else 0)

    @property
    def aligned(self) -> int:
        """Bytes that such a record is read in at once; 0 where it is read one number at a time."""
        return power_of_two(self.record) if 4 < self.record <= 16 else 0


@dataclass(frozen=True)
class _Cut:
    """How depth is cut, and how large the workspace is."""

    lane_tiles: int
    output_tiles: int
    splits: int
    chunk: int
    partial: int


def plan_tiles(what: Contraction, traits: DeviceTraits, tile: LocalTile | None = None) -> Plan:
    """Plans the kernels of a contraction.

    Args:
        what: The contraction; neither lanes nor outputs nor groups may be 0.
        traits: Of the device.
        tile: The tile to use; chosen by a rule where left out.
    """
    what = _without_bounds(what)
    lanes = lanes_of(what).merged().ordered("x", "y0").merged()
    near = "wx" if lanes.last("x") == 1 else "xw"
    depths = depths_of(what).merged().ordered(*near).merged()
    gathered_rows = _gathers_rows(what, lanes)
    if tile is None:
        sizes = (lanes.size, what.outputs) if gathered_rows else (what.outputs, lanes.size)
        batch = what.groups * max(1, depths.size // SHORTEST_CHAIN)
        tile = choose_local_tile(*sizes, batch, what.value.itemsize, traits)
    cut = _cut(what, tile, lanes, depths, traits, gathered_rows=gathered_rows)
    code = _code(what, tile, lanes, depths, cut, gathered_rows=gathered_rows)
    numbers = _numbers(what, lanes, depths, cut, code)
    return _plans(what, code, numbers, cut, traits)


def _plans(
    what: Contraction,
    code: TilesCode,
    numbers: dict[str, int],
    cut: _Cut,
    traits: DeviceTraits,
) -> Plan:
    itemsize = what.value.itemsize
    parameters, arguments = _parameters(what, code, numbers, finish=False)
    groups = cut.lane_tiles * cut.output_tiles * what.groups * cut.splits
    flops = 2 * what.groups * numbers["lanes"] * what.outputs * numbers["depth"]
    main = KernelPlan(
        "product/tiles",
        replace(code, parameters=parameters),
        arguments,
        (groups * code.items,),
        (code.items,),
        moved_bytes(what) + cut.partial * itemsize,
        flops,
    )
    if not code.split:
        return Plan((main,))
    finish_code = replace(code, name=f"{code.name}_finish", split=False)
    parameters, arguments = _parameters(what, finish_code, numbers, finish=True)
    rows = numbers["lanes" if code.gathered == "rows" else "outputs"]
    items = min(FINISH_ITEMS, power_of_two(traits.max_work_group_size + 1) // 2)
    vectors = what.groups * rows * (numbers["pitch"] // code.width)
    results = numbers["lanes"] * what.outputs * what.groups
    finish = KernelPlan(
        "product/tiles_finish",
        replace(finish_code, parameters=parameters),
        arguments,
        (round_up(vectors, items),),
        (items,),
        cut.partial * itemsize + results * what.y.dtype.itemsize,
        cut.partial,
    )
    return Plan((main, finish), {"partial": (cut.partial, what.value)})


def _without_bounds(what: Contraction) -> Contraction:
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


def _gathers_rows(what: Contraction, lanes: Walk) -> bool:
    """Whether lanes are rows: columns are what lies side by side in the result."""
    if what.plain is not None:
        return (what.plain.output == 1 and what.outputs > 1) or what.plain.lane[2] != 1
    return (what.y.output == 1 and what.outputs > 1) or lanes.last("y0") != 1


def _cut(
    what: Contraction,
    tile: LocalTile,
    lanes: Walk,
    depths: Walk,
    traits: DeviceTraits,
    *,
    gathered_rows: bool,
) -> _Cut:
    """Splits depth until there is enough to do at the same time, and no sum is too long."""
    lane_tile, output_tile = tile.tile_rows, tile.tile_columns
    if not gathered_rows:
        lane_tile, output_tile = output_tile, lane_tile
    lane_tiles, output_tiles = -(-lanes.size // lane_tile), -(-what.outputs // output_tile)
    tiles = lane_tiles * output_tiles * what.groups
    wanted = busy_items(traits) // (tiles * tile.items)
    splits = max(1, -(-depths.size // LONGEST_CHAIN), min(wanted, depths.size // SHORTEST_CHAIN))
    chunk = max(tile.steps, round_up(-(-depths.size // splits), tile.steps))
    splits = max(1, -(-depths.size // chunk))
    partial = splits * tiles * lane_tile * output_tile if splits > 1 else 0
    return _Cut(lane_tiles, output_tiles, splits, chunk, partial)


def _code(
    what: Contraction,
    tile: LocalTile,
    lanes: Walk,
    depths: Walk,
    cut: _Cut,
    *,
    gathered_rows: bool,
) -> TilesCode:
    piece = piece_of(what, tile.width)
    index = _index(what, depths, cut, tile)
    sums = tile.rows * tile.columns
    return TilesCode(
        **storing(
            what,
            tile.width,
            lambda o: _stored(what, o, lanes, gathered_rows, piece),
            whole=piece == tile.width or not gathered_rows,
        ),
        parameters=(),
        index=index,
        gathered="rows" if gathered_rows else "columns",
        items_y=tile.items_y,
        items_x=tile.items_x,
        rows=tile.rows,
        columns=tile.columns,
        steps=tile.steps,
        x=_gathered(what, tile, lanes, depths, gathered_rows=gathered_rows),
        w=_other(what, tile, depths, gathered_rows=gathered_rows),
        lane_digits=lanes.digits,
        depth_digits=depths.digits,
        shift=sums > OWN_STORES * tile.width,
        unroll=min(tile.steps, max(1, 4 * UNROLLED // (sums * what.value.itemsize))),
        ragged=depths.size % tile.steps != 0,
        split=cut.splits > 1,
        digits=what.digits is not None,
    )


def _index(what: Contraction, depths: Walk, cut: _Cut, tile: LocalTile) -> str:
    """``int`` where 31 bits reach every element of operands, result and workspace."""
    w = what.packed
    reach = abs(w.start) + abs(w.group) * what.groups + abs(w.output) * what.outputs
    if what.digits is not None and w.digits is not None:
        reach = abs(w.start) + span_of(w.digits, what.digits)
    reach += sum(abs(end) for end in depths.reach("w"))
    items = cut.lane_tiles * cut.output_tiles * what.groups * cut.splits * tile.items
    fits = max(reach, cut.partial, items) < 2**31 - 2**20
    return index_of(what) if fits else "long"


def _stored(
    what: Contraction, array: Output, lanes: Walk, gathered_rows: bool, piece: int
) -> StoredCode:
    moves = any(array.lane)
    if gathered_rows:
        column = array.output if what.digits is None else step_of(what, array, piece)
    else:  # 2 for any step: lanes are neighbours wherever those of the result are
        column = 0 if not moves else 1 if lanes.last(array.name) == 1 else 2
    return StoredCode.at(array.name, array.dtype, what.value, column, moves=moves)


def _gathered(
    what: Contraction, tile: LocalTile, lanes: Walk, depths: Walk, *, gathered_rows: bool
) -> ReadCode:
    x, width = what.gathered, tile.width
    along = "depth" if depths.last("x") == 1 and lanes.last("x") != 1 else "lanes"
    own = depths if x.bounds is not None else depths.only("x")
    walk, other = (own, lanes) if along == "depth" else (lanes, own)
    aligned = walk.whole("x", width) and all(s % width == 0 for s in other.steps["x"])
    aligned &= x.start % width == 0 and x.group % width == 0
    if x.bounds is not None:
        aligned &= walk.last("row") == 0 and walk.last("column") == 0
    operand = OperandCode.of("x", x.dtype, what.value, 0)
    read = _read(operand, tile, along, aligned=aligned, rows=gathered_rows)
    return replace(read, linear=own.digits == 1, bounds=x.bounds is not None)


def _other(what: Contraction, tile: LocalTile, depths: Walk, *, gathered_rows: bool) -> ReadCode:
    w, width = what.packed, tile.width
    own = depths.only("w")
    along = "depth" if own.last("w") == 1 or w.output != 1 or w.digits is not None else "lanes"
    if along == "depth":
        steps = (w.output, w.group) if w.digits is None else w.digits
        aligned = own.whole("w", width) and all(step % width == 0 for step in steps)
    else:
        aligned = what.outputs % width == 0 and all(s % width == 0 for s in own.steps["w"])
        aligned &= w.group % width == 0
    aligned &= w.start % width == 0
    operand = OperandCode.of("w", w.dtype, what.value, 0)
    read = _read(operand, tile, along, aligned=aligned, rows=not gathered_rows)
    return replace(read, linear=own.digits == 1)


def _read(
    operand: OperandCode, tile: LocalTile, along: str, *, aligned: bool, rows: bool
) -> ReadCode:
    """How the tile is read: in whole vectors, if they are aligned."""
    lanes = tile.tile_rows if rows else tile.tile_columns
    width = tile.width if aligned and (along == "lanes" or tile.steps % tile.width == 0) else 1
    units = lanes * tile.steps // width
    return ReadCode(
        operand.name,
        operand.storage,
        operand.value,
        operand.load,
        operand.inner,
        tile="row" if rows else "column",
        lanes=lanes,
        # A vector more, so that steps of depth begin in different banks of local memory.
        pitch=lanes + tile.width,
        along=along,
        width=width,
        units=units,
        reads=-(-units // tile.items),
    )


_SHARED = ["lanes", "outputs", "groups", "splits"]
_MAIN = ["lane_tiles", "output_tiles", "depth", "chunk"]
_PLACES = ["x_start", "x_group", "w_start"]
_PLANE = ["height", "width", "row_start", "column_start"]


def _numbers(
    what: Contraction, lanes: Walk, depths: Walk, cut: _Cut, code: TilesCode
) -> dict[str, int]:
    """Every number that a kernel may ask for, by name."""
    padded = cut.lane_tiles * code.x.lanes, cut.output_tiles * code.w.lanes
    if code.gathered == "columns":
        padded = padded[1], padded[0]
    numbers = {
        "lanes": lanes.size,
        "outputs": what.outputs,
        "groups": what.groups,
        "splits": cut.splits,
        "lane_tiles": cut.lane_tiles,
        "output_tiles": cut.output_tiles,
        "depth": depths.size,
        "chunk": cut.chunk,
        "padded_rows": padded[0],
        "pitch": padded[1],
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
        numbers |= zip(_PLANE, (b.height, b.width, b.row_start, b.column_start), strict=True)
    for o in what.stored:
        numbers[f"{o.name}_start"] = o.start
        numbers[f"{o.name}_group"] = o.group
        numbers[f"{o.name}_output"] = o.output
        numbers |= {f"{o.name}_output_{d}": step for d, step in enumerate(o.digits or ())}
    numbers |= {f"w_output_{d}": step for d, step in enumerate(what.packed.digits or ())}
    numbers |= {f"output_{d}": size for d, size in enumerate(what.digits or ())}
    return numbers


def _parameters(
    what: Contraction, code: TilesCode, numbers: dict[str, int], *, finish: bool
) -> tuple[tuple[Parameter, ...], tuple[Argument, ...]]:
    """The parameters of the kernel that multiplies, or of the one that finishes."""
    found = Arguments(code.index)
    if not finish:
        found.memory(code.x.storage, "x_memory", what.gathered.buffer)
        found.memory(code.w.storage, "w_memory", what.packed.buffer)
    if finish or code.split:
        found.memory(code.value, "partial", read_only=finish)
    if not code.split:
        add_store(found, what, code)
    found.numbers(**{name: numbers[name] for name in _wanted(code, finish=finish)})
    return tuple(found.parameters), tuple(found.arguments)


def _output_steps(code: TilesCode, name: str) -> list[str]:
    """Names of the numbers that tell where outputs lie."""
    if code.digits:
        return [f"{name}_output_{d}" for d in range(3)]
    return [f"{name}_group", f"{name}_output"]


def _wanted(code: TilesCode, *, finish: bool) -> Sequence[str]:
    """Names of the numbers that a kernel takes."""
    digits = range(3 - code.lane_digits, 3)
    wanted = [*_SHARED, *(f"lane_{d}" for d in digits[1:])]
    if code.digits:
        wanted += ["output_1", "output_2"]
    if not finish:
        wanted += [*_MAIN, *_PLACES, *_output_steps(code, "w"), *(f"x_lane_{d}" for d in digits)]
        depth_digits = range(3 - code.depth_digits, 3)
        places = [o.name for o in (code.x, code.w) if not o.linear]
        wanted += [f"{o.name}_step" for o in (code.x, code.w) if o.linear]
        if code.x.bounds:
            places += ["row", "column"]
            wanted += _PLANE
            wanted += [f"{name}_lane_{d}" for name in ("row", "column") for d in digits]
        if places:
            wanted += [f"depth_{d}" for d in depth_digits[1:]]
            wanted += [f"{name}_depth_{d}" for name in places for d in depth_digits]
    if finish or code.split:
        wanted += ["padded_rows", "pitch"]
    if not code.split:
        for o in code.outputs:
            wanted += [f"{o.name}_start", *_output_steps(code, o.name)]
            wanted += [f"{o.name}_lane_{d}" for d in digits if o.moves]
    return wanted
