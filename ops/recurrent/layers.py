"""Layers of recurrent cells, forward: rows of all steps side by side, and what gradients need.

A step is some neighbouring rows: those of the sequences that are that long. So sequences of one
length are the case in which all steps have as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from clprim.arrays.array import Array, new_dense
from clprim.call.packed import PackedWeight
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.product.matmul import matmul
from clprim.ops.random.dropout import dropout as drop
from clprim.ops.recurrent.cells import GATES, cell
from clprim.ops.shared.arguments import check_shape, dtype_of
from clprim.ops.shared.dims import whole
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
    steps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Saved:
    """What a call keeps for its gradient."""

    layers: Layers
    lines: tuple[Line, ...]
    dropped: tuple[State | None, ...]
    dropout: float


class Layers:
    """The arguments of a call, checked."""

    def __init__(
        self,
        what: str,
        kind: str,
        input: Any,
        states: tuple[Any, ...],
        params: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        bidirectional: bool,
        batch_first: bool,
        batch_sizes: Sequence[int] | None,
    ) -> None:
        self.what, self.kind = what, kind
        gates = GATES[kind]
        dtype = dtype_of(what, "input", input)
        packed = batch_sizes is not None
        if dtype.kind in "biu" or input.ndim != 3 - packed:
            raise DTypeError(
                f"{what}: expected {'(rows, I)' if packed else '(T, N, I)'} of a floating dtype, "
                f"got {input.shape} of {dtype}"
            )
        self.batch_first = bool(batch_first) and not packed
        self.directions = 1 + bool(bidirectional)
        if batch_sizes is None:
            ordered = input.transpose(1, 0, 2) if batch_first else input
            self.length, self.batch, features = ordered.shape
            self.sizes = (self.batch,) * self.length
            self.input = ordered.reshape(self.length * self.batch, features)
        else:
            self.sizes = tuple(whole(what, "batch_sizes", n, 1) for n in batch_sizes)
            features = input.shape[1]
            falling = list(self.sizes) == sorted(self.sizes, reverse=True)
            if not self.sizes or not falling or sum(self.sizes) != input.shape[0]:
                raise ShapeError(
                    f"{what}: batch_sizes={quoted(batch_sizes)}: expected numbers that do not "
                    "grow, of "
                    f"{input.shape[0]} rows in all"
                )
            self.input, self.length, self.batch = input, len(self.sizes), self.sizes[0]
        self.shape = input.shape
        self.packed = len({*self.sizes}) > 1
        if not isinstance(params, tuple | list):
            raise DTypeError(f"{what}: expected a list of arrays for params, got {quoted(params)}")
        count = whole(what, "num_layers", num_layers, 1) * self.directions
        each = 4 if has_biases else 2
        self.projected = what == "lstm" and len(params) == (each + 1) * count
        each += self.projected
        if len(params) != each * count:
            projected = f", or {(each + 1) * count} with a projection" if what == "lstm" else ""
            raise ShapeError(
                f"{what}: {len(params)} parameters: {num_layers} layers of {self.directions} "
                f"directions have {each * count}{projected}"
            )
        self.params = [tuple(params[n * each : (n + 1) * each]) for n in range(count)]
        for n, state in enumerate(states):
            if dtype_of(what, f"hx[{n}]", state) != dtype:
                raise DTypeError(f"{what}: hx[{n}] is {state.dtype}, input {dtype}")
        # The memory is as wide as a gate; so is the state, unless it is projected.
        widths = [s.shape[-1] if s.ndim else 0 for s in states]
        width, hidden = widths[0], widths[-1] if self.projected else widths[0]
        for n, state in enumerate(states):
            expected = (count, self.batch, hidden if n else width)
            if state.shape != expected:
                raise ShapeError(f"{what}: hx[{n}] has shape {state.shape}, expected {expected}")
        for n, given in enumerate(self.params):
            size = features if n < self.directions else width * self.directions
            shapes: list[tuple[int, ...]] = [(gates * hidden, size), (gates * hidden, width)]
            shapes += [(gates * hidden,)] * (2 * bool(has_biases))
            shapes += [(width, hidden)] * self.projected
            for m, (array, shape) in enumerate(zip(given, shapes, strict=True)):
                label = f"params[{n * each + m}]"
                found = dtype_of(what, label, array)
                if found != dtype:
                    raise DTypeError(f"{what}: {label} is {found}, input {dtype}")
                check_shape(what, label, array, shape)
        self.states, self.dtype, self.count = states, dtype, count
        self.hidden, self.width = hidden, width

    def steps(self, direction: int) -> tuple[tuple[int, int], ...]:
        """Returns first row and end of every step, in the order that a direction goes."""
        ends = list(accumulate(self.sizes))
        found = [(end - size, end) for size, end in zip(self.sizes, ends, strict=True)]
        return tuple(reversed(found) if direction else found)

    def weights(self, number: int) -> tuple[Any, Any, tuple[Any, ...], Any]:
        """Returns those of input and state, the biases, and the projection or None."""
        weight, recurrent, *more = self.params[number]
        projection = more.pop() if self.projected else None
        return weight, recurrent, tuple(more), projection

    def gates(self, array: Any) -> list[Any]:
        """Returns each gate of (rows, gates × H)."""
        return columns(array, array.shape[1] // self.hidden if self.hidden else GATES[self.kind])

    def ways(self, array: Any) -> list[Any]:
        """Returns each direction of (rows, directions × P)."""
        return columns(array, self.directions)

    def as_given(self, rows: Array) -> Array:
        """Returns (rows, …) in the shape that the input came in."""
        if len(self.shape) == 2:
            return rows
        wide = rows.reshape(self.length, self.batch, rows.shape[1])
        return wide.transpose(1, 0, 2) if self.batch_first else wide

    def run(self, dropout: float, *, save: bool) -> tuple[Array, list[Array], Saved | None]:
        """Runs all layers, and returns the output, the last states and what a gradient needs."""
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
                line = self._line(number, x, part, self.steps(direction), last, save)
                if line is not None:
                    lines.append(line)
            x = output
        saved = Saved(self, tuple(lines), tuple(dropped), dropout) if save else None
        return self.as_given(x), last, saved

    def _line(
        self,
        number: int,
        x: Any,
        output: Any,
        steps: tuple[tuple[int, int], ...],
        last: list[Array],
        save: bool,
    ) -> Line | None:
        """One layer in one direction. What the input gives to the gates is one product."""
        weight, recurrent, biases, projection = self.weights(number)
        rows, hidden, wide = x.shape[0], self.hidden, recurrent.shape[0]
        given = matmul(x, weight, transpose_b=True, bias=biases[0] if biases else None)
        bias = biases[1] if biases else None
        kept = PackedWeight(recurrent)
        projecting = None if projection is None else PackedWeight(projection)
        states = [s[number] for s in self.states]
        kernel = cell(self.kind, self.dtype)
        # Running states lie where the last ones go: of sequences that ended they stay.
        running = [s[number] for s in last]
        for state, place in zip(states, running, strict=True):
            copy_to(state, out=place)
        lstm = self.kind == "lstm"
        before = new_dense((rows, self.width), self.dtype) if save else None
        inner = None if projection is None else new_dense((rows, hidden), self.dtype)
        own = new_dense((rows, wide), self.dtype) if save else None
        cells = new_dense((rows, hidden), self.dtype) if save and lstm else None
        memory: list[Array] = []
        h = states[0]
        for first, end in steps:
            size = end - first
            if self.packed:
                h = running[0][:size]
            if before is not None:
                copy_to(h, out=before[first:end])
            product = None if own is None else own[first:end]
            gates = matmul(h, kept, transpose_b=True, bias=bias, out=product)
            arrays = [*self.gates(given[first:end]), *self.gates(gates)]
            if lstm:
                c = running[1][:size]
                if cells is not None:
                    copy_to(c, out=cells[first:end])
                    memory.append(cells[first:end])
                place = (output if inner is None else inner)[first:end]
                kernel(*arrays, c, out=(place, c))
                if projecting is not None:
                    matmul(place, projecting, transpose_b=True, out=output[first:end])
            else:
                kernel(*arrays, *([h] if self.kind == "gru" else []), out=output[first:end])
            h = output[first:end]
            if self.packed:
                copy_to(h, out=running[0][:size])
        if not self.packed:
            copy_to(h, out=running[0])
        if before is None or own is None:
            return None
        return Line(x, given, own, before, inner, tuple(memory), steps)


def columns(array: Any, count: int) -> list[Any]:
    """Returns an array's columns in so many equal parts."""
    size = array.shape[1] // count
    return [array[:, n * size : (n + 1) * size] for n in range(count)]
