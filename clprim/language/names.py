"""The names that OpenCL C itself gives to a snippet, and those that a snippet must not use."""

from __future__ import annotations

_SCALARS = "char uchar short ushort int uint long ulong float double half".split()

QUALIFIERS = frozenset("const volatile restrict unsigned signed struct union enum".split())
TYPES = frozenset(
    [
        *_SCALARS,
        *(f"{scalar}{n}" for scalar in _SCALARS for n in (2, 3, 4, 8, 16)),
        *"bool void size_t ptrdiff_t intptr_t uintptr_t".split(),
    ]
)
KEYWORDS = frozenset(
    "if else for while do switch case default break continue sizeof typedef __typeof__".split()
)

# Words beside a type in a preamble; in a snippet most of them are reserved.
STORAGE = frozenset(
    "static inline extern register auto kernel __kernel global __global local __local constant "
    "__constant private __private".split()
)

# A snippet is pasted into a kernel that decides which work-item computes which element; what
# would leave that kernel or synchronise its work-items cannot be allowed inside.
RESERVED = {
    **dict.fromkeys(
        ("return", "goto", "asm", "__asm__", "inline", "extern", "static", "register", "auto"),
        "a snippet is pasted into a kernel, not called; helper functions go to preamble=",
    ),
    **dict.fromkeys(
        ("kernel", "__kernel", "global", "__global", "local", "__local", "constant", "__constant"),
        "the engine declares kernels and their memory; constants go to preamble=",
    ),
    **dict.fromkeys(
        ("barrier", "work_group_barrier", "sub_group_barrier", "mem_fence"),
        "work-items run apart inside a snippet and cannot wait for each other",
    ),
    **dict.fromkeys(
        (
            *(f"get_global_{what}" for what in ("id", "size", "offset")),
            *(f"get_local_{what}" for what in ("id", "size")),
            *("get_group_id", "get_num_groups", "get_work_dim"),
        ),
        "which work-item computes an element is the engine's choice; use index or coord(d)",
    ),
}

# Functions whose vector form does to every component what the scalar form does to a scalar.
_UNARY = (
    "fabs sqrt rsqrt cbrt exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan "
    "sinh cosh tanh asinh acosh atanh sinpi cospi tanpi erf erfc tgamma lgamma ceil floor round "
    "rint trunc sign degrees radians native_exp native_exp2 native_log native_log2 native_sqrt "
    "native_rsqrt native_recip native_sin native_cos native_tan half_exp half_sqrt half_rsqrt "
    "half_recip half_log"
).split()
# Of these, the compiler wants all arguments of one type; the templates' macros cast them to the
# common one, so that max(x0, 0) means what it says on a float.
UNIFIED = {
    **dict.fromkeys("max min fmax fmin pow atan2 fmod copysign fdim hypot remainder".split(), 2),
    **dict.fromkeys("clamp fma mad mix".split(), 3),
}
COMPONENTWISE = frozenset([*_UNARY, *UNIFIED])
# What asks of every component: 1 for a scalar, -1 in a vector.
PREDICATES = frozenset("isfinite isinf isnan isnormal signbit".split())
# Of these, some compilers compute vectors wrongly: `DeviceTraits.vector_trigonometry`.
TRIGONOMETRY = ("cos", "sin", "tan")
# Of these, what IEEE 754 or the definition settles to the last bit.
_EXACT = frozenset("fabs sqrt ceil floor round rint trunc sign degrees radians".split())
# Of these, what may start from estimates of the processor: `DeviceTraits.estimate_bytes`.
ESTIMATES = frozenset(f for f in _UNARY if f == "rsqrt" or f.startswith(("native_", "half_")))
# Of these, what a library computes: `DeviceTraits.function_bytes`.
LIBRARY = frozenset([*_UNARY, "atan2", "hypot", "pow"]) - _EXACT - ESTIMATES - {*TRIGONOMETRY}
# Of these, what the templates have text of their own for, in float.
WRITTEN = ("erfc",)
# Of these, what takes integers as well.
INTEGER_FORMS = frozenset(["max", "min", "clamp"])

_OTHER_FUNCTIONS = (
    "abs abs_diff add_sat sub_sat hadd rhadd mul24 mad24 mad_hi mul_hi mad_sat rotate popcount clz "
    "ctz upsample acospi asinpi atanpi atan2pi pown powr rootn ilogb ldexp logb nan nextafter "
    "remquo sincos fract frexp modf lgamma_r maxmag minmag half_powr half_divide half_cos half_sin "
    "half_tan half_exp2 half_exp10 half_log2 half_log10 native_powr native_divide native_exp10 "
    "native_log10 step smoothstep isequal isnotequal isgreater isgreaterequal isless islessequal "
    "islessgreater isfinite isinf isnan isnormal isordered isunordered signbit any all select "
    "bitselect cross dot distance length normalize fast_distance fast_length fast_normalize "
    "shuffle shuffle2 printf vload_half vstore_half convert_half"
).split()
_CONVERSIONS = [
    name
    for to in _SCALARS + [f"{s}{n}" for s in _SCALARS for n in (2, 3, 4, 8, 16)]
    for name in (
        f"as_{to}",
        *(f"convert_{to}{sat}{mode}" for sat in ("", "_sat") for mode in ("", "_rte", "_rtz")),
        *(f"convert_{to}{sat}{mode}" for sat in ("", "_sat") for mode in ("_rtp", "_rtn")),
    )
]
_CONSTANTS = (
    "M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 "
    "M_SQRT1_2 MAXFLOAT HUGE_VAL HUGE_VALF INFINITY NAN NULL true false "
    "FLT_MAX FLT_MIN FLT_EPSILON FLT_DIG FLT_MANT_DIG FLT_MAX_EXP FLT_MIN_EXP FLT_RADIX "
    "DBL_MAX DBL_MIN DBL_EPSILON DBL_DIG DBL_MANT_DIG DBL_MAX_EXP DBL_MIN_EXP "
    "HALF_MAX HALF_MIN HALF_EPSILON CHAR_BIT CHAR_MAX CHAR_MIN SCHAR_MAX SCHAR_MIN UCHAR_MAX "
    "SHRT_MAX SHRT_MIN USHRT_MAX INT_MAX INT_MIN UINT_MAX LONG_MAX LONG_MIN ULONG_MAX"
).split()
_FLOAT_CONSTANTS = [f"{name}_F" for name in _CONSTANTS if name.startswith("M_")]

# Of complex numbers; OpenCL C has none of these names.
COMPLEX = frozenset("arg complex conj imag real reciprocal".split())

FUNCTIONS = frozenset([*COMPLEX, *COMPONENTWISE, *_OTHER_FUNCTIONS, *_CONVERSIONS])
BUILTINS = FUNCTIONS | {*_CONSTANTS, *_FLOAT_CONSTANTS}


_PLAIN = {*_SCALARS, *"bool void size_t ptrdiff_t intptr_t uintptr_t unsigned signed".split()}


def is_vector_type(name: str) -> bool:
    """Whether ``(name)(a, b)`` may be a vector: no scalar of OpenCL C, nor an operand's type."""
    return not (name.startswith("typeof_") or {*name.split()} & _PLAIN)
