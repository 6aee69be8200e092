"""The gradient of a `Pairs` by those of its parts, a block of rows at a time.

It takes what has no gradient by further `Pairs`: results with an axis of their own, where a pair's
gradient is a sum along that axis, what keeps a greatest or least value, and arrays of all pairs.
The pairs of a block lie in memory while it is at work; blocks are cut so that these are few.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from clprim.arrays.creation import zeros
from clprim.gradients.kernels import make
from clprim.gradients.request import as_tuple, is_array
from clprim.language.rename import renamed

if TYPE_CHECKING:
    from clprim.primitives.pairs import Pairs

# Pairs of a block.
BLOCK = 1 << 22


def reading(arrays: Iterable[int], numbers: Iterable[int], text: str) -> str:
    """Reads those arrays and numbers that a text does not mention: none may be left out."""
    arrays = [n for n in arrays if not re.search(rf"\bx{n}\b", text)]
    numbers = [n for n in numbers if not re.search(rf"\bw{n}\b", text)]
    read = "".join(f"typeof_y0 cpn{n} = x{n};\n" for n in arrays)
    return read + "".join(f"(void)w{n};\n" for n in numbers)


def typed(text: str) -> str:
    """The text with the type of pairs for locals that stand for operands."""
    return text.replace("typeof_cpd", "typeof_y").replace("typeof_cpv", "typeof_y")


class PairsBlocks:
    """Gradients of a `Pairs` in some of its arrays."""

    def __init__(self, pairs: Pairs, wrt: Sequence[str]) -> None:
        self._pairs, definition = pairs, pairs.definition
        self._wanted = [int(name[1:]) for name in wrt]
        own, shared = definition.own, definition.shared
        mapped, inner = shared - own, definition.inner
        results = 0 if inner is None else inner.results
        names = {f"x{n}": f"x{n - own}" for n in range(own, shared)}
        names |= {f"reduce_y{n}": f"x{mapped + n}" for n in range(results)}
        text = typed(renamed(definition.expr, names))
        text = reading(range(mapped + results), range(definition.scalars), text) + text
        self._map = make("Pointwise", text, preamble=definition.preamble)
        self._of_inner = [f"x{k}" for k in self._wanted if k < own]
        handed = [f"x{mapped + n}" for n in range(results)] if self._of_inner else []
        self._of_map = [f"x{k - own}" for k in self._wanted if own <= k < shared]
        self._values = definition.values if handed or self._of_map else 0
        last = [f"x{definition.values + k - shared}" for k in self._wanted if k >= shared]
        self._outer = pairs.outer.gradient([f"x{n}" for n in range(self._values)] + last)
        self._mapped = self._map.gradient(self._of_map + handed) if self._values else None
        self._inner = None
        if self._of_inner:
            assert pairs.inner is not None
            self._inner = pairs.inner.gradient(self._of_inner)

    def __call__(
        self, arrays: Sequence[Any], numbers: Sequence[Any], grads: Sequence[Any], axis: int
    ) -> tuple[Any, ...]:
        """Computes the gradients."""
        shape = self._pairs.shape_of([a.shape for a in arrays])
        reduced, kept = (-1, -2) if axis == -1 else (-2, -1)
        a_row = math.prod(shape[:-2]) * shape[reduced]
        step = max(1, BLOCK // max(1, a_row))
        found = [zeros(arrays[k].shape, arrays[k].dtype) for k in self._wanted]
        for begin in range(0, shape[kept], step):
            block = slice(begin, begin + step)
            places = [_place(a, kept - self._has_axis(k), block) for k, a in enumerate(arrays)]
            parts = [a if p is None else a[p] for a, p in zip(arrays, places, strict=True)]
            own_axis = int(self._pairs.definition.spread)
            cut = (..., block, *[slice(None)] * own_axis)
            given = [g[cut] if is_array(g) else g for g in grads]
            made = self._of_block(parts, numbers, given, axis)
            for n, (k, part) in enumerate(zip(self._wanted, made, strict=True)):
                if places[k] is None:
                    found[n] += part
                else:
                    found[n][places[k]] = part
        return tuple(found)

    def _has_axis(self, k: int) -> int:
        """1 for an array that has one more axis than pairs."""
        definition = self._pairs.definition
        return int(not definition.own <= k < definition.shared)

    def _of_block(
        self, arrays: Sequence[Any], numbers: Sequence[Any], grads: Sequence[Any], axis: int
    ) -> list[Any]:
        """The gradients that the pairs of a block make."""
        pairs, definition = self._pairs, self._pairs.definition
        own, shared, spread = definition.own, definition.shared, int(definition.spread)
        inner, mapped, last = arrays[:own], arrays[own:shared], arrays[shared:]

        def taken(operator: Any) -> Sequence[Any]:
            return numbers[: operator.definition.scalars]

        between: tuple[Any, ...] = ()
        if pairs.inner is not None:
            between = as_tuple(pairs.inner(*inner, *taken(pairs.inner), axis=-1))
        values = as_tuple(self._map(*mapped, *between, *taken(self._map)))
        lines = [v.reshape((*v.shape, 1)) if spread else v for v in values]
        made = as_tuple(
            self._outer(*lines, *last, *taken(pairs.outer), grad=tuple(grads), axis=axis - spread)
        )
        of_last = list(made[self._values :])
        if self._mapped is None:
            return of_last
        of_values = [g.reshape(v.shape) for g, v in zip(made, values, strict=False)]
        made = as_tuple(self._mapped(*mapped, *between, *taken(self._map), grad=tuple(of_values)))
        of_mapped, handed = list(made[: len(self._of_map)]), made[len(self._of_map) :]
        of_inner: list[Any] = []
        if self._inner is not None:
            of_inner = list(
                as_tuple(self._inner(*inner, *taken(pairs.inner), grad=tuple(handed), axis=-1))
            )
        order = [k for k in self._wanted if k < own]
        order += [k for k in self._wanted if own <= k < shared]
        order += [k for k in self._wanted if k >= shared]
        by = dict(zip(order, [*of_inner, *of_mapped, *of_last], strict=True))
        return [by[k] for k in self._wanted]


def _place(array: Any, axis: int, block: slice) -> tuple[Any, ...] | None:
    """Where a block lies in an array along an axis; None where it has but one for all."""
    if array.ndim < -axis or array.shape[axis] == 1:
        return None
    return (..., block, *[slice(None)] * (-axis - 1))
