"""The strategies of contractions, in order of preference, and the classes of tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clprim.plan.conv.dense import CPU, GPU, dense_convolution, with_prologue
from clprim.plan.conv.lowering import contractions, forward
from clprim.plan.conv.pixels import Shuffle
from clprim.plan.product.dense import dense_product
from clprim.plan.product.dots import (
    DotsTile,
    dots_applicable,
    dots_tiles,
    fits_dots,
    plan_dots,
    suits_dots,
)
from clprim.plan.product.in_place import in_place_tile, plan_in_place
from clprim.plan.product.local_tile import LocalTile
from clprim.plan.product.matrix import matrix_applicable, plan_matrix, suits_matrix
from clprim.plan.product.matrix_tile import MatrixTile, fits_matrix, matrix_tiles
from clprim.plan.product.outline import best_outline, ordered_tiles
from clprim.plan.product.panels import panels_tiles, plan_panels
from clprim.plan.product.problem import Contraction
from clprim.plan.product.register_tile import MOST_TILES, Tile, ends
from clprim.plan.product.sub_groups import (
    SubGroupTile,
    fits_sub_groups,
    plan_sub_groups,
    sub_group_tile,
    sub_group_tiles,
    sub_groups_applicable,
    suits_sub_groups,
)
from clprim.plan.product.tiles import plan_tiles, tiles_for
from clprim.plan.strategy import CANDIDATES, Example, Family, Strategy, Weighed
from clprim.plan.table import near_size, power
from clprim.traits import DeviceTraits

# More lanes than these keep any device busy.
MANY = 1 << 16
# A GPU whose sub-groups share registers.
LANES = replace(
    GPU,
    sub_group_size=16,
    sub_groups=(8, 16),
    block_reads=True,
    short_block_reads=True,
    register_bytes=512,
)
# What examples do to results.
NEGATED, RESIDUAL = "y0 = -y0;", "y0 += x0;"


@dataclass(frozen=True)
class ContractionClass:
    """A class of contractions: those that one tile is best for."""

    stored: str  # dtypes of the gathered operand and of sums
    value: str
    columns: str  # What lies side by side in the result: ``outputs``, ``lanes`` or ``none``
    reads: str  # What lies side by side in the gathered operand: ``depth``, ``lanes`` or ``none``
    windows: bool  # Whether windows leave the plane
    stride: int  # Columns from a window to the next one, where they do; else 1
    groups: int  # Rounded up to a power of two
    lanes: int
    line: int  # Lanes of a line, and outputs of a group; exact up to 256
    outputs: int
    depth: int

    @classmethod
    def of(cls, problem: Contraction) -> ContractionClass:
        """Returns the class of a contraction."""
        x, y = problem.gathered, problem.near
        return cls(
            stored=x.dtype.name,
            value=problem.value.name,
            columns="outputs" if y.output == 1 else "lanes" if y.lane[2] == 1 else "none",
            reads="depth" if x.depth[2] == 1 else "lanes" if x.lane[2] == 1 else "none",
            windows=x.bounds is not None,
            stride=1 if x.bounds is None else x.bounds.column_lane[1],
            groups=power(problem.groups),
            lanes=min(MANY, power(math.prod(problem.lanes))),
            line=near_size(problem.lanes[2]),
            outputs=near_size(problem.outputs),
            depth=power(math.prod(problem.depths)),
        )


def _is_cpu(_: Contraction, traits: DeviceTraits) -> bool:
    return traits.is_cpu


def _panels_tile(problem: Contraction, traits: DeviceTraits) -> Weighed | None:
    if problem.prologue.snippet is not None:
        return None  # nobody applies it to what a panel gathers
    found = panels_tiles(problem.unshuffled, traits)[0]
    if traits.long_loops:
        return found
    plan = plan_panels(problem, traits, found.tile)
    return found if ends(plan, found.tile, problem.value.itemsize, traits) else None


def _fits_in_place(tile: Tile, problem: Contraction, traits: DeviceTraits) -> bool:
    every = (problem,) if problem.plain is None else (problem, problem.unshuffled)
    return tile.fits(problem.value.itemsize, 1, traits) and all(
        best_outline(each, traits, tile) is not None for each in every
    )


def _near_tiles(_: LocalTile, problem: Contraction, traits: DeviceTraits) -> Iterable[LocalTile]:
    few, wide = (tiles_for(problem, traits, wide=wide) for wide in (False, True))
    return few[:CANDIDATES] + wide[: CANDIDATES // 2]


def _examples_in_place() -> Iterator[Example[Contraction]]:
    """Bands of pixels and of planes, few channels or outputs, matrices, pixels made of outputs."""

    def image(*shape: int, **options: Any) -> Contraction:
        return forward(dense_convolution(*shape, **options))

    prefetching = replace(CPU, prefetch=True)
    yield Example("", image(2, 32, 14, 64, last=True, bias=True, epilogue=RESIDUAL), prefetching)
    yield Example("few", image(2, 3, 28, 12, last=True, bias=True), prefetching)
    yield Example("strided", image(2, 32, 14, 64, last=True, stride=2, beta=True), CPU)
    far = image(1, 2048, 7, 512, 1, last=True, bias=True)
    yield Example("far", far, replace(prefetching, compute_units=2), Tile(7, 2))
    yield Example("near", image(8, 64, 28, 64, 1, last=True, bias=True), prefetching)
    yield Example("planes", image(2, 32, 28, 64, bias=True, epilogue=NEGATED), CPU)
    yield Example("planes-taps", image(2, 3, 28, 64, 7, stride=2), CPU)
    yield Example("planes-alternate", image(2, 3, 60, 64, stride=2), CPU, Tile(16, 1))
    yield Example("planes-short", image(2, 3, 28, 16), replace(CPU, vector_bytes=32), Tile(4, 2))
    yield Example("transposed", image(2, 32, 28, 3, last=True, bias=True), CPU)
    yield Example("rows", dense_product(96, 128, 64), CPU, Tile(8, 2))
    yield Example("columns", image(2, 64, 28, 8, 1), CPU, Tile(8, 2))
    pixels = Shuffle(2, "CRD", 16, "ijc")
    yield Example("pixels", image(2, 32, 14, 64, last=True, shuffle=pixels), CPU)
    pixel = dense_convolution(2, 32, 14, 64, 1, last=True)
    norm = with_prologue(pixel, "y0 = y0 * x0 - x1;", 1, 0)
    yield Example("prologue", forward(norm), prefetching, Tile(6, 4))
    far_apart = with_prologue(pixel, "if (y0 < x1) y0 = x0;", 2, 0)
    yield Example("prologue-scalars", forward(far_apart), CPU, Tile(6, 4))
    past = image(8, 16, 112, 64, 1, last=True, epilogue=RESIDUAL)
    yield Example("streaming", past, prefetching, Tile(4, 4))


def _examples_panels() -> Iterator[Example[Contraction]]:
    """Rows and columns gathered along depth or lanes, splits, blocks of depth."""

    def image(*shape: int, **options: Any) -> Contraction:
        return contractions(dense_convolution(*shape, **options))[0]

    yield Example("", dense_product(96, 128, 64, beta=True), CPU, Tile(12, 2))
    half = dense_product(50, 70, 64, "NT", dtype=np.float16)
    yield Example("half", half, CPU, Tile(10, 2))
    yield Example("split", dense_product(64, 64, 20_000, "TN"), CPU)
    yield Example("windows", image(2, 32, 14, 64, bias=True, epilogue=RESIDUAL), CPU)
    yield Example("weight", image(8, 32, 14, 64, direction="weight"), CPU, Tile(12, 2))
    prefetching = replace(CPU, prefetch=True, local_memory=256 << 10)
    far = image(1, 512, 14, 512, last=True, stride=2)
    yield Example("far", far, prefetching, Tile(10, 2))
    pixels = Shuffle(2, "CRD", 16, "cij")
    yield Example("pixels", image(2, 32, 14, 64, shuffle=pixels, epilogue=NEGATED), CPU)


def _examples_tiles() -> Iterator[Example[Contraction]]:
    def image(*shape: int, **options: Any) -> Contraction:
        return forward(dense_convolution(*shape, **options))

    yield Example("windows", image(2, 32, 14, 64, last=True, bias=True, epilogue=RESIDUAL), GPU)
    yield Example("split", image(1, 32, 15, 16, 5, epilogue=NEGATED), GPU)
    whole = dense_product(512, 512, 64, dtype=np.float16, epilogue="y0 = tanh(y0);", beta=True)
    yield Example("matrix", whole, GPU, LocalTile(16, 16, 8, 8, 4, 8))
    bytes_ = dense_product(512, 512, 64, "NT", dtype=np.int8)
    yield Example("words", bytes_, replace(GPU, integer_dots=True))
    pixels = Shuffle(2, "CRD", 16, "ijc")
    yield Example("pixels", image(2, 32, 14, 64, last=True, shuffle=pixels), GPU)


def _examples_matrix() -> Iterator[Example[Contraction]]:
    """Every instruction set, operands along depth and lanes, tails, splits, parts, windows."""

    def units(*names: str, **traits: Any) -> DeviceTraits:
        return replace(GPU, matrix_units=names, **traits)

    half: dict[str, Any] = {"dtype": np.float16}
    mma, tf32 = "mma.sync/m16n8k16/float16/32", "mma.sync/m16n8k8/tf32/32"
    large = MatrixTile(2, 2, 2, 4, 2, 3)
    small = MatrixTile(1, 2, 1, 2, 1, 2)
    yield Example("", dense_product(512, 512, 256, epilogue=NEGATED, **half), units(mma), large)
    emulated = units(f"emulated/{mma}")
    yield Example("emulated", dense_product(70, 50, 60, "NT", **half), emulated, small)
    yield Example("split", dense_product(64, 64, 20_000, "TT", **half), emulated, small)
    clipped = {**half, "epilogue": "if (y0 < 0) y0 = 0;"}
    odd = dense_product(67, 33, 131, "TN", beta=True, **clipped)
    yield Example("odd", odd, emulated, small)
    float32 = dense_product(512, 512, 256, "NT")
    yield Example("parts", float32, units(tf32, matrix_parts=True), large)
    older = units("emulated/mma.sync/m16n8k8/float16/32")
    yield Example("older", dense_product(64, 64, 64, "NT", **half), older, small)
    sixteen = units("emulated/subgroup_matrix_multiply_accumulate/m8n16k16/float16/16")
    yield Example("sixteen", dense_product(64, 64, 64, "NT", **half), sixteen, small)
    swapped = dense_product(67, 33, 131, "NT")
    columns = replace(swapped, y=replace(swapped.y, output=67, lane=(0, 0, 1)))
    exact = units(f"emulated/{tf32}", matrix_parts=True)
    yield Example("columns", columns, exact, small)
    windows = forward(dense_convolution(2, 32, 14, 64, last=True, bias=True, **half))
    yield Example("windows", windows, units(mma), large)
    high = replace(dense_product(96, 70, 50), precision="high")
    yield Example("nearest", high, units(f"emulated/{tf32}"), small)
    bfloat16 = "subgroup_matrix_multiply_accumulate/m8n8k16/bfloat16/8"
    roomy = units(f"emulated/{bfloat16}", register_bytes=2048)
    yield Example("parts-16", high, roomy, small)
    medium = replace(high, precision="medium")
    yield Example("nearest-16", medium, units(bfloat16), small)
    words = dense_product(96, 80, 64, "NT", dtype=np.int8)
    yield Example("bytes", words, units("emulated/mma.sync/m16n8k32/int8/32"), small)
    yield Example(
        "wmma", dense_product(64, 64, 64, **half), units("wmma_gfx11/m16n16k16/float16/32")
    )
    yield Example("mfma", dense_product(64, 64, 64), units("mfma/m32n32k2/float32/64"))
    planes = dense_convolution(2, 16, 14, 24, 2, stride=2, padding=1, **half)
    yield Example("planes", forward(planes), emulated, small)
    wide = dense_convolution(2, 16, 9, 24, direction="weight", last=True, **half)
    yield Example("weight", contractions(wide)[0], emulated, small)
    floats = replace(forward(dense_convolution(1, 16, 9, 24)), precision="high")
    yield Example("windows-parts", floats, units(f"emulated/{tf32}"), small)


def _examples_sub_groups() -> Iterator[Example[Contraction]]:
    """Rows and columns gathered along depth or lanes, in place and packed, taps and tails."""

    def image(*shape: int, **options: Any) -> Contraction:
        return forward(dense_convolution(*shape, **options))

    yield Example("", image(2, 32, 14, 64, last=True, bias=True, epilogue=RESIDUAL), LANES)
    yield Example("planes", image(2, 32, 28, 64, stride=2, epilogue=NEGATED), LANES)
    yield Example("few-channels", image(2, 3, 28, 64, 7, stride=2, last=True), LANES)
    yield Example("planes-few-channels", image(2, 3, 28, 64, 7, stride=2), LANES)
    yield Example("matrix", dense_product(512, 512, 64, beta=True), LANES)
    yield Example("ragged", dense_product(96, 70, 50, "NT", dtype=np.float16), LANES)
    yield Example("columns", dense_product(64, 64, 64, "TN"), replace(LANES, block_reads=False))
    yield Example("split", dense_product(30, 40, 20_000, "TT"), LANES)
    pixels = Shuffle(2, "CRD", 16, "ijc")
    yield Example("pixels", image(2, 32, 14, 64, last=True, shuffle=pixels), LANES)


def _examples_dots() -> Iterator[Example[Contraction]]:
    """Lanes side by side in the result, and not; a bias; halves."""
    swapped = dense_product(512, 6, 100, "NT", beta=True)
    y = replace(swapped.y, output=512, lane=(0, 0, 1))
    yield Example("", replace(swapped, y=y), CPU, DotsTile(8, 2))
    half = dense_product(50, 3, 64, "NT", dtype=np.float16, epilogue=NEGATED)
    yield Example("half", half, CPU, DotsTile(4, 4))


#: Each but `dots`, `in_place` and `sub_groups` does every contraction, on any device.
PRODUCTS: Family[Contraction] = Family(
    "product",
    ContractionClass,
    (
        Strategy(
            "matrix",
            MatrixTile,
            applicable=matrix_applicable,
            rule=lambda p, traits: matrix_tiles(p, traits)[0],
            plan=plan_matrix,
            fits=fits_matrix,
            near=lambda _, p, traits: [t for _, t, _ in matrix_tiles(p, traits)[:CANDIDATES]],
            preferred=suits_matrix,
            examples=_examples_matrix,
            needs="matrix units of the operands' dtype, and nothing done to what is read",
        ),
        Strategy(
            "dots",
            DotsTile,
            applicable=dots_applicable,
            rule=lambda p, traits: dots_tiles(p, traits)[0],
            plan=plan_dots,
            fits=fits_dots,
            near=lambda _, p, traits: [t for _, t, _ in dots_tiles(p, traits)[:CANDIDATES]],
            preferred=suits_dots,
            examples=_examples_dots,
            needs="operands that are matrices, with steps of k side by side",
        ),
        Strategy(
            "in_place",
            Tile,
            rule=in_place_tile,
            plan=plan_in_place,
            fits=_fits_in_place,
            near=lambda _, p, traits: ordered_tiles(p, traits, CANDIDATES),
            preferred=_is_cpu,
            examples=_examples_in_place,
        ),
        Strategy(
            "panels",
            Tile,
            rule=_panels_tile,
            plan=plan_panels,
            fits=lambda tile, p, traits: tile.fits(p.value.itemsize, MOST_TILES, traits),
            near=lambda _, p, traits: [t for _, t, _ in panels_tiles(p, traits)[:CANDIDATES]],
            preferred=_is_cpu,
            examples=_examples_panels,
            needs="a device that does not stop the loops of a work-item after 65,535 steps",
        ),
        Strategy(
            "sub_groups",
            SubGroupTile,
            applicable=sub_groups_applicable,
            rule=sub_group_tile,
            plan=plan_sub_groups,
            fits=fits_sub_groups,
            near=lambda _, problem, traits: sub_group_tiles(problem, traits),
            preferred=suits_sub_groups,
            examples=_examples_sub_groups,
            needs="float32 sums and sub-groups that pass values between lanes",
        ),
        Strategy(
            "tiles",
            LocalTile,
            rule=lambda p, traits: tiles_for(p, traits)[0],
            plan=plan_tiles,
            fits=lambda tile, p, traits: tile.fits(p.value.itemsize, traits),
            near=_near_tiles,
            preferred=lambda _, traits: not traits.is_cpu,
            examples=_examples_tiles,
        ),
    ),
)
