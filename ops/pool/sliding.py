"""Loops over the windows of a pooling, and over the windows that an element is in.

A window begins at ``o·stride - padding`` and has ``kernel`` elements, ``dilation`` apart. Those
that would lie outside of the input are no part of it. Kernels are written for a size of window;
padding, dilation and, where a constant is not faster, the stride are numbers that they are given,
so that others compile nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.errors import ShapeError, quoted
from clprim.ops.shared import window as shared
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.strings import places
from clprim.ops.shared.window import Numbers, Padding, in_pairs, numbers
from clprim.plan.conv.problem import Axis


@dataclass(frozen=True)
class Windows:
    """Windows along the last dimensions of an input."""

    lead: int
    along: tuple[Axis, ...]
    outputs: tuple[int, ...]
    #: Whether kernels are given the stride; loops that add up are faster with a constant.
    free: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the input."""
        return tuple(a.size for a in self.along)

    @property
    def kernel(self) -> tuple[int, ...]:
        """Elements of a window."""
        return tuple(a.kernel for a in self.along)

    @property
    def taps(self) -> int:
        """How many elements a window has."""
        return math.prod(self.kernel)

    @property
    def dilated(self) -> bool:
        """Whether there are gaps in a window."""
        return any(a.dilation > 1 for a in self.along)

    @property
    def leave(self) -> bool:
        """Whether a window reaches beyond the input."""
        together = zip(self.along, self.outputs, strict=True)
        return any(a.before > 0 or (o - 1) * a.stride + a.reach > a.size for a, o in together)

    @property
    def axes(self) -> range:
        """Numbers of the dimensions, from 0."""
        return range(len(self.along))

    @property
    def numbers(self) -> tuple[np.int32, ...]:
        """What kernels take as ``w0``, …; see `declared`."""
        count = 3 + self.free
        each = [(a.before, a.after, a.dilation, a.stride)[:count] for a in self.along]
        return tuple(np.int32(n) for settings in each for n in settings)

    @property
    def element(self) -> str:
        """Coordinates of the element ``i0``, ``i1``, … of a window."""
        return places(self.lead + len(self.along), {self.lead + d: f"i{d}" for d in self.axes})

    @property
    def window(self) -> str:
        """Coordinates of the window ``o0``, ``o1``, …."""
        return places(self.lead + len(self.along), {self.lead + d: f"o{d}" for d in self.axes})

    def declared(self) -> list[str]:
        """Returns lines that name them: ``before0``, ``after0``, ``apart0``, ``stride0``, …."""
        lines = []
        for d in self.axes:
            w = [f"w{(3 + self.free) * d + n}" for n in range(4)]
            stride = w[3] if self.free else self.along[d].stride
            named = (
                f"before{d} = {w[0]}, after{d} = {w[1]}, apart{d} = {w[2]}, stride{d} = {stride}"
            )
            lines.append(f"int {named};")
        return lines

    def over_window(self, body: str, *, edges: bool = True) -> str:
        """Returns loops over the elements ``i0``, ``i1``, … of x0 in a result's window.

        Every work-item runs as many iterations, so that neighbours can run as one vector. What lies
        outside is replaced by the nearest element inside; ``inside`` is then false, if ``edges``
        are asked for.
        """
        lines = self.declared()
        loops: list[str] = []
        ends: list[str] = []
        for d in self.axes:
            lines.append(f"int from{d} = (int)coord({self.lead + d}) * stride{d} - before{d};")
            at = f"from{d} + t{d}{f' * apart{d}' if self.dilated else ''}"
            loops += [
                f"for (int t{d} = 0; t{d} < {self.along[d].kernel}; ++t{d}) {{",
                f"int i{d} = clamp({at}, 0, (int)size_x0({self.lead + d}) - 1);",
            ]
            ends.append(f"i{d} == {at}")
        if edges:
            loops.append(f"bool inside = {' && '.join(ends)};")
        return _looped(lines, loops, body, len(ends))

    def over_outputs(self, array: str, body: str) -> str:
        """Returns loops over the windows ``o0``, ``o1``, … that an element of the input may be in.

        As in `over_window`, a window that is none is replaced by one that is; ``inside`` says
        whether it has the element.
        """
        lines = self.declared()
        loops: list[str] = []
        ends: list[str] = []
        for d in self.axes:
            reach = f"{self.along[d].kernel - 1}{f' * apart{d}' if self.dilated else ''}"
            lines += [
                f"int at{d} = (int)coord({self.lead + d}) + before{d};",
                f"int most{d} = {reach} / stride{d}, first{d} = at{d} / stride{d} - most{d};",
            ]
            loops += [
                f"for (int t{d} = 0; t{d} <= most{d}; ++t{d}) {{",
                f"int o{d} = clamp(first{d} + t{d}, 0, (int)size_{array}({self.lead + d}) - 1);",
                f"int tap{d} = at{d} - o{d} * stride{d};",
            ]
            ends.append(f"o{d} == first{d} + t{d} && tap{d} <= {reach}")
            if self.dilated:
                ends.append(f"tap{d} % apart{d} == 0")
        loops.append(f"bool inside = {' && '.join(ends)};")
        return _looped(lines, loops, body, len(self.axes))

    def first(self) -> str:
        """Returns the position of the first element of a window that is inside of x0's plane."""
        flat = ""
        for d in self.axes:
            size = f"(int)size_x0({self.lead + d})"
            flat = f"({flat}) * {size} + " if flat else ""
            flat += f"clamp(from{d}, 0, {size} - 1)"
        return flat

    def flat(self, kind: str) -> str:
        """Returns the position of the element ``i0``, ``i1``, … in x0's plane, in a C type."""
        flat = "i0"
        for d in self.axes[1:]:
            flat = f"({flat}) * ({kind})size_x0({self.lead + d}) + i{d}"
        return flat


def _looped(lines: list[str], loops: list[str], body: str, depth: int) -> str:
    before, _, rest = body.partition("LOOPS {")
    inner, _, after = rest.partition("END")
    return "\n".join([*lines, before, *loops, inner, "}" * depth, after])


def windows(
    what: str,
    x: Any,
    ndim: int,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Padding,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Windows:
    """Checks the arguments of a pooling."""
    lead = lead_of(what, x, ndim)
    kernel = numbers(what, "kernel_size", kernel_size, ndim, 1)
    steps = kernel if stride is None or (isinstance(stride, Sequence) and not stride) else stride
    along = shared.axes(what, x.shape[lead:], kernel, steps, padding, dilation, up=ceil_mode)
    for a in along:  # of sides that are told apart less than a window, else no more than its half
        if max(a.before, a.after) > (a.reach - 1 if in_pairs(padding) else a.reach // 2):
            raise ShapeError(
                f"{what}: padding={quoted(padding)} is "
                f"{'as wide as' if in_pairs(padding) else 'more than half of'} "
                f"kernel_size={quoted(kernel_size)}"
            )
    outputs = tuple(_rounded_up(a) if ceil_mode else a.windows for a in along)
    if min(outputs) < 1 or 0 in x.shape[lead - 1 :]:
        raise ShapeError(
            f"{what}: x of shape {x.shape} has no window of kernel_size={quoted(kernel_size)}, "
            f"padding={quoted(padding)}, dilation={quoted(dilation)}"
        )
    return Windows(lead, along, outputs)


def sliding(
    what: str,
    sizes: Sequence[int],
    kernel_size: Numbers,
    dilation: Numbers,
    padding: Padding,
    stride: Numbers,
    *,
    free: bool = False,
) -> Windows:
    """Returns the windows of images, (N, C) before their sizes, with any padding."""
    kernel = numbers(what, "kernel_size", kernel_size, len(sizes), 1)
    along = shared.axes(what, sizes, kernel, stride, padding, dilation)
    return Windows(2, along, tuple(a.windows for a in along), free)


def lead_of(what: str, x: Any, ndim: int) -> int:
    """Returns how many dimensions are before those that have windows: channels, or images too."""
    dtype_of(what, "x", x)
    lead: int = x.ndim - ndim
    if lead not in (1, 2):
        raise ShapeError(
            f"{what}: expected x of {ndim + 2} dimensions, or {ndim + 1} without a batch, got "
            f"shape {x.shape}"
        )
    return lead


def _rounded_up(axis: Axis) -> int:
    """How many windows there are, with one that begins in the input or the padding before it."""
    count = -(-(axis.padded - axis.reach) // axis.stride) + 1
    return count - ((count - 1) * axis.stride >= axis.size + axis.before)
