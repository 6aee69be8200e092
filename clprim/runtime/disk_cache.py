"""Program binaries and printed sources on disk, so that a second process makes neither again.

One file an entry: a magic word, the SHA-256 of key and payload, the payload. An entry under another
key's name is a damaged one, so that no kernel is ever taken for another. There are no locks,
because no step needs one:

* A file appears under its name by ``os.replace``, complete or not at all. A reader holds either
  the old file or the new one, never a mixture; two writers of a key leave one of two equal files.
* Removing (eviction, a damaged entry) can at worst take away an entry that another process has
  just written, and a missing entry is a miss: the program is compiled again.
* A crash between writing and renaming leaves a temporary file, which counts as an entry does until
  a later sweep removes it. A power failure may truncate a renamed file: the checksum turns that
  into a miss as well, so nothing is flushed to the platter. The checksum is no luxury: some drivers
  abort the process when they are handed a damaged binary.

What is loaded is run, so a folder or a file that another user could have written is not used; that
is said once, as is a folder that the user named and that there cannot be. Otherwise the cache only
saves time, and whatever the file system refuses (a read-only home, a full disk) is a miss.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import time
import warnings
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from clprim.runtime.private_files import Folder, NotPrivateError, open_folder

_MAGIC = b"clprim-entry-2\n"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_SUFFIX = ".bin"
_TEMPORARY = ".new-"
_TEMPORARY_LIFE = 600.0  # seconds after which a temporary file belongs to nobody
_DEFAULT_MIB = 256.0
_FOLDER_VARIABLE = "CLPRIM_CACHE_DIR"
_SIZE_VARIABLE = "CLPRIM_CACHE_SIZE"
# Sizes are summed up from the folder at the first store of a process and then every so often, to
# see what other processes stored; in between, the running sum of what we stored must do.
_STORES_PER_SWEEP = 64
# An eviction makes some room in advance, or every store after it would have to evict again.
_KEPT_BY_EVICTION = 0.75


class DiskCache:
    """A folder of entries that stays below a number of bytes."""

    def __init__(self, folder: Path, limit: int, *, named: bool = False) -> None:
        self.folder = folder
        self.limit = limit
        self._named = named
        self._complained = False
        self._size = 0  # bytes at the last sweep and stored since
        self._stores_until_sweep = 0

    def load(self, key: str) -> bytes | None:
        """Returns what was stored under a key, or None; a damaged entry is removed."""
        name = key + _SUFFIX
        try:
            with open_folder(self.folder) as folder:
                payload = self._read(folder, name, key)
                if payload is None:
                    folder.remove(name)
                else:
                    with suppress(OSError):  # a folder that can be read but not written is fine
                        folder.touch(name)  # what was used last is evicted last
                return payload
        except NotPrivateError as error:
            self._complain(error)
        except OSError:
            pass
        return None

    def _read(self, folder: Folder, name: str, key: str) -> bytes | None:
        """Returns an entry's payload, or None where the entry is not what was stored."""
        try:
            entry = folder.read(name, _HEADER + self.limit)
        except NotPrivateError:
            return None
        payload = entry[_HEADER:]
        return payload if entry[:_HEADER] == _header(key, payload) else None

    def store(self, key: str, payload: bytes) -> None:
        """Keeps a payload under a key, or does nothing where the file system refuses."""
        size = _HEADER + len(payload)
        if size > self.limit:
            return
        try:
            with open_folder(self.folder, create=True) as folder:
                _write(folder, key + _SUFFIX, _header(key, payload) + payload)
        except OSError as error:
            missing = not os.access(self.folder, os.F_OK)
            if isinstance(error, NotPrivateError) or (self._named and missing):
                self._complain(error)
            return
        self._size += size
        self._stores_until_sweep -= 1
        if self._stores_until_sweep < 0 or self._size > self.limit:
            self.sweep()

    def remove(self, key: str) -> None:
        """Forgets an entry, if it is there."""
        with suppress(OSError), open_folder(self.folder) as folder:
            folder.remove(key + _SUFFIX)

    def sweep(self) -> None:
        """Sums up the folder and evicts what was not used for longest, if it is over the limit."""
        with suppress(OSError), open_folder(self.folder) as folder:
            entries = []
            self._size = 0
            now = time.time()
            for name, info in list(folder.files()):
                if name.startswith(_TEMPORARY):
                    if abs(now - info.st_mtime) > _TEMPORARY_LIFE:
                        with suppress(OSError):
                            folder.remove(name)
                        continue
                elif name.endswith(_SUFFIX):
                    entries.append((info.st_mtime, info.st_size, name))
                else:
                    continue
                self._size += info.st_size
            self._stores_until_sweep = _STORES_PER_SWEEP
            if self._size <= self.limit:
                return
            for _, size, name in sorted(entries):
                if self._size <= self.limit * _KEPT_BY_EVICTION:
                    break
                with suppress(OSError):
                    with suppress(FileNotFoundError):
                        folder.remove(name)
                    self._size -= size

    def _complain(self, error: OSError) -> None:
        if self._complained:
            return
        self._complained = True
        warnings.warn(
            f"clprim's cache {self.folder} is not used, so every process compiles its kernels: "
            f"{error}. Name a folder of your own with {_FOLDER_VARIABLE}, or off for none",
            stacklevel=4,
        )


def _header(key: str, payload: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(key.encode() + b"\0" + payload).digest()


def _write(folder: Folder, name: str, content: bytes) -> None:
    """Writes a file that appears complete or not at all."""
    temporary = _TEMPORARY + secrets.token_hex(8)
    descriptor = folder.create(temporary)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        folder.rename(temporary, name)
    except OSError:
        with suppress(OSError):
            folder.remove(temporary)
        raise


def default_cache() -> DiskCache | None:
    """Returns the cache that the environment asks for, or None where it is switched off.

    ``CLPRIM_CACHE_DIR`` names the folder (empty, ``0`` or ``off``: no cache), by default the
    user's cache folder; programs lie in ``programs`` below it. ``CLPRIM_CACHE_SIZE`` is the bound
    in MiB, 256 by default; what is no number of MiB is said once, and 256 taken.
    """
    # Read at every use: a look-up of the environment is nothing beside a build, and a program
    # that sets the variable after its imports is obeyed.
    return _cache(os.environ.get(_FOLDER_VARIABLE), os.environ.get(_SIZE_VARIABLE))


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
    named = folder is not None
    if folder is None:
        import platformdirs  # comes with pyopencl

        folder = platformdirs.user_cache_dir("clprim")
    elif folder.strip().lower() in ("", "0", "off"):
        return None
    base = os.path.expanduser(folder)  # noqa: PTH111 - Path.expanduser raises without a home
    if base.startswith("~"):
        return None  # no home to put it in
    return DiskCache(Path(base).absolute() / "programs", _limit(size), named=named)


def _limit(size: str | None) -> int:
    """Returns the bound in bytes."""
    mib = _DEFAULT_MIB
    if size is not None and size.strip():
        try:
            mib = float(size)
        except ValueError:
            mib = math.nan
        if not 0 <= mib < math.inf:
            warnings.warn(
                f"{_SIZE_VARIABLE}={size!r} is no number of MiB; {_DEFAULT_MIB:.0f} is taken",
                stacklevel=5,
            )
            mib = _DEFAULT_MIB
    return int(mib * 2**20)
