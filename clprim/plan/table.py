"""Tables of tiles: what was measured to be better than the rule, for a class of problems.

A table is data: a family looks a problem's class up and takes the strategy and the tile that stand
there, if they fit the device; whatever is not in it, or does not fit, is left to the rule. As text
it is JSON:

    {"format": 2,
     "device": {"names": ["…"], "platform": "…", "driver": "…", "traits": {"compute_units": 2}},
     "version": "0.1.0",
     "tiles": [{"family": "product", "problem": {"line": 56, …}, "strategy": "in_place",
                "tile": {"rows": 14, "vectors": 2}, "gain": 1.04}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol

from clprim.plan.kernel import Choice, Plan, power_of_two
from clprim.traits import DeviceTraits

# Bound: of files of tables; those of another one are not read.
FORMAT = 2
#: Sizes up to this one count as they are, larger ones as the next power of two: a tile is chosen
#: for what it wastes at the end of a line, which long lines hardly notice.
EXACT = 256


def near_size(size: int) -> int:
    """Returns what a size counts as in a class of problems."""
    return size if size <= EXACT else power_of_two(size)


def power(size: int) -> int:
    """Returns the least power of two that is not below a size."""
    return power_of_two(max(1, size))


class Described(Protocol):
    """A class of problems: a frozen dataclass of strings and numbers."""

    @classmethod
    def of(cls, problem: Any) -> Described:
        """Returns the class of a problem."""
        ...


class Listed(Protocol):
    """What a table asks of a family; see `clprim.plan.strategy.Family`."""

    name: str
    described: type[Described] | None

    def strategy(self, name: str) -> Any:
        """Returns the strategy of that name."""
        ...


# What an entry of a table stands under: the family's name, and the class of problems.
Key = tuple[str, Any]


def key_of(family: Listed, problem: Any) -> Key:
    """Returns what a table says of a problem under."""
    assert family.described is not None  # its tiles are timed
    return family.name, family.described.of(problem)


@dataclass(frozen=True)
class Entry:
    """What a table says of a class of problems."""

    choice: Choice  # The strategy and its tile
    # How many times as fast as the rule's choice it was; 1 where it is the rule's, which then goes
    # on to decide
    gain: float


@dataclass(frozen=True)
class Table:
    """Choices by family and class of problem; empty for a device that nothing is known of."""

    choices: Mapping[Key, Choice] = field(default_factory=dict)  # What is better than the rule
    # Classes that were timed on the device itself, with the version of clprim that did it: there
    # the rule may have won
    timed: Mapping[Key, str] = field(default_factory=dict)
    # What was planned by it, for whoever plans
    plans: dict[Any, Plan] = field(default_factory=dict, init=False, repr=False, compare=False)

    def choice(self, family: Listed, problem: Any) -> Choice | None:
        """Returns what stands in the table for a problem of a family."""
        if not self.choices:
            return None
        return self.choices.get(key_of(family, problem))


@dataclass(frozen=True)
class TuningFile:
    """A table as a file holds it."""

    # Parts of a device's name, one of which must occur in it; none: any device will do
    names: tuple[str, ...]
    platform: str  # Part of its platform's name
    driver: str  # Version of its driver; empty for any
    traits: Mapping[str, Any]  # What of its traits must be equal
    entries: Mapping[Key, Entry]
    version: str = ""  # Of clprim, that measured; empty where it is not known

    def is_for(self, name: str, platform: str, driver: str, traits: DeviceTraits) -> bool:
        """Whether it is a device's."""
        named = not self.names or any(n.lower() in name.lower() for n in self.names)
        return (
            named
            and self.platform.lower() in platform.lower()
            and self.driver in ("", driver)
            and all(getattr(traits, key) == value for key, value in self.traits.items())
        )

    def is_of_class(self, platform: str, traits: DeviceTraits) -> bool:
        """Whether it is of a device of one class: the same driver's, equal but for its units."""
        alike = {key: value for key, value in self.traits.items() if key != "compute_units"}
        return self.platform.lower() in platform.lower() and all(
            getattr(traits, key) == value for key, value in alike.items()
        )

    def text(self, families: Iterable[Listed]) -> str:
        """Returns it as JSON, an entry a line."""
        known = {family.name: family for family in families}
        device = {
            "names": list(self.names),
            "platform": self.platform,
            "driver": self.driver,
            "traits": dict(self.traits),
        }
        lines = []
        for (family, problem), entry in self.entries.items():
            strategy, numbers = entry.choice.strategy, entry.choice.numbers
            names = (f.name for f in fields(known[family].strategy(strategy).tile))
            found = {
                "family": family,
                "problem": asdict(problem),
                "strategy": strategy,
                "tile": dict(zip(names, numbers, strict=True)),
                "gain": round(entry.gain, 3),
            }
            lines.append(json.dumps(found, ensure_ascii=False))
        head = json.dumps(device, ensure_ascii=False)
        rows = ",\n  ".join(lines)
        version = f' "version": {json.dumps(self.version)},\n' if self.version else ""
        head = f'{{"format": {FORMAT},\n "device": {head},\n{version}'
        return f'{head} "tiles": [\n  {rows}\n ]}}\n'

    @classmethod
    def parse(cls, text: str, families: Iterable[Listed]) -> TuningFile:
        """Reads what `text` wrote."""
        known = {family.name: family for family in families if family.described is not None}
        try:
            found = json.loads(text)
            version = found["format"]
            if version != FORMAT:
                raise ValueError(f"format {version!r}, expected {FORMAT}")
            device = found["device"]
            strange = sorted(set(device["traits"]) - {f.name for f in fields(DeviceTraits)})
            if strange:
                raise ValueError(f"unknown traits {', '.join(strange)}")
            return cls(
                tuple(str(name) for name in device["names"]),
                str(device["platform"]),
                str(device["driver"]),
                dict(device["traits"]),
                dict(_entry(given, known) for given in found["tiles"]),
                str(found.get("version", "")),
            )
        except RecursionError:
            raise ValueError("nested too deeply") from None
        except KeyError as error:
            raise ValueError(f"{error} is missing") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not a table of tiles: {error}") from None


def _entry(given: Mapping[str, Any], known: Mapping[str, Listed]) -> tuple[Key, Entry]:
    name, strategy = given["family"], given["strategy"]
    if name not in known:
        raise ValueError(f"family {name!r}, expected one of {', '.join(known)}")
    family = known[name]
    try:
        tile = family.strategy(strategy).tile
    except KeyError:
        raise ValueError(f"strategy {strategy!r}, which family {name!r} has not") from None
    numbers = tuple(given["tile"][f.name] for f in fields(tile))
    if not all(type(n) is int for n in numbers):
        raise ValueError(f"tile {given['tile']!r}: expected whole numbers")
    assert family.described is not None  # see `parse`
    problem = family.described(**given["problem"])
    return (name, problem), Entry(Choice(strategy, numbers), float(given["gain"]))
