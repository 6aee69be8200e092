"""The tables of tiles that are there: those that come with the package, and the user's own.

The user's lie in ``tuning`` below the cache folder, a file a device; ``python -m bench tune``
writes them. Files are read when a device first plans a contraction, and never in a repeated call.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from clprim.plan.families import FAMILIES
from clprim.plan.kernel import Choice
from clprim.plan.table import Entry, Key, Table, TuningFile
from clprim.runtime import disk_cache
from clprim.traits import DeviceTraits

if TYPE_CHECKING:
    from clprim.runtime.device import Device

#: What of its traits tells a device from another one of its name.
IDENTITY = tuple(
    "is_cpu compute_units max_work_group_size local_memory vector_bytes register_bytes".split()
)

_override: Table | None = None


def table_of(device: Device) -> Table:
    """Returns what is known of a device: the user's table, else what comes with the package.

    A file that cannot be read is left out, with a warning that names it.

    Args:
        device: One of `clprim.devices`.
    """
    if _override is not None:
        return _override
    path = user_file(device)
    return _table(device.name, device.platform, device.driver, device.traits, path)


def user_file(device: Device) -> Path | None:
    """Returns where the user's table of a device lies or would lie; None without a cache folder."""
    cache = disk_cache.default_cache()
    if cache is None:
        return None
    words = re.findall(r"[a-z0-9.]+", f"{device.platform} {device.name} {device.driver}".lower())
    return cache.folder.parent / "tuning" / f"{'-'.join(dict.fromkeys(words))}.json"


def save(device: Device, entries: Mapping[Key, Entry]) -> Path | None:
    """Adds entries to the user's table of a device; older ones of the same problems go.

    Args:
        device: Which was measured.
        entries: What was found.

    Returns:
        The file, or None where the cache is switched off.

    Raises:
        OSError: It cannot be written.
    """
    path = user_file(device)
    if path is None:
        return None
    traits = {name: getattr(device.traits, name) for name in IDENTITY}
    new = TuningFile((device.name,), device.platform, device.driver, traits, entries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what cannot be read is replaced
        old = _read(path)
    if old is not None and old.traits == traits:
        new = replace(new, entries={**old.entries, **entries})
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(new.text(FAMILIES))
        Path(temporary).replace(path)
    except OSError:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    forget()
    return path


def forget() -> None:
    """Reads the files anew when a contraction is planned next."""
    _table.cache_clear()


@contextmanager
def using(table: Table) -> Iterator[None]:
    """Puts a table in the place of all files for a while, on all devices.

    Calls that were planned before keep their plans; see `clprim.call.signature.Calls.forget`.

    Args:
        table: Which.
    """
    global _override  # noqa: PLW0603 - the one table that stands for all
    before, _override = _override, table
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
    choices: dict[Key, Choice] = {}
    # A device's own table comes after one for any device of its traits, the user's after both.
    found = sorted(shipped(), key=lambda file: bool(file.names))
    own = _read(path) if path is not None else None
    for file in found if own is None else [*found, own]:
        if file.is_for(name, platform, driver, traits):
            choices.update((key, entry.choice) for key, entry in file.entries.items())
    return Table(choices)


def _read(path: Path) -> TuningFile | None:
    try:
        return TuningFile.parse(path.read_text(encoding="utf-8"), FAMILIES)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # no UTF-8 and no JSON are ValueErrors
        warnings.warn(
            f"the table of tiles {path} cannot be read and is left out: {error}. Remove it, or "
            "write it anew by `python -m bench tune`",
            stacklevel=2,
        )
        return None
