"""PTX's ``mma.sync``: 32 work-items multiply 16 rows by 8 columns.

Places follow the PTX ISA's matrix fragments: work-item 4·g + t holds row g (and g + 8) of A, column
g of B, and steps from t times as many as a word has elements on. Steps of k are 32 bytes in two
halves, so that all types are read alike: by ``ldmatrix``, which loads words of four matrices.
"""

from __future__ import annotations

from clprim.plan.units.unit import Fragment, MatrixUnit, bytes_of

#: By operands: what PTX calls their types.
_TYPES = {
    ("float16", "float16"): "f16.f16",
    ("bfloat16", "bfloat16"): "bf16.bf16",
    ("tf32", "tf32"): "tf32.tf32",
    ("int8", "int8"): "s8.s8",
    ("uint8", "uint8"): "u8.u8",
    ("uint8", "int8"): "u8.s8",
    ("int8", "uint8"): "s8.u8",
}
_LOAD = """\
#define {name}(words, from) __asm__ volatile( \\
    "ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{ %0, %1, %2, %3 }}, [%4];" \\
    : "=r"((words)[0]), "=r"((words)[1]), "=r"((words)[2]), "=r"((words)[3]) \\
    : "r"((uint)(ulong)(from)) : "memory")
"""
_MATRICES = _LOAD.format(name="load_matrices", trans="") + _LOAD.format(
    name="load_transposed", trans=".trans"
)
_COPY = """\
#define copy_{bytes}(to, from, whether) __asm__ volatile( \\
    "cp.async.{cache}.shared.global [%0], [%1], {bytes}, %2;" \\
    :: "r"((uint)(ulong)(to)), "l"((ulong)(from)), "r"((whether) ? {bytes} : 0) : "memory")
"""
_WAIT = """\
#define copies_end() __asm__ volatile("cp.async.commit_group;" ::: "memory")
#define copies_wait(left) __asm__ volatile( \\
    "cp.async.wait_group %0;" :: "n"(left) : "memory")
"""
_COPIES = _WAIT + "".join(
    _COPY.format(bytes=n, cache="cg" if n == 16 else "ca") for n in (4, 8, 16)
)
_PARTNER = """\
static inline float of_partner(float value, int bit)
{
    float found;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
        : "=f"(found) : "f"(value), "r"(bit));
    return found;
}
"""
_PACK = """\
static inline uint pack(float low, float high)
{{
    uint found;
    __asm__("{text}" : "=r"(found) : "f"(high), "f"(low));
    return found;
}}
static inline float power(float x)
{{
    float found;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
}}
"""
_BOTH = "cvt.rn.{kind}x2.f32 %0, %1, %2;"
_ONE_BY_ONE = (
    "{{ .reg .f16 low, high; cvt.rn.f16.f32 high, %1; cvt.rn.f16.f32 low, %2; "
    "mov.b32 %0, {{ low, high }}; }}"
)


def _numbered(first: int, count: int) -> str:
    return "{ " + ", ".join(f"%{n}" for n in range(first, first + count)) + " }"


def _listed(kind: str, name: str, count: int) -> str:
    return ", ".join(f'"{kind}"(({name})[{n}])' for n in range(count))


def _unit(operands: tuple[str, str], halves: int, *, copies: bool = True) -> MatrixUnit:
    """The instruction over so many halves of 16 bytes of k."""
    of_word = 4 // bytes_of(operands[0])
    half = 4 * of_word  # steps of k
    steps, a, b = halves * half, 2 * halves, halves
    kind, value = ("r", "s32") if of_word == 4 else ("f", "f32")
    order = [_numbered(0, 4), _numbered(4, a), _numbered(4 + a, b), _numbered(0, 4)]
    text = (
        '#define multiply_add(sums, a, b) __asm__ volatile( \\\n    "mma.sync.aligned.'
        f'm16n8k{steps}.row.col.{value}.{_TYPES[operands]}.{value} {", ".join(order)};" \\\n'
        f"    : {_listed('+' + kind, 'sums', 4)} \\\n"
        f"    : {_listed('r', 'a', a)}, {_listed('r', 'b', b)})\n"
    )
    pack = (_BOTH if copies else _ONE_BY_ONE).format(kind=_TYPES[operands].partition(".")[0])
    within = f"element % {of_word}" if of_word > 1 else "0"
    first = f"lane % 4 * {of_word} + {within}"
    return MatrixUnit(
        "mma.sync",
        16,
        8,
        steps,
        operands,
        32,
        Fragment(
            f"lane / 4 + element / {of_word} % 2 * 8",
            f"{first} + element / {2 * of_word} * {half}",
            a * of_word,
            of_word,
        ),
        Fragment("lane / 4", f"{first} + element / {of_word} * {half}", b * of_word, of_word),
        Fragment("lane / 4 + element / 2 * 8", "lane % 4 * 2 + element % 2", 4, 2),
        text,
        _MATRICES if halves == 2 else "",
        _COPIES if copies else "",
        turned=False,
        partners=(1, 2),
        partner=_PARTNER,
        pack=_PACK.format(text=pack) if of_word == 2 else "",
    )


#: From sm_80 on, and what sm_75 has of them.
UNITS = tuple(_unit(operands, 2) for operands in _TYPES)
OLDER = (_unit(("float16", "float16"), 1, copies=False),)
