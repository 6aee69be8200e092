"""The strategies of groups: in one kernel where a near cache holds a group, else pass by pass.

All come of the same snippets, so which one runs is a matter of speed alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from clprim.language.grouped_definition import define_grouped
from clprim.plan.conv.dense import CPU, GPU
from clprim.plan.grouped.items import ItemsTile, fits_items, items_tile, near_items, plan_items
from clprim.plan.grouped.lanes import LanesTile, fits_lanes, lanes_tile, near_lanes, plan_lanes
from clprim.plan.grouped.passes import plan_passes
from clprim.plan.grouped.problem import Groups
from clprim.plan.grouped.runs import RunsTile, fits_runs, near_runs, plan_runs, runs_tile
from clprim.plan.reduction.problem import ReductionClass, fold_error
from clprim.plan.strategy import Example, Family, Strategy, single
from clprim.plan.strides import Operand, dense_array

# What examples reduce and map: moments, the greatest element, and shares of a sum.
_MOMENTS: dict[str, Any] = {
    "expr": "y0 = x0 - x1; y1 = y0 * y0;",
    "init": "reduce_y0 = 0; reduce_y1 = 0;",
    "step": "reduce_y0 += y0; reduce_y1 += y1;",
    "combine": None,
    "finalize": "group_y0 = reduce_y0 + x1; group_y1 = rsqrt(reduce_y1 * w0);",
    "each": "y0 = (x0 - group_y0) * group_y1 + x2 * w0;",
}
_MEANS = _MOMENTS | {
    "finalize": "group_y0 = reduce_y0 / count + x1; group_y1 = rsqrt(reduce_y1 * w0);"
}
_LARGEST = {
    "expr": "",
    "init": "reduce_y0 = lowest_reduce_y0;",
    "step": "reduce_y0 = max(reduce_y0, x0);",
    "combine": "if (other_y0 > reduce_y0) reduce_y0 = other_y0;",
    "finalize": None,
    "each": "y0 = exp(x0 - group_y0);",
}
_SHARES = {
    "expr": "",
    "init": "reduce_y0 = -INFINITY; reduce_y1 = 0;",
    "step": "reduce_y1 += exp(x0 - reduce_y0); reduce_y0 = max(reduce_y0, x0);",
    "combine": "reduce_y0 = max(reduce_y0, other_y0); reduce_y1 += other_y1;",
    "finalize": None,
    "each": "y0 = exp(x0 - group_y0) * w0 / group_y1;",
    "near": {
        "first": "reduce_y0 = max(reduce_y0, x0);",
        "begin": "y0 = exp(x0 - reduce_y0) * w0;",
        "step": "reduce_y1 += y0;",
        "finish": "y0 /= group_y1;",
    },
}


def dense_groups(
    strings: Mapping[str, Any],
    inputs: tuple[Operand, ...],
    axes: tuple[int, ...],
    kept: tuple[Operand | None, ...],
) -> Groups:
    """Returns groups of the first array, whose result has its shape and no gaps."""
    definition = define_grouped(**strings, name="group", preamble="")
    value, shape = np.dtype(np.float32), inputs[0].shape
    scalars = (value,) * definition.scalars
    return Groups(definition, shape, axes, value, inputs, scalars, (dense_array(shape),), kept)


def _examples_runs() -> Iterator[Example[Groups]]:
    narrow = replace(CPU, vector_bytes=16)

    def image(
        name: str, strings: Mapping[str, Any], size: int = 14, images: int = 32, **options: Any
    ) -> Example[Groups]:
        x, one = dense_array((images, 64, size, size), **options), dense_array((64, 1, 1))
        inputs = (x, one, x) if strings is _MEANS else (x,)
        kept = (None,) if strings is _LARGEST else (None, one)
        return Example(name, dense_groups(strings, inputs, (0, 2, 3), kept), narrow)

    yield image("", _MEANS, images=16)
    yield image("begun", _SHARES, images=16)
    yield image("merged", _LARGEST, dtype=np.float16)
    yield image("rest", _MEANS, 7)


def _rows(strings: Mapping[str, Any], *shape: int) -> Groups:
    x, one = dense_array(shape), dense_array((shape[0], 1))
    if strings is _SHARES:
        return dense_groups(strings, (x,), (1,), (None, None))
    return dense_groups(strings, (x, one, dense_array(shape[1:])), (1,), (None, one))


def _examples_lanes() -> Iterator[Example[Groups]]:
    yield Example("", _rows(_MOMENTS, 10_000, 21), CPU)
    yield Example("begun", _rows(_SHARES, 10_000, 21), CPU)


def _examples_items() -> Iterator[Example[Groups]]:
    yield Example("", _rows(_MOMENTS, 1000, 400), GPU)


def _examples_passes() -> Iterator[Example[Groups]]:
    columns = dense_groups(_LARGEST, (dense_array((1000, 40)),), (0,), (None,))
    yield Example("", columns, CPU)


GROUPS: Family[Groups] = Family(
    "grouped",
    ReductionClass,
    (
        Strategy(
            "grouped/runs",
            RunsTile,
            rule=runs_tile,
            plan=plan_runs,
            fits=fits_runs,
            near=near_runs,
            examples=_examples_runs,
            needs="a CPU, a cache that holds a group, and runs of neighbours in one",
            error=fold_error,
        ),
        Strategy(
            "grouped/lanes",
            LanesTile,
            rule=lanes_tile,
            plan=plan_lanes,
            fits=fits_lanes,
            near=near_lanes,
            examples=_examples_lanes,
            needs="a CPU, and many groups that are shorter than vectors",
            error=fold_error,
        ),
        Strategy(
            "grouped/items",
            ItemsTile,
            rule=items_tile,
            plan=plan_items,
            fits=fits_items,
            near=near_items,
            examples=_examples_items,
            needs="a GPU, a cache that holds groups, and runs of neighbours in one",
            error=fold_error,
        ),
        replace(single("grouped/passes", plan_passes, _examples_passes), error=fold_error),
    ),
)
