"""The strategies of decompositions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clprim.plan.conv.dense import CPU, GPU
from clprim.plan.decomposition.planner import DecompositionTile, plan_decomposition, tile_of
from clprim.plan.decomposition.problem import Decomposition, Side
from clprim.plan.strategy import Example, Family, Strategy


def _examples() -> Iterator[Example[Decomposition]]:
    a, x = (Side(name, 0, 4, 1, (16,)) for name in ("a", "x"))
    info = Side("info", 0, 0, 0, (1,), whole=True)
    real = np.dtype(np.float32)
    yield Example("", Decomposition("inv", 4, 4, 4, (100,), (a,), (x, info), real), CPU)
    a, v = (Side(name, 0, 32, 1, (1024,)) for name in ("a", "v"))
    w = Side("w", 0, 1, 0, (32,))
    eigh = Decomposition("eigh", 32, 32, 32, (100,), (a,), (w, v, info), real)
    yield Example("group", eigh, GPU)


DECOMPOSITIONS: Family[Decomposition] = Family(
    "decomposition",
    None,
    (
        Strategy(
            "decomposition/matrices",
            DecompositionTile,
            rule=tile_of,
            plan=plan_decomposition,
            examples=_examples,
        ),
    ),
)
