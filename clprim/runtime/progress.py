"""What somebody is waiting for, on the terminal: a line, or a bar."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

# Seconds without a word, and between two of them.
_PATIENCE, _STEP = 1.0, 0.5
_WIDTH = 24  # of a bar


@contextmanager
def waiting(
    what: str, count: int = 0, *, patience: float = _PATIENCE
) -> Iterator[Callable[[], None]]:
    """Shows what is under way, and for how long.

    The line goes to the terminal that standard error is, and away in the end; where it is none (a
    file, a pipe), nothing is written.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    done, start = threading.Event(), time.perf_counter()
    steps: list[None] = []

    def show() -> None:
        pause = patience
        while not done.wait(pause):
            pause = _STEP
            line = text(what, len(steps), count, time.perf_counter() - start)
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        if pause == _STEP:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield lambda: steps.append(None)
    finally:
        done.set()
        thread.join()


def text(what: str, steps: int, count: int, seconds: float) -> str:
    """Returns the line: with a bar where there are steps."""
    if not count:
        return f"{what}: {seconds:.0f} s"
    full = _WIDTH * steps // count
    return f"{what}: {'█' * full}{'░' * (_WIDTH - full)} {steps} of {count}, {seconds:.0f} s"


class Progress:
    """A bar on a terminal; lines elsewhere, one for every part."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total, self._stream, self._done, self._part = total, stream, 0, ""

    def step(self, part: str, what: str) -> None:
        """Says what comes next."""
        filled = _WIDTH * self._done // max(1, self._total)
        if self._stream.isatty():
            bar = "#" * filled + "-" * (_WIDTH - filled)
            text = f"[{bar}] {self._done}/{self._total} {part}: {what}"
            print(f"\r{text[:99]:<99}", end="", file=self._stream, flush=True)
        elif part != self._part:
            print(f"{part} …", file=self._stream, flush=True)
        self._part = part
        self._done += 1

    def end(self) -> None:
        """Clears the bar."""
        if self._stream.isatty():
            print(f"\r{'':<99}\r", end="", file=self._stream, flush=True)
