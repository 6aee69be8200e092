"""What the templates of Winograd's convolutions print."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.dtypes import AnyDType
from clprim.plan.conv.winograd.tile import Tiling, WinogradTile
from clprim.plan.conv.winograd.transform import Linear, Matrix, Sum, Transform
from clprim.plan.kernel import KernelCode, OperandCode
from clprim.plan.machine import near
from clprim.plan.permutation import transpose
from clprim.plan.pointwise.code import Shuffles
from clprim.plan.product.problem import Contraction
from clprim.plan.product.register_code import ContractionCode, contraction_code, streaming_stores
from clprim.plan.product.register_tile import lanes_of
from clprim.plan.product.shape import Shape
from clprim.traits import DeviceTraits

Statements = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class WalkCode:
    """How an axis of an image is cut into tiles, and transformed."""

    step: int  # From one tile to the next
    reads: int
    size: int
    statements: Statements  # From d0, d1, … to v0, v1, …


@dataclass(frozen=True)
class AxisCode:
    """The transforms along one axis, as statements: (name, expression)."""

    m: int  # Outputs of a tile, and taps
    r: int
    walk: WalkCode  # How an image is cut into tiles of inputs
    output: Statements  # From p0, p1, … to r0, r1, …
    weight: Statements  # From g0, g1, … to u0, u1, …
    shares: tuple[int, ...]  # Which of these an element of a tile is multiplied by

    @property
    def size(self) -> int:
        """Elements of a transformed tile."""
        return self.walk.size

    @property
    def weights(self) -> int:
        """Elements of a transformed weight."""
        return self.shares[-1] + 1


#: A window of one pixel.
NO_AXIS = AxisCode(1, 1, WalkCode(1, 1, 1, ()), (), (), (0,))


@dataclass(frozen=True)
class WeightCode(KernelCode):
    """What conv/winograd/weight.cl.jinja prints."""

    value: str  # Type of the transformed weight
    width: int
    tile_vectors: int  # Vectors of outputs of a strip
    down: AxisCode  # The transforms of both axes
    across: AxisCode
    w: OperandCode
    digits: bool  # Whether outputs are numbers of three digits
    # What lies side by side in the weight, so that vectors are read: ``outputs``, ``channels``, all
    # ``taps`` of an output, or ``none`` of them
    reads: str
    backwards: bool  # Whether taps lie side by side in reverse
    shuffles: Shuffles | None  # How a square of vectors is transposed in registers
    ahead: int  # Channels before which weights are prefetched; 0: not

    @property
    def run(self) -> int:
        """Channels that are read at a time."""
        return self.width if self.reads == "channels" else 1


@dataclass(frozen=True)
class WinogradCode(ContractionCode):
    """What conv/winograd/*.cl.jinja print; its `ContractionCode` is of the store."""

    down: AxisCode = NO_AXIS  # The transforms of both axes
    across: AxisCode = NO_AXIS
    tile_rows: int = 1  # Tiles × vectors of outputs that are summed up in registers
    tile_vectors: int = 1
    planar_x: bool = False  # Whether the input's pixels of a row are neighbours, not its channels
    few: bool = False  # Whether channels do not fill a vector
    chain: int = 0  # Channels whose products are added up before they are added to what is there
    # Whether transformed tiles lie as products take them, ``tile_rows`` of a block of channels
    # together
    grouped: bool = True
    # How weights are transformed where a kernel does so as it needs them
    weight: WeightCode | None = None
    # The weight as it is, for results that transforms do not hold
    direct: OperandCode | None = None
    # Lines of the next weights that are prefetched with every block of channels
    lines_ahead: int = 0
    # Lines of the next block's pixels that are, instead of where pixels are read
    pixels_ahead: int = 0

    @property
    def walk_down(self) -> WalkCode:
        """Down the columns of the input."""
        return self.down.walk

    @property
    def walk_across(self) -> WalkCode:
        """Along its rows."""
        return self.across.walk

    @property
    def takes(self) -> tuple[int, ...]:
        """Which transformed weight an element of a tile is multiplied by."""
        rows, columns = self.down.shares, self.across.shares
        return tuple(i * self.across.weights + j for i in rows for j in columns)

    @property
    def order(self) -> tuple[int, ...]:
        """Elements of a tile such that those that share a weight follow each other."""
        return tuple(sorted(range(len(self.takes)), key=self.takes.__getitem__))

    @property
    def shared(self) -> bool:
        """Whether some elements share a weight."""
        return len(set(self.takes)) < len(self.takes)

    @property
    def lengths(self) -> list[int]:
        """Pixels of a row that are stored at once, the longest first."""
        if not self.vector_store:
            return [1]
        return [1 << k for k in range(self.rows.bit_length() - 1, -1, -1)]

    @property
    def widths(self) -> list[int]:
        """Elements that are read or stored at once."""
        lengths = self.lengths if self.planar else []
        return sorted({1, self.piece, self.width, *lengths})


@lru_cache(maxsize=64)
def axis_code(t: Transform, value: AnyDType) -> AxisCode:
    """Returns the transforms along an axis as they are printed."""
    walk = WalkCode(t.step, t.reads, t.size, printed(t.input, "d", "v", value))
    output, weight = printed(t.output, "p", "r", value), printed(t.weight, "g", "u", value)
    return AxisCode(t.m, t.r, walk, output, weight, t.shares)


def printed(matrix: Matrix, source: str, result: str, value: AnyDType) -> Statements:
    """Returns the statements of a product with a matrix; see `Linear.of`."""
    steps = Linear.of(matrix, source, result).steps
    return tuple((step.name, _expression(step, value)) for step in steps)


def winograd_code(
    problem: Contraction, tiling: Tiling, tile: WinogradTile, traits: DeviceTraits
) -> WinogradCode:
    """Returns what the kernels print, but for their parameters."""
    across, width = tiling.across, lanes_of(problem.value.itemsize, traits)
    planar_x = problem.gathered.depth[2] != 1
    planar = problem.near.output != 1 or problem.outputs == 1
    # A store takes the pixels of a tile's row, or as many as fill a vector.
    base = contraction_code(
        problem,
        Shape(
            max(width, across.m) if planar else across.m,
            1,
            width,
            panel=near(traits) // problem.value.itemsize,
        ),
        traits,
        along="depth",
        planar=planar,
        streaming=not planar and streaming_stores(problem, width, traits, along_outputs=True),
    )
    given: dict[str, Any] = {f.name: getattr(base, f.name) for f in fields(base)}
    given.update(
        name=f"{problem.name}_winograd",
        partial=True,
        ahead=int(traits.prefetch),
        block=1,
        interleave=None,
        noted=tile.vectors,
        shuffles=transpose(width) if planar or planar_x else None,
        x=OperandCode.of("x", problem.gathered.dtype, problem.value, 1),
        down=axis_code(tiling.down, problem.value),
        across=axis_code(across, problem.value),
        tile_rows=tile.rows,
        tile_vectors=tile.vectors,
        planar_x=planar_x,
        few=problem.depths[2] < width,
        chain=tiling.chain,
        direct=OperandCode.of("w", problem.packed.dtype, problem.value, 0),
    )
    return WinogradCode(**given)


def _expression(step: Sum, value: AnyDType) -> str:
    """A sum as a chain of multiply-adds."""
    text = ""
    double = value.itemsize == 8
    for factor, name in step.terms:
        n, d = factor.as_integer_ratio()
        if abs(n) == d:
            sign = "-" if n < 0 else "+"
            text = f"{text} {sign} {name}" if text else name if n > 0 else f"-{name}"
            continue
        text = f" + ({text})" if " " in text else f" + {text}" if text else ""
        text = f"{n / d if double else f'{np.float32(n / d)!s}f'} * {name}{text}"
    return text or "0"
