"""Programs: from source to something that kernels can be made of, through two caches.

A program is looked for among those of this process, then on disk, and compiled only then.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import pyopencl as cl

from clprim.errors import BuildError, DeviceError
from clprim.runtime import child, disk_cache, trial
from clprim.runtime.diagnostics import explain
from clprim.runtime.query import identity
from clprim.runtime.stats import counters
from clprim.runtime.substitutes import completed
from clprim.traits import DeviceTraits

if TYPE_CHECKING:
    from clprim.runtime.device import Device

# ``cl.Program.build`` keeps a cache of its own, warns of every remark of a compiler, and can be
# told to do neither only by settings of the whole process. The class beneath does one thing.
_RawProgram = cl._cl._Program

# Programs that are found again by their source; what still is called keeps its program anyway. A
# network has some hundred kernels, and a program takes from tens of KiB to 5 MiB of the host.
_MOST = 512
_OPTIONS = "CLPRIM_BUILD_OPTIONS"

_Key = tuple["Device", str, tuple[str, ...]]
_programs: OrderedDict[_Key, cl.Program] = OrderedDict()  # what was used last comes last
_building: dict[_Key, threading.Lock] = {}
_met: set[int] = set()  # hashes of all keys there ever were
_guard = threading.Lock()  # of both
_aside = threading.Lock()  # of who builds in a child


def build(
    device: Device,
    source: str,
    options: Sequence[str] = (),
    *,
    title: str = "generated kernel",
    lines: Mapping[str, str] | None = None,
) -> cl.Program:
    """Builds a program for a device, or finds it where it was built before.

    Safe to call from several threads: different programs are compiled side by side, the same one
    once.
    """
    key = _key(device, source, options)
    program, lock = _find(key)
    if program is not None:
        return program
    try:
        with lock:
            program, _ = _find(key)  # another thread may have built it while this one waited
            if program is not None:
                return program
            program = _load_or_compile(device, source, key[2], title, lines)
            with _guard:
                _programs[key] = program
                _met.add(hash(key))
                while len(_programs) > _MOST:
                    _programs.popitem(last=False)
    finally:
        with _guard:
            _building.pop(key, None)
    return program


def kernel_of(
    device: Device,
    source: str,
    options: Sequence[str],
    name: str,
    *,
    title: str = "generated kernel",
    lines: Mapping[str, str] | None = None,
) -> cl.Kernel:
    """Makes a kernel of a program, which is found or built as `build` does.

    Some drivers load a binary that another compiler left and tell only here that nothing is in it:
    such a one is dropped, and the program built anew.
    """
    program = build(device, source, options, title=title, lines=lines)
    try:
        return cl.Kernel(program, name)
    except cl.Error:
        _drop(_key(device, source, options), program)
    program = build(device, source, options, title=title, lines=lines)
    try:
        return cl.Kernel(program, name)
    except cl.Error as error:
        raise DeviceError(f"{title}: {device} gives no kernel: {error}") from error


def is_kept(device: Device, source: str, options: Sequence[str]) -> bool:
    """Whether a program is here or on disk, so that building it takes no compiler."""
    key = _key(device, source, options)
    return key in _programs or disk_cache.load(_task(key)[2]) is not None


def build_aside(
    device: Device, programs: Sequence[tuple[str, Sequence[str]]]
) -> threading.Thread | None:
    """Builds programs, given as text and options, in a child process that leaves cores to others.

    Of all that are asked for one is built at a time, and kept on disk: `is_kept` says whether it
    was. A child outlives this process.

    Returns:
        The thread that waits; None where nothing is kept on disk, or no child can be had.
    """
    if disk_cache.default_cache() is None or not child.is_possible():
        return None
    tasks = [_task(_key(device, *program)) for program in programs]

    def wait() -> None:
        with _aside, suppress(OSError):
            trial.outcomes(device.cl, tasks, aside=True)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def _task(key: _Key) -> tuple[str, bytes, str]:
    """Returns a program's text as it is compiled, its options, and its name on disk."""
    device, source, options = key
    source, flags = completed(device.cl, source, ""), " ".join(options).encode()
    return source, flags, _disk_key(device, source, flags)


def _key(device: Device, source: str, options: Sequence[str]) -> _Key:
    return device, source, (*options, *os.environ.get(_OPTIONS, "").split())


def _drop(key: _Key, program: cl.Program) -> None:
    """Forgets a program here and on disk, unless another thread has put one in its place."""
    with _guard:
        known = _programs.pop(key, program)
        if known is not program:
            _programs[key] = known
            return
    disk_cache.remove(_task(key)[2])


def programs_met() -> int:
    """Returns how many different programs this process has had; one built anew is the same."""
    return len(_met)


def forget() -> None:
    """Drops the programs of this process; what lies on disk stays."""
    with _guard:
        _programs.clear()


def _find(key: _Key) -> tuple[cl.Program | None, threading.Lock]:
    """Returns the program where it was built, and the lock that whoever builds it holds."""
    with _guard:
        program = _programs.get(key)
        if program is None:
            return None, _building.setdefault(key, threading.Lock())
        _programs.move_to_end(key)
        counters.memory_hits += 1
        return program, _guard


def cl_std_option(traits: DeviceTraits, version: tuple[int, int] = (1, 2)) -> str:
    """Names the language version to compile for: OpenCL C 1.2 unless a kernel asks for more."""
    if traits.c_version < version:
        raise DeviceError(
            f"the kernel is written in OpenCL C {version[0]}.{version[1]}, "
            f"the device compiles OpenCL C {traits.c_version[0]}.{traits.c_version[1]} at most"
        )
    return f"-cl-std=CL{version[0]}.{version[1]}"


def _load_or_compile(
    device: Device,
    source: str,
    options: tuple[str, ...],
    title: str,
    lines: Mapping[str, str] | None,
) -> cl.Program:
    flags = " ".join(options).encode()
    cached = disk_cache.default_cache() is not None
    printed, source = source, completed(device.cl, source, title)
    disk_key = _disk_key(device, source, flags) if cached else ""
    if cached:
        raw = _load(device, flags, disk_key)
        if raw is not None:
            counters.disk_hits += 1
            return cl.Program(raw)
    if trial.CALM not in flags and trial.is_suspect(device, source, (lines or {}).values()):
        flags = _survived(device, source, flags, disk_key, title)
        raw = _load(device, flags, disk_key) if cached else None
        if raw is not None:
            counters.builds += 1
            return cl.Program(raw)
    raw = _RawProgram(device.context, source)
    try:
        raw._build(options=flags, devices=[device.cl])
    except cl.Error as error:
        log = _log(device, raw, flags, error)
        ahead = source.count("\n") - printed.count("\n")
        said = explain(log, printed, title=title, device=device.name, snippets=lines, ahead=ahead)
        refused = BuildError(said)
        vars(refused).update(log=log, source=source)
        raise refused from None
    counters.builds += 1
    if cached:
        _store(device, raw, disk_key)
    return cl.Program(raw)


def _survived(device: Device, source: str, flags: bytes, disk_key: str, title: str) -> bytes:
    """Returns the options with which a child process has built a program without dying of it."""
    for options in (flags, b" ".join([flags, trial.CALM])):
        try:
            (outcome,) = trial.outcomes(device.cl, [(source, options, disk_key)])
        except OSError:
            return flags  # no child process can be had
        if outcome != trial.DIED:
            return options
    refused = BuildError(
        f"{title}: the OpenCL compiler of {device.name} ends the process that compiles it, with "
        "and without optimisations; it was tried in another one. Write its loops otherwise"
    )
    vars(refused).update(log="", source=source)
    raise refused


def _load(device: Device, flags: bytes, disk_key: str) -> cl._cl._Program | None:
    """Makes a program of a binary on disk; one that the driver refuses is removed."""
    binary = disk_cache.load(disk_key)
    if binary is None:
        return None
    try:
        raw = _RawProgram(device.context, [device.cl], [binary])
        raw._build(options=flags, devices=[device.cl])
    except cl.Error:  # say, the driver changed without changing its version
        disk_cache.remove(disk_key)
        return None
    return raw


def _store(device: Device, raw: cl._cl._Program, disk_key: str) -> None:
    # PoCL compiles the kernels for an unknown work-group size when it is asked for its binary,
    # which takes a third of the build's time once more; every later process saves more than that.
    try:
        binaries = cast("list[bytes]", raw.get_info(cl.program_info.BINARIES))
        devices = cast("list[cl.Device]", raw.get_info(cl.program_info.DEVICES))
        binary = binaries[devices.index(device.cl)]
    except (cl.Error, ValueError, IndexError):
        return  # a driver that gives no binaries
    if binary:
        disk_cache.store(disk_key, binary)


def _disk_key(device: Device, source: str, flags: bytes) -> str:
    digest = hashlib.sha256()
    for field in (*identity(device.cl), flags, source.encode()):
        digest.update(b"%d:" % len(field))  # lengths keep neighbouring fields apart
        digest.update(field)
    return digest.hexdigest()


def _log(device: Device, raw: cl._cl._Program, flags: bytes, error: cl.Error) -> str:
    """Returns what the compiler said, with the driver's own words where that is not enough."""
    try:
        log = str(raw.get_build_info(device.cl, cl.program_build_info.LOG) or "")
    except cl.Error:
        log = ""
    log = log.replace("\0", "").strip()
    if error.code == cl.status_code.BUILD_PROGRAM_FAILURE:
        return log
    return f"{error}\n(build options: {flags.decode()})\n{log}".strip()  # not the source's fault
