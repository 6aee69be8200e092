"""Compilers for GPUs that are not here: whether all families' kernels build, and what spills.

None of them is needed for anything else: `available` says which are installed.

- Intel: ``ocloc``, of Debian 12's package intel-opencl-icd.
- AMD: clang for amdgcn with ROCm's device libraries (clang-16, rocm-device-libs of Debian 12).
- NVIDIA: clang for NVPTX with libclc (libclc-15, or 16), then ``ptxas`` (pip:
  nvidia-cuda-nvcc-cu12); ``nvdisasm`` (pip: nvidia-cuda-nvdisasm) for listings.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from bench.case import Options, of_tests
from clprim.language.grouped_definition import define_grouped
from clprim.plan.conv.dense import dense_convolution, dense_depthwise
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.lowering import contractions, forward
from clprim.plan.conv.winograd.local_tile import local_tiles
from clprim.plan.conv.winograd.strategy import WINOGRAD_LOCAL
from clprim.plan.fused.attention_gradient import HeadGradients
from clprim.plan.fused.attention_matrix import plan_attention_matrix
from clprim.plan.fused.attention_matrix_gradient import plan_attention_matrix_gradient
from clprim.plan.fused.heads import Heads
from clprim.plan.grouped.family import GROUPS
from clprim.plan.grouped.problem import Groups
from clprim.plan.kernel import KernelPlan
from clprim.plan.launch.body import body_of, group_of
from clprim.plan.launch.walker import UNIT_GROUPS, walker_code, walker_plan
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import PRODUCTS
from clprim.plan.product.matrix import matrix_applicable
from clprim.plan.product.problem import Contraction
from clprim.plan.strides import dense_array
from clprim.plan.units import mfma, mma_sync, subgroup_matrix, wmma
from clprim.plan.units.unit import MatrixUnit
from clprim.render import render
from clprim.traits import DeviceTraits

_CLANGS = ("clang-16", "clang-17", "clang-18", "clang-15", "clang")
_LIBRARIES = "opencl ocml ockl oclc_correctly_rounded_sqrt_on oclc_daz_opt_off".split()
_LIBRARIES += ["oclc_finite_only_off", "oclc_unsafe_math_off"]
_FLAGS = ["-x", "cl", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header", "-O3", "-nogpulib"]
_SECONDS = 300

# --- GPUs: what their drivers report -------------------------------------------------------------


def _names(units: Iterable[MatrixUnit], items: int = 0) -> tuple[str, ...]:
    return tuple(unit.name for unit in units if items in (0, unit.items))


def _intel(
    units: int, *, group: int = 256, fp64: bool = True, matrix: tuple[str, ...] = ()
) -> DeviceTraits:
    return DeviceTraits(
        compute_units=units, max_work_group_size=group, local_memory=65536, sub_group_size=32,
        sub_groups=(8, 16, 32), block_reads=True, short_block_reads=True, register_bytes=512,
        fp16=True, fp64=fp64, c_version=(3, 0), matrix_units=matrix,
    )  # fmt: skip


def _amd(units: int, wave: int, matrix: tuple[str, ...] = ()) -> DeviceTraits:
    return DeviceTraits(
        compute_units=units, max_work_group_size=256, local_memory=65536, sub_group_size=wave,
        fp16=True, c_version=(2, 0), matrix_units=matrix,
    )  # fmt: skip


def _nvidia(units: int, matrix: tuple[str, ...] = ()) -> DeviceTraits:
    return DeviceTraits(
        compute_units=units, max_work_group_size=1024, local_memory=49152, sub_group_size=32,
        matrix_units=matrix, matrix_parts=True,
    )  # fmt: skip


_MMA = _names(mma_sync.UNITS)
_MATRIX = (*subgroup_matrix.UNITS, *subgroup_matrix.LARGE)


#: By what compilers call them; ``spir64`` is the language alone: OpenCL 1.2, a modest device.
GPUS = {
    "skl": _intel(24),
    "dg2": _intel(512, group=1024, fp64=False, matrix=_names(_MATRIX, 8)),
    "gfx803": _amd(36, 64),
    "gfx900": _amd(64, 64),
    "gfx90a": _amd(110, 64, _names(mfma.UNITS)),
    "gfx1030": _amd(40, 32),
    "gfx1100": _amd(48, 32, _names(wmma.EARLIER)),
    "sm_61": _nvidia(20),
    "sm_75": _nvidia(68, _names(mma_sync.OLDER)),
    "sm_80": _nvidia(108, _MMA),
    "sm_86": _nvidia(82, _MMA),
    "sm_89": _nvidia(128, _MMA),
    "sm_90": _nvidia(132, _MMA),
    "sm_120": _nvidia(170, _MMA),
    "spir64": DeviceTraits(compute_units=4, max_work_group_size=64, local_memory=32768, fp64=False),
}

# --- kernels -------------------------------------------------------------------------------------


_Stages = Iterator[tuple[str, Sequence[KernelPlan]]]


def kernels(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """Yield kernels of every family as a GPU of these traits gets them, each code once.

    At last some of them are one launch.
    """
    seen, names = set(), Counter[str]()
    first: dict[str, KernelPlan] = {}
    every = (
        *_contractions(traits),
        *_by_units(traits),
        *_attention(traits),
        *_convolutions(traits),
        *_memory(traits),
    )
    for name, stages in every:
        for plan in stages:
            if (plan.template, plan.code) not in seen:
                seen.add((plan.template, plan.code))
                first.setdefault(plan.template, plan)
                names[name] += 1
                yield f"{name}, {names[name]}" if names[name] > 1 else name, plan
    yield "kernels in one launch", _walker(first.values(), traits)


def _walker(plans: Iterable[KernelPlan], traits: DeviceTraits) -> KernelPlan:
    """Some kernels in one launch: those whose groups are as large as the first one's, or may be."""
    # What takes all local memory leaves a launch none; `one_launch` asks the driver.
    room = [plan for plan in plans if getattr(plan.code, "memory", 0) < traits.local_memory]
    texts = [(plan, render(plan.template, plan.code)) for plan in room]
    items = next(filter(None, (group_of(*pair) for pair in texts)))
    bodies = [body_of(*pair, items) for pair in texts if not pair[0].code.doubles]
    code = walker_code([b for b in bodies if b is not None], 16, items, traits, doubles=False)
    return walker_plan(code, (), UNIT_GROUPS * traits.compute_units)


def _contractions(traits: DeviceTraits) -> _Stages:
    def conv(*shape: int, **options: Any) -> Any:
        return forward(dense_convolution(*shape, **options))

    problems = {f"matmul {f} 2048³": dense_product(2048, 2048, 2048, f) for f in ("NN", "NT", "TN")}
    problems |= {
        "matmul half 2048³": dense_product(2048, 2048, 2048, dtype=np.float16),
        "matmul double 1024³": dense_product(1024, 1024, 1024, dtype=np.float64),
        "matmul 64² × 8192, split": dense_product(64, 64, 8192),
        "conv 3×3 128→128 56² NHWC": conv(64, 128, 56, 128, last=True),
        "conv 3×3 128→128 56² NCHW": conv(64, 128, 56, 128),
        "conv 3×3 + x0, ReLU NHWC": conv(
            64, 128, 56, 128, last=True, epilogue="y0 = max(y0 + x0, 0);"
        ),
        "conv 7×7 3→64 112² NCHW": conv(64, 3, 112, 64, 7),
        "conv 1×1 256→64 56² NCHW": conv(64, 256, 56, 64, 1),
        "conv 1×1 256→64 56² NHWC": conv(64, 256, 56, 64, 1, last=True),
    }
    for name, problem in problems.items():
        if traits.fp64 or "double" not in name:
            yield name, PRODUCTS.plan(problem, traits).stages


def _by_units(traits: DeviceTraits) -> _Stages:
    """What matrix units compute, where the device has them: products of each dtype, layers."""
    half, bfloat16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
    for dtype, forms in ((half, ("NN", "NT", "TN")), (bfloat16, ("NN",)), (np.int8, ("NT", "NN"))):
        for form in forms:
            problem = dense_product(2048, 2048, 2048, form, dtype=dtype)
            if matrix_applicable(problem, traits):
                yield f"units {form} {np.dtype(dtype)} 2048³", _of_units(problem, traits)
    split = dense_product(64, 64, 8192, "TT", dtype=half)
    if matrix_applicable(split, traits):
        yield "units float16 64² × 8192", _of_units(split, traits)
    for word in ("highest", "high", "medium"):
        for form in ("NN", "NT"):
            problem = dense_product(2048, 2048, 2048, form, precision=word)
            if matrix_applicable(problem, traits):
                yield f"units {form} float32, {word}", _of_units(problem, traits)
    for name, (shape, options) in LAYERS.items():
        layer = dense_convolution(*shape, **{"last": True, "dtype": half, **options})
        problem = contractions(layer)[0]
        if matrix_applicable(problem, traits):
            yield f"units conv {name}", _of_units(problem, traits)


#: ResNet-50's layers of windows, 32 images: of the first both formats and all directions.
LAYERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "3×3 128→128 28²": ((32, 128, 28, 128), {}),
    "3×3 128→128 28² NCHW": ((32, 128, 28, 128), {"last": False}),
    "3×3 128→128 28² input": ((32, 128, 28, 128), {"direction": "input"}),
    "3×3 128→128 28² weight": ((32, 128, 28, 128), {"direction": "weight"}),
    "3×3 64→64 56²": ((32, 64, 56, 64), {}),
    "3×3 512→512 7²": ((32, 512, 7, 512), {}),
    "3×3 128→128 56² / 2": ((32, 128, 56, 128), {"stride": 2}),
    "1×1 256→512 56² / 2": ((32, 256, 56, 512, 1), {"stride": 2}),
    "7×7 3→64 224² / 2": ((32, 3, 224, 64, 7), {"stride": 2}),
}


def _attention(traits: DeviceTraits) -> _Stages:
    """Attention by matrix units, where the device has them."""
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        for size, causal in ((64, True), (128, False)):
            x, sums = dense_array((2, 16, 2048, size), dtype=dtype), dense_array((2, 16, 2048, 1))
            arrays = {"q": x, "k": x, "v": x, "y": x, "sums": sums}
            plan = plan_attention_matrix(Heads(arrays, causal), traits)
            if plan is not None:
                yield f"attention {dtype} 2048 × {size}", plan.stages
            arrays |= dict.fromkeys(("grad", "dq", "dk", "dv"), x) | {"delta": sums}
            plan = plan_attention_matrix_gradient(HeadGradients(arrays, causal), traits)
            if plan is not None:
                yield f"gradients of attention {dtype} 2048 × {size}", plan.stages


def _of_units(problem: Contraction, traits: DeviceTraits) -> Sequence[KernelPlan]:
    """The kernels of a product by matrix units."""
    return PRODUCTS.plan(problem, traits, "matrix").stages


def _convolutions(traits: DeviceTraits) -> _Stages:
    """By Winograd's algorithm with the best tile of each size by the rule, and depthwise ones."""
    for last, known in ((True, "NHWC"), (False, "NCHW")):
        problem = replace(forward(dense_convolution(64, 128, 56, 128, last=last)), error=5e-6)
        tiles = {tile.outputs: tile for tile in reversed([*local_tiles(problem, traits)])}
        for outputs, tile in tiles.items():
            name = f"conv 3×3 128→128 56² {known}, F({outputs}×{outputs})"
            yield name, WINOGRAD_LOCAL.planned(problem, traits, tile).stages
        for direction, stride in (("forward", 1), ("forward", 2), ("input", 2), ("weight", 2)):
            layer = dense_depthwise(32, 96, 56, last=last, stride=stride, direction=direction)
            yield (
                f"depthwise {direction} / {stride} {known}",
                CONVOLUTIONS.plan(layer, traits).stages,
            )


_SOFTMAX = {
    "expr": "y0 = x0; y1 = 1;",
    "init": "reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
    "step": "typeof_reduce_y0 most = max(reduce_y0, y0); "
    "reduce_y1 = reduce_y1 * exp(reduce_y0 - most) + exp(y0 - most); reduce_y0 = most;",
    "combine": "typeof_reduce_y0 most = max(reduce_y0, other_y0); "
    "reduce_y1 = reduce_y1 * exp(reduce_y0 - most) + other_y1 * exp(other_y0 - most); "
    "reduce_y0 = most;",
    "finalize": "group_y0 = reduce_y0; group_y1 = 1 / reduce_y1;",
    "each": "y0 = exp(x0 - group_y0) * group_y1;",
}


def _memory(traits: DeviceTraits) -> _Stages:
    """Elementwise kernels, reductions, and a softmax of rows: passes that reduce, one that maps."""
    planning = of_tests("planning")
    array, last = planning.array, (0, 2, 3, 1)
    image, turned = array((32, 64, 56, 56)), array((32, 64, 56, 56), order=last)
    for name, text, given in (
        ("x0 + x1", "y0 = x0 + x1;", (image, image)),
        ("x0 · channel NCHW", "y0 = x0 * x1;", (image, array((64, 1, 1)))),
        ("x0 · channel NHWC", "y0 = x0 * x1;", (turned, array((64, 1, 1)))),
        ("NHWC to NCHW", "y0 = x0;", (turned,)),
    ):
        yield name, [planning.map_plan(text, *given, traits=traits)]
    for name, given, axes in (
        ("sum of all", image, (0, 1, 2, 3)), ("sums of channels NCHW", image, (0, 2, 3)),
        ("sums of channels NHWC", turned, (0, 2, 3)), ("sums of rows", image, (3,)),
    ):  # fmt: skip
        yield name, planning.reduce_plan([given], axes, traits).stages
    x = array((4096, 1000))
    definition = define_grouped(**_SOFTMAX, name=None, preamble="")
    problem = Groups(definition, x.shape, (1,), x.dtype, (x,), (), (x,), (None, None))
    for stage in GROUPS.plan(problem, traits).stages:
        yield f"softmax of rows, {stage.code.name}", [stage]


# --- compilers -----------------------------------------------------------------------------------


class Compiled(NamedTuple):
    """What a compiler said of a kernel: whether it builds or why not, what it spills and takes."""

    builds: bool
    message: str = ""
    spilled: int = 0
    local: int | None = None
    registers: int = 0
    listing: str = ""  # Where who disassembles is installed


@lru_cache(maxsize=64)
def tool(name: str) -> str | None:
    if name == "clang":
        return next(filter(None, map(shutil.which, _CLANGS)), None)
    spec = importlib.util.find_spec("nvidia") if name in ("ptxas", "nvdisasm") else None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob(f"*/bin/{name}")):
            if os.access(path, os.X_OK):
                return str(path)
    return shutil.which(name)


@lru_cache(maxsize=64)
def _library(name: str) -> str | None:
    """Return the folder of device libraries, ``amdgcn/bitcode`` or ``clc``."""
    places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib", "/opt/rocm", "/usr/local/lib"]
    return next((f"{p}/{name}" for p in places if Path(p, name).is_dir()), None)


@lru_cache(maxsize=4)
def _options(path: str) -> str:
    return _run(path, "--help").stdout


def available(target: str) -> str:
    """Return what is missing to compile for a key of `GPUS`; nothing where all is there."""
    wanted: dict[str, Any] = {"clang": tool("clang")}
    if target.startswith("gfx"):
        wanted["rocm-device-libs"] = _library("amdgcn/bitcode")
    elif target.startswith("sm_"):
        wanted |= {"ptxas": tool("ptxas"), "libclc": _library("clc")}
        if wanted["ptxas"]:  # each release knows other GPUs
            wanted[f"ptxas for {target}"] = f"'{target}'" in _options(wanted["ptxas"])
    elif target != "spir64":
        wanted = {"ocloc": tool("ocloc")}
    return ", ".join(name for name, path in wanted.items() if not path)


def lacks_listings(target: str) -> str:
    """Return what is missing to disassemble what was compiled for a key of `GPUS`."""
    return "nvdisasm" if target.startswith("sm_") and not tool("nvdisasm") else ""


def compile_for(
    target: str, source: str, told: Sequence[str] = (), *, doubles: bool = False
) -> Compiled:
    """Compile OpenCL C for a GPU that need not be here.

    Args:
        target: A key of `GPUS`.
        source: Of a kernel.
        told: Options that it alone is built with.
        doubles: Whether it uses double; constants are single otherwise, as in clprim's builds.
    """
    options = [*told, *([] if doubles else ["-cl-single-precision-constant"])]
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "kernel.cl"
        file.write_text(source, encoding="utf-8")
        if target.startswith("gfx"):
            return _amd(target, file, options)
        if target.startswith("sm_"):
            return _nvidia(target, file, options)
        if target == "spir64":
            flags = [*_FLAGS, *options, "-target", "spir64", "-fsyntax-only"]
            result = _run(tool("clang"), *flags, str(file))
            return _failed(result) if result.returncode else Compiled(builds=True)
        return _intel(target, file, options)


def _run(*command: str | None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=_SECONDS,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip


def _failed(result: subprocess.CompletedProcess[str]) -> Compiled:
    return Compiled(builds=False, message=(result.stderr + result.stdout).strip()[-2000:])


def _bitcode(*files: str) -> list[str]:
    return [word for f in files for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", f)]


def _said(pattern: str, text: str) -> int:
    return max((int(n) for n in re.findall(pattern, text, re.MULTILINE)), default=0)


def _amd(target: str, file: Path, options: list[str]) -> Compiled:
    folder, out = _library("amdgcn/bitcode"), file.with_suffix(".s")
    wide = "off" if target.startswith("gfx1") else "on"
    # Libraries from before a GPU are those of the one before it.
    known = Path(folder or "", f"oclc_isa_version_{target[3:]}.bc").is_file()
    version = target[3:] if known else "1030"
    names = [*_LIBRARIES, f"oclc_isa_version_{version}", f"oclc_wavefrontsize64_{wide}"]
    flags = [*_FLAGS, *options, *_bitcode(*(f"{folder}/{name}.bc" for name in names))]
    flags += ["-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-S", "-o", str(out)]
    result = _run(tool("clang"), *flags, str(file))
    if result.returncode:
        return _failed(result)
    text = out.read_text(encoding="utf-8")
    spilled, local = (_said(rf"; {name}: (\d+)", text) for name in ("ScratchSize", "LDSByteSize"))
    registers = _said(r"; (?:Total)?NumVgprs: (\d+)", text)
    return Compiled(builds=True, spilled=spilled, local=local, registers=registers, listing=text)


def _nvidia(target: str, file: Path, options: list[str]) -> Compiled:
    ptx, cubin = file.with_suffix(".ptx"), file.with_suffix(".cubin")
    # What is newer than clang is compiled for the newest that it knows, by ``ptxas`` for itself.
    known = target if target != "sm_120" else "sm_90"
    told = ("-target-cpu", known, "-target-feature", "+ptx75")
    flags = [*_FLAGS, *options, *_bitcode(f"{_library('clc')}/nvptx64--nvidiacl.bc")]
    flags += ["-target", "nvptx64-nvidia-cuda", *(w for t in told for w in ("-Xclang", t))]
    result = _run(tool("clang"), *flags, "-S", "-o", str(ptx), str(file))
    if not result.returncode:
        if known != target:
            text = ptx.read_text(encoding="utf-8").replace(f".target {known}", f".target {target}")
            ptx.write_text(re.sub(r"\.version \d\.\d", ".version 8.7", text), encoding="utf-8")
        result = _run(tool("ptxas"), "-v", f"-arch={target}", "-o", str(cubin), str(ptx))
    if result.returncode:
        return _failed(result)
    spilled = sum(
        _said(rf"(\d+) bytes spill {what}", result.stderr) for what in ("stores", "loads")
    )
    local, registers = (
        _said(pattern, result.stderr) for pattern in (r"(\d+) bytes smem", r"Used (\d+) registers")
    )
    lister = tool("nvdisasm")
    text = _run(lister, "-c", str(cubin)).stdout if lister else ""
    return Compiled(builds=True, spilled=spilled, local=local, registers=registers, listing=text)


def _intel(target: str, file: Path, options: list[str]) -> Compiled:
    folder = file.parent
    told = ["-device", target, "-out_dir", str(folder)]
    told += ["-options", " ".join(["-cl-std=CL1.2", *options])]
    dumps = {"IGC_ShaderDumpEnable": "1", "IGC_DumpToCustomDir": str(folder)}
    result = _run(tool("ocloc"), "compile", "-file", str(file), *told, **dumps)
    if result.returncode:
        return _failed(result)
    listings = [listing.read_text(encoding="utf-8") for listing in folder.glob("*_simd*.asm")]
    text = "\n".join(listings)
    spilled, registers = (
        _said(pattern, text) for pattern in (r"^//\.spill size (\d+)", r"numGRF=(\d+)")
    )
    return Compiled(builds=True, spilled=spilled, registers=registers, listing=text)


def command(args: Options, say: Callable[[str], None]) -> int:
    targets = args.targets.split(",") if args.targets else [*GPUS]
    unknown = [target for target in targets if target not in GPUS]
    if unknown:
        print(f"--targets {unknown[0]}: expected some of {', '.join(GPUS)}", file=sys.stderr)
        return 2
    if args.shares:
        from bench import listings  # which takes its GPUs of here

        return listings.command([target for target in targets if target in listings.CHIPS], say)
    wrong = 0
    for target in targets:
        missing = available(target)
        if missing:
            print(f"{target}: not installed: {missing}")
            continue
        some = list(kernels(GPUS[target]))[: 1 if args.quick else None]
        built = 0
        for name, plan in some:
            say(f"{target}: {name}")
            source = render(plan.template, plan.code)
            found = compile_for(target, source, plan.code.options, doubles=plan.code.doubles)
            built += found.builds
            if not found.builds:
                print(f"{target}: {name}: does not build: {found.message.partition(chr(10))[0]}")
            elif found.spilled:
                print(f"{target}: {name}: spills {found.spilled} bytes")
            wrong += not found.builds or bool(found.spilled)
        print(f"{target}: {built} of {len(some)} kernels build")
    return int(bool(wrong))
