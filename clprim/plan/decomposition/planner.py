"""Plans decompositions: of small matrices side by side, of others by a work-group each.

On a CPU a vector has a number of each of neighbouring matrices. On a GPU a work-item has a matrix
of a few rows, and a work-group a larger one, in local memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from clprim.dtypes import stored_type
from clprim.plan.decomposition.problem import Decomposition, Side, numbers
from clprim.plan.kernel import KernelCode, KernelPlan, Plan, power_of_two
from clprim.plan.machine import GROUP, ITEMS, PAGE, WORK
from clprim.plan.parameters import Arguments
from clprim.plan.strides import index_reaching
from clprim.traits import DeviceTraits


@dataclass(frozen=True, kw_only=True)
class DecompositionCode(KernelCode):
    """What decomposition/matrices.cl.jinja prints."""

    kind: str
    real: str
    whole: str  # Integers as wide, for choices
    m: int
    n: int
    k: int
    lanes: int  # Matrices side by side in a vector
    items: int  # Work-items that share a matrix
    alone: int  # Work-items of a work-group that have a matrix each
    own_memory: bool  # Whether a work-item keeps a matrix in memory of its own
    # Whether a row is moved at once, not a number of each matrix: these lie in one set of a cache
    by_rows: bool
    pairs: bool  # Whether numbers are complex
    unit: bool
    given: tuple[tuple[str, int], ...]  # Names, and parts of numbers
    results: tuple[tuple[str, int], ...]
    outer: int
    epsilon: str
    least: str  # Number whose square has all its digits

    @property
    def width(self) -> int:
        """Columns of the matrix that is eliminated, with those that are solved for."""
        return self.n + self.k if self.kind in ("solve", "inv", "triangular") else self.n

    @property
    def wanted(self) -> dict[str, int]:
        """The results that there are."""
        return dict(self.results)


@dataclass(frozen=True)
class DecompositionTile:
    """How matrices share a device."""

    share: int  # Work-groups a compute unit, where there are enough matrices


def tile_of(what: Decomposition, traits: DeviceTraits) -> DecompositionTile:
    """Returns the tile where nothing was measured."""
    del what, traits
    return DecompositionTile(ITEMS)


def plan_decomposition(what: Decomposition, traits: DeviceTraits, tile: DecompositionTile) -> Plan:
    """Plans one call."""
    return Plan((_Kernel(what, traits, tile).kernel(),))


@dataclass(frozen=True)
class _Kernel:
    what: Decomposition
    traits: DeviceTraits
    tile: DecompositionTile

    @cached_property
    def numbers(self) -> int:
        """Of a matrix and what stands beside it."""
        what = self.what
        return numbers(what.kind, what.m, what.n, what.k)

    @cached_property
    def lanes(self) -> int:
        """Matrices side by side."""
        if not self.traits.is_cpu:
            return 1
        itemsize = np.dtype(self.what.dtype).itemsize
        lanes = min(self.traits.lanes(itemsize), power_of_two(self.what.count))
        while lanes > 1 and lanes * self._nbytes > self.traits.local_memory - 1024:
            lanes //= 2
        return lanes

    @property
    def _nbytes(self) -> int:
        return self.numbers * self.what.parts * np.dtype(self.what.dtype).itemsize

    @property
    def few(self) -> bool:
        """Whether a work-item keeps a matrix to itself: as many numbers as a group has items."""
        return self.what.m * self.what.n * self.what.parts <= GROUP

    @cached_property
    def alone(self) -> bool:
        """Whether a work-item has a matrix."""
        return self.traits.is_cpu or self.few

    @property
    def index(self) -> str:
        """Type of places in memory."""
        what = self.what
        return index_reaching(
            *(
                abs(side.start)
                + 2 * abs(side.row) * max(what.m, what.n)
                + 2 * abs(side.column) * max(what.n, what.k, what.m)
                + sum(abs(a) * b for a, b in zip(side.strides, what.sizes, strict=True))
                for side in (*what.given, *what.results)
            )
        )

    def kernel(self) -> KernelPlan:
        """Plans it."""
        what, traits = self.what, self.traits
        real = stored_type(what.dtype).value
        cpu, limits = traits.is_cpu, np.finfo(what.dtype)
        items = 1 if self.alone else min(GROUP, traits.max_work_group_size)
        group = GROUP if self.alone and not cpu else 1
        tiles = -(-what.count // (self.lanes * group))
        flops = what.count * what.m * what.n * (what.n + what.k)
        work = min(WORK * tiles // max(1, flops), tiles // (self.tile.share * traits.compute_units))
        per_group = max(1, work) if cpu else 1
        found = self._arguments(real, tiles, per_group)
        suffix = "" if real == "double" else "f"
        code = DecompositionCode(
            name=f"{what.kind}_{what.m}x{what.n}",
            parameters=tuple(found.parameters),
            index=self.index,
            doubles=real == "double",
            kind=what.kind,
            real=real,
            whole="long" if real == "double" else "int",
            m=what.m,
            n=what.n,
            k=what.k,
            lanes=self.lanes,
            items=items,
            alone=group,
            own_memory=self.few,
            by_rows=self.lanes > 1 and any(self._crowded(s) for s in (*what.given, *what.results)),
            pairs=what.parts == 2,
            unit=what.unit,
            given=tuple((s.name, s.parts) for s in what.given),
            results=tuple((s.name, s.parts) for s in what.results),
            outer=len(what.sizes),
            epsilon=f"{float(limits.eps)!r}{suffix}",
            least=f"{float(np.sqrt(limits.tiny / limits.eps)):.3g}{suffix}",
        )
        size = -(-tiles // per_group) * items * group
        nbytes = sum(s.parts for s in (*what.given, *what.results)) * what.count * what.m * what.n
        nbytes *= np.dtype(what.dtype).itemsize
        arguments = tuple(found.arguments)
        shape = (size, 1), (items * group, 1)
        return KernelPlan("decomposition/matrices", code, arguments, *shape, nbytes, flops)

    def _crowded(self, side: Side) -> bool:
        step = abs(side.strides[-1]) * np.dtype(self.what.dtype).itemsize
        return not side.whole and step > 0 and step % PAGE == 0

    def _arguments(self, real: str, tiles: int, per_group: int) -> Arguments:
        what, found = self.what, Arguments(self.index)
        sides: list[tuple[Side, bool]] = [(s, True) for s in what.given]
        sides += [(s, False) for s in what.results]
        for side, read_only in sides:
            kind: Any = "int" if side.whole else real
            found.memory(kind, f"{side.name}_memory", side.name, read_only=read_only)
        found.numbers(count=what.count, tiles=tiles, per_group=per_group)
        for d, size in enumerate(what.sizes):
            found.numbers(**{f"k{d}": size})
        for side, _ in sides:
            given = {"start": side.start, "row": side.row, "column": side.column}
            given |= {f"k{d}": step for d, step in enumerate(side.strides)}
            found.numbers(**{f"{side.name}_{word}": value for word, value in given.items()})
        return found
