"""``cl_intel_subgroup_matrix_multiply_accumulate``: sub-groups multiply 8 rows by a column each.

Sub-groups have the least size that a device knows. Of 8, a work-item holds two 16-bit or four
8-bit elements of a row of A as one word; of 16, half as many. Words of B are neighbours in k. Eight
rows of A are what a block read takes from local memory (``cl_intel_subgroup_local_block_io``).
Half as many work-items a processor have twice the registers, where a program is built for that.
"""

from __future__ import annotations

from dataclasses import replace

from clprim.plan.units.unit import Fragment, MatrixUnit, bytes_of

#: By operands: the function's name, and the type of vectors of words.
_NAMES = {
    ("float16", "float16"): ("f16_f16", "int"),
    ("bfloat16", "bfloat16"): ("bf16_bf16", "int"),
    ("int8", "int8"): ("i8_i8", "int"),
    ("uint8", "uint8"): ("u8_u8", "uint"),
}


def _unit(operands: tuple[str, str], size: int) -> MatrixUnit:
    kind, words = _NAMES[operands]
    of_word = 4 // bytes_of(operands[0])
    steps, of_item = 8 * of_word, 8 * of_word // size  # of A's row
    value = "int8" if of_word == 4 else "float8"
    a = f"{words}8" if size == 8 else words.replace("int", "short") + "8"
    function = f"intel_sub_group_{kind}_matrix_mad_k{steps}"
    held = 8 * of_item // of_word  # words of A
    # Compilers from before the extension's name know the function.
    text = (
        "#ifndef cl_intel_subgroup_matrix_multiply_accumulate\n"
        f"{value} __attribute__((overloadable)) {function}({a} a, {words}8 b, {value} sums);\n"
        "#endif\n"
        f"#define multiply_add(sums, a, b) vstore8({function}( \\\n"
        f"    as_{a}(vload{held}(0, a)), as_{words}8(vload8(0, b)), vload8(0, sums)), 0, sums)\n"
    )
    kind, what, suffix = ("uint", 8, "") if size == 8 else ("ushort", 4, "_us")
    read = f"intel_sub_group_block_read{suffix}8"
    blocks = (
        "#ifndef cl_intel_subgroup_local_block_io\n"
        f"{kind}8 __attribute__((overloadable)) {read}(const __local {kind} *from);\n"
        "#endif\n"
        "#define load_block(words, from) \\\n"
        f"    vstore{what}(as_uint{what}({read}((const __local {kind} *)(from))), 0, words)\n"
    )
    row = f"element / {of_item}" if of_item > 1 else "element"
    within = f"lane * {of_item} + element % {of_item}" if of_item > 1 else "lane"
    return MatrixUnit(
        "subgroup_matrix_multiply_accumulate",
        8,
        size,
        steps,
        operands,
        size,
        Fragment(row, within, 8 * of_item, of_item),
        Fragment("lane", "element", steps, steps),
        Fragment("element", "lane", 8),
        text,
        blocks=blocks,
        attribute=f"__attribute__((intel_reqd_sub_group_size({size}))) ",
    )


UNITS = tuple(_unit(operands, size) for size in (8, 16) for operands in _NAMES)
LARGE = tuple(
    replace(unit, option="-cl-intel-256-GRF-per-thread", registers=1024)
    for unit in UNITS
    if unit.itemsize == 2
)
