"""Kernels of a graph in one launch: a walker of phases, whose text depends on its bodies alone.

Which kernels run in which order, how large they are, where their arrays lie and what each waits for
are numbers in a table in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clprim.errors import ShapeError, quoted
from clprim.plan.kernel import Argument, Buffer, KernelCode, KernelPlan, Parameter, Scalar
from clprim.plan.launch.body import POINTER, Body
from clprim.plan.machine import LINE
from clprim.traits import DeviceTraits

#: Bound: words of a phase in the table, before waits and arguments.
ROW = 16
#: Bound: words between counters, which lie in lines of their own.
COUNTER = LINE // 4
#: Work-items of a GPU's groups whose kernels share nothing.
ITEMS = 256
#: Groups of each unit of a GPU, which hide from one another how long memory takes.
UNIT_GROUPS = 4
# Tiles of a work-group in a phase of many units: the last one to end leaves a sixteenth idle.
_TILES = 16


@dataclass(frozen=True, kw_only=True)
class WalkerCode(KernelCode):
    """What the walker's template prints."""

    bodies: tuple[Body, ...]
    memories: int  # Pieces of memory that it is given
    items: int  # Work-items of a work-group
    calls: bool  # Whether bodies are functions of their own, where a compiler keeps any
    version: tuple[int, int]

    @property
    def c_version(self) -> tuple[int, int]:
        """See `KernelCode.c_version`."""
        return self.version


@dataclass(frozen=True)
class Phase:
    """A kernel of a launch.

    Attributes:
        kernel: The kernel.
        body: It as a function.
        numbers: Its run-time scalars.
        places: Of every array of it: the number of its memory, and where it begins there.
        waits: Numbers of the phases that must have ended.
    """

    kernel: KernelPlan
    body: Body
    numbers: Sequence[float]
    places: Mapping[str, tuple[int, int]]
    waits: tuple[int, ...]

    @property
    def units(self) -> tuple[int, int, int]:
        """How many work-groups, or work-items, it has along each dimension."""
        x, y, z = (*self.kernel.global_size, 1, 1)[:3]
        if self.body.items:
            return x, y, z
        a, b, c = (*self.kernel.local_size, 1, 1)[:3]
        return x // a, y // b, z // c


def tiling(phase: Phase, groups: int, items: int) -> tuple[int, int]:
    """Returns how many units a work-group takes at once, and how many tiles these are."""
    x, y, z = phase.units
    step = items if phase.body.items else 1
    rounds = -(-x * y * z // step)
    at_once = -(-rounds // (_TILES * groups))
    return at_once * step, -(-rounds // at_once)


def walker_code(
    bodies: Iterable[Body], memories: int, items: int, traits: DeviceTraits, *, doubles: bool
) -> WalkerCode:
    """Returns the walker of some bodies, which are in an order that their texts decide."""
    parameters = [
        Parameter.memory("int", "walk_table", read_only=True),
        Parameter.memory("walk_counter", "walk_counters", read_only=False),
        Parameter.number("uint", "walk_epoch"),
        Parameter.number("int", "walk_phases"),
        Parameter.number("int", "walk_shares"),
    ]
    parameters += [
        Parameter.memory("char", f"walk_memory_{n}", read_only=False) for n in range(memories)
    ]
    return WalkerCode(
        name="phases",
        parameters=tuple(parameters),
        index="int",
        doubles=doubles,
        bodies=tuple(sorted(set(bodies), key=lambda body: (body.text, body.items))),
        memories=memories,
        items=items,
        calls=traits.calls,
        version=(3, 0) if traits.c_version >= (3, 0) else traits.c_version,
    )


def shares(code: WalkerCode, groups: int) -> int:
    """Returns into how many shares phases are cut: on CPUs one for each work-group."""
    return groups if code.items == 1 else 1


def counters(code: WalkerCode, phases: int, groups: int) -> int:
    """Returns how many words all counters take: of a phase, done, and taken of each share."""
    return COUNTER * phases * (1 + shares(code, groups))


def walker_plan(code: WalkerCode, phases: Sequence[Phase], groups: int) -> KernelPlan:
    """Returns the launch of some phases by so many work-groups."""
    arguments: list[Argument] = [
        Buffer("table"),
        Buffer("counters"),
        Scalar(0),
        len(phases),
        shares(code, groups),
    ]
    arguments += [Buffer(f"memory_{n}") for n in range(code.memories)]
    return KernelPlan(
        "launch/walker",
        code,
        tuple(arguments),
        (groups * code.items, 1, 1),
        (code.items, 1, 1),
        sum(phase.kernel.nbytes for phase in phases),
        sum(phase.kernel.flops for phase in phases),
        phases=tuple(phase.kernel.code.name for phase in phases),
    )


def table_of(code: WalkerCode, phases: Sequence[Phase], groups: int) -> bytes:
    """Returns the table: a row a phase, and behind them what phases wait for and their arguments.

    Raises:
        ShapeError: A number that does not fit its C type.
    """
    known = {body: n for n, body in enumerate(code.bodies)}
    tilings = [tiling(phase, groups, code.items) for phase in phases]
    rows: list[int] = []
    rest: list[int] = []
    begin = ROW * len(phases)
    for phase, (at_once, tiles) in zip(phases, tilings, strict=True):
        x, y, z = phase.units
        waits = begin + len(rest)
        for other in phase.waits:
            rest += other, tilings[other][1]
        words = begin + len(rest)
        rest += _words(phase)
        rows += known[phase.body], x, y, z, at_once, tiles, waits, len(phase.waits), words, 0
        rows += (*phase.kernel.local_size, 1, 1)[:3]
        rows += [0] * (-len(rows) % ROW)
    return struct.pack(f"={len(rows) + len(rest)}i", *rows, *rest)


# A ``long`` has 8 bytes in every kernel, and 4 in ``struct``'s standard sizes, which has no pairs.
_OWN = {"l": "q", "L": "Q", "F": "ff", "D": "dd"}


def _words(phase: Phase) -> Sequence[int]:
    """Returns the arguments of a phase."""
    packed = b""
    for parameter, argument in zip(phase.body.parameters, phase.kernel.arguments, strict=True):
        if isinstance(argument, Buffer):
            packed += struct.pack("=iq", *phase.places[argument.name])
            continue
        value = phase.numbers[argument.number] if isinstance(argument, Scalar) else argument
        try:
            parts = (value.real, value.imag) if parameter.format in "FD" else (value,)
            number = struct.pack(f"={_OWN.get(parameter.format, parameter.format)}", *parts)
        except struct.error as error:
            raise ShapeError(f"the kernel cannot count to {quoted(value)}") from error
        packed += number + bytes(-len(number) % 4)
    assert struct.calcsize("=iq") == POINTER * 4
    return struct.unpack(f"={len(packed) // 4}i", packed)
