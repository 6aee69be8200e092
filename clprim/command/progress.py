"""A line on the terminal that says what a command is waiting for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds without a word, and between two of them.
_PATIENCE, _STEP = 1.0, 0.5


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows what is under way, and for how long, from the second second on.

    The line goes to the terminal that standard error is, and away in the end; where it is none (a
    file, a pipe), nothing is written.

    Args:
        what: As in ``compiling``.

    Example:
        >>> with waiting("adding up"):
        ...     print(1 + 1)
        2
    """
    if not sys.stderr.isatty():
        yield
        return
    done, start = threading.Event(), time.perf_counter()

    def show() -> None:
        pause = _PATIENCE
        while not done.wait(pause):
            pause = _STEP
            seconds = time.perf_counter() - start
            print(f"\r\033[K{what}: {seconds:.0f} s", end="", file=sys.stderr, flush=True)
        if pause == _STEP:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
