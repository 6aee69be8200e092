"""The tables of tiles that are there: those that come with the package, and the user's own.

The user's lie in ``tuning`` below the cache folder, a file a device; ``clprim tune`` and
``cp.options(tune=True)`` write them. Files are read when a device first plans a contraction, and
never in a repeated call.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from clprim.errors import DefinitionError
from clprim.plan.families import FAMILIES
from clprim.plan.table import Entry, Key, Table, TuningFile
from clprim.runtime import disk_cache
from clprim.traits import DeviceTraits

if TYPE_CHECKING:
    from clprim.runtime.device import Device

#: What of its traits tells a device from another one of its name.
IDENTITY = tuple(
    "is_cpu compute_units max_work_group_size local_memory vector_bytes register_bytes".split()
)

_override: Callable[[Device], Table] | None = None
# What was measured by this process, which there may be no folder for.
_measured: dict[Device, dict[Key, tuple[Entry, str]]] = {}


def table_of(device: Device) -> Table:
    """Returns what is known of a device: the user's table, else what comes with the package.

    A file that cannot be read is left out, with a warning that names it.
    """
    return known_of(device) if _override is None else _override(device)


def known_of(device: Device) -> Table:
    """Returns what files and this process know of a device, whatever stands in their place."""
    path = user_file(device)
    found = _table(device.name, device.platform, device.driver, device.traits, path)
    return _over(found, _measured[device]) if device in _measured else found


def is_overridden() -> bool:
    """Whether a table stands in the place of all files."""
    return _override is not None


def user_file(device: Device) -> Path | None:
    """Returns where the user's table of a device lies or would lie; None without a cache folder."""
    cache = disk_cache.default_cache()
    if cache is None:
        return None
    name = _file_name(device.platform, device.name, device.driver)
    return cache.folder.parent / "tuning" / name


@lru_cache(maxsize=64)
def _file_name(*words: str) -> str:
    found = re.findall(r"[a-z0-9.]+", " ".join(words).lower())
    return f"{'-'.join(dict.fromkeys(found)) or 'any'}.json"


def save(device: Device, entries: Mapping[Key, Entry], version: str = "") -> Path | None:
    """Adds entries to the user's table of a device; older ones of the same problems go."""
    path = user_file(device)
    if path is None:
        _remember(device, entries, version)
        return None
    traits = {name: getattr(device.traits, name) for name in IDENTITY}
    new = TuningFile((device.name,), device.platform, device.driver, traits, entries, version)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what cannot be read is replaced
        old = _read(path)
    if old is not None and old.traits == traits:
        same = old.version == version
        before = {key: e for key, e in old.entries.items() if same or e.gain > 1}
        new = replace(new, entries={**before, **entries})
    try:
        _write(path, new)
    except OSError:
        _remember(device, entries, version)
        raise
    return path


def _remember(device: Device, entries: Mapping[Key, Entry], version: str) -> None:
    known = _measured.setdefault(device, {})
    known.update((key, (entry, version)) for key, entry in entries.items())


def table_file(device: Device) -> TuningFile:
    """Returns the user's table of a device, to give to others."""
    path = user_file(device)
    found = None if path is None else _read(path)
    if found is None:
        raise DefinitionError(
            f"{device.name} has no table of tiles yet: `clprim tune` and cp.options(tune=True) "
            "measure them"
        )
    return found


def adopt(file: TuningFile, device: Device) -> tuple[Path, int]:
    """Puts a table that somebody else measured among the user's.

    What was timed here stays. A table of another device lies beside, and counts where a device is
    of its class.
    """
    own = user_file(device)
    if own is None:
        raise DefinitionError("CLPRIM_CACHE_DIR switches the cache off, and tables of tiles too")
    path = own
    if not file.is_for(device.name, device.platform, device.driver, device.traits):
        path = own.with_name(_file_name(file.platform, *file.names, file.driver))
    old = _read(path)
    known = {} if old is None or old.traits != file.traits else old.entries
    fresh = {key: entry for key, entry in file.entries.items() if key not in known}
    into = replace(file, names=(device.name,), driver=device.driver) if path == own else file
    _write(path, replace(into, entries={**known, **fresh}))
    return path, len(fresh)


def _write(path: Path, file: TuningFile) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(file.text(FAMILIES))
        Path(temporary).replace(path)
    except OSError:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    _table.cache_clear()


def forget() -> None:
    """Reads the files anew when a contraction is planned next, which then are all that counts."""
    _table.cache_clear()
    _measured.clear()


@contextmanager
def using(table: Table | Callable[[Device], Table]) -> Iterator[None]:
    """Puts a table in the place of all files for a while, on all devices.

    Calls that were planned before keep their plans; see `clprim.call.signature.Calls.forget`.
    """
    global _override  # noqa: PLW0603 - the one table that stands for all
    made = (lambda _: table) if isinstance(table, Table) else table
    before, _override = _override, made
    try:
        yield
    finally:
        _override = before


@lru_cache(maxsize=1)
def shipped() -> tuple[TuningFile, ...]:
    """Returns the tables that come with the package."""
    folder = resources.files("clprim") / "tuned"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda f: f.name)
    return tuple(TuningFile.parse(file.read_text(encoding="utf-8"), FAMILIES) for file in files)


@lru_cache(maxsize=64)
def _table(name: str, platform: str, driver: str, traits: DeviceTraits, path: Path | None) -> Table:
    """The tables that count, each over what is further from the device.

    These are one for any device of its traits, one for its name, the user's for devices of its
    class, and its own.
    """
    found = [f for f in shipped() if f.is_for(name, platform, driver, traits)]
    found.sort(key=lambda file: bool(file.names))
    table = Table({key: entry.choice for file in found for key, entry in file.entries.items()})
    if path is None:
        return table
    with suppress(OSError):  # no such folder
        for other in sorted(path.parent.glob("*.json")):
            file = None if other == path else _read(other)
            if file is not None and file.is_of_class(platform, traits):
                better = {
                    key: entry.choice for key, entry in file.entries.items() if entry.gain > 1
                }
                table = Table({**table.choices, **better})
    own = _read(path)
    if own is not None and own.is_for(name, platform, driver, traits):
        table = _over(table, {key: (entry, own.version) for key, entry in own.entries.items()})
    return table


def _over(table: Table, entries: Mapping[Key, tuple[Entry, str]]) -> Table:
    """Returns a table with what was timed on the device itself; no gain leaves it to the rule."""
    choices = {key: choice for key, choice in table.choices.items() if key not in entries}
    choices |= {key: entry.choice for key, (entry, _) in entries.items() if entry.gain > 1}
    return Table(choices, {**table.timed, **{key: v for key, (_, v) in entries.items()}})


def _read(path: Path) -> TuningFile | None:
    try:
        return TuningFile.parse(path.read_text(encoding="utf-8"), FAMILIES)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # no UTF-8 and no JSON are ValueErrors
        warnings.warn(
            f"the table of tiles {path} cannot be read and is left out: {error}. Remove it, or "
            "write it anew by `clprim tune`",
            stacklevel=2,
        )
        return None
