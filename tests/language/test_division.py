"""Integers that snippets divide: what is printed, and what comes of it where C leaves that open."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim.language.definition import define_pointwise
from clprim.language.guards import guarded

INTS = (("x", "int"), ("y", "int"), ("w", "long"))
LEAST = np.iinfo(np.int32).min


def printed(text, types=INTS, preamble=""):
    found, divided = guarded(define_pointwise(text, name=None, preamble=preamble).expr, types)
    return found.strip(), divided


@pytest.mark.parametrize(
    ("text", "expected", "divided"),
    [
        ("y0 = x0 / x1;", "y0 = cp_divide((x0), (x1));", "int"),
        ("y0 = x0%w0;", "y0 = cp_modulo((x0), (w0));", "long"),
        ("y0 = ((x0)) / ((x1 + 1));", "y0 = cp_divide((((x0))), (((x1 + 1))));", "int"),
        ("y0 = x0/x1/x2;", "y0 = cp_divide((cp_divide((x0), (x1))), (x2));", "int"),
        ("y0 = x0 / (x1 % x2);", "y0 = cp_divide((x0), ((cp_modulo((x1), (x2)))));", "int"),
        ("y0 = x0; y0 /= x1;", "y0 = x0; y0 = cp_divide((y0), (x1));", "int"),
        (
            "y0 = x0; y0 %= x1 / x2",
            "y0 = x0; y0 = cp_modulo((y0), (cp_divide((x1), (x2))));",
            "int",
        ),
        (
            "int a[2] = {x0}; int i = 0; a[i++] /= x1; y0 = a[0];",
            "int a[2] = {x0}; int i = 0; ({ __auto_type cp_to = &(a[i++]); "
            "*cp_to = cp_divide((*cp_to), (x1)); }); y0 = a[0];",
            "int",
        ),
        ("y0 = index / x0;", "y0 = cp_divide((index), (x0));", "long"),
        ("y0 = (uint)x0 / x1;", "y0 = cp_divide(((uint)x0), (x1));", "uint"),
        ("int4 v = x0; y0 = (v / x1).s0;", "int4 v = x0; y0 = (cp_divide((v), (x1))).s0;", "int4"),
        (
            "char4 v = x0; y0 = (v / 255).s0;",
            "char4 v = x0; y0 = (cp_divide((v), (255))).s0;",
            "char4",
        ),
        ("y0 = x0 / 0;", "y0 = cp_divide((x0), (0));", "int"),
        ("y0 = x0 / -1;", "y0 = cp_divide((x0), (-1));", "int"),
        ("y0 = x0 /* by */ / // this\n x1;", "y0 = cp_divide((x0), (x1));", "int"),
    ],
)
def test_divisions_that_may_fail_are_calls(text, expected, divided):
    assert printed(text) == (expected, (divided,))


@pytest.mark.parametrize(
    "text",
    [
        "y0 = x0 / 2;",
        "y0 = x0 % 10u;",
        "y0 = x0 / -2;",
        "y0 = x0 / (char)3;",
        "y0 = x0 / 2.0f;",
        "y0 = (float)x0 / x1;",
        "y0 = exp((float)x0) / x1;",
        "float s = x0; s /= x1; y0 = s;",
        "y0 = x0 / INFINITY;",
        "float4 v = x0; y0 = (v / x0).s0;",
        "y0 = own(x0) / own(x1);",
        "float t[4 / 2]; t[0] = x0; y0 = t[0];",
    ],
)
def test_all_else_stays_as_it_was_written(text):
    types = (("x", "int"), ("y", "float"), ("w", "long"))
    assert printed(text, types, preamble="float own(int a) { return a; }") == (text, ())


def test_operands_of_floats_are_divided_as_they_are():
    assert printed("y0 = x0 / x1;", (("x", "float"), ("y", "float"))) == ("y0 = x0 / x1;", ())
    assert printed("y0 = x0 / x1;", (("x0", "int"), ("x1", "double"), ("y", "float")))[1] == ()


def quotient(a, b):
    """C's quotient and remainder, where there are any, and what clprim makes of all others."""
    a, b = a.astype(object), b.astype(object)
    size = np.broadcast(a, b).shape
    q, r = np.zeros(size, object), np.zeros(size, object)
    for at, (m, n) in zip(np.ndindex(size), np.broadcast(a, b), strict=True):
        if n:
            q[at] = abs(m) // abs(n) * (1 if (m < 0) == (n < 0) else -1)
            r[at] = m - q[at] * n
    return q, r


@pytest.mark.everywhere
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_zero_and_the_least_number(device, dtype):
    info = np.iinfo(dtype)
    numbers = np.array([0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1], dtype)
    numbers = np.unique(np.concatenate([numbers, -numbers.astype("i8")]).astype(dtype))
    a, b = numbers.repeat(len(numbers)), np.tile(numbers, len(numbers))
    q, r = quotient(a, b)
    y = cp.Pointwise("y0 = x0 / x1; y1 = x0 % x1;")(cp.asarray(a), cp.asarray(b))
    for found, expected in zip(y, (q, r), strict=True):
        equal(found, (expected & (2 ** (8 * info.dtype.itemsize) - 1)).astype("u8").astype(dtype))


@pytest.mark.everywhere
def test_every_part_divides_so(device):
    a = np.array([[6, -5, LEAST], [7, 0, 3]], np.int32)
    b = np.array([[0, -1, -1], [2, 0, 0]], np.int32)
    x, z = cp.asarray(a), cp.asarray(b)
    quotients = np.array([[0, 5, LEAST], [3, 0, 0]], np.int64)
    y = cp.Pointwise("y0 = x0; y0 /= x1;")(x, z)
    equal(y, quotients.astype(np.int32))
    total = cp.Reduction(
        "y0 = x0 / x1;",
        init="reduce_y0 = 0; reduce_y1 = 1;",
        step="reduce_y0 += y0; reduce_y1 = reduce_y1 / x1;",
        combine="reduce_y0 += other_y0; reduce_y1 = reduce_y1 / (other_y1 - 1);",
        finalize="y0 = reduce_y0; y1 = count / reduce_y1 % reduce_y1;",
        result_type=np.int32,
    )
    found, rest = total(x, z, axis=1)
    equal(found, quotients.sum(1))
    equal(rest, np.zeros(2, np.int32))
    scan = cp.Scan("y0 = x0 % x1;", init="scan_y0 = 0;", step="scan_y0 += y0;")
    equal(scan(x, z, axis=1), np.array([[0, 0, 0], [1, 1, 1]]))


def test_vectors_of_floats_may_be_computed_beside_divided_positions(device):
    text = "int r = coord(1) / size_x1(0); y0 = at_x0(coord(0), r, coord(2)) * x2;"
    a = np.arange(120, dtype=np.float32).reshape(2, 3, 20)
    operands = cp.asarray(a), cp.ones((2,), np.float32), cp.full((20,), 2.0, np.float32)
    operator = cp.Pointwise(text)
    if device.traits.is_cpu:
        source = operator.source(*operands, shape=(2, 6, 20))
        assert "cp_divide" in source
        assert "float4 " in source or "float16 " in source or "float8 " in source
    y = operator(*operands, shape=(2, 6, 20))
    equal(y, 2 * a[:, [0, 0, 1, 1, 2, 2]])


@pytest.mark.everywhere
def test_an_epilogue_divides_so(device):
    a, b = np.array([[2, -4]], np.int32), np.array([[3, 1], [1, 1]], np.int32)
    by = cp.asarray(np.array([0, -1], np.int32))
    operator = cp.ops.matmul(
        cp.asarray(a), cp.asarray(b), epilogue="y0 = y0 / x0;", epilogue_args=(by,)
    )
    equal(operator, np.array([[0, 2]], np.int32))


def test_locals_may_be_called_as_the_engine_calls_its_own(device):
    names = ("rest", "quotient", "divide", "modulo", "divisor", "to", "in_a", "a", "b")
    text = " ".join(f"int {n} = x0 / x1; y0 += {n} % x1;" for n in names)
    x, z = cp.asarray(np.array([[7, 9]], np.int32)), cp.asarray(np.array([[2], [0]], np.int32))
    equal(
        cp.Pointwise(f"int i = 0, v[1] = {{0}}; v[i++] /= x0; {text}")(x, z),
        np.array([[9, 0], [0, 0]]),
    )


def test_a_complaint_points_where_the_user_wrote_it(device):
    with pytest.raises(cp.BuildError) as caught:
        cp.Pointwise("y0 = x0 / (x1 + 1) + (float2)(1, 2);")(
            cp.asarray(np.arange(3)), cp.asarray(np.arange(3))
        )
    shown = str(caught.value).split("\n")
    assert shown[2].strip() == "y0 = x0 / (x1 + 1) + (float2)(1, 2);"


def test_what_groups_count_is_a_real_number(device):
    x = np.arange(24, dtype=np.float32).reshape(2, 12)
    strings = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
    share = cp.Grouped(
        "y0 = x0;", **strings, finalize="group_y0 = 1 / count;", each="y0 = group_y0;"
    )
    np.testing.assert_array_equal(share(cp.asarray(x), axis=1).get(), np.full((2, 12), 1 / 12, "f"))
    halves = cp.Grouped(
        "y0 = x0;", **strings, finalize="group_y0 = count / 5;", each="y0 = group_y0;"
    )
    np.testing.assert_array_equal(halves(cp.asarray(x), axis=0).get(), np.full((2, 12), 0.4, "f"))
