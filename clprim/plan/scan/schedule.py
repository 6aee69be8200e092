"""Chooses how the lines of a scan are spread over vectors, work-items, work-groups and stages."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.kernel import power_of_two, round_up
from clprim.plan.machine import GROUP, UNROLL, UPDATES, WORK
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class ScanSchedule:
    """How the lines are cut."""

    template: str  # ``scan/vectors``, ``scan/columns`` or ``scan/group``
    vector: int  # Elements side by side, of a line or of neighbouring lines
    lanes: int  # Work-items of a group that share a line, and neighbours that each takes
    each: int
    block: int  # Elements after which a partial result begins anew
    chunk: int  # Lines are cut into so many pieces of ``chunk`` elements
    pieces: int
    per_group: int  # Lines (or tiles of lines) that a work-group takes one after another


def choose_schedule(
    length: int,
    lines: int,
    width: int,
    *,
    along: bool,
    vector: int,
    partial_bytes: int,
    traits: DeviceTraits,
) -> ScanSchedule:
    """Chooses the schedule of one scan."""
    lanes, each, per_group = 1, 1, 1
    group = not traits.is_cpu and along and length >= 64
    if group:
        template, vector, each = "scan/group", 1, UNROLL
        lanes = min(4 * GROUP, traits.max_work_group_size, power_of_two(-(-length // UNROLL)))
        while lanes > 1 and lanes * partial_bytes > traits.local_memory:
            lanes //= 2
        tiles = lines
    elif along:
        template, tiles = "scan/vectors", lines
    else:
        template = "scan/columns"
        tiles = lines // width * (width // vector + width % vector)
    units = traits.compute_units
    wanted = units if traits.is_cpu else units * (4 if group else 128)
    least = WORK if traits.is_cpu else (8 * lanes * each if group else 128)
    pieces = 1
    if tiles < wanted and length >= 2 * least:
        target = 4 * wanted if traits.is_cpu else wanted
        # Every piece adds up the totals of those before it: few enough that this costs nothing.
        pieces = max(1, min(-(-target // tiles), length // least, 4 * GROUP))
    granule = lanes * each if group else vector if along else 1
    chunk = round_up(-(-length // pieces), granule)
    pieces = -(-length // chunk)
    if traits.is_cpu:
        work = chunk * (1 if along else vector)
        per_group = max(1, min(WORK // work, tiles // (4 * units)))
    block = UPDATES * vector if along else UPDATES
    return ScanSchedule(template, vector, lanes, each, block, chunk, pieces, per_group)
