"""The ``mfma`` builtins of gfx90a and gfx94x: 64 work-items multiply 32 rows by 32 columns.

Each holds some steps of one row of A and of one column of B, the second 32 those that follow, and
of a column of the sums four rows of eight.
"""

from __future__ import annotations

from clprim.plan.units.unit import Fragment, MatrixUnit, bytes_of

#: By operand: the builtin's name behind the type of sums, and how words become its argument.
_NAMES = {
    "float16": ("32x32x8f16", "as_half4(vload2(0, {0}))"),
    "bfloat16": ("32x32x8bf16_1k", "as_short4(vload2(0, {0}))"),
    "float32": ("32x32x2f32", "as_float(*({0}))"),
    "int8": ("32x32x8i8", "as_int(*({0}))"),
}
#: Of processors that compute with 32 and with 64 work-items.
PARTNER = (
    "#define of_partner(value, bit) as_float(__builtin_amdgcn_ds_bpermute( \\\n"
    "    (int)(get_local_id(0) ^ (bit)) << 2, as_int(value)))\n"
)


def _unit(operand: str) -> MatrixUnit:
    name, argument = _NAMES[operand]
    count = 1 if operand == "float32" else 4
    kind = "i32" if bytes_of(operand) == 1 else "f32"
    left, right = (argument.format(side) for side in "ab")
    text = (
        f"#define multiply_add(sums, a, b) vstore16(__builtin_amdgcn_mfma_{kind}_{name}( \\\n"
        f"    {left}, {right}, vload16(0, sums), 0, 0, 0), 0, sums)\n"
    )
    if operand == "float16":
        text = f"#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n{text}"
    side = Fragment("lane % 32", f"lane / 32 * {count} + element", count, count)
    rows = "element / 4 * 8 + lane / 32 * 4 + element % 4"
    return MatrixUnit(
        "mfma",
        32,
        32,
        2 * count,
        (operand, operand),
        64,
        side,
        side,
        Fragment(rows, "lane % 32", 16),
        text,
        partners=(32,),
        partner=PARTNER,
    )


UNITS = tuple(map(_unit, _NAMES))
