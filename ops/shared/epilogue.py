"""Epilogues behind a string: a snippet on ``y0`` that runs where ``y0`` is computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.call.arguments import check_array
from clprim.errors import DefinitionError, ShapeError
from clprim.language.composed import Composed, Piece
from clprim.language.epilogue import define_epilogue
from clprim.language.rename import renamed
from clprim.ops.shared.arguments import number
from clprim.plan.strides import broadcasts_to
from clprim.runtime.device import current_device

__all__ = ["append", "check_epilogue"]

_READS = frozenset(["x", "w", "index", "coord", "size"])


@lru_cache(maxsize=256)
def append(what: str, expr: str, epilogue: str | None, arrays: int, scalars: int) -> str:
    """Returns ``expr``, which has so many operands, with an epilogue after it.

    The epilogue's ``x0`` becomes the operand that follows those of ``expr``, and so on.

    Raises:
        DefinitionError: The epilogue is wrong; the message shows its line with a caret.
    """
    if epilogue is None:
        return expr
    snippet = define_epilogue(what, epilogue, _READS)
    names = {f"x{n}": f"x{n + arrays}" for n in snippet.numbers("x")}
    names |= {f"w{n}": f"w{n + scalars}" for n in snippet.numbers("w")}
    pieces = (Piece(expr.count("\n") + 2, "epilogue", snippet.text),)
    return Composed(f"{expr}\n{renamed(snippet, names)}", pieces)


def check_epilogue(
    what: str, epilogue: str | None, args: Sequence[Any], shape: tuple[int, ...]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Checks an epilogue and its arguments, and returns arrays and numbers.

    Args:
        what: The operator, for messages.
        epilogue: The snippet, or None.
        args: Its arrays ``x0``, …, then its numbers ``w0``, ….
        shape: Of the result, to which every array must broadcast.

    Raises:
        DefinitionError: The snippet is wrong, or there are arguments without one.
        ShapeError: Too many or too few arguments, an array that does not broadcast.
        DTypeError, DeviceError: No array, no number, an array of another context.
    """
    given = tuple(args) if isinstance(args, tuple | list) else (args,)
    if epilogue is None:
        if given:
            raise DefinitionError(f"{what}: epilogue_args= without epilogue=")
        return (), ()
    snippet = define_epilogue(what, epilogue, _READS)
    arrays, scalars = (max(snippet.numbers(f), default=-1) + 1 for f in ("x", "w"))
    if len(given) != arrays + scalars:
        names = [f"x{n}" for n in range(arrays)] + [f"w{n}" for n in range(scalars)]
        raise ShapeError(
            f"{what}: epilogue_args= holds {len(given)} arguments, the epilogue names "
            f"{len(names)} ({', '.join(names)})"
        )
    for n, array in enumerate(given[:arrays]):
        check_array(what, f"x{n} of the epilogue", array, current_device())
        if not broadcasts_to(array.shape, shape):
            raise ShapeError(
                f"{what}: x{n} of the epilogue has shape {array.shape}, which does not broadcast "
                f"to {shape}"
            )
    numbers = tuple(number(what, f"w{n} of the epilogue", w) for n, w in enumerate(given[arrays:]))
    return given[:arrays], numbers
