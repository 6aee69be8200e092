"""The strategies that find the order of keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clprim.plan.conv.dense import CPU, GPU
from clprim.plan.sort.planner import Keys, plan_count, plan_group, plan_lines, plan_rank
from clprim.plan.strategy import Example, Family, Strategy, single
from clprim.traits import DeviceTraits


def _strategy(
    name: str, plan: Any, lines: int, length: int, traits: DeviceTraits, needs: str
) -> Strategy[Keys]:
    def examples() -> Iterator[Example[Keys]]:
        yield Example("", Keys(lines, length, 32, 4), traits)

    return single(name, plan, examples, needs)


ORDERS: Family[Keys] = Family(
    "order",
    None,
    (
        _strategy("sort/rank", plan_rank, 1000, 10, CPU, "short lines"),
        _strategy("sort/lines", plan_lines, 100, 5000, CPU, "a CPU, and many lines"),
        _strategy("sort/count", plan_count, 1, 1_000_000, CPU, "a CPU"),
        _strategy("sort/group", plan_group, 1, 1_000_000, GPU, "a GPU"),
    ),
)
