"""Primitives, which are all that launches, and `run`, the only way in which they do.

A call of a primitive is a `Request`: operands, numbers and options, without a device. `problem`
checks it and says what is to be computed, `plan` how, for the traits of a device. Both are pure, so
that shapes, dtypes and memory formats of results are known without a device or a compiler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from clprim.arrays.array import Array
from clprim.arrays.memory import operand_of
from clprim.call.arguments import check_arrays
from clprim.call.call import Call, bind
from clprim.call.forms import Form, makers
from clprim.call.packed import PackedWeight
from clprim.call.scalars import as_numbers
from clprim.call.signature import Calls
from clprim.errors import ComplexError, DTypeError
from clprim.plan.kernel import Plan
from clprim.plan.strategy import Family
from clprim.plan.strides import Operand
from clprim.runtime.device import Device, current_device
from clprim.runtime.source_cache import source_of
from clprim.runtime.tracing import active
from clprim.traits import DeviceTraits

_NOTHING: Mapping[str, PackedWeight] = {}


class Target(Protocol):
    """What a request is checked for: a device, or only its traits; it prints as its name."""

    @property
    def traits(self) -> DeviceTraits:
        """What kernels may rely on."""


class NoPlanError(Exception):
    """A primitive has no kernel for a problem on a device: its caller goes another way."""


def planned_by(family: Family[Any], problem: Any, traits: DeviceTraits) -> Plan:
    """Plans a problem by a family's rules.

    Raises:
        NoPlanError: No strategy takes it.
    """
    found = family.ruled(problem, traits)
    if found is None:
        raise NoPlanError
    return found


@dataclass(frozen=True)
class Request:
    """What a primitive is asked for: all of a call but what its arrays hold."""

    operands: tuple[Operand, ...]
    numbers: tuple[Any, ...] = ()
    outs: tuple[Operand, ...] = ()
    options: Any = None
    kept: frozenset[str] = frozenset()


class _NoCall(Call):
    """Stands for the call of a problem that has no kernel."""

    def allocate(self, device: Device, outs: tuple[Any, ...] = ()) -> tuple[Array, ...]:
        """Says so."""
        del device, outs
        raise NoPlanError


_NO_CALL = _NoCall("", ())


class Primitive(ABC):
    """Something that launches kernels.

    Attributes:
        what: The operator, for messages.
        kind: What it computes, whatever it is called in messages: what passes and files ask.
        calls: The planned calls, by their signatures.
        nothing: What `sources` says where nothing runs.
        complex_numbers: Whether it takes arrays of them.
    """

    nothing: ClassVar[str] = "// no elements: nothing runs\n"
    complex_numbers: ClassVar[bool] = False

    def __init__(self, what: str, kind: str = "") -> None:
        self.what, self.kind = what, kind or what
        self.calls: Calls[Call] = Calls()

    def check(
        self,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: Sequence[Any],
        options: Any,
    ) -> None:
        """Refuses what is no array of the device, before anything else is looked at.

        Raises:
            DTypeError: Not a device array.
            DeviceError: An array of another context.
        """
        del numbers, options
        check_arrays(self.what, arrays, outs, device)

    @abstractmethod
    def problem(self, request: Request, target: Target) -> Any:
        """Checks a request and returns what is to be computed.

        Raises:
            ClprimError: Whatever is wrong with it.
        """

    @abstractmethod
    def plan(self, problem: Any, traits: DeviceTraits) -> Plan | None:
        """Returns the kernels of a problem; None where nothing is to run.

        Raises:
            NoPlanError: There are none for this device.
        """

    def planned(self, problem: Any, device: Device) -> Plan | None:
        """Plans a problem with what is known of a device beside its traits."""
        return self.plan(problem, device.traits)

    def has_kernels(self, problem: Any) -> bool:
        """Whether planning a problem for any device is sure to give kernels.

        They draw no random numbers, and write nothing but results.
        """
        del problem
        return False

    @abstractmethod
    def names(self, problem: Any) -> Sequence[str]:
        """What the plan calls the arrays of a call, results first."""

    @property
    def form(self) -> Form | None:
        """What makes it again, for files; None where nothing does."""
        return Form(self.kind, {}) if self.kind in makers else None

    def snippets(self, problem: Any) -> Mapping[str, str]:
        """The user's text of every part, for the compiler's complaints."""
        del problem
        return {}

    def outputs(self, problem: Any) -> tuple[Operand, ...]:
        """Where the results of a call lie; those to be allocated have no memory yet."""
        found: tuple[Operand, ...] = problem.results
        return found

    def results(self, request: Request, target: Target) -> tuple[Operand, ...]:
        """Returns shapes, dtypes and strides of what a request gives."""
        return self.outputs(self.problem(request, target))


def request_of(
    primitive: Primitive,
    device: Device,
    arrays: Sequence[Any],
    numbers: Sequence[Any] = (),
    outs: Sequence[Any] = (),
    options: Any = None,
    kept: Mapping[str, PackedWeight] = _NOTHING,
) -> Request:
    """Returns the request that arrays of a device make.

    Raises:
        ClprimError: What `Primitive.check` says, or an array of complex numbers that it does not
            take.
    """
    primitive.check(device, arrays, numbers, outs, options)
    check_parts(primitive, (*arrays, *outs))
    operands, given = (tuple(map(operand_of, each)) for each in (arrays, outs))
    return Request(operands, tuple(numbers), given, options, frozenset(kept))


def check_parts(primitive: Primitive, operands: Sequence[Any]) -> None:
    """Refuses complex numbers that a primitive does not take."""
    found = next((a for a in operands if a.dtype.kind == "c"), None)
    if found is not None and not primitive.complex_numbers:
        raise ComplexError(
            f"{primitive.what} takes no complex numbers, got {found.dtype}: x.real and x.imag are "
            "arrays of their parts"
        )


def run(
    primitive: Primitive,
    arrays: Sequence[Any],
    numbers: Sequence[Any] = (),
    outs: tuple[Any, ...] = (),
    options: Any = None,
    key: Hashable = None,
    kept: Mapping[str, PackedWeight] = _NOTHING,
) -> tuple[Array, ...]:
    """Runs a primitive on the current device, and plans and builds it if its signature is new."""
    device = current_device()
    if active.now is not None:
        found: tuple[Array, ...] = active.now.run(
            primitive, device, arrays, numbers, outs, options, kept
        )
        return found
    call, signature = primitive.calls.look_up(
        device, arrays, outs, numbers, options if key is None else key
    )
    if call is None:
        plain = as_numbers(numbers)
        if plain is not numbers:
            return run(primitive, arrays, plain, outs, options, key, kept)
        call = _prepare(primitive, device, arrays, numbers, outs, options, kept)
        primitive.calls.remember(signature, call)
    results = call.allocate(device, outs)
    try:
        call.run(device, (*results, *arrays), numbers, kept)
    except DTypeError:
        # Says what is wrong with which number:
        _prepare(primitive, device, arrays, numbers, outs, options, kept)
        raise
    return results


def able(
    primitive: Primitive,
    arrays: Sequence[Any],
    numbers: Sequence[Any] = (),
    outs: tuple[Any, ...] = (),
    options: Any = None,
) -> bool:
    """Whether a primitive has kernels for a call, which is planned and built as `run` would."""
    device = current_device()
    if active.now is not None:
        request = request_of(primitive, device, arrays, as_numbers(numbers), outs, options)
        try:
            primitive.planned(primitive.problem(request, device), device)
        except NoPlanError:
            return False
        return True
    call, signature = primitive.calls.look_up(device, arrays, outs, numbers, options)
    if call is None:
        call = _prepare(primitive, device, arrays, numbers, outs, options, _NOTHING)
        primitive.calls.remember(signature, call)
    return call is not _NO_CALL


def sources(
    primitive: Primitive,
    arrays: Sequence[Any],
    numbers: Sequence[Any] = (),
    outs: Sequence[Any] = (),
    options: Any = None,
) -> str:
    """Returns the OpenCL C that a call would run, without running or building it."""
    device = current_device()
    request = request_of(primitive, device, arrays, as_numbers(numbers), outs, options)
    problem = primitive.problem(request, device)
    plan = primitive.planned(problem, device)
    if plan is None or not plan.stages:
        return primitive.nothing
    return "\n".join(source_of(stage.template, stage.code) for stage in plan.stages)


def _prepare(
    primitive: Primitive,
    device: Device,
    arrays: Sequence[Any],
    numbers: Sequence[Any],
    outs: Sequence[Any],
    options: Any,
    kept: Mapping[str, PackedWeight],
) -> Call:
    """Checks and plans a call of a new signature, and builds its kernels."""
    request = request_of(primitive, device, arrays, numbers, outs, options, kept)
    problem = primitive.problem(request, device)
    try:
        plan = primitive.planned(problem, device)
    except NoPlanError:
        return _NO_CALL
    return built(device, primitive, problem, plan, primitive.outputs(problem))


def built(
    device: Device,
    primitive: Primitive,
    problem: Any,
    plan: Plan | None,
    results: Any,
    *,
    later: bool = False,
) -> Call:
    """Builds the kernels of a plan, or leaves that for later."""
    names, snippets = primitive.names(problem), primitive.snippets(problem)
    return bind(device, primitive.what, plan, names, results, snippets, later=later)
