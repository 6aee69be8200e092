"""GPUs that kernels are compiled for without owning one: what their drivers report, datasheets."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        name: For readers.
        target: What its compiler calls it; ``spir64`` for the language alone.
        traits: As clprim would query them.
        peak: Float32 multiply-adds, in TFLOP/s: lanes × 2 × clock of the datasheet, and × 2 where
            an instruction computes two.
        bandwidth: Of its memory, in GB/s, by the datasheet.
        names: Parts of what drivers call it; none for any device of these traits.
        near: Bytes that local memory and caches give a unit for each of its multiply-adds.
        copies: Whether what several lanes read is counted once a lane.
    """

    name: str
    target: str
    traits: DeviceTraits
    peak: float = 0.0
    bandwidth: float = 0.0
    names: tuple[str, ...] = ()
    near: float = 1.0
    copies: bool = True


def _intel(units: int, *, group: int = 256, fp64: bool = True) -> DeviceTraits:
    return DeviceTraits(
        compute_units=units,
        max_work_group_size=group,
        local_memory=65536,
        sub_group_size=32,
        sub_groups=(8, 16, 32),
        block_reads=True,
        short_block_reads=True,
        register_bytes=512,
        fp16=True,
        fp64=fp64,
        c_version=(3, 0),
    )


def _amd(units: int, wave: int, *, fp16: bool = True) -> DeviceTraits:
    return DeviceTraits(
        compute_units=units,
        max_work_group_size=256,
        local_memory=65536,
        sub_group_size=wave,
        fp16=fp16,
        c_version=(2, 0),
    )


def _nvidia(units: int) -> DeviceTraits:
    return DeviceTraits(
        compute_units=units,
        max_work_group_size=1024,
        local_memory=49152,
        sub_group_size=32,
    )


_6900, _2080 = ("gfx1030", "RX 6900 XT"), ("RTX 2080 Ti",)
GPUS = (
    Gpu("Intel HD 530 (Gen9 GT2)", "skl", _intel(24), 0.44, 34.1, ("HD Graphics 530",)),
    Gpu(
        "Intel Arc A770 (DG2)",
        "dg2",
        _intel(512, group=1024, fp64=False),
        17.2,
        560,
        ("Arc(TM) A770",),
    ),
    Gpu("AMD RX 580 (gfx803)", "gfx803", _amd(36, 64), 6.2, 256, ("gfx803", "RX 580"), near=2),
    Gpu("AMD Vega 64 (gfx900)", "gfx900", _amd(64, 64), 12.7, 484, ("gfx900", "Vega 64"), near=2),
    Gpu("AMD MI250X, one die (gfx90a)", "gfx90a", _amd(110, 64), 47.9, 1638, ("gfx90a",)),
    Gpu(
        "AMD RX 6900 XT (gfx1030)",
        "gfx1030",
        _amd(40, 32),
        23.0,
        512,
        ("gfx1030", "RX 6900 XT"),
        near=2,
    ),
    Gpu("NVIDIA GTX 1080 (sm_61)", "sm_61", _nvidia(20), 8.9, 320, ("GTX 1080",), copies=False),
    Gpu(
        "NVIDIA RTX 2080 Ti (sm_75)",
        "sm_75",
        _nvidia(68),
        13.4,
        616,
        ("RTX 2080 Ti",),
        near=2,
        copies=False,
    ),
    Gpu("NVIDIA RTX 3090 (sm_86)", "sm_86", _nvidia(82), 35.6, 936, ("RTX 3090",), copies=False),
    Gpu("NVIDIA H100 SXM (sm_90)", "sm_90", _nvidia(132), 66.9, 3350, ("H100",), copies=False),
    Gpu(
        "modest: OpenCL 1.2, 64 work-items, 32 KiB",
        "spir64",
        DeviceTraits(compute_units=4, max_work_group_size=64, local_memory=32768, fp64=False),
    ),
)
