"""`Pointwise` on every device: broadcasting, layouts, views, scalars, positions, out=."""

import dataclasses

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from support import BFLOAT16, VIEWS, Guard, equal, free_memory, numbers, pair

import clprim as cp
from clprim.runtime.stats import stats

AXPB = cp.Pointwise("y0 = x0 * w0 + x1;")
ADD = cp.Pointwise("y0 = x0 + 2 * x1;")
DOUBLE = cp.Pointwise("y0 = 2 * x0;")
BOTH = cp.Pointwise("y0 = x0 * w0 + x1 - w1; y1 = x0 - x2;")
SWAP = cp.Pointwise("y0 = x1; y1 = x0;")


def test_several_inputs_results_and_scalars(device):
    a, b, c = (numbers((7, 9), seed=n) for n in range(3))
    y, z = BOTH(cp.asarray(a), cp.asarray(b), cp.asarray(c), 3.0, 2)
    equal(y, a * 3 + b - 2, np.float32)
    equal(z, a - c, np.float32)
    assert isinstance(AXPB(cp.asarray(a), cp.asarray(b), 1), cp.Array)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4,)),
        ((4,), (3, 4)),
        ((3, 1), (1, 4)),
        ((), (5,)),
        ((5,), ()),
        ((), ()),
        ((1,), (1, 1)),
        ((2, 1, 3), (4, 1)),
        ((6, 1, 8), (7, 1)),
        ((2, 3, 4, 5), (3, 1, 1)),
        ((2, 3, 4, 5), (2, 3, 4, 5)),
        ((1, 1, 4, 1), (2, 3, 1, 5)),
        ((300, 5), (5,)),
        ((300, 16), (1, 16)),
    ],
    ids=str,
)
def test_broadcasting(device, shapes):
    a, b = (numbers(shape, seed=n) for n, shape in enumerate(shapes))
    equal(ADD(cp.asarray(a), cp.asarray(b)), a + 2 * b, np.float32)


@pytest.mark.parametrize(
    "shapes", [((0,), (1,)), ((3, 0), (1, 1)), ((0, 3), (3,)), ((2, 0, 3), ())]
)
def test_empty_arrays_launch_nothing(device, shapes):
    a, b = (cp.zeros(shape) for shape in shapes)
    before = stats()
    result = ADD(a, b)
    assert result.shape == np.broadcast_shapes(*shapes)
    assert result.get().shape == result.shape
    assert (stats() - before).launches == 0
    out = cp.empty(result.shape)
    assert ADD(a, b, out=out) is out


@pytest.mark.oclgrind
@pytest.mark.parametrize(
    "size", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129, 1023, 1025, 8193]
)
def test_tails(device, size):
    a, b = numbers(size, seed=1), numbers(size, seed=2)
    out = Guard(size)
    AXPB(cp.asarray(a), cp.asarray(b), 2.0, out=out.array)
    out.check(2 * a + b)


@pytest.mark.oclgrind
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("channels", [2, 3, 5, 16, 24])
def test_one_value_a_channel(device, rows, channels):
    image = numbers((rows, 7, 5, channels), seed=1).transpose(0, 3, 1, 2)
    bias = numbers((channels, 1, 1), seed=2)
    x = cp.asarray(image)
    result = AXPB(x, cp.asarray(bias), 2.0)
    equal(result, 2 * image + bias)
    assert result.strides == x.strides
    out = Guard((rows * 7 * 5, channels))
    flat = image.transpose(0, 2, 3, 1).reshape(-1, channels)
    AXPB(cp.asarray(flat), cp.asarray(bias.reshape(-1)), 2.0, out=out.array)
    out.check(2 * flat + bias.reshape(-1))


@pytest.mark.oclgrind
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_in(device, view):
    a, x = pair(numbers((6, 9)), view)
    equal(DOUBLE(x), 2 * a, np.float32)


@pytest.mark.oclgrind
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_out_write_nothing_beside(device, view):
    host = np.full((6, 9), 77, np.float32)
    whole = cp.asarray(host)
    target = view(whole)
    a = numbers(target.shape)
    assert DOUBLE(cp.asarray(a), out=target) is target
    view(host)[...] = 2 * a
    equal(whole, host)


@pytest.mark.oclgrind
def test_rows_that_are_taken_together_end_anywhere(device):
    a = numbers((2, 37, 530))
    upwards = cp.Pointwise("y0 = at_x0(coord(0), size(1) - 1 - coord(1), coord(2));")
    out = Guard((2, 37, 500))  # pieces of 16, 16 and 5 rows
    upwards(cp.asarray(a), out=out.array)
    out.check(a[:, ::-1, :500])


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=str)
@pytest.mark.parametrize("size", [1, 15, 16, 67])
def test_sixteen_bits(device, dtype, size):
    a, b = numbers(size, dtype, 1), numbers(size, dtype, 2)
    out = Guard(size, dtype)
    ADD(cp.asarray(a), cp.asarray(b), out=out.array)
    out.check(a.astype(np.float32) + 2 * b.astype(np.float32))
    strided = Guard(size, dtype, step=2)
    ADD(cp.asarray(a), cp.asarray(b)[::-1], out=strided.array)
    strided.check(a.astype(np.float32) + 2 * b[::-1].astype(np.float32))


@pytest.mark.oclgrind
def test_positions_compare_with_constants(device):
    # Mesa 22.3's compiler finds a 32-bit integer made a 64-bit one greater than any constant.
    x = cp.asarray(numbers((3, 5)))
    texts = ("y0 = coord(1) > 1;", "y0 = index < 7;", "long c = size(0); y0 = c > 3 ? 1 : c;")
    row, column = np.mgrid[:3, :5]
    expected = (column > 1, row * 5 + column < 7, np.full((3, 5), 3))
    for text, wanted in zip(texts, expected, strict=True):
        equal(cp.Pointwise(f"{text} (void)x0;", result_type="int32")(x), wanted)
    counted = cp.Reduction(
        "y0 = x0 == x0;",
        init="reduce_y0 = 0;",
        step="if (reduce_item > 2) reduce_y0 += y0;",
        combine="reduce_y0 += other_y0;",
    )
    equal(counted(x, axis=1), np.full(3, 2))


@pytest.mark.oclgrind
def test_small_kernels_of_other_devices(traits):
    # Made here, for plans of the traits: tails, broadcasts, views, results in other orders.
    add = cp.Pointwise("y0 = x0 + 2 * x1;")
    for size in (1, 5, 33, 70, 1025):
        a, b = numbers(size, seed=1), numbers(size, seed=2)
        out = Guard(size)
        add(cp.asarray(a), cp.asarray(b), out=out.array)
        out.check(a + 2 * b)
    image, channel = numbers((2, 5, 6, 7), seed=1), numbers((5, 1, 1), seed=2)
    last = cp.asarray(image, memory_format="channels_last")
    for x in (cp.asarray(image), last):
        equal(add(x, cp.asarray(channel)), image + 2 * channel, np.float32)
        # Operands that lie in different orders, one way and the other.
        for target in (cp.zeros(image.shape), cp.zeros(image.shape, memory_format="channels_last")):
            equal(add(x, last, out=target), 3 * image, np.float32)
    wide, tall = numbers((35, 70), seed=3), numbers((70, 35), seed=4)
    out = Guard(wide.shape)
    add(cp.asarray(wide)[:, ::-1], cp.asarray(tall).transpose(1, 0), out=out.array)
    out.check(wide[:, ::-1] + 2 * tall.T)


def test_a_transposed_sum(device):
    a, x = pair(numbers((5, 8), seed=1), lambda a: a.transpose(1, 0))
    b, y = pair(numbers((8, 5), seed=2))
    equal(ADD(x, y), a + 2 * b)
    equal(ADD(y, x), b + 2 * a)


# --- memory format ----------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)], ids=str)
def test_a_result_lies_as_its_first_input(device, order):
    back = tuple(np.argsort(order))
    a = numbers((3, 4, 5)).transpose(order).copy().transpose(back)
    b = numbers((3, 4, 5), seed=1)
    result = ADD(cp.asarray(a), cp.asarray(b))
    assert result.strides == a.strides
    equal(result, a + 2 * b)


def test_channels_last_in_channels_last_out(device):
    a = numbers((2, 3, 4, 5))
    x = cp.asarray(a, memory_format="channels_last")
    scale = cp.asarray(numbers((3, 1, 1), seed=1))
    for result in (DOUBLE(x), ADD(x, scale), ADD(scale, x)):
        assert result.shape == (2, 3, 4, 5)
        assert result.strides == x.strides == (240, 4, 60, 12)
    mixed = ADD(x, cp.asarray(a))
    assert mixed.strides == x.strides
    equal(mixed, 3 * a)


# --- out= -------------------------------------------------------------------------------------


def test_out_may_be_an_input(device):
    a, b = numbers((5, 7), seed=1), numbers((5, 7), seed=2)
    for n, expected in ((0, a * 2 + b), (1, a * 2 + b)):
        x, y = cp.asarray(a), cp.asarray(b)
        out = (x, y)[n]
        assert AXPB(x, y, 2.0, out=out) is out
        equal(out, expected)
    x = cp.asarray(a)
    AXPB(x, x, 2.0, out=x)
    equal(x, 3 * a)


def test_out_may_be_the_same_view_of_an_input(device):
    a = numbers((6, 8))
    x = cp.asarray(a)
    DOUBLE(x[::2, 1:], out=x[::2, 1:])
    a[::2, 1:] *= 2
    equal(x, a)


def test_results_may_be_each_others_inputs(device):
    a, b = numbers(37, seed=1), numbers(37, seed=2)
    x, y = cp.asarray(a), cp.asarray(b)
    result = SWAP(x, y, out=(x, y))
    assert result[0] is x
    assert result[1] is y
    equal(x, b)
    equal(y, a)


def test_results_may_interleave_in_one_memory(device):
    a, b = numbers(20, seed=1), numbers(20, seed=2)
    both = cp.zeros(40)
    SWAP(cp.asarray(a), cp.asarray(b), out=(both[::2], both[1::2]))
    equal(both, np.stack([b, a], 1).reshape(-1))


def test_a_larger_out_broadcasts_the_inputs(device):
    a = numbers(5)
    out = Guard((3, 5))
    DOUBLE(cp.asarray(a), out=out.array)
    out.check(np.broadcast_to(2 * a, (3, 5)))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, BFLOAT16], ids=str)
def test_out_of_another_floating_dtype_converts(device, dtype):
    a = numbers(20)
    out = cp.empty(20, dtype)
    equal(DOUBLE(cp.asarray(a), out=out), 2 * a, dtype)


# --- scalars ----------------------------------------------------------------------------------

SCALE = cp.Pointwise("y0 = x0 * w0;")


@pytest.mark.parametrize(
    ("dtype", "scalar"),
    [
        (np.float32, 3),
        (np.float32, 2.5),
        (np.float32, True),
        (np.float32, np.float32(2.5)),
        (np.float32, np.float64(2.5)),
        (np.float32, np.float16(2.5)),
        (np.float32, np.int64(3)),
        (np.float32, np.bool_(True)),
        (np.int32, 3),
        (np.int32, 2.5),
        (np.int32, np.int8(3)),
        (np.int32, np.int64(2**33)),
        (np.uint8, 3),
        (np.uint8, np.uint16(300)),
        (np.float16, 2.5),
        (np.float16, np.float32(2.5)),
        (np.float64, 0.1),
        (np.bool_, True),
        (np.bool_, 3),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_scalars_take_part_as_in_numpy(device, dtype, scalar):
    a = numbers(11, dtype)
    result = SCALE(cp.asarray(a), scalar)
    expected = a * scalar
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.get(), expected)


def test_a_bfloat16_scalar(device):
    a = numbers(11, BFLOAT16)
    result = SCALE(cp.asarray(a), BFLOAT16.type(2.5))
    equal(result, a.astype(np.float32) * 2.5, BFLOAT16)


def test_another_number_is_neither_planned_nor_built(device):
    a = numbers(10)
    x = cp.asarray(a)
    SCALE(x, 1.5)
    before = stats()
    for w in (2.5, 3.0, float("inf")):
        result = SCALE(x, w)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(result.get(), a * np.float32(w))
    spent = stats() - before
    assert (spent.plans, spent.builds, spent.launches) == (0, 0, 3)


def test_literals_are_of_the_arrays_precision(device):
    third = cp.Pointwise("y0 = x0 * 0.1;")
    single, double = (np.array([3, 7], t) for t in (np.float32, np.float64))
    np.testing.assert_array_equal(third(cp.asarray(single)).get(), single * np.float32(0.1))
    np.testing.assert_array_equal(third(cp.asarray(double)).get(), double * 0.1)


# --- positions --------------------------------------------------------------------------------

WHERE = cp.Pointwise(
    "y0 = index; y1 = coord(0); y2 = coord(-1); y3 = size(1) + 0 * x0;", result_type=np.int64
)


@pytest.mark.parametrize("view", ["whole", "transposed", "backwards"])
def test_positions_count_in_the_broadcast_shape(device, view):
    a, x = pair(np.zeros((4, 5), np.float32), VIEWS[view])
    index, first, last, size = WHERE(x)
    equal(index, np.arange(20).reshape(a.shape))
    equal(first, np.indices(a.shape)[0])
    equal(last, np.indices(a.shape)[1])
    equal(size, np.full(a.shape, a.shape[1]))


def test_positions_of_repeated_inputs(device):
    table = cp.Pointwise("y0 = x0 * 100 + x1 + 0.001 * (coord(0) * 10 + coord(2)) + 1000 * index;")
    a, b = numbers((3, 1, 1)), numbers((4, 5), seed=1)
    i, _, k = np.indices((3, 4, 5))
    expected = (
        a * 100 + b + np.float32(0.001) * (i * 10 + k) + 1000 * np.arange(60).reshape(3, 4, 5)
    )
    np.testing.assert_allclose(
        table(cp.asarray(a), cp.asarray(b)).get(), expected.astype(np.float32), rtol=2e-7
    )


def test_without_arrays_out_gives_the_shape(device):
    count = cp.Pointwise("y0 = index * w0;")
    out = cp.empty((4, 5), np.int32)
    assert count(3, out=out) is out
    equal(out, 3 * np.arange(20).reshape(4, 5))
    backwards = cp.empty((4, 5))[::-1]
    equal(count(2, out=backwards), 2 * np.arange(20).reshape(4, 5))


def test_an_input_for_its_shape_alone(device):
    ones = cp.Pointwise("(void)x0; y0 = x1;")
    equal(ones(cp.zeros((3, 4)), cp.full((4,), 5.0)), np.full((3, 4), 5))


# --- what a snippet may hold ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        ("y0 = x0", lambda x: x),
        ("y0 = x0 // a comment without a semicolon", lambda x: x),
        ("y0 = x0; /* { ( */", lambda x: x),
        (
            "if (x0 > 0)\n  y0 = x0; // positive\nelse {\n  y0 = -2 * x0;\n}",
            lambda x: np.where(x > 0, x, -2 * x),
        ),
        ("for (int k = 0; k < 3; ++k) { if (k == 1) continue; y0 += x0; }", lambda x: 2 * x),
        ("typeof_x0 t = x0 * x0; typeof_y0 u = t; y0 = u + t;", lambda x: 2 * x * x),
        ("float v[2] = {x0, 1}; y0 = v[0] + v[1];", lambda x: x + 1),
        ("float2 v = (float2)(x0, 3); y0 = v.x * v.y;", lambda x: 3 * x),
        (
            "y0 = max(x0, 0) + min(x0, 1.0) + clamp(x0, 0, 2);",
            lambda x: np.maximum(x, 0) + np.minimum(x, 1) + np.clip(x, 0, 2),
        ),
        ("y0 = x0 > 0 && x0 < 3 ? x0 : 0;", lambda x: np.where((x > 0) & (x < 3), x, 0)),
        ("int n = 2, rows = 1, i = 3; y0 = x0 * n + rows + i;", lambda x: 2 * x + 4),
        ("int e; y0 = frexp(x0, &e); y0 = ldexp(y0, e);", lambda x: x),
        ("y0 = 0; y0 += x0; y0 *= 2; y0 -= 1;", lambda x: 2 * x - 1),
        ("if (x0 > 100) y0 = 1;", lambda x: 0 * x),  # a result starts as 0
    ],
)
def test_snippets(device, snippet, expected):
    a = numbers((5, 21))
    equal(cp.Pointwise(snippet)(cp.asarray(a)), expected(a))


def test_a_preambles_helpers_types_and_macros(device):
    square = cp.Pointwise(
        "pair p = split(x0);\ny0 = p.whole * SCALE; y1 = p.rest;",
        preamble="""\
#define SCALE 10  // a macro
typedef struct { float whole, rest; } pair;
pair split(float a)
{
    pair p = { floor(a), a - floor(a) };
    return p;
}
""",
        name="whole_and_rest",
    )
    a = np.array([1.25, -2.5, 3], np.float32)
    y, z = square(cp.asarray(a))
    equal(y, np.floor(a) * 10)
    equal(z, a - np.floor(a))


def test_a_preamble_may_redefine_a_function(device):
    own = cp.Pointwise(
        "y0 = max3(x0, 1, 2);",
        preamble="float max3(float a, float b, float c) { return max(a, max(b, c)); }",
    )
    equal(own(cp.asarray(np.array([0, 5], np.float32))), [2, 5])


# --- dimensions -------------------------------------------------------------------------------


@pytest.mark.parametrize("ndim", [8, 9, 12])
def test_dimensions_that_do_not_collapse(device, ndim):
    a = numbers((2,) * ndim)
    x = cp.asarray(a)
    equal(ADD(x, x.T), a + 2 * a.T)


def test_names_of_ones_own_among_many_dimensions(device):
    # Sizes and strides are constants there, which must not reach into snippet or preamble.
    own = cp.Pointwise(
        "int n = 2, rows = 1, n0 = 3; y0 = twice(x0, n) + x1 * rows + n0;",
        preamble="float twice(float a, int n) { int rows = n; return a * rows; }",
    )
    a = numbers((2,) * 10)
    x = cp.asarray(a)
    equal(own(x, x.T), 2 * a + a.T + 3)


def test_a_local_may_be_called_as_its_kernel(device):
    shifted = cp.Pointwise("float shift = x0; y0 = shift + 1;", name="shift")
    assert shifted(cp.asarray(np.float32([1, 2]))).get().tolist() == [2, 3]


@pytest.mark.parametrize("name", ["n", "row", "pointwise", "index_t"])
def test_names_of_ones_own_in_the_preamble(device, name):
    # Either the snippet gets what its preamble says, or the name is refused.
    try:
        own = cp.Pointwise(f"y0 = x0 * {name};", preamble=f"__constant float {name} = 3;")
    except cp.DefinitionError as error:
        assert name in str(error)
    else:
        a = numbers(33)
        equal(own(cp.asarray(a)), 3 * a)


def test_sixty_four_dimensions(device):
    shape = [1] * 64
    shape[3], shape[40], shape[63] = 3, 4, 5
    a = numbers(shape)
    equal(ADD(cp.asarray(a), cp.asarray(a)), 3 * a)
    order = tuple(reversed(range(64)))
    equal(
        ADD(cp.asarray(a).transpose(order), cp.asarray(a.transpose(order))), 3 * a.transpose(order)
    )


def test_stores_past_the_cache(device, monkeypatch):
    if not device.traits.streaming:
        pytest.skip("its compiler knows no such stores")
    planned = dataclasses.replace(device.traits, is_cpu=True, vector_bytes=32, cache_bytes=64)
    monkeypatch.setitem(device.__dict__, "traits", planned)
    double = cp.Pointwise("y0 = 2 * x0; // past the cache")
    a = numbers(1027)
    x = cp.asarray(a)
    assert "stream" in double.source(x)
    assert "stream" not in double.source(x, out=x)  # the cache has its lines
    for size in (1027, 64, 33):
        out = Guard(size)
        double(cp.asarray(a[:size]), out=out.array)
        out.check(2 * a[:size])
        equal(double(cp.asarray(a[:size])), 2 * a[:size])
    # Rows that begin anywhere, and what only elements compute: 64 of them at a time.
    chosen = cp.Pointwise("y0 = x0 ? x1 : coord(1); // past the cache")
    mask, b = numbers((3, 1027)) > 0, numbers((3, 1027), seed=1)
    assert "_chunk[" in chosen.source(cp.asarray(mask), cp.asarray(b))
    for columns in (1027, 200, 3):
        out = Guard((3, columns))
        m, c = mask[:, :columns], b[:, :columns]
        double(cp.asarray(b)[:, :columns], out=out.array)
        out.check(2 * c)
        chosen(cp.asarray(m), cp.asarray(c), out=out.array)
        out.check(np.where(m, c, np.arange(columns, dtype=np.float32)))


# --- arrays of others -------------------------------------------------------------------------


def test_pyopencls_own_arrays(device):
    queue = cl.CommandQueue(device.context)
    a, b = numbers((4, 5), seed=1), numbers((4, 5), seed=2)
    x = cl_array.to_device(queue, a)
    y = cl_array.to_device(queue, np.asfortranarray(b))
    equal(ADD(x, y), a + 2 * b)
    out = cl_array.empty(queue, (4, 5), np.float32)
    assert ADD(x, y, out=out) is out
    cp.synchronize()
    np.testing.assert_array_equal(out.get(), a + 2 * b)


def test_work_of_another_queue_is_waited_for(device):
    queue = cl.CommandQueue(device.context)
    a = numbers(1 << 20)
    x = cl_array.to_device(queue, a)
    for _ in range(5):
        x = x + 1
    equal(DOUBLE(x), 2 * (a + 5))


def test_views_and_sub_buffers_of_others(device):
    a = numbers(1000)
    whole = cl_array.to_device(device.queue, a)
    part = whole[100:200]
    equal(DOUBLE(part), 2 * a[100:200])
    start = device.cl.mem_base_addr_align // 8
    sub = whole.data.get_sub_region(start, 400)
    x = cl_array.Array(device.queue, (100,), np.float32, data=sub)
    equal(DOUBLE(x), 2 * a[start // 4 : start // 4 + 100])
    DOUBLE(x, out=x)
    a[start // 4 : start // 4 + 100] *= 2
    cp.synchronize()
    np.testing.assert_array_equal(whole.get(), a)


# --- source -----------------------------------------------------------------------------------


def test_source_is_what_would_run(device):
    x = cp.asarray(numbers((3, 4)))
    before = stats()
    text = AXPB.source(x, x, 2.0)
    assert "y0 = x0 * w0 + x1;" in text
    assert "__kernel void pointwise(" in text
    assert (stats() - before).builds == (stats() - before).launches == 0
    assert AXPB.source(x, x, 3.0) == text
    assert "nothing runs" in AXPB.source(cp.zeros(0), cp.zeros(0), 1.0)


def test_a_profile_shows_the_kernel(device):
    half = cp.Pointwise("y0 = x0 * 0.5;", name="halve")
    x = cp.asarray(numbers(1000))
    with cp.profile() as p:
        half(x)
    assert [e.name for e in p.events] == ["halve"]
    assert p.events[0].bytes == 8000
    assert p.events[0].flops == 1000


def test_more_results_than_a_kernel_takes_arguments_are_refused_at_once(device):
    count = device.cl.max_parameter_size // 8
    if count > 1000:
        pytest.skip("this device takes as many arrays as a definition names")
    many = cp.Pointwise("".join(f"y{n} = x0 + {n};" for n in range(count)))
    before = stats()
    with pytest.raises(cp.DeviceError, match=rf"takes {count + 1} arrays .* arguments; .* at most"):
        many(cp.asarray(numbers(10)))
    assert (stats() - before).builds == 0


def test_more_operands_than_any_device_takes_are_refused_at_the_definition():
    def each(text):
        return "".join(text.replace("N", str(n)) for n in range(2000))

    total = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
    for define in (
        lambda: cp.Pointwise(each("yN = x0;")),
        lambda: cp.Pointwise("y0 = 0" + each(" + xN") + ";"),
        lambda: cp.Pointwise("y0 = x0" + each(" + wN") + ";"),
        lambda: cp.Reduction("y0 = x0;", **total, finalize=each("yN = reduce_y0;")),
        lambda: cp.Grouped("y0 = x0;", **total, each=each("yN = x0;")),
        lambda: cp.Scan("y0 = x0;", init=each("scan_yN = 0;"), step=each("scan_yN += y0;")),
    ):
        with pytest.raises(cp.DefinitionError, match=r"takes \w+0 to \w+1023 at most"):
            define()


def test_results_repeat_bit_for_bit(device):
    wave = cp.Pointwise("y0 = sin(x0) * exp(x1);")
    rng = np.random.default_rng(0)
    x, y = (cp.asarray(rng.standard_normal(10_007, np.float32)) for _ in range(2))
    first = wave(x, y).get().tobytes()
    assert all(wave(x, y).get().tobytes() == first for _ in range(3))


@pytest.mark.large
def test_past_2_to_the_31_elements(device):
    size = 2**31 + 2**20 + 3
    free = free_memory()
    if device.traits.max_allocation < size or free < 2.5 * size:
        pytest.skip(f"needs two buffers of {size:,} bytes, has {free:,}")
    a = np.zeros(size, np.int8)
    marks = [0, 1, 2**20, 2**31 - 1, 2**31, 2**31 + 1, size - 1]
    a[marks] = np.arange(1, 8)
    x = cp.asarray(a)
    copy = cp.Pointwise("y0 = x0 + (index > 2147483647 ? 1 : 0);")
    copy(x, out=x)
    del a
    tail = x[2**31 - 2 :].get()
    expected = np.ones_like(tail)
    expected[:2] = (0, 4)
    expected[[2, 3, -1]] = (6, 7, 8)
    np.testing.assert_array_equal(tail, expected)
    equal(x[marks[0] : 3], [1, 2, 0])
    del x, tail, expected
