"""What the templates of Winograd's gradient in the weight print."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.conv.winograd.code import AxisCode, WalkCode
from clprim.plan.kernel import KernelCode, OperandCode, mask_type
from clprim.plan.pointwise.code import Shuffles


@dataclass(frozen=True)
class ImageCode:
    """How an image is transformed, as conv/winograd/_parts.cl.jinja prints it."""

    name: str  # Of what it becomes: ``inputs`` or ``gradients``
    value: str  # Type of what is transformed
    width: int
    walk_down: WalkCode  # How images are cut into tiles
    walk_across: WalkCode
    planar_x: bool  # Whether the image's pixels of a row are neighbours, not its channels
    few: bool  # Whether channels do not fill a vector
    ahead: int  # Whether memory is prefetched before it is read
    x: OperandCode
    shuffles: Shuffles | None  # How a square of vectors is transposed in registers
    # Where a kernel transforms both images, what it knows as ``inputs_x_rows`` and the transform as
    # ``x_rows``
    numbers: tuple[str, ...] = ()
    grouped: bool = False

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors."""
        return mask_type(self.value)


@dataclass(frozen=True)
class GradientCode(KernelCode):
    """What conv/winograd/weight_*.cl.jinja print, each a part of it."""

    value: str
    width: int
    down: AxisCode  # The transforms of both axes; only those of results are printed
    across: AxisCode
    # Factors × vectors of lanes that are summed up in registers; lanes are channels and factors
    # outputs, or the other way round
    tile_rows: int = 1
    tile_vectors: int = 1
    images: tuple[ImageCode, ...] = ()
    panel: int = 0  # Elements of local memory for that
    ahead: bool = False  # Whether the next element's tiles are prefetched
    y: OperandCode | None = None  # The result, where it is stored
    side_by_side: bool = False  # Whether lanes are neighbours in it, as in a vector
    beta: bool = False  # Whether the old result takes part
    # Input and gradient as they are, for results that transforms do not hold
    operands: tuple[OperandCode, ...] = ()

    @property
    def mask(self) -> str:
        """Type of a lane of what `select` takes beside vectors."""
        return mask_type(self.value)
