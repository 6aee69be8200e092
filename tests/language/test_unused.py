"""What a snippet computes for nothing is left out, and nothing else."""

import pytest

from clprim.language.definition import define_pointwise
from clprim.language.unused import without_unused


def left(text, preamble=""):
    snippet = define_pointwise(text, name="f", preamble=preamble).expr
    found = without_unused(snippet).text
    assert found.count("\n") == snippet.text.count("\n")
    define_pointwise(found, name="f", preamble=preamble)
    return " ".join(found.replace(";", " ; ").split())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("float t = 2 * x0; y0 = x0;", "; y0 = x0 ;"),
        ("float t = 2 * x0; y0 = t;", "float t = 2 * x0 ; y0 = t ;"),
        ("float t = x0, u = 1; y0 = x0;", "float t = x0, u = 1 ; y0 = x0 ;"),
        ("float t; t = x0; t *= t; y0 = x0;", "; ; ; y0 = x0 ;"),
        ("float t = x0; float u = t; u += t; y0 = x0;", "; ; ; y0 = x0 ;"),
        (
            "int c = 0; float b = x0;\nif (x1 > b) {\nb = x1; c = 1; }\ny0 = b;",
            "; float b = x0 ; if (x1 > b) { b = x1 ; ; } y0 = b ;",
        ),
        ("if (x0 > 1) y0 = x0; else { float t = x0; }", "if (x0 > 1) y0 = x0 ; else { ; }"),
        ("float t = 2 * x0; y0 = x1;", "; y0 = x0;"),
        ("float t = at_x0(0) * w0; typeof_x1 u = w1; y0 = u;", "; typeof_x0 u = w0; y0 = u;"),
        # What asks, counts, is assigned in passing or draws is needed.
        ("int c = 2; while (c > 0) { c -= 1; } y0 = x0;",) * 2,
        ("for (int i = 0; i < 3; ++i) { y0 += x0; }",) * 2,
        ("int c = 0; c++; y0 = x0;",) * 2,
        ("float u = 0; float t = (u = x0); y0 = u;",) * 2,
        ("float t = rand(); y0 = x0;",) * 2,
        ("float t[2]; t[0] = x0; y0 = t[0];",) * 2,
        ("y0 = x0; float t = y0; y1 = x0 + 1;", "y0 = x0 ; ; y1 = x0 + 1 ;"),
    ],
)
def test_what_is_left(text, wanted):
    assert left(text) == " ".join(wanted.replace(";", " ; ").split())


def test_a_function_that_writes_through_a_pointer_is_called():
    preamble = "float both(float x, float *twice) { *twice = 2 * x; return x; }"
    text = "float t = 0; float u = both(x0, &t); y0 = t;"
    assert "both(x0, &t)" in left(text, preamble)


def test_operands_that_are_left_are_named():
    text = "float t = x0 * w0; y0 = x3 + at_x2(0) * w1;"
    found = without_unused(define_pointwise(text + " (void)x1;", name="f", preamble="").expr)
    assert (found.arrays, found.numbers) == ((1, 2, 3), (1,))
    assert found.text.split() == "; y0 = x2 + at_x1(0) * w0; (void)x0;".split()
