"""Wrong snippets fail when they are defined, with the line and a caret; right ones pass."""

import pytest

import clprim as cp
from clprim.errors import ClprimError, DefinitionError
from clprim.language.definition import define_pointwise, define_reduction

RETURN = "a snippet is pasted into a kernel, not called; helper functions go to preamble="
MEMORY = "the engine declares kernels and their memory; constants go to preamble="
APART = "work-items run apart inside a snippet and cannot wait for each other"
WHICH = "which work-item computes an element is the engine's choice; use index or coord(d)"
KNOWN = "arrays are x0, x1, …, scalars w0, …, results y0, …, helpers go to preamble="
POINTWISE = "at_xN, coord, index, inside_xN, rand, randint, randn, size, size_xN, wN, xN, yN"

# (snippet, what is wrong, the characters that are marked); `§` precedes the marked characters.
POINTWISE_ERRORS = [
    # unknown names
    ("y0 = §foo(x0);", "unknown name 'foo'; did you mean 'floor'?", 3),
    ("y0 = §lenght(x0);", "unknown name 'lenght'; did you mean 'length'?", 6),
    ("y0 = x0 + §tmp;", f"unknown name 'tmp'; {KNOWN}", 3),
    ("float scale = 2; y0 = x0 * §scael;", "unknown name 'scael'; did you mean 'scale'?", 5),
    ("y0 = §x00;", "unknown name 'x00': operands are numbered without zeros", 3),
    ("y0 = 3§x;", "unknown name 'x'; did you mean 'x0'?", 1),
    ("y0 = x0;\n  y1 = x0 +\n\t§qqq;", f"unknown name 'qqq'; {KNOWN}", 3),
    ("y0 = x0 * §t; float t = 2;", f"unknown name 't'; {KNOWN}", 1),
    # results
    ("§", "no result is assigned; expected y0 = …;", 1),
    ("§// y0 = x0;", "no result is assigned; expected y0 = …;", 1),
    ("§float t = 1;", "no result is assigned; expected y0 = …;", 1),
    ("§y0 == x0;", "y0 is never assigned", 2),
    ("§y1 = x0;", "y0 is never assigned", 2),
    ("y0 = x0; §y2 = x0;", "y1 is never assigned", 2),
    ("y0 = §y1;", "y1 is never assigned", 2),
    ("y0 = x0 & §y1;", "y1 is never assigned", 2),
    # operands
    (
        "y0 = x0 + §x2;",
        "'x2' is used but x1 is not: operands are numbered from 0 "
        "(an operand for its shape alone: (void)x1;)",
        2,
    ),
    (
        "y0 = §w1;",
        "'w1' is used but w0 is not: operands are numbered from 0 "
        "(an operand for its shape alone: (void)w0;)",
        2,
    ),
    ("§x0 = 1; y0 = x0;", "'x0' is an input; expr assigns yN and its own locals", 2),
    ("§x0++; y0 = x0;", "'x0' is an input; expr assigns yN and its own locals", 2),
    ("--§x0; y0 = x0;", "'x0' is an input; expr assigns yN and its own locals", 2),
    ("§w0 += 1; y0 = w0;", "'w0' is an input; expr assigns yN and its own locals", 2),
    ("y0 = modf(x0, &§x1);", "'x1' is an input; expr assigns yN and its own locals", 2),
    ("§index = 3; y0 = 1;", "'index' is not assigned here; expr assigns yN and its own locals", 5),
    *(
        (
            f"y0 = §{name};",
            f"{name!r} is not available in expr of a Pointwise, which knows {POINTWISE}",
            len(name),
        )
        for name in ("reduce_y0", "other_y0", "count", "reduce_item")
    ),
    # dimensions
    *(
        (f"y0 = §{text};", f"{text[:5]} takes one literal dimension: coord(0)", 5)
        for text in ("coord(d)", "coord(0, 1)", "coord", "coord(1.0)", "coord(1 + 1)")
    ),
    ("y0 = §size();", "size takes one literal dimension: size(0)", 4),
    # reserved words
    ("§return x0;", f"'return' is reserved: {RETURN}", 6),
    ("y0 = x0; §goto end;", f"'goto' is reserved: {RETURN}", 4),
    ('§asm(""); y0 = 1;', f"'asm' is reserved: {RETURN}", 3),
    ("§static int a = 1; y0 = a;", f"'static' is reserved: {RETURN}", 6),
    ("§__kernel void f() {}", f"'__kernel' is reserved: {MEMORY}", 8),
    ("y0 = x0; §local float a;", f"'local' is reserved: {MEMORY}", 5),
    ("§barrier(CLK_LOCAL_MEM_FENCE); y0 = x0;", f"'barrier' is reserved: {APART}", 7),
    ("y0 = §get_global_id(0);", f"'get_global_id' is reserved: {WHICH}", 13),
    ("float §x0 = 1; y0 = x0;", "'x0' is reserved: the engine declares it", 2),
    ("float §index = 1; y0 = index;", "'index' is reserved: the engine declares it", 5),
    ("float a = 1, §y0 = 2;", "'y0' is reserved: the engine declares it", 2),
    ("int *§y0 = 0;", "'y0' is reserved: the engine declares it", 2),
    ("y0 = §cp_x;", "'cp_x' is reserved: names with cp_ belong to the engine", 4),
    ("int §cp_t = 1; y0 = cp_t;", "'cp_t' is reserved: names with cp_ belong to the engine", 4),
    ("y0 = x0; §break;", "'break' outside a loop would leave the engine's own loop", 5),
    ("§continue;", "'continue' outside a loop would leave the engine's own loop", 8),
    # the preprocessor
    ("§#define A 1\ny0 = A;", "preprocessor lines belong into preamble=", 11),
    ("y0 = x0;\n  §#pragma unroll", "preprocessor lines belong into preamble=", 14),
    # brackets, comments, characters: the rest is in test_tokens.py
    ("y0 = §(x0;", "unbalanced bracket: '(' is never closed", 1),
    ("y0 = x0§@;", "unexpected character '@'", 1),
]


def message(owner, part, marked, problem, length):
    """The whole message for a snippet with ``§`` before the marked characters."""
    start = marked.index("§")
    line = marked.count("\n", 0, start)
    column = start - (marked.rfind("\n", 0, start) + 1)
    quoted = marked.replace("§", "").split("\n")[line]
    indent = "".join("\t" if c == "\t" else " " for c in quoted[:column])
    return f"{owner} {part}, line {line + 1}: {problem}\n    {quoted}\n    {indent}{'^' * length}"


@pytest.mark.parametrize(("marked", "problem", "length"), POINTWISE_ERRORS)
def test_a_wrong_pointwise_snippet_is_pointed_at(marked, problem, length):
    with pytest.raises(DefinitionError) as caught:
        cp.Pointwise(marked.replace("§", ""))
    assert str(caught.value) == message("Pointwise", "expr", marked, problem, length)
    assert isinstance(caught.value, ClprimError)
    assert isinstance(caught.value, ValueError)


DERIVE = (
    "cannot derive how two partial results merge from this step; "
    "give combine=, which takes other_yN into reduce_yN"
)
REDUCTION_ERRORS = [
    # (part, snippet, what is wrong, marked characters, other parts)
    ("expr", "§y0 = 1;", "a reduction needs at least one array: use x0", 1, {}),
    ("expr", "§", "a reduction needs at least one array: use x0", 1, {"step": "reduce_y0 += 1;"}),
    (
        "expr",
        "§reduce_y0 = x0;",
        "'reduce_y0' is not available in expr of a Reduction, which knows coord, index, "
        "rand, randint, randn, reduce_item, size, wN, xN, yN",
        9,
        {},
    ),
    ("expr", "y0 = x0; §y2 = x0;", "y1 is never assigned", 2, {}),
    ("init", "§", "no partial is started; expected reduce_y0 = …;", 1, {}),
    (
        "init",
        "§y0 = 0;",
        "'y0' is not available in init of a Reduction, which knows reduce_yN, wN",
        2,
        {},
    ),
    (
        "init",
        "reduce_y0 = §x0;",
        "'x0' is not available in init of a Reduction, which knows reduce_yN, wN",
        2,
        {},
    ),
    ("init", "§reduce_y1 = 0;", "reduce_y0 is never assigned", 9, {}),
    ("step", "§", "step never updates reduce_y0, which init starts", 1, {}),
    (
        "step",
        "§reduce_y0 += y0;",
        "step never updates reduce_y1, which init starts",
        1,
        {"init": "reduce_y0 = 0; reduce_y1 = 0;"},
    ),
    ("step", "§reduce_y1 += y0;", "init never assigns reduce_y1", 9, {}),
    ("step", "reduce_y0 += §y1;", "y1 is never assigned by the expression", 2, {}),
    ("step", "§reduce_y0 = reduce_y0 * 2 + y0;", DERIVE, 1, {}),
    ("step", "§reduce_y0 += y0; reduce_y0 *= 2;", DERIVE, 1, {}),
    ("step", "reduce_y0 += y0; §return;", f"'return' is reserved: {RETURN}", 6, {}),
    (
        "combine",
        "reduce_y0 += §y0;",
        "'y0' is not available in combine of a Reduction, which knows other_yN, reduce_yN, wN",
        2,
        {},
    ),
    ("combine", "reduce_y0 += §other_y1;", "init never assigns reduce_y1", 8, {}),
    (
        "combine",
        "§other_y0 += reduce_y0;",
        "'other_y0' is not assigned here; combine assigns reduce_yN and its own locals",
        8,
        {},
    ),
    ("combine", "§", "combine never merges other_y0 into reduce_y0", 1, {}),
    (
        "finalize",
        "§reduce_y0 = 0;",
        "'reduce_y0' is not assigned here; finalize assigns yN and its own locals",
        9,
        {},
    ),
    ("finalize", "§", "no result is assigned; expected y0 = …;", 1, {}),
    ("finalize", "§y1 = reduce_y0;", "y0 is never assigned", 2, {}),
    ("finalize", "y0 = §reduce_y1 / count;", "init never assigns reduce_y1", 9, {}),
    ("finalize", "y0 = reduce_y0 / §cnt;", "unknown name 'cnt'; did you mean 'count'?", 3, {}),
    (
        "finalize",
        "y0 = §other_y0;",
        "'other_y0' is not available in finalize of a Reduction, which knows count, reduce_yN, "
        "wN, xN, yN",
        8,
        {},
    ),
    (
        "finalize",
        "§count = 1; y0 = count;",
        "'count' is not assigned here; finalize assigns yN and its own locals",
        5,
        {},
    ),
]


@pytest.mark.parametrize(("part", "marked", "problem", "length", "others"), REDUCTION_ERRORS)
def test_a_wrong_reduction_snippet_is_pointed_at(part, marked, problem, length, others):
    parts = {"expr": "y0 = x0;", "init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
    parts |= {**others, part: marked.replace("§", "")}
    with pytest.raises(DefinitionError) as caught:
        cp.Reduction(parts.pop("expr"), **parts)
    assert str(caught.value) == message("Reduction", part, marked, problem, length)


@pytest.mark.parametrize("loop", ["for (;;) {}", "while (0) ;", "do {} while (0);"])
@pytest.mark.parametrize("jump", ["break", "continue"])
def test_leaving_the_engines_loop_behind_a_loop_of_ones_own_is_refused(loop, jump):
    with pytest.raises(DefinitionError, match=f"'{jump}' outside a loop"):
        cp.Pointwise(f"y0 = x0; {loop} {jump};")


def test_continue_in_a_switch_alone_is_refused():
    with pytest.raises(DefinitionError, match="'continue' outside a loop"):
        cp.Pointwise("y0 = x0; switch ((int)x0) { case 0: continue; }")


@pytest.mark.parametrize(
    ("preamble", "problem"),
    [
        ("float f(float a) {\n  return (a; }", "line 2: unbalanced bracket: '}' closes '('"),
        ("float f( {", "line 1: unbalanced bracket: '{' is never closed"),
        ("/* ", "line 1: this comment is never closed"),
    ],
)
def test_a_wrong_preamble_is_pointed_at(preamble, problem):
    with pytest.raises(DefinitionError) as caught:
        cp.Pointwise("y0 = x0;", preamble=preamble)
    assert f"Pointwise preamble, {problem}" in str(caught.value)
    assert str(caught.value).endswith("^")


@pytest.mark.parametrize("name", ["1a", "a b", "", 5, "größe", "float", "kernel", "if", "max"])
def test_a_name_that_is_no_kernels_is_refused(name):
    with pytest.raises(DefinitionError, match="name="):
        cp.Pointwise("y0 = x0;", name=name)


@pytest.mark.parametrize("snippet", [None, 5, b"y0 = x0;", ["y0 = x0;"]])
def test_a_snippet_is_a_string(snippet):
    with pytest.raises(DefinitionError, match="expected a string of OpenCL C, got"):
        cp.Pointwise(snippet)
    with pytest.raises(DefinitionError, match="Reduction init: expected a string"):
        cp.Reduction("y0 = x0;", init=snippet, step="reduce_y0 += y0;")


def test_result_types_are_counted_and_checked_when_defined():
    with pytest.raises(DefinitionError, match="names 2 dtypes for 1 results"):
        cp.Pointwise("y0 = x0;", result_type=(int, int))
    with pytest.raises(
        cp.DTypeError, match=r"datetime64.* is not supported; supported are bool, int8"
    ):
        cp.Pointwise("y0 = x0;", result_type="M8[s]")
    with pytest.raises(cp.DTypeError, match="'nonsense' is not a dtype"):
        cp.Pointwise("y0 = x0;", result_type="nonsense")
    with pytest.raises(DefinitionError, match="names 1 dtypes for 2 results"):
        cp.Reduction(
            "y0 = x0;",
            init="reduce_y0 = 0; reduce_y1 = 0;",
            step="reduce_y0 += y0; reduce_y1 += y0;",
            partial_type=("float32",),
        )


# --- what is right ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "snippet",
    [
        "y0 = x0",  # the last semicolon may be left out
        "y0 = x0;;",
        "{ y0 = x0; }",
        "if (x0 > 0) y0 = 1; else { y0 = 2; }",
        "float a = 1, b = a; y0 = a + b;",
        "const float t = 2; y0 = t * x0;",
        "unsigned n = 3; y0 = n; size_t m = 4; y0 += m;",
        "typeof_x0 t = x0; typeof_y0 u = t; y0 = (typeof_y0)u;",
        "for (int i = 0, j = 2; i < 3; i++) { if (i == j) continue; y0 += x0; }",
        "int k = 0; while (1) { if (++k > 3) break; } y0 = k;",
        "int k = 0; do { k++; } while (k < 3); y0 = k;",
        "switch ((int)x0) { case 0: y0 = 1; break; default: y0 = 2; }",
        "float a[3]; a[0] = x0; y0 = a[0];",
        "float *p = &y0; *p = x0; y0 = *p;",
        "float2 v = (float2)(x0, 1); y0 = v.x + v.s1;",
        "int e; y0 = frexp(x0, &e);",
        "y0 = modf(x0, &y1);",
        "y0 = sincos(x0, &y1);",
        "y0 = x0 ? 0x1F : 1e-3f + .5 + 1.f;",
        "y0 = coord(0) + coord(-1) * size(1) + index;",
        "(void)x0; y0 = x1;",
        "y0 = M_PI_F + INFINITY + FLT_MAX + INT_MAX + convert_int_sat_rte(x0) + as_uint(x1);",
        "y0 = x0; // a comment (\ny0 += 1; /* and\nanother { */",
        "int return_code = 1, breaker = 2; y0 = return_code + breaker;",
        "y0 = x10 * x1 + x2 + x3 + x4 + x5 + x6 + x7 + x8 + x9 + x0;",
        "y0 += x0; y1 -= x0; y2 <<= 1; ++y3; y4--;",
    ],
)
def test_what_c_allows_is_allowed(snippet):
    define_pointwise(snippet, name=None, preamble="")


@pytest.mark.parametrize(
    ("snippet", "preamble"),
    [
        ("y0 = twice(x0);", "float twice(float a) { return 2 * a; }"),
        ("pair p; p.a = x0; y0 = p.a;", "typedef struct { float a; } pair;"),
        ("y0 = x0 * SCALE;", "#define SCALE 3"),
        ("y0 = table[(int)x0];", "__constant float table[2] = {1, 2};"),
    ],
)
def test_a_preambles_names_may_be_used(snippet, preamble):
    define_pointwise(snippet, name=None, preamble=preamble)
    with pytest.raises(DefinitionError, match="unknown name"):
        define_pointwise(snippet, name=None, preamble="")


def test_what_a_snippet_uses_and_assigns_is_known():
    found = define_pointwise(
        "typeof_x1 t = w0; y0 = x0 + coord(-1); y1 = t; y1 += size(0) + index;",
        name="k",
        preamble="",
    )
    assert (found.inputs, found.scalars, found.results, found.name) == (2, 1, 2, "k")
    expr = found.expr
    assert expr.used == {
        *("x0", "x1", "typeof_x1", "w0", "y0", "y1"),
        *("index", "coord", "size"),
    }
    assert expr.assigned == {"y0", "y1"}
    assert expr.dims == {("coord", -1), ("size", 0)}
    assert expr.numbers("x") == {0, 1}
    assert expr.assigned_numbers("y") == {0, 1}


def test_a_reduction_counts_its_operands_over_all_parts():
    found = define_reduction(
        "y0 = x0 * w1; y1 = x1;",
        init="reduce_y0 = w0; reduce_y1 = 0; reduce_y2 = 0;",
        step="reduce_y0 += y0; reduce_y1 += x2; reduce_y2 = max(reduce_y2, y1);",
        combine=None,
        finalize="y0 = reduce_y0 + reduce_y1 * w2 / count; y1 = reduce_y2;",
        name=None,
        preamble="",
    )
    assert (found.inputs, found.scalars, found.values) == (3, 3, 2)
    assert (found.partials, found.results, found.name) == (3, 2, "reduction")
    assert (found.summed, found.positions) == ({0, 1}, frozenset())
    assert len(found.snippets) == 5


def test_an_empty_expression_lets_step_read_the_inputs():
    found = define_reduction(
        "",
        init="reduce_y0 = 0;",
        step="reduce_y0 += x0 * x1;",
        combine=None,
        finalize=None,
        name=None,
        preamble="",
    )
    assert (found.inputs, found.values, found.partials) == (2, 0, 1)


@pytest.mark.parametrize(
    ("snippet", "body"),
    [
        ("y0 = x0;", "y0 = x0;"),
        ("y0 = x0", "y0 = x0;"),
        ("y0 = x0 // why", "y0 = x0; // why"),
        ("y0 = x0 /* ; */\n", "y0 = x0; /* ; */\n"),
        ("{ y0 = x0; }", "{ y0 = x0; }"),
        ("  y0 = x0;\n  // end", "  y0 = x0;\n  // end"),
    ],
)
def test_the_last_semicolon_is_put_in_place(snippet, body):
    assert define_pointwise(snippet, name=None, preamble="").expr.body == body


@pytest.mark.parametrize(
    ("snippet", "flops"),
    [
        ("y0 = x0;", 0),
        ("y0 = -x0;", 0),
        ("y0 = x0 - -x1;", 1),
        ("y0 = (x0 + x1) * 2 / x0;", 3),
        ("y0 = fma(x0, x1, x2);", 2),
        ("y0 = exp(x0) + max(x0, x1);", 3),
        ("y0 = x0; y0 += x1; y0 *= 2;", 2),
        ("y0 = x0 > 0 ? x0 : 0;", 0),
    ],
)
def test_operations_are_counted(snippet, flops):
    assert define_pointwise(snippet, name=None, preamble="").expr.flops == flops


def test_operators_print_as_what_they_were_made_of():
    assert repr(cp.Pointwise("y0 = x0\n    * 2;")) == "<clprim.Pointwise 'y0 = x0 * 2;'>"
    long = "y0 = " + " + ".join(["x0"] * 30) + ";"
    assert repr(cp.Pointwise(long)) == f"<clprim.Pointwise {long[:57] + '...'!r}>"
    summed = cp.Reduction("", init="reduce_y0 = 0;", step="reduce_y0 += x0;")
    assert repr(summed) == "<clprim.Reduction 'reduce_y0 += x0;'>"
