"""`ops.matmul` against NumPy in float64: exact on whole numbers, within bounds on others."""

import itertools

import numpy as np
import pytest
from conv_reference import check_close
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_memory import PLACES
from support import BFLOAT16, Guard, equal, numbers, same_bits, wide

import clprim as cp
from clprim import ops
from clprim.ops.product import matmul as matmul_module

FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]
FORMS = ["NN", "NT", "TN", "TT"]
ALGORITHMS = ["panels", "tiles"]  # a CPU's, and a GPU's
SIZES = [
    (1, 1, 1),
    (1, 17, 1),
    (5, 1, 7),
    (17, 13, 3),
    (64, 64, 64),
    (65, 63, 67),
    (33, 257, 129),
    (1, 300, 500),
    (500, 300, 1),
    (3, 2000, 5),
]
LARGE = [(260, 300, 515), (513, 515, 130)]


def swapped(a):
    return a.swapaxes(-1, -2)


def operands(form, m, k, n, batch_a=(), batch_b=(), dtype=np.float32, seed=0):
    """Stored operands of a product of a form, and the factors that they stand for."""
    a = numbers((*batch_a, k, m) if form[0] == "T" else (*batch_a, m, k), dtype, seed=seed)
    b = numbers((*batch_b, n, k) if form[1] == "T" else (*batch_b, k, n), dtype, seed=seed + 1)
    return a, b, swapped(a) if form[0] == "T" else a, swapped(b) if form[1] == "T" else b


def flags(form):
    return {"transpose_a": form[0] == "T", "transpose_b": form[1] == "T"}


# --- forms and sizes ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_forms_and_sizes(device, some, form):
    for size, algorithm in itertools.product(some(SIZES, 3), ALGORITHMS):
        a, b, left, right = operands(form, *size)
        found = ops.matmul(cp.asarray(a), cp.asarray(b), **flags(form), algorithm=algorithm)
        assert found.dtype == np.float32
        assert found.shape == (size[0], size[2])
        where = f"{size}, {algorithm}"
        np.testing.assert_array_equal(found.get(), wide(left) @ wide(right), err_msg=where)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("form", FORMS)
def test_larger_than_every_tile(device, some, form):
    for size, algorithm in itertools.product(some(LARGE, 2), ALGORITHMS):
        a, b, left, right = operands(form, *size)
        x, y = cp.asarray(a), cp.asarray(b)
        found = ops.matmul(x, y, **flags(form), algorithm=algorithm)
        equal(found, wide(left) @ wide(right))
        assert same_bits(ops.matmul(x, y, **flags(form), algorithm=algorithm), found)


@pytest.mark.everywhere
def test_sums_that_are_cut_in_pieces(device):
    # Few results and long sums: what a device shares out along the sum.
    for (m, n), algorithm in itertools.product(((1, 1), (3, 5), (20, 7)), ALGORITHMS):
        a, b, left, right = operands("NN", m, 30_011, n)
        x, y = cp.asarray(a), cp.asarray(b)
        found = ops.matmul(x, y, algorithm=algorithm)
        equal(found, wide(left) @ wide(right))
        assert same_bits(ops.matmul(x, y, algorithm=algorithm), found)


def test_nothing_to_add_or_to_return(device, some):
    bias = numbers((7,), seed=3)
    for form, m, k, n in itertools.product(some(FORMS, 3), (0, 5), (0, 4), (0, 7)):
        a, b, left, right = operands(form, m, k, n)
        x, y = cp.asarray(a), cp.asarray(b)
        equal(ops.matmul(x, y, **flags(form)), wide(left) @ wide(right), np.float32)
        found = ops.matmul(x, y, **flags(form), bias=cp.asarray(bias[:n]))
        equal(found, wide(left) @ wide(right) + bias[:n])


def test_a_sum_of_nothing_is_finished_like_any_other(device):
    bias = numbers((7,), seed=3)
    x, y = cp.zeros((5, 0)), cp.zeros((0, 7))
    found = ops.matmul(x, y, bias=cp.asarray(bias), epilogue="y0 = max(y0, 1.0f);")
    equal(found, np.broadcast_to(np.maximum(bias, 1), (5, 7)))
    out = cp.full((5, 7), 3.0)
    equal(ops.matmul(x, y, out=out, beta=2), np.full((5, 7), 6))
    equal(ops.matmul(x, y, out=cp.full((5, 7), np.nan)), np.zeros((5, 7)))


# --- shapes ---------------------------------------------------------------------------------------

BATCHES = [
    ((3,), (3,)),
    ((3,), ()),
    ((), (3,)),
    ((2, 1), (3,)),
    ((2, 3), (2, 3)),
    ((2, 3), (1, 3)),
    ((1,), (4,)),
    ((2, 1, 3), (4, 1)),
    ((0,), (1,)),
    ((2, 0), ()),
]


@pytest.mark.parametrize("batches", BATCHES, ids=str)
@pytest.mark.parametrize("form", ["NN", "TT"])
def test_batches_broadcast(device, form, batches):
    a, b, left, right = operands(form, 9, 6, 35, *batches)
    found = ops.matmul(cp.asarray(a), cp.asarray(b), **flags(form))
    equal(found, np.matmul(wide(left), wide(right)), np.float32)


def test_many_small_products(device):
    for size in ((4, 4, 4), (1, 64, 3), (17, 2, 33)):
        a, b, left, right = operands("NN", *size, (300,), (300,))
        equal(ops.matmul(cp.asarray(a), cp.asarray(b)), wide(left) @ wide(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5,), (5,)),
        ((1,), (1,)),
        ((5,), (5, 4)),
        ((3, 5), (5,)),
        ((5,), (2, 5, 4)),
        ((2, 3, 5), (5,)),
        ((0,), (0,)),
        ((0,), (0, 4)),
        ((3000,), (3000,)),
    ],
    ids=str,
)
def test_one_dimension(device, left, right):
    a, b = numbers(left, seed=1), numbers(right, seed=2)
    equal(ops.matmul(cp.asarray(a), cp.asarray(b)), np.matmul(wide(a), wide(b)), np.float32)


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
def test_any_strides(device, form, place):
    a, b, _, _ = operands(form, 35, 19, 21)
    for which in ("a", "b", "both"):
        (left, x), (right, y) = (a, cp.asarray(a)), (b, cp.asarray(b))
        if which != "b":
            left, x = PLACES[place](a)
        if which != "a":
            right, y = PLACES[place](b)
        factors = (swapped(h) if t == "T" else h for h, t in zip((left, right), form, strict=True))
        expected = np.matmul(*map(wide, factors))
        for algorithm in ALGORITHMS:
            equal(ops.matmul(x, y, **flags(form), algorithm=algorithm), expected)


@pytest.mark.parametrize("place", PLACES)
def test_any_strides_of_a_batch(device, place):
    a, x = PLACES[place](numbers((4, 19, 8), seed=1))
    b, y = PLACES[place](numbers((4, 8, 34), seed=2))
    for algorithm in ALGORITHMS:
        equal(ops.matmul(x, y, algorithm=algorithm), np.matmul(wide(a), wide(b)))


def test_one_array_twice(device):
    a = numbers((40, 40))
    x = cp.asarray(a)
    equal(ops.matmul(x, x), wide(a) @ wide(a))
    equal(ops.matmul(x, x, transpose_b=True), wide(a) @ wide(a).T)
    equal(ops.matmul(x.T, x[::-1]), wide(a).T @ wide(a)[::-1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_out_is_written_and_nothing_beside(device, algorithm):
    a, b = numbers((21, 34), seed=1), numbers((34, 37), seed=2)
    x, y = cp.asarray(a), cp.asarray(b)
    for step in (1, 3):
        out = Guard((21, 37), step=step)
        assert ops.matmul(x, y, out=out.array, algorithm=algorithm) is out.array
        out.check(wide(a) @ wide(b))
    out = cp.full((37, 21), 77.0)
    ops.matmul(x, y, out=out.T, algorithm=algorithm)
    equal(out, (wide(a) @ wide(b)).T)
    out = cp.full((21, 37), 77.0)
    ops.matmul(x, y, out=out[::-1, ::-1], algorithm=algorithm)
    equal(out, (wide(a) @ wide(b))[::-1, ::-1])
    out = cp.full((37, 2, 21), 77.0)
    ops.matmul(cp.asarray(np.stack([a, -a])), y, out=out.transpose(1, 2, 0), algorithm=algorithm)
    equal(out, (np.stack([wide(a), -wide(a)]) @ wide(b)).transpose(2, 0, 1))


# --- bias, epilogue, beta -------------------------------------------------------------------------


@pytest.mark.usefixtures("unoptimised")
def test_bias_runs_along_the_last_axis(device, some):
    sizes = some([(1, 8, 33), (35, 8, 7), (66, 70, 65)], 2)
    for (m, k, n), batch in itertools.product(sizes, [(), (3,)]):
        a, b, left, right = operands("NN", m, k, n, batch)
        bias = numbers((n,), seed=4)
        expected = wide(left) @ wide(right) + bias
        x, y = cp.asarray(a), cp.asarray(b)
        equal(ops.matmul(x, y, bias=cp.asarray(bias)), expected)
        spread = cp.asarray(np.repeat(bias, 2))[::2]
        equal(ops.matmul(x, y, bias=spread), expected)


EPILOGUES = {
    "relu": ("y0 = max(y0, 0.0f);", (), lambda y: np.maximum(y, 0)),
    "residual": ("y0 = max(y0 + x0, 0.0f);", ((35, 37),), lambda y, r: np.maximum(y + r, 0)),
    "rows": ("y0 = y0 * x0;", ((35, 1),), lambda y, r: y * r),
    "columns": ("y0 = y0 * x0 + x1;", ((37,), (37,)), lambda y, a, b: y * a + b),
    "number": ("y0 += x0;", ((),), lambda y, a: y + a),
    "locals": (
        "float z = y0 > 0 ? y0 : y0 * 0.5f; // a slope\ny0 = z;",
        (),
        lambda y: np.where(y > 0, y, y / 2),
    ),
}


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_epilogue(device, some, algorithm):
    a, b = numbers((35, 19), seed=1), numbers((19, 37), seed=2)
    bias = numbers((37,), seed=3)
    x, y = cp.asarray(a), cp.asarray(b)
    for name in some(list(EPILOGUES), 3):
        text, shapes, reference = EPILOGUES[name]
        extra = [numbers(shape, seed=4 + n) for n, shape in enumerate(shapes)]
        arguments = {"epilogue": text, "epilogue_args": tuple(map(cp.asarray, extra))}
        arguments["algorithm"] = algorithm
        equal(ops.matmul(x, y, **arguments), reference(wide(a) @ wide(b), *extra))
        found = ops.matmul(x, y, bias=cp.asarray(bias), **arguments)
        equal(found, reference(wide(a) @ wide(b) + bias, *extra))


def test_epilogue_of_a_batch_reads_any_strides(device):
    a, b = numbers((3, 20, 5), seed=1), numbers((5, 33), seed=2)
    residual, r = PLACES["axes rotated"](numbers((3, 20, 33), seed=3))
    scale = numbers((3, 1, 1), seed=4)
    found = ops.matmul(
        cp.asarray(a),
        cp.asarray(b),
        epilogue="y0 = y0 * x1 + x0;",
        epilogue_args=(r, cp.asarray(scale)),
    )
    equal(found, wide(a) @ wide(b) * scale + residual)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_beta_adds_to_what_is_there(device, algorithm):
    a, b = numbers((35, 19), seed=1), numbers((19, 37), seed=2)
    old, bias = numbers((35, 37), seed=3), numbers((37,), seed=4)
    x, y, c = cp.asarray(a), cp.asarray(b), cp.asarray(bias)
    for beta in (1, 0.5, -2):
        out = cp.asarray(old)
        assert ops.matmul(x, y, bias=c, out=out, beta=beta, algorithm=algorithm) is out
        equal(out, wide(a) @ wide(b) + bias + beta * old)
    turned = cp.asarray(old.T.copy())
    ops.matmul(x, y, bias=c, out=turned.T, beta=1, algorithm=algorithm)
    equal(turned, (wide(a) @ wide(b) + bias + old).T)
    out = cp.asarray(old)
    ops.matmul(x, y, epilogue="y0 *= 2;", out=out, beta=0.5, algorithm=algorithm)
    equal(out, 2 * (wide(a) @ wide(b)) + 0.5 * old)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_beta_adds_once_to_sums_that_are_cut(device, algorithm):
    a, b = numbers((3, 20_000), seed=5), numbers((20_000, 2), seed=6)
    old = numbers((3, 2), seed=3)
    out = cp.asarray(old)
    ops.matmul(cp.asarray(a), cp.asarray(b), out=out, beta=1, algorithm=algorithm)
    equal(out, wide(a) @ wide(b) + old)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_without_beta_what_is_there_is_not_read(device, algorithm):
    for size in ((35, 19, 37), (3, 20_000, 2)):
        a, b, _, _ = operands("NN", *size)
        for beta in (0, 0.0):
            out = cp.full((size[0], size[2]), np.nan)
            ops.matmul(cp.asarray(a), cp.asarray(b), out=out, beta=beta, algorithm=algorithm)
            equal(out, wide(a) @ wide(b))


# --- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_are_exact_on_whole_numbers(device, some, dtype):
    sizes = {"NN": [(33, 70, 35), (1, 40, 65), (3, 5, 2)]}
    for form, size in [(f, s) for f in some(FORMS, 2) for s in sizes.get(f, [(33, 70, 35)])]:
        a, b, left, right = operands(form, *size, dtype=dtype)
        for algorithm in some(ALGORITHMS, 2):
            found = ops.matmul(cp.asarray(a), cp.asarray(b), **flags(form), algorithm=algorithm)
            equal(found, (wide(left) @ wide(right)).astype(dtype), dtype)


def test_floats_are_as_accurate_as_their_format(device, some):
    draw = np.random.default_rng(0).standard_normal
    for dtype, (m, k, n) in itertools.product(some(FLOATS, 2), [(33, 70, 35), (4, 5000, 3)]):
        a, b = draw((m, k)).astype(dtype), draw((k, n)).astype(dtype)
        exact, size = wide(a) @ wide(b), np.abs(wide(a)) @ np.abs(wide(b))
        for algorithm in some(ALGORITHMS, 2):
            found = ops.matmul(cp.asarray(a), cp.asarray(b), algorithm=algorithm)
            check_close(found, exact, size, k, dtype)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_sums_of_halves_run_in_single_precision(device, dtype):
    # 2000 + 1 + 1 + … in float16 stays 2048, in bfloat16 2000 + 1 is 2000.
    a = np.ones((2, 2048), dtype)
    a[:, 0] = 2000
    x, y = cp.asarray(a), cp.asarray(np.ones((2048, 3), dtype))
    for algorithm in ALGORITHMS:
        found = ops.matmul(x, y, algorithm=algorithm)
        equal(found, np.full((2, 3), 4047).astype(dtype), dtype)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("form", FORMS)
def test_int8_adds_up_in_int32(device, some, form):
    sizes = some([(33, 70, 35), (1, 301, 18), (5, 4, 3), (3, 0, 2)], 3)
    for size, algorithm in itertools.product(sizes, some(ALGORITHMS, 2)):
        m, k, n = size
        draw = np.random.default_rng(k).integers
        a = draw(-128, 128, (k, m) if form[0] == "T" else (m, k)).astype(np.int8)
        b = draw(-128, 128, (n, k) if form[1] == "T" else (k, n)).astype(np.int8)
        left, right = (swapped(h) if t == "T" else h for h, t in zip((a, b), form, strict=True))
        found = ops.matmul(cp.asarray(a), cp.asarray(b), **flags(form), algorithm=algorithm)
        equal(found, wide(left) @ wide(right), np.int32)


def test_int8_at_its_ends(device):
    a, b = np.full((3, 1000), -128, np.int8), np.full((1000, 17), -128, np.int8)
    x, y = cp.asarray(a), cp.asarray(b)
    expected = np.full((3, 17), 128 * 128 * 1000)
    equal(ops.matmul(x, y), expected, np.int32)
    bias = numbers((17,), np.int32, low=-1000, high=1000)
    equal(ops.matmul(x, y, bias=cp.asarray(bias)), expected + bias, np.int32)
    out = cp.full((3, 17), 5, np.int32)
    equal(ops.matmul(x, y, out=out, beta=2), expected + 10, np.int32)


PROMOTED = [
    (np.float32, np.float64, np.float64),
    (np.float16, np.float32, np.float32),
    (np.float16, BFLOAT16, np.float32),
    (np.float32, BFLOAT16, np.float32),
    (np.int8, np.int16, np.int32),
    (np.uint8, np.int8, np.int32),
    (np.int32, np.int32, np.int32),
    (np.int32, np.int64, np.int64),
]


def test_two_dtypes_promote_as_in_numpy(device, some):
    for left, right, result in some(PROMOTED, 4):
        for first, second in ((left, right), (right, left)):
            a, b = numbers((18, 9), first, seed=1), numbers((9, 35), second, seed=2)
            equal(ops.matmul(cp.asarray(a), cp.asarray(b)), wide(a) @ wide(b), result)


def test_out_may_hold_more_or_less_than_the_operands(device):
    a, b = numbers((3, 2049), np.float16, low=1, high=3), np.ones((2049, 5), np.float16)
    expected = wide(a) @ wide(b)  # odd numbers beyond 2048, which float16 cannot hold
    out = cp.zeros((3, 5), np.float32)
    ops.matmul(cp.asarray(a), cp.asarray(b), out=out)
    equal(out, expected)
    out = cp.zeros((3, 5), np.float16)
    ops.matmul(cp.asarray(a.astype(np.float32)), cp.asarray(b.astype(np.float32)), out=out)
    equal(out, expected.astype(np.float16))
    c, d = numbers((4, 30), np.int8), numbers((30, 5), np.int8, seed=1)
    for dtype in (np.int64, np.float32):
        out = cp.zeros((4, 5), dtype)
        ops.matmul(cp.asarray(c), cp.asarray(d), out=out)
        equal(out, wide(c) @ wide(d))


def test_dtypes_with_bias_epilogue_and_beta(device, some):
    for dtype in some(FLOATS, 3):
        a, b = numbers((18, 9), dtype, seed=1), numbers((9, 35), dtype, seed=2)
        bias, old = numbers((35,), dtype, seed=3), numbers((18, 35), dtype, seed=4)
        residual = numbers((18, 35), dtype, seed=5)
        x, y, c = cp.asarray(a), cp.asarray(b), cp.asarray(bias)
        found = ops.matmul(
            x,
            y,
            bias=c,
            epilogue="y0 = max(y0 + x0, 0);",
            epilogue_args=(cp.asarray(residual),),
        )
        product = wide(a) @ wide(b) + wide(bias)
        equal(found, np.maximum(product + wide(residual), 0), dtype)
        out = cp.asarray(old)
        ops.matmul(x, y, bias=c, out=out, beta=0.5)
        equal(out, (product + 0.5 * wide(old)).astype(dtype), dtype)


def test_nan_and_infinity_go_where_they_belong(device):
    a, b = numbers((20, 30), seed=1), numbers((30, 40), seed=2, low=1)
    a[3, 4], a[11, 29], b[7, 39] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    for algorithm in ALGORITHMS:
        found = ops.matmul(cp.asarray(a), cp.asarray(b), algorithm=algorithm)
        np.testing.assert_array_equal(found.get(), expected)


# --- drawn ----------------------------------------------------------------------------------------

sizes = st.sampled_from([0, 1, 2, 17, 70])


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
def test_any_product(device, some):
    """Drawn, the same ones every time: form, sizes, batches, memory, bias, beta."""

    @settings(max_examples=len(some(range(36), 8)), derandomize=True, deadline=None)
    @given(
        form=st.sampled_from(FORMS),
        m=sizes,
        k=sizes,
        n=sizes,
        batch=st.sampled_from([((), ()), ((2,), (2,)), ((3, 1), (2,)), ((), (2, 2))]),
        places=st.tuples(*[st.sampled_from([None, *PLACES])] * 2),
        with_bias=st.booleans(),
        beta=st.sampled_from([None, 0, 1, -2]),
        algorithm=st.sampled_from(["auto", *ALGORITHMS]),
    )
    def run(form, m, k, n, batch, places, with_bias, beta, algorithm):
        a, b, _, _ = operands(form, m, k, n, *batch)
        placed = [
            PLACES[place](h) if place else (h, cp.asarray(h))
            for place, h in zip(places, (a, b), strict=True)
        ]
        left, right = (
            swapped(h) if t == "T" else h for (h, _), t in zip(placed, form, strict=True)
        )
        expected = np.matmul(wide(left), wide(right))
        arguments = flags(form) | {"algorithm": algorithm}
        if with_bias:
            bias = numbers((n,), seed=9)
            expected, arguments["bias"] = expected + bias, cp.asarray(bias)
        if beta is not None:
            old = numbers(expected.shape, seed=8)
            expected = expected + beta * old
            arguments |= {"out": cp.asarray(old), "beta": beta}
        equal(ops.matmul(placed[0][1], placed[1][1], **arguments), expected)

    run()


# --- other devices' strategies, and Oclgrind ------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_planned_for_other_devices(traits, some, form):
    for size in some([(1, 1, 1), (5, 3, 7), (33, 40, 35), (70, 200, 90), (3, 3000, 5)], 2):
        a, b, left, right = operands(form, *size)
        out = Guard((size[0], size[2]))
        ops.matmul(cp.asarray(a), cp.asarray(b), **flags(form), out=out.array)
        out.check(wide(left) @ wide(right))


@pytest.mark.oclgrind
@pytest.mark.parametrize("form", FORMS)
def test_small(traits, form):
    for m, k, n in ((3, 5, 2), (18, 21, 35)):
        a, b, left, right = operands(form, m, k, n)
        out = Guard((m, n))
        ops.matmul(cp.asarray(a), cp.asarray(b), **flags(form), out=out.array)
        out.check(wide(left) @ wide(right))


@pytest.mark.oclgrind
def test_small_batch_with_bias_epilogue_and_beta(device):
    a, b = numbers((2, 5, 9), np.float16, seed=1), numbers((9, 18), np.float16, seed=2)
    bias = numbers((18,), np.float16, seed=3)
    out = Guard((2, 5, 18), np.float16, fill=3)
    ops.matmul(
        cp.asarray(a)[:, ::-1],
        cp.asarray(b),
        bias=cp.asarray(bias),
        out=out.array,
        beta=2,
    )
    out.check((wide(a)[:, ::-1] @ wide(b) + wide(bias) + 6).astype(np.float16))
    found = ops.matmul(
        cp.asarray(a),
        cp.asarray(b),
        epilogue="y0 = max(y0 + x0, 0);",
        epilogue_args=(cp.asarray(bias),),
    )
    equal(found, np.maximum(wide(a) @ wide(b) + wide(bias), 0), np.float16)


@pytest.mark.parametrize(
    ("form", "depth", "packs"),
    [("NN", 50, 0), ("TN", 50, 0), ("NN", 8208, 0), ("NN", 8201, 1)],
)
def test_lines_of_whole_vectors_are_not_packed(device, form, depth, packs):
    if not device.traits.is_cpu:
        pytest.skip("tiles of GPUs pack nothing")
    a, b, left, right = operands(form, 70, depth, 64, (2,), (2,))
    around = np.full((2, depth + 2, 96), np.nan, np.float32)
    around[:, 1:-1, 16:80] = b
    memory = cp.asarray(around)[:, 1:-1, 16:80]
    with cp.profile() as profile:
        found = ops.matmul(cp.asarray(a), memory, **flags(form))
    np.testing.assert_array_equal(found.get(), wide(left) @ wide(right))
    # Panels take steps of k in whole units; an odd one would meet what is not there.
    assert sum("pack" in event.name for event in profile.events) == packs


def test_whole_numbers_of_an_epilogue_may_be_floats(device):
    a = cp.asarray(np.ones((4, 5), np.int8))
    found = ops.matmul(a, a.T, epilogue="y0 = y0 * w0;", epilogue_args=(2.0,))
    np.testing.assert_array_equal(found.get(), np.full((4, 4), 10))


@pytest.mark.parametrize(
    ("x", "w", "lanes", "outputs"),
    [
        ((5, 3, 6), (6, 7), (1, 1, 15), 7),
        ((5, 3, 6), (1, 6, 7), (1, 1, 15), 7),
        ((2, 5, 3, 6), (6, 7), (1, 1, 30), 7),
        ((5, 1, 6), (6, 70), (1, 1, 70), 5),  # the larger one is gathered, its columns are lanes
        ((2, 6, 5, 3), (6, 7), (2, 3, 5), 7),  # of views that do not lie at one distance
        ((3, 6), (5, 6, 7), (1, 5, 7), 3),
    ],
)
def test_batches_that_share_an_operand_are_one_product(device, monkeypatch, x, w, lanes, outputs):
    made = []
    original = matmul_module.products

    def products(*args, **options):
        made.extend(original(*args, **options))
        return tuple(made)

    monkeypatch.setattr(matmul_module, "products", products)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in (x, w))
    order = (0, 3, 2, 1) if x == (2, 6, 5, 3) else tuple(range(len(x)))
    found = ops.matmul(cp.asarray(a).transpose(*order), cp.asarray(b))
    np.testing.assert_array_equal(found.get(), np.matmul(a.transpose(order), b))
    (product,) = made
    assert (product.groups, product.lanes, product.outputs) == (1, lanes, outputs)
