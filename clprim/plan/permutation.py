"""Permutes elements of a few vectors by steps that each take lanes of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from clprim.plan.pointwise.code import Shuffles

Place = tuple[int, int]  # (vector, lane)
Pick = tuple[tuple[int, int], ...]  # (0 or 1: of which vector, which lane), each lane


def transpose(size: int) -> Shuffles:
    """Returns the transposition of a square: ``size`` vectors of ``size`` lanes, a power of two."""
    return permute([[(lane, row) for lane in range(size)] for row in range(size)])


def permute(wanted: Sequence[Sequence[Place]]) -> Shuffles:
    """Returns steps after which lane l of output k holds the element ``wanted[k][l]``."""
    # Interleaving halves, or taking even and odd elements apart, rotates the bits of an element's
    # number. A few rotations do every transposition of powers of two.
    return _shortest(tuple(tuple(row) for row in wanted))


@lru_cache(maxsize=256)
def _shortest(goal: tuple[tuple[Place, ...], ...]) -> Shuffles:
    """Returns the fewer steps of what rotations and gathering need."""
    count, lanes = len(goal), len(goal[0])
    best = _gather(goal)
    if count & (count - 1) == 0 and lanes & (lanes - 1) == 0:
        for apart in (False, True):
            found = _rotate(goal, apart=apart)
            if found is not None and len(found.steps) <= len(best.steps):
                best = found
    return best


def _rotate(goal: tuple[tuple[Place, ...], ...], *, apart: bool) -> Shuffles | None:
    """Interleaves halves, or takes even and odd elements apart, until the goal is reached."""
    count, lanes = len(goal), len(goal[0])
    half = lanes // 2
    picks: tuple[Pick, Pick]
    if apart:
        picks = tuple(  # type: ignore[assignment] # two of them
            tuple((int(lane >= half), 2 * lane % lanes + odd) for lane in range(lanes))
            for odd in (0, 1)
        )
    else:
        picks = tuple(  # type: ignore[assignment]
            tuple((lane % 2, lane // 2 + start) for lane in range(lanes)) for start in (0, half)
        )
    now = list(range(count))
    holds: dict[int, tuple[Place, ...]] = {
        v: tuple((v, lane) for lane in range(lanes)) for v in now
    }
    steps: list[tuple[int, int, int, int]] = []
    for _ in range((count * lanes).bit_length() - 1):
        if tuple(holds[v] for v in now) == goal:
            return Shuffles(picks if steps else (), tuple(steps), tuple(now))
        after = [0] * count
        for k in range(count // 2):
            pair = (now[2 * k], now[2 * k + 1]) if apart else (now[k], now[k + count // 2])
            for which in (0, 1):
                target = count + len(steps)
                steps.append((target, which, *pair))
                holds[target] = _picked(picks[which], [holds[v] for v in pair])
                after[k + which * count // 2 if apart else 2 * k + which] = target
        now = after
    return None


def _gather(goal: tuple[tuple[Place, ...], ...]) -> Shuffles:
    """Puts every output together of its sources, one after the other."""
    picks: dict[Pick, int] = {}
    steps: list[tuple[int, int, int, int]] = []
    outputs = []
    for row in goal:
        sources = list(dict.fromkeys(vector for vector, _ in row))
        if len(sources) == 1 and all(lane == at for at, (_, lane) in enumerate(row)):
            outputs.append(sources[0])
            continue
        have, rest = sources[0], sources[1:] or sources[:1]
        placed: set[int] = set()
        for source in rest:
            # Lanes that are placed already stay; those of the first source move with the second.
            pick = tuple(
                (1, lane)
                if vector == source
                else (0, at if at in placed or vector != sources[0] else lane)
                for at, (vector, lane) in enumerate(row)
            )
            target = len(goal) + len(steps)
            steps.append((target, picks.setdefault(pick, len(picks)), have, source))
            placed |= {at for at, (vector, _) in enumerate(row) if vector in (sources[0], source)}
            have = target
        outputs.append(have)
    return Shuffles(tuple(picks), tuple(steps), tuple(outputs))


def _picked(pick: Pick, pair: Sequence[tuple[Place, ...]]) -> tuple[Place, ...]:
    return tuple(pair[second][lane] for second, lane in pick)
