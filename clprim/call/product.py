"""Runs contractions: plans them once a signature, on the operands that the operator gives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.memory import Described, memory_relation
from clprim.call.call import Call, bind
from clprim.call.packed import PackedWeight
from clprim.call.signature import Calls
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, quoted
from clprim.options import current_options
from clprim.plan.epilogue import Epilogue, is_position
from clprim.plan.kernel import Plan
from clprim.plan.strategy import Family
from clprim.runtime.device import Device, current_device
from clprim.runtime.tables import table_of

_NOTHING: dict[str, PackedWeight] = {}


@dataclass(frozen=True)
class Planned:
    """What an operator asks for.

    Attributes:
        family: Whose strategies compute it.
        problems: Computed one after another; together they write the whole result.
        result: The result, if it is to be allocated.
        algorithm: A strategy's name, or ``auto``.
    """

    family: Family[Any]
    problems: tuple[Any, ...]
    result: Described
    algorithm: str = "auto"


def run_contraction(
    calls: Calls[Call],
    what: str,
    x: Any,
    w: Any,
    extras: Sequence[Any],
    options: Hashable,
    prepare: Callable[..., Planned],
    given: Sequence[Any] = (),
    *,
    out: Any = None,
    beta: float = 0,
    numbers: Sequence[float] = (),
) -> Array:
    """Runs a contraction, planning it where its signature is new.

    Args:
        calls: The operator's planned calls.
        what: The operator, for messages.
        x: The gathered operand.
        w: The operand to pack, or a `PackedWeight`.
        extras: Arrays of the epilogue.
        options: Whatever else decides what the call does.
        prepare: Checks everything and returns what to run, on the device that it is given.
        given: What ``prepare`` is told besides.
        out: Where the result goes, checked by ``prepare``.
        beta: What the old result is multiplied with.
        numbers: Of the epilogue.

    Raises:
        DTypeError: A ``beta`` that integers cannot be multiplied with.
    """
    device = current_device()
    kept = _NOTHING
    if isinstance(w, PackedWeight):
        kept, w = {"w": w}, w.array
    arrays = (x, w, *extras) if extras else (x, w)
    outs = () if out is None else (out,)
    scalars = (beta, *numbers) if numbers else (beta,)
    error = current_options().convolution_error
    try:
        scaled: bool | None = bool(beta)
    except (TypeError, ValueError):  # several numbers, which are refused below
        scaled = None
    call, signature = calls.look_up(
        device, arrays, outs, scalars, (options, scaled, error, kept is not _NOTHING)
    )
    if call is None:
        planned = prepare(device, *given)
        if out is not None and any(_begin_together(out, e) for e in extras):
            planned = replace(planned, problems=tuple(map(_in_place, planned.problems)))
        call = _build(device, what, planned)
        calls.remember(signature, call)
    if (scaled or numbers) and x.dtype.kind in "iu":
        labels = ("beta", *(f"w{n} of the epilogue" for n in range(len(numbers))))
        scalars = tuple(
            _whole(what, label, value, x.dtype)
            for label, value in zip(labels, scalars, strict=True)
        )
    result: Array = call.allocate(device)[0] if out is None else out
    try:
        call.run(device, (result, *arrays), scalars, kept)
    except DTypeError as error:
        if numbers:
            raise
        raise DTypeError(f"{what}: beta={quoted(beta)}: {error.__cause__}") from error
    return result


def _begin_together(a: Any, b: Any) -> bool:
    """Whether two arrays, which overlap in full or not at all, are one."""
    found = memory_relation(a.base_data, b.base_data)
    return found is not None and found[0] + a.offset == found[1] + b.offset


def _in_place(problem: Any) -> Any:
    """The same problem, with the result in the place of what its epilogue reads."""
    return replace(problem, epilogue=replace(problem.epilogue, in_place=True))


def _whole(what: str, label: str, value: float, dtype: AnyDType) -> int:
    """Returns a number that integers are computed with, which is whole itself."""
    if not isinstance(value, int | np.integer) and not float(value).is_integer():
        raise DTypeError(f"{what}: {label}={quoted(value)} beside {dtype}: expected a whole number")
    return int(value)


def _build(device: Device, what: str, planned: Planned) -> Call:
    arrays, snippets, plans = ["y0", "x", "w"], {}, []
    table = table_of(device)
    for problem in planned.problems:
        epilogue: Epilogue[Any] = problem.epilogue
        arrays[3:] = [a.name for a in epilogue.arrays if not is_position(a.name)]
        snippets = epilogue.texts
        traits, family = device.traits, planned.family
        plans.append(family.plan(problem, traits, planned.algorithm, table, what))
    plan = Plan.joined(plans) if plans else None
    return bind(device, what, plan, arrays, (planned.result,), snippets)
