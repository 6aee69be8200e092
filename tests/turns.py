"""Which cases of crossed parameters leave a run to other runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

_SEVERAL, _MANY = 6, 12


def of_other_turns(
    family: Sequence[tuple[object, Sequence[Hashable]]], turn: int
) -> Iterator[object]:
    """Yields the cases of a function whose turn it is not.

    Of two parameters with three values or more a turn has every third case, else every second:
    those whose positions add up to its number, and every value of every parameter is met in every
    turn. Of one parameter with six values or more it has every second, of twelve every third. Of
    six turns in a row each case has one.

    Args:
        family: The cases, each with its value of every parameter.
        turn: Any whole number.

    Example:
        >>> cases = [(a + b, (a, b)) for a in "ab" for b in "xyz"]
        >>> list(of_other_turns(cases, 0)), list(of_other_turns(cases, 1))
        (['ay', 'bx', 'bz'], ['ax', 'az', 'by'])
    """
    positions = [
        {value: number for number, value in enumerate(dict.fromkeys(column))}
        for column in zip(*(values for _, values in family), strict=True)
    ]
    *_, second, first = 1, 1, *sorted(map(len, positions))
    if second == 1:
        turns = 1 + (first >= _SEVERAL) + (first >= _MANY)
        yield from (case for n, (case, _) in enumerate(family) if (n + turn) % turns)
        return
    turns = min(second, 3)
    others: list[tuple[object, Sequence[Hashable]]] = []
    met: set[tuple[int, Hashable]] = set()
    for case, values in family:
        total = sum(column[value] for column, value in zip(positions, values, strict=True))
        if (total + turn) % turns:
            others.append((case, values))
        else:
            met.update(enumerate(values))
    for case, values in others:
        if met.issuperset(enumerate(values)):
            yield case
        met.update(enumerate(values))  # cases may be a part of the product only
