"""Makes OpenCL runtimes that pip installed visible beside those of the system.

An OpenCL loader finds runtimes ("installable client drivers") through text files ``NAME.icd`` in
one vendor folder; each holds the path or the soname of a library. A wheel can only install such a
file under its environment's prefix, where no loader looks, and with whatever path its builder had.
`prepare` writes a vendor folder of its own that unites both, with the paths mended, and names it in
``OCL_ICD_VENDORS``, which the loader reads when platforms are first listed. On Windows the loader
goes by the registry, which only an administrator can write, and ``OCL_ICD_FILENAMES``. On Linux
some loaders do not read that variable, so the drivers that it adds are written into the folder too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import os
import shutil
import site
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clprim.runtime.private_files import require_private_path

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
_VARIABLE = "OCL_ICD_VENDORS"
_OTHER_VARIABLE = "OCL_ICD_FILENAMES"
# The name tells our own folder, inherited from a parent process, from one that the user chose.
_FOLDER = "clprim-icd-"

# Libraries that some runtimes need without saying where they lie. Each is loaded, in this order,
# when it lies beside a driver: from there on the loader finds it by its name.
_COMPANIONS = ("libimf.so", "libintlc.so.5", "libirng.so", "libsvml.so")
# Where wheels for Windows put a driver below their prefix; their .icd files name Linux's library.
_DLLS = (Path("Library", "bin", "intelocl64.dll"),)
# Drivers of a prefix that are no devices to calculate on: this one emulates an FPGA's timing.
_EMULATORS = frozenset({"libintelocl_emu.so"})


@dataclass(frozen=True)
class Driver:
    """One line for a vendor folder."""

    name: str
    library: str

    @property
    def keys(self) -> frozenset[str]:
        """What makes two drivers the same runtime: the name of the library, or the file it is."""
        return frozenset({Path(self.library).name, os.path.realpath(self.library)})


def prepare(
    system: Path = SYSTEM_VENDORS,
    prefixes: Iterable[Path] | None = None,
    cache: Path | None = None,
) -> Path | None:
    """Point the OpenCL loader at the system's and the pip-installed drivers; call it early.

    It has an effect until the first listing of OpenCL platforms in this process, and does no harm
    after it. It raises nothing: what cannot be read or written is left out. A vendor folder that
    the user chose is respected.
    """
    if sys.platform == "win32":
        _name_dlls(package_prefixes() if prefixes is None else prefixes)
    if sys.platform != "linux":  # elsewhere drivers register themselves by other means
        return None
    with contextlib.suppress(OSError):  # a folder on the way that may not even be looked into
        chosen = _chosen_by_user()
        if chosen is not None:
            _load_companions(chosen)
            return None
        installed = list(_prefix_drivers(package_prefixes() if prefixes is None else prefixes))
        named = [Driver(Path(library).stem, library) for library in _named_by_user()]
        if not installed and not named:
            return None
        drivers = unite(named, _system_drivers(system), installed)
        folder = write_folder(drivers, cache)
        if folder is not None:
            os.environ[_VARIABLE] = str(folder)
            _load_companions(driver.library for driver in drivers)
        return folder
    return None


def complaint() -> str:
    """Returns what the user's choice of drivers names, or an empty string without one.

    For messages that no device was found: such a choice hides every other driver.
    """
    chosen = _chosen_by_user() if sys.platform == "linux" else None
    if chosen is None:
        return ""
    found = f"only {', '.join(chosen)}, which offers none" if chosen else "no driver"
    given = f"{_VARIABLE}={os.environ[_VARIABLE]}"
    return f"{given} names {found}, and hides those that are installed; unset it"


def package_prefixes() -> list[Path]:
    """Return the prefixes under which this interpreter's packages may have put data files."""
    found = [Path(sys.prefix)]
    if site.ENABLE_USER_SITE:
        found.append(Path(site.getuserbase()))
    for entry in map(Path, sys.path):
        if entry.name in {"site-packages", "dist-packages"} and len(entry.parents) > 2:
            # PREFIX/lib/python3.X/site-packages, of Windows PREFIX/Lib/site-packages; and
            # `pip install --target` makes a prefix of the package folder itself.
            found += [entry.parents[1 if sys.platform == "win32" else 2], entry]
    return list(dict.fromkeys(found))


def unite(*groups: Iterable[Driver]) -> list[Driver]:
    """Return the drivers of all groups in order, each runtime once: the first that names it."""
    seen: set[str] = set()
    united = []
    for driver in (driver for group in groups for driver in group):
        if not driver.keys & seen:
            seen |= driver.keys
            united.append(driver)
    return united


def write_folder(drivers: Iterable[Driver], cache: Path | None = None) -> Path | None:
    """Write a vendor folder that holds ``drivers`` and return it; None if nowhere is writable.

    The folder is named after its content, and each file appears complete or not at all: any
    number of processes may do this at once. Where the cache cannot be written, or others could
    name libraries to load there, a temporary folder takes its place and is removed when the process
    ends.
    """
    files = {f"{i:02d}-{driver.name}.icd": driver.library for i, driver in enumerate(drivers)}
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home directory
        folder = (_cache_folder() if cache is None else cache) / "icd" / f"{_FOLDER}{digest}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_private_path(folder)
        _write_files(folder, files)
        return folder
    with contextlib.suppress(OSError):
        # Private to this user, so that nobody else can slip in a library to load.
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _write_files(folder, files)
        return folder
    return None


def _name_dlls(prefixes: Iterable[Path]) -> None:
    """Name the DLLs of installed drivers to the loader, beside those that Windows' registry has."""
    named = [name for name in os.environ.get(_OTHER_VARIABLE, "").split(os.pathsep) if name]
    for library in (prefix / dll for prefix in prefixes for dll in _DLLS):
        if str(library) in named or not library.exists():
            continue
        named.append(str(library))
        # What a driver loads in turn lies beside it.
        os.environ["PATH"] = f"{library.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        if hasattr(os, "add_dll_directory"):
            os.add_dll_directory(str(library.parent))
    if named:
        os.environ[_OTHER_VARIABLE] = os.pathsep.join(named)


def _chosen_by_user() -> list[str] | None:
    """Return the libraries of the user's own choice of drivers, or None without one."""
    vendors = os.environ.get(_VARIABLE, "")
    if not vendors or Path(vendors).name.startswith(_FOLDER):  # a parent process's, maybe outdated
        return None
    path = Path(vendors)
    return [
        library for library in map(_read, _icd_files(path) if path.is_dir() else [path]) if library
    ]


def _named_by_user() -> list[str]:
    """Return the libraries that the user adds to those that are installed."""
    names = [name for name in os.environ.get(_OTHER_VARIABLE, "").split(os.pathsep) if name]
    found = [_read(Path(name)) if name.endswith(".icd") else name for name in names]
    return [library for library in found if library]


def _system_drivers(folder: Path) -> Iterator[Driver]:
    """Yield the drivers of the system's folder, without those whose library is gone."""
    for file in _icd_files(folder):
        library = _read(file)
        if library and (not Path(library).is_absolute() or Path(library).exists()):
            yield Driver(file.stem, library)


def _prefix_drivers(prefixes: Iterable[Path]) -> Iterator[Driver]:
    """Yield the drivers under ``prefixes``, each with a path at which its library lies."""
    for prefix in prefixes:
        for file in _icd_files(prefix / "etc" / "OpenCL" / "vendors"):
            library = Path(_read(file))
            if not library.name or library.name in _EMULATORS:
                continue
            if not (library.is_absolute() and library.exists()):
                library = prefix / "lib" / library.name
            if library.exists():
                yield Driver(file.stem, str(library.absolute()))


def _icd_files(folder: Path) -> list[Path]:
    """Return the ``.icd`` files of ``folder`` in a fixed order; none if it cannot be read."""
    try:
        return sorted(file for file in folder.iterdir() if file.suffix == ".icd")
    except OSError:
        return []


def _read(file: Path) -> str:
    """Return the library that an ``.icd`` file names, or an empty string."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    library = lines[0].strip() if lines else ""
    return library if library.isprintable() else ""


def _cache_folder() -> Path:
    """Return this user's cache folder for clprim."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "clprim"


def _write_files(folder: Path, files: dict[str, str]) -> None:
    """Write one line a file, each atomically; what is there already is left as it is."""
    for name, line in files.items():
        target = folder / name
        if _read(target) == line:
            continue
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}-")  # no .icd at its end
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(line + "\n")
            os.replace(temporary, target)  # noqa: PTH105 - a name of mkstemp, not a path
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            raise


def _load_companions(libraries: Iterable[str]) -> None:
    """Load what lies beside the drivers and is needed by them, visible to all later libraries."""
    for folder in dict.fromkeys(Path(library).parent for library in libraries):
        if not folder.is_absolute():
            continue  # a soname: it was installed where the loader looks
        for name in _COMPANIONS:
            file = folder / name
            if file.exists():
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
