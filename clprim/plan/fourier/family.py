"""The strategies of Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from clprim.plan.conv.dense import CPU, GPU
from clprim.plan.fourier.planner import FourierTile, plan_fourier, takes, tile_of
from clprim.plan.fourier.problem import Side, Transform
from clprim.plan.strategy import Example, Family, Strategy


def _example(n: int, count: int, x_part: int = 1) -> Transform:
    x, y = (
        Side(name, 0, part + 1, part, (n * (part + 1),)) for name, part in (("x", x_part), ("y", 1))
    )
    return Transform(
        n,
        (count,),
        x,
        y,
        np.dtype(np.float32),
        np.dtype(np.float32),
        have=n,
        kept=n if x_part else n // 2 + 1,
        real=not x_part,
    )


def _examples() -> Iterator[Example[Transform]]:
    yield Example("", _example(8, 100), replace(CPU, vector_bytes=16))
    yield Example("group", _example(15, 100), GPU)
    yield Example("order", _example(19, 1), CPU)
    yield Example("real", _example(8192, 3, 0), CPU)


FOURIER: Family[Transform] = Family(
    "fourier",
    None,
    (
        Strategy(
            "fourier/lines",
            FourierTile,
            rule=tile_of,
            plan=plan_fourier,
            applicable=takes,
            examples=_examples,
        ),
    ),
)
