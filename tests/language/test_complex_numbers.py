"""Complex numbers in strings: which types follow, what is printed, what is refused and where."""

import pytest

from clprim.errors import DTypeError
from clprim.language.complex_numbers import complex_operands, lowered
from clprim.language.definition import define_pointwise, define_reduction

PAIR = ("x0", "float2"), ("x1", "float2"), ("y0", "float2")
MIXED = ("x0", "float2"), ("x1", "float"), ("w0", "float"), ("y0", "float2")


def printed(text, types, **options):
    expr = define_pointwise(text, name=None, preamble="").expr
    return lowered(expr, tuple(types), **options)


@pytest.mark.parametrize(
    ("text", "types", "shown", "needs"),
    [
        ("y0 = x0 + x1;", PAIR, "y0 = x0 + x1;", ()),
        ("y0 = -x0 * x1;", PAIR, "y0 = cp_complex_multiply(-x0, x1);", ("multiply",)),
        ("y0 = x0 + x1;", MIXED, "y0 = x0 + (float2)(x1, 0);", ()),
        ("y0 = x0 * w0;", MIXED, "y0 = x0 * (float2)w0;", ()),
        ("y0 = x0 / 2;", MIXED, "y0 = x0 / (float2)2;", ()),
        ("y0 = 2 / x0;", MIXED, "y0 = cp_complex_divide((float2)(2, 0), x0);", ("divide",)),
        ("y0 = x0; y0 *= x1;", PAIR, "y0 = x0; y0 = cp_complex_multiply(y0, x1);", ("multiply",)),
        ("(void)x0; y0 = 2i * x1;", MIXED, "(void)x0; y0 = (float2)(0, 2) * (float2)x1;", ()),
        ("(void)x0; y0 = complex(x1, w0);", MIXED, "(void)x0; y0 = (float2)(x1, w0);", ()),
        ("y0 = real(x0) + imag(x0);", MIXED, "y0 = (float2)(x0.x + x0.y, 0);", ()),
        ("typeof_x0 t = x1; y0 = t;", MIXED, "typeof_x0 t = (float2)(x1, 0); y0 = t;", ()),
        ("y0 = x0 == x1 ? 1 : x0;", PAIR, "y0 = cp_complex_equal(x0, x1) ? (float2)(1, 0) : x0;",
            ("equal",)),
        ("y0 = (x0\n+ w0) * x1;", MIXED, "y0 = (x0 + (float2)(w0, 0)) * (float2)x1\n;", ()),
    ],
)  # fmt: skip
def test_arithmetic_of_pairs_is_printed(text, types, shown, needs):
    assert printed(text, types) == (shown, tuple(f"complex_{n}_float2" for n in needs))


def test_doubles_make_pairs_of_doubles():
    types = ("x0", "double2"), ("w0", "double"), ("y0", "double2")
    assert printed("y0 = x0 - w0;", types)[0] == "y0 = x0 - (double2)(w0, 0);"


def test_one_text_serves_vectors():
    shown, needs = printed("y0 = x0 * w0 + 1;", MIXED, vectors=True)
    assert shown == ("y0 = x0 * cp_complex_both((cp_part)w0) + (cp_pair)((cp_part)1, (cp_part)0);")
    assert needs == ("complex_both_float2",)


@pytest.mark.parametrize(
    ("text", "types", "problem", "marked"),
    [
        ("y0 = x0 < x1;", PAIR, "have no order", "x0 < x1"),
        ("y0 = x0 % x1;", PAIR, "have no '%'", "x0 % x1"),
        ("y0 = x1; y0 %= x0;", PAIR, "have no '%'", "y0 %= x0"),
        ("y0 = ~x0;", PAIR, "have no '~'", "~x0"),
        ("y0 = !x0;", PAIR, "is no condition", "x0"),
        ("if (x0) y0 = x1;", PAIR, "is no condition", "x0"),
        ("y0 = x0 ? x1 : 1;", PAIR, "is no condition", "x0"),
        ("y0 = floor(x0);", PAIR, "floor takes no complex numbers", "floor(x0)"),
        ("y0 = fabs(x0);", PAIR, "write abs", "fabs(x0)"),
        ("float t = x0; y0 = t;", PAIR, "t is float", "t"),
        ("y0 = (int)x0;", PAIR, "write real(…) or abs(…)", "(int)x0"),
        ("y0 = complex(x0, 1);", PAIR, "takes two real numbers", "complex(x0, 1)"),
        ("y0 = conj(x0, x1);", PAIR, "takes 1 argument, 2 given", "conj(x0, x1)"),
        ("y0 = x0;", (("x0", "float2"), ("y0", "float")), "y0 is real", "y0 = x0"),
    ],
)
def test_wrong_uses_are_pointed_at(text, types, problem, marked):
    with pytest.raises(DTypeError, match=r"Pointwise expr, line 1") as error:
        printed(text, types)
    _, quoted, carets = str(error.value).split("\n")
    assert problem in str(error.value)
    assert quoted[carets.index("^") : carets.rindex("^") + 1] == marked


@pytest.mark.parametrize(
    ("text", "given", "found"),
    [
        ("y0 = x0; y1 = abs(x0);", ["float2"], {0}),
        ("y0 = real(x0) < 1;", ["float2"], set()),
        ("y0 = x0 == 1;", ["float2"], set()),
        ("y0 = complex(x0, w0);", ["float", "float"], {0}),
        ("y0 = 1i;  (void)x0;", ["float"], {0}),
        ("const typeof_y0 a = x0; y0 = sqrt(a);", ["float2"], {0}),
        ("y0 = x1 * 2; y1 = x0;", ["float", "float2"], {0}),
    ],
)
def test_results_are_complex_where_the_tree_says_so(text, given, found):
    definition = define_pointwise(text, name=None, preamble="")
    assert complex_operands(definition, tuple(given)).results == found


@pytest.mark.parametrize(
    ("expr", "finalize", "values", "partials", "results"),
    [
        ("y0 = x0;", None, {0}, {0}, {0}),
        ("y0 = abs(x0);", None, set(), set(), set()),
        ("y0 = x0;", "y0 = abs(reduce_y0);", {0}, {0}, set()),
        ("y0 = real(x0);", "y0 = reduce_y0 * 1i;", set(), set(), {0}),
    ],
)
def test_partials_are_complex_where_their_steps_say_so(expr, finalize, values, partials, results):
    definition = define_reduction(
        expr, init="reduce_y0 = 0;", step="reduce_y0 += y0;", combine=None, finalize=finalize,
        name=None, preamble="",
    )  # fmt: skip
    found = complex_operands(definition, ("float2",))
    assert (found.values, found.partials, found.results) == (values, partials, results)
