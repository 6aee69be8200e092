"""Compiles every family of kernels for GPUs that are not here, and tabulates what compilers say.

A kernel of products is judged by its loops: which part of the instructions of the inner one are
multiply-adds, and of a whole round, in which a work-group reads, stores and multiplies one tile.
That part of the datasheet's peak is the most it can reach, if nothing waits for memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bench.page.report import Report, Table
from bench.vendors.account import Account, account_of
from bench.vendors.gpus import GPUS, Gpu
from bench.vendors.kernels import kernels, layers
from bench.vendors.machine_code import Loop
from bench.vendors.offline import Compiled, available, compile_for
from clprim.plan.conv.winograd.local import WinogradLocalCode
from clprim.plan.kernel import KernelPlan
from clprim.plan.product.sub_group_code import SubGroupsCode
from clprim.plan.product.tiles import TilesCode
from clprim.plan.reduction.code import ReductionCode
from clprim.render import render


@dataclass(frozen=True)
class Row:
    """One kernel on one GPU.

    Attributes:
        gpu: Which.
        kernel: What it computes.
        plan: The kernel.
        compiled: What the compiler said; None where there is none.
        missing: What is not installed.
        count: How often a network has it; 0 of what is listed by itself.
    """

    gpu: Gpu
    kernel: str
    plan: KernelPlan
    compiled: Compiled | None
    missing: str = ""
    count: int = 0

    @property
    def account(self) -> Account | None:
        """What binds it, of a kernel of products whose listing is there."""
        if self.compiled is None or not self.compiled.loops:
            return None
        return account_of(self.gpu, self.plan, self.compiled.loops)

    @property
    def inner(self) -> float | None:
        """The part of the fullest pipe's cycles in the inner loop that products need."""
        return None if self.account is None else self.account.inner

    @property
    def round(self) -> float | None:
        """The same of all loops."""
        return None if self.account is None else self.account.whole

    @property
    def roofline(self) -> tuple[float, str] | None:
        """The least seconds that the datasheet allows, and what sets them.

        Arithmetic at the part of the peak that the account leaves, where there is one; or every
        operand once through memory.
        """
        if not self.gpu.peak or self.plan.code.doubles:
            return None
        part = 1.0 if self.account is None else self.account.bound
        arithmetic = self.plan.flops / (1e12 * self.gpu.peak * part)
        memory = self.plan.nbytes / (1e9 * self.gpu.bandwidth)
        return (arithmetic, "arithmetic") if arithmetic > memory else (memory, "memory")


def run_vendors(
    gpus: Sequence[Gpu] = GPUS,
    *,
    quick: bool = False,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> list[Row]:
    """Compiles all kernels for all GPUs whose compiler is installed.

    Args:
        gpus: Which.
        quick: Whether one kernel of each is enough.
        progress: Told what comes next, and which part of the whole it is.
    """
    rows = []
    for gpu in gpus:
        missing = available(gpu.target)
        wanted = list(kernels(gpu.traits))[: 1 if quick else None]
        for name, plan in wanted:
            progress(f"{gpu.target}: {name}", 1 / len(wanted) / len(gpus))
            if missing:
                rows.append(Row(gpu, name, plan, None, missing))
                continue
            rows.append(Row(gpu, name, plan, _compiled(gpu, plan)))
        if not missing and not quick and gpu.peak:
            for last in (True, False):
                for plan, count in layers(gpu.traits, last=last):
                    name = _LAYER[last]
                    rows.append(Row(gpu, name, plan, _compiled(gpu, plan), count=count))
    return rows


_LAYER = {True: "ResNet-50 NHWC", False: "ResNet-50 NCHW"}


def _compiled(gpu: Gpu, plan: KernelPlan) -> Compiled:
    source = render(plan.template, plan.code)
    return _compiled_source(gpu.target, source, plan.code.name, plan.code.doubles)


@lru_cache(maxsize=1024)
def _compiled_source(target: str, source: str, name: str, doubles: bool) -> Compiled:
    return compile_for(target, source, name, doubles=doubles)


def bounds(rows: Sequence[Row]) -> Table:
    """Returns what bounds 2048³ and ResNet-50's layers but the first, on each GPU.

    Args:
        rows: What `run_vendors` returned.
    """
    cells = []
    for gpu in dict.fromkeys(row.gpu for row in rows):
        own = [row for row in rows if row.gpu is gpu and row.account is not None]
        products = [r for r in own if r.kernel in {f"matmul {f} 2048³" for f in ("NN", "NT", "TN")}]
        line = [gpu.name, _least(products)]
        for name in _LAYER.values():
            some = [row for row in own if row.kernel == name]
            line += [_least(some), _together(some)]
        binds = {r.account.binds for r in own if r.account and (r.count or r in products)}
        if own:
            cells.append((*line, ", ".join(sorted(binds))))
    columns = ("GPU", "2048³", "NHWC, least", "NHWC, all", "NCHW, least", "NCHW, all", "what binds")
    return Table("2048³ and ResNet-50's layers but the first: bounds", columns, tuple(cells))


def exchanges(rows: Sequence[Row]) -> Table:
    """Returns what reductions take to pass partials through local memory, beside their memory.

    Sub-groups that pass values from lane to lane would save a part of that, and at most all.

    Args:
        rows: What `run_vendors` returned.
    """
    cells = []
    for row in rows:
        code = row.plan.code
        if not isinstance(code, ReductionCode) or code.lanes * code.rows == 1 or not row.gpu.peak:
            continue
        tree = _tree((row.compiled and row.compiled.loops) or ())
        if tree is None:
            continue
        lanes = (row.compiled and row.compiled.lanes) or row.gpu.traits.sub_group_size
        sub_groups = math.prod(row.plan.global_size) / lanes
        # A cycle is as many products as a unit has lanes, which at the peak are two operations.
        clock = 1e12 * row.gpu.peak / (2 * (8 if row.compiled and row.compiled.lanes else lanes))
        seconds = tree * sub_groups / clock
        memory = row.plan.nbytes / (1e9 * row.gpu.bandwidth)
        times = (f"{1e3 * value:.3f}" for value in (memory, seconds))
        cells.append((row.gpu.name, row.kernel, *times, _share(seconds / memory)))
    columns = ("GPU", "kernel", "memory, ms", "trees, ms", "of memory's time")
    return Table("Reductions: trees in local memory beside reading", columns, tuple(cells))


def _tree(found: Sequence[Loop]) -> float | None:
    """Cycles of a result beside the loops that read: an unrolled tree, and what becomes of it."""
    if not found:
        return None
    # Compilers leave out the barriers of one sub-group: the longest loop is then that of results.
    waiting = [loop for loop in found if loop.waits]
    whole = waiting[0] if waiting else max(found, key=lambda loop: loop.instructions)
    reads = [loop for loop in found if not loop.waits and loop is not whole]
    if not reads or reads[-1].instructions >= whole.instructions:
        return None
    most = reads[-1].pipes
    return max(cycles - most.get(pipe, 0.0) for pipe, cycles in whole.pipes.items())


def _least(rows: Sequence[Row]) -> str:
    return _share(min((row.account.bound for row in rows if row.account), default=None))


def _together(rows: Sequence[Row]) -> str:
    """The part of the peak of all layers one after another."""
    found = [(row.count * row.plan.flops, row.account.bound) for row in rows if row.account]
    time = sum(flops / bound for flops, bound in found)
    return _share(sum(flops for flops, _ in found) / time if time else None)


def tables(rows: Sequence[Row]) -> list[Table]:
    """Returns one summary of all GPUs, and for each of them a table of its kernels."""
    by_gpu = {
        gpu: [row for row in rows if row.gpu is gpu] for gpu in dict.fromkeys(r.gpu for r in rows)
    }
    found = [
        Table(
            "All kernels",
            ("GPU", "build", "spill", "inner loop, least", "loops, least", "of the peak, TFLOP/s"),
            tuple(_summary(gpu, some) for gpu, some in by_gpu.items()),
        ),
        *([bounds(rows)] if any(row.count for row in rows) else []),
        *([shuffled] if (shuffled := exchanges(rows)).rows else []),
    ]
    columns = tuple(
        "kernel,tile,builds,registers,spilled,local,occupancy,all,inner loop,loops,B a product,"
        "binds,bound,roofline".split(",")
    )
    for gpu, some in by_gpu.items():
        if some[0].compiled is None:
            continue
        cells = tuple((row.kernel, *_cells(row)) for row in some if not row.count)
        found.append(Table(f"{gpu.name}: {gpu.target}", columns, cells))
    return found


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _summary(gpu: Gpu, rows: Sequence[Row]) -> tuple[str, ...]:
    compiled = [row.compiled for row in rows if row.compiled is not None]
    if not compiled:
        return gpu.name, f"not installed: {rows[0].missing}", "", "", "", ""
    # Of Winograd's kernels transforms take a part, and of its products there are fewer.
    floats = [
        row
        for row in rows
        if row.plan.code.doubles is False and not isinstance(row.plan.code, WinogradLocalCode)
    ]
    least = min((row.account.bound for row in floats if row.account), default=None)
    inner = [row.inner for row in floats if row.inner is not None]
    rounds = [row.round for row in floats if row.round is not None]
    whole = min(rounds, default=None)
    return (
        gpu.name,
        f"{sum(c.builds for c in compiled)} of {len(compiled)}",
        "" if gpu.target == "spir64" else f"{sum(c.spilled > 0 for c in compiled)}",
        _share(min(inner, default=None)),
        _share(whole),
        "" if least is None else f"≤ {least * gpu.peak:.1f} of {gpu.peak:g}",
    )


def _cells(row: Row) -> tuple[str, ...]:
    code, c = row.plan.code, row.compiled
    tile = ""
    if isinstance(code, TilesCode) and row.plan.template == "product/tiles":
        lanes = (code.items_y * code.rows, code.items_x * code.columns)
        tile = f"{lanes[0]}×{lanes[1]}×{code.steps}, {code.rows}×{code.columns} each"
    if isinstance(code, WinogradLocalCode):
        cut = code.tile
        tile = f"{cut.tiles}×{cut.strip}×{cut.steps}, {cut.rows}×{cut.columns} each"
    if isinstance(code, SubGroupsCode):
        tile = f"{code.rows}×{code.columns} of {code.lanes} lanes"
    if c is None or not c.builds:
        return tile, "no", *[""] * 11
    roof, account = row.roofline, row.account
    return (
        tile,
        "yes",
        f"SIMD{c.lanes}" if c.lanes else _number(c.registers),
        "" if row.gpu.target == "spir64" else str(c.spilled),
        _number(c.local),
        _number(c.occupancy),
        "" if account is None else _share(account.slots),
        _share(row.inner),
        _share(row.round),
        "" if account is None else f"{account.bytes:.2f}",
        "" if account is None else account.binds,
        "" if account is None else _share(account.bound),
        "" if roof is None else f"{1e3 * roof[0]:.3f} ms, {roof[1]}",
    )


_NOTES = (
    "Nothing here was run: the numbers are the compilers'. Drivers bring other versions of them.",
    "registers: of a work-item; for Intel, how many work-items share an instruction.",
    "spilled: bytes that did not fit and went to memory.",
    "occupancy: sub-groups that a SIMD unit has room for, as AMD's compiler counts them.",
    "all: the part of all instructions of the inner loop that are multiply-adds, the least it can "
    "be if no two pipes work at once. inner loop: the part of the fullest pipe's cycles that "
    "multiply-adds need at the peak; loops: the same of all loops, with how often each runs. Pipes "
    "issue side by side: Gen9's sends and branches beside its numbers, DG2's whole numbers beside "
    "its floats too, AMD's scalars, local memory and branches beside vectors; NVIDIA's "
    "instructions all take an issue slot.",
    "B a product: bytes that a multiply-add takes of local memory, or of caches where a kernel "
    "uses none. On Intel and AMD lanes that read the same element count as often as they are.",
    "binds: what is scarcer, cycles of the named pipe or those bytes; assumed are 64 B a clock of "
    "a subslice for Gen9, 128 of a core or compute unit elsewhere. bound: the part of the peak "
    "that is left, less what tiles compute past the edges.",
    "gfx90a's peak is the packed one: two products an instruction.",
    "trees: the cycles of the fullest pipe for all that a result takes beside the loop that reads, "
    "beside the time in which the datasheet's bandwidth reads the operands. Other work-groups read "
    "meanwhile.",
    "roofline: the least time that the datasheet allows: arithmetic at that bound, or every "
    "operand once through memory, whichever takes longer.",
    "of the peak: the least bound of float32 times the datasheet's peak.",
)


def vendors_report(rows: Sequence[Row]) -> Report:
    """Returns the report of a run.

    Args:
        rows: What `run_vendors` returned.
    """
    failures = []
    for row in rows:
        where = f"{row.gpu.target}, {row.kernel}"
        if row.compiled is not None and not row.compiled.builds:
            first = (row.compiled.message.splitlines() or [""])[0]
            failures.append(f"{where}: does not build: {first}")
        elif row.compiled is not None and row.compiled.spilled:
            failures.append(f"{where}: spills {row.compiled.spilled}")
    return Report(
        command="vendors",
        title="GPUs that are not here: what their compilers say",
        tables=tuple(tables(rows)),
        notes=_NOTES,
        failures=tuple(failures),
    )
