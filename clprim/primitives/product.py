"""Contractions: products of matrices and convolutions, in whichever direction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.arrays.array import Array
from clprim.call.arguments import check_array
from clprim.call.forms import Form
from clprim.call.packed import PackedWeight
from clprim.call.primitive import Primitive, Request, Target, run
from clprim.dtypes import AnyDType, is_real
from clprim.errors import DTypeError, quoted
from clprim.language.epilogue_snippet import define_epilogue
from clprim.options import current_options
from clprim.plan.epilogue import NO_EPILOGUE, Epilogue, is_position, is_result
from clprim.plan.kernel import Plan
from clprim.plan.strategy import NOTHING_KNOWN, Family
from clprim.plan.strides import Operand
from clprim.plan.table import Table
from clprim.runtime.device import Device
from clprim.traits import DeviceTraits

_NOTHING: dict[str, PackedWeight] = {}
# Plans of contractions that are remembered; a network has some dozens.
MOST_PLANS = 512


@dataclass(frozen=True)
class Contracted:
    """What a call computes."""

    family: Family[Any]
    problems: tuple[Any, ...]
    result: Operand
    algorithm: str = "auto"
    others: tuple[Operand, ...] = ()


class ContractionPrimitive(Primitive):
    """A contraction of an operand that is gathered with one that may be packed.

    Its numbers are ``beta``, which the old result is multiplied with, and those of the epilogue.
    """

    def __init__(
        self,
        what: str,
        names: Callable[[Any], tuple[str, ...]],
        lower: Callable[[Request, Target], Contracted],
        kind: str,
    ) -> None:
        super().__init__(what, kind)
        self._names, self._lower = names, lower

    @property
    def form(self) -> Form:
        """See `Primitive.form`."""
        return Form(self.kind, {"what": self.what})

    def check(
        self,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: Sequence[Any],
        options: Any,
    ) -> None:
        """See `Primitive.check`."""
        names = self._names(options)
        for name, array in zip(names, arrays, strict=False):
            check_array(self.what, name, array, device)
        epilogue = getattr(options, "epilogue", None)
        snippet = None if epilogue is None else define_epilogue(self.what, epilogue)
        named = 0 if snippet is None else max(snippet.numbers("x"), default=-1) + 1
        for n, array in enumerate(arrays[len(names) :]):
            if snippet is not None and n >= named and not isinstance(array, cl_array.Array):
                raise DTypeError(
                    f"{self.what}: expected a number for w{n - named} of the epilogue, "
                    f"got {type(array).__name__}"
                )
            check_array(self.what, f"x{n} of the epilogue", array, device)
        for array in outs:
            check_array(self.what, "out=", array, device)

    def problem(self, request: Request, target: Target) -> Contracted:
        """See `Primitive.problem`."""
        found = self._lower(request, target)
        extras = request.operands[2:]
        if request.outs and any(_begin_together(request.outs[0], e) for e in extras):
            return replace(found, problems=tuple(map(_in_place, found.problems)))
        return found

    def outputs(self, problem: Contracted) -> tuple[Operand, ...]:
        """The sums, then what their epilogue writes besides."""
        return (problem.result, *problem.others)

    def names(self, problem: Contracted) -> Sequence[str]:
        """The results, both operands, the bias, then what epilogue and prologue read."""
        told = [e for p in problem.problems[-1:] for e in _snippets(p)]
        extras = [a.name for e in told for a in e.arrays if not is_position(a.name)]
        made = [f"y{n}" for n in range(len(problem.others) + 1)]
        return [*made, "x", "w", *(name for name in extras if not is_result(name))]

    def snippets(self, problem: Contracted) -> Mapping[str, str]:
        """The epilogue and the prologue."""
        told = [e.texts for p in problem.problems[-1:] for e in _snippets(p)]
        return {part: text for texts in told for part, text in texts.items()}

    def planned(self, problem: Contracted, device: Device) -> Plan | None:
        """Plans with the tiles that tables hold."""
        from clprim.tune.ask import table_for  # it knows all families of kernels

        return self.plan(problem, device.traits, table_for(device))

    def has_kernels(self, problem: Contracted) -> bool:
        """See `Primitive.has_kernels`."""
        return bool(problem.problems) and problem.algorithm == "auto"

    def plan(
        self, problem: Contracted, traits: DeviceTraits, table: Table = NOTHING_KNOWN
    ) -> Plan | None:
        """See `Primitive.plan`."""
        plans = [self._plan(problem, part, traits, table) for part in problem.problems]
        return Plan.joined(plans) if plans else None

    def _plan(self, whole: Contracted, part: Any, traits: DeviceTraits, table: Table) -> Plan:
        """Plans one of the problems; networks have equal ones many times."""
        key = whole.family.name, part, traits, whole.algorithm
        found = table.plans.get(key)
        if found is None:
            if len(table.plans) >= MOST_PLANS:
                table.plans.clear()
            found = whole.family.plan(part, traits, whole.algorithm, table, self.what)
            table.plans[key] = found
        return found


def contract(
    primitive: ContractionPrimitive,
    x: Any,
    w: Any,
    extras: Sequence[Any],
    options: Any,
    key: Hashable,
    *,
    out: Any = None,
    beta: float = 0,
    numbers: Sequence[float] = (),
) -> Array:
    """Runs a contraction."""
    kept = _NOTHING
    if isinstance(w, PackedWeight):
        kept, w = {"w": w}, w.array
    arrays = (x, w, *extras) if extras else (x, w)
    scalars = (beta, *numbers) if numbers else (beta,)
    chosen = current_options()
    try:
        scaled: bool | None = bool(beta)
    except (TypeError, ValueError):  # several numbers, which are refused below
        scaled = None
    if (scaled or numbers) and getattr(getattr(x, "dtype", None), "kind", "?") in "iu":
        labels = ("beta", *(f"w{n} of the epilogue" for n in range(len(numbers))))
        pairs = zip(labels, scalars, strict=True)
        scalars = tuple(_whole(primitive.what, label, n, x.dtype) for label, n in pairs)
    outs = () if out is None else (out,)
    try:
        return run(
            primitive,
            arrays,
            scalars,
            outs,
            options,
            (
                key,
                scaled,
                chosen.convolution_error,
                chosen.matmul_precision,
                chosen.tune,
                kept is not _NOTHING,
            ),
            kept,
        )[0]
    except DTypeError as error:
        if numbers or error.__cause__ is None:
            raise
        raise DTypeError(f"{primitive.what}: beta={quoted(beta)}: {error.__cause__}") from error


def _snippets(problem: Any) -> tuple[Epilogue[Any], ...]:
    """What runs where sums are stored, and where elements are read."""
    return problem.epilogue, getattr(problem, "prologue", NO_EPILOGUE)


def _begin_together(a: Operand, b: Operand) -> bool:
    """Whether two arrays, which overlap in full or not at all, are one."""
    if a.memory is None or b.memory is None or a.memory[0] != b.memory[0]:
        return False
    return a.memory[1] + a.offset == b.memory[1] + b.offset


def _in_place(problem: Any) -> Any:
    """The same problem, with the result in the place of what its epilogue reads."""
    return replace(problem, epilogue=replace(problem.epilogue, in_place=True))


def _whole(what: str, label: str, value: Any, dtype: AnyDType) -> Any:
    """Returns a number that integers are computed with, which is whole itself."""
    if not is_real(value):
        return value  # refused where all is checked
    if not isinstance(value, int | np.integer) and not float(value).is_integer():
        raise DTypeError(f"{what}: {label}={quoted(value)} beside {dtype}: expected a whole number")
    return int(value)
