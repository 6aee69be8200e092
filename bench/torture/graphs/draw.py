"""Draws functions: each line is run as soon as it is drawn, so that shapes are known.

A function is of one mode. ``bits``: anything, over numbers with NaN, infinities and denormals among
them. ``whole``: small whole numbers, and operators that are exact on these, so that the order of
sums changes nothing. ``smooth``: operators that carry small differences on as small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import clprim as cp
from bench.torture.draw import Draw
from bench.torture.graphs.program import Given, Program, made_by, names_in
from clprim import ops

MODES = ("bits", "whole", "smooth")
# Up to which magnitude numbers of a dtype may come, by mode.
_LIMITS = {
    "whole": {"float32": 2.0**23, "float16": 2.0**11, "float64": 2.0**50, "int32": 2.0**30},
    "smooth": {"float32": 60.0, "float16": 6.0, "float64": 60.0, "int32": 2.0**30},
    "bits": {"int32": 2.0**30, "int64": 2.0**60},
}
# Shapes of a function's main array.
_SHAPES = (
    *((2, 8, 5, 6), (1, 4, 8, 8), (2, 8, 4, 4), (2, 16, 4, 3)),
    *((6, 16), (3, 5, 8), (2, 4, 6), (33,), (4, 4)),
)
_STEPS = ("", "", "[1:]", "[:, ::2]", "[:, 1:-1]", "[::-1]", ".T", "[..., :-1]", "[:1]")


@dataclass(frozen=True)
class Value:
    """An array that a function has at hand."""

    name: str
    array: Any
    root: str

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")


class Drawing:
    """A function that is being drawn."""

    def __init__(self, draw: Draw, pool: Sequence[int], mode: str, *, plain: bool = False) -> None:
        self.draw, self.mode, self.plain = draw, mode, plain
        self._pool = pool
        self.values: list[Value] = []
        self.bounds: dict[str, float] = {}
        self._given: list[Given] = []
        self._lines: list[str] = []
        self._names: dict[str, Any] = {"cp": cp, "ops": ops, "np": np}
        self._wholes: dict[str, Any] = {}
        self._made = 0

    @property
    def length(self) -> int:
        return len(self._lines)

    # --- what operators ask ------------------------------------------------------------------

    def one(self, values: Sequence[Any]) -> Any:
        return self.draw.one(values)

    def few(self, values: Sequence[Any], most: int = 3) -> Any:
        """One of some values, of which all functions of a pool have the same few."""
        order = np.random.default_rng([*self._pool, len(values)]).permutation(len(values))
        return values[int(self.one(order[:most]))]

    def pick(self, fits: Callable[[Value], Any] = lambda v: True) -> Value | None:
        """A value that fits, mostly one of the last; None where there is none."""
        found = [v for v in self.values if v.array.size and fits(v)]
        if not found:
            return None
        return self.one(found[-3:] if self.draw.chance(0.6) else found)

    def bound(self, value: Value) -> float:
        return self.bounds[value.root]

    def new(
        self,
        shape: Sequence[int],
        dtype: str,
        most: int = 3,
        kind: str = "",
        *,
        stays: bool = False,
    ) -> Value:
        """A further thing that is given, mostly an argument; one that `stays` is frozen."""
        number = len(self._given)
        kind = kind or {"bits": "special"}.get(self.mode, self.mode)
        if not dtype.startswith("float") and kind != "index":
            kind = "whole"
        chance = 1.0 if stays else self.draw.random.random()
        letter = "c" if chance < 0.15 else "a"
        given = Given(
            f"{letter}{number}",
            tuple(int(n) for n in shape),
            dtype,
            kind=kind,
            most=most,
            frozen=letter == "a" and (chance > 0.75 or (kind == "index" and chance > 0.5)),
        )
        return self.add(given)

    def add(self, given: Given) -> Value:
        self._given.append(given)
        root = given.of or given.name
        if not given.of:
            self._wholes[given.name] = given.whole(1)
        array = given.taken(self._wholes[root])
        self._names[given.name] = array
        value = Value(given.name, array, root)
        self.values.append(value)
        self.bounds[root] = float(given.most if given.kind in ("index", "whole") else 1)
        return value

    def is_frozen(self, value: Value) -> bool:
        """Whether a value may be a part of one that jit freezes, which nobody may write to."""
        return any(g.frozen and g.name == value.root for g in self._given)

    # --- lines -------------------------------------------------------------------------------

    def line(self, text: str, bound: float, *, shares: str = "", made: int = 1) -> bool:
        names = [f"v{self._made + n}" for n in range(made)]
        line = f"{', '.join(names)} = {text}"
        if not self._run(line):
            return False
        arrays = [self._names[name] for name in names]
        limits = _LIMITS[self.mode]
        if any(
            not isinstance(a, cp.Array) or not a.size or a.size > 4000
            or bound > limits.get(str(a.dtype), float("inf"))
            or str(a.dtype) not in ("float32", "float16", "float64", "int32", "int64", "bool")
            for a in arrays
        ):  # fmt: skip
            return False
        self._lines.append(line)
        self._made += made
        for name, array in zip(names, arrays, strict=True):
            root = shares or name
            self.bounds[root] = max(bound, self.bounds.get(root, 0))
            self.values.append(Value(name, array, root))
        return True

    def write(self, text: str, into: Value, bound: float) -> bool:
        if self.is_frozen(into) or bound > _LIMITS[self.mode].get(into.dtype, float("inf")):
            return False
        if not self._run(text):
            return False
        self._lines.append(text)
        self.bounds[into.root] = max(bound, self.bounds[into.root])
        return True

    def _run(self, line: str) -> bool:
        try:
            exec(line, self._names)
        except (cp.ClprimError, IndexError):
            return False  # no such call
        return True

    # --- the whole ---------------------------------------------------------------------------

    def start(self) -> None:
        kinds = ["float32"] * 12 + ["float16"] * (self.mode != "bits") + ["int32"]
        if cp.current_device().traits.fp64 and self.mode != "smooth":
            kinds.append("float64")
        dtype = "float32" if self.plain else self.few(kinds)
        shape = (4, 6) if self.plain else self.few(_SHAPES)
        for n in range(int(self.one((1, 2, 2, 3)))):
            number = len(self._given)
            kind = {"bits": "special"}.get(self.mode, self.mode)
            kind = kind if dtype.startswith("float") else "whole"
            of = ""
            view = self.few(_STEPS) if self.draw.chance(0.4) and len(shape) > 1 else ""
            view = "" if self.plain else view
            if len(shape) == 4 and self.draw.chance(0.4):
                view = f".transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2){view}"
            if n and self.draw.chance(0.1):
                first = self._given[0]
                of, view = first.of or first.name, self.one(_STEPS) if len(shape) > 1 else "[1:]"
            self.add(Given(f"a{number}", shape, dtype, view, kind, 3, of))

    def program(self) -> Program:
        read = set().union(*(_read(line) for line in self._lines)) if self._lines else set()
        made = [v.name for v in self.values if v.name[0] == "v"]
        returned = [n for n in made if n not in read or self.draw.chance(0.08)]
        returned = returned or made[-1:] or [self.values[0].name]
        if self.draw.chance(0.1):
            returned.append(self.one([v.name for v in self.values]))
        error = 0.0 if self.mode == "whole" else 5e-6
        return Program(tuple(self._given), tuple(self._lines), tuple(returned), error).used()


def _read(line: str) -> set[str]:
    return names_in(line) - set(made_by(line))
