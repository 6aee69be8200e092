"""A program run twice as it is and twice compiled, on the same contents; nothing may differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import clprim as cp
from bench.torture.graphs.program import Program
from clprim.graph.check import SUMS, Units, allowed, difference
from clprim.graph.graph import Graph
from clprim.primitives.pointwise import Pointwise

# What smooth functions make of the roundings of their first lines, of the largest number.
_SMOOTH = {"float16": 100.0, "float32": 8192.0, "float64": 2.0**13}
# Of whole numbers that are folded into weights: nothing but the sign of a zero.
_ZEROS = dict.fromkeys(_SMOOTH, 2.0**-30)


def compared(program: Program, mode: str, changed: Counter[str] | None = None) -> str:
    """Returns how the compiled function differs; nothing where it does not."""
    with cp.options(convolution_error=program.error):
        return _compared(program, mode, Counter() if changed is None else changed)


def _compared(program: Program, mode: str, changed: Counter[str]) -> str:
    names = [g.name for g in program.arguments]
    frozen = tuple(g.name for g in program.given if g.frozen)
    captured = [g.name for g in program.given if g.name[0] == "c"]
    plain, traced = program.contents(1), program.contents(1)
    sides: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = []
    for wholes in (plain, traced):
        views = program.views(wholes)
        function = program.function({name: views[name] for name in captured})
        sides.append((function, wholes, views))
    compiled: Any = cp.jit(sides[1][0], constants=frozen)
    units: Units | None = None
    for seed in (1, 2):
        if seed == 2:
            sides = [_renewed(program, side, captured) for side in sides]
        results = []
        for side, call in zip(sides, (sides[0][0], compiled), strict=True):
            _, wholes, views = side
            found = call(*(views[name] for name in names))
            results.append((found, wholes, views))
        if units is None:
            views = results[1][2]
            known = compiled._compiled([views[name] for name in names], {})
            notes = known.replay.graph.notes
            changed.update({note.partition(":")[0] for note in notes})
            units = _units(mode, known.traced, known.replay.graph)
            if units is None:
                return ""
        own = [name for name in names if name not in frozen]
        why = _differ(*results, own, units)
        if why:
            return f"call {seed}: {why}"
    return ""


def _renewed(program: Program, side: Any, captured: list[str]) -> Any:
    """Gives a side other contents; what is captured gets them where it lies."""
    function, wholes, _ = side
    new = program.contents(2)
    for name in captured:
        wholes[name][...] = new[name]
        new[name] = wholes[name]
    return function, new, program.views(new)


def _units(mode: str, before: Graph, after: Graph) -> Units | None:
    """How far results may be apart; None where nothing can be said."""
    folded = any(note.startswith("batch norm folding") for note in after.notes)
    moved = any(note.startswith(("copy elision", "layout assignment")) for note in after.notes)
    sums = moved and any(not isinstance(n.primitive, Pointwise) for n in after.nodes)
    apart = allowed(before, after, SUMS if folded or sums else {})
    halves = any(
        str(o.dtype) in ("float16", "bfloat16") for n in after.nodes for o in (*n.reads, *n.writes)
    )
    if mode == "whole":
        return _ZEROS if folded else {}
    if not (apart or halves):
        return {}
    return _SMOOTH if mode == "smooth" else None


def _differ(plain: Any, compiled: Any, own: list[str], units: Units) -> str:
    (a, wholes_a, views_a), (b, wholes_b, views_b) = plain, compiled
    for n, (x, y) in enumerate(zip(a, b, strict=True)):
        if isinstance(x, cp.Array) != isinstance(y, cp.Array):
            return f"result {n}: {type(y)} for {type(x)}"
        if _steps(x) != _steps(y):
            return f"result {n} of shape {x.shape} has strides {y.strides} for {x.strides}"
        why = difference(x.get(), y.get(), units)
        if why:
            return f"result {n}: {why}"
        for name in own:
            shared = [r.base_data is v[name].base_data for r, v in ((x, views_a), (y, views_b))]
            if shared[0] != shared[1]:
                return f"result {n} shares the memory of {name}: {shared[1]} for {shared[0]}"
    for name, whole in wholes_a.items():
        why = difference(whole.get(), wholes_b[name].get(), units)
        if why:
            return f"afterwards {name}: {why}"
    return ""


def _steps(x: Any) -> list[int]:
    return [int(step) for size, step in zip(x.shape, x.strides, strict=True) if size > 1] * bool(
        np.prod(x.shape)
    )
