"""Opens files of clprim's folders so that nobody else can have put them there.

What lies in these folders is run: programs by the device, and the libraries that a vendor folder
names by this process. So a folder has to belong to this user (or to root) and to be writable by
nobody else, and so has every file in it. Files are opened below the very folder that was looked at,
by its descriptor, so that it cannot be exchanged in between.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Elsewhere folders cannot be opened, and permissions are not in their mode.
_CHECKED = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
# A link leads out of the folder; a FIFO without a writer would be waited for.
_READ_FILE = _READ | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_CREATE |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class NotPrivateError(OSError):
    """A folder or file that another user owns or could write; the message says which and why."""


class Folder:
    """An open folder that nobody else can write; names in it are looked up by its descriptor."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self.descriptor = descriptor

    def read(self, name: str, limit: int) -> bytes:
        """Returns the content of a file."""
        with os.fdopen(self._open(name, _READ_FILE), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise NotPrivateError(f"{self.path / name} is no regular file")
            _require_private(self.path / name, info)
            if info.st_size > limit:
                raise OSError(f"{self.path / name} has {info.st_size:,} bytes, more than {limit:,}")
            return file.read(limit)

    def create(self, name: str) -> int:
        """Creates a file that this user alone may read and write, and returns its descriptor."""
        return self._open(name, _CREATE)

    def rename(self, name: str, new: str) -> None:
        """Renames a file; one that has the new name is replaced in one step."""
        if self.descriptor is None:
            (self.path / name).replace(self.path / new)
        else:
            os.replace(name, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def remove(self, name: str) -> None:
        """Removes a file, or whatever else has the name, but a folder."""
        os.unlink(self._at(name), dir_fd=self.descriptor)

    def touch(self, name: str) -> None:
        """Sets a file's time to now."""
        if self.descriptor is None:
            os.utime(self.path / name)
        else:
            os.utime(name, dir_fd=self.descriptor, follow_symlinks=False)

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yields the name and status of everything in the folder; what vanishes is left out."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as listing:
            for item in listing:
                try:
                    info = item.stat(follow_symlinks=False)
                except OSError:  # another process was faster
                    continue
                yield item.name, info

    def _at(self, name: str) -> str:
        return str(self.path / name) if self.descriptor is None else name

    def _open(self, name: str, flags: int) -> int:
        return os.open(self._at(name), flags, 0o600, dir_fd=self.descriptor)


@contextmanager
def open_folder(path: Path, *, create: bool = False) -> Iterator[Folder]:
    """Opens a folder, and closes it after the ``with``."""
    if create:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _CHECKED:
        yield Folder(path, None)
        return
    descriptor = os.open(path, _READ | os.O_DIRECTORY)
    try:
        _require_private(path, os.fstat(descriptor))
        yield Folder(path, descriptor)
    finally:
        os.close(descriptor)


def require_private_path(path: Path) -> None:
    """Refuses a folder that others could change, or exchange, before its path is used again."""
    path = path.resolve()
    _require_private(path, path.stat())
    for folder in path.parents:
        info = folder.stat()
        if not info.st_mode & stat.S_ISVTX:
            _require_private(folder, info)


def _require_private(path: Path, info: os.stat_result) -> None:
    if not _CHECKED:
        return
    if info.st_uid not in (0, os.geteuid()):
        raise NotPrivateError(f"{path} belongs to another user (number {info.st_uid})")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(info.st_mode)
        raise NotPrivateError(f"{path} can be written by other users (mode {mode:o})")
