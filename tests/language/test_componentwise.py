"""Which snippets mean the same on a whole vector; a wrong yes would compute something else."""

import pytest

from clprim.language.definition import define_pointwise, define_reduction

VECTORS = [
    "y0 = x0;",
    "y0 = x0 * w0 + x1;",
    "y0 = -x0 + +x1;",
    "y0 = 1;",
    "y0 = x0 / 2.5f + 1e-3;",
    "y0 = x0 > 0 ? x0 : 0;",
    "y0 = x0 > 0 && x1 < w0 ? x0 : x1;",
    "y0 = !(x0 > 0) || x1 == x0 ? x0 : x1;",
    "y0 = x0 > 0 ? w0 : x1;",
    "y0 = max(x0, 0) + fma(x0, w0, x1);",
    "y0 = exp(x0) + sqrt(fabs(x1));",
    "y0 = clamp(x0, 0, 6);",
    "typeof_y0 t = x0 * 2; y0 = t + t;",
    "typeof_x0 t = w0; y0 = t;",
    "y0 = (typeof_y0)x0 + (typeof_y0)w0;",
    "y0 = x0; y0 += x1; y0 *= 2; y1 = y0 - x0;",
    "y0 = x0 & x1 | x0 ^ x1;",
    "y0 = x0 + M_PI_F + INFINITY;",
    "y0 = x0 // comment",
    "y0 = isnan(x0) ? 0 : x0;",
    "y0 = isinf(x0) || !isfinite(x1) ? x0 : 0;",
    "const typeof_y0 limit = w0; y0 = isnan(limit) || x0 < limit ? limit : x0;",
]
SCALARS = [
    "y0 = x0 > 0;",  # 1 for a scalar, -1 in a vector
    "y0 = !x0;",
    "y0 = ~x0;",
    "y0 = x0 && x1;",
    "y0 = (x0 > 0) + 1;",
    "y0 = -(x0 > 0);",
    "y0 += x0 < x1;",
    "y0 = x0 ? x1 : 0;",
    "y0 = w0 > 0 ? x0 : x1;",  # a scalar condition chooses whole vectors
    "y0 = w0 > 1 ? x0 : x1;",
    "y0 = x0 > 0 ? 1 : 0;",  # scalar arms of a vector condition
    "y0 = x0 > 0 ? w0 : 1;",
    "y0 = x0 > 0 ? x1 > 0 : x0;",
    "if (x0 > 0) y0 = 1; else y0 = 2;",
    "for (int i = 0; i < 3; i++) y0 += x0;",
    "float t = x0; y0 = t;",
    "int t = x0; y0 = t;",
    "y0 = (float)x0;",
    "y0 = (int)x0 + x1;",
    "y0 = (typeof_w0)w0 + x0;",
    "y0 = x0 % 2;",
    "y0 = x0 << 1;",
    "y0 %= x0;",
    "y0 >>= 1;",
    "y0 = 0x1F + x0;",
    "y0 = 2u * x0;",
    "y0 = 2L * x0;",
    "y0 = 1.5h + x0;",
    "y0 = max(w0, 1);",
    "y0 = exp(w0);",
    "y0 = max(x0 > 0, x1);",
    "y0 = any(x0);",
    "y0 = dot(x0, x1);",
    "y0 = length(x0);",
    "y0 = isnan(x0);",
    "y0 = isnan(w0) ? w0 : x0;",
    "y0 = isgreater(x0, x1) ? x0 : x1;",
    "const float v = x0; y0 = v;",
    "y0 = select(x0, x1, x0 > 0);",
    "y0 = convert_int(x0);",
    "y0 = as_int(x0);",
    "y0 = abs(x0);",
    "y0 = coord(0) + x0;",
    "y0 = x0 * size(0);",
    "y0 = index + x0;",
    "y0 = x0.x;",
    "y0 = modf(x0, &y1);",
    "y0 = twice(x0);",
    "y0 = x0 * LIMIT;",
    "y0 = 'a' + x0;",
    "y0 = true ? x0 : x1;",
    "y0 = INT_MAX + x0;",
]
PREAMBLE = "float twice(float a) { return 2 * a; }\n#define LIMIT 3"


def define(expr):
    return define_pointwise(expr, name=None, preamble=PREAMBLE)


@pytest.mark.parametrize("expr", VECTORS)
def test_vectors_do_what_their_components_do(expr):
    assert define(expr).componentwise


@pytest.mark.parametrize("expr", SCALARS)
def test_what_may_differ_runs_element_by_element(expr):
    assert not define(expr).componentwise


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("y0 = x0 + 1;", False),
        ("y0 = x0 + 1.0;", True),
        ("y0 = x0 + 1e3;", True),
        ("y0 = x0 + .5f;", True),
        ("y0 = x0 + INFINITY;", True),
        ("y0 = x0 * M_PI_F;", True),
        ("y0 = isnan(x0) ? 0 : x0;", True),
    ],
)
def test_literals_that_need_a_floating_type(expr, expected):
    assert define(expr).needs_float is expected


def reduction(**parts):
    parts = {
        "expr": "y0 = x0;",
        "init": "reduce_y0 = 0;",
        "step": "reduce_y0 += y0;",
        "combine": None,
        "finalize": None,
    } | parts
    return define_reduction(parts.pop("expr"), name=None, preamble="", **parts)


@pytest.mark.parametrize(
    ("parts", "elements", "combine"),
    [
        ({}, True, True),
        ({"finalize": "if (count) y0 = reduce_y0;"}, True, True),  # runs once a result
        ({"step": "if (y0 > reduce_y0) reduce_y0 = y0;"}, False, False),
        ({"step": "reduce_y0 = max(reduce_y0, y0);", "init": "reduce_y0 = -INFINITY;"}, True, True),
        (
            {"init": "reduce_y0 = lowest_reduce_y0;", "step": "reduce_y0 = max(reduce_y0, y0);"},
            True,
            True,
        ),
        ({"step": "reduce_y0 += reduce_item * y0;"}, False, True),
        ({"expr": "y0 = x0 * index;"}, False, True),
        ({"combine": "if (other_y0 != 0) reduce_y0 += other_y0;"}, True, False),
        ({"init": "if (w0 > 0) reduce_y0 = 0;"}, False, True),
        ({"expr": "y0 = x0 > 0;"}, False, True),
    ],
)
def test_a_reduction_asks_for_its_elements_and_its_merging_apart(parts, elements, combine):
    found = reduction(**parts)
    assert (found.componentwise, found.combine_componentwise) == (elements, combine)
