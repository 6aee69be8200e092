"""The user's string on scores of attention, checked, and in the forms that kernels take it in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from clprim.arrays.array import view_of
from clprim.arrays.creation import full
from clprim.dtypes import AnyDType, stored_type
from clprim.gradients.pointwise import derive_pointwise
from clprim.gradients.request import is_floating
from clprim.language.composed import Composed
from clprim.language.definition import define_pointwise
from clprim.language.epilogue_snippet import appended, define_epilogue
from clprim.language.snippet import Snippet
from clprim.ops.shared.dims import spread
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.ops.shared.strings import kernel
from clprim.plan.fused.score import Score as Told
from clprim.runtime.device import current_device


@dataclass(frozen=True)
class Score:
    """A string with what it reads, on scores of a shape (…, heads, queries, keys)."""

    snippet: Snippet
    given: tuple[Any, ...]  # Arrays as they are
    thin: tuple[Any, ...]  # These with as many dimensions as scores, heads of queries apart
    arrays: tuple[Any, ...]  # Of the shape of scores
    numbers: tuple[Any, ...]
    full: tuple[int, ...]
    groups: int

    def told(self, first: int, real: str | None) -> Told:
        """Returns what kernels are told, for gradients the derivative on numbers of a type.

        Its numbers are those of a call from ``first`` on.
        """
        text, batch = self.snippet.text, self.full[:-2]
        if real is None:
            return Told(text, batch=batch, first=first)
        kinds = tuple(stored_type(a.dtype).value for a in self.given)
        kinds = tuple(real if k in ("half", "float", "double") else k for k in kinds)
        return Told(text, *_slope(text, kinds, len(self.numbers), real), batch, first)

    def composed(self, first: str, arrays: int, begin: str = "") -> Composed:
        """Returns the string behind one that has so many arrays, and ``w0``.

        Queries are counted from ``begin`` on, by default a number; numbers are those of `told_to`.
        """
        n, numbers = len(self.full), 1
        if self._moves and not begin:
            begin, numbers = "(long)w1", 2
        places = {}
        for function, d in self.snippet.dims:
            axis = d % n
            here = f"coord({axis})"
            if axis == n - 2:
                here = f"(coord(-2) + {begin})"
            elif axis == n - 1:
                here = "coord(-1)"
            elif axis == n - 3 and self.groups > 1:
                here = f"(coord(-4) * {self.groups} + coord(-3))"
            if function == "size":
                here = f"(long)w{numbers + self._sizes.index(self.full[axis])}"
            places[function, d] = here
        return appended(first, self.snippet, arrays, numbers + len(self._sizes), places)

    def block(self, queries: slice, keys: slice) -> list[Any]:
        """Returns the arrays of some queries and keys."""
        whole = slice(None)
        return [
            a[..., queries if a.shape[-2] > 1 else whole, keys if a.shape[-1] > 1 else whole]
            for a in self.thin
        ]

    def told_to(self, scale: float, first: int | None) -> tuple[float, ...]:
        """Returns the numbers of a composed string, of queries from ``first`` on."""
        moves = [first] if self._moves and first is not None else []
        return (scale, *moves, *self._sizes, *self.numbers)

    def zeros(self, dtype: AnyDType) -> list[Any]:
        """Returns zeros for gradients of the arrays, None of integers."""
        return [full(a.shape, 0, dtype) if is_floating(a.dtype) else None for a in self.thin]

    def shaped(self, gradients: list[Any]) -> tuple[Any, ...]:
        """Returns them as the arrays are."""
        return tuple(
            None if g is None else kernel("y0 = x0;", "copy", x.dtype)(g).reshape(x.shape)
            for g, x in zip(gradients, self.given, strict=True)
        )

    @property
    def epilogue(self) -> Composed:
        """The string behind a product."""
        return self.composed("y0 *= w0;", 0)

    @property
    def pointwise(self) -> Composed:
        """The string on stored products."""
        return self.composed("y0 = x0 * w0;", 1)

    @property
    def _moves(self) -> bool:
        """Whether it asks which query it is."""
        return ("coord", len(self.full) - 2) in self._asked

    @property
    def _sizes(self) -> list[int]:
        """The sizes that it asks for."""
        return sorted({self.full[axis] for function, axis in self._asked if function == "size"})

    @property
    def _asked(self) -> set[tuple[str, int]]:
        return {(function, d % len(self.full)) for function, d in self.snippet.dims}


def checked_score(
    what: str,
    score: Any,
    args: Any,
    full: tuple[int, ...],
    groups: int,
    split: Callable[[Any], Any],
) -> Score | None:
    """Checks a string and what it reads; None where there is none."""
    found = check_epilogue(what, current_device(), score, args, full, part="score")
    if found.snippet is None:
        return None
    if "index" in found.snippet.used:
        problem = "'index' is unknown: a score has coord(d), of heads, queries and keys"
        raise found.snippet.error("index", problem)
    arrays, numbers = split_arguments(args)
    thin, whole = [], []
    for array in arrays:
        ones = len(full) - array.ndim
        shape, strides = (1,) * ones + array.shape, (0,) * ones + array.strides
        thin.append(split(view_of(array, shape, strides, array.offset)))
        whole.append(split(spread(array, full)))
    given = tuple(thin), tuple(whole), tuple(map(float, numbers))
    return Score(found.snippet, arrays, *given, full, groups)


@lru_cache(maxsize=256)
def _slope(text: str, kinds: tuple[str, ...], numbers: int, real: str) -> tuple[str, str]:
    """The derivative of a string as `Told` has it, and functions that it calls."""
    snippet = define_epilogue("scaled_dot_product_attention", text, part="score")
    count = len(kinds)
    # What is changed comes behind the arrays, and then its gradient.
    definition = define_pointwise(
        appended(f"y0 = x{count};", snippet, 0, 0), name=None, preamble="", part="score"
    )
    names = [f"x{n}" for n in range(count)]
    ctypes = {**dict(zip(names, kinds, strict=True)), f"x{count}": real}
    ctypes |= {f"w{n}": real for n in range(numbers)}
    wrt = (f"x{count}",)
    derivation = derive_pointwise(definition, real, ctypes, [real], ["array"], wrt)
    called = [f"gx{count}"]
    slope = derivation.snippet(
        [("y0", called[0])], lambda name: f"x{count + 1}" if name == "gy0" else name
    )
    return slope, derivation.helpers(called)
