"""Convolutions whose outputs become pixels: `depth_to_space` as strides of the result.

Output k is a number of three digits: channel c of the large picture, row i and column j of the
pixel's square. Mode ``"CRD"`` reads them (c, i, j), mode ``"DCR"`` (i, j, c). Outputs may be
counted in any order, as weights are packed anyway: a channels-last result wants channels last, so
that whole vectors of them are stored, a contiguous one the columns of a square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clprim.plan.place import Place
from clprim.plan.product.problem import Digits, Output, Packed
from clprim.plan.strides import dense_strides, is_channels_last


@dataclass(frozen=True)
class Shuffle:
    """Which output becomes which pixel."""

    block: int  # Pixels along a square's side
    mode: str  # ``"CRD"`` or ``"DCR"``
    channels: int
    order: str  # Of the digits of an output, the slowest first: ``"cij"`` or ``"ijc"``

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
        return replace(w, group=0, digits=self.of_outputs(w.output))

    def large(self, name: str, place: Place) -> Output:
        """An array that is as large as the large picture, or broadcast to it."""
        n, c, h, w = place.strides
        return self._output(name, place, c, self.lanes(n, h, w), self.of_pixels(c, h, w))

    def small(self, name: str, place: Place, output: int, lane: Digits = (0, 0, 0)) -> Output:
        """An array whose outputs lie ``output`` apart: a bias, a weight's gradient."""
        return self._output(name, place, output, lane, self.of_outputs(output))

    def plain(self, y: Place, shape: Sequence[int]) -> Output:
        """Where the result would lie with its outputs as channels, in the memory format of y."""
        large = self.result(shape)
        last = is_channels_last(large, y.strides)
        n, c, h, w = dense_strides(tuple(shape), 1, (0, 2, 3, 1) if last else (0, 1, 2, 3))
        return Output("y0", y.dtype, 0, 0, c, (n, h, w))

    def gradient(self, grad: Place) -> Packed:
        """The large picture's gradient as the operand that is packed; depths are windows."""
        n, c, h, w = grad.strides
        lanes, pixels = self.lanes(n, h, w), self.of_pixels(c, h, w)
        return Packed(grad.dtype, grad.start, 0, c, lanes, pixels)

    @staticmethod
    def _output(name: str, place: Place, output: int, lane: Digits, digits: Digits) -> Output:
        return Output(name, place.dtype, place.start, 0, output, lane, digits)

    def _digits(self, channel: int, row: int, column: int) -> Digits:
        return (channel, row, column) if self.order == "cij" else (row, column, channel)
