"""Plans attention of few queries on CPUs, as texts are generated: it passes over keys once.

What takes the time is to read keys and values, so these are read as they are stored. Slices of keys
are computed apart where there are fewer heads than keep the device busy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from clprim.plan.fused.heads import KEYS, AttentionCode, Heads, head_kernel, room
from clprim.plan.kernel import Plan
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits

# Queries at most: more of them are better the lanes of vectors.
FEW = 6


@dataclass(frozen=True, kw_only=True)
class AttentionFewCode(AttentionCode):
    """What fused/attention_few.cl.jinja prints."""

    lanes: ClassVar[str] = "keys"
    columns: int  # Vectors of a value's elements that are summed up at a time
    # Whether it is a slice's: ``sums`` gets the largest score and the sum of exponentials below it,
    # ``y`` what is not yet divided by that sum
    parts: bool


def slices_of(q: Operand, k: Operand, v: Operand, traits: DeviceTraits) -> int:
    """Returns how many slices keys are cut into, or 0 where the plan does not suit."""
    *batch, queries, size = q.shape
    keys, features = v.shape[-2:]
    itemsize = 8 if q.dtype.itemsize == 8 else 4
    width = max(2, traits.lanes(itemsize))
    dense = all(a.in_elements(a.strides[-1]) == 1 for a in (k, v))
    memory = FEW * (room(size) + room(features)) * itemsize
    if not traits.is_cpu or not dense or queries > FEW or memory > traits.local_memory:
        return 0
    if size % width or features % width:
        return 0
    wanted = -(-2 * traits.compute_units // math.prod(batch))
    return max(1, min(wanted, keys // KEYS))


@dataclass(frozen=True)
class FewQueries(Heads):
    """One call: results are those of slices, one after another, where keys are cut."""

    slices: int = 1
    steps: tuple[int, int] = (0, 0)  # Bytes from a slice's result and sums to the next one's


def plan_attention_few(what: FewQueries, traits: DeviceTraits) -> Plan | None:
    """Plans softmax(q kᵀ · scale + mask) v; None of heads in more than four loops."""
    if not what.real:
        return None
    _, _, size, features = what.sizes.values()
    width, names = what.width(traits), ("y", "sums")
    apart = {
        f"{name}_slice": what.arrays[name].in_elements(step)
        for name, step in zip(names, what.steps, strict=True)
    }
    launch = (what.slices, what.heads), what.nbytes("qkvy"), 2 * what.pairs * (size + features)
    kernel = head_kernel(
        what,
        "attention_few",
        names,
        launch,
        AttentionFewCode,
        apart,
        traits,
        width=width,
        vectors=1,
        rows=FEW,
        columns=next(n for n in (4, 2, 1) if features // width % n == 0),
        parts=what.slices > 1,
    )
    return None if kernel is None else Plan((kernel,))
