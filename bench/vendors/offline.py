"""Compilers for GPUs that are not here: whether a kernel builds, and what it takes.

None of them is needed for anything else: `available` says which are installed.

- Intel: ``ocloc``, of Debian 12's package intel-opencl-icd.
- AMD: clang for amdgcn with ROCm's device libraries (clang-16, rocm-device-libs of Debian 12).
- NVIDIA: clang for NVPTX with libclc (libclc-15, or 16), then ``ptxas`` and ``nvdisasm``
  (pip: nvidia-cuda-nvcc-cu12, nvidia-cuda-nvdisasm).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bench.vendors.machine_code import AMDGCN, CDNA, GEN, SASS, XE, Loop, loops

_CLANGS = ("clang-16", "clang-17", "clang-18", "clang-15", "clang")
_LIBRARIES = "opencl ocml ockl oclc_correctly_rounded_sqrt_on oclc_daz_opt_off".split()
_LIBRARIES += ["oclc_finite_only_off", "oclc_unsafe_math_off"]
_FLAGS = ["-x", "cl", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header", "-O3", "-nogpulib"]
_SECONDS = 300


@dataclass(frozen=True)
class Compiled:
    """What a compiler said of one kernel.

    Attributes:
        builds: Whether it builds.
        message: Why not.
        registers: Of a work-item (AMD, NVIDIA); None where a compiler does not say.
        spilled: Bytes or registers that were spilled to memory, however it counts them.
        local: Bytes of local memory.
        occupancy: Sub-groups that a unit has room for, where it says so.
        lanes: Work-items of a sub-group, where it chose that.
        loops: Of the kernel, small ones first; None without a disassembler.
    """

    builds: bool
    message: str = ""
    registers: int | None = None
    spilled: int = 0
    local: int | None = None
    occupancy: int | None = None
    lanes: int | None = None
    loops: tuple[Loop, ...] | None = None


@lru_cache(maxsize=64)
def tool(name: str) -> str | None:
    """Returns the path of a compiler: on the ``PATH``, or installed by pip."""
    if name == "clang":
        return next(filter(None, map(shutil.which, _CLANGS)), None)
    spec = importlib.util.find_spec("nvidia") if name in ("ptxas", "nvdisasm") else None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob(f"*/bin/{name}")):
            if os.access(path, os.X_OK):
                return str(path)
    return shutil.which(name)


def tool_versions() -> str:
    """Returns which compilers are installed."""
    found = []
    for name in ("clang", "ptxas", "nvdisasm", "ocloc"):
        path = tool(name)
        if path:
            said = _run(path, "--version" if name != "ocloc" else "query").stdout
            number = re.search(r"(?:version |V)(\d+[\d.]*)", said)
            found.append(f"{name} {number[1]}" if number else name)
    return ", ".join(found) or "none"


@lru_cache(maxsize=64)
def _library(name: str) -> str | None:
    """Returns the folder of device libraries, ``amdgcn/bitcode`` or ``clc``."""
    places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib", "/opt/rocm", "/usr/local/lib"]
    return next((f"{p}/{name}" for p in places if Path(p, name).is_dir()), None)


@lru_cache(maxsize=4)
def _options(path: str) -> str:
    """Returns what a compiler says of its options."""
    return _run(path, "--help").stdout


def available(target: str) -> str:
    """Returns what is missing to compile for a target; nothing where all is there.

    Args:
        target: ``skl``, ``gfx1030``, ``sm_90``, …, or ``spir64`` for the language alone.
    """
    if target.startswith("gfx"):
        wanted = {"clang": tool("clang"), "rocm-device-libs": _library("amdgcn/bitcode")}
    elif target.startswith("sm_"):
        wanted = {name: tool(name) for name in ("clang", "ptxas")} | {"libclc": _library("clc")}
        if wanted["ptxas"]:  # each release knows other GPUs
            wanted[f"ptxas for {target}"] = f"'{target}'" in _options(wanted["ptxas"])
    elif target == "spir64":
        wanted = {"clang": tool("clang")}
    else:
        wanted = {"ocloc": tool("ocloc")}
    return ", ".join(name for name, path in wanted.items() if not path)


def compile_for(target: str, source: str, kernel: str, *, doubles: bool = False) -> Compiled:
    """Compiles a kernel for a GPU that need not be here.

    Args:
        target: As in `available`.
        source: OpenCL C.
        kernel: Its name.
        doubles: Whether it uses double; constants are single otherwise, as in clprim's builds.
    """
    options = [] if doubles else ["-cl-single-precision-constant"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "kernel.cl"
        file.write_text(source, encoding="utf-8")
        if target.startswith("gfx"):
            return _amd(target, file, options)
        if target.startswith("sm_"):
            return _nvidia(target, file, options)
        if target == "spir64":
            return _language(file, options)
        return _intel(target, file, kernel, options)


def _run(*command: str | None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env={**os.environ, **environment},
        check=False,
    )


def _failed(result: subprocess.CompletedProcess[str]) -> Compiled:
    return Compiled(builds=False, message=(result.stderr + result.stdout).strip()[-2000:])


def _bitcode(*files: str) -> list[str]:
    return [word for f in files for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", f)]


def _language(file: Path, options: list[str]) -> Compiled:
    result = _run(tool("clang"), *_FLAGS, *options, "-target", "spir64", "-fsyntax-only", str(file))
    return Compiled(builds=True) if not result.returncode else _failed(result)


def _amd(target: str, file: Path, options: list[str]) -> Compiled:
    folder = _library("amdgcn/bitcode")
    wide = "off" if target.startswith("gfx1") else "on"
    names = [*_LIBRARIES, f"oclc_isa_version_{target[3:]}", f"oclc_wavefrontsize64_{wide}"]
    out = file.with_suffix(".s")
    result = _run(
        tool("clang"),
        *_FLAGS,
        *options,
        *_bitcode(*(f"{folder}/{name}.bc" for name in names)),
        *("-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-S", "-o", str(out), str(file)),
    )
    if result.returncode:
        return _failed(result)
    text = out.read_text(encoding="utf-8")

    def comment(name: str) -> int:
        return max(int(n) for n in re.findall(rf"; {name}: (\d+)", text))

    return Compiled(
        builds=True,
        registers=comment("NumVgprs"),
        spilled=comment("ScratchSize"),
        local=comment("LDSByteSize"),
        occupancy=comment("Occupancy"),
        loops=tuple(loops(text, CDNA if target == "gfx90a" else AMDGCN)),
    )


def _nvidia(target: str, file: Path, options: list[str]) -> Compiled:
    library = f"{_library('clc')}/nvptx64--nvidiacl.bc"
    ptx, cubin = file.with_suffix(".ptx"), file.with_suffix(".cubin")
    flags = ["-Xclang", "-target-cpu", "-Xclang", target]
    flags += ["-Xclang", "-target-feature", "-Xclang", "+ptx75"]
    result = _run(
        tool("clang"),
        *_FLAGS,
        *options,
        *_bitcode(library),
        *("-target", "nvptx64-nvidia-cuda", *flags, "-S", "-o", str(ptx), str(file)),
    )
    if result.returncode:
        return _failed(result)
    result = _run(tool("ptxas"), "-v", f"-arch={target}", "-o", str(cubin), str(ptx))
    if result.returncode:
        return _failed(result)

    def said(pattern: str) -> int:
        return max((int(n) for n in re.findall(pattern, result.stderr)), default=0)

    found = None
    if tool("nvdisasm"):
        listing = _run(tool("nvdisasm"), "-c", str(cubin))
        found = None if listing.returncode else tuple(loops(listing.stdout, SASS))
    return Compiled(
        builds=True,
        registers=said(r"Used (\d+) registers"),
        spilled=said(r"(\d+) bytes spill stores") + said(r"(\d+) bytes spill loads"),
        local=said(r"(\d+) bytes smem"),
        loops=found,
    )


def _intel(target: str, file: Path, kernel: str, options: list[str]) -> Compiled:
    folder = file.parent
    result = _run(
        *(tool("ocloc"), "compile", "-file", str(file), "-device", target),
        *("-out_dir", str(folder), "-options", " ".join(["-cl-std=CL1.2", *options])),
        IGC_ShaderDumpEnable="1",
        IGC_DumpToCustomDir=str(folder),
    )
    if result.returncode:
        return _failed(result)
    listings = sorted(folder.glob("*_simd*.asm"))
    lanes = {int(n) for f in listings for n in re.findall(r"simd(\d+)", f.name)}
    text = listings[-1].read_text(encoding="utf-8") if listings else ""
    return Compiled(
        builds=True,
        spilled=max(map(int, re.findall(r"^//\.spill size (\d+)", text, re.MULTILINE)), default=0),
        lanes=max(lanes, default=None),
        loops=tuple(loops(text, XE if target == "dg2" else GEN)) if text else None,
    )
