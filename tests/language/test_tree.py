"""Snippets become trees: precedence, every statement of C, spans, printing, walking."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clprim.language.cursor import DEEPEST, Fault
from clprim.language.parser import parse_snippet
from clprim.language.preamble import read_preamble
from clprim.language.tokens import scan
from clprim.language.tree import (
    Assign,
    Binary,
    Block,
    Braces,
    Call,
    Case,
    Cast,
    Declare,
    DoWhile,
    Evaluate,
    For,
    Function,
    If,
    Index,
    Jump,
    Member,
    Name,
    Number,
    Opaque,
    Parameter,
    Postfix,
    String,
    Switch,
    Ternary,
    Tree,
    Type,
    Unary,
    Variable,
    Vector,
    While,
    fold,
    names_in,
    rewrite,
    walk,
)

A, B, C, X, ONE = Name("a"), Name("b"), Name("c"), Name("x0"), Number("1")
FLOAT, INT = Type("float"), Type("int")


def tree(snippet, preamble=""):
    return parse_snippet(
        snippet, scan("Pointwise", "expr", snippet), read_preamble("Pointwise", preamble)
    )


def value(expression, preamble=""):
    (statement,) = tree(f"y0 = {expression};", preamble).body
    assert (statement.value.target, statement.value.op) == (Name("y0"), "=")
    return statement.value.value


def do(target, op, value):
    return Evaluate(Assign(target, op, value))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", A),
        ("1.5f", Number("1.5f")),
        ("a + b * c", Binary("+", A, Binary("*", B, C))),
        ("a * b + c", Binary("+", Binary("*", A, B), C)),
        ("a - b - c", Binary("-", Binary("-", A, B), C)),
        ("a - (b - c)", Binary("-", A, Binary("-", B, C))),
        ("a < b == c", Binary("==", Binary("<", A, B), C)),
        ("a || b && c", Binary("||", A, Binary("&&", B, C))),
        ("a | b ^ c & a", Binary("|", A, Binary("^", B, Binary("&", C, A)))),
        ("a << b + c", Binary("<<", A, Binary("+", B, C))),
        ("-a * b", Binary("*", Unary("-", A), B)),
        ("!a && ~b", Binary("&&", Unary("!", A), Unary("~", B))),
        ("- -a", Unary("-", Unary("-", A))),
        ("a ? b : c ? a : b", Ternary(A, B, Ternary(C, A, B))),
        ("a ? b ? c : a : b", Ternary(A, Ternary(B, C, A), B)),
        ("a < b ? a : b", Ternary(Binary("<", A, B), A, B)),
        ("a ?: b", Binary("?:", A, B)),
        ("a = b = c", Assign(A, "=", Assign(B, "=", C))),
        ("(a, b)", Binary(",", A, B)),
        ("max(a, b + c)", Call("max", (A, Binary("+", B, C)))),
        ("f()", Call("f", ())),
        ("(float)a * b", Binary("*", Cast(FLOAT, A), B)),
        ("(unsigned int)-a", Cast(Type("unsigned int"), Unary("-", A))),
        ("(typeof_y0)x0", Cast(Type("typeof_y0"), X)),
        ("(typeof_y0)(a, b)", Cast(Type("typeof_y0"), Binary(",", A, B))),
        ("(a)", A),
        ("(a) - b", Binary("-", A, B)),
        ("(float4)(a, 1, b, c)", Vector(Type("float4"), (A, ONE, B, C))),
        ("(float4)(a)", Cast(Type("float4"), A)),
        ("(float4)(a, 1, b, c).xy", Member(Vector(Type("float4"), (A, ONE, B, C)), ".", "xy")),
        ("((float[]){1, a})[b]", Index(Cast(Type("float []"), Braces((ONE, A))), B)),
        ("a.lo.x", Member(Member(A, ".", "lo"), ".", "x")),
        ("a->b", Member(A, "->", "b")),
        ("a[1][b]", Index(Index(A, ONE), B)),
        ("*a++", Unary("*", Postfix("++", A))),
        ("--a - b--", Binary("-", Unary("--", A), Postfix("--", B))),
        ("modf(a, &b)", Call("modf", (A, Unary("&", B)))),
        (
            "sizeof(float *) + sizeof a",
            Binary("+", Unary("sizeof", Type("float *")), Unary("sizeof", A)),
        ),
        ("sizeof(a)", Unary("sizeof", A)),
        ("'c'", String("'c'")),
        (
            "({ float t = a; t; })",
            Opaque(
                "({ float t = a; t; })",
                (Block((Declare(FLOAT, (Variable("t", (), A),)), Evaluate(Name("t")))),),
            ),
        ),
        ("(*a)(b)", Opaque("(*a)(b)", (Unary("*", A), B))),
    ],
)
def test_expressions(expression, expected):
    found = value(expression)
    assert found == expected
    assert hash(found) == hash(expected)
    assert value(f"({found})") == expected


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        ("", ()),
        (";;", ()),
        ("a = b", (do(A, "=", B),)),
        ("a += b; c <<= 1;", (do(A, "+=", B), do(C, "<<=", ONE))),
        ("a++, --b;", (Evaluate(Binary(",", Postfix("++", A), Unary("--", B))),)),
        ("{ a = b; { c = a; } }", (Block((do(A, "=", B), Block((do(C, "=", A),)))),)),
        ("float a = 1, b = a;", (Declare(FLOAT, (Variable("a", (), ONE), Variable("b", (), A))),)),
        ("const int a = b;", (Declare(Type("const int"), (Variable("a", (), B),)),)),
        ("int a[2][b], *c;", (
            Declare(INT, (Variable("a", (Number("2"), B)), Variable("c", (), None, "*"))),
        )),
        ("float a[] = {1, b};", (
            Declare(FLOAT, (Variable("a", (Opaque(""),), Braces((ONE, B))),)),
        )),
        ("float (*a)[2];", (Declare(FLOAT, (Opaque("(*a)[2]", (Number("2"),), ("a",)),)),)),
        ("struct p { float a; } b;", (
            Declare(Type("struct p { float a; }"), (Variable("b"),)),
        )),
        ("enum { a, b = 1 };", (Declare(Type("enum { a, b = 1 }", (ONE,), ("a", "b")), ()),)),
        ("typedef float real; real a;", (
            Opaque("typedef float real;", (), ("real",)),
            Declare(Type("real"), (Variable("a"),)),
        )),
        ("if (a) b = c;", (If(A, (do(B, "=", C),), ()),)),
        ("if (a) b = c; else { c = a; }", (If(A, (do(B, "=", C),), (do(C, "=", A),)),)),
        ("if (a) ; else if (b) c = a; else a = b;", (
            If(A, (), (If(B, (do(C, "=", A),), (do(A, "=", B),)),)),
        )),
        ("for (int a = 0; a < b; a++) { continue; }", (
            For(
                Declare(INT, (Variable("a", (), Number("0")),)),
                Binary("<", A, B),
                Postfix("++", A),
                (Jump("continue"),),
            ),
        )),
        ("for (;;) break;", (For(None, None, None, (Jump("break"),)),)),
        ("for (a = 1;;) ;", (For(do(A, "=", ONE), None, None, ()),)),
        ("while (a) b = c;", (While(A, (do(B, "=", C),)),)),
        ("do a = b; while (c);", (DoWhile((do(A, "=", B),), C),)),
        ("switch (a) { case 1: case 2 ... 3: b = c; break; default: ; }", (
            Switch(A, (
                Case(ONE),
                Case(Number("2"), Number("3")),
                do(B, "=", C),
                Jump("break"),
                Case(),
            )),
        )),
        ("a = b; // c", (do(A, "=", B),)),
    ],
)  # fmt: skip
def test_statements(snippet, expected):
    found = tree(snippet)
    assert found.body == expected
    assert tree(str(found)) == Tree(expected)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("((a)) + ((b * c))", "a + b * c"),
        ("(a + b) * (c)", "(a + b) * c"),
        ("(a - b) - (c - a)", "a - b - (c - a)"),
        ("(a + b) + (c + a)", "a + b + (c + a)"),  # sums of floats have an order
        ("-(-a)", "- -a"),
        ("-(--a)", "- --a"),
        ("a - (-b)", "a - -b"),
        ("&(&a)[b]", "&(&a)[b]"),
        ("(a ? b : c) ? (b) : (c ? a : b)", "(a ? b : c) ? b : c ? a : b"),
        ("(float)(a + b)", "(float)(a + b)"),
        ("(float)((a)[b])", "(float)a[b]"),
        ("((float)a)[b]", "((float)a)[b]"),
        ("(a, b), f((a, b), c)", "a, b), f((a, b), c"),
        ("sizeof (a)", "sizeof a"),
        ("sizeof ((float)a)", "sizeof ((float)a)"),  # not sizeof (float), and then a
        ("(a = b) + c", "(a = b) + c"),
        ("a = (b = c)", "a = b = c"),
        ("(a && b) || !(c == a)", "a && b || !(c == a)"),
        ("f((a))", "f(a)"),
    ],
)
def test_expressions_are_printed_with_the_brackets_they_need(written, printed):
    if written.startswith("(a, b)"):
        assert str(tree(written).body[0]) == "a, b, f((a, b), c);"
    else:
        assert str(value(written)) == printed


def test_statements_are_printed_a_line_each():
    snippet = """float t = x0, u[2];
for (int i = 0; i < 3; i++) {
    if (t > 1) {
        t *= 2;
        continue;
    } else if (t < 0) {
        break;
    } else {
        y0 = t;
    }
}
while (1) { }
do {
    t--;
} while (t > 0);
switch ((int)t) {
    case 1:;
    default:;
    y0 = 1;
}
{
    y0++;
}"""
    assert str(tree(snippet)) == snippet
    assert repr(tree("y0 = x0")) == "<Tree 'y0 = x0;'>"


def test_nodes_know_where_they_stand():
    snippet = "y0 = (x0 + w0) * f(x1.x, -2); // end\nif (y0) /* now */ y0 = 1;"
    found = tree(snippet)
    texts = {str(node): snippet[slice(*node.span)] for node in walk(found)}
    assert texts["x0 + w0"] == "x0 + w0"
    assert texts["(x0 + w0) * f(x1.x, -2)"] == "(x0 + w0) * f(x1.x, -2)"
    assert texts["f(x1.x, -2)"] == "f(x1.x, -2)"
    assert (texts["x1.x"], texts["-2"], texts["y0 = 1;"]) == ("x1.x", "-2", "y0 = 1")
    assert [snippet[slice(*span)] for span in found.comments] == ["// end", "/* now */"]


def test_trees_are_walked_folded_and_rewritten():
    product = value("a * (b + x0) * a")
    assert [str(n) for n in walk(product)][:3] == ["a * (b + x0) * a", "a * (b + x0)", "a"]
    assert names_in(product) == {"a", "b", "x0"}
    assert fold(product, lambda node, given: 1 + sum(given)) == 7
    renamed = rewrite(product, lambda n: Name("t") if n == B else n)
    assert str(renamed) == "a * (t + x0) * a"
    assert renamed.b is product.b  # what does not change is shared
    assert str(rewrite(tree("if (b) y0 = f(b, 1);"), lambda n: X if n == B else n)) == (
        "if (x0) {\n    y0 = f(x0, 1);\n}"
    )
    assert B != A and Number("a") != A and A != "a"


@pytest.mark.parametrize("n", [2000])  # Python's stack ends at 1000
@pytest.mark.parametrize("chain", ["+ x0", "* x0 - 1", ", x0", "? x0 : x0", "= x0", "< x0", "[0]"])
def test_long_chains_are_no_deeper_than_short_ones(chain, n):
    long, same, shorter = (value("(x0 " + f"{chain} " * m + ")") for m in (n, n, n - 1))
    assert long == same and hash(long) == hash(same)
    assert long != shorter
    assert value(f"({long})") == long
    assert sum(1 for _ in walk(long)) > n
    assert rewrite(long, lambda node: node) is long


def test_long_chains_of_else_if():
    chain = tree(" else ".join(f"if (x0 == {n}) y0 = {n};" for n in range(3000)))
    assert tree(str(chain)) == chain


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("f(", ")"),
        ("x0[", "]"),
        ("(float4)(", ")"),
        ("({ ", "; })"),
        ("1 ? ", " : 1"),
        ("- ", ""),
        ("(float)", ""),
    ],  # of these a compiler's stack overflowed
)
def test_nesting_has_an_end(opening, closing):
    limit = DEEPEST // 2 - 2
    assert value(opening * limit + "x0" + closing * limit) is not None
    for depth in (DEEPEST + 1, 5000):
        with pytest.raises(Fault, match="nest more than 128 deep"):
            value(opening * depth + "x0" + closing * depth)


@pytest.mark.parametrize(
    "head", ["if (x0) ", "for (;;) ", "while (x0) ", "do ", "t: ", "switch (x0) "]
)
def test_statements_nest_to_an_end(head):
    tail = "; while (x0)" if head == "do " else ""
    assert tree(head * 60 + "y0 = 1" + tail * 60) is not None
    with pytest.raises(Fault, match="nest more than 128 deep"):
        tree(head * 5000 + "y0 = 1;")
    with pytest.raises(Fault, match="nest more than 128 deep"):
        tree("{" * 5000 + "}" * 5000)


def test_what_a_preamble_holds():
    text = """
#define SQUARE(a) ((a) * (a))
#define TWICE(a) a + a
#define THRICE(a) TWICE(a) + a
#define real float
#define LIMIT 3
#define TOP LIMIT
#define VIA TWICE
typedef struct { float a, b; } pair;
__constant float table[2] = {1, 2};
static inline float f(const float a, __private pair *p) { return a * p->b; }
float g(float a);
float4 *h(void) { for (;;) goto end; end: return 0; }
float k(real a) { return SQUARE(a); }
"""
    found = read_preamble("Pointwise", text)
    assert found.types == {"real", "pair"}
    assert found.opaque >= {"TWICE", "THRICE", "VIA"}
    assert not found.opaque & {"SQUARE", "LIMIT", "TOP", "real", "f"}
    assert sorted(found.functions) == ["f", "k"]
    assert found.functions["f"] == Function(
        Type("static inline float"),
        "f",
        (
            Parameter(Type("const float"), Variable("a")),
            Parameter(Type("__private pair"), Variable("p", (), None, "*")),
        ),
        (Jump("return", Binary("*", A, Member(Name("p"), "->", "b"))),),
    )
    assert str(found.functions["f"]) == (
        "static inline float f(const float a, __private pair *p) {\n    return a * p->b;\n}"
    )
    assert not read_preamble("Pointwise", "#if 1\n" + text + "#endif").functions


def test_a_macro_that_may_be_anything_is_opaque():
    text = "#define TWICE(a) a + a\n#define SQUARE(a) ((a) * (a))\n#define SET(a, op, b) a op b"
    assert value("TWICE(x0) * a", text) == Binary("*", Opaque("TWICE(x0)", (X,)), A)
    assert value("SQUARE(x0)", text) == Call("SQUARE", (X,))
    found = tree("float t = SET(x0, +, 1); y0 = t; SET(y1, =, y0++) y2 += 1;", text).body
    assert isinstance(found[0], Opaque) and found[0].declares == ("t",)
    assert found[1] == do(Name("y0"), "=", Name("t"))
    changed = {n.target.text for n in walk(found[2]) if isinstance(n, Assign)}
    assert changed == {"y0", "y2"}
    assert tree("y0 = SQUARE(x0);", text) == tree("y0=SQUARE( x0 )", text)


BINARY = "+ - * / % & | ^ << < == != && || , ?:".split()


def extend(values):
    return st.one_of(
        st.builds(Binary, st.sampled_from(BINARY), values, values),
        st.builds(Assign, values, st.sampled_from(["=", "+=", "<<="]), values),
        st.builds(Ternary, values, values, values),
        st.builds(Unary, st.sampled_from("+ - ! ~ * & ++ --".split()), values),
        st.builds(Postfix, st.sampled_from(["++", "--"]), st.sampled_from([A, B])),
        st.builds(Cast, st.sampled_from([FLOAT, Type("typeof_y0"), Type("float4")]), values),
        st.builds(lambda *a: Vector(Type("float2"), a), values, values),
        st.builds(lambda *a: Call("f", a), values, values),
        st.builds(Index, values, values),
        st.builds(Member, values, st.just("."), st.just("x")),
        st.builds(Unary, st.just("sizeof"), values),
    )  # fmt: skip


TREES = st.recursive(st.sampled_from([A, B, X, ONE, Number(".5f")]), extend, max_leaves=15)


@settings(deadline=None)
@given(TREES)
def test_what_is_printed_is_read_as_the_same_tree(expression):
    (statement,) = tree(f"{expression};").body
    assert statement == Evaluate(expression)
