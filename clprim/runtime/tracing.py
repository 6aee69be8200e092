"""The switch of a trace: whether this thread's calls are noted instead of launched.

What a trace is, `clprim.graph.trace` says. Here is only what the floors below it look at.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

# Whose frames are not the user's program.
_OURS = ("clprim", "torch", "contextlib", "functools", "numpy")


class TraceEndedError(Exception):
    """A traced function did what no trace can note: the host read memory, say."""

    def __init__(self, why: str, line: str) -> None:
        super().__init__(f"{why} at {line}" if line else why)
        self.why, self.line = why, line


class _Active(threading.local):
    """The trace of a thread; calls and allocations look at ``now``."""

    now: Any = None
    line: str = ""  # of the program, where its frames do not tell


active = _Active()


@contextmanager
def switched_to(trace: Any) -> Iterator[None]:
    """Makes ``trace`` the one of this thread inside a ``with``; None for none."""
    before, active.now = active.now, trace
    try:
        yield
    finally:
        active.now = before


def line() -> str:
    """Returns the line of the user's program that is running, as ``file:line``."""
    if active.line:
        return active.line
    frame, _ = caller()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def caller() -> tuple[Any, int]:
    """Returns the frame of the user's program that is running, and its ``stacklevel``."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    return frame, level


def end(why: str) -> NoReturn:
    """Ends the thread's trace."""
    raise TraceEndedError(why, line())


def end_any(why: str) -> None:
    """Ends the thread's trace, if there is one."""
    if active.now is not None:
        end(why)
