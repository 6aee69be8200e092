"""Keeps printed kernels on disk, next to the programs: a second process needs no template engine.

Compiling templates takes Jinja longer than everything else in a process's first call. What is kept
is text, which is compiled and never executed here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from clprim.plan.kernel import PrintedCode
from clprim.render import render
from clprim.runtime import disk_cache

if TYPE_CHECKING:
    from clprim.plan.kernel import KernelCode

# Everything that the text of a kernel depends on but its code: templates, and the modules whose
# objects they call. (Floors: a plan imports from nothing else.)
_PRINTERS = ("dtypes.py", "errors.py", "language", "plan", "render.py", "traits.py")
_ENDINGS = (".py", ".jinja")


@lru_cache(maxsize=1024)
def source_of(template: str, code: KernelCode) -> str:
    """Returns the OpenCL C of a kernel; equal code is printed once."""
    if isinstance(code, PrintedCode):
        return code.text
    if disk_cache.default_cache() is None:
        return render(template, code)
    key = hashlib.sha256(f"source:{_printers()}:{template}:{code!r}".encode()).hexdigest()
    kept = disk_cache.load(key)
    if kept is not None:
        return kept.decode()
    text = render(template, code)
    disk_cache.store(key, text.encode())
    return text


@lru_cache(maxsize=1)
def version_of_sources() -> str:
    """Returns a digest of when this library's files were written, and of how long they are.

    All that is planned depends on them.
    """
    names = "clprim", "clprim.ops", "clprim.templates"
    return _digest(folder for name in names for folder in import_module(name).__path__)


@lru_cache(maxsize=1)
def _printers() -> str:
    """Returns such a digest of the files that decide how code is printed."""
    return _digest([*_places_of_printers()])


def _places_of_printers() -> Iterator[str]:
    for folder in import_module("clprim").__path__:
        yield from (f"{folder}/{name}" for name in _PRINTERS)
    yield from import_module("clprim.templates").__path__


def _digest(places: Iterable[str]) -> str:
    found = sorted({entry for place in places for entry in _written(place)})
    version = import_module("clprim").__version__
    return hashlib.sha256(repr((version, found)).encode()).hexdigest()


def _written(place: str) -> Iterator[tuple[str, int, int]]:
    """Yields path, size and time of a file, or of the files in a folder and in those within it."""
    if place.endswith(_ENDINGS):
        told = Path(place).stat()
        yield place, told.st_size, told.st_mtime_ns
        return
    with suppress(NotADirectoryError), os.scandir(place) as entries:
        for entry in entries:
            yield from _written(entry.path)
