"""What the system says of this machine's processor: cores and caches, on Linux from ``/sys``."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

#: Where a Linux lists its processors.
CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def cache(level: int) -> int | None:
    """Returns the bytes of a core's cache for data, or None where nobody says."""
    for folder in sorted((CPUS / f"cpu{_first()}" / "cache").glob("index*")):
        if _read(folder / "level") == str(level) and _read(folder / "type") != "Instruction":
            found = re.fullmatch(r"(\d+)([KM]?)", _read(folder / "size"))
            if found:
                return int(found[1]) * _UNITS[found[2]]
    return None


def cores() -> int | None:
    """Returns how many cores this process may run on, each with all of its threads; or None."""
    siblings = [_read(CPUS / f"cpu{n}" / "topology" / "thread_siblings_list") for n in _allowed()]
    found = {name for name in siblings if name}
    return len(found) if found and all(siblings) else None


def _allowed() -> list[int]:
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # not every system has it
        return [0]


def _first() -> int:
    return min(_allowed(), default=0)


def _read(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return path.read_text(encoding="ascii").strip()
    return ""
