"""The strategy of contractions for devices whose sub-groups share one register file.

A sub-group computes a tile by itself: the values of a vector of its lanes are the factors of rows,
passed from lane to lane, and each lane keeps the sums of some columns. There is no local memory and
no barrier; product/sub_groups.cl.jinja draws it. The gathered operand is read where it lies, the
other one is packed: even one whose lines are whole, as compilers that have to add up their places
leave too few registers for sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from clprim.dtypes import stored_type
from clprim.plan.kernel import (
    KernelPlan,
    OperandCode,
    Plan,
    round_up,
)
from clprim.plan.machine import GROUP, ITEMS, UNROLL
from clprim.plan.parameters import Arguments
from clprim.plan.product.local_tile import most_sums
from clprim.plan.product.pixels import piece_of
from clprim.plan.product.problem import Contraction, index_of, moved_bytes, span_of
from clprim.plan.product.splits import (
    Cut,
    cut_depth,
    gathers_rows,
    numbers_of,
    output_wanted,
    stored_at,
    with_finish,
    without_bounds,
)
from clprim.plan.product.sub_group_code import PanelCode, SubGroupsCode, pack_panels
from clprim.plan.product.walk import Walk, depths_of, lanes_of
from clprim.plan.store import add_store, storing
from clprim.plan.strides import REACH
from clprim.traits import DeviceTraits

# Sizes of sub-groups, what promises most first.
SIZES = (16, 8, 32)
# Bound: elements of what a GPU loads or stores at once, 16 bytes.
WIDTH = 4


@dataclass(frozen=True)
class SubGroupTile:
    """The tile of a sub-group."""

    lanes: int
    rows: int
    columns: int
    sub_groups: int

    def fits(self, traits: DeviceTraits, *, along_depth: bool) -> bool:
        """Whether a device has such sub-groups, and registers for their sums."""
        return (
            self.lanes in traits.sub_groups
            and self.columns // self.lanes in (1, 2, 4)
            and self.columns % self.lanes == 0
            and (along_depth or self.rows // self.lanes in (1, 2, 4))
            and (along_depth or self.rows % self.lanes == 0)
            and self.rows * self.columns <= self.lanes * most_sums(WIDTH, 4, traits)
            and self.lanes * self.sub_groups <= traits.max_work_group_size
        )


@dataclass(frozen=True)
class _Form:
    """What a contraction looks like to sub-groups."""

    what: Contraction
    lanes: Walk
    depths: Walk
    rows: bool
    along: str


def sub_groups_applicable(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether there are sub-groups, work-groups that hold one, and sums are floats."""
    most = traits.max_work_group_size
    return what.value == np.float32 and any(s in traits.sub_groups and s <= most for s in SIZES)


def suits_sub_groups(what: Contraction, traits: DeviceTraits) -> bool:
    """Whether they are to be chosen: where lanes are registers, and little of tiles is padding."""
    if traits.is_cpu or not traits.block_reads or SIZES[0] not in traits.sub_groups:
        return False
    form = _form(what)
    if not form.rows and form.along == "depth":
        return False  # neighbouring columns lie in lines of their own
    tile = sub_group_tile(what, traits)
    lanes, outputs = form.lanes.size, what.outputs
    rows, columns = (lanes, outputs) if form.rows else (outputs, lanes)
    padded = round_up(rows, tile.rows) * round_up(columns, tile.columns)
    return padded <= 2 * rows * columns


def _form(what: Contraction) -> _Form:
    what = without_bounds(what)
    lanes = lanes_of(what).merged().ordered("x", "y0").merged()
    depths = depths_of(what).merged()
    if what.gathered.bounds is None:
        depths = depths.ordered(*("wx" if lanes.last("x") == 1 else "xw")).merged()
    elif depths.last("row") or depths.last("column"):
        depths = _channels_last(depths)
    rows = gathers_rows(what, lanes)
    along = "depth" if depths.last("x") == 1 and lanes.last("x") != 1 and rows else "lanes"
    return _Form(what, lanes, depths, rows, along)


def _channels_last(depths: Walk) -> Walk:
    """Returns a window's steps with that digit last which stays in its place of the plane."""
    for d in (0, 1):
        if depths.sizes[d] > 1 and not depths.steps["row"][d] and not depths.steps["column"][d]:
            order = [*(n for n in range(3) if n != d), d]
            sizes = tuple(depths.sizes[n] for n in order)
            steps = {name: tuple(s[n] for n in order) for name, s in depths.steps.items()}
            return Walk(sizes, steps).merged()  # type: ignore[arg-type]
    return depths


def _nested(form: _Form, size: int) -> bool:
    """Whether places grow evenly along depth, or within each tap of a window."""
    depths, bounds = form.depths, form.what.gathered.bounds is not None
    moves = bounds and (depths.last("row") or depths.last("column") or depths.last("x") < 0)
    return (depths.digits == 1 or depths.sizes[2] % size == 0) and not moves


def _neighbours(form: _Form, size: int, rows: int, columns: int, traits: DeviceTraits) -> bool:
    """Whether vectors of the gathered operand are read by one address."""
    # They are neighbours in memory, none of them a tail, and all of them begin at whole words.
    x = form.what.gathered
    load = stored_type(x.dtype).load
    if load in ("half", "bfloat16"):
        reads = traits.short_block_reads and _even(form)
    else:
        reads = traits.block_reads and load == "direct" and x.dtype == np.float32
    if not reads or not _nested(form, size):
        return False
    if form.along == "depth":
        return form.depths.last("x") == 1
    own = form.lanes.only("x")
    whole = own.digits == 1 and own.size % (rows if form.rows else columns) == 0
    return whole and own.last("x") == 1 and x.bounds is None


def _even(form: _Form) -> bool:
    """Whether all vectors of the gathered operand begin at even elements."""
    x, walks = form.what.gathered, (form.lanes, form.depths)
    near = form.depths if form.along == "depth" else form.lanes  # its last digit is the vector's
    steps = [
        step
        for walk in walks
        for d, (step, count) in enumerate(zip(walk.steps["x"], walk.sizes, strict=True))
        if count > 1 and not (walk is near and d == 2)
    ]
    starts = [x.start] if form.what.groups == 1 else [x.start, x.group]
    return not any(place % 2 for place in (*starts, *steps))


def sub_group_tile(what: Contraction, traits: DeviceTraits) -> SubGroupTile:
    """Returns the tile of the rule."""
    return next(sub_group_tiles(what, traits))


def sub_group_tiles(what: Contraction, traits: DeviceTraits) -> Iterator[SubGroupTile]:
    """Yields the tiles that a device has, for a contraction that it takes, what promises first."""
    form = _form(what)
    outputs = what.outputs
    for size in SIZES:
        if form.along == "depth":
            # Places of every lane take the registers of eight rows, halves before they are floats
            # as many.
            whole = what.gathered.dtype == np.float32 and _neighbours(form, size, 16, size, traits)
            rows = 16 if whole else 8
            shapes = [(rows, 2 * size), (rows, size), (8, 2 * size)]
        elif form.rows:
            shapes = [(size, 2 * size), (2 * size, size), (size, size)]
        else:
            shapes = [(2 * size, size), (size, 2 * size), (size, size)]
        # The tile that has the other operand's outputs in fewer vectors, where they are few.
        if outputs <= size:
            shapes.sort(key=lambda s: s[1] if form.rows else s[0])
        # Neighbours read the same columns at about the same time.
        neighbours = max(1, min(2 * GROUP, traits.max_work_group_size) // size)
        for rows, columns in shapes:
            tile = SubGroupTile(size, rows, columns, neighbours)
            if tile.fits(traits, along_depth=form.along == "depth"):
                yield tile


def fits_sub_groups(tile: SubGroupTile, what: Contraction, traits: DeviceTraits) -> bool:
    """Whether a tile can be had."""
    return tile.fits(traits, along_depth=_form(what).along == "depth")


def plan_sub_groups(
    what: Contraction, traits: DeviceTraits, tile: SubGroupTile | None = None
) -> Plan:
    """Plans the kernels of an applicable contraction, see `sub_groups_applicable`."""
    tile = sub_group_tile(what, traits) if tile is None else tile
    form = _form(what)
    what = form.what
    shape = tile.rows, tile.columns
    busy = ITEMS * traits.compute_units
    cut = cut_depth(what, shape, tile.lanes, busy, gathered_rows=form.rows)
    code = _code(form, tile, cut, traits)
    numbers = _numbers(form, tile, cut, code)
    blocks = -(-cut.lane_tiles // tile.sub_groups)
    items = tile.lanes * tile.sub_groups
    parameters = _parameters(code, what, numbers)
    main = KernelPlan(
        "product/sub_groups",
        replace(code, parameters=tuple(parameters.parameters)),
        tuple(parameters.arguments),
        (cut.output_tiles * items, blocks, what.groups * cut.splits),
        (items, 1, 1),
        moved_bytes(what) + cut.partial(what.groups) * what.value.itemsize,
        2 * what.groups * form.lanes.size * what.outputs * form.depths.size,
    )
    tile_of_w = code.other_vectors * code.lanes
    operand = OperandCode.of("w", what.packed.dtype, what.value, 0)
    panel = PanelCode(
        name=f"{what.name}_pack",
        parameters=(),
        index=code.index,
        doubles="double" in (operand.value, operand.storage),
        w=operand,
        tile=tile_of_w,
        run=min(2 * UNROLL, code.lanes),
        depth_digits=code.depth_digits,
        digits=code.digits,
    )
    elements = what.groups * numbers["depth_padded"] * cut.output_tiles * tile_of_w
    panels = pack_panels(what, form.depths, numbers, panel, traits)
    plan = with_finish(what, main, numbers, cut, traits, (panels,))
    return replace(plan, workspace={**plan.workspace, "packed": (elements, what.value)})


def _code(form: _Form, tile: SubGroupTile, cut: Cut, traits: DeviceTraits) -> SubGroupsCode:
    what, depths, x = form.what, form.depths, form.what.gathered
    piece = piece_of(what, WIDTH)
    return SubGroupsCode(
        **storing(
            what,
            WIDTH,
            lambda o: stored_at(what, o, form.lanes, piece, gathered_rows=form.rows),
            traits,
            whole=piece == WIDTH or not form.rows,
        ),
        parameters=(),
        index=_index(form, cut, tile),
        gathered="rows" if form.rows else "columns",
        lane_digits=form.lanes.digits,
        digits=what.digits is not None,
        split=cut.splits > 1,
        lanes=tile.lanes,
        sub_groups=tile.sub_groups,
        rows=tile.rows,
        columns=tile.columns,
        x=OperandCode.of("x", x.dtype, what.value, 0),
        along=form.along,
        bounds=x.bounds is not None,
        nested=_nested(form, tile.lanes),
        blocks=traits.block_reads,
        x_blocks=_neighbours(form, tile.lanes, tile.rows, tile.columns, traits),
        depth_digits=depths.digits,
        ragged=depths.size % tile.lanes != 0,
    )


def _index(form: _Form, cut: Cut, tile: SubGroupTile) -> str:
    """``int`` where 31 bits reach every byte of the operands, and every element else."""
    what, x, w = form.what, form.what.gathered, form.what.packed
    lanes, depths = form.lanes, form.depths
    reach = abs(x.start) + abs(x.group) * what.groups
    reach += sum(abs(end) for end in (*lanes.reach("x"), *depths.reach("x")))
    furthest = max(reach, x.size) * x.dtype.itemsize
    reach = abs(w.start) + sum(abs(end) for end in depths.reach("w"))
    if what.digits is not None and w.digits is not None:
        reach += span_of(w.digits, what.digits)
    else:
        reach += abs(w.group) * what.groups + abs(w.output) * what.outputs
    panels = cut.output_tiles * (tile.columns if form.rows else tile.rows)
    panels *= what.groups * round_up(depths.size, tile.lanes)
    furthest = max(furthest, 4 * max(reach, panels))
    items = -(-cut.lane_tiles // tile.sub_groups) * tile.sub_groups * tile.lanes
    items *= cut.output_tiles * what.groups * cut.splits
    fits = max(furthest, cut.partial(what.groups), items) < REACH
    return index_of(what) if fits else "long"


def _numbers(form: _Form, tile: SubGroupTile, cut: Cut, code: SubGroupsCode) -> dict[str, int]:
    """Every number that a kernel may ask for: places of what it multiplies in bytes."""
    numbers = numbers_of(form.what, form.lanes, form.depths, cut)
    itemsize = form.what.gathered.dtype.itemsize
    numbers["x_step"] = form.depths.last("x")
    for name in (
        "start",
        "group",
        "step",
        *(f"{o}_{d}" for o in ("lane", "depth") for d in (0, 1, 2)),
    ):
        numbers[f"x_{name}"] *= itemsize
    numbers["depth_padded"] = round_up(form.depths.size, tile.lanes)
    steps = form.depths.taken_apart(tile.lanes)
    numbers |= {f"advance_{d}": step for d, step in enumerate(steps)}
    return numbers


def _parameters(code: SubGroupsCode, what: Contraction, numbers: dict[str, int]) -> Arguments:
    found = Arguments(code.index)
    found.memory(code.x.storage, "x_memory", what.gathered.buffer)
    found.memory(code.value, "packed")
    if code.split:
        found.memory(code.value, "partial", read_only=False)
    else:
        add_store(found, what, code)
    found.numbers(**{name: numbers[name] for name in _wanted(code)})
    return found


def _wanted(code: SubGroupsCode) -> list[str]:
    """Names of the numbers that the kernel takes: of the inner loop, of its start, its end."""
    # Several share a register, which is free when none of them is needed any more.
    digits, depth_digits = range(3 - code.lane_digits, 3), range(3 - code.depth_digits, 3)
    moved = ["row", "column"] if code.bounds else []
    taps = depth_digits[:-1] if code.nested else depth_digits
    inner = ["x_step"] if code.nested else []
    inner += ["height", "width"] if code.bounds else []
    inner += [f"{name}_depth_{d}" for name in ("x", *moved) for d in taps]
    inner += [f"depth_{d}" for d in depth_digits[1:]]
    if not code.nested and code.depth_digits > 1:
        inner += [f"advance_{d}" for d in depth_digits]
    first = ["groups", "lane_tiles", "output_tiles", "depth", "chunk"]
    first += ["depth_padded", "x_start", "x_group", *(f"x_lane_{d}" for d in digits)]
    first += [f"{name}_start" for name in moved]
    first += [f"{name}_lane_{d}" for name in moved for d in digits]
    last = ["lanes", "outputs", *(f"lane_{d}" for d in digits[1:])]
    last += ["output_1", "output_2"] if code.digits and not code.split else []
    last += output_wanted(code, split=code.split, stores=not code.split)
    return [*inner, *first, *last]
