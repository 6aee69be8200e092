"""Strings that could mean one thing to the checks and another to C, or to their author."""

import re

import numpy as np
import pytest

import clprim as cp
from clprim.errors import DefinitionError
from clprim.language.definition import define_pointwise, define_reduction
from clprim.language.hints import of_complaint
from clprim.plan.pointwise.family import POINTWISE
from clprim.plan.pointwise.planner import Mapped
from clprim.plan.strides import Operand, dense_strides
from clprim.render import render
from clprim.traits import DeviceTraits

SEPARATORS = ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


def printed(expr, preamble=""):
    """The kernel's text for two float vectors, made without a device."""
    definition = define_pointwise(expr, name=None, preamble=preamble)
    operand = Operand((8,), dense_strides((8,), 4, (0,)), 0, np.dtype(np.float32))
    results, inputs = ((operand,) * n for n in (definition.results, definition.inputs))
    plan = POINTWISE.plan(Mapped(definition, (8,), results, inputs), DeviceTraits()).main
    return render(plan.template, plan.code)


def refused(expr, preamble="", **options):
    with pytest.raises(DefinitionError) as caught:
        define_pointwise(expr, name=None, preamble=preamble, **options)
    return str(caught.value)


# --- one idea of a line -----------------------------------------------------------------------


@pytest.mark.parametrize("separator", SEPARATORS)
def test_what_ends_no_line_in_c_ends_none_in_the_kernel(separator):
    comment = f"// see note{separator}y0 = 0;"
    text = printed(f"y0 = 2 * x0; {comment}\ny0 += 1;", preamble=comment)
    assert text.split("\n").count(f"y0 = 2 * x0; {comment}") >= 1
    assert "y0 = 0;" not in [line.strip() for line in text.split("\n")]
    if separator not in "\v\f":  # blanks to C
        assert "unexpected character" in refused(f"y0 = x0;{separator}y1 = x0;")


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_a_carriage_return_ends_a_line(end):
    found = define_pointwise(f"y0 = x0; // one{end}y1 = x0;{end}", name=None, preamble="")
    assert found.expr.text == "y0 = x0; // one\ny1 = x0;\n"
    assert found.results == 2
    assert "line 2: preprocessor lines" in refused(f'y0 = x0; //{end}#include "/etc/passwd"{end}')
    helpers = f"float f(float a){end}{{ return a; }} // no{end}"
    assert "\r" not in printed("y0 = f(x0);", preamble=helpers)


def test_lines_like_the_engines_marks_stay_comments():
    text = printed(
        'float index_t = x0; /*\n  #line 9 "kernel"\n#line 1 "snippet:expr"\n*/\n  y0 = index_t;'
    )
    assert '\n  #line 9 "kernel"\n#line 1 "snippet:expr"\n*/\n  y0 = index_t;\n#line ' in text
    assert "marks where generated code goes on" in refused('/*\n#line @ "kernel"\n*/ y0 = x0;')


@pytest.mark.parametrize(
    ("snippet", "problem", "line"),
    [
        ("y0 = x0; // a \\\ny0 = 2;", "a backslash here makes the next line a comment, too", 1),
        ("y0 = x0; // a \\ \t\ny0 = 2;", "a backslash here makes the next line a comment, too", 1),
        ("y0 = x0; // a \\", "a backslash here makes the next line a comment, too", 1),
        ("y0 = x0;\n// a ??/\ny0 = 2;", "'??/' is a backslash to C", 2),
        ('printf("??/"); y0 = 2; //");', "'??/' is a backslash to C", 1),
        ("y0 = x0; /* a *\\\n/ y0 = 2; /* */", "a backslash here lets the comment end below", 1),
        ("y0 = x0 /\\\n* y1 * / + 1;", "unexpected character '\\\\'", 1),
        ("ret\\\nurn;", "unexpected character '\\\\'", 1),
        ("y0 = x0;\0", "unexpected character '\\x00'", 1),
        ("y0 = x0; // \ud800", "unexpected character '\\ud800'", 1),
        ("y0 = \xa0x0;", "unexpected character '\\xa0'", 1),
        ("y0 = x\u0660;", "unexpected character '\u0660'", 1),
        ("größe = x0;", "unexpected character 'ö'", 1),
    ],
)
def test_what_c_reads_otherwise_than_it_looks_is_refused(snippet, problem, line):
    assert f"expr, line {line}: {problem}" in refused(snippet)
    if "\n" not in snippet.strip():
        assert f"preamble, line {line}: {problem}" in refused("y0 = x0;", preamble=snippet)


def test_comments_within_strings_are_none():
    snippet = (
        'printf("/* // %f", x0); y0 = x0; printf("*/ \\" //"); y1 = \'\\\'\' + \'"\'; y2 = x0;'
    )
    assert define_pointwise(snippet, name=None, preamble="").results == 3
    preamble = (
        '#define A "/*" // /*\n#define B /* over\n lines */ "//"\nint f(int a);\n'
        "#define C(a) a \\\n  + 1"
    )
    found = define_pointwise("y0 = f(C(x0));", name=None, preamble=preamble).expr.preamble
    assert found.names >= {"A", "B", "C", "f"}
    assert "a backslash here takes in what follows" in refused("y0 = x0;", preamble="#define A \\")


# --- large strings ----------------------------------------------------------------------------


def test_machine_made_sums_work(device):
    x = cp.asarray(np.arange(5, dtype=np.float32))
    total = cp.Pointwise("y0 = " + " + ".join(["x0"] * 5000) + ";")
    np.testing.assert_array_equal(total(x).get(), 5000 * np.arange(5))


def test_calls_within_calls_do_not_grow_by_powers(device):
    x = np.linspace(-3, 3, 37, dtype=np.float32)
    nested = cp.Pointwise("y0 = " + "max(" * 100 + "x0" + ", 1)" * 100 + ";")
    np.testing.assert_array_equal(nested(cp.asarray(x)).get(), np.maximum(x, 1))


@pytest.mark.parametrize("opening", ["(", "f(", "max(1, ", "-(", "x0 + (", "(float)("])
def test_deep_nesting_is_refused_as_a_definition(opening):
    snippet = "y0 = " + opening * 3000 + "x0" + ")" * 3000 + ";"
    assert "nest more than 128 deep" in refused(snippet, preamble="float f(float a);")


def test_a_step_of_a_thousand_terms_is_understood():
    step = "reduce_y0 += " + " + ".join(["y0"] * 3000) + ";"
    found = define_reduction(
        "y0 = x0;", init="reduce_y0 = 0;", step=step, combine=None, finalize=None, name=None,
        preamble="",
    )  # fmt: skip
    assert found.combine.text == "reduce_y0 += other_y0;"
    assert found.componentwise and found.expr.flops == 0 and found.step.flops == 3000


def test_operands_have_short_numbers():
    for digits in (5, 5000):
        assert "operands end at 9999" in refused("y0 = x" + "1" * digits + ";")
        assert "operands end at 9999" in refused("y" + "1" * digits + " = x0;")
        assert "takes one literal dimension" in refused("y0 = coord(" + "1" * digits + ");")


def test_a_long_line_is_quoted_in_part():
    for place in (0, 150, 5000, 9990):
        line = "y0 = " + " + ".join(["x0"] * 2000) + ";"
        start = line.index("x0", place)
        message = refused(line[:start] + "@" + line[start:])
        _, quoted, marks = message.split("\n")
        assert len(quoted) <= 4 + 202
        assert quoted[marks.index("^")] == "@"
        assert ("…" in quoted[:6]) == (start > 100)
    assert len(refused("y0 = " + "a" * 5000 + ";").split("\n")[0]) < 250


# --- what is meant ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snippet", "hint"),
    [
        ("y = x0*2", "unknown name 'y'; did you mean 'y0'?"),
        ("y0 = x * 2;", "unknown name 'x'; did you mean 'x0'?"),
        ("y0 = x0 * w;", "unknown name 'w'; did you mean 'w0'?"),
        ("y0 = x0 // 2", "'//' begins a comment, so '2' divides nothing; did you mean '/'?"),
        ("y0 = x0 // 2\ny1 = x0;", "did you mean '/'?"),
        ("y0 = (x0 + 1) // x1;", "'//' begins a comment, so 'x1' divides nothing"),
        ("y0 = x0 // size(0) + 1", "did you mean '/'?"),
        ("y0 = x0 ** 2;", "'**' is no operator of C; write x0 * x0, or pow(x0, 2)"),
        ("y0 = x0 ** -.5;", "'**' is no operator of C"),
        ("y0 = 2 ** x0;", "'**' is no operator of C"),
        ("y0 = x0 ** (1 + x1);", "'**' is no operator of C"),
        ("float t = 3; y0 = x0 ** t;", "'**' is no operator of C"),
        ("y0 = x0 ^ 2.0;", "'^' is exclusive or, of integers; a power is pow(x0, 2)"),
        ("y0 = exp(x0) ^ 2;", "'^' is exclusive or, of integers"),
        ("y0 = x0 * 2.f % 3;", "'%' takes integers; of floats it is fmod(x0, x1)"),
        ("y0 = sqrt(2);", "'sqrt' takes floating values, these are integers; write sqrt((float)2)"),
        ("y0 = exp(index / 2);", "write exp((float)(index / 2))"),
        ("y0 = relu(x0);", "unknown name 'relu'; write x0 < 0 ? 0 : x0"),
        ("y0 = x0 > 0 and x1 > 0;", "unknown name 'and'; C writes a && b"),
        ("y0 = x0 > 0 or x1 > 0;", "unknown name 'or'; C writes a || b"),
        ("y0 = not x0;", "unknown name 'not'; C writes !a"),
        ("y0 = np.exp(x0);", "unknown name 'np'; OpenCL C has its functions by name"),
        ("y0 = sum(x0);", "a snippet sees one element; sums over an array are a Reduction's"),
        ("float32 t = x0; y0 = t;", "unknown name 'float32'; write float"),
        ("# doubles it\ny0 = 2 * x0;", "'#' begins no comment in C, '//' does"),
        ("y0 = 2 * x0;  # doubles it", "'#' begins no comment in C, '//' does"),
        ("y0 = x0[index + 1];", "'x0' is one number, not an array; at_x0(i, j, …) reads"),
        ("y0 = x1[x0];", "'x1' is one number, not an array; at_x1(i, j, …) reads"),
        ("y0 = x0[0][1] + x1;", "'x0' is one number, not an array; at_x0(i, j, …) reads"),
        ("y0[index] = x0;", "'y0' is one number, not an array"),
        ("y0 = *x0;", "'x0' is one number, not an array"),
        ("y0 = x0->x;", "'x0' is one number, not an array"),
        ("y0 = x0(1);", "'x0' is one number, not an array"),
        ("y0 = w0[0];", "'w0' is one number, not an array"),
        ("{ float t = x0; } y0 = t;", "unknown name 't'"),
        ("for (int i = 0; i < 3; i++) y0 = x0; y0 += i;", "unknown name 'i'"),
        ("typeof_q t = x0; y0 = t;", "unknown name 'typeof_q'"),
        ("y0 = typeof_x1 + x0;", "typeof_x1"),
    ],
)  # fmt: skip
def test_what_was_meant_is_said(snippet, hint):
    message = refused(snippet)
    assert hint in message
    assert message.endswith("^")


@pytest.mark.parametrize(
    "snippet",
    [
        "y0 = x0; // 2",
        "y0 = x0 // why",
        "y0 = x0 // 2 is enough",
        "y0 = x0 // 1\n  + x1 // 2 more\n  ;",
        "y0 = x0 // x0, not its square",
        "float *p = &y0; *p = x0; y0 = 2 **p; y0 = p[0] * *p;",
        "float t[2] = {x0, 1}; y0 = x0 **t;",
        "int i = 3; y0 = i ^ 2; y0 = x0 ^ x1;",
        "y0 = pow(2, 3) + max(1, 2) + sqrt(2.f) + sqrt((float)index) + fma(1, 2, 3);",
        "float t = 1; { float t = 2; y0 = t; } y0 = t * x0;",
    ],
)
def test_what_is_right_is_not_questioned(snippet):
    assert define_pointwise(snippet, name=None, preamble="").results


def test_names_of_included_files_are_left_to_the_compiler():
    assert "unknown name 'own'" in refused("y0 = own(x0);")
    define_pointwise("y0 = own(x0);", name=None, preamble='#include "own.h"')


@pytest.mark.parametrize(
    ("snippet", "dtype", "hint"),
    [
        ("y0 = x0 ^ 2;", np.float32, "'^' is exclusive or, of integers; a power is pow(x0, 2)"),
        ("y0 = 1 + x0 % 2;", np.float32, "'%' takes integers; of floats it is fmod(x0, x1)"),
    ],
)
def test_what_only_the_compiler_sees_gets_its_hint(device, snippet, dtype, hint):
    with pytest.raises(cp.BuildError, match=re.escape(hint)):
        cp.Pointwise(snippet)(cp.zeros((3,), dtype))


def test_an_ambiguous_function_gets_its_hint():  # some compilers choose one by themselves
    said = of_complaint("call to 'sqrt' is ambiguous", "sqrt(x0);")
    assert said == "sqrt takes floating values; an integer is converted by (float)x0"
    assert of_complaint("no matching function for call to 'sqrt'", "sqrt(x0, 2);") is None
    assert of_complaint("use of undeclared identifier 'q'", "q ^ 2") is None


def test_functions_of_floats_take_arrays_of_integers_where_they_convert(device):
    x = np.arange(9, dtype=np.int32)
    np.testing.assert_array_equal(cp.Pointwise("y0 = pow(x0, 2);")(cp.asarray(x)).get(), x * x)


def test_inline_functions_of_a_preamble_are_static():
    """C99 defines no other where it is not inlined, and not every compiler inlines."""
    twice = "inline float twice(float x) { return 2 * x; }"
    for given, expected in (
        (twice, f"static {twice}"),
        (f"static {twice}", f"static {twice}"),
        (f"inline static{twice[6:]}", f"inline static{twice[6:]}"),
        (f"/* inline */ {twice}\n{twice}", f"/* inline */ static {twice}\nstatic {twice}"),
    ):
        assert define_pointwise("y0 = twice(x0);", name=None, preamble=given).preamble == expected


def test_gradients_go_through_such_functions(device):
    op = cp.Pointwise(
        "y0 = twice(x0) * x0;", preamble="inline float twice(float x) {return 2 * x;}"
    )
    x = cp.asarray(np.arange(5, dtype=np.float32))
    np.testing.assert_array_equal(op.gradient()(x, grad=x).get(), 4 * np.arange(5.0) ** 2)
