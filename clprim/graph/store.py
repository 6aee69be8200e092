"""What was computed from constants that stay, kept with them: other signatures find it again.

Where constants do change after all, as the parameters of a network do, all that was made of them is
made again in the memory that it has, which kernels are bound to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyopencl as cl

from clprim.arrays.array import allocated, array_over
from clprim.arrays.memory import allocate_workspace
from clprim.arrays.transfer import download, upload
from clprim.call.packed import PackedWeight
from clprim.graph.graph import Buffer, buffer_of
from clprim.plan.strides import Operand
from clprim.runtime.device import Device, current_device

_BYTES = np.dtype(np.uint8)


class Kept:
    """Something that was made of constants."""

    def __init__(self, weights: Sequence[PackedWeight], make: Callable[[], Any]) -> None:
        self.weights, self._make = weights, make
        with collecting() as self._before:
            self.made = make()

    def renew(self) -> None:
        """Makes it again, in the same memory."""
        for other in self._before:
            other.renew()
        device = current_device()
        for old, new in zip(_buffers(self.made), _buffers(self._make()), strict=True):
            copy_memory(device, old.memory, new.memory, old.nbytes)

    def sources(self) -> Iterator[PackedWeight]:
        """Yields all constants that it depends on."""
        yield from self.weights
        for other in self._before:
            yield from other.sources()


class Written:
    """Memory that is there, a part of which is written from constants."""

    def __init__(self, weights: Sequence[PackedWeight], run: Callable[[], None]) -> None:
        self.weights, self.renew = weights, run
        run()

    def sources(self) -> Iterator[PackedWeight]:
        """Yields the constants."""
        yield from self.weights


class _Used(threading.local):
    """What was kept, or found, since somebody began to collect."""

    now: list[Any] | None = None


_used = _Used()


@contextmanager
def collecting() -> Iterator[list[Any]]:
    """Yields a list of what is made of constants inside a ``with``, in order.

    Each has ``renew`` and ``sources``, as `Kept` has.
    """
    before, _used.now = _used.now, []
    try:
        yield _used.now
    finally:
        _used.now = before


def collect(found: Any) -> None:
    """Adds something to the list of whoever collects."""
    if _used.now is not None:
        _used.now.append(found)


def kept_with(weights: Sequence[PackedWeight], key: Hashable, make: Callable[[], Any]) -> Any:
    """Returns what was made of weights, and makes it the first time."""
    first, *others = weights
    whole = key, *map(id, others)
    try:
        found = first.derived.get(whole)
    except TypeError:
        found = Kept(weights, make)
    else:
        if found is None:
            found = first.derived[whole] = Kept(weights, make)
    collect(found)
    return found.made


def contents_of(device: Device, buffer: Buffer) -> bytes:
    """Returns what a constant holds."""
    if not buffer.nbytes:
        return b""
    whole = array_over(device, buffer.memory, (buffer.nbytes,), _BYTES, (1,), 0, buffer.nbytes)
    return download(whole, (0,)).tobytes()


def fill(device: Device, buffer: Buffer, data: Any) -> None:
    """Gives a constant memory of its own with these bytes, which stay."""
    array = allocated(device, (buffer.nbytes,), _BYTES, (1,), buffer.nbytes)
    upload(array, np.frombuffer(data, _BYTES), device)
    buffer.memory, buffer.weight = array.base_data, PackedWeight(array)


def _buffers(made: Sequence[Buffer | Operand]) -> list[Buffer]:
    return [buffer_of(each) if isinstance(each, Operand) else each for each in made]


def copy_memory(device: Device, target: Any, source: Any, nbytes: int) -> None:
    """Copies what memory holds."""
    if nbytes:
        with device.lock:
            cl.enqueue_copy(device.queue, target, source, byte_count=nbytes)


def copied(device: Device, memory: Any, nbytes: int) -> Any:
    """Returns new memory that holds the same."""
    (made,) = allocate_workspace(device, (max(nbytes, 1),))
    copy_memory(device, made, memory, nbytes)
    return made
