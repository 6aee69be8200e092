"""Winograd's algorithm as a strategy of what convolutions become: windows of stride 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clprim.plan.conv.dense import CPU, dense_convolution
from clprim.plan.conv.lowering import forward
from clprim.plan.conv.winograd.kernels import plan_winograd
from clprim.plan.conv.winograd.tile import (
    WinogradTile,
    fits_winograd,
    near_winograd,
    pays_winograd,
    takes_winograd,
    winograd_error,
    winograd_tile,
)
from clprim.plan.product.problem import Contraction
from clprim.plan.strategy import Example, Strategy
from clprim.traits import DeviceTraits

__all__ = ["WINOGRAD"]


def _pays(problem: Contraction, traits: DeviceTraits) -> bool:
    return pays_winograd(problem, traits, winograd_tile(problem, traits))


def _error(tile: WinogradTile, problem: Contraction) -> float:
    *taps, channels = problem.depths
    return winograd_error(taps, channels, problem.value, tile.outputs)


def _examples() -> Iterator[Example[Contraction]]:
    """One kernel, two and three, channels and columns side by side, few channels."""
    asking = replace(CPU, prefetch=True)

    def example(
        name: str,
        traits: DeviceTraits,
        shape: tuple[int, ...],
        tile: dict[str, int],
        **options: Any,
    ) -> Example[Contraction]:
        problem = replace(forward(dense_convolution(*shape, **options)), error=1.0)
        return Example(name, problem, traits, replace(winograd_tile(problem, traits), **tile))

    image, relu = (2, 32, 14, 64), "y0 = max(y0 + x0, 0);"
    residual = {"last": True, "bias": True, "epilogue": relu}
    yield example("fused", asking, image, {"kernels": 1, "outputs": 4}, **residual)
    yield example("fused-planes", CPU, image, {"kernels": 1, "outputs": 2}, epilogue=relu)
    yield example("fused-few", CPU, (2, 3, 14, 24), {"kernels": 1}, last=True)
    yield example("staged", asking, image, {"kernels": 3}, **residual)
    yield example("in-place", asking, image, {"kernels": 2}, **residual)


#: Its errors are not those of sums of products: `Contraction.error` says which are allowed.
WINOGRAD: Strategy[Contraction] = Strategy(
    "winograd",
    WinogradTile,
    takes=takes_winograd,
    rule=winograd_tile,
    plan=plan_winograd,
    fits=fits_winograd,
    near=near_winograd,
    meant=_pays,
    examples=_examples,
    needs=(
        "windows of 2, 3, 5 or 7 elements, stride 1 and no dilation, of floats, on a CPU, and "
        "errors that cp.options(convolution_error=) admits"
    ),
    error=_error,
)
