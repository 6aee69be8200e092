"""The user's string on scores of attention: an epilogue of the product of queries and keys.

Kernels run it where scores are in registers, before a mask and softmax; gradients run its
derivative there. Coordinates are those of all scores, (…, heads, queries, keys).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.dtypes import AnyDType, stored_type
from clprim.language.componentwise import COMPARISONS, is_componentwise
from clprim.language.epilogue_snippet import define_epilogue
from clprim.language.node import walk
from clprim.language.rename import renamed
from clprim.language.snippet import Snippet
from clprim.language.tree import Binary, Call, Cast, Expr, Node
from clprim.plan.kernel import OperandCode
from clprim.plan.parameters import Arguments
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits

# Floats count no further.
_COUNTED = 2 ** (np.finfo(np.float32).nmant + 1)
_WHOLE = frozenset(["+", "-", "&&", "||", *COMPARISONS])


@dataclass(frozen=True)
class Score:
    """What attention is told of a string."""

    text: str
    # How the gradient of what the string changes follows from that of its result: a string too, of
    # what is changed and of the gradient, the arrays behind its own; and functions that it calls
    slope: str = ""
    preamble: str = ""
    batch: tuple[int, ...] = ()  # Sizes before queries and keys, heads among them
    first: int = 0  # Which of the call's numbers is ``w0``

    @property
    def snippet(self) -> Snippet:
        """The string, checked."""
        return define_epilogue("scaled_dot_product_attention", self.text, part="score")

    @property
    def derived(self) -> Snippet | None:
        """Its derivative."""
        owner = "scaled_dot_product_attention"
        return define_epilogue(owner, self.slope, part="score_slope") if self.slope else None

    @property
    def counts(self) -> tuple[int, int]:
        """How many arrays and numbers it reads."""
        return counts_of(self.snippet)


def counts_of(snippet: Snippet) -> tuple[int, int]:
    """Returns how many arrays and numbers a string reads."""
    arrays, numbers = (max(snippet.numbers(f), default=-1) + 1 for f in ("x", "w"))
    return arrays, numbers


@dataclass(frozen=True)
class ScoreCode:
    """What fused/_score.cl.jinja prints of a string."""

    text: str
    slope: str
    arrays: tuple[OperandCode, ...]  # ``inner`` is along lanes, where there are some
    scalars: tuple[str, ...]
    ndim: int
    outer: tuple[int, ...]  # Axes before queries and keys whose coordinates it asks for
    vectors: bool  # Whether it, and its derivative, are of vectors, whose coordinates are floats


def add_score(
    found: Arguments,
    score: Score,
    arrays: Mapping[str, OperandCode],
    sizes: tuple[int, ...],
    value: AnyDType,
    traits: DeviceTraits,
    *,
    lanes: bool,
) -> dict[str, Any]:
    """Adds the numbers that a string needs; returns the fields of a kernel's code that it fills."""
    shape = (*score.batch, *sizes)
    parts = [s for s in (score.snippet, score.derived) if s is not None]
    _, scalars = score.counts
    real = stored_type(value).value
    on_vectors = None
    if lanes and max(sizes) < _COUNTED and all(a.value == real for a in arrays.values()):
        on_vectors = _on_vectors(parts, len(arrays), len(shape))
    types = {name: a.value for name, a in arrays.items()}
    types |= dict.fromkeys(("x", "y", "w"), real)
    printed = Printed()
    texts = [printed.text(s, types) for s in on_vectors or parts]
    asked = {(function, d, d % len(shape)) for s in parts for function, d in s.dims}
    coords, counted = (
        sorted((d, axis) for function, d, axis in asked if function == wanted)
        for wanted in ("coord", "size")
    )
    outer = sorted({axis for _, axis in coords if axis < len(score.batch)})
    numbers = {f"coord_{axis}_step": math.prod(score.batch[axis + 1 :]) for axis in outer}
    numbers |= {f"coord_{axis}_size": shape[axis] for axis in outer}
    numbers |= {f"size_of_{axis}": shape[axis] for _, axis in counted}
    found.numbers(**numbers)
    for n in range(scalars):
        found.scalar(real, f"w{n}", score.first + n)
    code = ScoreCode(
        text=texts[0],
        slope=texts[1] if len(texts) > 1 else "",
        arrays=tuple(arrays.values()),
        scalars=tuple(f"w{n}" for n in range(scalars)),
        ndim=len(shape),
        outer=tuple(outer),
        vectors=on_vectors is not None,
    )
    return {
        "score": code,
        "preamble": score.preamble,
        "coords": tuple(coords),
        "sizes": tuple((d, f"of_{axis}") for d, axis in counted),
        "guards": printed.guards,
        "unified": unified_functions(on_vectors or parts, score.preamble, traits),
        "own": own_names(parts, score.preamble),
    }


def _on_vectors(parts: list[Snippet], arrays: int, ndim: int) -> list[Snippet] | None:
    """The strings with coordinates as arrays, whole floats; None where that is not the same."""
    found = []
    for snippet in parts:
        if snippet.preamble.text or any(function == "size" for function, _ in snippet.dims):
            return None
        if not all(map(_stays_whole, walk(snippet.tree))):
            return None
        places = {(f, d): f"x{arrays + 2 + d % ndim}" for f, d in snippet.dims}
        names = {"abs": "fabs"} if snippet.dims else {}
        owner, part = snippet.rules.owner, snippet.rules.part
        found.append(define_epilogue(owner, renamed(snippet, names, places), part=part))
    return found if is_componentwise(*found) else None


def _stays_whole(node: Node) -> bool:
    """Whether coordinates in it are small whole numbers, whatever their type."""
    match node:
        case Binary(op, a, b):
            both = _places(a) + _places(b)
            return op in _WHOLE or not both or (op == "*" and not (_places(a) and _places(b)))
        case Cast():
            return not _places(node.a)
    return True


def _places(node: Expr) -> int:
    return sum(isinstance(n, Call) and n.function == "coord" for n in walk(node))


def arrays_of(score: Score | None, given: Mapping[str, Operand]) -> dict[str, Operand]:
    """Returns the arrays of a string among those of a call."""
    count = score.counts[0] if score else 0
    return {f"x{n}": given[f"x{n}"] for n in range(count)}
