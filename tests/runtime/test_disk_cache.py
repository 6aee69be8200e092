import os
import socket
import stat
import subprocess
import sys
import time

import pytest

from clprim.runtime import disk_cache
from clprim.runtime.disk_cache import DiskCache, default_cache
from clprim.runtime.private_files import Folder

MIB = 2**20


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "programs", MIB)


def files(cache):
    return sorted(path.name for path in cache.folder.iterdir())


def entry(cache, key="key"):
    return cache.folder / f"{key}.bin"


def test_what_is_stored_is_found(cache):
    assert cache.load("key") is None
    cache.store("key", b"binary\0with zeros")
    assert cache.load("key") == b"binary\0with zeros"
    cache.store("key", b"another")
    assert cache.load("key") == b"another"
    cache.remove("key")
    assert cache.load("key") is None
    cache.remove("key")


def test_an_empty_binary_is_an_entry_too(cache):
    cache.store("key", b"")
    assert cache.load("key") == b""


def test_no_temporary_files_remain_and_the_folder_is_private(cache):
    cache.store("key", b"binary")
    assert files(cache) == ["key.bin"]
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[:5],
        lambda data: b"",
        lambda data: data + b"x",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: b"something else altogether",
    ],
)
def test_a_damaged_entry_is_a_miss_and_removed(cache, damage):
    cache.store("key", b"binary" * 100)
    entry(cache).write_bytes(damage(entry(cache).read_bytes()))
    assert cache.load("key") is None
    assert files(cache) == []
    cache.store("key", b"binary")
    assert cache.load("key") == b"binary"


def test_the_bound_is_kept(cache):
    for number in range(40):
        cache.store(f"key{number}", bytes(100_000))
        assert sum(path.stat().st_size for path in cache.folder.iterdir()) <= MIB
    assert cache.load("key39") is not None
    assert cache.load("key0") is None


def test_what_was_used_last_stays(cache):
    for number in range(10):
        cache.store(f"key{number}", bytes(100_000))
        os.utime(entry(cache, f"key{number}"), (number, number))
    assert cache.load("key0") is not None  # the oldest, and now the newest
    cache.store("key10", bytes(100_000))
    assert entry(cache, "key0").exists()
    assert not entry(cache, "key1").exists()
    assert entry(cache, "key10").exists()


def test_entries_of_other_processes_count(tmp_path):
    for number in range(3):  # each a process that stores a little
        DiskCache(tmp_path, 250_000).store(f"key{number}", bytes(100_000))
    assert len(list(tmp_path.iterdir())) == 1 + (250_000 * 0.75 >= 200_000)


def test_a_binary_beyond_the_bound_is_not_stored(cache):
    cache.store("small", b"small")
    cache.store("key", bytes(MIB))
    assert files(cache) == ["small.bin"]


def test_the_folder_is_not_listed_at_every_store(cache, monkeypatch):
    sweeps = []
    sweep = DiskCache.sweep
    monkeypatch.setattr(DiskCache, "sweep", lambda self: (sweeps.append(1), sweep(self)))
    for number in range(60):
        cache.store(f"key{number}", b"binary")
    assert len(sweeps) == 1


def test_forgotten_temporary_files_are_swept_up(cache):
    cache.store("key", b"binary")
    for name, age in (".new-old", 7200), (".new-fresh", 0), (".new-future", -7200):
        (cache.folder / name).write_bytes(b"half")
        os.utime(cache.folder / name, (time.time() - age,) * 2)
    cache.sweep()
    assert files(cache) == [".new-fresh", "key.bin"]


def test_temporary_files_count(cache):
    for number in range(8):
        cache.store(f"key{number}", bytes(100_000))
    (cache.folder / ".new-of-another-process").write_bytes(bytes(500_000))
    cache.sweep()
    assert sum(path.stat().st_size for path in cache.folder.iterdir()) <= MIB


def test_files_that_vanish_during_a_sweep_are_no_error(cache, monkeypatch):
    for number in range(10):
        cache.store(f"key{number}", bytes(90_000))
    real = os.scandir

    class Vanishing:
        """Lists a folder that another process empties meanwhile."""

        def __init__(self, folder):
            self.items = list(real(folder))
            for item in self.items[::2]:
                (cache.folder / item.name).unlink()

        def __enter__(self):
            return iter(self.items)

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(os, "scandir", Vanishing)
    cache.limit = 300_000
    cache.sweep()
    assert 1 <= len(files(cache)) <= 3


@pytest.mark.parametrize("other", ["key5", "key"])
def test_an_entry_under_another_name_is_a_miss(cache, other):
    cache.store("key3", b"three times")
    cache.store("key5", b"five times")
    entry(cache, "key3").rename(entry(cache, other))
    assert cache.load(other) is None
    assert cache.load("key3") is None
    assert not entry(cache, other).exists()


@pytest.mark.parametrize("kind", ["fifo", "link", "dangling", "socket", "device"])
def test_what_is_no_regular_file_is_a_miss_and_removed(cache, tmp_path, kind):
    cache.store("other", b"binary")
    if kind == "fifo":
        os.mkfifo(entry(cache))  # opening one for reading waits for a writer
    elif kind == "link":
        entry(cache).symlink_to("other.bin")
    elif kind == "dangling":
        entry(cache).symlink_to("nowhere")
    elif kind == "socket":
        short = os.open(cache.folder, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{short}/key.bin")
        os.close(short)
    else:
        try:
            os.mknod(entry(cache), stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zeros without an end
        except PermissionError:
            pytest.skip("making a device takes privileges")
    assert cache.load("key") is None
    cache.store("key", b"binary")
    assert cache.load("key") == b"binary"
    assert files(cache) == ["key.bin", "other.bin"]


def test_a_folder_in_an_entrys_place_is_a_miss(cache):
    cache.store("other", b"binary")
    entry(cache).mkdir()
    assert cache.load("key") is None
    cache.store("key", b"binary")
    assert cache.load("key") is None
    assert files(cache) == ["key.bin", "other.bin"]


def test_an_entry_that_others_could_write_is_a_miss(cache):
    for mode in 0o620, 0o602:
        cache.store("key", b"binary")
        entry(cache).chmod(mode)
        assert cache.load("key") is None
        assert files(cache) == []


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_could_write_is_not_used_and_that_is_said_once(cache, mode):
    cache.store("key", b"binary")
    cache.folder.chmod(mode)
    with pytest.warns(UserWarning) as said:
        assert cache.load("key") is None
        cache.store("another", b"binary")
        cache.remove("key")
        cache.sweep()
    assert len(said) == 1
    assert f"{cache.folder} can be written by other users (mode {mode:o})" in str(said[0].message)
    assert "CLPRIM_CACHE_DIR" in str(said[0].message)
    assert files(cache) == ["key.bin"]
    cache.folder.chmod(0o700)
    assert cache.load("key") == b"binary"


def test_a_folder_of_another_user_is_not_used(cache):
    cache.store("key", b"binary")
    try:
        os.chown(cache.folder, 12345, -1)
    except PermissionError:
        pytest.skip("giving a folder away takes privileges")
    with pytest.warns(UserWarning, match=r"belongs to another user \(number 12345\)"):
        assert cache.load("key") is None
    os.chown(cache.folder, os.geteuid(), -1)
    os.chown(entry(cache), 12345, -1)
    assert cache.load("key") is None
    assert files(cache) == []


def test_a_folder_that_the_user_named_and_that_cannot_be_is_said_once(monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="file.programs is not used") as said:
        for number in range(3):
            disk_cache.store(f"key{number}", b"binary")
            assert disk_cache.load(f"key{number}") is None
    assert len(said) == 1


def test_a_folder_that_cannot_be_made_is_silent(tmp_path, capfd):
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(tmp_path / "file" / "below", MIB)
    cache.store("key", b"binary")
    assert cache.load("key") is None
    cache.remove("key")
    cache.sweep()
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_is_silent_and_leaves_nothing(cache, monkeypatch):
    cache.store("key", b"binary")

    def refuse(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Folder, "rename", refuse)
    cache.store("other", b"binary")
    assert files(cache) == ["key.bin"]


@pytest.mark.parametrize("value", ["", "0", "off", "OFF", " "])
def test_the_environment_switches_it_off(monkeypatch, value):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", value)
    assert default_cache() is None
    disk_cache.store("key", b"binary")
    assert disk_cache.load("key") is None
    disk_cache.remove("key")


def test_the_environment_chooses_folder_and_size(monkeypatch, tmp_path):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CLPRIM_CACHE_SIZE", "0.5")
    assert default_cache().folder == tmp_path / "programs"
    assert default_cache().limit == MIB // 2
    disk_cache.store("key", b"binary")
    assert disk_cache.load("key") == b"binary"
    assert (tmp_path / "programs" / "key.bin").exists()
    disk_cache.remove("key")
    assert disk_cache.load("key") is None


@pytest.mark.parametrize("size", ["much", "nan", "inf", "-1", "1e400", "256 MB"])
def test_a_size_that_is_no_number_is_said_once(monkeypatch, tmp_path, size):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CLPRIM_CACHE_SIZE", size)
    with pytest.warns(UserWarning, match="CLPRIM_CACHE_SIZE=.*is no number of MiB; 256 is taken"):
        assert default_cache().limit == 256 * MIB
    assert default_cache().limit == 256 * MIB  # a second warning would be an error


def test_an_empty_size_is_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CLPRIM_CACHE_SIZE", "")
    assert default_cache().limit == 256 * MIB


def test_by_default_it_is_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("CLPRIM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    disk_cache._cache.cache_clear()
    try:
        assert default_cache().folder.parts[-2:] == ("clprim", "programs")
    finally:
        disk_cache._cache.cache_clear()


WRITER = """
import sys
from pathlib import Path
from clprim.runtime.disk_cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), 1 << 20)
payloads = {bytes([letter]) * 50_000 for letter in b"abcd"}
own = sys.argv[2].encode() * 50_000
sys.stdin.readline()
for _ in range(150):
    cache.store("key", own)
    seen = cache.load("key")
    assert seen in payloads, "mixture or miss"
"""


def test_processes_that_store_one_key_at_once_never_see_a_mixture(cache):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(cache.folder), letter],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for letter in "abcd"
    ]
    for writer in writers:  # all have started by now: go
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    for writer in writers:
        _, error = writer.communicate(timeout=60)
        assert writer.returncode == 0, error.decode()
    assert files(cache) == ["key.bin"]
