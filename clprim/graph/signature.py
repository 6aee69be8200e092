"""What tells two calls of a compiled function apart, and the form of what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyopencl.array as cl_array
from pyopencl.tools import PooledBuffer

from clprim.arrays.memory import join, memory_relation
from clprim.errors import DeviceError, DTypeError, quoted
from clprim.options import current_options
from clprim.runtime.device import Device

Leaves = type | tuple[type, ...]
LEAVES: Leaves = (str, int, float, complex, bool, type(None))
_PLAIN = frozenset([int, bool, str, type(None)])


class Arguments(NamedTuple):
    """A call's arguments."""

    key: tuple[Any, ...]
    arrays: list[Any]


def described(
    what: str,
    device: Device,
    args: Sequence[Any],
    options: dict[str, Any],
    *,
    fallback: bool = False,
    host: bool = False,
) -> Arguments | None:
    """Returns what a compiled function looks up; None where memory overlaps in part.

    With ``host`` arrays of the host are told apart by what they hold, else nothing takes them.
    """
    key: list[Any] = [device.index, current_options(), len(args), *options]
    arrays: list[Any] = []
    try:
        for value in (*args, *options.values()):
            _add(what, value, device, key, arrays, host)
    except DTypeError:
        if fallback:
            return None
        raise
    shared = sharing([array.base_data for array in arrays])
    return None if shared is None else Arguments((*key, *shared), arrays)


def sharing(memories: Sequence[Any]) -> list[int] | None:
    """Returns numbers that tell which buffers are one; None where some overlap in part."""
    places: dict[int, int] = {}
    found: list[int] = []
    for memory in memories:
        found.append(places.setdefault(id(memory), len(places)))
        # Other memory than the pool's may be a part of another one.
        if type(memory) is not PooledBuffer and memory is not None:
            for other in memories:
                if other is not memory and memory_relation(memory, other) is not None:
                    return None
    return found


def _add(
    what: str, value: Any, device: Device, key: list[Any], arrays: list[Any], host: bool
) -> None:
    """Adds what describes an argument."""
    if value.__class__ in _PLAIN:
        key += (value.__class__, value)
    elif isinstance(value, cl_array.Array):
        if value.queue is not device.queue:
            if value.context is not device.context and value.context != device.context:
                raise DeviceError(f"{what}: an array of another device than {device}")
            join(value, device)
        key += (value.shape, value.strides, value.dtype, value.offset)
        arrays.append(value)
    elif isinstance(value, (tuple, list)):
        key += (type(value), len(value))
        for element in value:
            _add(what, element, device, key, arrays, host)
    elif isinstance(value, dict):
        key += (dict, *value)
        for element in value.values():
            _add(what, element, device, key, arrays, host)
    elif isinstance(value, (float, np.floating)):
        key += (type(value), repr(value))  # tells 0 from -0, and NaN is itself
    elif host and isinstance(value, np.ndarray):
        data = tuple(value.flat) if value.dtype.kind == "O" else value.tobytes()
        key += (value.dtype.str, value.shape, data)
    elif host and is_dataclass(value):
        for field in fields(value):
            _add(what, getattr(value, field.name), device, key, arrays, host)
    else:
        try:
            hash(value)
        except TypeError:
            raise DTypeError(
                f"{what}: {quoted(value)}: a compiled function takes device arrays (cp.asarray), "
                "numbers, and tuples, lists and dicts of them; anything else has to be hashable"
            ) from None
        key += (type(value), value)


@dataclass(frozen=True, slots=True)
class Place:
    """Stands for an array: of those that a call makes, or of its arguments."""

    number: int
    given: bool = False


def mapped(value: Any, leaf: Callable[[Any], Any], *, inside: bool = False) -> Any:
    """Returns tuples, lists and dicts with ``leaf`` of everything that they hold.

    ``inside``: also of dataclasses that ``leaf`` leaves as they are. It is no closure that calls
    itself: that would be a circle, which holds a call's arrays until garbage is collected.
    """
    if isinstance(value, dict):
        return {name: mapped(each, leaf, inside=inside) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        parts, kind = [mapped(each, leaf, inside=inside) for each in value], type(value)
        return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
    found: Any = leaf(value)
    if not inside or found is not value or isinstance(value, type) or not is_dataclass(value):
        return found
    old = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    new = {name: mapped(each, leaf, inside=True) for name, each in old.items()}
    return value if all(new[name] is old[name] for name in old) else replace(found, **new)


def form_of(
    what: str, result: Any, given: Sequence[Any], leaves: Leaves = LEAVES
) -> tuple[Any, list[Any]]:
    """Returns a result with places for its arrays, and the arrays that a call makes.

    What else may be in it are ``leaves``; dataclasses among them are looked into.
    """
    numbers = {id(array): n for n, array in enumerate(given)}
    made: list[Any] = []

    def read(value: Any) -> Any:
        if isinstance(value, cl_array.Array):
            number = numbers.get(id(value))
            if number is not None:
                return Place(number, True)
            made.append(value)
            return Place(len(made) - 1)
        if isinstance(value, leaves):
            return value
        raise DTypeError(
            f"{what} returned {type(value).__name__}; a compiled function returns arrays, numbers, "
            "and tuples, lists and dicts of them"
        )

    return mapped(result, read, inside=True), made


def filled(form: Any, made: Sequence[Any], given: Sequence[Any]) -> Any:
    """Returns a form with a call's arrays in its places."""
    if form.__class__ is Place:  # the hot path
        return (given if form.given else made)[form.number]

    def array(value: Any) -> Any:
        if value.__class__ is Place:
            return (given if value.given else made)[value.number]
        return value

    return mapped(form, array, inside=True)
