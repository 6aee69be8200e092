"""Program binaries on disk, so that a second process compiles nothing.

One file an entry: a magic word, the SHA-256 of the payload, the payload. There are no locks,
because no step needs one:

* A file appears under its name by ``os.replace``, complete or not at all. A reader holds either
  the old file or the new one, never a mixture; two writers of a key leave one of two equal files.
* Removing (eviction, a damaged entry) can at worst take away an entry that another process has
  just written, and a missing entry is a miss: the program is compiled again.
* A crash between writing and renaming leaves a temporary file, which a later sweep removes. A
  power failure may truncate a renamed file: the checksum turns that into a miss as well, so
  nothing is flushed to the platter. The checksum is no luxury: some drivers abort the process
  when they are handed a damaged binary.

The cache only saves time, so whatever the file system refuses (a read-only home, a full disk) is
passed over in silence.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

__all__ = ["DiskCache", "default_cache", "load", "remove", "store"]

_MAGIC = b"clprim-program-1\n"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_SUFFIX = ".bin"
_TEMPORARY = ".new-"
_TEMPORARY_LIFE = 3600.0  # seconds after which a temporary file belongs to nobody
_DEFAULT_MIB = 256.0
# Sizes are summed up from the folder at the first store of a process and then every so often, to
# see what other processes stored; in between, the running sum of what we stored must do.
_STORES_PER_SWEEP = 64
# An eviction makes some room in advance, or every store after it would have to evict again.
_KEPT_BY_EVICTION = 0.75


class DiskCache:
    """A folder of program binaries that stays below a number of bytes.

    Args:
        folder: Where the entries lie; created at the first store.
        limit: Bytes that all entries together may take.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._size = 0  # bytes at the last sweep and stored since
        self._stores_until_sweep = 0

    def load(self, key: str) -> bytes | None:
        """Returns what was stored under a key, or None; a damaged entry is removed."""
        path = self._path(key)
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        payload = entry[_HEADER:]
        if entry[:_HEADER] != _MAGIC + hashlib.sha256(payload).digest():
            self.remove(key)
            return None
        with suppress(OSError):  # a folder that can be read but not written is a fine cache
            os.utime(path)  # what was used last is evicted last
        return payload

    def store(self, key: str, binary: bytes) -> None:
        """Keeps a binary under a key, or does nothing where the file system refuses."""
        size = _HEADER + len(binary)
        if size > self.limit:
            return
        temporary = None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=self.folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(binary).digest())
                file.write(binary)
            Path(temporary).replace(self._path(key))
        except OSError:
            if temporary is not None:
                with suppress(OSError):
                    Path(temporary).unlink()
            return
        self._size += size
        self._stores_until_sweep -= 1
        if self._stores_until_sweep < 0 or self._size > self.limit:
            self.sweep()

    def remove(self, key: str) -> None:
        """Forgets an entry, if it is there."""
        with suppress(OSError):
            self._path(key).unlink()

    def sweep(self) -> None:
        """Sums up the folder and evicts what was not used for longest, if it is over the limit."""
        entries = []
        now = time.time()
        with suppress(OSError), os.scandir(self.folder) as listing:
            for item in listing:
                with suppress(OSError):  # another process may be faster
                    info = item.stat(follow_symlinks=False)
                    if item.name.endswith(_SUFFIX):
                        entries.append((info.st_mtime, info.st_size, item.path))
                    elif item.name.startswith(_TEMPORARY) and info.st_mtime < now - _TEMPORARY_LIFE:
                        Path(item.path).unlink()
        self._size = sum(size for _, size, _ in entries)
        self._stores_until_sweep = _STORES_PER_SWEEP
        if self._size <= self.limit:
            return
        for _, size, path in sorted(entries):
            if self._size <= self.limit * _KEPT_BY_EVICTION:
                break
            with suppress(OSError):
                Path(path).unlink(missing_ok=True)
                self._size -= size

    def _path(self, key: str) -> Path:
        return self.folder / (key + _SUFFIX)


def default_cache() -> DiskCache | None:
    """Returns the cache that the environment asks for, or None where it is switched off.

    ``CLPRIM_CACHE_DIR`` names the folder (empty, ``0`` or ``off``: no cache), by default the
    user's cache folder; programs lie in ``programs`` below it. ``CLPRIM_CACHE_SIZE`` is the bound
    in MiB, 256 by default.
    """
    # Read at every use: a look-up of the environment is nothing beside a build, and a program
    # that sets the variable after its imports is obeyed.
    return _cache(os.environ.get("CLPRIM_CACHE_DIR"), os.environ.get("CLPRIM_CACHE_SIZE"))


def load(key: str) -> bytes | None:
    """Returns the binary stored under a key in the default cache, or None."""
    cache = default_cache()
    return None if cache is None else cache.load(key)


def store(key: str, binary: bytes) -> None:
    """Keeps a binary in the default cache."""
    cache = default_cache()
    if cache is not None:
        cache.store(key, binary)


def remove(key: str) -> None:
    """Forgets an entry of the default cache."""
    cache = default_cache()
    if cache is not None:
        cache.remove(key)


@lru_cache(maxsize=8)
def _cache(folder: str | None, size: str | None) -> DiskCache | None:
    if folder is None:
        import platformdirs  # comes with pyopencl

        folder = platformdirs.user_cache_dir("clprim")
    elif folder.strip().lower() in ("", "0", "off"):
        return None
    base = os.path.expanduser(folder)  # noqa: PTH111 - Path.expanduser raises without a home
    if base.startswith("~"):
        return None  # no home to put it in
    try:
        limit = max(0, int((float(size) if size else _DEFAULT_MIB) * 2**20))
    except (ValueError, OverflowError):  # not a number, nan, inf
        limit = int(_DEFAULT_MIB * 2**20)
    return DiskCache(Path(base).absolute() / "programs", limit)
