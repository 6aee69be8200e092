"""What differs is made small: lines are dropped, or become arguments of the same shape."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import clprim as cp
from bench.torture.graphs.program import Given, Program, made_by, names_in


def shrunk(program: Program, fails: Callable[[Program], bool], seconds: float) -> Program:
    end = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for smaller in _smaller(program):
            if time.monotonic() > end:
                return program
            if _tried(smaller, fails):
                program, again = smaller, True
                break
    return program


def _tried(program: Program, fails: Callable[[Program], bool]) -> bool:
    try:
        return fails(program)
    except Exception:  # a line that was dropped may have been needed
        return False


def _smaller(program: Program) -> Iterator[Program]:
    """Programs that do less, the smallest first."""
    for name in program.returned:
        if len(program.returned) > 1:
            yield replace(program, returned=(name,)).used()
    for n in range(len(program.returned)):
        if len(program.returned) > 2:
            left = program.returned[:n] + program.returned[n + 1 :]
            yield replace(program, returned=left).used()
    for line in program.lines:
        for name in set(made_by(line)) & set(program.returned):
            others = tuple(r for r in program.returned if r != name)
            for read in sorted(names_in(line) - set(made_by(line)) - set(others)):
                yield replace(program, returned=(*others, read)).used()
    shapes = _shapes(program)
    for n in reversed(range(len(program.lines))):
        without = program.lines[:n] + program.lines[n + 1 :]
        made = made_by(program.lines[n])
        if not made:
            yield replace(program, lines=without).used()
            continue
        read = [name for name in names_in(program.lines[n]) if name not in made]
        for name in made:
            for other in read:
                if len(made) == 1 and shapes.get(other) == shapes.get(name):
                    yield _renamed(replace(program, lines=without), name, other).used()
        given = [_as_argument(program, name, shapes, k) for k, name in enumerate(made)]
        known = [g for g in given if g is not None]
        if len(known) == len(made):
            smaller = replace(program, given=(*program.given, *known), lines=without)
            for name, argument in zip(made, known, strict=True):
                smaller = _renamed(smaller, name, argument.name)
            yield smaller.used()
    for n, given_ in enumerate(program.given):
        for plainer in (replace(given_, view=""), replace(given_, frozen=False)):
            if plainer != given_:
                yield replace(program, given=(*program.given[:n], plainer, *program.given[n + 1 :]))


def _shapes(program: Program) -> dict[str, tuple[tuple[int, ...], str]]:
    views = program.views(program.contents(1))
    everything = dict.fromkeys(name for line in program.lines for name in made_by(line))
    whole = replace(program, returned=tuple(everything))
    function = whole.function({name: v for name, v in views.items() if name[0] == "c"})
    with cp.options(convolution_error=program.error):
        found = function(*(views[g.name] for g in program.arguments))
    arrays = {**views, **dict(zip(everything, found, strict=True))}
    return {name: (tuple(a.shape), str(a.dtype)) for name, a in arrays.items()}


def _as_argument(
    program: Program, name: str, shapes: dict[str, tuple[tuple[int, ...], str]], k: int
) -> Given | None:
    if name not in shapes or shapes[name][1] == "bool":
        return None
    shape, dtype = shapes[name]
    number = max((int(g.name[1:]) for g in program.given), default=-1) + 1 + k
    kinds = {g.kind for g in program.given if g.kind != "index"} or {"whole"}
    kind = min(kinds) if dtype.startswith("float") else "whole"
    return Given(f"a{number}", shape, dtype, kind=kind)


def _renamed(program: Program, old: str, new: str) -> Program:
    word = re.compile(rf"\b{old}\b")
    return replace(
        program,
        lines=tuple(word.sub(new, line) for line in program.lines),
        returned=tuple(word.sub(new, name) for name in program.returned),
    )
