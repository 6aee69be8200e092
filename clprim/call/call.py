"""A planned call as a value: its kernels in order, where each finds its buffers, and workspace.

A plan names its buffers; here every name has become a place in one list: the arrays of the call,
then what kernels that run ``once`` made of weights, then workspace. So a repeated call looks no
name up, and whoever records calls, or joins them, works on numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clprim.arrays.array import Array, allocated
from clprim.arrays.memory import allocate_workspace
from clprim.call.launch import Launch, Places
from clprim.call.packed import PackedWeight
from clprim.errors import ClprimError, DTypeError, quoted
from clprim.plan.kernel import Plan
from clprim.plan.strides import Operand
from clprim.runtime.device import Device
from clprim.runtime.randomness import advance
from clprim.runtime.stats import counters

_NOTHING: Mapping[str, PackedWeight] = {}
_numbers: dict[Hashable, int] = {}
_next_number = itertools.count()


class Stage(NamedTuple):
    """A kernel of a call."""

    launch: Launch
    places: Places
    numbers: Sequence[float] | None = None


class Once(NamedTuple):
    """A kernel that writes one buffer, and reads nothing for it but a weight."""

    launch: Launch
    places: Places
    weight: str
    key: int
    nbytes: int

    def make(self, device: Device, memory: list[Any], weight: PackedWeight | None) -> Any:
        """Returns what is written, and leaves it with a weight that stays."""
        found = allocate_workspace(device, (self.nbytes,))[0]
        self.launch.enqueue([*memory, found], self.places, ())
        if weight is not None:
            weight.kept[self.key] = found
        return found


@dataclass(frozen=True, slots=True)
class Call:
    """Everything about a call but its arrays and numbers."""

    what: str
    stages: tuple[Stage, ...]
    new: tuple[tuple[Any, ...] | None, ...] = ()
    once: tuple[Once, ...] = ()
    workspace: tuple[int, ...] = ()
    draws: bool = False

    def allocate(self, device: Device, outs: tuple[Any, ...] = ()) -> tuple[Array, ...]:
        """Returns the results: those that the caller gives, and new arrays."""
        if not outs:
            return tuple([allocated(device, *new) for new in self.new])  # type: ignore[misc]
        if len(outs) == len(self.new):
            return outs
        given = iter(outs)
        return tuple([allocated(device, *new) if new else next(given) for new in self.new])

    def run(
        self,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[float] = (),
        kept: Mapping[str, PackedWeight] = _NOTHING,
    ) -> list[Any]:
        """Enqueues the kernels and returns the list of buffers."""
        memory = [a.base_data for a in arrays]
        if self.once:
            for stage in self.once:
                weight = kept.get(stage.weight)
                found = None if weight is None else weight.kept.get(stage.key)
                memory.append(stage.make(device, memory, weight) if found is None else found)
        if self.workspace:
            memory += allocate_workspace(device, self.workspace)
        if self.draws:
            numbers = (*numbers, *advance())
        try:
            for launch, places, fixed in self.stages:
                launch.enqueue(memory, places, numbers if fixed is None else fixed)
        except ClprimError:
            raise
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise misfit(self.what, numbers, error) from error
        return memory


def misfit(what: str, numbers: Sequence[float], error: Exception) -> DTypeError:
    """Returns what is to be raised where a number does not fit its C type."""
    large = [n for n in numbers if isinstance(n, int) and n.bit_length() > 64]
    return DTypeError(f"{what}: {f'{quoted(large[0])} is out of bounds' if large else error}")


def bind(
    device: Device,
    what: str,
    plan: Plan | None,
    arrays: Sequence[str],
    results: tuple[Operand, ...] = (),
    snippets: Mapping[str, str] | None = None,
    *,
    later: bool = False,
) -> Call:
    """Binds the kernels of a plan for a new signature; builds them, or leaves that for later."""
    counters.plans += 1
    new = tuple(None if r.memory else (r.shape, r.dtype, r.strides, r.size) for r in results)
    if plan is None:
        return Call(what, (), new)
    slots = {name: n for n, name in enumerate(arrays)}
    sizes = {name: count * dtype.itemsize for name, (count, dtype) in plan.workspace.items()}
    once: list[Once] = []
    stages: list[Stage] = []
    for kernel in sorted(plan.stages, key=lambda kernel: not kernel.once):
        unbuilt = later and not kernel.once
        launch = Launch(device, kernel, title=what, snippets=snippets or {}, later=unbuilt)
        if kernel.once:
            (weight,), (made,) = kernel.buffers(written=False), kernel.buffers(written=True)
            slots[made] = len(slots)
            key = _numbers.setdefault((device, kernel.code, kernel.arguments), next(_next_number))
            once.append(Once(launch, launch.places(slots), weight, key, sizes.pop(made)))
            continue
        if not stages:
            slots |= {name: len(slots) + n for n, name in enumerate(sizes)}
        stages.append(Stage(launch, launch.places(slots)))
    draws = any(kernel.draws for kernel in plan.stages)
    return Call(what, tuple(stages), new, tuple(once), tuple(sizes.values()), draws)
