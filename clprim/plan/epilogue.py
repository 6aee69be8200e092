"""What becomes of a sum where it is stored: the one value that products and convolutions share.

A problem's arrays lie in places of its own kind, so an epilogue is generic in them: operators begin
with operands that broadcast to the result, a `Convolution` has a `Place` of each, a `Contraction`
an `Output`. Where in the result an element is (``index``, ``coord(d)``) is its address in an array
that is not there, and so walks with the loops as all the others do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

from clprim.dtypes import AnyDType
from clprim.language.componentwise import is_componentwise, needs_float
from clprim.language.epilogue_snippet import appended, define_epilogue
from clprim.language.rename import renamed
from clprim.language.snippet import Snippet
from clprim.plan.strides import Operand, dense_strides

# Of an address: what a kernel counts elements in.
POSITION = np.dtype(np.int64)


class Named(Protocol):
    """A place of an array that a kernel knows by name."""

    @property
    def name(self) -> str:
        """``bias``, ``x0``, ``x1``, …, ``index``, ``coord_0``, …."""


@dataclass(frozen=True)
class Read:
    """An array as the user gave it, which broadcasts to the result; or a further result."""

    name: str
    operand: Operand


P = TypeVar("P", bound=Named)
Q = TypeVar("Q", bound=Named)


@dataclass(frozen=True)
class Epilogue(Generic[P]):
    """What becomes of a sum, in this order: the bias, the user's snippet, the old result."""

    snippet: Snippet | None = None  # On ``y0``; None where there is none
    # Where what is read lies: first the ``bias``, which is added before the snippet, if there is
    # one, then ``x0``, …, a second result ``y1`` that is written, then positions
    arrays: tuple[P, ...] = ()
    numbers: int = 0  # How many run-time numbers ``w0``, … there are: the call's scalars from 1 on
    # Dimensions that are asked for, as (dimension as written, axis of ``shape``)
    coords: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    shape: tuple[int, ...] = ()
    # Whether ``beta`` times the old result is added, with beta the call's scalar 0
    beta: bool = False
    in_place: bool = False  # Whether the result takes the place of one of the arrays

    @property
    def has_bias(self) -> bool:
        """Whether a bias is added."""
        return any(a.name == "bias" for a in self.arrays)

    @property
    def texts(self) -> dict[str, str]:
        """What the user wrote, by the names of parts, for the compiler's complaints."""
        snippet = self.snippet
        if snippet is None:
            return {}
        return {snippet.rules.part: snippet.text} | {p.part: p.text for p in snippet.pieces}

    def on_vectors(self, value: AnyDType) -> bool:
        """Whether vectors of a dtype compute the same."""
        if self.snippet is None:
            return True
        alone = not any(is_position(a.name) for a in self.arrays)
        floats = value.kind == "f" or not needs_float(self.snippet)
        return alone and floats and is_componentwise(self.snippet)

    def placed(self, place: Callable[[P], Q]) -> Epilogue[Q]:
        """Returns the same for a problem whose arrays lie in places of another kind."""
        arrays = tuple(place(a) for a in self.arrays)
        return replace(cast(Epilogue[Any], self), arrays=arrays)

    def then(self, other: Epilogue[P]) -> Epilogue[P]:
        """Returns this epilogue with another one behind it, of a result of the same shape."""
        if self.beta or other.has_bias:
            raise ValueError("bias, snippet and old result are added in this order, once each")
        if other.snippet is None:
            return replace(self, beta=other.beta)
        mine = sum(a.name[0] == "x" for a in self.arrays)
        snippet = other.snippet
        if self.snippet is not None:
            text = appended(renamed(self.snippet, {}), snippet, mine, self.numbers)
            snippet = define_epilogue(self.snippet.rules.owner, text)
        known = {a.name for a in self.arrays}
        others = [
            _called(a, f"x{int(a.name[1:]) + mine}") if a.name[0] == "x" else a
            for a in other.arrays
            if a.name not in known or not is_position(a.name)
        ]
        return Epilogue(
            snippet,
            tuple(sorted((*self.arrays, *others), key=lambda a: is_position(a.name))),
            self.numbers + other.numbers,
            tuple(sorted({*self.coords, *other.coords})),
            tuple(sorted({*self.sizes, *other.sizes})),
            self.shape or other.shape,
            other.beta,
        )


#: Sums are stored as they are.
NO_EPILOGUE: Epilogue[Any] = Epilogue()


def _called(place: P, name: str) -> P:
    found: P = replace(cast(Any, place), name=name)
    return found


def is_result(name: str) -> bool:
    """Whether an epilogue's array of that name is written: a result beside the sum's own."""
    return name[0] == "y"


def is_position(name: str) -> bool:
    """Whether an epilogue's array of that name is not there: its address is what is read."""
    return name == "index" or name.startswith("coord_")


def positions(
    snippet: Snippet, coords: tuple[tuple[int, int], ...], shape: tuple[int, ...]
) -> list[Read]:
    """Returns the arrays that are not there: what a snippet asks where it is."""
    found = []
    if "index" in snippet.used:
        found.append(("index", dense_strides(shape, POSITION.itemsize, range(len(shape)))))
    for axis in sorted({axis for _, axis in coords}):
        steps = tuple(POSITION.itemsize if d == axis else 0 for d in range(len(shape)))
        found.append((f"coord_{axis}", steps))
    return [Read(name, Operand(shape, strides, 0, POSITION)) for name, strides in found]
