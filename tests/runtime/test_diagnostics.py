from textwrap import dedent

import pytest

from clprim.runtime.diagnostics import complaints, explain

SOURCE = """\
__kernel void k(__global const float* px0, __global float* py0)
{
    float x0 = px0[get_global_id(0)], y0, reduce_y0 = 0;
    {
#line 1 "snippet:expr"
y0 = x0;
y0 = foo(x0);
#line 9 "kernel"
    }
    {
#line 1 "snippet:step"
        reduce_y0 += bar;
#line 14 "kernel"
    }
    py0[get_global_id(0)] = missing;
}
"""
SNIPPETS = {"expr": "y0 = x0;\ny0 = foo(x0);", "step": "  reduce_y0 += bar;"}
LINES = SOURCE.split("\n")


def message(log, snippets=SNIPPETS, source=SOURCE):
    return explain(log, source, title="Pointwise 'y0'", device="the device", snippets=snippets)


def test_the_sample_is_numbered_as_the_renderer_numbers():
    for index, line in enumerate(LINES):
        if '"kernel"' in line:
            assert line == f'#line {index + 2} "kernel"'


@pytest.mark.parametrize(
    "log",
    [
        "Compilation started\nsnippet:expr:2:6: error: no foo\n"
        "    2 | y0 = foo(x0);\n      |      ^~~\nCompilation failed",
        "error: snippet:expr:2:6: no foo\nDevice x failed to build the program",
        "error: snippet:expr:2:6 <Spelling=/x/_builtin_renames.h:66:24>: no foo",
        "input.cl:7:6: error: no foo\ny0 = foo(x0);\n     ^",
        "<kernel>:7:6: error: no foo",
        "/tmp/comgr-1/input/CompileSource:7:6: fatal error: no foo",
        "/tmp/snippet:expr:2:6: error: no foo",
        "snippet:expr(2:6): error: no foo",
    ],
    ids=["clang", "pocl", "pocl macro", "oclgrind", "real lines", "amd", "folder", "brackets"],
)
def test_all_formats_lead_to_the_snippet(log):
    assert message(log) == dedent("""\
        Pointwise 'y0': the OpenCL compiler refused it on the device
          expr, line 2:
            y0 = foo(x0);
                 ^
          error: no foo""")


@pytest.mark.parametrize("place", ["input.cl:20:6", "snippet:expr:2:6"])
def test_lines_are_found_behind_what_was_compiled_first(place):
    log = f"{place}: error: no foo\ninput.cl:12:1: error: of those ahead"
    (found,) = complaints(log, SOURCE, ahead=13)
    assert (found.part, found.line, found.compiled.strip()) == ("expr", 2, "y0 = foo(x0);")


@pytest.mark.parametrize(
    "log",
    [
        '"snippet:expr", line 2: error: no foo\n  y0 = foo(x0);\n       ^',
        '"snippet:expr", line 2: catastrophic error: no foo',
        '"snippet:expr", line 2: error #20: no foo',
        "snippet:expr:2: error: no foo",
        "snippet:expr(2): error C3861: no foo",
        "error: snippet:expr:2: no foo",
    ],
)
def test_without_a_column_there_is_no_caret(log):
    assert message(log) == dedent("""\
        Pointwise 'y0': the OpenCL compiler refused it on the device
          expr, line 2:
            y0 = foo(x0);
          error: no foo""")


def test_the_caret_follows_an_indentation_of_the_renderer():
    assert message("snippet:step:1:22: error: no bar").split("\n")[1:4] == [
        "  step, line 1:",
        "      reduce_y0 += bar;",
        "                   ^",
    ]


def test_columns_count_bytes_and_tabs():
    source = '#line 1 "snippet:expr"\n\ty0 = x0; /* café */ y0 += qq;\n#line 4 "kernel"\n'
    snippets = {"expr": "\ty0 = x0; /* café */ y0 += qq;"}
    column = 1 + len(snippets["expr"][: snippets["expr"].index("qq")].encode())
    shown = message(f"snippet:expr:1:{column}: error: no qq", snippets, source).split("\n")
    assert shown[2] == "        y0 = x0; /* café */ y0 += qq;"
    assert shown[3].index("^") == shown[2].index("qq")


def test_a_line_that_the_renderer_changed_is_quoted_without_a_caret():
    shown = message("snippet:expr:2:6: error: no foo", {"expr": "y0 = x0;\ny0 = FOO (x0) + 1;"})
    assert "    y0 = FOO (x0) + 1;\n  error:" in shown


def test_without_the_snippets_the_compiled_line_is_quoted():
    assert "    y0 = foo(x0);\n         ^\n" in message("snippet:expr:2:6: error: no foo", None)


def test_a_line_beyond_the_snippet_is_no_reason_to_fail():
    shown = message("snippet:expr:9:6: error: expected ';'").split("\n")
    assert shown[1:] == ["  expr, line 9:", "  error: expected ';'"]


def test_errors_at_one_place_are_told_once_and_many_are_cut():
    log = "\n".join(
        [
            "snippet:expr:2:6: error: no foo",
            "snippet:expr:2:6: error: expected expression",
            "kernel:15:29: error: no missing",
            "snippet:step:1:22: error: no bar",
            "snippet:expr:2:10: error: third",
            "snippet:expr:2:11: error: fourth",
        ]
    )
    assert [found.text for found in complaints(log, SOURCE)] == [
        "no foo",
        "no missing",
        "no bar",
        "third",
        "fourth",
    ]
    shown = message(log)
    assert "expected expression" not in shown
    assert "fourth" not in shown
    assert "missing" not in shown  # a consequence, as a rule
    assert shown.endswith("  (1 more in the compiler's log: .log)")


def test_pocls_prefix_of_builtins_is_taken_off():
    (found,) = complaints("error: snippet:expr:2:6: no match for '_cl_clamp'", SOURCE)
    assert found.text == "no match for 'clamp'"


def test_an_error_in_the_generated_code_is_quoted_with_its_surroundings():
    shown = message("kernel:15:29: error: no missing").split("\n")
    assert shown[1] == "  generated code, line 15: error: no missing"
    assert "  >   15 |     py0[get_global_id(0)] = missing;" in shown
    assert shown[2].startswith("      12 |         reduce_y0")
    assert shown[-1] == "  op.source(...) with the same arguments shows the whole kernel"


def test_a_log_without_a_place_is_quoted_and_cut():
    shown = message("\n".join(f"undefined reference {number}" for number in range(30)))
    assert "    undefined reference 19\n    (10 more lines: .log)\n" in shown
    assert "reference 20" not in shown


def test_warnings_notes_and_headers_are_passed_over():
    log = (
        "snippet:expr:1:1: warning: unused\n"
        "opencl-c.h:10097:22: note: candidate function not viable\n"
        "opencl-c.h:7:22: error: in a header\n"
        "2 errors generated.\n"
    )
    assert complaints(log, SOURCE) == []


def test_an_empty_log_is_said():
    assert "the compiler left no log" in message("")
