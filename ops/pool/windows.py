"""The windows of a pooling: arguments as PyTorch takes them, sizes, and loops over a window.

A window begins at ``o·stride - padding`` and has ``kernel`` elements, ``dilation`` apart. Those
that would lie outside of the input are no part of it. Kernels are written for a size of window;
padding, dilation and, where a constant is not faster, the stride are numbers that they are given,
so that others compile nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.arrays.validation import counted
from clprim.dtypes import is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.shared.arguments import dtype_of, fits

Numbers = int | Sequence[int]
Borders = int | Sequence[int | Sequence[int]]


@dataclass(frozen=True)
class Windows:
    """Windows along the last dimensions of an input."""

    lead: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    outputs: tuple[int, ...]
    after: tuple[int, ...] = ()
    #: Whether kernels are given the stride; loops that add up are faster with a constant.
    free: bool = False

    @property
    def dilated(self) -> bool:
        """Whether there are gaps in a window."""
        return any(d > 1 for d in self.dilation)

    @property
    def leave(self) -> bool:
        """Whether a window reaches beyond the input."""
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        together = zip(self.sizes, self.outputs, reach, self.stride, self.padding, strict=True)
        return any(p > 0 or (o - 1) * s + k > n for n, o, k, s, p in together)

    @property
    def axes(self) -> range:
        """Numbers of the dimensions, from 0."""
        return range(len(self.sizes))

    @property
    def numbers(self) -> tuple[np.int32, ...]:
        """What kernels take as ``w0``, …; see `declared`."""
        given = [self.padding, self.after or self.padding, self.dilation]
        given += [self.stride] if self.free else []
        return tuple(np.int32(n) for settings in zip(*given, strict=True) for n in settings)

    def declared(self) -> list[str]:
        """Returns lines that name them: ``before0``, ``after0``, ``apart0``, ``stride0``, …."""
        lines = []
        for d in self.axes:
            w = [f"w{(3 + self.free) * d + n}" for n in range(4)]
            stride = w[3] if self.free else self.stride[d]
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
                f"for (int t{d} = 0; t{d} < {self.kernel[d]}; ++t{d}) {{",
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
            reach = f"{self.kernel[d] - 1}{f' * apart{d}' if self.dilated else ''}"
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
        return _looped(lines, loops, body, len(self.sizes))

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


def numbers(what: str, label: str, value: Any, count: int, least: int) -> tuple[int, ...]:
    """Returns a number, or one for each dimension, as a tuple."""
    given = (value,) if is_integer(value) else value
    if isinstance(given, Sequence) and len(given) == 1:
        given = (*given,) * count
    whole = isinstance(given, Sequence) and all(map(is_integer, given))
    if not whole or len(given) != count or not fits(given, least):
        forms = "a number" if count == 1 else f"a number or {count} of them"
        raise ShapeError(
            f"{what}: {label}={quoted(value)}: expected {forms}, of at least {least} and below 2^31"
        )
    return tuple(int(n) for n in given)


def borders(what: str, padding: Any, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns a padding's widths before and behind each dimension."""
    if not in_pairs(padding):
        before = numbers(what, "padding", padding, count, 0)
        return before, before
    if len(padding) != count or not all(isinstance(p, Sequence) for p in padding):
        raise ShapeError(f"{what}: padding={quoted(padding)}: expected {count} pairs")
    given = [numbers(what, "padding", p, 2, 0) for p in padding]
    return tuple(p for p, _ in given), tuple(p for _, p in given)


def in_pairs(padding: Any) -> bool:
    """Whether a padding says what is before and what is behind."""
    return isinstance(padding, Sequence) and any(isinstance(p, Sequence) for p in padding)


def windows(
    what: str,
    x: Any,
    ndim: int,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Borders,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Windows:
    """Checks the arguments of a pooling."""
    lead = lead_of(what, x, ndim)
    kernel = numbers(what, "kernel_size", kernel_size, ndim, 1)
    empty = isinstance(stride, Sequence) and not stride
    steps = kernel if stride is None or empty else numbers(what, "stride", stride, ndim, 1)
    apart = numbers(what, "dilation", dilation, ndim, 1)
    pads, after = borders(what, padding, ndim)
    for k, p, q, d in zip(kernel, pads, after, apart, strict=True):
        reach = (k - 1) * d + 1  # of borders in pairs less than that, else no more than a half
        if max(p, q) > (reach - 1 if in_pairs(padding) else reach // 2):
            raise ShapeError(
                f"{what}: padding={quoted(padding)} is "
                f"{'as wide as' if in_pairs(padding) else 'more than half of'} "
                f"kernel_size={quoted(kernel_size)}"
            )
    sizes = x.shape[lead:]
    outputs = tuple(
        _outputs(n, k, s, p, q, d, ceil_mode)
        for n, k, s, p, q, d in zip(sizes, kernel, steps, pads, after, apart, strict=True)
    )
    if min(outputs) < 1 or 0 in x.shape[lead - 1 :]:
        raise ShapeError(
            f"{what}: x of shape {x.shape} has no window of kernel_size={quoted(kernel_size)}, "
            f"padding={quoted(padding)}, dilation={quoted(dilation)}"
        )
    return Windows(lead, sizes, kernel, steps, pads, apart, outputs, after)


def sliding(
    what: str,
    sizes: tuple[int, ...],
    kernel_size: Numbers,
    dilation: Numbers,
    padding: Borders,
    stride: Numbers,
    *,
    free: bool = False,
) -> Windows:
    """Returns the windows of images, (N, C) before their sizes, with any padding."""
    k, s, d = (
        numbers(what, label, value, len(sizes), 1)
        for label, value in (("kernel_size", kernel_size), ("stride", stride),
                             ("dilation", dilation))
    )  # fmt: skip
    before, after = borders(what, padding, len(sizes))
    each = zip(sizes, k, s, before, after, d, strict=True)
    outputs = tuple(_outputs(counted(what, "a size", n), *given, False) for n, *given in each)  # type: ignore[call-arg]
    if min(outputs) < 1:
        raise ShapeError(f"{what}: images of {tuple(sizes)} have no window of {k}")
    return Windows(2, tuple(sizes), k, s, before, d, outputs, after, free)


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


def _outputs(
    size: int, kernel: int, stride: int, padding: int, after: int, dilation: int, up: bool
) -> int:
    rest = size + padding + after - dilation * (kernel - 1) - 1
    count = (rest + (stride - 1 if up else 0)) // stride + 1
    # A window begins in the input or in the padding before it.
    return count - (up and (count - 1) * stride >= size + padding)
