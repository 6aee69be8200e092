"""Asks an OpenCL device what it is: its names, its traits, and its place among other devices."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyopencl as cl

from clprim.runtime import host
from clprim.traits import DeviceTraits

T = TypeVar("T")

_NONE: list[int] = []
_NO_DEVICES: list[cl.Device] = []

_TYPES = {
    # In this order: an emulator that claims every type runs its work-groups as a CPU does.
    cl.device_type.CPU: "cpu",
    cl.device_type.GPU: "gpu",
    cl.device_type.ACCELERATOR: "accelerator",
}
_TYPE_RANKS = {"gpu": 0, "accelerator": 1, "cpu": 2}
_SUB_GROUP_EXTENSIONS = frozenset({"cl_khr_subgroups", "cl_intel_subgroups"})

#: Sizes of sub-groups that kernels ask for.
SUB_GROUPS = (8, 16, 32)
_MIB = 1 << 20
# Processors of 32 vector registers, whatever their width.
_OF_32 = ("aarch64", "arm64", "riscv64")
# How variables begin by which runtimes are told what to offer and for which processor to compile.
_SETTINGS = ("CL_CONFIG_", "GALLIVM_", "IGC_", "LP_", "NEO", "POCL_", "RUSTICL_")
# Bytes of the registers that a runtime for CPUs is told to use, whatever it reports.
_TARGETS = {"corei7": 16, "corei7-avx": 32, "core-avx2": 32}
# OpenCL errors, and what a driver's odd answer may do to the arithmetic on it.
_FAILURES = (cl.Error, AttributeError, TypeError, ValueError)


def device_type(device: cl.Device) -> str:
    """Return ``cpu``, ``gpu``, ``accelerator`` or ``other``."""
    bits = _ask(lambda: device.type, 0)
    return next((name for bit, name in _TYPES.items() if bits & bit), "other")


def query_traits(device: cl.Device) -> DeviceTraits:
    """Query what kernels may rely on; a query that fails leaves its field at the default."""
    is_cpu = device_type(device) == "cpu"
    vector_bytes = _ask(lambda: _vector_bytes(device, is_cpu), DeviceTraits.vector_bytes)
    queries: dict[str, Callable[[], Any]] = {
        "compute_units": lambda: max(1, device.max_compute_units),
        "max_work_group_size": lambda: device.max_work_group_size,
        "local_memory": lambda: device.local_mem_size,
        "sub_group_size": lambda: _sub_group_size(device, is_cpu, vector_bytes),
        "sub_groups": lambda: _shuffled_sizes(device),
        "block_reads": lambda: "cl_intel_subgroups" in _extensions(device),
        "short_block_reads": lambda: (
            {"cl_intel_subgroups", "cl_intel_subgroups_short"} <= _extensions(device)
        ),
        "register_bytes": lambda: _register_bytes(device, is_cpu),
        "fp16": lambda: "cl_khr_fp16" in _extensions(device),
        "fp64": lambda: "cl_khr_fp64" in _extensions(device) or device.double_fp_config != 0,
        "integer_dots": lambda: (
            "cl_khr_integer_dot_product" in _extensions(device) and _c_version(device) >= (3, 0)
        ),
        "c_version": lambda: _c_version(device),
        "registers": lambda: registers(vector_bytes) if is_cpu else 0,
        "cores": lambda: host.cores() if is_cpu else 0,
        "l1_bytes": lambda: host.cache(1) if is_cpu else _unit_cache(device),
        "l2_bytes": lambda: host.cache(2) if is_cpu else None,
        "cache_bytes": lambda: _cache_bytes(device, is_cpu),
        "max_allocation": lambda: device.max_mem_alloc_size,
    }
    found = {name: _ask(query, None) for name, query in queries.items()}
    return dataclasses.replace(
        DeviceTraits(is_cpu=is_cpu, vector_bytes=vector_bytes),
        **{name: value for name, value in found.items() if value is not None},
    )


def may_share_lanes(device: cl.Device) -> bool:
    """Tell whether a device that calls itself a CPU might not be one to kernels.

    Its vectors of floats have one element each: it has no vector instructions, or its compiler
    lets work-items share them, as those of GPUs do.
    """
    return device_type(device) == "cpu" and _ask(lambda: device.native_vector_width_float, 4) <= 1


def identity(device: cl.Device) -> tuple[bytes, ...]:
    """Name everything but the source that the compiler's output may depend on."""
    settings = sorted(
        f"{name}={os.environ.get(name)}"
        for name in os.environ
        if name.startswith(_SETTINGS) and name != "POCL_CACHE_DIR"  # which changes no output
    )
    names = (
        device.name,
        device.version,
        device.driver_version,
        device.platform.name,
        device.platform.version,
        " ".join(sorted(_extensions(device))),
        *settings,
        # A runtime for the CPU compiles for the very processor, and virtual machines call all of
        # theirs by one name: a home folder shared between them must not share these binaries.
        _processor() if device.type & cl.device_type.CPU else "",
    )
    return tuple(name.encode() for name in names)


def whereabouts(device: cl.Device) -> list[str | int]:
    """Return what another process needs to `find` a device: names, and which of equals it is."""
    names = _names(device)
    equal = [other for other in _all_devices() if _names(other) == names]
    return [*names, equal.index(device)]


def find(where: list[str | int]) -> cl.Device:
    """Return the device that another process described by `whereabouts`."""
    *names, number = where
    return [device for device in _all_devices() if list(_names(device)) == names][int(number)]


def _names(device: cl.Device) -> tuple[str, ...]:
    driver = device.platform
    return driver.name, driver.version, device.name, device.driver_version


def _all_devices() -> list[cl.Device]:
    found: list[cl.Device] = []
    for driver in cl.get_platforms():
        found += _ask(driver.get_devices, _NO_DEVICES)
    return found


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    """Return the instruction sets of this machine's processor, as the system lists them."""
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open() as listing:
        for line in listing:
            if line.startswith(("flags", "Features")):
                return line
    return f"{platform.machine()} {platform.processor()}"


def text(owner: cl.Device | cl.Platform, attribute: str) -> str:
    """Return a queried string on one line; a driver that does not answer has an empty one."""
    try:
        return " ".join(str(getattr(owner, attribute)).replace("\0", " ").split())
    except cl.Error:
        return ""


def devices_of(platform: cl.Platform) -> list[cl.Device]:
    """Return the devices of a platform; it may have none."""
    try:
        return platform.get_devices()
    except cl.Error:  # a platform without devices may say so by an error
        return []


def match(device: cl.Device, spec: str) -> int | None:
    """Return how well the words of ``spec`` describe ``device``: 0 is best, None not at all.

    A platform's name counts before a device's: CPU runtimes of every origin name the processor,
    and with it its vendor, as their device.
    """
    words, name = re.split(r"[\s_-]+", spec.lower()), text(device, "name")
    words = [word for word in words if word]
    if not words:
        return None
    if spec.strip().lower() == name.lower():
        return 0
    # Every driver's version starts with the OpenCL version, which "pocl 3.0" does not mean.
    version = re.sub(r"^OpenCL \d+\.\d+", "", text(device.platform, "version"))
    driver = f"{text(device.platform, 'name')} {version} {text(device, 'driver_version')}".lower()
    hardware = f"{name} {text(device, 'vendor')}".lower()
    worst = 0
    for word in words:
        if word in {"cpu", "gpu", "accelerator"}:
            quality = 1 if word == device_type(device) else None
        elif word in driver:
            quality = 1
        else:
            quality = 2 if word in hardware else None
        if quality is None:
            return None
        worst = max(worst, quality)
    return worst


def rank(device: cl.Device) -> tuple[Any, ...]:
    """Return a key that sorts devices, best first, the same way on every run.

    GPUs come before accelerators and CPUs. Among GPUs, memory of their own and units × clock
    decide. CPU runtimes drive the same cores (and some report no clock), so there the abilities of
    the compiler decide: vectors, sub-groups, the versions of OpenCL, of OpenCL C and of the driver.
    """
    kind = device_type(device)
    extensions = _ask(lambda: _extensions(device), frozenset[str]())
    speed = _ask(lambda: device.max_compute_units * device.max_clock_frequency, 0)
    shared_memory = _ask(lambda: bool(device.host_unified_memory), False)
    return (
        _TYPE_RANKS.get(kind, 3),
        (may_share_lanes(device), 0) if kind == "cpu" else (shared_memory, -speed),
        not _has_sub_groups(device, extensions),
        _descending(_ask(lambda: _opencl_version(device), (0, 0))),
        _descending(_ask(lambda: _c_version(device), (0, 0))),
        _descending(_ask(lambda: _numbers(device.driver_version), ())),
        _ask(lambda: device.platform.name, ""),
        _ask(lambda: device.name, ""),
    )


def _ask(query: Callable[[], T], default: T) -> T:
    """Return what ``query`` answers, or ``default`` where the driver does not know."""
    try:
        return query()
    except _FAILURES:
        return default


def _extensions(device: cl.Device) -> frozenset[str]:
    return frozenset(device.extensions.split())


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers at the head of a version: (3, 0) of ``3.0-rc2`` and (3, 1) of ``3.1+x``.

    The suffix of a pre-release or of a distribution says nothing that compares across drivers.
    """
    head = re.match(r"\D*(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in head[1].split(".")) if head else ()


def _descending(version: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-part for part in version)


def _opencl_version(device: cl.Device) -> tuple[int, int]:
    """Return the version of OpenCL; the standard fixes its text as ``OpenCL X.Y ...``."""
    major, minor = _numbers(device.version)[:2]
    return major, minor


def _c_version(device: cl.Device) -> tuple[int, int]:
    """Return the newest OpenCL C that the device's compiler takes.

    From OpenCL 3.0 on it stands in a list of its own: ``OPENCL_C_VERSION`` is then the newest
    version that is *compatible* with older ones, 1.2 at some drivers that compile 3.0 as well.
    """
    if _opencl_version(device) >= (3, 0):
        versions = _ask(lambda: [entry.version for entry in device.opencl_c_all_versions], _NONE)
        if versions:
            return max(versions) >> 22, max(versions) >> 12 & 0x3FF  # 10, 10 and 12 bits
    major, minor = _numbers(device.opencl_c_version)[:2]  # "OpenCL C X.Y ..."
    return major, minor


def _vector_bytes(device: cl.Device, is_cpu: bool) -> int:
    """Return the bytes of the widest register of a CPU, or of the widest load on a GPU.

    A CPU runtime may count elements per type (64 chars, 16 floats) or give up on the small types
    (16 chars, 16 floats): the widest of them is the register.
    """
    if not is_cpu:
        return 16
    widest = max(16, device.native_vector_width_char, 4 * device.native_vector_width_float)
    told = os.environ.get("CL_CONFIG_CPU_TARGET_ARCH", "")
    platform = _ask(lambda: str(device.platform.name), "")
    return min(widest, _TARGETS.get(told, widest)) if "Intel" in platform else widest


def _cache_bytes(device: cl.Device, is_cpu: bool) -> int:
    """Return a size beyond which data is taken to come from memory.

    What CPU runtimes answer is hardly comparable: on one machine one reports the second level of
    one core (2 MiB), another the last level of the whole socket (260 MiB), of which a virtual
    machine owns a slice. Outside what a last level usually offers a process, 32 MiB it is.
    """
    reported: int = device.global_mem_cache_size
    if is_cpu:
        return reported if 32 * _MIB <= reported <= 64 * _MIB else 32 * _MIB
    return max(_MIB, reported)


def registers(vector_bytes: int) -> int:
    """Return the vector registers of this machine's processor."""
    return 32 if platform.machine().lower() in _OF_32 or vector_bytes >= 64 else 16


def _unit_cache(device: cl.Device) -> int | None:
    """Return the bytes of a unit's cache, where the driver reports the sum of these; else None."""
    units, reported = device.max_compute_units, device.global_mem_cache_size
    each: int = reported // units
    return each if reported % units == 0 and 8 << 10 <= each <= 512 << 10 else None


def _has_sub_groups(device: cl.Device, extensions: frozenset[str]) -> bool:
    """Tell whether kernels may use sub-group functions."""
    named = bool(extensions & _SUB_GROUP_EXTENSIONS)
    return named or _ask(lambda: device.max_num_sub_groups > 0, False)


def _sub_group_size(device: cl.Device, is_cpu: bool, vector_bytes: int) -> int:
    """Return the lanes of a sub-group: 1 without sub-groups, or where a CPU tells no size."""
    extensions = _extensions(device)
    if not _has_sub_groups(device, extensions):
        return 1
    if "cl_intel_required_subgroup_size" in extensions:
        sizes = _ask(lambda: _sub_group_sizes(device), _NONE)
        if is_cpu:
            # Larger sub-groups exist there, but spread over several registers of floats.
            sizes = [size for size in sizes if 4 * size <= vector_bytes]
        if sizes:
            return max(sizes)
    if is_cpu:
        return 1
    if "cl_nv_device_attribute_query" in extensions:
        return _ask(lambda: int(device.warp_size_nv), 32)
    if "cl_amd_device_attribute_query" in extensions:
        return _ask(lambda: int(device.wavefront_width_amd), 32)
    return 32  # what most GPUs run


def _shuffled_sizes(device: cl.Device) -> tuple[int, ...]:
    """Return the sizes of sub-groups that can be asked for, where lanes hand values over."""
    extensions = _extensions(device)
    shuffles = extensions & {"cl_intel_subgroups", "cl_khr_subgroup_shuffle"}
    if not shuffles or "cl_intel_required_subgroup_size" not in extensions:
        return ()
    sizes = sorted(_sub_group_sizes(device))
    return tuple(size for size in sizes if size in SUB_GROUPS)


def _register_bytes(device: cl.Device, is_cpu: bool) -> int:
    """Return the registers of a work-item in bytes; no query tells, but one betrays it.

    GPUs mostly give a work-item some 255 registers of 4 bytes. Where the size of sub-groups is the
    compiler's choice, all lanes of one share 128 registers, and have half of that at most. Those of
    small work-groups are taken for ones that have few registers as well.
    """
    shared = "cl_intel_required_subgroup_size" in _extensions(device)
    few = not is_cpu and (shared or device.max_work_group_size <= 64)
    return 512 if few else DeviceTraits.register_bytes


def _sub_group_sizes(device: cl.Device) -> list[int]:
    """Return the sizes that the compiler can be asked for (``CL_DEVICE_SUB_GROUP_SIZES_INTEL``).

    pyopencl knows no such query, so the loader that it is linked to is called directly.
    """
    loader = ctypes.CDLL(cl._cl.__file__)
    try:
        query = loader.clGetDeviceInfo
    except AttributeError:  # a loader that is not reached through the extension module
        return []
    query.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_size_t),
    ]
    sizes = (ctypes.c_size_t * 64)()
    used = ctypes.c_size_t()
    room = ctypes.sizeof(sizes)
    if query(device.int_ptr, 0x4108, room, sizes, ctypes.byref(used)) != 0:
        return []
    return list(sizes[: used.value // ctypes.sizeof(ctypes.c_size_t)])
