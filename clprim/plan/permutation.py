"""Permutes elements of a few vectors by steps that each take lanes of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from clprim.plan.pointwise.code import Shuffles

Place = tuple[int, int]  # (vector, lane)
Pick = tuple[tuple[int, int], ...]  # (0 or 1: of which vector, which lane), each lane


@lru_cache(maxsize=16)
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
    rounds, apart = _rotations(goal)
    few = 0
    for row in goal:
        sources = {vector for vector, _ in row}
        same = [lane for _, lane in row] == list(range(lanes))
        few += 0 if same and len(sources) == 1 else max(1, len(sources) - 1)
    if rounds is None or rounds * count > few:
        return _gather(goal)
    return _rotate(count, lanes, rounds, apart=apart)


def _rotations(goal: tuple[tuple[Place, ...], ...]) -> tuple[int | None, bool]:
    """How often halves are interleaved, or even and odd elements taken apart; None if never."""
    count, lanes = len(goal), len(goal[0])
    size, bits = count * lanes, (count * lanes).bit_length() - 1
    if count & (count - 1) or lanes & (lanes - 1):
        return None, False
    wanted = [vector * lanes + lane for row in goal for vector, lane in row]
    for n in range(bits if min(count, lanes) > 1 else 1):
        if wanted == [e >> n | (e << bits - n) % size for e in range(size)]:
            return (bits - n, True) if bits - n <= n else (n, False)
    return None, False


def _rotate(count: int, lanes: int, rounds: int, *, apart: bool) -> Shuffles:
    """Interleaves halves, or takes even and odd elements apart, so many times."""
    half, places = lanes // 2, range(lanes)
    if apart:
        picks = [
            tuple([(int(lane >= half), 2 * lane % lanes + odd) for lane in places])
            for odd in (0, 1)
        ]
    else:
        picks = [tuple([(lane % 2, lane // 2 + start) for lane in places]) for start in (0, half)]
    now, steps = list(range(count)), list[tuple[int, int, int, int]]()
    for _ in range(rounds):
        after = [0] * count
        for k in range(count // 2):
            pair = (now[2 * k], now[2 * k + 1]) if apart else (now[k], now[k + count // 2])
            for which in (0, 1):
                after[k + which * count // 2 if apart else 2 * k + which] = count + len(steps)
                steps.append((count + len(steps), which, *pair))
        now = after
    return Shuffles(tuple(picks) if steps else (), tuple(steps), tuple(now))


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
