"""Decompositions of matrices, and what follows from them, by kernels of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array
from clprim.call.forms import register_form
from clprim.call.primitive import Primitive, Request, Target, run
from clprim.dtypes import real_dtype, require_supported
from clprim.plan.decomposition.family import DECOMPOSITIONS
from clprim.plan.decomposition.problem import Decomposition, Side
from clprim.plan.kernel import Plan
from clprim.plan.strides import Dim, Operand, Space, collapse, dense_strides
from clprim.traits import DeviceTraits

_INT32 = np.dtype(np.int32)
_WHOLE = ("pivots", "info")
_REAL = ("w", "s", "logabs")


class Options(NamedTuple):
    """What a call is told beside its arrays."""

    kind: str
    results: tuple[str, ...]
    k: int = 0  # Columns of a unitary matrix
    unit: bool = False  # Whether a triangle's diagonal is taken for ones
    upper: bool = False  # Whether it is an upper one


class _Problem(NamedTuple):
    """What a call computes."""

    results: tuple[Operand, ...]
    given: tuple[str, ...]
    decomposition: Decomposition


class _Decompose(Primitive):
    """Decomposes matrices, the last two axes of an array; a second one is what is solved for."""

    complex_numbers = True

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        a, options = request.operands[0], request.options
        require_supported([a.dtype], target.traits, str(target))
        *lead, m, n = a.shape
        k = n if options.kind == "inv" else options.k
        if len(request.operands) > 1:
            k = request.operands[1].shape[-1]
        parts, rank = real_dtype(a.dtype), min(m, n)
        made = []
        for name in options.results:
            core = {
                **{"x": (n, k), "lu": (m, n), "pivots": (rank,), "l": (n, n)},
                **{"q": (m, k), "r": (k, n), "h": (m, n), "tau": (rank,)},
                **{"w": (n,), "s": (n,), "u": (m, n), "v": (n, n)},
            }.get(name, ())
            dtype = _INT32 if name in _WHOLE else parts if name in _REAL else a.dtype
            shape = (*lead, *core)
            strides = dense_strides(shape, dtype.itemsize, range(len(shape)))
            made.append(Operand(shape, strides, 0, dtype))
        given = ("a", "b")[: len(request.operands)]
        operands = [*request.operands, *made]
        space, sides = _sides((*given, *options.results), operands, len(lead))
        if options.upper:
            sides = tuple(_backwards(side, n) for side in sides)
        found = Decomposition(
            options.kind,
            m,
            n,
            k,
            tuple(d.size for d in space.dims),
            sides[: len(given)],
            sides[len(given) :],
            parts,
            2 if a.dtype.kind == "c" else 1,
            options.unit,
        )
        return _Problem(tuple(made), given, found)

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        what = problem.decomposition
        return DECOMPOSITIONS.plan(what, traits) if what.count and what.m and what.n else None

    def names(self, problem: _Problem) -> Sequence[str]:
        """The results, then the arrays."""
        return *(side.name for side in problem.decomposition.results), *problem.given


def _sides(
    names: Sequence[str], operands: Sequence[Operand], lead: int
) -> tuple[Space, tuple[Side, ...]]:
    """Returns the loops from one matrix to the next, and where arrays lie, in reals."""
    steps, starts = [], []
    for operand in operands:
        itemsize = operand.dtype.itemsize // (2 if operand.dtype.kind == "c" else 1)
        steps.append([s // itemsize for s in operand.strides])
        starts.append(operand.offset // itemsize)
    loops = (Dim(operands[0].shape[d], tuple(s[d] for s in steps)) for d in range(lead))
    space = collapse(Space(tuple(loops), tuple(starts)), flip=False)
    if not space.dims:
        space = Space((Dim(1, (0,) * len(operands)),), space.offsets)
    sides = []
    for n, (name, operand) in enumerate(zip(names, operands, strict=True)):
        row, column = (*steps[n][lead:], 0, 0)[:2]
        strides = tuple(d.strides[n] for d in space.dims)
        parts = 2 if operand.dtype.kind == "c" else 1
        whole = operand.dtype == _INT32
        sides.append(Side(name, space.offsets[n], row, column, strides, parts, whole))
    return space, tuple(sides)


def _backwards(side: Side, n: int) -> Side:
    """Returns a side with the last row first, by which an upper triangle is a lower one."""
    column = side.column if side.name == "a" else 0
    start = side.start + (n - 1) * (side.row + column)
    turned = -column if side.name == "a" else side.column
    return replace(side, start=start, row=-side.row, column=turned)


_decompose = _Decompose("linalg", "decomposition")
register_form("decomposition", lambda: _decompose, Options)


def decompose(options: Options, *arrays: Any) -> tuple[Array, ...]:
    """Returns what is asked for of matrices; leading axes of two arrays are alike."""
    return run(_decompose, arrays, options=options)
