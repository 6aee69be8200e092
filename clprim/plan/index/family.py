"""The strategies of writing at indices, and of putting pieces together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from clprim.plan.conv.dense import CPU
from clprim.plan.index.lines import Taken, plan_lines
from clprim.plan.index.pieces import Diagonal, Pieces, plan_pieces
from clprim.plan.strategy import Example, Family, single
from clprim.plan.strides import dense_array


def _examples_lines() -> Iterator[Example[Taken]]:
    """Neighbouring lines, single ones, of halves, and such as an index holds for."""

    def of(name: str, axis: int, how: str, index: Any, **options: Any) -> Example[Taken]:
        y = dense_array((100, 64), **options)
        return Example(name, Taken(y, index, y, axis, how), CPU)

    index, unsigned = (dense_array((100, 64), dtype=t) for t in (np.int64, np.uint64))
    shared = replace(index, strides=(8, 0))
    yield of("", 0, "sum", index)
    yield of("single", 1, "last", index)
    yield of("half", 0, "amax", index, dtype=np.float16)
    yield of("shared", 0, "sum", shared)
    copied = of("copied", 1, "sum", index)
    yield replace(copied, problem=replace(copied.problem, own=copied.problem.y))
    yield of("unsigned", 0, "sum", unsigned)
    far, source = dense_array((100_000, 1000)), dense_array((100, 64))
    prefetching = replace(CPU, prefetch=True)
    yield Example("ahead", Taken(far, shared, source, 0, "sum"), prefetching)


def _examples_pieces() -> Iterator[Example[Pieces]]:
    """Rolled rows, beyond the cache; images with a border; a triangle; two arrays in a row."""
    far = replace(CPU, prefetch=True, cache_bytes=1 << 10)
    rows, image = dense_array((100, 500)), dense_array((30, 8, 56, 56))
    parts = [(replace(rows, shape=(100, n)), (0, start)) for n, start in ((497, 3), (3, 0))]
    yield Example("", Pieces(rows, parts), far)
    framed = Pieces(dense_array((30, 8, 58, 60)), [(image, (0, 0, 1, 2))], filled=True)
    yield Example("filled", framed, CPU)
    for name, lower in (("lower", True), ("upper", False)):
        cut = Diagonal(0, lower=lower)
        yield Example(name, Pieces(rows, [(rows, (0, 0))], filled=True, cut=cut), CPU)
    half = np.float16
    halves = [(dense_array((5000,), dtype=half), (5000 * k,)) for k in range(2)]
    yield Example("in-a-row", Pieces(dense_array((10000,), dtype=half), halves), far)


LINES: Family[Taken] = Family(
    "lines",
    None,
    (single("index/lines", plan_lines, _examples_lines, "a CPU, and lines for its cores"),),
)
PIECES: Family[Pieces] = Family(
    "pieces",
    None,
    (single("index/pieces", plan_pieces, _examples_pieces, "a CPU, and rows of some vectors"),),
)
