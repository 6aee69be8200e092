"""What the templates of Winograd's gradient in the weight print."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.conv.winograd.code import AxisCode, WalkCode
from clprim.plan.kernel import KernelCode, OperandCode, mask_type
from clprim.plan.pointwise.code import Shuffles


@dataclass(frozen=True)
class ImageCode:
    """How an image is transformed, as conv/winograd/_parts.cl.jinja prints it.

    Attributes:
        name: Of what it becomes: ``inputs`` or ``gradients``.
        value: Type of what is transformed.
        width: Elements of a vector.
        walk_down, walk_across: How images are cut into tiles.
        planar_x: Whether the image's pixels of a row are neighbours, not its channels.
        few: Whether channels do not fill a vector.
        ahead: Whether memory is prefetched before it is read.
        x: The image.
        shuffles: How a square of vectors is transposed in registers.
        numbers: Where a kernel transforms both images, what it knows as ``inputs_x_rows`` and the
            transform as ``x_rows``.
    """

    name: str
    value: str
    width: int
    walk_down: WalkCode
    walk_across: WalkCode
    planar_x: bool
    few: bool
    ahead: int
    x: OperandCode
    shuffles: Shuffles | None
    numbers: tuple[str, ...] = ()
    grouped: bool = False

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors."""
        return mask_type(self.value)


@dataclass(frozen=True)
class GradientCode(KernelCode):
    """What conv/winograd/weight_*.cl.jinja print, each a part of it.

    Attributes:
        value: Type of sums.
        width: Elements of a vector.
        down, across: The transforms of both axes; only those of results are printed.
        tile_rows, tile_vectors: Factors × vectors of lanes that are summed up in registers; lanes
            are channels and factors outputs, or the other way round.
        images: What is transformed.
        panel: Elements of local memory for that.
        ahead: Whether the next element's tiles are prefetched.
        y: The result, where it is stored.
        side_by_side: Whether lanes are neighbours in it, as in a vector.
        beta: Whether the old result takes part.
        operands: Input and gradient as they are, for results that transforms do not hold.
    """

    value: str
    width: int
    down: AxisCode
    across: AxisCode
    tile_rows: int = 1
    tile_vectors: int = 1
    images: tuple[ImageCode, ...] = ()
    panel: int = 0
    ahead: bool = False
    y: OperandCode | None = None
    side_by_side: bool = False
    beta: bool = False
    operands: tuple[OperandCode, ...] = ()

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors."""
        return mask_type(self.value)
