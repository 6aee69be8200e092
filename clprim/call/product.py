"""Runs contractions: plans them once a signature, packs operands, and keeps what stays packed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from clprim.arrays.array import Array
from clprim.call.launch import Launch, source_of
from clprim.call.signature import Described, allocate, allocate_workspace, look_up, remember
from clprim.dtypes import AnyDType
from clprim.errors import ClprimError, DTypeError
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.product.problem import Contraction
from clprim.plan.product.strategy import plan_contraction
from clprim.runtime.device import Device, current_device
from clprim.runtime.stats import counters
from clprim.runtime.tables import table_of

__all__ = [
    "ContractionCall",
    "PackedWeight",
    "Planned",
    "forget_calls",
    "run_contraction",
    "sources",
]

_planned: dict[int, dict[Any, ContractionCall]] = {}
_numbers: dict[Hashable, int] = {}
_next_number = itertools.count()


class PackedWeight:
    """A weight that stays: it is packed when it is first used, and kept as kernels read it.

    Taken wherever a weight array is. Its own copy of the weight protects it from later changes.

    Attributes:
        array: The weight.
    """

    def __init__(self, array: Array) -> None:
        self.array = array
        self._packed: dict[Hashable, Any] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight."""
        return self.array.shape

    @property
    def dtype(self) -> AnyDType:
        """Of the weight."""
        return self.array.dtype

    def __repr__(self) -> str:
        return f"<clprim.PackedWeight {self.dtype} {self.shape}>"

    def packed(self, key: Hashable, pack: Callable[[], Any]) -> Any:
        """Returns the buffer of one way to pack it, made by ``pack`` the first time."""
        found = self._packed.get(key)
        if found is None:
            found = self._packed[key] = pack()
        return found


@dataclass(frozen=True)
class Planned:
    """What an operator asks for.

    Attributes:
        contractions: Run one after another; together they write the whole result.
        result: The result, if it is to be allocated.
        strategy: A name out of `clprim.plan.product.strategy`, or ``auto``.
    """

    contractions: tuple[Contraction | Depthwise | DepthwiseGradient, ...]
    result: Described
    strategy: str = "auto"


@dataclass(frozen=True, slots=True)
class _Stage:
    """The kernels of one contraction."""

    key: int | None
    pack: Launch | None
    launches: tuple[Launch, ...]
    packed: tuple[int, AnyDType]
    partial: tuple[int, AnyDType] | None


@dataclass(frozen=True, slots=True)
class ContractionCall:
    """Everything about a call but buffers and scalars."""

    stages: tuple[_Stage, ...]
    result: Described


def run_contraction(
    calls: dict[Any, ContractionCall],
    what: str,
    x: Any,
    w: Any,
    extras: Sequence[Any],
    options: Hashable,
    prepare: Callable[[Device], Planned],
    *,
    out: Any = None,
    beta: float = 0,
) -> Any:
    """Runs a contraction, planning it where its signature is new.

    Args:
        calls: The operator's planned calls.
        what: The operator, for messages.
        x: The gathered operand.
        w: The operand to pack, or a `PackedWeight`.
        extras: Arrays of the epilogue.
        options: Whatever else decides what the call does.
        prepare: Checks everything and returns what to run.
        out: Where the result goes, checked by ``prepare``.
        beta: What the old result is multiplied with.
    """
    device = current_device()
    kept = w if isinstance(w, PackedWeight) else None
    matrix = w if kept is None else kept.array
    arrays = (x, matrix, *extras)
    outs = () if out is None else (out,)
    scaled = bool(beta)
    call, signature = look_up(calls, device, arrays, outs, (), (options, scaled))
    if call is None:
        call = _build(device, what, prepare(device))
        _planned[id(calls)] = calls
        remember(calls, signature, call)
    result = allocate(device, (call.result,))[0] if out is None else out
    rest = [extra.base_data for extra in extras]
    for stage in call.stages:
        memory = [result.base_data, x.base_data, matrix.base_data, None, None, *rest]
        if stage.pack is not None:
            memory[3] = _packed(device, stage.pack, stage, memory, kept)
        if stage.partial is not None:
            memory[4] = allocate_workspace(device, (stage.partial,))[0]
        try:
            for launch in stage.launches:
                launch(device.queue, memory, (beta,))
        except ClprimError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise DTypeError(f"{what}: beta={beta!r}: {error}") from error
    return result


def _packed(
    device: Device, pack: Launch, stage: _Stage, memory: list[Any], kept: PackedWeight | None
) -> Any:
    """Returns the packed operand: of a weight that stays it is kept."""

    def run() -> Any:
        buffer = allocate_workspace(device, (stage.packed,))[0]
        pack(device.queue, [*memory[:3], buffer], ())
        return buffer

    return run() if kept is None else kept.packed(stage.key, run)


def forget_calls() -> None:
    """Forgets all planned calls, so that the next ones find what was tuned since."""
    for calls in _planned.values():
        calls.clear()


def _build(device: Device, what: str, planned: Planned) -> ContractionCall:
    stages = []
    table = table_of(device)
    for contraction in planned.contractions:
        plan = plan_contraction(contraction, device.traits, planned.strategy, table)
        epilogue = contraction.epilogue
        snippets = {} if epilogue is None else {epilogue.rules.part: epilogue.text}
        kernels = [plan.main] if plan.finish is None else [plan.main, plan.finish]
        launches = [Launch(device, k, title=what, snippets=snippets) for k in kernels]
        pack, key = None, None
        if plan.pack is not None:
            pack = Launch(device, plan.pack, title=what, snippets={})
            key = _number((device, plan.pack.code, plan.pack.arguments))
        value = contraction.value
        stages.append(
            _Stage(
                key=key,
                pack=pack,
                launches=tuple(launches),
                packed=(plan.packed, value),
                partial=(plan.partial, value) if plan.partial else None,
            )
        )
    counters.plans += 1
    return ContractionCall(tuple(stages), planned.result)


def _number(key: Hashable) -> int:
    """Returns a number for a key, always the same: a look-up hashes all of a key every time."""
    return _numbers.setdefault(key, next(_next_number))


def sources(planned: Planned, device: Device) -> str:
    """Returns the OpenCL C of every kernel that would run."""
    texts: dict[str, None] = {}
    for contraction in planned.contractions:
        plan = plan_contraction(contraction, device.traits, planned.strategy, table_of(device))
        for kernel in (plan.pack, plan.main, plan.finish):
            if kernel is not None:
                texts[source_of(kernel.template, kernel.code)] = None
    return "\n".join(texts)
