"""The switch of a trace: whether this thread's calls are noted instead of launched.

What a trace is, `clprim.call.trace` says. Here is only what the floors below it look at.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TraceEndedError(Exception):
    """A traced function did what no trace can note: the host read or wrote memory, say."""


class _Active(threading.local):
    """The trace of a thread; calls and allocations look at ``now``."""

    now: Any = None


active = _Active()


@contextmanager
def switched_to(trace: Any) -> Iterator[None]:
    """Makes ``trace`` the one of this thread inside a ``with``; None for none."""
    before, active.now = active.now, trace
    try:
        yield
    finally:
        active.now = before


def end(why: str) -> None:
    """Ends the thread's trace, if there is one.

    Raises:
        TraceEndedError: There is one.
    """
    if active.now is not None:
        raise TraceEndedError(why)
