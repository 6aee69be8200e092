"""One kernel of every family for a GPU of given traits: what `bench.vendors.listings` compiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from clprim.language.definition import define_pointwise, define_reduction
from clprim.language.epilogue import define_epilogue
from clprim.plan.depthwise.problem import Depthwise, Line, Place, Taps
from clprim.plan.depthwise.tile import TILES
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.kernel import KernelPlan
from clprim.plan.pointwise.planner import plan_pointwise
from clprim.plan.product.problem import Bounds, Contraction, Gathered, Output, Packed
from clprim.plan.product.strategy import plan_choice, plan_contraction
from clprim.plan.product.tiles import plan_tiles
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.planner import plan_reduction
from clprim.plan.strides import Operand, broadcast_shapes, dense_strides
from clprim.plan.table import TuningFile
from clprim.traits import DeviceTraits

__all__ = ["kernels", "tuned_kernels"]

FLOAT = np.dtype(np.float32)
_LAST = (0, 2, 3, 1)


def kernels(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """Yields the kernels of every family as a GPU of these traits gets them, with their names."""
    yield from _contractions(traits)
    yield from _depthwise(traits)
    yield from _pointwise(traits)
    yield from _reductions(traits)


def tuned_kernels(file: TuningFile, traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """Yields a convolution in every tile of a table; one with windows needs most registers.

    Tiles of depthwise convolutions come with all the problems they are for.

    Args:
        file: The table.
        traits: Of the GPU.
    """
    what = _conv(64, 128, 56, 128, 3, last=True)
    depthwise = [*_depthwise_problems().values()]
    for choice in dict.fromkeys(choice for choice, _ in file.entries.values()):
        problems = depthwise if choice.kernel in TILES else [what]
        plans = (plan_choice(problem, traits, choice) for problem in problems)
        plan = next((plan for plan in plans if plan is not None), None)
        if plan is not None:
            yield str(choice), plan.main


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
    for finish in split.stages[1:]:
        yield "matmul 64² × 8192, sums of splits", finish


def _depthwise(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    finish = None
    for name, what in _depthwise_problems().items():
        plan = plan_contraction(what, traits)
        yield name, plan.main
        if len(plan.stages) > 1:
            finish = plan.stages[1]
    if finish is not None:
        yield "depthwise by weight, sums of splits", finish


def _depthwise_problems() -> dict[str, Depthwise | DepthwiseGradient]:
    """Layers of mobile networks: 3 × 3, 96 channels, 56²."""
    problems: dict[str, Depthwise | DepthwiseGradient] = {}
    channels, size = 96, 56
    for last in (True, False):
        known = "NHWC" if last else "NCHW"
        for stride in (1, 2):
            edge = size // stride
            line = Line(size, edge, 3, stride, 1, 1)
            x, y = (_images(name, channels, n, last) for name, n in (("x", size), ("y0", edge)))
            forward = Depthwise(
                name="conv2d",
                images=32,
                channels=channels,
                multiplier=1,
                adjoint=False,
                rows=line,
                columns=line,
                value=FLOAT,
                x=x,
                w=Taps(FLOAT, 0, 9, 3, 1),
                y=y,
            )
            problems[f"depthwise 3×3 / {stride} {known}"] = forward
        back = replace(line, inputs=line.outputs, outputs=line.inputs)
        problems[f"depthwise by input / 2 {known}"] = replace(
            forward,
            name="conv2d_input",
            adjoint=True,
            rows=back,
            columns=back,
            x=replace(y, name="x"),
            y=replace(x, name="y0"),
        )
        problems[f"depthwise by weight / 2 {known}"] = DepthwiseGradient(
            name="conv2d_weight",
            images=32,
            channels=channels,
            multiplier=1,
            rows=line,
            columns=line,
            value=FLOAT,
            x=x,
            grad=replace(y, name="grad"),
            y=Taps(FLOAT, 0, 9, 3, 1),
        )
    return problems


def _images(name: str, channels: int, size: int, last: bool) -> Place:
    edge = size * size * channels
    if last:
        return Place(name, FLOAT, 0, edge, 1, size * channels, channels)
    return Place(name, FLOAT, 0, edge, size * size, size, 1)


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
