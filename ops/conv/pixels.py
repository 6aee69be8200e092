"""Convolutions whose outputs become pixels: `depth_to_space` as strides of the result.

Output k is a number of three digits: channel c of the large picture, row i and column j of the
pixel's square. Mode ``"CRD"`` reads them (c, i, j), mode ``"DCR"`` (i, j, c). Outputs may be
counted in any order, as weights are packed anyway: a channels-last result wants channels last, so
that whole vectors of them are stored, a contiguous one the columns of a square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clprim.arrays.array import is_integer
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, DTypeError, ShapeError
from clprim.ops.conv.depthwise import wants_depthwise
from clprim.ops.conv.windows import is_channels_last
from clprim.ops.product.arguments import elements, start
from clprim.plan.product.problem import Digits, Output, Packed
from clprim.plan.product.strategy import STRATEGIES, WINOGRAD
from clprim.plan.strides import Operand, broadcast_strides, dense_strides

__all__ = ["Shuffle", "check_shuffle", "plans_planes", "shuffle_of"]


@dataclass(frozen=True)
class Shuffle:
    """Which output becomes which pixel.

    Attributes:
        block: Pixels along a square's side.
        mode: ``"CRD"`` or ``"DCR"``.
        channels: Of the large picture.
        order: Of the digits of an output, the slowest first: ``"cij"`` or ``"ijc"``.
    """

    block: int
    mode: str
    channels: int
    order: str

    @property
    def sizes(self) -> Digits:
        """Sizes of the digits."""
        return self._digits(self.channels, self.block, self.block)

    def of_outputs(self, step: int) -> Digits:
        """What the digits add where outputs lie ``step`` apart, as in a weight."""
        if self.mode == "CRD":
            return self._digits(self.block**2 * step, self.block * step, step)
        return self._digits(step, self.block * self.channels * step, self.channels * step)

    def of_pixels(self, channel: int, row: int, column: int) -> Digits:
        """What the digits add in a large picture with these strides."""
        return self._digits(channel, row, column)

    def lanes(self, image: int, row: int, column: int) -> Digits:
        """What a window's digits add there."""
        return image, self.block * row, self.block * column

    def result(self, shape: Sequence[int]) -> tuple[int, int, int, int]:
        """The large picture's shape, of the convolution's."""
        n, _, height, width = shape
        return n, self.channels, height * self.block, width * self.block

    def weight(self, w: Packed) -> Packed:
        """A weight, or whatever else has its outputs one after the other."""
        return Packed(w.dtype, w.start, 0, w.output, w.depth, self.of_outputs(w.output))

    def large(self, name: str, operand: Operand, shape: tuple[int, ...]) -> Output:
        """An array that broadcasts to the large picture, of the given shape."""
        n, c, h, w = broadcast_strides(operand, shape)
        return self._output(name, operand, c, self.lanes(n, h, w), self.of_pixels(c, h, w))

    def small(self, name: str, operand: Operand, output: int, lane: Digits = (0, 0, 0)) -> Output:
        """An array whose outputs lie ``output`` apart: a bias, a weight's gradient."""
        return self._output(name, operand, output, lane, self.of_outputs(output))

    def plain(self, y: Operand, shape: Sequence[int]) -> Output:
        """Where the result would lie with its outputs as channels, in the memory format of y."""
        last = is_channels_last(y.shape, y.strides)
        n, c, h, w = dense_strides(tuple(shape), 1, (0, 2, 3, 1) if last else (0, 1, 2, 3))
        return Output("y0", y.dtype, 0, 0, c, (n, h, w))

    def gradient(self, grad: Any, dtype: AnyDType) -> Packed:
        """The large picture's gradient as the operand that is packed; depths are windows."""
        n, c, h, w = elements(grad)
        return Packed(dtype, start(grad), 0, c, self.lanes(n, h, w), self.of_pixels(c, h, w))

    @staticmethod
    def _output(name: str, operand: Operand, output: int, lane: Digits, digits: Digits) -> Output:
        place = operand.in_elements(operand.offset)
        return Output(name, operand.dtype, place, 0, output, lane, digits)

    def _digits(self, channel: int, row: int, column: int) -> Digits:
        return (channel, row, column) if self.order == "cij" else (row, column, channel)


def check_shuffle(what: str, block: Any, mode: Any) -> None:
    """Refuses a side of squares or an order of channels that there is not.

    Raises:
        DefinitionError: Another mode.
        DTypeError: A side that is no integer.
        ShapeError: A side below 1.
    """
    if mode not in ("DCR", "CRD"):
        raise DefinitionError(f"{what}: mode={mode!r} is unknown; expected 'DCR' or 'CRD'")
    if block is None:
        return
    if not is_integer(block) or isinstance(block, bool):
        raise DTypeError(f"{what}: depth_to_space={block!r}: expected an integer")
    if block < 1:
        raise ShapeError(f"{what}: depth_to_space={block!r}: expected at least 1")


def plans_planes(
    what: str, algorithm: Any, w: Sequence[int], groups: int, shuffle: Shuffle | None
) -> bool:
    """Whether a convolution is computed plane by plane, which has outputs as channels only.

    Raises:
        DefinitionError: ``algorithm`` is unknown, or cannot do the job.
    """
    planes = wants_depthwise(what, algorithm, w, groups)
    if planes and shuffle is not None and algorithm != "auto":
        raise DefinitionError(
            f"{what}: algorithm={algorithm!r} cannot do depth_to_space={shuffle.block}; expected "
            f"'auto' or one of {', '.join((*STRATEGIES, WINOGRAD))}"
        )
    return planes and shuffle is None


def shuffle_of(
    what: str, block: Any, mode: Any, outputs: int, groups: int, *, last: bool
) -> Shuffle | None:
    """Returns how outputs become pixels, or None where they stay what they are.

    Args:
        what: The operator, for messages.
        block: Pixels along a square's side; None or 1 for no squares.
        mode: ``"CRD"`` or ``"DCR"``.
        outputs: Of the convolution.
        groups: Of the convolution: its outputs are counted through, so with more than one of them
            they keep their order.
        last: Whether the large picture is channels-last.

    Raises:
        DefinitionError, DTypeError: As `check_shuffle`.
        ShapeError: Outputs that do not divide into squares.
    """
    check_shuffle(what, block, mode)
    if block is None:
        return None
    if outputs % block**2:
        raise ShapeError(
            f"{what}: {outputs} outputs are not a multiple of depth_to_space² = {block**2}"
        )
    if block == 1:
        return None
    order = "cij" if mode == "CRD" else "ijc"
    if groups == 1:
        order = "ijc" if last else "cij"
    return Shuffle(int(block), mode, outputs // block**2, order)
