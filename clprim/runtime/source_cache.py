"""Keeps printed kernels on disk, next to the programs: a second process needs no template engine.

Compiling templates takes Jinja longer than everything else in a process's first call. What is kept
is text, which is compiled and never executed here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module

from clprim.plan.kernel import KernelCode, PrintedCode
from clprim.render import render
from clprim.runtime import disk_cache

# Everything that the text of a kernel depends on but its code: templates, and the modules whose
# objects they call. (Floors: a plan imports from nothing else.)
_PRINTERS = ("dtypes.py", "errors.py", "language", "plan", "render.py", "traits.py")
_ENDINGS = (".py", ".jinja")
Entry = tuple[str, int, int]


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
    return _digest(_ours())


@lru_cache(maxsize=1)
def _printers() -> str:
    return _digest(_printing())


def _printing() -> list[Entry]:
    """The files that decide how code is printed."""
    clprim, templates = (import_module(name).__path__ for name in ("clprim", "clprim.templates"))
    places = (*(f"{place}/{name}" for place in clprim for name in _PRINTERS), *templates)
    return [entry for entry in _ours() if entry[0].startswith(places)]


@lru_cache(maxsize=1)
def _ours() -> list[Entry]:
    names = "clprim", "clprim.ops", "clprim.templates"
    return _written([place for name in names for place in import_module(name).__path__])


def _digest(found: Sequence[Entry]) -> str:
    return hashlib.sha256(repr((import_module("clprim").__version__, found)).encode()).hexdigest()


def _written(folders: Sequence[str]) -> list[Entry]:
    """Returns path, size and time of the files in folders and in those within them, in order."""
    left, found = [*folders], set[Entry]()
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(_ENDINGS):
                    told = entry.stat()
                    found.add((entry.path, told.st_size, told.st_mtime_ns))
                elif entry.is_dir():
                    left.append(entry.path)
    return sorted(found)
