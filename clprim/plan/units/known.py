"""All instruction sets, by the names that traits have of their units, and where they may be."""

from __future__ import annotations

from functools import cache

from clprim.plan.units import mfma, mma_sync, subgroup_matrix, wmma
from clprim.plan.units.unit import EMULATED, MatrixUnit

_MATRIX = (*subgroup_matrix.UNITS, *subgroup_matrix.LARGE)
UNITS = (*mma_sync.UNITS, *mma_sync.OLDER, *_MATRIX, *wmma.UNITS, *mfma.UNITS)
_BY_NAME = {unit.name: unit for unit in UNITS}
#: By a device's extension: units that may be behind it, and what in the text of a driver's own
#: program says that it is compiled for a processor that has them.
BEHIND: dict[str, tuple[tuple[tuple[MatrixUnit, ...], str], ...]] = {
    "cl_intel_subgroup_matrix_multiply_accumulate": ((_MATRIX, ""),),
    "cl_nv_device_attribute_query": (
        (mma_sync.UNITS, r"\.target sm_([89]\d|\d{3})"),
        (mma_sync.OLDER, r"\.target sm_75"),
    ),
    "cl_amd_device_attribute_query": (
        (wmma.EARLIER, r"gfx11\d\d"),
        (wmma.LATER, r"gfx12\d\d"),
        (mfma.UNITS, r"gfx9(0a|4\d)"),
    ),
}
#: The question whether products of float32 in three parts have float32's own error.
PARTS = "matrix_parts"


@cache
def unit_of(name: str) -> MatrixUnit:
    """Returns the unit of a name."""
    if name.startswith(EMULATED):
        return _BY_NAME[name.removeprefix(EMULATED)].as_emulated()
    return _BY_NAME[name]


def unit_questions(extensions: str) -> list[str]:
    """Returns the names of units that a device is asked for, and whether float32's parts add up."""
    sets = [s for extension in extensions.split() for s in BEHIND.get(extension, ())]
    names = [unit.name for units, _ in sets for unit in units]
    return [*names, PARTS] if any("tf32" in name for name in names) else names
