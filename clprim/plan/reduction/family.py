"""The strategies of reductions, in order of preference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from clprim.language.definition import define_reduction
from clprim.plan.conv.dense import CPU, GPU
from clprim.plan.kernel import Plan
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.columns import columns_near, columns_shape
from clprim.plan.reduction.inner import inner_near, inner_shape
from clprim.plan.reduction.lanes import lanes_near, lanes_shape
from clprim.plan.reduction.narrow import narrow_near, narrow_shape
from clprim.plan.reduction.planner import found_of, plan_reduction
from clprim.plan.reduction.problem import Reduced, ReductionClass, fold_error
from clprim.plan.reduction.schedule import Cut, Schedule, Walk, scheduled
from clprim.plan.strategy import Example, Family, Strategy
from clprim.plan.strides import Operand, broadcast_shapes, dense_strides
from clprim.traits import DeviceTraits

Shape = Callable[[Walk], Schedule | None]


def dense_reduction(
    *shapes: tuple[int, ...],
    axes: tuple[int, ...],
    order: tuple[int, ...] | None = None,
    expr: str = "y0 = x0;",
    dtype: Any = np.float32,
) -> Reduced:
    """Returns a sum over arrays without gaps, as examples plan it."""
    definition = define_reduction(
        expr,
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        combine=None,
        finalize=None,
        name=None,
        preamble="",
    )
    value, stored = np.dtype(np.float32), np.dtype(dtype)
    order = order or tuple(range(len(shapes[0])))
    shape = broadcast_shapes("dense", shapes)
    kept = tuple(1 if d in axes else size for d, size in enumerate(shape))
    inputs = tuple(
        Operand(own, dense_strides(own, stored.itemsize, order), 0, stored) for own in shapes
    )
    y = Operand(kept, dense_strides(kept, value.itemsize, order), 0, value)
    return Reduced(definition, shape, axes, (y,), inputs, (), (value,), (Scaling(),), (y,))


def _strategy(
    name: str,
    shape: Shape,
    near: Callable[[Cut, Walk], Iterable[Cut]],
    examples: Callable[[], Iterator[Example[Reduced]]],
    needs: str,
) -> Strategy[Reduced]:
    """Returns the strategy of a kernel."""

    def applicable(problem: Reduced, traits: DeviceTraits) -> bool:
        found = found_of(problem, traits)
        return found.pairs is None and shape(found.walk) is not None

    def preferred(problem: Reduced, traits: DeviceTraits) -> bool:
        return found_of(problem, traits).schedule.template == name

    def rule(problem: Reduced, traits: DeviceTraits) -> Cut:
        found = found_of(problem, traits)
        if found.schedule.template == name:
            return Cut.of(found.schedule)
        own = shape(found.walk)
        assert own is not None  # it is applicable
        return Cut.of(scheduled(found.walk, own))

    def given(tile: Cut, walk: Walk) -> Schedule:
        own = Schedule(name, tile.vector, tile.unroll, tile.lanes, tile.rows)
        return scheduled(walk, own, tile)

    def fits(tile: Cut, problem: Reduced, traits: DeviceTraits) -> bool:
        walk = found_of(problem, traits).walk
        return Cut.of(given(tile, walk)) == tile

    def plan(problem: Reduced, traits: DeviceTraits, tile: Cut) -> Plan:
        found = found_of(problem, traits)
        chosen = found.schedule
        if chosen.template != name or Cut.of(chosen) != tile:
            chosen = given(tile, found.walk)
        return plan_reduction(problem, traits, chosen)

    return Strategy(
        name,
        Cut,
        applicable=applicable,
        rule=rule,
        plan=plan,
        fits=fits,
        near=lambda tile, p, traits: near(tile, found_of(p, traits).walk),
        preferred=preferred,
        examples=examples,
        needs=needs,
        error=fold_error,
    )


def _narrow_examples() -> Iterator[Example[Reduced]]:
    yield Example("cpu", dense_reduction((8, 3, 40, 40), axes=(0, 2, 3), order=(0, 2, 3, 1)), CPU)


def _inner_examples() -> Iterator[Example[Reduced]]:
    """Rows, few of them, and rows with others in between."""
    yield Example("cpu", dense_reduction((100, 1000), axes=(1,)), CPU)
    yield Example("gpu", dense_reduction((4, 100_000), axes=(1,)), GPU)
    yield Example("rows", dense_reduction((16, 64, 300), axes=(0, 2)), CPU)


def _columns_examples() -> Iterator[Example[Reduced]]:
    yield Example("cpu", dense_reduction((100, 1000), axes=(0,)), CPU)


def _lanes_examples() -> Iterator[Example[Reduced]]:
    yield Example("gpu", dense_reduction((500, 100), axes=(0,)), GPU)


def _pairs_examples() -> Iterator[Example[Reduced]]:
    lines = (200, 1, 64), (1, 300, 64)
    expr = "y0 = max(x0 - x1, x1 - x0);"
    yield Example("sums", dense_reduction(*lines, axes=(2,), expr=expr), CPU)


#: Pairs have one tile each, which `clprim.plan.reduction.pairs` chooses.
PAIRS: Strategy[Reduced] = Strategy(
    "reduction/pairs",
    Cut,
    applicable=lambda p, traits: found_of(p, traits).pairs is not None,
    rule=lambda p, traits: Cut.of(found_of(p, traits).schedule),
    plan=lambda p, traits, _: plan_reduction(p, traits),
    fits=lambda tile, p, traits: tile == Cut.of(found_of(p, traits).schedule),
    examples=_pairs_examples,
    needs="operands that broadcast against each other",
    error=fold_error,
)
REDUCTIONS: Family[Reduced] = Family(
    "reduction",
    ReductionClass,
    (
        PAIRS,
        _strategy(
            "reduction/narrow",
            narrow_shape,
            narrow_near,
            _narrow_examples,
            "rows of kept elements that are shorter than a vector",
        ),
        _strategy(
            "reduction/inner", inner_shape, inner_near, _inner_examples, "rows that are reduced"
        ),
        _strategy(
            "reduction/columns",
            columns_shape,
            columns_near,
            _columns_examples,
            "a CPU, and rows that are kept",
        ),
        _strategy("reduction/lanes", lanes_shape, lanes_near, _lanes_examples, "a GPU"),
    ),
)
