"""Fourier transforms along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.call.forms import register_form
from clprim.call.primitive import Primitive, Request, Target, run
from clprim.dtypes import complex_dtype, real_dtype, require_supported
from clprim.plan.fourier.family import FOURIER
from clprim.plan.fourier.problem import Recipe, Side, Transform, in_pairs, recipe, table_of
from clprim.plan.kernel import Plan
from clprim.plan.strides import Dim, Operand, Space, collapse, dense_strides
from clprim.runtime import tracing
from clprim.runtime.device import Device, current_device
from clprim.traits import DeviceTraits


class Options(NamedTuple):
    """What a call is told beside the array."""

    n: int  # The length of a transform
    axis: int
    inverse: bool
    kept: int  # Numbers that are wanted
    half: bool  # Whether what is given is half a spectrum
    real: bool  # Whether results are real
    pairs: bool  # Whether the last axis holds real and imaginary parts


class _Problem(NamedTuple):
    """What a call computes."""

    results: tuple[Operand, ...]
    transform: Transform


class _Fourier(Primitive):
    """Transforms along an axis; the table of roots is given beside the array."""

    complex_numbers = True

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        x, options = request.operands[0], request.options
        require_supported([x.dtype], target.traits, str(target))
        shape = [*x.shape]
        shape[options.axis] = options.kept
        given_pairs = options.pairs and x.shape[-1] == 2
        parts = real_dtype(x.dtype)
        dtype = parts if options.real or options.pairs else complex_dtype(parts)
        if options.pairs:
            shape[-1] = 1 if options.real else 2
        y = Operand(
            tuple(shape), dense_strides(tuple(shape), dtype.itemsize, range(len(shape))), 0, dtype
        )
        complex_x = given_pairs or x.dtype.kind == "c"
        part_x = x.strides[-1] // parts.itemsize if given_pairs else int(complex_x)
        return _Problem((y,), _transform(x, y, parts, part_x, options))

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        return FOURIER.plan(problem.transform, traits) if problem.transform.count else None

    def names(self, problem: _Problem) -> Sequence[str]:
        """The result, the array, and the table."""
        del problem
        return "y", "x", "table"


def _transform(
    x: Operand, y: Operand, parts: np.dtype[Any], part_x: int, options: Options
) -> Transform:
    axes = [d for d in range(len(x.shape) - options.pairs) if d != options.axis]
    steps = [[s // parts.itemsize for s in o.strides] for o in (x, y)]
    loops = tuple(Dim(x.shape[d], (steps[0][d], steps[1][d])) for d in axes)
    space = collapse(Space(loops, (x.offset // parts.itemsize, 0)), flip=False)
    dims = space.dims or (Dim(1, (0, 0)),)
    sides = [
        Side(
            name, space.offsets[k], steps[k][options.axis], part, tuple(d.strides[k] for d in dims)
        )
        for k, (name, part) in enumerate((("x", part_x), ("y", int(not options.real))))
    ]
    return Transform(
        options.n,
        tuple(d.size for d in dims),
        sides[0],
        sides[1],
        parts,
        options.inverse,
        x.shape[options.axis],
        options.kept,
        options.half,
    )


_fourier = _Fourier("fourier")
register_form("fourier", lambda: _fourier, Options)


@lru_cache(maxsize=256)
def _table(made: Recipe, inverse: bool, parts: str, device: Device) -> Array:
    table = table_of(made, inverse).view(np.float64).astype(parts)
    with tracing.switched_to(None):  # what is kept here belongs to no trace
        return asarray(table, device=device)


def transform(x: Any, options: Options, scale: float) -> Array:
    """Returns the transforms of an array along an axis, times a number."""
    device = current_device()
    itemsize = real_dtype(x.dtype).itemsize
    parts = x.shape[-1] if options.pairs else 1
    have = x.shape[options.axis]
    real = options.real if options.half else x.dtype.kind != "c" and parts == 1
    halved = real and in_pairs(options.n, have, options.kept, options.half)
    made = recipe(options.n, x.size // max(1, have * parts), itemsize, device.traits, halved)
    table = _table(made, options.inverse, f"f{itemsize}", device)
    return run(_fourier, (x, table), (scale,), options=options)[0]
