"""What tells two calls of a compiled function apart, and the arrays of a call."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyopencl.array as cl_array
from pyopencl.tools import PooledBuffer

from clprim.arrays.memory import join, memory_relation
from clprim.errors import DeviceError, DTypeError, quoted
from clprim.runtime.device import Device

_PLAIN = frozenset([int, bool, str, type(None)])


class Arguments(NamedTuple):
    """A call's arguments."""

    key: Hashable
    arrays: list[Any]


def described(
    what: str, device: Device, args: Sequence[Any], options: dict[str, Any], *, fallback: bool
) -> Arguments | None:
    """Returns what a compiled function looks up; None where memory overlaps in part."""
    key: list[Any] = [device.index, len(args), *options]
    arrays: list[Any] = []
    try:
        for value in (*args, *options.values()):
            _add(what, value, device, key, arrays)
    except DTypeError:
        if fallback:
            return None
        raise
    places: dict[int, int] = {}
    for array in arrays:
        buffer = array.base_data
        key.append(places.setdefault(id(buffer), len(places)))
        if type(buffer) is not PooledBuffer:  # it may be a part of another one
            for other in arrays:
                memory = other.base_data
                if memory is not buffer and memory_relation(buffer, memory) is not None:
                    return None
    return Arguments(tuple(key), arrays)


def _add(what: str, value: Any, device: Device, key: list[Any], arrays: list[Any]) -> None:
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
            _add(what, element, device, key, arrays)
    elif isinstance(value, dict):
        key += (dict, *value)
        for element in value.values():
            _add(what, element, device, key, arrays)
    elif isinstance(value, (float, np.floating)):
        key += (type(value), repr(value))  # tells 0 from -0, and NaN is itself
    elif isinstance(value, np.ndarray) or not _is_hashable(value):
        raise DTypeError(
            f"{what}: {quoted(value)}: a compiled function takes device arrays (cp.asarray), "
            "numbers, and tuples, lists and dicts of them; anything else has to be hashable"
        )
    else:
        key += (type(value), value)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
