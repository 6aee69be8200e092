"""Winograd's algorithm as a strategy of what convolutions become."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clprim.plan.conv.dense import CPU, GPU, dense_convolution
from clprim.plan.conv.lowering import forward
from clprim.plan.conv.pixels import Shuffle
from clprim.plan.conv.winograd.kernels import plan_winograd
from clprim.plan.conv.winograd.local import plan_local
from clprim.plan.conv.winograd.local_tile import (
    WinogradLocalTile,
    fits_local,
    local_tile,
    local_tiles,
    pays_local,
    suits_local,
)
from clprim.plan.conv.winograd.tile import (
    WinogradTile,
    fits_winograd,
    near_winograd,
    tiling_of,
    winograd_tile,
)
from clprim.plan.product.problem import Contraction
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

NEEDS = (
    "windows of 2, 3, 5 or 7 elements, of a stride in its longest phase, no dilation, of floats, "
    "errors that cp.options(convolution_error=) admits, for strides a CPU, and for gradients in "
    "the weight a CPU and stride 1"
)
# What an example does to its results.
RESIDUAL = "y0 += x0;"


def _error(tile: WinogradTile | WinogradLocalTile, problem: Contraction) -> float:
    tiling = tiling_of(problem, tile.outputs)
    return tiling.error(tiling.chain if isinstance(tile, WinogradTile) else problem.depths[2])


def _examples() -> Iterator[Example[Contraction]]:
    """One kernel, two and three, channels and columns side by side, few channels, a stride."""
    prefetching = replace(CPU, prefetch=True)

    def example(
        name: str,
        traits: DeviceTraits,
        shape: tuple[int, ...],
        tile: dict[str, int],
        **options: Any,
    ) -> Example[Contraction]:
        problem = _admitting(*shape, **options)
        found = winograd_tile(problem, traits)
        assert found is not None
        return Example(name, problem, traits, replace(found.tile, **tile))

    image, residual = (2, 32, 14, 64), {"last": True, "bias": True, "epilogue": RESIDUAL}
    yield example("fused", prefetching, image, {"kernels": 1, "outputs": 4}, **residual)
    yield example("fused-planes", CPU, image, {"kernels": 1, "outputs": 2}, epilogue=RESIDUAL)
    yield example("fused-few", CPU, (2, 3, 14, 24), {"kernels": 1}, last=True)
    yield example("staged", prefetching, image, {"kernels": 3, "outputs": 2}, **residual)
    yield example("in-place", prefetching, image, {"kernels": 2, "outputs": 2}, **residual)
    yield example("stride", prefetching, image, {"kernels": 1, "outputs": 2}, stride=2, **residual)


def _admitting(*shape: int, **options: Any) -> Contraction:
    """A convolution that may have any error."""
    return replace(forward(dense_convolution(*shape, **options)), error=1.0)


def _local_examples() -> Iterator[Example[Contraction]]:
    """Channels and columns side by side, and a group of which a part transforms."""
    image = (2, 30, 14, 70)
    problem = _admitting(*image, last=True, bias=True, epilogue=RESIDUAL)
    small = replace(GPU, max_work_group_size=64, local_memory=4096)
    yield Example("", problem, GPU, WinogradLocalTile(2, 32, 32, 8, 8, 8))
    yield Example("planes", _admitting(*image, beta=True), GPU)
    pixels = Shuffle(2, "CRD", 16, "ijc")
    yield Example("pixels", _admitting(2, 32, 14, 64, last=True, shuffle=pixels), small)


#: Its errors are not those of sums of products: `Contraction.error` says which are allowed.
WINOGRAD: Strategy[Contraction] = Strategy(
    "winograd",
    WinogradTile,
    rule=winograd_tile,
    plan=plan_winograd,
    fits=fits_winograd,
    near=near_winograd,
    examples=_examples,
    needs=NEEDS,
    error=_error,
)
#: Likewise for GPUs.
WINOGRAD_LOCAL: Strategy[Contraction] = Strategy(
    "winograd/local",
    WinogradLocalTile,
    applicable=lambda _, traits: not traits.is_cpu,
    rule=local_tile,
    plan=plan_local,
    fits=fits_local,
    near=lambda tile, p, traits: (other for other in local_tiles(p, traits) if other != tile),
    preferred=suits_local,
    pays=pays_local,
    examples=_local_examples,
    needs=NEEDS,
    error=_error,
)
