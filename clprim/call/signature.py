"""Signatures: what tells two calls apart, and the planned calls that are remembered by them."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from pyopencl.tools import PooledBuffer

from clprim.arrays.memory import join, memory_relation
from clprim.runtime.device import Device
from clprim.runtime.program import programs_met

# Signatures an operator remembers; a program that never repeats a shape must not grow for ever.
MAX_CALLS = 1024
# A planned call keeps its kernels' programs in memory, which are MiBs each. After this many
# different ones all operators begin anew; calls of the same programs, however many, let none go.
MAX_PROGRAMS = 512

T = TypeVar("T")


def outputs_of(out: Any) -> Any:
    """Returns the arrays of ``out=``: none where it is None, and a missing one of ``[]``."""
    if out is None:
        return ()
    if isinstance(out, (tuple, list)):
        return out or (None,)
    return (out,)


def told_apart(axis: Any, flag: Any = None) -> tuple[Any, ...]:
    """Returns options as users give them, with their types, which tell apart 1, 1.0 and True."""
    if axis.__class__ is tuple:
        return axis, flag, flag.__class__, *map(type, axis)
    return axis, flag, flag.__class__, axis.__class__


class Calls(Generic[T]):
    """The planned calls of one operator, by their signatures."""

    _every: ClassVar[weakref.WeakSet[Calls[Any]]] = weakref.WeakSet()
    _allowed: ClassVar[int] = MAX_PROGRAMS  # programs met until all are forgotten

    def __init__(self) -> None:
        self._known: dict[Hashable, T] = {}
        self.get = self._known.get
        Calls._every.add(self)

    def __len__(self) -> int:
        return len(self._known)

    def __reduce__(self) -> Any:
        return Calls, ()  # they are of this process: a copy plans its own

    def look_up(
        self,
        device: Device,
        arrays: Sequence[Any],
        outs: Sequence[Any],
        scalars: Sequence[Any],
        options: Hashable = None,
    ) -> tuple[T | None, Hashable | None]:
        """Returns the planned call of the same signature, or None, and the signature.

        The signature is everything that decides what a call does, but for buffers and numbers. Two
        calls of equal signature pass the same checks, so the second one needs none. A call that
        must be checked in full has none: one with an array of another context, with something that
        is no array, or with an unhashable option. Options must be equal only where they mean the
        same; what users give, `told_apart` makes so. What a repeated call costs is spent here.
        """
        context, queue = device.context, device.queue
        found: list[Any] = [device.index, len(arrays), options]
        try:
            for a in arrays:
                if a.queue is not queue:  # a queue has one context
                    if a.context is not context and a.context != context:
                        return None, None
                    join(a, device)
                found += (a.shape, a.strides, a.dtype, a.offset)
            for o in outs:
                if o.queue is not queue:
                    if o.context is not context and o.context != context:
                        return None, None
                    join(o, device)
                found += (o.shape, o.strides, o.dtype, o.offset)
                memory = o.base_data
                for a in arrays:
                    # Memory of the pool is either the same or apart; anything else is asked.
                    other = a.base_data
                    found.append(
                        other is memory
                        or (type(other) is not PooledBuffer and memory_relation(memory, other))
                    )
            if len(outs) > 1:
                found += [memory_relation(a.base_data, b.base_data) for a in outs for b in outs]
            found += map(type, scalars)
            signature = tuple(found)
            return self.get(signature), signature
        except (AttributeError, TypeError):
            return None, None

    def remember(self, signature: Hashable | None, call: T) -> None:
        """Keeps a planned call for the next one of the same signature."""
        if signature is None:
            return
        if programs_met() >= Calls._allowed:
            Calls.forget()
        elif len(self._known) >= MAX_CALLS:
            self._known.clear()
        self._known[signature] = call

    @staticmethod
    def forget() -> None:
        """Forgets the planned calls of all operators: the next ones find what was tuned since."""
        Calls._allowed = programs_met() + MAX_PROGRAMS
        for calls in list(Calls._every):
            calls._known.clear()
