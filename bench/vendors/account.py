"""What binds a kernel of products: the pipes that its instructions go to, or what is near it.

Where a device issues to several pipes at once, the fullest one sets the pace: the part of its
cycles that products need at the peak is the most that a loop can reach. What local memory and
caches deliver is counted apart, in bytes for a multiply-add, because no listing shows it: eight
lanes that read one element are eight elements to local memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.vendors.gpus import Gpu
from bench.vendors.machine_code import Loop, nest
from clprim.plan.conv.winograd.local import WinogradLocalCode
from clprim.plan.kernel import KernelPlan, round_up
from clprim.plan.product.sub_group_code import SubGroupsCode
from clprim.plan.product.tiles import TilesCode


@dataclass(frozen=True)
class Account:
    """What a kernel of products can reach at most, as parts of the peak.

    Attributes:
        slots: Of all instructions of its inner loop: what is left if no two pipes work at once.
        inner: Of its inner loop, if nothing but pipes binds.
        whole: Of all its loops likewise.
        pipe: The fullest one.
        bytes: That each multiply-add takes of local memory or caches.
        near: The part that these allow.
        source: ``local memory`` or ``caches``.
        used: Sums that are stored, of those that tiles compute.
    """

    slots: float
    inner: float
    whole: float
    pipe: str
    bytes: float
    near: float
    source: str
    used: float

    @property
    def bound(self) -> float:
        """The part of the peak that it can reach at most."""
        return min(self.whole, self.near) * self.used

    @property
    def binds(self) -> str:
        """What sets that."""
        return self.source if self.near < self.whole else f"slots ({self.pipe})"


def account_of(gpu: Gpu, plan: KernelPlan, loops: Sequence[Loop]) -> Account | None:
    """Returns the account of a kernel of products; None of others.

    Args:
        gpu: Which it was compiled for.
        plan: The kernel.
        loops: That the compiler made of it.
    """
    code, nested = plan.code, nest(loops)
    if not isinstance(code, TilesCode | SubGroupsCode | WinogradLocalCode) or not nested:
        return None
    cycles, needed = Counter(nested[0].pipes), nested[0].needed
    trips = _trips(plan, nested[0].flops)
    for inner, outer, count in zip(nested, nested[1:], trips, strict=False):
        cycles = Counter({name: count * value for name, value in cycles.items()})
        needed *= count
        # What the loop does beside the one in it; some more products among it are no loop's.
        cycles.update({n: max(0.0, v - inner.pipes.get(n, 0.0)) for n, v in outer.pipes.items()})
    pipe, most = max(cycles.items(), key=lambda pair: pair[1])
    amount = near_bytes(gpu, code)
    return Account(
        slots=nested[0].share,
        inner=nested[0].needed / max(nested[0].pipes.values()),
        whole=needed / most,
        pipe=pipe,
        bytes=amount,
        near=min(1.0, gpu.near / amount),
        source="caches" if isinstance(code, SubGroupsCode) else "local memory",
        used=_used(plan),
    )


def near_bytes(gpu: Gpu, code: TilesCode | SubGroupsCode | WinogradLocalCode) -> float:
    """Returns the bytes that a multiply-add takes of local memory and caches, by the tile.

    Args:
        gpu: Whose lanes count what they read together once or not.
        code: Of the kernel.
    """
    if isinstance(code, SubGroupsCode):
        x, w = code.gathered_lanes, code.rows * code.columns // code.gathered_lanes
        stored = 2 if code.x.storage in ("half", "ushort") else 4
        return (x * stored + w * 4) / (x * w)
    itemsize = 8 if code.value == "double" else 4
    if isinstance(code, WinogradLocalCode):  # what there is of every element
        rows, columns, across = code.tile.rows, code.tile.columns, code.tile.item_columns
        tile = code.tile.tiles, code.tile.strip
    else:
        rows, columns, across = code.rows, code.columns, code.items_x
        tile = code.items_y * rows, across * columns
    written = (tile[0] + tile[1]) / (tile[0] * tile[1])
    if not gpu.copies:  # a sub-group of so many lanes reads each element that it needs once
        lanes = gpu.traits.sub_group_size
        across = min(lanes, across)
        rows, columns = rows * (lanes // across), columns * across
    return itemsize * ((rows + columns) / (rows * columns) + written)


def _numbers(plan: KernelPlan) -> dict[str, int]:
    pairs = zip(plan.code.parameters, plan.arguments, strict=True)
    return {p.declaration.split()[-1]: a for p, a in pairs if isinstance(a, int)}


def _trips(plan: KernelPlan, flops: int) -> list[float]:
    """How often each loop runs in the one around it."""
    code, numbers = plan.code, _numbers(plan)
    if isinstance(code, TilesCode):
        rounds = max(1.0, code.steps * code.rows * code.columns / flops)
        noted = max(1.0, code.items / code.steps) if code.record else numbers["chunk"] / code.steps
        return [rounds, noted] if rounds > 1 else [noted]
    if isinstance(code, WinogradLocalCode):
        return [max(1.0, code.tile.steps * code.tile.rows * code.tile.columns / flops)]
    assert isinstance(code, SubGroupsCode)
    rounds = code.rows * code.columns / flops
    taps = numbers.get("depth_2", numbers["depth"]) / code.lanes
    return [rounds, max(1.0, taps)] if rounds > 1 else [max(1.0, taps), 1.0]


def _used(plan: KernelPlan) -> float:
    """The part of all tiles that is stored."""
    code, numbers = plan.code, _numbers(plan)
    if isinstance(code, WinogradLocalCode):
        cut = code.tile
        sizes = {"tiles": cut.tiles, "outputs": cut.strip, "channels": cut.steps}
        return math.prod(numbers[n] / round_up(numbers[n], size) for n, size in sizes.items())
    assert isinstance(code, TilesCode | SubGroupsCode)
    if isinstance(code, TilesCode):
        rows, columns = code.items_y * code.rows, code.items_x * code.columns
    else:
        rows, columns = code.rows, code.columns
    if code.gathered == "columns":
        rows, columns = columns, rows
    padded = numbers["lane_tiles"] * rows * numbers["output_tiles"] * columns
    return numbers["lanes"] * numbers["outputs"] / padded
