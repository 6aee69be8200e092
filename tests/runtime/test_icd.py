"""The vendor folder: system and pip-installed drivers united, mended, each once."""

import ctypes
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clprim.runtime import icd

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="vendor folders are Linux's")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    # prepare() sets the variable; setenv first, so that monkeypatch restores what was there.
    for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def system(tmp_path):
    """A system folder with a driver by soname and one whose library is gone."""
    folder = tmp_path / "system"
    folder.mkdir()
    (folder / "gpu.icd").write_text("libgpu.so.1\n")
    (folder / "old.icd").write_text("/opt/removed/libold.so\n")
    return folder


@pytest.fixture
def prefix(tmp_path):
    """A prefix as pip leaves it: the .icd file names the path that its builder had."""
    return make_prefix(tmp_path / "prefix", {"cpu.icd": "/opt/placeholder/lib/libcpu.so"}, "cpu")


def make_prefix(prefix, files, *libraries):
    (prefix / "etc/OpenCL/vendors").mkdir(parents=True)
    (prefix / "lib").mkdir()
    for name, text in files.items():
        (prefix / "etc/OpenCL/vendors" / name).write_text(text)
    for library in libraries:
        (prefix / f"lib/lib{library}.so").write_bytes(b"")
    return prefix


def libraries(folder):
    """What a loader would open: the lines of the folder's files in the order of their names."""
    return [file.read_text().strip() for file in sorted(folder.glob("*.icd"))]


def test_system_and_mended_drivers_are_united(system, prefix, tmp_path):
    folder = icd.prepare(system, [prefix], tmp_path / "cache")

    assert libraries(folder) == ["libgpu.so.1", f"{prefix}/lib/libcpu.so"]
    assert os.environ["OCL_ICD_VENDORS"] == str(folder)
    assert folder.is_relative_to(tmp_path / "cache")


def test_line_endings_and_a_missing_newline_do_not_matter(tmp_path):
    files = {"a.icd": "/x/liba.so\r\n", "b.icd": "  /x/libb.so", "c.icd": "libc.so\nsecond line\n"}
    prefix = make_prefix(tmp_path / "prefix", files, "a", "b", "c")
    folder = icd.prepare(tmp_path / "none", [prefix], tmp_path / "cache")
    assert libraries(folder) == [f"{prefix}/lib/lib{name}.so" for name in "abc"]


def test_a_valid_path_of_a_prefix_is_kept(system, prefix, tmp_path):
    elsewhere = tmp_path / "elsewhere" / "libmine.so"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"")
    (prefix / "etc/OpenCL/vendors/mine.icd").write_text(str(elsewhere))
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    assert libraries(folder) == ["libgpu.so.1", f"{prefix}/lib/libcpu.so", str(elsewhere)]


@pytest.mark.parametrize(
    "text", ["", "\n", "/opt/gone/libgone.so\n", "\x00\x01\x02", "/opt/x/libintelocl_emu.so"]
)
def test_what_cannot_be_mended_is_left_out(system, prefix, tmp_path, text):
    (prefix / "etc/OpenCL/vendors/broken.icd").write_text(text)
    (prefix / "lib/libintelocl_emu.so").write_bytes(b"")  # an emulator, though it is there
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    assert libraries(folder) == ["libgpu.so.1", f"{prefix}/lib/libcpu.so"]


def test_bytes_that_are_no_text_and_folders_are_left_out(system, prefix, tmp_path):
    (system / "bytes.icd").write_bytes(bytes(range(128, 256)))
    (system / "folder.icd").mkdir()
    (system / "notes.txt").write_text("libnotes.so")
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    assert libraries(folder) == ["libgpu.so.1", f"{prefix}/lib/libcpu.so"]


def test_without_pip_installed_drivers_the_loader_is_left_alone(system, tmp_path):
    assert icd.prepare(system, [tmp_path / "empty"], tmp_path / "cache") is None
    assert "OCL_ICD_VENDORS" not in os.environ
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("line", ["{}", "libcpu.so"])
def test_a_runtime_that_the_system_has_is_not_listed_twice(system, prefix, tmp_path, line):
    (system / "cpu.icd").write_text(line.format(prefix / "lib/libcpu.so"))
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    assert libraries(folder) == [line.format(prefix / "lib/libcpu.so"), "libgpu.so.1"]


def test_a_runtime_behind_a_symbolic_link_is_not_listed_twice(prefix, tmp_path):
    system = tmp_path / "linked"
    system.mkdir()
    link = tmp_path / "libother_name.so"
    link.symlink_to(prefix / "lib/libcpu.so")
    (system / "other.icd").write_text(str(link))
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    assert libraries(folder) == [str(link)]


def test_two_prefixes_with_the_same_runtime_give_one(tmp_path):
    files = {"cpu.icd": "/x/libcpu.so"}
    first, second = (make_prefix(tmp_path / name, files, "cpu") for name in ("venv", "user"))
    folder = icd.prepare(tmp_path / "none", [first, second], tmp_path / "cache")
    assert libraries(folder) == [f"{first}/lib/libcpu.so"]


def test_a_broken_entry_of_the_system_does_not_hide_a_working_one(system, prefix, tmp_path):
    (system / "cpu.icd").write_text("/opt/removed/libcpu.so")
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    assert f"{prefix}/lib/libcpu.so" in libraries(folder)


def test_the_folder_is_named_after_its_content(system, prefix, tmp_path):
    first = icd.prepare(system, [prefix], tmp_path / "cache")
    assert icd.prepare(system, [prefix], tmp_path / "cache") == first
    (system / "new.icd").write_text("libnew.so")
    other = icd.prepare(system, [prefix], tmp_path / "cache")
    assert other != first
    assert "libnew.so" in libraries(other)


def test_a_damaged_folder_is_repaired(system, prefix, tmp_path):
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    files = sorted(folder.iterdir())
    files[0].unlink()
    files[1].write_text("/truncat")
    assert icd.prepare(system, [prefix], tmp_path / "cache") == folder
    assert libraries(folder) == ["libgpu.so.1", f"{prefix}/lib/libcpu.so"]


def test_many_at_once_see_a_complete_folder(tmp_path):
    drivers = [icd.Driver(f"d{i}", f"/x/lib{i}.so") for i in range(40)]

    def write(_):
        return libraries(icd.write_folder(drivers, tmp_path))

    with ThreadPoolExecutor(8) as pool:
        for lines in pool.map(write, range(32)):
            assert lines == [driver.library for driver in drivers]
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".icd"]


def test_a_cache_that_cannot_be_written_is_replaced_for_this_process(system, prefix, tmp_path):
    blocked = tmp_path / "cache"
    blocked.write_text("a file where the folder should be")  # stops root as well
    folder = icd.prepare(system, [prefix], blocked)
    assert libraries(folder) == ["libgpu.so.1", f"{prefix}/lib/libcpu.so"]
    assert not folder.is_relative_to(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700  # nobody else may add a library


@pytest.mark.parametrize("part", ["", "icd", "icd/clprim-icd-*"])
def test_a_folder_that_others_could_write_is_replaced(system, prefix, tmp_path, part):
    # Whoever can write there names libraries that this process loads.
    cache = tmp_path / "cache"
    folder = icd.prepare(system, [prefix], cache)
    (shared,) = cache.glob(part) if part else [cache]
    shared.chmod(0o777)
    replacement = icd.prepare(system, [prefix], cache)
    assert not replacement.is_relative_to(cache)
    assert libraries(replacement) == libraries(folder)
    shared.chmod(0o1777 if shared != folder else 0o755)  # nobody renames what is another's there
    assert icd.prepare(system, [prefix], cache) == folder


def test_a_choice_that_names_no_driver_is_described(tmp_path, monkeypatch):
    assert icd.complaint() == ""
    variable = "OCL_ICD_VENDORS"
    monkeypatch.setenv(variable, str(tmp_path / "nothing.icd"))
    assert icd.complaint().startswith(f"{variable}={tmp_path}/nothing.icd names no driver, and")
    (tmp_path / "nothing.icd").write_text("libgone.so\n")
    assert "names only libgone.so, which offers none" in icd.complaint()


def test_the_replacement_is_removed_when_the_process_ends(tmp_path):
    blocked = tmp_path / "cache"
    blocked.write_text("")
    code = (
        "from pathlib import Path; from clprim.runtime import icd\n"
        f"print(icd.write_folder([icd.Driver('a', 'liba.so')], Path({str(blocked)!r})))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "clprim-icd-" in ran.stdout
    assert not Path(ran.stdout.strip()).exists()


def test_nowhere_to_write_is_no_error(system, prefix, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError("read-only")

    monkeypatch.setattr(icd.tempfile, "mkdtemp", refuse)
    monkeypatch.setattr(icd, "_write_files", refuse)
    assert icd.prepare(system, [prefix], tmp_path / "cache") is None
    assert "OCL_ICD_VENDORS" not in os.environ


def test_the_users_own_choice_is_respected(system, prefix, tmp_path, monkeypatch):
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "mine"))
    assert icd.prepare(system, [prefix], tmp_path / "cache") is None
    assert os.environ["OCL_ICD_VENDORS"] == str(tmp_path / "mine")
    assert not (tmp_path / "cache").exists()


def test_drivers_named_beside_the_installed_ones_hide_none(system, prefix, tmp_path, monkeypatch):
    # The loader in pyopencl's wheel does not read the variable, and Intel's runtime vanished.
    (tmp_path / "mine.icd").write_text("/opt/mine/libmine.so\n")
    named = [str(tmp_path / "mine.icd"), "libother.so", "libgpu.so.1", str(tmp_path / "gone.icd")]
    monkeypatch.setenv("OCL_ICD_FILENAMES", os.pathsep.join(named))
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    expected = ["/opt/mine/libmine.so", "libother.so", "libgpu.so.1", f"{prefix}/lib/libcpu.so"]
    assert libraries(folder) == expected
    assert libraries(icd.prepare(system, [], tmp_path / "cache")) == expected[:3]


def test_a_folder_inherited_from_a_parent_process_is_no_choice(
    system, prefix, tmp_path, monkeypatch
):
    outdated = icd.write_folder([icd.Driver("gone", "/x/libgone.so")], tmp_path / "cache")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(outdated))
    folder = icd.prepare(system, [prefix], tmp_path / "cache")
    assert libraries(folder) == ["libgpu.so.1", f"{prefix}/lib/libcpu.so"]


@pytest.fixture
def loaded(monkeypatch):
    """The libraries that are loaded ahead, in order; none really is."""
    names = []

    def load(name, mode):
        assert mode == ctypes.RTLD_GLOBAL
        names.append(name)
        raise OSError("not an ELF file")  # must not matter

    monkeypatch.setattr(icd.ctypes, "CDLL", load)
    return names


def test_companions_are_loaded_from_beside_the_driver(system, prefix, tmp_path, loaded):
    for name in ("libsvml.so", "libimf.so"):
        (prefix / "lib" / name).write_bytes(b"")
    icd.prepare(system, [prefix], tmp_path / "cache")
    assert loaded == [f"{prefix}/lib/libimf.so", f"{prefix}/lib/libsvml.so"]


def test_companions_are_loaded_for_the_users_choice_too(
    system, prefix, tmp_path, loaded, monkeypatch
):
    (prefix / "lib/libimf.so").write_bytes(b"")
    (system / "mine.icd").write_text(f"{prefix}/lib/libcpu.so")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(system))
    icd.prepare(tmp_path / "none", [], tmp_path / "cache")
    assert loaded == [f"{prefix}/lib/libimf.so"]

    monkeypatch.setenv("OCL_ICD_VENDORS", str(system / "mine.icd"))
    icd.prepare(tmp_path / "none", [], tmp_path / "cache")
    assert loaded == [f"{prefix}/lib/libimf.so"] * 2


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_elsewhere_nothing_is_done(system, prefix, tmp_path, monkeypatch, platform):
    monkeypatch.setattr(icd.sys, "platform", platform)
    assert icd.prepare(system, [prefix], tmp_path / "cache") is None
    assert "OCL_ICD_VENDORS" not in os.environ


def test_prefixes_are_those_of_the_packages(monkeypatch, tmp_path):
    packages = tmp_path / "other/lib/python3.11/site-packages"
    monkeypatch.setattr(icd.sys, "path", ["", "/somewhere", str(packages)])
    monkeypatch.setattr(icd.site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(icd.site, "getuserbase", lambda: str(tmp_path / "user"))
    assert icd.package_prefixes() == [
        Path(sys.prefix),
        tmp_path / "user",
        tmp_path / "other",
        packages,
    ]


def test_windows_loader_gets_the_dlls_of_wheels(tmp_path, monkeypatch):
    """What can be shown of it here; the loader itself was not run there."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("PATH", "before")
    folder = tmp_path / "Library" / "bin"
    folder.mkdir(parents=True)
    assert icd.prepare(prefixes=[tmp_path]) is None
    assert "OCL_ICD_FILENAMES" not in os.environ
    library = folder / "intelocl64.dll"
    library.write_bytes(b"")
    monkeypatch.setenv("OCL_ICD_FILENAMES", "other.dll")
    for _ in range(2):  # a child process finds what its parent named
        assert icd.prepare(prefixes=[tmp_path]) is None
        assert os.environ["OCL_ICD_FILENAMES"].split(os.pathsep) == ["other.dll", str(library)]
        assert os.environ["PATH"] == f"{folder}{os.pathsep}before"
