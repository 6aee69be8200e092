"""One kernel of every family for a GPU of given traits: what `bench.vendors.listings` compiles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clprim.language.definition import define_pointwise, define_reduction
from clprim.language.grouped import define_grouped
from clprim.plan.conv.dense import dense_convolution, dense_depthwise
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.lowering import forward
from clprim.plan.conv.winograd.local_tile import local_tiles
from clprim.plan.conv.winograd.strategy import WINOGRAD_LOCAL
from clprim.plan.grouped.planner import plan_groups
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import KernelPlan
from clprim.plan.pointwise.planner import plan_pointwise
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import PRODUCTS
from clprim.plan.product.problem import Contraction
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.planner import plan_reduction
from clprim.plan.reduction.problem import Reduced
from clprim.plan.strides import Operand, broadcast_shapes, dense_strides
from clprim.traits import DeviceTraits
from clprim.tune.networks import NETWORKS

FLOAT = np.dtype(np.float32)
_LAST = (0, 2, 3, 1)


def kernels(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """Yields the kernels of every family as a GPU of these traits gets them, with their names."""
    yield from _contractions(traits)
    yield from _winograd(traits)
    yield from _depthwise(traits)
    yield from _pointwise(traits)
    yield from _reductions(traits)
    yield from _groups(traits)


def _contractions(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    relu = "y0 = max(y0 + x0, 0);"

    def conv(*shape: int, **options: Any) -> Contraction:
        return forward(dense_convolution(*shape, **options))

    problems: dict[str, Contraction] = {
        **{
            f"matmul {form} 2048³": dense_product(2048, 2048, 2048, form)
            for form in ("NN", "NT", "TN")
        },
        "matmul half 2048³": dense_product(2048, 2048, 2048, dtype=np.float16),
        "conv 3×3 128→128 56² NHWC": conv(64, 128, 56, 128, last=True),
        "conv 3×3 128→128 56² NCHW": conv(64, 128, 56, 128),
        "conv 3×3 + x0, ReLU NHWC": conv(64, 128, 56, 128, last=True, epilogue=relu),
        "conv 7×7 3→64 112² NCHW": conv(64, 3, 112, 64, 7),
        "conv 1×1 256→64 56² NCHW": conv(64, 256, 56, 64, 1),
        "conv 1×1 256→64 56² NHWC": conv(64, 256, 56, 64, 1, last=True),
    }
    if traits.fp64:
        problems["matmul double 1024³"] = dense_product(1024, 1024, 1024, dtype=np.float64)
    problems["matmul 64² × 8192, split"] = dense_product(64, 64, 8192)
    for name, problem in problems.items():
        plan = PRODUCTS.plan(problem, traits)
        packed: set[object] = set()
        for stage in plan.stages:
            if not stage.once:
                yield (name if stage is plan.main else f"{name}, sums of splits"), stage
            elif stage.code not in packed:
                packed.add(stage.code)
                yield f"{name}, packed", stage


def _winograd(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """By Winograd's algorithm, with the best tile of each size by the rule."""
    for last in (True, False):
        shape = dense_convolution(64, 128, 56, 128, last=last)
        problem = replace(forward(shape), error=5e-6)
        tiles = local_tiles(problem, traits)
        for outputs in (2, 4):
            tile = next((tile for tile in tiles if tile.outputs == outputs), None)
            if tile is None:
                continue
            name = f"conv 3×3 128→128 56² {'NHWC' if last else 'NCHW'}, F({outputs}×{outputs})"
            weight, main = WINOGRAD_LOCAL.planned(problem, traits, tile).stages
            yield name, main
            if last:
                yield f"{name}, weight", weight


def layers(traits: DeviceTraits, *, last: bool) -> Iterator[tuple[KernelPlan, int]]:
    """Yields the kernels of ResNet-50's layers but the first, batch 32, and how many are alike.

    Args:
        traits: Of the GPU.
        last: Whether images are channels-last.
    """
    for layer in NETWORKS["resnet50"].layers[1:]:
        problem = dense_convolution(
            32,
            layer.channels,
            layer.size,
            layer.filters,
            layer.kernel,
            stride=layer.stride,
            padding=layer.padding,
            last=last,
        )
        yield PRODUCTS.plan(forward(problem), traits).main, layer.count


def _depthwise(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """Layers of mobile networks: 3 × 3, 96 channels, 56²."""
    finish = None
    for last, direction in itertools.product((True, False), ("forward", "input", "weight")):
        by = "" if direction == "forward" else f" by {direction}"
        for stride in (1, 2) if direction == "forward" else (2,):
            problem = dense_depthwise(32, 96, 56, last=last, stride=stride, direction=direction)
            plan = CONVOLUTIONS.plan(problem, traits)
            yield f"depthwise{by or ' 3×3'} / {stride} {'NHWC' if last else 'NCHW'}", plan.main
            finish = plan.stages[-1] if len(plan.stages) > 1 else finish
    if finish is not None:
        yield "depthwise by weight, sums of splits", finish


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
        sums = Reduced(total, array.shape, axes, (out,), (array,), (), (FLOAT,), (Scaling(),))
        plan = plan_reduction(sums, traits)
        for n, stage in enumerate(plan.stages):
            yield name if n == 0 else f"{name}, merged", stage


def _groups(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """Softmax and layer normalisation of rows: passes that reduce, and one that maps."""
    x, rows = _array((4096, 1000)), (4096, 1000)
    strings = {
        "softmax of rows": {
            "expr": "y0 = x0; y1 = 1;",
            "init": "reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
            "step": "typeof_reduce_y0 most = max(reduce_y0, y0); "
            "reduce_y1 = reduce_y1 * exp(reduce_y0 - most) + exp(y0 - most); reduce_y0 = most;",
            "combine": "typeof_reduce_y0 most = max(reduce_y0, other_y0); "
            "reduce_y1 = reduce_y1 * exp(reduce_y0 - most) + other_y1 * exp(other_y0 - most); "
            "reduce_y0 = most;",
            "finalize": "group_y0 = reduce_y0; group_y1 = 1 / reduce_y1;",
            "each": "y0 = exp(x0 - group_y0) * group_y1;",
        },
        "normalised rows": {
            "expr": "y0 = x0; y1 = x0 * x0;",
            "init": "reduce_y0 = 0; reduce_y1 = 0;",
            "step": "reduce_y0 += y0; reduce_y1 += y1;",
            "combine": None,
            "finalize": "group_y0 = reduce_y0 / count; "
            "group_y1 = rsqrt(reduce_y1 / count - group_y0 * group_y0);",
            "each": "y0 = (x0 - group_y0) * group_y1;",
        },
    }
    for name, text in strings.items():
        definition = define_grouped(**text, name=None, preamble="")
        problem = Groups(definition, rows, (1,), FLOAT, (x,), (), (x,), (None, None))
        for stage in plan_groups(problem, traits).stages:
            yield f"{name}, {stage.code.name}", stage
