"""The seed, and the number of the next call that draws random numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from clprim.errors import DTypeError, quoted
from clprim.runtime import tracing


class State(NamedTuple):
    """What decides the numbers of a call: equal states, equal numbers.

    Attributes:
        seed: The user's, 64 bits.
        call: How many calls have drawn since the seed was set.
    """

    seed: int
    call: int


class _Count:
    """The state that all threads share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.state = State(0, 0)


_count = _Count()


class _Given(threading.local):
    """The state that a thread has been told to use."""

    state: State | None = None


_given = _Given()


def get_state() -> State:
    """Returns what the next call will draw from."""
    return _count.state if _given.state is None else _given.state


def checked_state(state: Any) -> State:
    """Returns a state as one."""
    whole = isinstance(state, tuple) and all(isinstance(n, int) and 0 <= n < 1 << 64 for n in state)
    if not whole or len(state) != len(State._fields):
        raise DTypeError(f"state={quoted(state)}: expected a state as a call returned it")
    return State(*state)


def set_state(state: State) -> None:
    """Makes the next call draw from ``state``."""
    checked = checked_state(state)
    with _count.lock:
        _count.state = checked


def advance() -> State:
    """Returns the state of a call that draws, and makes the next one's another."""
    tracing.end_any("a draw of random numbers")
    if _given.state is not None:
        found = _given.state
        _given.state = State(found.seed, found.call + 1)
        return found
    with _count.lock:
        found = _count.state
        _count.state = State(found.seed, found.call + 1)
    return found


@contextmanager
def at(state: State) -> Iterator[None]:
    """Makes the calls of this thread inside a ``with`` draw from ``state`` on.

    Raises:
        TraceEndedError: Inside a trace, whose calls draw from the state of each replay.
    """
    tracing.end_any("a state of random numbers")
    before, _given.state = _given.state, checked_state(state)
    try:
        yield
    finally:
        _given.state = before
