"""Strategies: the ways to compute a problem, and the one ordered list that a family has of them.

A *strategy* says of a problem whether it can do it, which tile it would take, which others are
worth timing, and what its kernels are. A *family* is a list of strategies in order of preference:
the first one that is applicable, and preferred on the device, computes it, unless a table of
measured tiles or the user says otherwise. Messages, tuning, golden files and tests that run over
"every kernel" follow from the list.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from clprim.errors import DefinitionError
from clprim.plan.kernel import Choice, Plan
from clprim.plan.table import Described, Table
from clprim.traits import DeviceTraits

P = TypeVar("P")

NOTHING_KNOWN = Table()
# Tiles of a strategy that are worth timing: each is compiled, which takes a second.
CANDIDATES = 6


@dataclass(frozen=True)
class Example(Generic[P]):
    """A problem that reaches a branch of a strategy's templates."""

    name: str  # Of the golden file, below the strategy's name: ``loops``; empty for the first
    problem: P
    traits: DeviceTraits
    tile: Any = None  # The rule's where left out


@dataclass(frozen=True)
class Single:
    """The tile of a strategy that has but one."""


class Weighed(NamedTuple):
    """A tile with what it takes, so that strategies beside each other can be weighed."""

    cost: float
    tile: Any
    plan: Callable[[], Plan] | None = None  # Where more than the tile is known by then


def _always(*_: Any) -> bool:
    return True


def _none(*_: Any) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True)
class Strategy(Generic[P]):
    """One way to compute a problem."""

    name: str  # For users, tables and reports; before a slash that of a group of strategies
    tile: type[Any]  # A dataclass of whole numbers; its fields are what a table keeps
    # The tile where no table knows better, `Weighed` where it may be beside others, a `Plan` where
    # there is but one; or None
    rule: Callable[[P, DeviceTraits], Any]
    plan: Callable[[P, DeviceTraits, Any], Plan]  # Kernels, with a tile that fits
    # Whether it can do a problem on a device, if its rule finds a tile
    applicable: Callable[[P, DeviceTraits], bool] = _always
    fits: Callable[[Any, P, DeviceTraits], bool] = _always  # Whether another tile can be had
    # Tiles worth timing beside the rule's, those that promise most first
    near: Callable[[Any, P, DeviceTraits], Iterable[Any]] = _none
    # Whether it is to be chosen for an applicable problem if no one names it
    preferred: Callable[[P, DeviceTraits], bool] = _always
    pays: Callable[[P, DeviceTraits, Any], bool] = _always  # Likewise, asked of the rule's tile
    # Problems of the family it stands in, that reach every branch of its templates
    examples: Callable[[], Iterable[Example[Any]]] = _none
    needs: str = ""  # What it takes, for messages
    # Relative root mean square error of random numbers; None where results are sums of products
    error: Callable[[Any, P], float] | None = None
    # Whether it is worth timing; where left out, if it is preferred
    timed: Callable[[P, DeviceTraits], bool] | None = None

    @property
    def label(self) -> str:
        """What users name it by: its group, if it is of one."""
        return self.name.partition("/")[0]

    def decide(
        self, problem: P, traits: DeviceTraits, *, preferred: bool = False
    ) -> Decision | None:
        """Returns the rule's tile, or None where it cannot do it or is not ``preferred``."""
        if not self.applicable(problem, traits):
            return None
        if preferred and not self.preferred(problem, traits):
            return None
        found = self.rule(problem, traits)
        cost, tile, plan = found if isinstance(found, Weighed) else (None, found, None)
        if isinstance(found, Plan):
            tile, plan = Single(), lambda: found
        if tile is None or (preferred and not self.pays(problem, traits, tile)):
            return None
        return Decision(self, problem, traits, tile, cost, plan)

    def planned(self, problem: P, traits: DeviceTraits, tile: Any = None) -> Plan:
        """Returns the plan of a problem that it takes, which says what chose it."""
        found = Decision(self, problem, traits, tile) if tile else self.decide(problem, traits)
        assert found is not None  # it takes the problem
        return found.plan()

    def tuned(self, problem: P, traits: DeviceTraits, numbers: Sequence[int]) -> Plan | None:
        """Returns the plan with a tile of these numbers, or None where it does not fit."""
        if not self.applicable(problem, traits) or min(numbers, default=1) < 1:
            return None
        tile = self.tile(*numbers)
        return self.planned(problem, traits, tile) if self.fits(tile, problem, traits) else None


def single(
    name: str,
    plan: Callable[[P, DeviceTraits], Plan | None],
    examples: Callable[[], Iterable[Example[Any]]],
    needs: str = "",
) -> Strategy[P]:
    """Returns a strategy of one tile, whose ``plan`` is None where it does not suit."""

    def again(problem: P, traits: DeviceTraits, _: Single) -> Plan:
        found = plan(problem, traits)
        assert found is not None  # it suits
        return found

    return Strategy(name, Single, plan, again, examples=examples, needs=needs)


@dataclass(frozen=True)
class Decision:
    """A strategy and its tile for a problem, carried from the first question to the plan."""

    strategy: Strategy[Any]
    problem: Any
    traits: DeviceTraits
    tile: Any
    cost: float | None = None
    made: Callable[[], Plan] | None = None  # What plans it without asking again

    @property
    def choice(self) -> Choice:
        """What a table keeps of it."""
        return Choice(self.strategy.name, astuple(self.tile))

    def plan(self, *_: object) -> Plan:
        """Returns the kernels."""
        if self.made is not None:
            return replace(self.made(), choice=self.choice)
        plan = self.strategy.plan(self.problem, self.traits, self.tile)
        return replace(plan, choice=self.choice)


@dataclass(frozen=True)
class Lowered(Generic[P]):
    """Strategies of other problems, which ``lower`` makes of some of a family's."""

    strategies: Sequence[Strategy[Any]]
    lower: Callable[[P], Any]  # None of a problem that they do not take


@dataclass(frozen=True)
class Via(Generic[P]):
    """The strategies of another family, for problems that can be cut into problems of it."""

    family: Family[Any]
    lower: Callable[[P], Sequence[Any]]  # The problems that together are a given one


class Family(Generic[P]):
    """An ordered list of strategies, the last of which takes everything."""

    def __init__(
        self,
        name: str,
        described: type[Described] | None,  # None where no table keeps what was timed
        entries: Sequence[Strategy[P] | Lowered[P] | Via[P]],
    ) -> None:
        self.name, self.described, self.entries = name, described, tuple(entries)
        self._known: dict[str, Strategy[Any]] = {}
        for entry in self.entries:
            known = entry.family._known.values() if isinstance(entry, Via) else self._own(entry)
            self._known |= {s.name: s for s in known if s.name not in self._known}
        # What users may name, in order of preference
        self.names = tuple(dict.fromkeys(s.label for s in self._known.values()))

    def check(self, what: str, name: Any) -> None:
        """Refuses a name that no strategy has."""
        if name != "auto" and not (isinstance(name, str) and name in (*self.names, *self._known)):
            raise DefinitionError(
                f"{what}: algorithm={name!r}: expected one of auto, {', '.join(self.names)}"
            )

    def strategy(self, name: str) -> Strategy[P]:
        """Returns the strategy that has a name, its own or of a family that it goes on to."""
        return self._known[name]

    def able(self, problem: P, traits: DeviceTraits) -> tuple[str, ...]:
        """Returns the names that a problem can be computed by, in order of preference."""
        found: dict[str, None] = {}
        for entry, parts in self._entries(problem):
            if isinstance(entry, Via):
                able = [entry.family.able(part, traits) for part in parts]
                names = entry.family.names
                found |= dict.fromkeys(name for name in names if all(name in a for a in able))
            elif entry.decide(parts, traits) is not None:
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
        """Plans a problem, of which nothing may be empty; ``what`` is for messages."""
        self.check(what, name)
        return Asked(self, problem, traits, name).plan(table, what)

    def ruled(self, problem: P, traits: DeviceTraits) -> Plan | None:
        """Plans a problem by the rules; None where no strategy takes it."""
        found = Asked(self, problem, traits, "auto").ruled
        return None if found is None else found.plan(NOTHING_KNOWN, "")

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
            rule = strategy.decide(part, traits)
            if rule is None:
                continue
            tiles = (rule.tile, *strategy.near(rule.tile, part, traits))
            choices = [Choice(strategy.name, astuple(tile)) for tile in tiles]
            lists.append(
                [c for c in choices if strategy.tuned(part, traits, c.numbers) is not None]
            )
        for turn in itertools.zip_longest(*lists):
            found |= dict.fromkeys(choice for choice in turn if choice is not None)
        return list(found)

    def own(self) -> Iterator[tuple[Strategy[Any], Callable[[Any], Any]]]:
        """Yields the strategies that are no other family's, and what lowers a problem to them."""
        for entry in self.entries:
            lower = entry.lower if isinstance(entry, Lowered) else lambda problem: problem
            for strategy in self._own(entry):
                yield strategy, lower

    def examples(self) -> Iterator[tuple[str, Strategy[Any], Example[Any]]]:
        """Yields all examples of its own strategies with names like files', lowered for them."""
        for strategy, lower in self.own():
            for one in strategy.examples():
                name = f"{strategy.name}-{one.name}" if one.name else strategy.name
                yield name, strategy, replace(one, problem=lower(one.problem))

    def _own(self, entry: Strategy[P] | Lowered[P] | Via[P]) -> Sequence[Strategy[Any]]:
        """The strategies of an entry that are no other family's."""
        if isinstance(entry, Via):
            return ()
        return entry.strategies if isinstance(entry, Lowered) else (entry,)

    def _entries(self, problem: P) -> Iterator[tuple[Strategy[Any] | Via[P], Any]]:
        """Yields strategies with what the problem is to them, and families with its parts."""
        for entry in self.entries:
            part = problem if isinstance(entry, Strategy) else entry.lower(problem)
            if isinstance(entry, Via):
                yield entry, part
            elif part is not None:
                yield from ((strategy, part) for strategy in self._own(entry))

    def _able(self, problem: P, traits: DeviceTraits) -> list[tuple[Strategy[Any], Any]]:
        """Returns the strategies that tables and tuning choose from, each with its problem."""
        # Its own, and if one of them has errors sums of products as well, whosever they are.
        own = [(s, p) for s, p in self._entries(problem) if isinstance(s, Strategy)]
        own = [(strategy, part) for strategy, part in own if strategy.decide(part, traits)]
        if all(strategy.error is None for strategy, _ in own):
            return own
        return [(s, part) for s, part in self._whole(problem) if s.decide(part, traits)]

    def _whole(self, problem: P) -> Iterator[tuple[Strategy[Any], Any]]:
        """Yields the strategies that compute it as one problem, each with what it is to them."""
        for entry, part in self._entries(problem):
            if isinstance(entry, Strategy):
                yield entry, part
            elif len(part) == 1:
                yield from entry.family._whole(part[0])


@dataclass(frozen=True)
class Asked:
    """A family's question what computes a problem, answered once by its rules."""

    family: Family[Any]
    problem: Any
    traits: DeviceTraits
    name: str  # A strategy's, a group's, or ``auto``

    def plan(self, table: Table, what: str) -> Plan:
        """Returns the kernels by the table, where it knows a tile that fits, or by the rules."""
        known = table.choice(self.family, self.problem)
        if known is not None and self.name in (
            "auto",
            known.strategy,
            known.strategy.partition("/")[0],
        ):
            tuned = self.family.tuned(self.problem, self.traits, known)
            if tuned is not None:
                return tuned
        if self.ruled is not None:
            return self.ruled.plan(table, what)
        named = [s for s in self.family._known.values() if self.name in (s.name, s.label)]
        needs = "".join(dict.fromkeys(f"; it needs {s.needs}" for s in named if s.needs))
        raise DefinitionError(
            f"{what}: algorithm={self.name!r} cannot do {self.problem}{needs}; expected "
            f"'auto' or one of "
            f"{', '.join(self.family.able(self.problem, self.traits))}"
        )

    @cached_property
    def ruled(self) -> Decision | Parts | None:
        """What rules choose: the first that is preferred, or of those with costs the cheapest."""
        options = self._options(preferred=True)
        first = next(options, None)
        if first is None:
            return next(self._options(preferred=False), None)
        if isinstance(first, Parts) or first.cost is None:
            return first
        weighed = [first, *(option for option in options if option.cost is not None)]
        return min(weighed, key=lambda option: option.cost or 0.0)

    def _options(self, *, preferred: bool) -> Iterator[Decision | Parts]:
        """Yields in order what can compute it, of the name."""
        for entry, part in self.family._entries(self.problem):
            if isinstance(entry, Strategy):
                if self.name in ("auto", entry.name, entry.label):
                    found = entry.decide(part, self.traits, preferred=preferred)
                    if found is not None:
                        yield found
            elif self.name == "auto" or (
                self.name in entry.family.names
                and all(self.name in entry.family.able(p, self.traits) for p in part)
            ):
                yield Parts([Asked(entry.family, p, self.traits, self.name) for p in part])


@dataclass(frozen=True)
class Parts:
    """The questions that another family is asked for the parts of a problem."""

    asked: Sequence[Asked]

    @property
    def cost(self) -> float | None:
        """What all of them take, None where one cannot be weighed."""
        costs = [asked.ruled.cost if asked.ruled else None for asked in self.asked]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def plan(self, table: Table, what: str) -> Plan:
        """Returns their kernels, one after the other."""
        return Plan.joined([asked.plan(table, what) for asked in self.asked])
