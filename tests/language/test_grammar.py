"""What is no C is found when a snippet is defined; what is C, however odd, is not refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clprim.errors import DefinitionError
from clprim.language.cursor import Fault
from clprim.language.definition import define_pointwise
from clprim.language.parser import parse_snippet
from clprim.language.preamble import read_preamble
from clprim.language.tokens import scan


def fault(snippet, preamble=""):
    """The problem, or None."""
    try:
        parse_snippet(
            snippet, scan("Pointwise", "expr", snippet), read_preamble("Pointwise", preamble)
        )
    except Fault as found:
        return found.problem
    return None


@pytest.mark.parametrize(
    ("snippet", "problem", "place"),
    [
        ("y0 = x0 +", "expected a value after '+'", "        ^"),
        ("y0 = x0 + ;", "expected a value after '+'", "        ^"),
        ("= x0;", "expected a value before '='", "^"),
        ("y0 = x0 x1", "expected an operator or ';' before 'x1'", "        ^^"),
        ("y0 = 2(x0);", "expected an operator or ';' before '('", "      ^"),
        ("y0 = x0\ny1 = x1;", "expected an operator or ';' after 'x0'", "     ^^"),
        ("{ y0 = x0 }", "expected an operator or ';' before '}'", "          ^"),
        ("y0 = x0; int t[1] = {1}", "after '}', where the snippet ends", " " * 22 + "^"),
        ("y0 = ();", "expected a value after '('", "     ^"),
        ("y0 = x0[];", "expected a value after '['", "       ^"),
        ("y0 = max();", "'max' is called with nothing", "     ^^^"),
        ("y0 = max(x0,);", "expected a value after ','", "           ^"),
        ("y0 = max(x0 1);", "expected an operator, ',' or ')' before '1'", "            ^"),
        ("y0 = float(x0);", "'float' is a type: values are converted by (float)(", "     ^^^^^"),
        ("y0 = x0 ? 1;", "expected an operator or ':' before ';'", "           ^"),
        ("if () y0 = x0;", "expected a value after '('", "   ^"),
        ("y0 = x0; if (y0 > 0)", "expected a statement after ')'", " " * 19 + "^"),
        ("else y0 = x0;", "this 'else' follows no 'if'", "^^^^"),
        (
            "for (int i = 0; i < 4) y0 = x0;",
            "expected an operator or ';' before ')'",
            " " * 21 + "^",
        ),
        ("do y0 = x0;", "expected 'while' after ';', where the snippet ends", " " * 10 + "^"),
        ("float a b; y0 = x0;", "unknown name 'b'", "        ^"),
        ("float = x0; y0 = 1;", "expected a name before '='", "      ^"),
        ("struct p { float a }; y0 = x0;", "expected ';' before '}'", " " * 19 + "^"),
        ("y0 = x0.;", "expected a name before ';'", "        ^"),
    ],
)
def test_what_is_no_c_is_refused_where_it_is_defined(snippet, problem, place):
    with pytest.raises(DefinitionError) as caught:
        define_pointwise(snippet, name=None, preamble="")
    assert problem in str(caught.value)
    assert str(caught.value).endswith("\n    " + place)


@pytest.mark.parametrize(
    "snippet",
    [
        "",
        ";;",
        "float4 v = (float4)(x0, 1, 2, 3); v.xy = v.zw; y0 = v.s1 + v.lo.x;",
        "struct pair { float a, b[2]; int c : 3; }; struct pair p = {.a = x0, .b = {1, 2},}, *q;",
        "float a[3] = {[2] = x0, 1}; const float *p = a; y0 = *p++ + (*p)-- - p[-1] + 1[p];",
        "switch ((int)x0) { case 1: y0 = 1; break; case 2 ... 4: case 5: { } default: y0 = 3; }",
        "for (int i = 0, j = 1; i < 4 && j; i++, j--) { if (i) continue; else y0 += i; }",
        "for (;;) break; do { y0 = x0; } while (y0 > 3)",
        "y0 = x0 > 0 ? x0 : x0 < -1 ? -1 : ({ float t = x0; t * 2; }); y0 = x0 ?: 1;",
        "y0 = sizeof(float4) + sizeof x0 + sizeof(float *) + sizeof(x0) * 2;",
        "float (*p)[2], m[2][2] = {{1, 2}, {3, 4}}; p = m; y0 = (*p)[1] + ((float *)p)[0];",
        "typedef float real; y0 = (real)x0 + sizeof(real *); real t = (real)-x0;",
        "volatile unsigned int i = (unsigned)+x0; i <<= 2; i |= ~i; y0 = !i ^ - -i;",
        "enum { one = 1, two, }; y0 = ((float[]){1, 2, 3})[one], y1 = 2;",
        'float t = x0; t: printf("%f" "a", t); y0 = 0x1.8p3f + 1.e3 + .5f + 1e+3f + \'a\';',
        "typeof_x0 a = (typeof_y0)x0, b; (void)x1; coord(0);",
    ],
)
def test_odd_c_is_not_refused(snippet):
    assert fault(snippet) is None


def test_names_of_a_preamble_may_be_types_values_or_anything():
    types = "typedef struct { float a; } pair; float f(pair *p, float t); int g(void);"
    good = (
        "pair p = {x0}, *q = &p; y0 = f(&p, 1) + sizeof(pair *) + ((pair){2}).a;"
        "float t = g(); t * 2; y0 = (t) * 2 + (t)[&y0] + (t)++; t(1) + 1; f(q, t)->a = 1;"
    )
    assert fault(good, types) is None
    assert fault("pair p q;", types) is not None
    macro = "#define BOTH(a, op, b) a op \\\n  b\n#define HALF 0.5f\n"
    assert fault("y0 = BOTH(x0, +, x1) HALF;", macro) is None
    assert fault("y0 = x0 HALF;", macro) == "expected an operator or ';' before 'HALF'"


def test_a_macro_of_several_lines_is_one_directive():
    preamble = "#define SWAP(a, b) do { \\\n float t = a; \\\n a = b; b = t; } while (0)\n"
    definition = define_pointwise("y0 = x0; y1 = x1; SWAP(y0, y1);", name=None, preamble=preamble)
    assert definition.results == 2


def test_a_preamble_is_a_string():
    with pytest.raises(DefinitionError, match="preamble: expected a string of OpenCL C, got int"):
        define_pointwise("y0 = x0;", name=None, preamble=3)


def extend(values):
    """Larger expressions of smaller ones, as lists of tokens."""

    def join(*parts):
        return st.tuples(*(st.just([p]) if isinstance(p, str) else p for p in parts)).map(
            lambda found: [token for part in found for token in part]
        )

    operator = st.sampled_from("+ - * / % & | ^ << >> < > <= >= == != && ||".split())
    return st.one_of(
        join(values, operator.map(lambda text: [text]), values),
        join(st.sampled_from(["-", "!", "~", "*", "&"]).map(lambda text: [text]), values),
        join("(", values, ")"),
        join("(", "float", ")", values),
        join("(", "float2", ")", "(", values, ",", values, ")"),
        join("max", "(", values, ",", values, ")"),
        join("(", values, "?", values, ":", values, ")"),
        join("(", values, ")", "[", values, "]"),
        join("(", values, ")", ".", "x"),
    )


VALUES = ["x0", "x1", "w0", "1", ".5f", "index"]
EXPRESSIONS = st.recursive(
    st.sampled_from(VALUES).map(lambda text: [text]),
    extend,
    max_leaves=12,
)


@settings(deadline=None)
@given(EXPRESSIONS)
def test_an_expression_is_c(expression):
    assert fault(f"y0 = {' '.join(expression)};") is None


@settings(deadline=None)
@given(EXPRESSIONS, st.data())
def test_an_expression_without_one_of_its_values_is_none(expression, data):
    places = [n for n, token in enumerate(expression) if token in VALUES]
    at = data.draw(st.sampled_from(places))
    damaged = [*expression[:at], *expression[at + 1 :]]
    after = damaged[at] if at < len(damaged) else ";"
    # `a ?: b` is C as clang has it, and a sign may belong to the next value.
    if after in ("+", "-", "*", "&") or (after == ":" and damaged[at - 1] == "?"):
        return
    assert fault(f"y0 = {' '.join(damaged)};") is not None


@settings(deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_two_expressions_side_by_side_are_none(first, second):
    if second[0] in ("-", "*", "&", "("):  # an operator between them, or a call
        return
    assert fault(f"y0 = {' '.join([*first, *second])};") is not None


WORDS = (
    "x0 y0 w0 t f pair float int float4 const struct enum typedef __typeof__ typeof_x0 if else for "
    "while do switch case default break return sizeof ( ) [ ] { } ; , . -> + - * / ^ ! ? : = += ++ "
    "<< < && 1 2.5f 'c' // /* */ # ... index coord at_x0 TWICE max static #define"
).split()


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.booleans())
def test_any_words_are_a_definition_or_refused_as_one(words, as_preamble):
    helpers = "typedef struct { float a; } pair; float f(float a);\n#define TWICE(a) a + a"
    text = " ".join(words)
    try:
        if as_preamble:
            found = define_pointwise("y0 = x0;", name=None, preamble=text).expr
        else:
            found = define_pointwise(f"y0 = {text}", name=None, preamble=helpers).expr
    except DefinitionError as error:
        assert str(error).endswith("^")
    else:
        again = str(found.tree)
        assert parse_snippet(again, scan("", "", again), found.preamble).body == found.tree.body
