"""The ``wmma`` builtins of gfx11 and gfx12: 32 work-items multiply 16 rows by 16 columns.

On gfx11 both halves of the 32 hold the same 16 steps of a row of A and of a column of B, and rows
of the sums take turns between the halves; on gfx12 a half has half of the steps, and eight rows.
"""

from __future__ import annotations

from clprim.plan.units.mfma import PARTNER
from clprim.plan.units.unit import Fragment, MatrixUnit

# By operand: the builtin's word, its vectors of the operand and what is before them.
_TYPES = {"float16": ("f16", "half"), "bfloat16": ("bf16", "short")}


def _unit(operand: str, *, later: bool) -> MatrixUnit:
    word, kind = _TYPES[operand]
    count = 8 if later else 16
    name = f"__builtin_amdgcn_wmma_f32_16x16x16_{word}_w32{'_gfx12' if later else ''}"
    text = (
        f"typedef {kind} of_unit __attribute__((ext_vector_type({count})));\n"
        f"typedef union {{ uint words[{count // 2}]; of_unit vector; }} unit_words;\n"
        "static inline void multiply_add(float *sums, const uint *a, const uint *b)\n{\n"
        "    unit_words left, right;\n"
        "    #pragma unroll\n"
        f"    for (int n = 0; n < {count // 2}; ++n) {{\n"
        "        left.words[n] = a[n];\n        right.words[n] = b[n];\n    }\n"
        f"    vstore8({name}(left.vector, right.vector, vload8(0, sums)), 0, sums);\n}}\n"
    )
    if operand == "float16":
        text = f"#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n{text}"
    steps = "lane / 16 * 8 + element" if later else "element"
    row = "lane / 16 * 8 + element" if later else "element * 2 + lane / 16"
    side = Fragment("lane % 16", steps, count, count)
    return MatrixUnit(
        "wmma_gfx12" if later else "wmma_gfx11",
        16,
        16,
        16,
        (operand, operand),
        32,
        side,
        side,
        Fragment(row, "lane % 16", 8),
        text,
        partners=(16,),
        kept=later,
        partner=PARTNER,
    )


EARLIER, LATER = (
    tuple(_unit(operand, later=later) for operand in _TYPES) for later in (False, True)
)
UNITS = EARLIER + LATER
