"""A whole function of a seed and a number."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import clprim as cp
from bench.torture.draw import Draw
from bench.torture.graphs import elementwise, layers, networks
from bench.torture.graphs.draw import MODES, Drawing
from bench.torture.graphs.program import Program, made_by, names_in
from clprim.runtime.device import Device

_OPERATORS = (
    *[elementwise.one] * 5,
    *[elementwise.two] * 6,
    elementwise.several,
    elementwise.cast,
    *[elementwise.written] * 2,
    elementwise.out,
    elementwise.created,
    *[layers.convolution] * 3,
    *[layers.product] * 2,
    *[layers.channels] * 2,
    *[layers.norm] * 2,
    *[layers.reduction] * 2,
    layers.accumulated,
    layers.ordered,
    layers.pool,
    *[layers.joined] * 3,
    *[layers.moved] * 3,
    *networks.PARTS,
)
_PLAIN = (
    *[elementwise.one] * 3,
    *[elementwise.two] * 3,
    *[elementwise.written] * 3,
    *[elementwise.out] * 2,
    elementwise.created,
    *[layers.joined] * 3,
    *[layers.moved] * 2,
    layers.product,
    layers.accumulated,
    layers.reduction,
)
_LENGTHS = (5, 5, 5, 6, 6, 7, 7, 8, 8, 10, 12, 15, 20, 30, 60)
_MOST_TRIES = 8  # for each line
_OF_A_POOL = 2000  # functions that have the same operators to choose from
_ORDERS = 4  # functions of the same lines: what takes long is to build a line's kernels


def draw_program(seed: int, number: int) -> tuple[str, Program]:
    """Returns the mode and the function of a case; it runs its lines on the current device."""
    mode, program = _drawn(cp.current_device(), seed, number // _ORDERS)
    order = number % _ORDERS
    return mode, _shuffled(program, Draw(seed, number), mixed=order > 1) if order else program


@lru_cache(maxsize=1)
def _drawn(device: Device, seed: int, number: int) -> tuple[str, Program]:
    del device
    draw = Draw(seed, number)
    mode = draw.one(MODES)
    plain = draw.chance(0.5)
    drawing = Drawing(draw, (seed, number * _ORDERS // _OF_A_POOL), mode, plain=plain)
    drawing.start()
    length = int(draw.one(_LENGTHS))
    tries = 0
    # A function that does much of one kind meets what a mixture does not.
    some = _PLAIN if plain else _OPERATORS
    if draw.chance(0.4):
        some = tuple(draw.one(some) for _ in range(6))
    while drawing.length < length and tries < _MOST_TRIES * length:
        draw.one(some)(drawing)
        tries += 1
    return mode, drawing.program()


def _shuffled(program: Program, draw: Draw, *, mixed: bool) -> Program:
    """Returns a function of the same lines in another order; it may return more."""
    left, lines = [*program.lines], list[str]()
    known = {g.name for g in program.given}
    # Indices that a line changes are in range only where they are read first.
    ordered = any(g.kind == "index" for g in program.given)
    while left:
        ready = [line for line in left if names_in(line) - {*made_by(line)} <= known]
        line = ready[0] if ordered else draw.one(ready)
        left.remove(line)
        lines.append(line)
        known.update(made_by(line))
    more = [n for line in lines for n in made_by(line) if mixed and draw.chance(0.1)]
    returned = (*dict.fromkeys((*program.returned, *more)),)
    return replace(program, lines=(*lines,), returned=returned)
