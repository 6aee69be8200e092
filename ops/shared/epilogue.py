"""Epilogues as users give them: a snippet on ``y0``, its arrays ``x0``, … and numbers ``w0``, …."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.memory import operand_of
from clprim.call.arguments import check_array
from clprim.call.primitive import Target
from clprim.dtypes import AnyDType, require_supported
from clprim.errors import DefinitionError, DTypeError, ShapeError
from clprim.language.composed import Composed
from clprim.language.epilogue_snippet import appended, define_epilogue, one
from clprim.ops.shared.checks import number
from clprim.ops.shared.ranks import Store
from clprim.ops.shared.strings import kernel
from clprim.plan.epilogue import Epilogue, Read, positions
from clprim.plan.snippets import resolve_dims
from clprim.plan.strides import Operand, broadcasts_to
from clprim.runtime.device import current_device

_FLOAT = np.dtype(np.float32)
_NUMBERS = (int, float, complex, np.number, np.bool_)


def split_arguments(args: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns an epilogue's arrays, and the numbers that end its arguments."""
    if args.__class__ is tuple and not args:
        return (), ()
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    end = len(given)
    while end and isinstance(given[end - 1], _NUMBERS):
        end -= 1
    return given[:end], given[end:]


def check_epilogue(
    what: str,
    device: Target,
    epilogue: Any,
    args: Any,
    shape: tuple[int, ...],
    value: AnyDType = _FLOAT,
    *,
    axes: Sequence[int] | None = None,
    others: Sequence[Operand] = (),
    part: str = "epilogue",
) -> Epilogue[Read]:
    """Returns an epilogue, what it reads, and what it writes besides."""
    given = tuple(args) if isinstance(args, tuple | list) else (args,)
    if epilogue is None:
        if given:
            raise DefinitionError(f"{what}: {part}_args= without {one(part)}=")
        if others:
            raise DefinitionError(f"{what}: {len(others) + 1} results without an epilogue=")
        return Epilogue()
    snippet = define_epilogue(what, epilogue, len(others) + 1, part)
    arrays, numbers = (max(snippet.numbers(f), default=-1) + 1 for f in ("x", "w"))
    names = [f"x{n}" for n in range(arrays)] + [f"w{n}" for n in range(numbers)]
    if len(given) != len(names):
        plural = "" if len(given) == 1 else "s"
        raise DefinitionError(
            f"{what}: {part}_args= holds {len(given)} argument{plural}, the {part} names "
            f"{len(names)} ({', '.join(names) or 'none'})"
        )
    reads = []
    for name, array in zip(names[:arrays], given, strict=False):
        label = f"{name} of the {part}"
        check_array(what, label, array, device)
        if not broadcasts_to(array.shape, shape):
            raise ShapeError(
                f"{what}: {label} has shape {array.shape}, which does not broadcast to {shape}"
            )
        if value.kind in "iu" and array.dtype.kind not in "biu":
            raise DTypeError(f"{what}: {label} is {array.dtype} beside sums of {value}")
        require_supported([array.dtype], device.traits, str(device))
        reads.append(Read(name, operand_of(array)))
    for name, given_number in zip(names[arrays:], given[arrays:], strict=True):
        number(what, f"{name} of the {part}", given_number, complexes=value.kind == "c")
    known = tuple(range(len(shape)) if axes is None else axes)
    dims = [(f, d, known[axis]) for f, d, axis in resolve_dims(what, [snippet], len(known))]
    coords, sizes = (
        tuple((d, axis) for function, d, axis in dims if function == wanted)
        for wanted in ("coord", "size")
    )
    reads += [Read(f"y{n + 1}", other) for n, other in enumerate(others)]
    reads += positions(snippet, coords, shape)
    return Epilogue(snippet, tuple(reads), numbers, coords, sizes, shape)


def append(what: str, expr: str, epilogue: str | None, arrays: int, numbers: int) -> str:
    """Returns an operator's snippet, which has so many operands, with an epilogue behind it."""
    if epilogue is None:
        return expr
    snippet = define_epilogue(what, epilogue)
    for kind, first in (("x", arrays), ("w", numbers)):
        named = snippet.numbers(kind)
        # What it passes over is given all the same.
        expr += "".join(
            f" (void){kind}{first + n};" for n in range(max(named, default=0)) if n not in named
        )
    found: Composed = appended(expr, snippet, arrays, numbers)
    return found


def stored(
    what: str,
    text: str,
    shape: tuple[int, ...],
    dtypes: Sequence[Any],
    given: tuple[Sequence[Any], Sequence[Any]],
    store: Store,
) -> Any:
    """Runs an operator's snippet of arrays and numbers, as its options say at the store."""
    arrays, numbers = given
    epilogue, args = store.get("epilogue"), store.get("epilogue_args", ())
    check_epilogue(what, current_device(), epilogue, args, shape)
    more, scalars = split_arguments(args)
    text = append(what, text, epilogue, len(arrays), len(numbers))
    run = kernel(text, what, *dtypes)
    return run(*arrays, *more, *numbers, *scalars, shape=shape, out=store.get("out"))
