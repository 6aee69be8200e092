"""Fourier transforms along an axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray
from clprim.call.arguments import check_aliases
from clprim.call.forms import register_form
from clprim.call.primitive import NoPlanError, Primitive, Request, Target, planned_by, run
from clprim.dtypes import AnyDType, complex_dtype, real_dtype, require_supported
from clprim.language.definition import define_pointwise
from clprim.plan.fourier.family import FOURIER
from clprim.plan.fourier.lengths import Recipe, in_pairs, recipe, table_of
from clprim.plan.fourier.problem import Side, Strung, Transform
from clprim.plan.kernel import Plan
from clprim.plan.strides import (
    Dim,
    Operand,
    Space,
    broadcast_strides,
    collapse,
    dense_strides,
)
from clprim.primitives.partials import default_types
from clprim.primitives.pointwise import Pointwise
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
    # The user's strings on what is read and on what is written, and how many arrays and numbers
    # the first one reads beside
    load: str = ""
    store: str = ""
    arrays: int = 0
    numbers: int = 0


class _Problem(NamedTuple):
    """What a call computes."""

    results: tuple[Operand, ...]
    transform: Transform | None  # None where no kernel runs the strings


class Fourier(Primitive):
    """Transforms along an axis; the table of roots is given beside the array."""

    complex_numbers = True

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        x, options = request.operands[0], request.options
        require_supported([x.dtype], target.traits, str(target))
        parts = parts_of(x.dtype)
        given_pairs = options.pairs and x.shape[-1] == 2
        load, loaded = _strung(request, target, "load", x)
        shape = [*x.shape]
        shape[options.axis] = options.kept
        if options.pairs:
            shape[-1] = 1 if options.real else 2
        dtype = parts if options.real or options.pairs else complex_dtype(parts)
        store, y = _strung(request, target, "store", _dense(tuple(shape), dtype))
        check_aliases(self.what, request.outs, request.operands[:1])
        check_aliases(self.what, request.outs, request.operands[1:], same_allowed=False)
        in_place = any(out == x and out.memory == x.memory for out in request.outs)
        if in_place and (y.shape, y.dtype) != (x.shape, x.dtype):
            return _Problem((x,), None)
        y = next((out for out in request.outs if (out.shape, out.dtype) == (y.shape, y.dtype)), y)
        strung = [each for each in (load, store) if each is not None]
        if not all(each.sides is not None for each in strung):
            return _Problem((y,), None)
        part_x = x.strides[-1] // parts.itemsize if given_pairs else int(x.dtype.kind == "c")
        part_y = int(y.dtype.kind == "c" or (options.pairs and not options.real))
        sides = [side for each in strung for side in each.sides]
        found, placed = _transform(x, y, parts, (part_x, part_y), options, sides)
        real = options.real if options.half else not (given_pairs or loaded.dtype.kind == "c")
        load, store = (
            each and replace(each, sides=tuple(islice(placed, len(each.sides))))
            for each in (load, store)
        )
        found = replace(found, real=real, load=load, store=store, in_place=in_place)
        return _Problem((y,), found)

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        what = problem.transform
        if what is None or (what.count and not what.runs_strings(traits)):
            raise NoPlanError
        return planned_by(FOURIER, what, traits) if what.count else None

    def names(self, problem: _Problem) -> Sequence[str]:
        """The result, the array, the table, and what strings read."""
        found, what = ["y", "x", "table"], problem.transform
        for strung in (what.load, what.store) if what else ():
            found += [side.buffer for side in strung.sides] if strung else []
        return found

    def snippets(self, problem: _Problem) -> Mapping[str, str]:
        """The strings."""
        what = problem.transform
        given = {"load": what.load, "store": what.store} if what else {}
        return {part: s.definition.expr.text for part, s in given.items() if s is not None}


def parts_of(dtype: AnyDType) -> np.dtype[Any]:
    """Returns the dtype that real parts of what has this dtype are computed in."""
    real = real_dtype(dtype)
    return np.dtype(np.float64 if real == np.float64 else np.float32)


def _dense(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Operand:
    return Operand(shape, dense_strides(shape, dtype.itemsize, range(len(shape))), 0, dtype)


@lru_cache(maxsize=256)
def elementwise(part: str, text: str) -> Pointwise:
    """Returns the primitive of a string on what is read, or on what is written.

    Raises:
        DefinitionError: It is wrong; the message shows its line with a caret.
    """
    define_pointwise(text, name=part, preamble="", part=part)
    return Pointwise(text, name=part)


def _strung(
    request: Request, target: Target, part: str, x: Operand
) -> tuple[Strung | None, Operand]:
    """Returns a string, whose sides are None where no kernel runs it, and what it makes of x."""
    options, load = request.options, part == "load"
    text = options.load if load else options.store
    if not text:
        return None, x
    arrays, numbers = request.operands[2:], request.numbers[1:]
    arrays = arrays[: options.arrays] if load else arrays[options.arrays :]
    numbers = numbers[: options.numbers] if load else numbers[options.numbers :]
    told = elementwise(part, text).problem(Request((x, *arrays), numbers), target)
    y, definition, parts = told.results[0], told.definition, parts_of(x.dtype)
    fits = (
        y.shape == x.shape
        and definition.results == 1
        and x.dtype in (parts, complex_dtype(parts))
        and y.dtype in (parts, complex_dtype(parts))
        and not (definition.expr.lookups or definition.expr.dims or definition.draws)
        and "index" not in definition.expr.used
    )
    sides: Any = None
    if fits:
        steps = [broadcast_strides(a, x.shape) for a in arrays]
        sides = tuple(
            Side(f"{part}_x{k}", a.in_elements(a.offset), 0, 0, tuple(step))
            for k, (a, step) in enumerate(zip(arrays, steps, strict=True), 1)
        )
    first = 1 if load else 1 + options.numbers
    dtypes = tuple(a.dtype for a in arrays)
    found = Strung(definition, x.dtype, y.dtype, sides, dtypes, told.scalars, first)
    return found, y if load else _dense(y.shape, y.dtype)


def _transform(
    x: Operand,
    y: Operand,
    parts: np.dtype[Any],
    between: tuple[int, int],
    options: Options,
    more: Sequence[Side],
) -> tuple[Transform, Iterator[Side]]:
    """Returns a transform, and where lies what strings read."""
    axes = [d for d in range(len(x.shape) - options.pairs) if d != options.axis]
    bytes_of = [(o, real_dtype(o.dtype).itemsize) for o in (x, y)]
    steps = [[s // size for s in o.strides] for o, size in bytes_of]
    steps += [[*side.strides] for side in more]
    loops = tuple(Dim(x.shape[d], tuple(each[d] for each in steps)) for d in axes)
    starts = (*(o.offset // size for o, size in bytes_of), *(side.start for side in more))
    space = collapse(Space(loops, starts), flip=False)
    dims = space.dims or (Dim(1, (0,) * len(steps)),)

    def side(k: int, name: str, part: int = 0) -> Side:
        walked = tuple(d.strides[k] for d in dims)
        return Side(name, space.offsets[k], steps[k][options.axis], part, walked)

    found = Transform(
        options.n,
        tuple(d.size for d in dims),
        side(0, "x", between[0]),
        side(1, "y", between[1]),
        parts,
        real_dtype(x.dtype),
        options.inverse,
        x.shape[options.axis],
        options.kept,
        options.half,
    )
    return found, (side(k, each.buffer) for k, each in enumerate(more, 2))


_fourier = Fourier("fourier")
register_form("fourier", lambda: _fourier, Options)


@lru_cache(maxsize=256)
def _table(made: Recipe, inverse: bool, parts: str, device: Device) -> Array:
    table = table_of(made, inverse).view(np.float64).astype(parts)
    with tracing.switched_to(None):  # what is kept here belongs to no trace
        return asarray(table, device=device)


def transform(
    x: Any,
    options: Options,
    scale: float,
    arrays: Sequence[Any] = (),
    numbers: Sequence[Any] = (),
    outs: tuple[Any, ...] = (),
) -> Array:
    """Returns the transforms of an array along an axis, times a number; its place may be x's.

    Raises:
        NoPlanError: No kernel runs the strings, or writes to the place of x.
    """
    device = current_device()
    itemsize = parts_of(x.dtype).itemsize
    parts = x.shape[-1] if options.pairs else 1
    have = x.shape[options.axis]
    whole = parts == 1 and not is_complex_in(x, options, arrays, numbers)
    real = options.real if options.half else whole
    halved = real and in_pairs(options.n, have, options.kept, options.half)
    made = recipe(options.n, x.size // max(1, have * parts), itemsize, device.traits, halved)
    table = _table(made, options.inverse, f"f{itemsize}", device)
    return run(_fourier, (x, table, *arrays), (scale, *numbers), outs, options)[0]


def is_complex_in(x: Any, options: Options, arrays: Sequence[Any], numbers: Sequence[Any]) -> bool:
    """Whether what is transformed is complex, after the string on what is read."""
    if not options.load:
        return bool(x.dtype.kind == "c")
    dtypes = [x.dtype, *(a.dtype for a in arrays[: options.arrays])]
    dtypes += [
        complex_dtype(x.dtype)
        if isinstance(w, (complex, np.complexfloating))
        else real_dtype(x.dtype)
        for w in numbers[: options.numbers]
    ]
    definition = elementwise("load", options.load).definition
    return default_types(definition, dtypes, x.dtype)[0].kind == "c"
