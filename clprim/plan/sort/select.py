"""Plans the order of the first few of a line's keys, without sorting the others.

A work-item goes through a piece of a line and keeps the k least keys. Where lines are fewer than
compute units they are cut in pieces, and what these keep is a line again. Up to `ORDERED` keys are
kept in order, by insertion; of more, twice as many are gathered before the greater half is dropped,
and those that are left are sorted in the end.
"""

from __future__ import annotations

import numpy as np

from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.sort.planner import SHORT, Sort, plan_order
from clprim.traits import DeviceTraits

#: So many keys are kept in order.
ORDERED = 64
# Selecting beats sorting where so small a part of a line is asked for.
_PART = 4

_INT32 = np.dtype(np.int32)


def selects(length: int, k: int, traits: DeviceTraits) -> bool:
    """Whether `plan_select` is for so many of a line's keys."""
    return traits.is_cpu and length > SHORT[True] and 0 < k <= length // _PART


def plan_select(
    lines: int, length: int, k: int, bits: int, key_bytes: int, traits: DeviceTraits
) -> Plan:
    """Plans where the ``k`` least of ``keys`` lie: ``places``."""
    # Where more than `ORDERED` are asked for, ``places`` are in the order of the line, and
    # ``order`` says which of them comes first. Both are 32-bit numbers, k a line.
    ordered = k <= ORDERED
    room = k if ordered else 2 * k
    key = np.dtype(f"u{key_bytes}")
    pieces = 1
    if lines < traits.compute_units:
        pieces = max(1, min(-(-traits.compute_units // lines), length // (_PART * room)))
        pieces = -(-length // -(-length // pieces))
    workspace = {"least_keys": (lines * k, key)}
    if not ordered:
        workspace["kept_keys"] = (lines * pieces * room, key)
        workspace["kept_places"] = (lines * pieces * room, _INT32)
    if pieces > 1:
        workspace["piece_keys"] = (lines * pieces * k, key)
        workspace["piece_places"] = (lines * pieces * k, _INT32)

    def stage(length: int, pieces: int, first: bool) -> KernelPlan:
        sort = Sort(lines, length, -(-bits // 8), key_bytes, traits, pieces)
        to = "piece" if pieces > 1 else ""
        buffers = [(sort.key, "keys", "keys" if first else "piece_keys", True)]
        buffers += [] if first else [("int", "places", "piece_places", True)]
        buffers += [
            (sort.key, "least_keys", "piece_keys" if to else "least_keys", False),
            ("int", "least_places", "piece_places" if to else "places", False),
        ]
        if not ordered:
            buffers.append((sort.key, "kept_keys", "kept_keys", False))
            buffers.append(("int", "kept_places", "kept_places", False))
        return sort.kernel("sort/select", buffers, lines * sort.pieces, first=first, kept=(k, room))

    stages = [stage(length, pieces, True)]
    if pieces > 1:
        stages.append(stage(pieces * k, 1, False))
    if not ordered:
        order = plan_order(lines, k, bits, key_bytes, traits)
        stages += [one.renamed({"keys": "least_keys"}) for one in order.stages]
        workspace.update(order.workspace)
    return Plan(tuple(stages), workspace)
