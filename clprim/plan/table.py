"""Tables of tiles: what was found best for a class of problems on a device, beside the rule.

A table is data: a planner looks a problem's class up and takes the tile that stands there, if it
fits the device; whatever is not in it, or does not fit, is left to the rule. As text it is JSON:

    {"format": 1,
     "device": {"names": ["…"], "platform": "…", "driver": "…", "traits": {"compute_units": 2}},
     "tiles": [{"strategy": "panels", "problem": {"line": 56, …}, "kernel": "in_place",
                "tile": {"rows": 14, "vectors": 2}, "origin": "measured", "gain": 1.04}]}

Depthwise convolutions stand there under a strategy of their own, and classes of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.table import DepthwiseProblem, near_size
from clprim.plan.depthwise.tile import TILES
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.kernel import Plan, power_of_two
from clprim.plan.product.local_tile import LocalTile
from clprim.plan.product.problem import Contraction
from clprim.plan.product.register_tile import MOST_TILES, PANEL_BYTES, Tile
from clprim.traits import DeviceTraits

__all__ = [
    "DEPTHWISE",
    "KERNELS",
    "AnyProblem",
    "Choice",
    "Origin",
    "Problem",
    "Table",
    "TuningFile",
    "chosen",
    "problem_of",
    "tile_of",
]

FORMAT = 1
# More lanes than these keep any device busy.
MANY = 1 << 16

#: What a tile is said by, of every kernel.
KERNELS: dict[str, tuple[str, ...]] = {
    "in_place": ("rows", "vectors"),
    "panels": ("rows", "vectors"),
    "tiles": ("items_y", "items_x", "rows", "columns", "steps"),
    **{kernel: tuple(f.name for f in fields(tile)) for kernel, tile in TILES.items()},
}
#: What depthwise convolutions stand under, in the place of a strategy of products.
DEPTHWISE = "depthwise"
_TEMPLATES = {
    "product/in_place": "in_place",
    "product/panels": "panels",
    "product/tiles": "tiles",
}


def _power(n: int) -> int:
    """The least power of two that is not below a size."""
    return power_of_two(max(1, n))


@dataclass(frozen=True)
class Problem:
    """A class of contractions: those that one tile is best for.

    Attributes:
        stored, value: dtypes of the gathered operand and of sums.
        columns: What lies side by side in the result: ``outputs``, ``lanes`` or ``none``.
        reads: What lies side by side in the gathered operand: ``depth``, ``lanes`` or ``none``.
        windows: Whether windows leave the plane.
        stride: Columns from a window to the next one, where they do; else 1.
        groups, lanes, depth: Rounded up to a power of two.
        line, outputs: Lanes of a line, and outputs of a group; exact up to 256.
    """

    stored: str
    value: str
    columns: str
    reads: str
    windows: bool
    stride: int
    groups: int
    lanes: int
    line: int
    outputs: int
    depth: int

    @classmethod
    def of(cls, what: Contraction) -> Problem:
        """Returns the class of a contraction."""
        x, y = what.gathered, what.near
        return cls(
            stored=x.dtype.name,
            value=what.value.name,
            columns="outputs" if y.output == 1 else "lanes" if y.lane[2] == 1 else "none",
            reads="depth" if x.depth[2] == 1 else "lanes" if x.lane[2] == 1 else "none",
            windows=x.bounds is not None,
            stride=1 if x.bounds is None else x.bounds.column_lane[1],
            groups=_power(what.groups),
            lanes=min(MANY, _power(math.prod(what.lanes))),
            line=near_size(what.lanes[2]),
            outputs=near_size(what.outputs),
            depth=_power(math.prod(what.depths)),
        )


AnyProblem = Problem | DepthwiseProblem


def problem_of(what: Contraction | Depthwise | DepthwiseGradient) -> AnyProblem:
    """Returns the class of what is to be computed."""
    return Problem.of(what) if isinstance(what, Contraction) else DepthwiseProblem.of(what)


@dataclass(frozen=True)
class Choice:
    """A kernel and its tile.

    Attributes:
        kernel: A key of `KERNELS`.
        numbers: What that says a tile by.
    """

    kernel: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kernel} {'×'.join(map(str, self.numbers))}"


def tile_of(choice: Choice, itemsize: int, traits: DeviceTraits) -> Tile | LocalTile | None:
    """Returns the tile of a product that a choice stands for, or None where it does not fit.

    Args:
        choice: From a table, which may be another device's.
        itemsize: Bytes of a sum.
        traits: Of the device.
    """
    if min(choice.numbers) < 1 or choice.kernel in TILES:
        return None
    if choice.kernel == "tiles":
        items_y, items_x, rows, columns, steps = choice.numbers
        local = LocalTile(items_y, items_x, rows, columns, max(2, 16 // itemsize), steps)
        return local if local.fits(itemsize, traits) else None
    rows, vectors = choice.numbers
    width = max(2, min(16, traits.vector_bytes // itemsize))
    panel = min(traits.local_memory, PANEL_BYTES) // itemsize
    tile = Tile(rows, vectors, width, panel, 1 if choice.kernel == "in_place" else MOST_TILES)
    return tile if tile.fits(traits) else None


def chosen(plan: Plan) -> Choice | None:
    """Returns the kernel and the tile of a plan; None for kernels that no table knows."""
    if plan.tile:
        return Choice(plan.main.template, plan.tile)
    kernel = _TEMPLATES.get(plan.main.template)
    if kernel is None:
        return None
    return Choice(kernel, tuple(getattr(plan.main.code, name) for name in KERNELS[kernel]))


@dataclass(frozen=True)
class Table:
    """Choices by strategy and class of problem; empty for a device that nothing is known of."""

    choices: Mapping[tuple[str, AnyProblem], Choice] = field(default_factory=dict)

    def choice(
        self, what: Contraction | Depthwise | DepthwiseGradient, strategy: str
    ) -> Choice | None:
        """Returns what stands in the table for a contraction.

        Args:
            what: The contraction.
            strategy: A key of `clprim.plan.product.strategy.STRATEGIES`, or `DEPTHWISE`.
        """
        return self.choices.get((strategy, problem_of(what))) if self.choices else None


@dataclass(frozen=True)
class Origin:
    """Where a number comes from.

    Attributes:
        word: ``measured``, or ``rule`` for what follows from traits.
        gain: How many times as fast as the rule's tile it was; None where nothing was measured.
    """

    word: str
    gain: float | None = None


@dataclass(frozen=True)
class TuningFile:
    """A table as a file holds it.

    Attributes:
        names: Parts of a device's name, one of which must occur in it; none: any device will do.
        platform: Part of its platform's name.
        driver: Version of its driver; empty for any.
        traits: What of its traits must be equal.
        entries: The table, and where each entry comes from.
    """

    names: tuple[str, ...]
    platform: str
    driver: str
    traits: Mapping[str, Any]
    entries: Mapping[tuple[str, AnyProblem], tuple[Choice, Origin]]

    def is_for(self, name: str, platform: str, driver: str, traits: DeviceTraits) -> bool:
        """Whether it is a device's.

        Args:
            name: What its driver calls it.
            platform: Name of the platform.
            driver: Version of the driver.
            traits: Of the device.
        """
        named = not self.names or any(n.lower() in name.lower() for n in self.names)
        return (
            named
            and self.platform.lower() in platform.lower()
            and self.driver in ("", driver)
            and all(getattr(traits, key) == value for key, value in self.traits.items())
        )

    def text(self) -> str:
        """Returns it as JSON, an entry a line."""
        device = {
            "names": list(self.names),
            "platform": self.platform,
            "driver": self.driver,
            "traits": dict(self.traits),
        }
        lines = []
        for (strategy, problem), (choice, origin) in self.entries.items():
            entry: dict[str, Any] = {
                "strategy": strategy,
                "problem": asdict(problem),
                "kernel": choice.kernel,
                "tile": dict(zip(KERNELS[choice.kernel], choice.numbers, strict=True)),
                "origin": origin.word,
            }
            if origin.gain is not None:
                entry["gain"] = round(origin.gain, 3)
            lines.append(json.dumps(entry, ensure_ascii=False))
        head = json.dumps(device, ensure_ascii=False)
        rows = ",\n  ".join(lines)
        return f'{{"format": {FORMAT},\n "device": {head},\n "tiles": [\n  {rows}\n ]}}\n'

    @classmethod
    def parse(cls, text: str) -> TuningFile:
        """Reads what `text` wrote.

        Raises:
            ValueError: It is something else; the message says what is wrong with it.
        """
        try:
            found = json.loads(text)
            version = found["format"]
            if version != FORMAT:
                raise ValueError(f"format {version!r}, expected {FORMAT}")
            device = found["device"]
            known = {f.name for f in fields(DeviceTraits)}
            strange = sorted(set(device["traits"]) - known)
            if strange:
                raise ValueError(f"unknown traits {', '.join(strange)}")
            return cls(
                tuple(str(name) for name in device["names"]),
                str(device["platform"]),
                str(device["driver"]),
                dict(device["traits"]),
                dict(map(_entry, found["tiles"])),
            )
        except RecursionError:
            raise ValueError("nested too deeply") from None
        except KeyError as error:
            raise ValueError(f"{error} is missing") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not a table of tiles: {error}") from None


def _entry(given: Mapping[str, Any]) -> tuple[tuple[str, AnyProblem], tuple[Choice, Origin]]:
    kernel = given["kernel"]
    if kernel not in KERNELS:
        raise ValueError(f"kernel {kernel!r}, expected one of {', '.join(KERNELS)}")
    numbers = tuple(given["tile"][name] for name in KERNELS[kernel])
    if not all(type(n) is int for n in numbers):
        raise ValueError(f"tile {given['tile']!r}: expected whole numbers")
    strategy = given["strategy"]
    kind = DepthwiseProblem if strategy == DEPTHWISE else Problem
    problem = kind(**given["problem"])
    origin = Origin(given["origin"], given.get("gain"))
    return (strategy, problem), (Choice(kernel, numbers), origin)
