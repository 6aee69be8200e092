"""What the project promises of its speed, and whether a run kept it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any, NamedTuple

HIT, MISSED, NOT_JUDGED = "hit", "MISSED", "not judged"


@dataclass(frozen=True)
class Target:
    """A bound on one number of a row.

    Attributes:
        measure: Which of the row's values.
        bound: What it is compared with.
        of: What the number is a part or a multiple of, to print after it.
        at_most: Whether less is better.
        unit: ``%`` (of values that are fractions), ``×``, `` s``, or nothing for numbers of things.
    """

    measure: str
    bound: float
    of: str
    at_most: bool = False
    unit: str = "%"

    def __str__(self) -> str:
        return f"{self.limit} {self.of}"

    @property
    def limit(self) -> str:
        """The bound, for readers."""
        bound = f"{100 * self.bound:g}" if self.unit == "%" else f"{self.bound:g}"
        return f"{'≤' if self.at_most else '≥'} {bound}{self.unit}"

    def show(self, value: float) -> str:
        """Print a value of this target's measure, so finely that a near miss looks like one."""
        if self.unit == "%":
            return f"{value:.1%}"
        if not self.unit:
            return f"{value:g}"
        return f"{value:.2f}{self.unit}" if self.unit == "×" else f"{value:.3f}{self.unit}"

    def met(self, value: float) -> bool:
        """Whether a value keeps the promise."""
        return value <= self.bound if self.at_most else value >= self.bound


class Verdict(NamedTuple):
    """A target, held against one row.

    Attributes:
        target: The promise.
        subject: The row's title.
        measured: The row's value; None where it was not measured.
        excuse: Why the value says nothing about the target; empty where it does.
    """

    target: Target
    subject: str
    measured: float | None
    excuse: str = ""

    @property
    def outcome(self) -> str:
        """``hit``, ``MISSED`` or ``not judged``."""
        if self.excuse or self.measured is None:
            return NOT_JUDGED
        return HIT if self.target.met(self.measured) else MISSED

    def __str__(self) -> str:
        if self.excuse or self.measured is None:
            return f"{self.target.limit}: ({self.excuse})"
        return f"{self.target.limit}: {self.outcome}, {self.target.show(self.measured)}"


class Summary(NamedTuple):
    """One target over all rows that have it.

    Attributes:
        target: The promise.
        hits: Rows that keep it.
        judged: Rows that were measured and count.
        worst: The verdict furthest from the bound; None where none was judged.
        excuse: Why rows were left out; empty where none was.
    """

    target: Target
    hits: int
    judged: int
    worst: Verdict | None
    excuse: str

    @property
    def outcome(self) -> str:
        """``hit`` if all rows that were judged are."""
        if not self.judged:
            return NOT_JUDGED
        return HIT if self.hits == self.judged else MISSED


def judge(
    targets: Iterable[Target], subject: str, values: Mapping[str, float], excuse: str = ""
) -> list[Verdict]:
    """Hold a row's targets against its values.

    Args:
        targets: The row's promises.
        subject: The row's title.
        values: What was measured; a target whose measure is missing is not judged.
        excuse: Why none of it counts, if so.
    """
    return [
        Verdict(
            target,
            subject,
            values.get(target.measure),
            excuse or ("" if target.measure in values else "not measured"),
        )
        for target in targets
    ]


def mean_times(rows: Iterable[Any]) -> float:
    """Return the geometric mean of how many times as fast rows with a peer are."""
    return geometric_mean(row.times.median for row in rows if row.times)


def summarize(verdicts: Iterable[Verdict]) -> list[Summary]:
    """Gather the verdicts of each target, in the order in which targets first occur."""
    groups: dict[Target, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.target, []).append(verdict)
    summaries = []
    for target, group in groups.items():
        judged = [(v.measured, v) for v in group if not v.excuse and v.measured is not None]
        judged.sort(key=lambda pair: pair[0], reverse=target.at_most)
        excuses = dict.fromkeys(v.excuse for v in group if v.excuse)
        summaries.append(
            Summary(
                target,
                sum(target.met(value) for value, _ in judged),
                len(judged),
                judged[0][1] if judged else None,
                "; ".join(excuses),
            )
        )
    return summaries
