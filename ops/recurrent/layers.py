"""Layers of recurrent cells, forward: rows of all steps side by side, and what gradients need.

A step is some neighbouring rows: those of the sequences that are that long. So sequences of one
length are the case in which all steps have as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.call.packed import PackedWeight
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.product.matmul import matmul
from clprim.ops.random.dropout import dropout as drop
from clprim.ops.recurrent.cells import CELLS, Cell, columns
from clprim.ops.shared.checks import check_dtype, check_shape, dtype_of
from clprim.ops.shared.dims import whole
from clprim.ops.shared.strings import kernel
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.randomness import State

copy_to = Pointwise("y0 = x0;", name="copy")


@dataclass(frozen=True)
class Line:
    """What the gradient of one layer in one direction needs."""

    x: Array
    given: Array
    own: Array
    before: Array
    hidden: Array | None
    memory: tuple[Array, ...]
    steps: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Weights:
    """Of one layer in one direction."""

    input: Any
    state: Any
    biases: tuple[Any, Any] = (None, None)
    projection: Any = None
    peepholes: Sequence[Any] = ()


@dataclass(frozen=True)
class Walk:
    """The steps: rows of the input, where each one's state goes, and what ends before others.

    Either sequences are packed, the longest first, or each has a length, (N, 1), or all are alike.
    """

    steps: Sequence[tuple[int, int]]
    places: Sequence[Any]
    packed: bool = False
    lengths: Any = None


@dataclass(frozen=True)
class Saved:
    """What a call keeps for its gradient."""

    layers: Layers
    lines: tuple[Line, ...]
    dropped: tuple[State | None, ...]
    dropout: float


@dataclass(frozen=True)
class Form:
    """How many layers there are, and how their input lies."""

    has_biases: bool
    num_layers: int
    bidirectional: bool
    batch_first: bool
    batch_sizes: Sequence[int] | None


class Layers:
    """The arguments of a call, checked."""

    def __init__(
        self, what: str, kind: str, input: Any, states: tuple[Any, ...], params: Any, form: Form
    ) -> None:
        self.what, self.kind, self.cell = what, kind, CELLS[kind]
        self.states, self.dtype = states, dtype_of(what, "input", input)
        self.directions = 1 + bool(form.bidirectional)
        self._rows(input, form)
        self.packed = len({*self.sizes}) > 1
        if not isinstance(params, tuple | list):
            raise DTypeError(f"{what}: expected a list of arrays for params, got {quoted(params)}")
        layers = form.num_layers
        self.count = whole(what, "num_layers", layers, 1) * self.directions
        each = 4 if form.has_biases else 2
        self.projected = what == "lstm" and len(params) == (each + 1) * self.count
        each += self.projected
        if len(params) != each * self.count:
            projected = (
                f", or {(each + 1) * self.count} with a projection" if what == "lstm" else ""
            )
            raise ShapeError(
                f"{what}: {len(params)} parameters: {layers} layers of {self.directions} "
                f"directions have {each * self.count}{projected}"
            )
        self.params = [tuple(params[n * each : (n + 1) * each]) for n in range(self.count)]
        self._check_shapes(form.has_biases)

    def _rows(self, input: Any, form: Form) -> None:
        """Takes the input as rows of all steps side by side."""
        what, self.shape = self.what, input.shape
        packed = form.batch_sizes is not None
        if self.dtype.kind in "biu" or input.ndim != 3 - packed:
            raise DTypeError(
                f"{what}: expected {'(rows, I)' if packed else '(T, N, I)'} of a floating dtype, "
                f"got {input.shape} of {self.dtype}"
            )
        self.batch_first = bool(form.batch_first) and not packed
        if form.batch_sizes is None:
            ordered = input.transpose(1, 0, 2) if self.batch_first else input
            self.length, self.batch, features = ordered.shape
            self.sizes = (self.batch,) * self.length
            self.input = ordered.reshape(self.length * self.batch, features)
            return
        self.sizes = tuple(whole(what, "batch_sizes", n, 1) for n in form.batch_sizes)
        falling = list(self.sizes) == sorted(self.sizes, reverse=True)
        if not self.sizes or not falling or sum(self.sizes) != input.shape[0]:
            raise ShapeError(
                f"{what}: batch_sizes={quoted(form.batch_sizes)}: expected numbers that do not "
                f"grow, of {input.shape[0]} rows in all"
            )
        self.input, self.length, self.batch = input, len(self.sizes), self.sizes[0]

    def _check_shapes(self, has_biases: bool) -> None:
        what, states, gates = self.what, self.states, self.cell.count
        for n, state in enumerate(states):
            check_dtype(what, f"hx[{n}]", state, self.dtype)
        # The memory is as wide as a gate; so is the state, unless it is projected.
        widths = [s.shape[-1] if s.ndim else 0 for s in states]
        self.width = width = widths[0]
        self.hidden = hidden = widths[-1] if self.projected else width
        for n, state in enumerate(states):
            expected = (self.count, self.batch, hidden if n else width)
            check_shape(what, f"hx[{n}]", state, expected)
        for n, given in enumerate(self.params):
            size = self.input.shape[1] if n < self.directions else width * self.directions
            shapes: list[tuple[int, ...]] = [(gates * hidden, size), (gates * hidden, width)]
            shapes += [(gates * hidden,)] * (2 * bool(has_biases))
            shapes += [(width, hidden)] * self.projected
            for m, (array, shape) in enumerate(zip(given, shapes, strict=True)):
                label = f"params[{n * len(shapes) + m}]"
                check_dtype(what, label, array, self.dtype)
                check_shape(what, label, array, shape)

    def steps(self, direction: int) -> tuple[tuple[int, int], ...]:
        """Returns first row and end of every step, in the order that a direction goes."""
        ends = list(accumulate(self.sizes))
        found = [(end - size, end) for size, end in zip(self.sizes, ends, strict=True)]
        return tuple(reversed(found) if direction else found)

    def weights(self, number: int) -> Weights:
        """Returns those of one layer in one direction."""
        weight, recurrent, *more = self.params[number]
        projection = more.pop() if self.projected else None
        return Weights(weight, recurrent, tuple(more) or (None, None), projection)

    def ways(self, array: Any) -> list[Any]:
        """Returns each direction of (rows, directions × P)."""
        return columns(array, self.directions)

    def as_given(self, rows: Array) -> Array:
        """Returns (rows, …) in the shape that the input came in."""
        if len(self.shape) == 2:
            return rows
        wide = rows.reshape(self.length, self.batch, rows.shape[1])
        return wide.transpose(1, 0, 2) if self.batch_first else wide

    def run(self, dropout: float, *, save: bool) -> Any:
        """Runs all layers, and returns the output, last states and, to save, a gradient's needs."""
        if not 0 <= dropout <= 1:
            raise ShapeError(f"{self.what}: dropout={dropout} is no probability: expected 0 to 1")
        x = self.input
        last = [new_dense(s.shape, self.dtype) for s in self.states]
        lines: list[Line] = []
        dropped: list[State | None] = []
        for layer in range(self.count // self.directions):
            state = None
            if layer and dropout:
                x, state = drop(x, dropout, return_state=True)
            dropped.append(state)
            output = new_dense((x.shape[0], self.width * self.directions), self.dtype)
            for direction, part in enumerate(self.ways(output)):
                number = layer * self.directions + direction
                steps = self.steps(direction)
                places = [part[first:end] for first, end in steps]
                weights = self.weights(number)
                projection = weights.projection
                kept = replace(
                    weights,
                    state=PackedWeight(weights.state),
                    projection=None if projection is None else PackedWeight(projection),
                )
                states = [s[number] for s in self.states]
                ends = [s[number] for s in last]
                walk = Walk(steps, places, self.packed)
                line = run_line(self.cell, kept, x, states, ends, walk, save=save)
                if line is not None:
                    lines.append(line)
            x = output
        saved = (Saved(self, tuple(lines), tuple(dropped), dropout),) if save else ()
        return self.as_given(x), *last, *saved


def run_line(
    cell: Cell,
    weights: Weights,
    x: Any,
    states: Sequence[Any],
    last: Sequence[Any],
    walk: Walk,
    *,
    save: bool = False,
) -> Line | None:
    """Runs one layer in one direction; what the input gives to the gates is one product."""
    bias, inner = weights.biases
    given = matmul(x, weights.input, transpose_b=True, bias=bias)
    rows, wide, hidden = len(x), given.shape[1], given.shape[1] // cell.count
    dtype, lstm = given.dtype, cell.kind == "lstm"
    before = new_dense((rows, states[0].shape[1]), dtype) if save else None
    own = new_dense((rows, wide), dtype) if save else None
    inside = None if weights.projection is None else new_dense((rows, hidden), dtype)
    cells = new_dense((rows, hidden), dtype) if save and lstm else None
    # States of sequences that have ended stay where the last ones go.
    ends = walk.packed or walk.lengths is not None
    if ends:
        for state, place in zip(states, last, strict=True):
            copy_to(state, out=place)
        states = last
    h, *memory = states
    for (first, end), shown in zip(walk.steps, walk.places, strict=True):
        size = end - first
        if ends:
            h = last[0][:size]
        memory = [c[:size] for c in memory]
        if before is not None:
            copy_to(h, out=before[first:end])
        if cells is not None:
            copy_to(memory[0], out=cells[first:end])
        goes = [shown if inside is None else inside[first:end], *(c[:size] for c in last[1:])]
        if walk.lengths is not None:
            goes = [new_dense(state.shape, dtype) for state in last]
        product = None if own is None else own[first:end]
        out = tuple(goes) if lstm else goes[0]
        cell.step(
            given[first:end], (h, *memory), weights.state, inner, weights.peepholes, product, out
        )
        if weights.projection is not None:
            matmul(goes[0], weights.projection, transpose_b=True, out=shown)
        if walk.lengths is not None:
            _mask(goes, last, shown, walk.lengths, first // max(size, 1))
        if walk.packed:
            copy_to(shown, out=last[0][:size])
        h, memory = shown, [*last[1:]]
    if not ends:
        copy_to(h, out=last[0])
    if before is None or own is None:
        return None
    kept = () if cells is None else tuple(cells[first:end] for first, end in walk.steps)
    return Line(x, given, own, before, inside, kept, walk.steps)


def _mask(new: Sequence[Any], last: Sequence[Any], shown: Any, lengths: Any, step: int) -> None:
    """Writes states, which stay where a sequence is over, and what is shown of the first one."""
    dtype, number = shown.dtype, np.int32(step)
    shows = kernel("y0 = w0 < x1 ? x0 : 0;", "recurrent_shown", dtype)
    stays = kernel("y0 = w0 < x2 ? x0 : x1;", "recurrent_masked", dtype)
    shows(new[0], lengths, number, out=shown)
    for state, place in zip(new, last, strict=True):
        stays(state, place, lengths, number, out=place)
