"""The plain subset of C that analyses read; whatever is outside gives None, never a wrong tree."""

import pytest

from clprim.language.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    If,
    Name,
    Number,
    Ternary,
    Unary,
    names_in,
    parse,
)
from clprim.language.tokens import tokenize

A, B, C, X = Name("a"), Name("b"), Name("c"), Name("x0")


def tree(snippet):
    return parse(tokenize("Pointwise", "expr", snippet))


def value(expression):
    (statement,) = tree(f"y0 = {expression};")
    assert (statement.target, statement.op) == ("y0", "=")
    return statement.value


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
        ("a < b ? a : b", Ternary(Binary("<", A, B), A, B)),
        ("max(a, b + c)", Call("max", (A, Binary("+", B, C)))),
        ("f()", Call("f", ())),
        ("(float)a * b", Binary("*", Cast("float", A), B)),
        ("(unsigned int)-a", Cast("unsigned int", Unary("-", A))),
        ("(typeof_y0)x0", Cast("typeof_y0", X)),
        ("(a)", A),
        ("(a) - b", Binary("-", A, B)),
    ],
)
def test_expressions(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        ("", ()),
        (";;", ()),
        ("a = b", (Assign("a", "=", B),)),
        ("a += b; c <<= 1;", (Assign("a", "+=", B), Assign("c", "<<=", Number("1")))),
        ("{ a = b; { c = a; } }", (Assign("a", "=", B), Assign("c", "=", A))),
        ("float a = 1, b = a;", (Declare("float", "a", Number("1")), Declare("float", "b", A))),
        ("const int a = b;", (Declare("const int", "a", B),)),
        ("if (a) b = c;", (If(A, (Assign("b", "=", C),), ()),)),
        (
            "if (a) b = c; else { c = a; }",
            (If(A, (Assign("b", "=", C),), (Assign("c", "=", A),)),),
        ),
        ("a = b; // c", (Assign("a", "=", B),)),
    ],
)
def test_statements(snippet, expected):
    assert tree(snippet) == expected


@pytest.mark.parametrize(
    "snippet",
    [
        "for (;;) a = b;",
        "while (a) b = c;",
        "a++;",
        "++a;",
        "a = b++;",
        "a[0] = b;",
        "a = b[0];",
        "a.x = b;",
        "a = b.x;",
        "a = b->c;",
        "*a = b;",
        "a = *b;",
        "a = &b;",
        "f(a);",
        "(void)a;",
        "float a;",
        "float a[2] = b;",
        "float *a = b;",
        "a = b = c;",
        "a = (b, c);",
        "a = (float2)(b, c);",
        "a = 'x';",
        'a = "x";',
        "a = sizeof(float);",
        "a = b c;",
        "a = ;",
        "a = b +;",
        "a = f(b;",
        "a",
        "if (a b = c;",
        "switch (a) { case 0: b = c; }",
        "a ? b = c : c = b;",
    ],
)
def test_what_is_outside_the_subset_is_not_guessed(snippet):
    try:
        tokens = tokenize("Pointwise", "expr", snippet)
    except ValueError:  # an unbalanced bracket is refused before
        return
    assert parse(tokens) is None


def test_names_in_an_expression():
    assert names_in(value("(float)a + f(b, -c) * 2 ? x0 : a")) == {"a", "b", "c", "x0"}
    assert names_in(Number("1")) == frozenset()
