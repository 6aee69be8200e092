"""Snippets become tokens that know their place; brackets, comments and strings must be closed."""

import pytest

from clprim.errors import DefinitionError
from clprim.language.tokens import caret_message, tokenize


def texts(snippet):
    return [token.text for token in tokenize("Pointwise", "expr", snippet)]


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        ("", []),
        (" \t\n ", []),
        ("y0=x0;", ["y0", "=", "x0", ";"]),
        ("a<<=b>>=c<<d>>e", ["a", "<<=", "b", ">>=", "c", "<<", "d", ">>", "e"]),
        ("a->b++ + ++c--", ["a", "->", "b", "++", "+", "++", "c", "--"]),
        ("a&&b||c&d|e^f", ["a", "&&", "b", "||", "c", "&", "d", "|", "e", "^", "f"]),
        ("a<=b>=c==d!=e!f~g", "a <= b >= c == d != e ! f ~ g".split()),
        ("x0/2", ["x0", "/", "2"]),
        ("x0/ *p", ["x0", "/", "*", "p"]),
        ("a[1].x?b:c", ["a", "[", "1", "]", ".", "x", "?", "b", ":", "c"]),
        ("1 1. .5 1.5e-3f 1e+9 0x1Fu 7ul 2.h", "1 1. .5 1.5e-3f 1e+9 0x1Fu 7ul 2.h".split()),
        ("1-2", ["1", "-", "2"]),
        ("x0 // to the end = (\n+ 1", ["x0", "+", "1"]),
        ("x0 /* over\n two ( lines */ + 1", ["x0", "+", "1"]),
        ("a /**/ b /* * / */ c", ["a", "b", "c"]),
        ("'a' '\\'' \"(\" \"\\\"\"", ["'a'", "'\\''", '"("', '"\\""']),
        ("# pragma unroll\nx0", ["# pragma unroll", "x0"]),
        ("_a __b1 Z", ["_a", "__b1", "Z"]),
    ],
)
def test_tokens(snippet, expected):
    assert texts(snippet) == expected


def test_a_token_knows_its_kind_and_place():
    snippet = "y0 = // c\n  0.5f * f('a');\n#if 1"
    tokens = tokenize("Pointwise", "expr", snippet)
    assert [t.kind for t in tokens] == "name op number op name op string op op directive".split()
    for token in tokens:
        assert snippet[token.start :].startswith(token.text)


@pytest.mark.parametrize(
    ("snippet", "problem", "line", "caret"),
    [
        ("y0 = x0 @ 2;", "unexpected character '@'", 1, "        ^"),
        ("y0 = $x0;", "unexpected character '$'", 1, "     ^"),
        ("y0 = x0 \\ 2;", "unexpected character '\\\\'", 1, "        ^"),
        ("y0 = x0 × 2;", "unexpected character '×'", 1, "        ^"),
        ("y0 = x0; /* never", "this comment is never closed", 1, "         ^^"),
        ("y0 = x0;\n  /* never\n*", "this comment is never closed", 2, "  ^^"),
        ("y0 = 'a", "this string is never closed", 1, "     ^"),
        ('y0 = "a\n";', "this string is never closed", 1, "     ^"),
        ("y0 = (x0;", "unbalanced bracket: '(' is never closed", 1, "     ^"),
        ("y0 = ((x0);", "unbalanced bracket: '(' is never closed", 1, "     ^"),
        ("y0 = x0);", "unbalanced bracket: ')' closes nothing", 1, "       ^"),
        ("y0 = [x0);", "unbalanced bracket: ')' closes '['", 1, "        ^"),
        ("if (x0) {\n\ty0 = 1;", "unbalanced bracket: '{' is never closed", 1, "        ^"),
        ("y0 = 1;\n\t}", "unbalanced bracket: '}' closes nothing", 2, "\t^"),
        ("y0 = (1; // )", "unbalanced bracket: '(' is never closed", 1, "     ^"),
    ],
)
def test_what_c_does_not_know_is_pointed_at(snippet, problem, line, caret):
    with pytest.raises(DefinitionError) as caught:
        tokenize("Reduction", "step", snippet)
    quoted = snippet.split("\n")[line - 1]
    assert str(caught.value) == f"Reduction step, line {line}: {problem}\n    {quoted}\n    {caret}"


@pytest.mark.parametrize("start", [0, 4, 9])
def test_the_caret_stays_within_its_line(start):
    head, line, marks = caret_message("A", "b", "ab\n\tcde\nfg", start, 50, "bad").split("\n")
    assert head == f"A b, line {[1, 2, 3][(start > 2) + (start > 7)]}: bad"
    assert len(marks) <= len(line)
    assert marks.strip("\t ") == "^" * (len(line) - (len(marks) - len(marks.lstrip("\t "))))


def test_an_empty_line_still_gets_a_caret():
    assert caret_message("A", "b", "", 0, 1, "bad") == "A b, line 1: bad\n    \n    ^"
