"""What a kernel needs to know of the snippets it is made of: index type, functions, names."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from clprim.errors import ShapeError
from clprim.language.complex_numbers import is_complex, lowered
from clprim.language.gradient import ctypes
from clprim.language.guards import guarded
from clprim.language.names import (
    BUILTINS,
    ESTIMATES,
    KEYWORDS,
    LIBRARY,
    QUALIFIERS,
    RESERVED,
    TRIGONOMETRY,
    TYPES,
    UNIFIED,
    WRITTEN,
)
from clprim.language.operands import is_engine_name
from clprim.language.snippet import Snippet
from clprim.language.tree import (
    Binary,
    Cast,
    Expr,
    Name,
    Number,
    Ternary,
    Unary,
    names_in,
    walk,
)
from clprim.plan.strides import REACH, Operand, Space, row_major_strides
from clprim.traits import DeviceTraits

_COMPARISONS = frozenset("< > <= >= == !=".split())

Pairs = tuple[tuple[int, int], ...]

_DIRECTIVES = frozenset("define undef if ifdef ifndef elif else endif defined pragma".split())
_ATTRIBUTES = frozenset(
    "aligned always_inline intel_reqd_sub_group_size overloadable reqd_work_group_size".split()
)
# Families of names that OpenCL C gives, for what a preamble may use of them.
_OPENCL = re.compile(r"(v(load|store)|convert_|as_|get_|atom|async_|CLK_|cl_|CL|_|mem_fence)")


def index_type(
    space: Space, lookups: Iterable[Operand] = (), compared: DeviceTraits | None = None
) -> str:
    """Returns the index type that reaches every element: ``int`` of 31 bits, else ``long``."""
    # Positions are long for snippets; where a device ``compared`` compares widened integers wrong,
    # they are long from the beginning.
    if compared is not None and not compared.widened_comparisons:
        return "long"
    for a in lookups:
        reach = sum(abs(s) * n for s, n in zip(a.strides, a.shape, strict=True))
        if (a.offset + reach) // a.dtype.itemsize >= REACH or any(n >= REACH for n in a.shape):
            return "long"
    if math.prod(d.size for d in space.dims) >= REACH:
        return "long"
    for k, offset in enumerate(space.offsets):
        low = offset + sum(min(0, d.strides[k] * (d.size - 1)) for d in space.dims)
        high = offset + sum(max(0, d.strides[k] * (d.size - 1)) for d in space.dims)
        if low < -REACH or high >= REACH:
            return "long"
    return "int"


def unified_functions(
    snippets: Iterable[Snippet], preamble: str, traits: DeviceTraits
) -> tuple[tuple[str, int, int], ...]:
    """Returns the built-ins among those that snippets call which a template defines anew."""
    # Each with its arguments and the bytes of the shortest vector that is computed, 0 for any. The
    # preamble may define its own of that name: functions that it mentions are left alone.
    called = frozenset[str]().union(*(s.words for s in snippets))
    anew = UNIFIED | dict.fromkeys(WRITTEN, 1)
    if not traits.vector_trigonometry:
        anew |= dict.fromkeys(TRIGONOMETRY, 1)
    least = {
        **(dict.fromkeys(LIBRARY, traits.function_bytes) if traits.function_bytes else {}),
        **(dict.fromkeys(ESTIMATES, traits.estimate_bytes) if traits.estimate_bytes else {}),
    }
    anew = dict.fromkeys(least, 1) | anew
    found = sorted(called & anew.keys())
    return tuple((f, anew[f], least.get(f, 0)) for f in found if f not in preamble)


class Printed:
    """The texts of snippets as kernels print them: with NumPy's answers where C has none."""

    def __init__(self) -> None:
        self.guards: tuple[str, ...] = ()

    def text(
        self, snippet: Snippet | None, types: Mapping[str, str], *, vectors: bool = False
    ) -> str:
        """Returns the text of a snippet, empty where there is none.

        That of complex numbers may be one for ``vectors`` of them as well.
        """
        if snippet is None:
            return ""
        known = tuple(types.items())
        if is_complex(snippet, known):
            text, guards = lowered(snippet, known, vectors=vectors)
        else:
            text, guards = guarded(snippet, known)
        self.guards = tuple(sorted({*self.guards, *guards}))
        return text

    def cast(self, given: Iterable[str], to: Iterable[str]) -> None:
        """Notes that numbers of some types become others, as ``cast`` in the templates prints."""
        pairs = zip(given, to, strict=False)
        needed = {f"convert_{t}" for g, t in pairs if ctypes.is_real(g) and ctypes.is_whole(t)}
        self.guards = tuple(sorted({*self.guards, *needed}))


def own_names(snippets: Iterable[Snippet], preamble: str) -> tuple[str, ...]:
    """Returns the names of locals and helpers that the user chose."""
    found = set(re.findall(r"[A-Za-z_]\w*", preamble))
    found.update(*(s.words for s in snippets))
    return tuple(sorted(filter(_is_own, found)))


@lru_cache(maxsize=4096)
def _is_own(name: str) -> bool:
    """Whether a name is none of C's, OpenCL's or the engine's."""
    known = BUILTINS, KEYWORDS, QUALIFIERS, TYPES, RESERVED, _DIRECTIVES, _ATTRIBUTES
    if any(name in names for names in known):
        return False
    return not (is_engine_name(name) or _OPENCL.match(name))


def refuse_byte_choices(
    snippets: Iterable[Snippet], inputs: Sequence[Operand], traits: DeviceTraits
) -> None:
    """Refuses ``x0 < 0 ? 0 : x0`` of int8 where the compiler dies of it or takes other elements."""
    names = {f"x{n}" for n, a in enumerate(inputs) if a.dtype == np.int8}
    if traits.byte_choices or not names:
        return
    for snippet in snippets:
        for node in walk(snippet.tree):
            if not (isinstance(node, Ternary) and _compares(node.condition, names)):
                continue
            arms = list(_arms(node))
            chosen = [a.text for a in arms if isinstance(a, Name) and a.text in names]
            if chosen and any(isinstance(a, Number) for a in arms):
                x = chosen[0]
                problem = (
                    "this device's compiler errs where ?: chooses between a constant and "
                    f"{x} of int8; write min and max, or y0 = {x}; if (...) y0 = ...;"
                )
                raise snippet.error(x, problem)


def _compares(condition: Expr, names: Collection[str]) -> bool:
    while isinstance(condition, Unary):
        condition = condition.a
    compares = isinstance(condition, Binary) and condition.op in _COMPARISONS
    return compares and not names_in(condition).isdisjoint(names)


def _arms(node: Expr) -> Iterator[Expr]:
    """Yields what a choice is between, without casts and signs."""
    ahead = [node]
    while ahead:
        match ahead.pop():
            case Ternary(_, a, b):
                ahead += [b, a]
            case Cast(_, a) | Unary("+" | "-", Number() as a):
                ahead.append(a)
            case arm:
                yield arm


def resolve_positions(
    what: str,
    snippets: Collection[Snippet],
    shape: tuple[int, ...],
    counted: Mapping[str, Sequence[int] | None],
) -> tuple[list[str], list[tuple[int, ...]], Pairs, Pairs]:
    """Returns the positions that snippets use, as operands without memory."""
    # ``index`` walks the broadcast shape in C order, ``coord_D`` steps by one along D alone, so
    # that collapsing takes care of them.
    names = list(counted)
    strides = [row_major_strides(shape, axes) for axes in counted.values()]
    coords: list[tuple[int, int]] = []
    sizes: list[tuple[int, int]] = []
    for function, d, axis in resolve_dims(what, snippets, len(shape)):
        (coords if function == "coord" else sizes).append((d, axis))
    for axis in sorted({axis for _, axis in coords}):
        names.append(f"coord_{axis}")
        strides.append(row_major_strides(shape, [axis]))
    return names, strides, tuple(coords), tuple(sizes)


def resolve_dims(
    what: str, snippets: Iterable[Snippet], ndim: int
) -> Iterator[tuple[str, int, int]]:
    """Yields (function, dimension as written, axis) for every ``coord(d)`` and ``size(d)``."""
    for function, d in sorted(frozenset().union(*(s.dims for s in snippets))):
        if not -ndim <= d < ndim:
            raise ShapeError(
                f"{what}: {function}({d}) is out of bounds for a broadcast shape of "
                f"{ndim} dimensions"
            )
        yield function, d, d % ndim
