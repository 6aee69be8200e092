"""Compiles every family of kernels for GPUs that are not here, and tabulates what compilers say.

A kernel of products is judged by its loops: which part of the instructions of the inner one are
multiply-adds, and of a whole round, in which a work-group reads, stores and multiplies one tile.
That part of the datasheet's peak is the most it can reach, if nothing waits for memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.page.report import Report, Table
from bench.vendors.gpus import GPUS, Gpu
from bench.vendors.kernels import kernels
from bench.vendors.machine_code import product_loops
from bench.vendors.offline import Compiled, available, compile_for
from clprim.plan.kernel import KernelPlan
from clprim.plan.product.tiles import TilesCode
from clprim.render import render

__all__ = ["Row", "run_vendors", "tables", "vendors_report"]


@dataclass(frozen=True)
class Row:
    """One kernel on one GPU.

    Attributes:
        gpu: Which.
        kernel: What it computes.
        plan: The kernel.
        compiled: What the compiler said; None where there is none.
        missing: What is not installed.
    """

    gpu: Gpu
    kernel: str
    plan: KernelPlan
    compiled: Compiled | None
    missing: str = ""

    @property
    def inner(self) -> float | None:
        """The part of the inner loop that is products."""
        found = self._loops()
        return None if found is None else found[0]

    @property
    def round(self) -> float | None:
        """The part of a whole round that is products."""
        found = self._loops()
        return None if found is None else found[1]

    @property
    def roofline(self) -> tuple[float, str] | None:
        """The least seconds that the datasheet allows, and what sets them.

        Arithmetic at the peak, times the part of a round that is products where that is known; or
        every operand once through memory.
        """
        if not self.gpu.peak or self.plan.code.doubles:
            return None
        arithmetic = self.plan.flops / (1e12 * self.gpu.peak * (self.round or 1))
        memory = self.plan.nbytes / (1e9 * self.gpu.bandwidth)
        return (arithmetic, "arithmetic") if arithmetic > memory else (memory, "memory")

    def _loops(self) -> tuple[float, float | None] | None:
        code = self.plan.code
        if self.compiled is None or not self.compiled.loops or not isinstance(code, TilesCode):
            return None
        found = product_loops(self.compiled.loops)
        if found is None:
            return None
        inner, outer = found
        # The inner loop runs so often in a round; whatever is not unrolled into one.
        trips = code.steps * code.rows * code.columns / inner.flops
        if trips <= 1:
            return inner.share, inner.share
        if inner == outer:
            return inner.share, None  # branches that say nothing of where they go
        instructions = trips * inner.instructions + outer.instructions - inner.instructions
        return inner.share, trips * inner.products / instructions


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
            source = render(plan.template, plan.code)
            found = compile_for(gpu.target, source, plan.code.name, doubles=plan.code.doubles)
            rows.append(Row(gpu, name, plan, found))
    return rows


def tables(rows: Sequence[Row]) -> list[Table]:
    """Returns one summary of all GPUs, and for each of them a table of its kernels."""
    by_gpu = {
        gpu: [row for row in rows if row.gpu is gpu] for gpu in dict.fromkeys(r.gpu for r in rows)
    }
    found = [
        Table(
            "All kernels",
            ("GPU", "build", "spill", "inner loop, least", "round, least", "of the peak, TFLOP/s"),
            tuple(_summary(gpu, some) for gpu, some in by_gpu.items()),
        )
    ]
    columns = tuple(
        "kernel,tile,builds,registers,spilled,local,occupancy,inner loop,round,roofline".split(",")
    )
    for gpu, some in by_gpu.items():
        if some[0].compiled is None:
            continue
        cells = tuple((row.kernel, *_cells(row)) for row in some)
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
    floats = [row for row in rows if row.plan.code.doubles is False]
    inner = [row.inner for row in floats if row.inner is not None]
    rounds = [row.round for row in floats if row.round is not None]
    whole = min(rounds, default=None)
    return (
        gpu.name,
        f"{sum(c.builds for c in compiled)} of {len(compiled)}",
        "" if gpu.target == "spir64" else f"{sum(c.spilled > 0 for c in compiled)}",
        _share(min(inner, default=None)),
        _share(whole),
        "" if whole is None else f"≤ {whole * gpu.peak:.1f} of {gpu.peak:g}",
    )


def _cells(row: Row) -> tuple[str, ...]:
    code, c = row.plan.code, row.compiled
    tile = ""
    if isinstance(code, TilesCode) and row.plan.template == "product/tiles":
        lanes = (code.items_y * code.rows, code.items_x * code.columns)
        tile = f"{lanes[0]}×{lanes[1]}×{code.steps}, {code.rows}×{code.columns} each"
    if c is None or not c.builds:
        return tile, "no", *[""] * 7
    roof = row.roofline
    return (
        tile,
        "yes",
        f"SIMD{c.lanes}" if c.lanes else _number(c.registers),
        "" if row.gpu.target == "spir64" else str(c.spilled),
        _number(c.local),
        _number(c.occupancy),
        _share(row.inner),
        _share(row.round),
        "" if roof is None else f"{1e3 * roof[0]:.3f} ms, {roof[1]}",
    )


_NOTES = (
    "Nothing here was run: the numbers are the compilers'. Drivers bring other versions of them.",
    "registers: of a work-item; for Intel, how many work-items share an instruction.",
    "spilled: bytes (AMD, NVIDIA) or registers (Intel) that did not fit and went to memory.",
    "occupancy: sub-groups that a SIMD unit has room for, as AMD's compiler counts them.",
    "inner loop: the part of its instructions that are multiply-adds; round: the same of all that "
    "a work-item does to read, store and multiply one tile. gfx90a computes two at a time, so that "
    "fewer instructions are left to be products.",
    "roofline: the least time that the datasheet allows: arithmetic at the peak times that part, "
    "or every operand once through memory, whichever takes longer.",
    "of the peak: the least round of float32 times the datasheet's lanes × 2 × clock, which is the "
    "most that kernel can reach if nothing waits.",
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
