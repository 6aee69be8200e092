"""Where the time goes on the device: every kernel launched inside a ``with``, timed by it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import pyopencl as cl

from clprim.errors import DeviceError
from clprim.runtime.device import Device, current_device
from clprim.text_table import format_table

# The queue that measures takes the place of a device's own as long as a profile runs there.
_replaced: dict[Device, cl.CommandQueue] = {}
_MEASURES = cl.command_queue_properties.PROFILING_ENABLE


@dataclass(frozen=True)
class KernelEvent:
    """One run of one kernel, as the device timed it; of a launch of several, their names."""

    name: str
    seconds: float
    bytes: float
    flops: float
    start: float
    phases: tuple[str, ...] = ()

    @property
    def gb_per_s(self) -> float:
        """Billions of bytes a second; 0 where the device measured no time."""
        return _rate(self.bytes, self.seconds)

    @property
    def gflops(self) -> float:
        """Billions of operations a second; 0 where the device measured no time."""
        return _rate(self.flops, self.seconds)


class Profile:
    """The kernels that ran on one device while a ``with`` block did; see :func:`profile`.

    Launch code adds to every one of ``device.profiles``, holding ``device.lock``.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._collecting = threading.Lock()
        self._pending: list[tuple[str, cl.Event, float, float, tuple[str, ...]]] = []
        self._events: list[KernelEvent] = []
        self._origin: int | None = None  # nanoseconds, on the device's clock

    def __enter__(self) -> Profile:
        device = self._device
        queue = _profiling_queue(device)
        with device.lock:
            if self in device.profiles:
                raise DeviceError("this profile is running already; take a new cp.profile()")
            self._pending, self._events, self._origin = [], [], None
            if not device.profiles:
                _replaced[device] = device.replace_queue(queue)
            device.profiles = (*device.profiles, self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        device = self._device
        with device.lock:
            device.profiles = tuple(other for other in device.profiles if other is not self)
            if not device.profiles:
                own = _replaced.pop(device)
                try:
                    device.replace_queue(own)
                finally:
                    device.queue = own  # a device that failed has no order to keep
        self._collect()

    def record(
        self,
        name: str,
        event: cl.Event,
        nbytes: float = 0,
        flops: float = 0,
        phases: tuple[str, ...] = (),
    ) -> None:
        """Takes a launch in; for launch code only."""
        self._pending.append((name, event, nbytes, flops, phases))

    @property
    def events(self) -> list[KernelEvent]:
        """The runs so far, in the order of launching; waits for those still under way."""
        self._collect()
        return list(self._events)

    @property
    def seconds(self) -> float:
        """The sum of all runs' times on the device."""
        return sum(event.seconds for event in self.events)

    def table(self) -> str:
        """Lays out one row a kernel, the costliest first, and their total.

        The columns: how often it ran, milliseconds in total, microseconds a run, billions of
        bytes and of operations a second (``-`` where the launches gave none), part of the time.
        Below a launch of several kernels stands how often each of them ran.
        """
        groups: dict[str, list[KernelEvent]] = {}
        for event in self.events:
            groups.setdefault(event.name, []).append(event)
        total = sum(event.seconds for group in groups.values() for event in group)
        ranked = sorted(groups.items(), key=lambda item: -sum(e.seconds for e in item[1]))
        rows: list[list[object] | None] = []
        for name, group in ranked:
            rows += [_row(name, group, total), *_phases(group)]
        everything = [event for group in groups.values() for event in group]
        rows += [None, _row("total", everything, total)]
        headers = ["kernel", "calls", "total ms", "mean µs", "GB/s", "GFLOP/s", "share"]
        return format_table(headers, rows, align="lrrrrrr")

    __str__ = table

    def _collect(self) -> None:
        """Waits for the launches taken in and turns their events into numbers."""
        with self._collecting:
            with self._device.lock:
                pending, self._pending = self._pending, []
            for name, event, nbytes, flops, phases in pending:
                try:
                    event.wait()
                    start, end = event.profile.start, event.profile.end
                except cl.Error as error:
                    if error.code == cl.status_code.PROFILING_INFO_NOT_AVAILABLE:
                        continue  # a queue of the user's own
                    raise
                if self._origin is None:
                    self._origin = start
                taken, since = 1e-9 * (end - start), 1e-9 * (start - self._origin)
                self._events.append(KernelEvent(name, taken, nbytes, flops, since, phases))


def profile(device: Device | None = None) -> Profile:
    """Times every kernel that clprim launches inside a ``with`` block.

    While the block runs, the device works through a queue that measures; on leaving the last one,
    also by an exception, everything launched has finished and the device's own queue is back.
    Blocks may be nested, and several threads may have one at once: a launch counts for all that
    run. Launches of all threads are seen.

    Args:
        device: Whose kernels; the current device by default. Launches on other devices are not
            measured.

    Returns:
        A context manager; its ``events``, ``seconds`` and ``table()`` tell what ran, inside the
        block (then they wait for the device) and after it.

    Example:
        >>> with cp.profile() as p:  # doctest: +SKIP
        ...     y = scale(x, 2.0)
        >>> print(p.table())  # doctest: +SKIP
    """
    return Profile(current_device() if device is None else device)


@contextmanager
def unseen(device: Device) -> Iterator[None]:
    """Lets no profile that runs see the launches of a block; for who times kernels itself."""
    with device.lock:
        running, device.profiles = device.profiles, ()
        own = _replaced.pop(device, None)
    try:
        yield
    finally:
        with device.lock:
            device.profiles = running
            if own is not None:
                _replaced[device] = own


def _profiling_queue(device: Device) -> cl.CommandQueue:
    """Returns the device's queue that measures, made at its first profile."""
    queues = device.queues
    with device.lock:
        for queue in queues:
            if queue.properties & _MEASURES:
                return queue
        queue = cl.CommandQueue(device.context, device.cl, _MEASURES)
        queues.append(queue)  # synchronize() waits for it from now on
        return queue


def _row(name: str, events: Iterable[KernelEvent], total: float) -> list[object]:
    events = list(events)
    seconds = sum(event.seconds for event in events)
    calls = len(events)
    nbytes = sum(event.bytes for event in events)
    flops = sum(event.flops for event in events)
    return [
        name,
        f"{calls}",
        f"{1e3 * seconds:.3f}",
        f"{1e6 * seconds / calls:.1f}" if calls else "-",
        f"{_rate(nbytes, seconds):.1f}" if nbytes else "-",
        f"{_rate(flops, seconds):.1f}" if flops else "-",
        f"{seconds / total:.1%}" if total else "-",
    ]


def _phases(events: Iterable[KernelEvent]) -> Iterator[list[object]]:
    ran = Counter(name for event in events for name in event.phases)
    for name, times in ran.most_common():
        yield [f"  {name}", f"{times}", *[""] * 5]


def _rate(amount: float, seconds: float) -> float:
    return 1e-9 * amount / seconds if seconds > 0 else 0.0
