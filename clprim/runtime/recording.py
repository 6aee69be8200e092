"""Notes the kernels that a thread launches, so that they can be launched again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Recording:
    """What was launched, in order.

    Attributes:
        launches: Each as (launch, buffers, scalars).
        transfers: Whether something else was done on a device, too: what the host read or wrote.
    """

    launches: list[tuple[Any, Sequence[Any], Sequence[float]]] = field(default_factory=list)
    transfers: bool = False


class _Active(threading.local):
    """The recording of a thread. Launch code checks ``now`` on every call."""

    now: Recording | None = None


active = _Active()


@contextmanager
def record() -> Iterator[Recording]:
    """Notes what this thread launches inside a ``with``; there is one recording at a time."""
    recording = active.now = Recording()
    try:
        yield recording
    finally:
        active.now = None


def note_transfer() -> None:
    """Marks the recording as not repeatable: the host touched memory, which no launch shows."""
    if active.now is not None:
        active.now.transfers = True
