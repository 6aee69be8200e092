"""Argument validation of public functions: whether arguments are of the annotated kind.

Python takes anything for true, a word's bytes for sizes, and compares arrays element by element; so
a flag, a word or a size of another kind is refused here, for all functions alike.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from clprim.dtypes import is_integer, is_real
from clprim.errors import ComplexError, DTypeError, ShapeError, quoted, upload_hint
from clprim.plan.strides import NO_SEQUENCES, elements_of

P = ParamSpec("P")
R = TypeVar("R")

_NEVER_SIZES = (*NO_SEQUENCES, complex)
_LONG = 1 << 63
# What most shapes are: a few of Python's own integers.
_FEW, _PLAIN = 8, frozenset((int,))


def flag(what: str, label: str, value: Any) -> bool:
    """Returns a flag as Python's own; NumPy's bools, and the integers 0 and 1, are such."""
    if value is True or value is False:
        return bool(value)
    if isinstance(value, np.bool_) or (is_integer(value) and value in (0, 1)):
        return bool(value)
    raise DTypeError(f"{what}: expected True or False for {label}, got {quoted(value)}")


def instance(what: str, label: str, value: Any, kind: type, expected: str) -> Any:
    """Returns what was given, if it is of a class, which ``expected`` says in words."""
    if isinstance(value, kind):
        return value
    raise DTypeError(f"{what}: expected {expected} for {label}, got {quoted(value)}")


def _queue(what: str, label: str, value: Any) -> Any:
    return instance(what, label, value, cl.CommandQueue, "a pyopencl.CommandQueue")


def _events(what: str, label: str, value: Any) -> list[Any]:
    given = [*value] if isinstance(value, list | tuple) else [None]
    if all(isinstance(event, cl.Event) for event in given):
        return given
    raise DTypeError(f"{what}: expected a list of pyopencl.Event for {label}, got {quoted(value)}")


def _nothing(what: str, label: str, value: Any) -> Any:
    return instance(what, label, value, type(None), "None")


def _word(what: str, label: str, value: Any) -> Any:
    return str(instance(what, label, value, str, "a string"))  # NumPy's strings as Python's


def _number(what: str, label: str, value: Any) -> Any:
    number = isinstance(value, int | float | np.generic)
    if is_real(value) if number else getattr(value, "shape", None) == ():
        return value
    raise DTypeError(f"{what}: expected a number for {label}, got {quoted(value)}")


def counted(what: str, label: str, value: Any) -> Any:
    """Returns what was given, NumPy's integers as Python's."""
    if value.__class__ is int:
        if -_LONG <= value < _LONG:
            return value
        raise ShapeError(f"{what}: {label}={quoted(value)}: expected an integer of 64 bits")
    return int(value) if is_integer(value) else value


def _sizes(what: str, label: str, value: Any) -> Any:
    if value.__class__ is int and -_LONG <= value < _LONG:
        return value  # before all else: this is asked on every call
    if isinstance(value, str) and value:
        return str(value)  # a word; which there are, operators know
    if isinstance(value, (*_NEVER_SIZES, str)):
        raise ShapeError(f"{what}: {label}={quoted(value)}: expected an integer, or several")
    if isinstance(value, range):
        return _one_or_several(what, label, value)
    return counted(what, label, value)


def _integers(what: str, label: str, value: Any, expected: str) -> tuple[int, ...]:
    few = value.__class__ is tuple and 0 < len(value) <= _FEW
    if few and _PLAIN.issuperset(map(type, value)) and -_LONG <= min(value) <= max(value) < _LONG:
        return tuple(value)  # before all else: this is asked on every call
    given = elements_of(value)
    if given is None or not all(map(is_integer, given)):
        raise ShapeError(f"{what}: {label}={quoted(value)}: expected {expected}")
    return tuple([counted(what, label, n) for n in given])


def _axes(what: str, label: str, value: Any) -> Any:
    if is_integer(value):
        return counted(what, label, value)
    return _integers(what, label, value, "an integer or a tuple of integers")


def _one_or_several(what: str, label: str, value: Any) -> Any:
    if is_integer(value):
        return counted(what, label, value)
    return _integers(what, label, value, "an integer or several")


def _flags(what: str, label: str, value: Any) -> tuple[bool, ...]:
    if not isinstance(value, tuple | list):
        raise DTypeError(f"{what}: expected a tuple of flags for {label}, got {quoted(value)}")
    return tuple([flag(what, f"{label}[{n}]", given) for n, given in enumerate(value)])


def _array(what: str, label: str, value: Any) -> Any:
    if isinstance(value, cl_array.Array):
        # One of PyOpenCL's own lacks methods.
        return value if hasattr(value, "namespace") else sys.modules["clprim"].asarray(value)
    raise DTypeError(
        f"{what}: expected a device array for {label}, got {quoted(value)}{upload_hint(value)}"
    )


def _list(what: str, label: str, value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return value
    raise DTypeError(f"{what}: expected a list of arrays for {label}, got {quoted(value)}")


def _several(what: str, label: str, value: Any) -> tuple[int, ...]:
    return _integers(what, label, value, "several integers")


def _two(what: str, label: str, value: Any) -> tuple[int, ...]:
    found = _integers(what, label, value, "two integers")
    if len(found) == 2:
        return found
    raise ShapeError(f"{what}: {label}={quoted(value)}: expected two integers")


# By what a parameter's annotation says, and whether None may be given as well.
_CHECKS: dict[object, tuple[Callable[[str, str, Any], Any], bool]] = {
    "bool": (flag, False),
    "bool | None": (flag, True),
    "str": (_word, False),
    "str | None": (_word, True),
    "float": (_number, False),
    "float | None": (_number, True),
    "int": (counted, False),
    "int | None": (counted, True),
    "Sequence[int]": (_several, False),
    "Sequence[int] | None": (_several, True),
    "tuple[int, ...]": (_several, False),
    "Array": (_array, False),
    "Array | None": (_array, True),
    "Axis": (_axes, True),
    "int | Sequence[int] | None": (_one_or_several, True),
    "Sequence[bool]": (_flags, False),
    "Sequence[bool] | None": (_flags, True),
    "Lists": (_list, False),
    "Lists | None": (_list, True),
    "Sequence[Array]": (_list, False),
    "cl.CommandQueue | None": (_queue, True),
    "Sequence[cl.Event] | None": (_events, True),
    "None": (_nothing, True),
    "tuple[int, int] | None": (_two, True),
}
_CHECKS |= {
    name: (_sizes, True)
    for kind in ("Numbers", "Pair", "Size", "Padding")
    for name in (kind, f"{kind} | None")
} | {"int | Sequence[int]": (_one_or_several, False)}

# Those that take integers of 64 bits as they are.
_COUNTS = (_sizes, counted, _axes, _one_or_several)


def _leaves(label: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple):
        for n, each in enumerate(value):
            yield from _leaves(f"{label}[{n}]", each)
    else:
        yield label, value


def complex_ones(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields complex numbers among arguments, and arrays of them: their names and dtypes."""
    for name, value in given.items():
        for label, leaf in _leaves(name, value):
            dtype = getattr(leaf, "dtype", None)
            if isinstance(dtype, np.dtype) and dtype.kind == "c":
                yield label, str(dtype)
            elif isinstance(leaf, complex):
                yield label, repr(leaf)


def _is_users(value: Any, snippet: str) -> bool:
    """Whether an argument is the user's string that a message quotes, or calls one."""
    if isinstance(value, str):
        return "=" in value and snippet != "" and (value in snippet or snippet in value)
    return callable(value) and not isinstance(value, type)


def in_own_name(what: str, given: Mapping[str, Any], error: ComplexError) -> ComplexError:
    """Returns what a function raises of complex numbers: in its own name, of its arguments.

    What points at the user's string, and what speaks in that name, stays as it is.
    """
    leaves = [leaf for name, value in given.items() for _, leaf in _leaves(name, value)]
    found = next(complex_ones(given), None)
    own = re.match(rf"(\w+\.)*{what}\b.*\Z", str(error))  # of one line: nothing is quoted
    if own or found is None or any(_is_users(leaf, error.snippet) for leaf in leaves):
        return error
    label, kind = found
    return ComplexError(
        f"{what}: expected real numbers for {label}, got {kind}: take its real and imag, or abs"
    )


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Lets a function look at its arguments first, by what its parameters are annotated with.

    Arguments of other annotations, as arrays are, it looks at itself. A function whose first
    parameter is ``what`` is told there the name that messages begin with. What it raises of complex
    numbers speaks of its arguments: see `in_own_name`.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    checks = {p.name: _CHECKS[p.annotation] for p in parameters if p.annotation in _CHECKS}
    if not checks and hasattr(function, "speaks_for_itself"):
        return function
    ordered = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    places = [(n, name, *checks[name]) for n, name in enumerate(ordered) if name in checks]
    first = places[0][0] if places else len(parameters)
    counts = {name for name, (check, _) in checks.items() if check in _COUNTS}
    several = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    each = checks.pop(several, (None, False))[0] if several else None
    what = function.__name__
    if what == "__call__":  # of a class that is named after its only operator
        what = function.__qualname__.split(".")[0].strip("_").lower()

    told = bool(parameters) and parameters[0].name == "what"
    own = what

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        what = str(args[0]) if told else own
        for name, value in options.items():
            if value.__class__ is int and name in counts and -_LONG <= value < _LONG:
                continue  # most are, and this is asked on every call
            found = checks.get(name)
            if found and (value is not None or not found[1]):
                options[name] = found[0](what, name, value)
        if each:
            for n, value in enumerate(args[len(ordered) :]):
                each(what, f"{several}[{n}]", value)
        given: Any = args
        if len(args) > first:
            given = list(args)
            for n, name, check, none in places:
                if n < len(given) and (given[n] is not None or not none):
                    given[n] = check(what, name, given[n])
        try:
            return function(*given, **options)
        except ComplexError as error:
            bound = signature.bind(*args, **options).arguments
            raise in_own_name(what, bound, error) from None

    return call


def check_arguments(namespace: MutableMapping[str, Any], names: Iterable[str]) -> None:
    """Puts functions of a module, wherever they are defined, in their places as `checked`.

    What calls them inside the package, by their own modules, may have taken them as they are. Those
    that have an attribute ``checked`` look at their arguments themselves, where they are new.
    """
    for name in names:
        function = namespace[name]
        if not inspect.isfunction(function) or hasattr(function, "checked"):
            continue
        namespace[name] = checked(function)
        home, own = sys.modules[function.__module__], function.__name__
        if getattr(home, own, None) is function:
            setattr(home, own, namespace[name])  # pickle looks for it there
