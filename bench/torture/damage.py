"""Damage to the cache on disk: every result stays right, and nothing waits or crashes."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.torture.cases import draw_case
from bench.torture.draw import Draw
from clprim.runtime import program, source_cache

_VARIABLE = "CLPRIM_CACHE_DIR"


@contextmanager
def own_cache() -> Iterator[Path]:
    """Gives this process an empty cache for a while, and yields the folder of its entries."""
    before = os.environ.get(_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="clprim-torture-") as folder:
        os.environ[_VARIABLE] = folder
        try:
            yield Path(folder) / "programs"
        finally:
            if before is None:
                del os.environ[_VARIABLE]
            else:
                os.environ[_VARIABLE] = before


def damage_and_run(folder: Path, seed: int, number: int) -> str:
    """Runs a case, damages entries of the cache, and runs it again as another process would."""
    _forget()
    draw_case(Draw(seed, number), _COMPILED).check()
    draw = Draw(seed + 1, number)
    entries = sorted(path for path in folder.iterdir() if path.is_file())
    done = []
    for _ in range(int(draw.random.integers(1, 4))):
        name = draw.one(list(_DAMAGES))
        chosen = draw.one(entries)
        # One that was emptied before has nothing more to lose.
        if chosen.is_file() and not chosen.is_symlink() and chosen.stat().st_size:
            _DAMAGES[name](chosen, draw)
            done.append(name)
    _forget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a folder that others can write is said
        draw_case(Draw(seed, number), _COMPILED).check()
    folder.chmod(0o700)
    for path in folder.iterdir():
        if path.is_dir():
            path.rmdir()
    return ", ".join(done)


# Kinds whose operators are new every time, so that they look for their kernels.
_COMPILED = ("pointwise", "reduction")


def _forget() -> None:
    source_cache.source_of.cache_clear()
    program.forget()


def _cut(path: Path, draw: Draw) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(draw.random.integers(len(content)))])


def _flip(path: Path, draw: Draw) -> None:
    content = bytearray(path.read_bytes())
    content[int(draw.random.integers(len(content)))] ^= 1 << int(draw.random.integers(8))
    path.write_bytes(content)


def _take_anothers_place(path: Path, draw: Draw) -> None:
    other = draw.one(sorted(p for p in path.parent.iterdir() if p.is_file()))
    content, others = path.read_bytes(), other.read_bytes()
    path.write_bytes(others)
    other.write_bytes(content)


def _replace(make: Callable[[Path], object]) -> Callable[[Path, Draw], None]:
    def damage(path: Path, draw: Draw) -> None:
        path.unlink()
        make(path)

    return damage


def _link(path: Path) -> None:
    path.symlink_to(min(path.parent.iterdir(), default=path.parent))


_DAMAGES: dict[str, Callable[[Path, Draw], None]] = {
    "cut short": _cut,
    "a bit flipped": _flip,
    "exchanged with another": _take_anothers_place,
    "removed": _replace(lambda path: None),
    "emptied": _replace(lambda path: path.touch(mode=0o600)),
    "a folder": _replace(lambda path: path.mkdir()),
    "a FIFO": _replace(os.mkfifo),
    "a link to another": _replace(_link),
    "a link to zeros": _replace(lambda path: path.symlink_to("/dev/zero")),
    "writable by all": lambda path, draw: path.chmod(0o666),
    "in a folder writable by all": lambda path, draw: path.parent.chmod(0o777),
}
