"""Keeps printed kernels on disk, next to the programs: a second process needs no template engine.

Compiling templates takes Jinja longer than everything else in a process's first call. What is kept
is text, which is compiled and never executed here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module, resources
from typing import TYPE_CHECKING

from clprim.plan.kernel import PrintedCode
from clprim.render import render
from clprim.runtime import disk_cache

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from clprim.plan.kernel import KernelCode

# Everything that the text of a kernel depends on but its code: templates, and the modules whose
# objects they call. (Floors: a plan imports from nothing else.)
_PRINTERS = ("dtypes.py", "errors.py", "language", "plan", "render.py", "traits.py")
_ENDINGS = (".py", ".jinja")


@lru_cache(maxsize=1024)
def source_of(template: str, code: KernelCode) -> str:
    """Returns the OpenCL C of a kernel; equal code is printed once.

    Args:
        template: Its name without ``.cl.jinja``.
        code: Everything that the template prints.
    """
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
    folders = {folder for name in names for folder in import_module(name).__path__}
    found = sorted(entry for folder in folders for entry in _written(folder))
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _written(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yields paths, sizes and times of the files in a folder and in those within it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _written(entry.path)
            elif entry.name.endswith(_ENDINGS):
                told = entry.stat()
                yield entry.path, told.st_size, told.st_mtime_ns


@lru_cache(maxsize=1)
def _printers() -> str:
    """Returns a digest of the files that decide how code is printed."""
    digest = hashlib.sha256()
    package = resources.files("clprim")
    roots = [package / name for name in _PRINTERS]
    for root in (*roots, resources.files("clprim.templates")):
        for name, file in _files(root):
            digest.update(f"{name}:".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files(root: Traversable) -> Iterator[tuple[str, Traversable]]:
    """Yields files and their names, in a fixed order."""
    if root.is_dir():
        for entry in sorted(root.iterdir(), key=lambda entry: entry.name):
            for name, file in _files(entry):
                yield f"{root.name}/{name}", file
    elif root.name.endswith(_ENDINGS):
        yield root.name, root
