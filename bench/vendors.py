"""Compiles every family of kernels for GPUs that are not here, and tabulates what compilers say.

A kernel of products is judged by its loops: which part of the instructions of the inner one are
multiply-adds, and of a whole round, in which a work-group reads, stores and multiplies one tile.
That part of the datasheet's peak is the most it can reach, if nothing waits for memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.gpus import GPUS, Gpu
from bench.machine_code import product_loops
from bench.offline import Compiled, available, compile_for
from bench.report import Report, Table
from clprim.language.definition import define_pointwise, define_reduction
from clprim.language.epilogue import define_epilogue
from clprim.plan.contraction import Bounds, Contraction, Gathered, Output, Packed
from clprim.plan.kernel import KernelPlan
from clprim.plan.layout import Operand, broadcast_shapes, dense_strides
from clprim.plan.pointwise import plan_pointwise
from clprim.plan.reduction import plan_reduction
from clprim.plan.reduction_code import Scaling
from clprim.plan.tiles import TilesCode, plan_tiles
from clprim.render import render
from clprim.traits import DeviceTraits

__all__ = ["Row", "kernels", "run_vendors", "tables", "vendors_report"]

FLOAT = np.dtype(np.float32)
_LAST = (0, 2, 3, 1)


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


def kernels(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """Yields the kernels of every family as a GPU of these traits gets them, with their names."""
    yield from _contractions(traits)
    yield from _pointwise(traits)
    yield from _reductions(traits)


def _product(m: int, n: int, k: int, form: str, dtype: type = np.float32) -> Contraction:
    stored = np.dtype(dtype)
    a_m, a_k = (k, 1) if form[0] == "N" else (1, m)
    b_k, b_n = (n, 1) if form[1] == "N" else (1, k)
    return Contraction(
        name="matmul",
        groups=1,
        lanes=(1, 1, m),
        depths=(1, 1, k),
        outputs=n,
        value=FLOAT if stored.itemsize < 4 else stored,
        gathered=Gathered(stored, 0, 0, (0, 0, a_m), (0, 0, a_k), m * k),
        packed=Packed(stored, 0, 0, b_n, (0, 0, b_k)),
        y=Output("y0", stored, 0, 0, 1, (0, 0, n)),
    )


def _conv(
    n: int, c: int, size: int, outputs: int, kernel: int, *, last: bool, epilogue: str = ""
) -> Contraction:
    """A convolution that keeps the size of its images, ``last`` for channels-last."""
    pad = kernel // 2

    def strides(depth: int) -> tuple[int, int, int, int]:
        if last:
            return size * size * depth, 1, size * depth, depth
        return depth * size * size, size * size, size, 1

    (xn, xc, xh, xw), (yn, yc, yh, yw) = strides(c), strides(outputs)
    places = [
        Output(o, FLOAT, 0, 0, yc, (yn, yh, yw)) for o in (["y0", "x0"] if epilogue else ["y0"])
    ]
    plane = Bounds(size, size, -pad, -pad, (0, 1), (1, 0), (0, 1), (1, 0))
    return Contraction(
        name="conv2d",
        groups=1,
        lanes=(n, size, size),
        depths=(kernel, kernel, c),
        outputs=outputs,
        value=FLOAT,
        gathered=Gathered(
            FLOAT, -pad * (xh + xw), 0, (xn, xh, xw), (xh, xw, xc), n * c * size * size, plane
        ),
        packed=Packed(FLOAT, 0, 0, c * kernel * kernel, (kernel, 1, kernel * kernel)),
        y=places[0],
        extras=tuple(places[1:]),
        epilogue=define_epilogue("conv2d", epilogue) if epilogue else None,
    )


def _contractions(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    relu = "y0 = max(y0 + x0, 0);"
    problems: dict[str, Contraction] = {
        **{f"matmul {form} 2048³": _product(2048, 2048, 2048, form) for form in ("NN", "NT", "TN")},
        "matmul half 2048³": _product(2048, 2048, 2048, "NN", np.float16),
        "conv 3×3 128→128 56² NHWC": _conv(64, 128, 56, 128, 3, last=True),
        "conv 3×3 128→128 56² NCHW": _conv(64, 128, 56, 128, 3, last=False),
        "conv 3×3 + x0, ReLU NHWC": _conv(64, 128, 56, 128, 3, last=True, epilogue=relu),
        "conv 7×7 3→64 112² NCHW": _conv(64, 3, 112, 64, 7, last=False),
        "conv 1×1 256→64 56² NCHW": _conv(64, 256, 56, 64, 1, last=False),
    }
    if traits.fp64:
        problems["matmul double 1024³"] = _product(1024, 1024, 1024, "NN", np.float64)
    for name, what in problems.items():
        plan = plan_tiles(what, traits)
        yield name, plan.main
    split = plan_tiles(_product(64, 64, 8192, "NN"), traits)
    yield "matmul 64² × 8192, split", split.main
    if split.finish is not None:
        yield "matmul 64² × 8192, sums of splits", split.finish


def _array(shape: Sequence[int], order: Sequence[int] | None = None) -> Operand:
    strides = dense_strides(tuple(shape), 4, order or range(len(shape)))
    return Operand(tuple(shape), strides, 0, FLOAT)


def _pointwise(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    image, last = _array((32, 64, 56, 56)), _array((32, 64, 56, 56), _LAST)
    channel = _array((64, 1, 1))
    for name, text, inputs, out in (
        ("x0 + x1", "y0 = x0 + x1;", (image, image), image),
        ("x0 · channel NCHW", "y0 = x0 * x1;", (image, channel), image),
        ("x0 · channel NHWC", "y0 = x0 * x1;", (last, channel), last),
        ("NCHW to NHWC", "y0 = x0;", (image,), last),
    ):
        definition = define_pointwise(text, name=None, preamble="")
        shape = broadcast_shapes("vendors", [a.shape for a in inputs])
        yield name, plan_pointwise(definition, shape, [out], list(inputs), [], traits)


def _reductions(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    image, last = _array((32, 64, 56, 56)), _array((32, 64, 56, 56), _LAST)
    total = define_reduction(
        "y0 = x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        combine=None,
        finalize=None,
        name=None,
        preamble="",
    )
    for name, array, axes in (
        ("sum of all", image, (0, 1, 2, 3)),
        ("sums of channels NCHW", image, (0, 2, 3)),
        ("sums of channels NHWC", last, (0, 2, 3)),
        ("sums of rows", image, (3,)),
    ):
        kept = tuple(1 if d in axes else size for d, size in enumerate(array.shape))
        out = Operand(kept, dense_strides(kept, 4, range(4)), 0, FLOAT)
        plan = plan_reduction(
            total, array.shape, axes, [out], [array], [], [FLOAT], [Scaling()], traits
        )
        for n, stage in enumerate(plan.stages):
            yield name if n == 0 else f"{name}, merged", stage


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
        "kernel,tile,builds,registers,spilled,local,occupancy,inner loop,round".split(",")
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
    if isinstance(code, TilesCode) and row.plan.template == "contraction_tiles":
        lanes = (code.items_y * code.rows, code.items_x * code.columns)
        tile = f"{lanes[0]}×{lanes[1]}×{code.steps}, {code.rows}×{code.columns} each"
    if c is None or not c.builds:
        return tile, "no", *[""] * 6
    return (
        tile,
        "yes",
        f"SIMD{c.lanes}" if c.lanes else _number(c.registers),
        "" if row.gpu.target == "spir64" else str(c.spilled),
        _number(c.local),
        _number(c.occupancy),
        _share(row.inner),
        _share(row.round),
    )


_NOTES = (
    "Nothing here was run: the numbers are the compilers'. Drivers bring other versions of them.",
    "registers: of a work-item; for Intel, how many work-items share an instruction.",
    "spilled: bytes (AMD, NVIDIA) or registers (Intel) that did not fit and went to memory.",
    "occupancy: sub-groups that a SIMD unit has room for, as AMD's compiler counts them.",
    "inner loop: the part of its instructions that are multiply-adds; round: the same of all that "
    "a work-item does to read, store and multiply one tile. gfx90a computes two at a time, so that "
    "fewer instructions are left to be products.",
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
        panels=(),
        notes=_NOTES,
        failures=tuple(failures),
    )
