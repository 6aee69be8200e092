"""Strategies: the ways to compute a problem, and the one ordered list that a family has of them.

A *strategy* says of a problem whether it can do it, which tile it would take, which others are
worth timing, and what its kernels are. A *family* is a list of strategies in order of preference:
the first one that is applicable, and preferred on the device, computes it, unless a table of
measured tiles or the user says otherwise. Messages, tuning, golden files and tests that run over
"every kernel" follow from the list.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Generic, TypeVar

from clprim.errors import DefinitionError
from clprim.plan.kernel import Choice, Plan
from clprim.plan.table import Described, Table
from clprim.traits import DeviceTraits

P = TypeVar("P")
Q = TypeVar("Q")
MaybePlan = TypeVar("MaybePlan", bound="Plan | None")

NOTHING_KNOWN = Table()
# Tiles of a strategy that are worth timing: each is compiled, which takes a second.
CANDIDATES = 6


@dataclass(frozen=True)
class Example(Generic[P]):
    """A problem that reaches a branch of a strategy's templates."""

    name: str  # Of the golden file, below the strategy's name: ``loops``; empty for the first
    problem: P
    traits: DeviceTraits  # Of a device that it is planned for
    tile: Any = None  # The tile; the rule's where left out


def _always(*_: Any) -> bool:
    return True


def _none(*_: Any) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True)
class Strategy(Generic[P]):
    """One way to compute a problem."""

    # What users, tables and reports call it; before a slash that of a group of strategies
    name: str
    tile: type[Any]  # A dataclass of whole numbers; its fields are what a table keeps
    applicable: Callable[[P, DeviceTraits], bool]  # Whether it can do a problem on a device
    # The tile where no table knows better, of a problem that it takes
    rule: Callable[[P, DeviceTraits], Any]
    # The kernels of a problem that it takes, with a tile that fits
    plan: Callable[[P, DeviceTraits, Any], Plan]
    fits: Callable[[Any, P, DeviceTraits], bool] = _always  # Whether another tile can be had
    # Tiles worth timing beside the rule's, those that promise most first
    near: Callable[[Any, P, DeviceTraits], Iterable[Any]] = _none
    # Whether it is to be chosen for an applicable problem if no one names it
    preferred: Callable[[P, DeviceTraits], bool] = _always
    # Problems of the family it stands in, that reach every branch of its templates
    examples: Callable[[], Iterable[Example[Any]]] = _none
    needs: str = ""  # What it takes, for messages
    # Relative root mean square error that a tile has, of random numbers; None where results are
    # sums of products
    error: Callable[[Any, P], float] | None = None
    # Whether it is worth timing; where left out, if it is preferred
    timed: Callable[[P, DeviceTraits], bool] | None = None
    # What the rule's tile takes, where strategies beside each other are to be weighed: of the
    # preferred ones that say so the cheapest is chosen
    cost: Callable[[P, DeviceTraits], float] | None = None

    @property
    def label(self) -> str:
        """What users name it by: its group, if it is of one."""
        return self.name.partition("/")[0]

    def planned(self, problem: P, traits: DeviceTraits, tile: Any = None) -> Plan:
        """Returns the plan of a problem that it takes, which says what chose it."""
        tile = self.rule(problem, traits) if tile is None else tile
        plan = self.plan(problem, traits, tile)
        return replace(plan, choice=Choice(self.name, astuple(tile)))

    def tuned(self, problem: P, traits: DeviceTraits, numbers: Sequence[int]) -> Plan | None:
        """Returns the plan with a tile of these numbers, or None where it does not fit."""
        if not self.applicable(problem, traits) or min(numbers, default=1) < 1:
            return None
        tile = self.tile(*numbers)
        return self.planned(problem, traits, tile) if self.fits(tile, problem, traits) else None


class LastPlan(Generic[P, MaybePlan]):
    """A planner that chooses a tile if it is given none, and remembers the last plan."""

    # Whether its strategy takes a problem, which tile the rule chooses and which kernels there are
    # then is one plan, made once.

    def __init__(
        self,
        plan: Callable[[P, DeviceTraits, Any], MaybePlan],
        tile_of: Callable[[Plan], Any],
    ) -> None:
        self._plan, self._tile_of = plan, tile_of
        self._last: tuple[tuple[P, DeviceTraits], tuple[Any, ...], MaybePlan] | None = None

    def __call__(self, problem: P, traits: DeviceTraits, tile: Any = None) -> MaybePlan:
        """Returns the plan with a tile, or with the one that the rule chooses."""
        last, given = self._last, (problem, traits)  # another thread may write the next one
        if last is not None and tile in last[1] and last[0] == given:
            return last[2]
        plan = self._plan(problem, traits, tile)
        tiles = (tile,) if tile is not None or plan is None else (None, self._tile_of(plan))
        self._last = given, tiles, plan
        return plan

    def rule(self, problem: P, traits: DeviceTraits) -> Any:
        """Returns the tile of a problem that has a plan."""
        plan = self(problem, traits)
        assert plan is not None  # the strategy takes the problem
        return self._tile_of(plan)


def lowered(
    strategy: Strategy[Q], lower: Callable[[P], Q | None], unless: Callable[[P], bool]
) -> Strategy[P]:
    """Returns a strategy for problems that ``lower`` makes others of; it returns None of some."""

    def taken(test: Callable[[Q, DeviceTraits], bool]) -> Callable[[P, DeviceTraits], bool]:
        def takes(problem: P, traits: DeviceTraits) -> bool:
            found = lower(problem)
            return found is not None and test(found, traits)

        return takes

    def of(problem: P) -> Q:
        found = lower(problem)
        assert found is not None  # it takes the problem
        return found

    error = strategy.error
    return Strategy(
        strategy.name,
        strategy.tile,
        taken(strategy.applicable),
        lambda problem, traits: strategy.rule(of(problem), traits),
        lambda problem, traits, tile: strategy.plan(of(problem), traits, tile),
        lambda tile, problem, traits: strategy.fits(tile, of(problem), traits),
        lambda tile, problem, traits: strategy.near(tile, of(problem), traits),
        lambda problem, traits: not unless(problem) and taken(strategy.preferred)(problem, traits),
        strategy.examples,
        strategy.needs,
        None if error is None else lambda tile, problem: error(tile, of(problem)),
        None if strategy.timed is None else taken(strategy.timed),
    )


@dataclass(frozen=True)
class Via(Generic[P]):
    """The strategies of another family, for problems that can be cut into problems of it."""

    family: Family[Any]
    lower: Callable[[P], Sequence[Any]]  # The problems that together are a given one


class Family(Generic[P]):
    """An ordered list of strategies."""

    def __init__(
        self, name: str, described: type[Described], strategies: Sequence[Strategy[P] | Via[P]]
    ) -> None:
        self.name, self.described = name, described
        self.strategies = tuple(strategies)

    @property
    def names(self) -> tuple[str, ...]:
        """What users may name, in order of preference."""
        found: dict[str, None] = {}
        for entry in self.strategies:
            found |= dict.fromkeys(entry.family.names if isinstance(entry, Via) else (entry.label,))
        return tuple(found)

    def check(self, what: str, name: Any) -> None:
        """Refuses a name that no strategy has."""
        if name != "auto" and (not isinstance(name, str) or not self._entries(name)):
            raise DefinitionError(
                f"{what}: algorithm={name!r}: expected one of auto, {', '.join(self.names)}"
            )

    def able(self, problem: P, traits: DeviceTraits) -> tuple[str, ...]:
        """Returns the names that a problem can be computed by, in order of preference."""
        found: dict[str, None] = {}
        for entry in self.strategies:
            if isinstance(entry, Via):
                parts = [entry.family.able(part, traits) for part in entry.lower(problem)]
                found |= {
                    name: None for name in entry.family.names if all(name in p for p in parts)
                }
            elif entry.applicable(problem, traits):
                found[entry.label] = None
        return tuple(found)

    def plan(
        self,
        problem: P,
        traits: DeviceTraits,
        name: str = "auto",
        table: Table = NOTHING_KNOWN,
        what: str = "",
    ) -> Plan:
        """Plans a problem, of which nothing may be empty."""
        self.check(what, name)
        known = table.choice(self, problem)
        if known is not None and name in ("auto", known.strategy, known.strategy.partition("/")[0]):
            tuned = self.tuned(problem, traits, known)
            if tuned is not None:
                return tuned
        for preferred in (True, False):
            for entry in self._entries(name):
                if isinstance(entry, Via):
                    parts = entry.lower(problem)
                    if name == "auto" or all(
                        name in entry.family.able(part, traits) for part in parts
                    ):
                        return Plan.joined(
                            [entry.family.plan(p, traits, name, table, what) for p in parts]
                        )
                elif entry.applicable(problem, traits) and (
                    not preferred or entry.preferred(problem, traits)
                ):
                    return self._cheapest(entry, problem, traits, name).planned(problem, traits)
        needs = "".join(dict.fromkeys(f"; it needs {n}" for n in self._needs(name) if n))
        raise DefinitionError(
            f"{what}: algorithm={name!r} cannot do {problem}{needs}; expected "
            f"'auto' or one of "
            f"{', '.join(self.able(problem, traits))}"
        )

    def _cheapest(
        self, first: Strategy[P], problem: P, traits: DeviceTraits, name: str
    ) -> Strategy[P]:
        """Returns the strategy of the least cost, of those that may be weighed with the first."""
        if first.cost is None:
            return first
        able = [e for e in self._own(name) if e.cost and e.applicable(problem, traits)]
        weighed = [e for e in able if e is first or e.preferred(problem, traits)]
        return min(weighed, key=lambda e: e.cost(problem, traits) if e.cost else math.inf)

    def cost(self, problem: P, traits: DeviceTraits) -> float:
        """Returns what the cheapest of its own strategies costs that are preferred and say so."""
        able = (e for e in self._own("auto") if e.cost and e.applicable(problem, traits))
        costs = (e.cost(problem, traits) for e in able if e.cost and e.preferred(problem, traits))
        return min(costs, default=math.inf)

    def tuned(self, problem: P, traits: DeviceTraits, choice: Choice) -> Plan | None:
        """Plans one strategy with one tile; None where strategy or tile do not fit."""
        for strategy, part in self._able(problem, traits):
            if strategy.name == choice.strategy:
                return strategy.tuned(part, traits, choice.numbers)
        return None

    def error(self, problem: P, traits: DeviceTraits, choice: Choice) -> float:
        """Returns the relative root mean square error of a choice; 0 of sums of products."""
        for strategy, part in self._able(problem, traits):
            if strategy.name == choice.strategy and strategy.error is not None:
                return strategy.error(strategy.tile(*choice.numbers), part)
        return 0.0

    def candidates(self, problem: P, traits: DeviceTraits) -> list[Choice]:
        """Returns the rule's choice, the choices of other strategies' rules, then other tiles."""
        # Beside strategies whose errors are allowed stand sums of products, even where they are
        # another family's. The strategies take turns, each with what it promises most next.
        found: dict[Choice, None] = {}
        first = self.plan(problem, traits).choice
        able = self._able(problem, traits)
        able.sort(key=lambda entry: first is None or entry[0].name != first.strategy)
        lists: list[list[Choice]] = []
        for strategy, part in able:
            timed = strategy.timed or strategy.preferred
            if strategy.error is None and not timed(part, traits):
                continue
            rule = strategy.rule(part, traits)
            tiles = (rule, *strategy.near(rule, part, traits))
            choices = [Choice(strategy.name, astuple(tile)) for tile in tiles]
            lists.append(
                [c for c in choices if strategy.tuned(part, traits, c.numbers) is not None]
            )
        for turn in itertools.zip_longest(*lists):
            found |= dict.fromkeys(choice for choice in turn if choice is not None)
        return list(found)

    def examples(self) -> Iterator[tuple[str, Plan]]:
        """Yields the plans of all examples of its own strategies, with names like files'."""
        for strategy in self._own("auto"):
            for example in strategy.examples():
                name = f"{strategy.name}-{example.name}" if example.name else strategy.name
                yield name, strategy.planned(example.problem, example.traits, example.tile)

    def strategy(self, name: str) -> Strategy[P]:
        """Returns the strategy that has a name, its own or of a family that it goes on to."""
        return self._known()[name]

    def _known(self) -> dict[str, Strategy[Any]]:
        found: dict[str, Strategy[Any]] = {}
        for entry in self.strategies:
            more = entry.family._known() if isinstance(entry, Via) else {entry.name: entry}
            found = {**more, **found}
        return found

    def _able(self, problem: P, traits: DeviceTraits) -> list[tuple[Strategy[Any], Any]]:
        """Returns the strategies that tables and tuning choose from, each with its problem."""
        # Those of its own that can do it. If one of them has errors, sums of products as well,
        # whosever they are: without errors their own family's table decides.
        own = [(s, problem) for s in self._own("auto") if s.applicable(problem, traits)]
        if all(strategy.error is None for strategy, _ in own):
            return own
        return [(s, part) for s, part in self._whole(problem) if s.applicable(part, traits)]

    def _whole(self, problem: P) -> Iterator[tuple[Strategy[Any], Any]]:
        """Yields the strategies that compute it as one problem, each with what it is to them."""
        for entry in self.strategies:
            if not isinstance(entry, Via):
                yield entry, problem
                continue
            parts = entry.lower(problem)
            if len(parts) == 1:
                yield from entry.family._whole(parts[0])

    def _entries(self, name: str) -> list[Strategy[P] | Via[P]]:
        """Returns the entries of the list that a name stands for."""

        def named(entry: Strategy[P] | Via[P]) -> bool:
            if isinstance(entry, Via):
                return bool(entry.family._entries(name))
            return name in (entry.name, entry.label)

        return [entry for entry in self.strategies if name == "auto" or named(entry)]

    def _needs(self, name: str) -> Iterator[str]:
        for entry in self._entries(name):
            if isinstance(entry, Via):
                yield from entry.family._needs(name)
            else:
                yield entry.needs

    def _own(self, name: str) -> list[Strategy[P]]:
        return [e for e in self._entries(name) if not isinstance(e, Via)]
