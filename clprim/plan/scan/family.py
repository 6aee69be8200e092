"""The strategies of scans, in order of preference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from clprim.language.definition import ReductionDefinition, define_reduction
from clprim.plan.conv.dense import CPU, GPU
from clprim.plan.reduction.problem import ReductionClass, fold_error
from clprim.plan.scan.planner import (
    Scanned,
    ScanTile,
    fits_scan,
    near_scan,
    plan_scan,
    scan_tile,
)
from clprim.plan.strategy import Example, Family, Strategy
from clprim.plan.strides import Operand, dense_array
from clprim.traits import DeviceTraits


@lru_cache
def _sums(name: str | None) -> ReductionDefinition:
    init, step = "scan_y0 = 0;", "scan_y0 += y0;"
    texts: dict[str, Any] = {"init": init, "step": step, "combine": None, "finalize": None}
    return define_reduction("y0 = x0;", **texts, name=name, preamble="", scan=True)


def sums_along(
    x: Operand, y: Operand, axis: int, name: str | None = None, **options: Any
) -> Scanned:
    """Returns sums of all elements up to each."""
    return Scanned(_sums(name), x.shape, axis, (y,), (x,), (), (y.dtype,), **options)


def _strategy(
    name: str, traits: DeviceTraits, shape: tuple[int, int], needs: str, **options: Any
) -> Strategy[Scanned]:
    def examples() -> Iterator[Example[Scanned]]:
        y = dense_array(shape, dtype=np.dtype(np.float32))
        along = int(name != "scan/columns")
        yield Example("", sums_along(dense_array(shape), y, along, **options), traits)

    return Strategy(
        name,
        ScanTile,
        rule=partial(scan_tile, name),
        plan=partial(plan_scan, name),
        fits=fits_scan,
        near=near_scan,
        examples=examples,
        needs=needs,
        error=fold_error,
    )


SCANS: Family[Scanned] = Family(
    "scan",
    ReductionClass,
    (
        _strategy("scan/group", GPU, (100, 1000), "a GPU, and long lines", reverse=True),
        _strategy("scan/vectors", CPU, (100, 1000), "lines whose elements are neighbours"),
        _strategy("scan/columns", CPU, (1000, 100), "neighbouring lines", exclusive=True),
    ),
)
