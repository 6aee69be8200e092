"""A whole function of a seed and a number."""

from __future__ import annotations

from bench.torture.draw import Draw
from bench.torture.graphs import elementwise, layers
from bench.torture.graphs.draw import MODES, Drawing
from bench.torture.graphs.program import Program

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
_OF_A_POOL = 50  # functions that have the same operators to choose from


def draw_program(seed: int, number: int) -> tuple[str, Program]:
    """Returns the mode and the function of a case; it runs its lines on the current device."""
    draw = Draw(seed, number)
    mode = draw.one(MODES)
    plain = draw.chance(0.5)
    drawing = Drawing(draw, (seed, number // _OF_A_POOL), mode, plain=plain)
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
