"""Where plans ask for tiles: a table, or one that times what it does not know."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clprim.arrays.array import Array
from clprim.errors import ClprimError
from clprim.options import current_options
from clprim.plan.kernel import Choice
from clprim.plan.strategy import Family
from clprim.plan.table import Entry, Key, Table, key_of
from clprim.runtime.device import Device
from clprim.runtime.tables import is_overridden, known_of, save, table_of, using

if TYPE_CHECKING:
    from clprim.tune.measure import Case

# One measurement at a time; what is planned meanwhile waits for it.
_lock = threading.RLock()


def table_for(device: Device) -> Table:
    """Returns the table that a call on a device is planned with, as `clprim.options` say."""
    found = table_of(device)
    if not current_options().tune or is_overridden():
        return found
    return _Timing(found.choices, found.timed, device)


def is_timed(table: Table, key: Key) -> bool:
    """Whether nothing is left to time: this version has done it, or what won then is known."""
    version = table.timed.get(key)
    return version is not None and (key in table.choices or version == Array.namespace.__version__)


@dataclass(frozen=True)
class _Timing(Table):
    """A table that times the candidates of what it does not know, and keeps what wins."""

    device: Device | None = None

    def choice(self, family: Any, problem: Any) -> Choice | None:
        assert self.device is not None
        key = key_of(family, problem)
        with _lock:
            known = table_of(self.device)  # it may know more by now
            if not is_timed(known, key) and _can_be_timed(problem):
                _time(family, problem, key, self.device)
                known = table_of(self.device)
        return known.choice(family, problem)


def _can_be_timed(problem: Any) -> bool:
    """Whether nothing but the problem's class decides: where outputs become pixels, memory does."""
    if not getattr(problem, "timed", True):
        return False
    return getattr(problem, "digits", None) is None and getattr(problem, "shuffle", None) is None


def _time(family: Family[Any], problem: Any, key: Key, device: Device) -> None:
    """Times a problem and keeps what wins; a failure leaves it to the rule, with a word."""
    from clprim.call.signature import Calls
    from clprim.tune.footprint import plain
    from clprim.tune.measure import Case, tune

    case = Case(_title(problem), family, plain(problem), device)
    if len(case.candidates) < 2:
        return  # one tile that fits, or another family's, which is asked next
    entry = Entry(case.candidates[0], 1.0)
    try:
        found = tune(case)
        entry = entry if found is None else found.entry
    except ClprimError as error:
        warnings.warn(f"tiles of {case.title} could not be timed: {error}", stacklevel=2)
    keep(device, {key: entry})
    Calls.forget()


def keep(device: Device, entries: Mapping[Key, Entry]) -> Any:
    """Adds entries to the user's table, a file; None if it is not written: they hold for now."""
    try:
        return save(device, entries, Array.namespace.__version__)
    except OSError as error:
        warnings.warn(f"the table of tiles cannot be kept: {error}", stacklevel=2)
        return None


@dataclass(frozen=True)
class _Recorder(Table):
    """What is known of a device, and a list of what it was asked."""

    device: Device | None = None
    asked: list[tuple[Device, Family[Any], Any]] = field(default_factory=list)

    def choice(self, family: Any, problem: Any) -> Choice | None:
        assert self.device is not None
        self.asked.append((self.device, family, problem))
        return super().choice(family, problem)


def _title(problem: Any) -> str:
    return f"{problem.name}, {problem}"


def record(run: Callable[[], Any], title: str = "") -> list[Case]:
    """Runs something and returns the cases of what was planned, of each class the first."""
    from clprim.call.signature import Calls
    from clprim.tune.footprint import plain
    from clprim.tune.measure import Case

    asked: list[tuple[Device, Family[Any], Any]] = []
    tables: dict[Device, Table] = {}

    def table(device: Device) -> Table:
        if device not in tables:
            known = known_of(device)
            tables[device] = _Recorder(known.choices, known.timed, device, asked)
        return tables[device]

    Calls.forget()
    try:
        with using(table):
            run()
    finally:
        Calls.forget()
    found: dict[tuple[Device, Key], Case] = {}
    for device, family, problem in asked:
        if not _can_be_timed(problem):
            continue
        case = Case(title or _title(problem), family, plain(problem), device)
        if (device, case.key) not in found and len(case.candidates) > 1:
            found[device, case.key] = case
    return [*found.values()]
