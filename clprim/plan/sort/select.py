"""Plans the order of the first few of a line's keys, without sorting the others.

A work-item goes through a piece of a line and keeps the k least keys. Where lines are fewer than
compute units they are cut in pieces, and what these keep is a line again. Up to `ORDERED` keys are
kept in order, by insertion; of more, twice as many are gathered before the greater half is dropped,
and those that are left are sorted in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from clprim.plan.conv.dense import CPU
from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.sort.family import ORDERS
from clprim.plan.sort.planner import INT32, SHORT, Keys, Work
from clprim.plan.strategy import Example, Family, single
from clprim.traits import DeviceTraits

#: So many keys are kept in order.
ORDERED = 64
# Selecting beats sorting where so small a part of a line is asked for.
_PART = 4


@dataclass(frozen=True)
class Least:
    """What is to be found: where the ``k`` least of ``keys`` lie, ``places``."""

    # Where more than `ORDERED` are asked for, ``places`` are in the order of the line, and
    # ``order`` says which of them comes first. Both are 32-bit numbers, k a line.
    keys: Keys
    k: int


def selects(length: int, k: int, traits: DeviceTraits) -> bool:
    """Whether so many of a line's keys are found without sorting the others."""
    return traits.is_cpu and length > SHORT[True] and 0 < k <= length // _PART


def plan_select(what: Least, traits: DeviceTraits) -> Plan | None:
    """Plans the kernels; None where all keys are rather sorted."""
    keys, k = what.keys, what.k
    lines, length = keys.lines, keys.length
    if not selects(length, k, traits):
        return None
    ordered = k <= ORDERED
    room = k if ordered else 2 * k
    key = np.dtype(f"u{keys.key_bytes}")
    pieces = 1
    if lines < traits.compute_units:
        pieces = max(1, min(-(-traits.compute_units // lines), length // (_PART * room)))
        pieces = -(-length // -(-length // pieces))
    workspace = {"least_keys": (lines * k, key)}
    if not ordered:
        workspace["kept_keys"] = (lines * pieces * room, key)
        workspace["kept_places"] = (lines * pieces * room, INT32)
    if pieces > 1:
        workspace["piece_keys"] = (lines * pieces * k, key)
        workspace["piece_places"] = (lines * pieces * k, INT32)

    def stage(keys: Keys, pieces: int, first: bool) -> KernelPlan:
        to = ("piece_keys", "piece_places") if pieces > 1 else ("least_keys", "places")
        buffers = [(keys.key, "keys", "keys" if first else "piece_keys", True)]
        buffers += [] if first else [("int", "places", "piece_places", True)]
        buffers += [(keys.key, "least_keys", to[0], False), ("int", "least_places", to[1], False)]
        if not ordered:
            buffers.append((keys.key, "kept_keys", "kept_keys", False))
            buffers.append(("int", "kept_places", "kept_places", False))
        fields = {
            "passes": keys.passes(traits),
            "first": first,
            "ordered": ordered,
            "lanes": traits.lanes(keys.key_bytes),
        }
        work = Work(lines * pieces, chunk=-(-keys.length // pieces))
        numbers = {"k": k, "room": room}
        return keys.kernel("sort/select", buffers, traits, work, numbers, **fields)

    stages = [stage(keys, pieces, True)]
    if pieces > 1:
        stages.append(stage(replace(keys, length=pieces * k), 1, False))
    if not ordered:
        order = ORDERS.plan(replace(keys, length=k), traits)
        stages += [one.renamed({"keys": "least_keys"}) for one in order.stages]
        workspace.update(order.workspace)
    return Plan(tuple(stages), workspace)


def _examples() -> Iterator[Example[Least]]:
    yield Example("", Least(Keys(100, 5000, 32, 4), 200), CPU)
    yield Example("ordered", Least(Keys(1, 1_000_000, 32, 4), 5), CPU)


#: Where it does not suit, all keys are ordered.
FIRST: Family[Least] = Family(
    "first",
    None,
    (single("sort/select", plan_select, _examples, "a CPU, and few keys of long lines"),),
)
