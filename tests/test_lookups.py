"""Arrays read at coordinates: `at_x1(i, j)`, `inside_x1(i, j)`, `size_x1(d)`."""

import numpy as np
import pytest
from planning import GPU, array, map_plan
from support import BFLOAT16, DTYPES, numbers

import clprim as cp

GATHER = {}


def gather(dtype):
    """Rows of a matrix by number; one operator a dtype."""
    return GATHER.setdefault(
        np.dtype(dtype), cp.Pointwise("y0 = at_x0(x1, coord(1));", result_type=dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(device, dtype):
    a = numbers((5, 7), dtype)
    x = cp.asarray(a)
    i = np.array([[4], [0], [2], [2]])
    y = gather(dtype)(x, cp.asarray(i), shape=(4, 7))
    assert (y.shape, y.dtype) == ((4, 7), np.dtype(dtype))
    np.testing.assert_array_equal(y.get(), a[i[:, 0]])


@pytest.mark.parametrize("index", [np.int8, np.uint8, np.int32, np.int64, np.uint64], ids=str)
def test_every_integer_is_a_coordinate(device, index):
    a = numbers((5, 7), np.float32)
    i = np.array([[4], [0], [3]], index)
    y = gather(np.float32)(cp.asarray(a), cp.asarray(i), shape=(3, 7))
    np.testing.assert_array_equal(y.get(), a[i[:, 0]])


def test_views(device):
    a = np.arange(4 * 6 * 10, dtype=np.float32).reshape(4, 6, 10)
    x = cp.asarray(a)
    shift = cp.Pointwise(
        "long j = coord(1) - 1; y0 = inside_x0(coord(0), j) ? at_x0(coord(0), j) : -1;"
    )

    def expected(v):
        return np.pad(v, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]

    views = [
        lambda v: v[2],
        lambda v: v[2].T,
        lambda v: v[1, ::-1, ::3],
        lambda v: v[:, 3, ::-2],
        lambda v: v[1:2, 0, :],
        lambda v: v[1:, 5, 9:],
    ]
    for view in views:
        part = view(a)
        y = shift(view(x), shape=part.shape)
        np.testing.assert_array_equal(y.get(), expected(part))


def test_outside_is_outside_on_every_side(device):
    x = cp.asarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    far = cp.Pointwise(
        "y0 = inside_x0(x1, x2) ? at_x0(x1, x2) : -7;", name="far", result_type=np.int32
    )
    rows = np.array([-1, 2, 0, 1, 0, 1, 1 << 40, -(1 << 40), 0], np.int64)
    columns = np.array([0, 0, -1, 3, 0, 2, 0, 0, 1 << 32], np.int64)
    y = far(x, cp.asarray(rows), cp.asarray(columns)).get()
    np.testing.assert_array_equal(y, [-7, -7, -7, -7, 0, 5, -7, -7, -7])


def test_an_array_without_elements_is_never_inside(device):
    op = cp.Pointwise("y0 = inside_x0(coord(0)) ? at_x0(coord(0)) : size_x0(0);")
    np.testing.assert_array_equal(op(cp.empty((0,)), shape=(3,)).get(), [0, 0, 0])


def test_read_by_name_and_at_coordinates(device):
    difference = cp.Pointwise("y0 = x0 - (coord(0) > 0 ? at_x0(coord(0) - 1) : 0);")
    a = np.array([3, 5, 4, 10], np.float32)
    x = cp.asarray(a)
    np.testing.assert_array_equal(difference(x).get(), np.diff(a, prepend=0))
    with pytest.raises(cp.ShapeError, match="read at other coordinates than are written"):
        difference(x, out=x)
    np.testing.assert_array_equal(x.get(), a)


def test_coordinates_that_are_read_at_coordinates(device):
    twice = cp.Pointwise("y0 = at_x0(at_x0(at_x1(coord(0))));", result_type=np.int64)
    p, q = np.array([2, 0, 1, 3]), np.array([3, 1, 1, 0, 2])
    np.testing.assert_array_equal(twice(cp.asarray(p), cp.asarray(q), shape=(5,)).get(), p[p[q]])


def test_results_lie_as_the_first_array_of_their_rank(device):
    op = cp.Pointwise("y0 = at_x0(coord(0), coord(1), coord(2) / 2, coord(3) / 2);")
    a = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    for memory_format in ("contiguous", "channels_last"):
        y = op(cp.asarray(a, memory_format=memory_format), shape=(2, 3, 8, 10))
        assert y.strides == cp.empty(y.shape, memory_format=memory_format).strides
        np.testing.assert_array_equal(y.get(), a.repeat(2, 2).repeat(2, 3))


def test_mixed_with_broadcasting_scalars_and_storage_types(device):
    op = cp.Pointwise("y0 = at_x1(coord(1)) * w0 + x0;", result_type=np.float32)
    x, b = numbers((3, 1), BFLOAT16), numbers((4,), np.float16)
    y = op(cp.asarray(x), cp.asarray(b), 2.0, shape=(3, 4))
    expected = x.astype(np.float32) + 2 * b.astype(np.float32)
    np.testing.assert_array_equal(y.get(), expected)
    again = cp.zeros((3, 4))
    assert op(cp.asarray(x), cp.asarray(b), 2.0, out=again) is again
    np.testing.assert_array_equal(again.get(), expected)


def test_no_elements(device):
    op = cp.Pointwise("y0 = at_x0(coord(0), coord(1));")
    assert op(cp.zeros((2, 3)), shape=(0, 3)).shape == (0, 3)


VECTORS = {
    "a sum": "for (int i = 0; i < 3; ++i) y0 += at_x0(coord(0), i, coord(2));",
    "a condition": "if (coord(1) > 1) y0 = at_x0(coord(0), 0, coord(2)); else y0 = coord(1);",
    "a choice": "y0 = at_x0(0, coord(1), coord(-1)); if (coord(0) == 0) y0 = -1;",
    "a comparison": "typeof_x0 v = at_x0(0, 0, coord(2)); y0 = v > x1 || v != v ? v : x1;",
    "shifted": "y0 = at_x0(coord(0), coord(1), coord(2) + size_x0(2) - size(2));",
    "scalars": "float f = 2; y0 = at_x0(coord(0), coord(1), coord(2)) * f + w0;",
}
ELEMENTS = {
    "backwards": "y0 = at_x0(coord(0), coord(1), size(2) - 1 - coord(2));",
    "turned": "y0 = at_x0(coord(0), coord(2) % 3, coord(1));",
    "a condition": "y0 = coord(2) > 1 ? at_x0(coord(0), coord(1), coord(2)) : 0;",
    "a number's choice": "y0 = coord(0) > 0 ? at_x0(0, coord(1), coord(2)) : 1;",
    "a position": "y0 = at_x0(coord(0), coord(1), coord(2)) + coord(2);",
    "an integer": "long i = coord(2); y0 = at_x0(coord(0), coord(1), i);",
    "both": "y0 = at_x0(coord(0), coord(1), coord(2)) + at_x0(0, 0, 0);",
    "a jump": "y0 = at_x0(coord(0), coord(1), coord(2)); if (y0 > 0) y0 = 1;",
    "a guard": "y0 = inside_x0(0, 0, coord(2)) ? at_x0(0, 0, coord(2)) : 0;",
}


@pytest.mark.parametrize("name", [*VECTORS, *(f"no {name}" for name in ELEMENTS)])
def test_neighbours_are_one_vector_where_that_means_the_same(name):
    text = VECTORS.get(name) or ELEMENTS[name[3:]]
    shape = (2, 3, 40)
    inputs = [array(shape)] + [array((3, 1))] * ("x1" in text)
    plan = map_plan(text, *inputs, out=array(shape), scalars=(1.0,) * ("w0" in text))
    assert (plan.code.vector > 1) == (name in VECTORS)


def test_only_floats_of_one_type_become_vectors():
    text, shape = VECTORS["a sum"], (2, 3, 40)
    for dtype, vector in ((np.float64, 8), (np.float16, 8), (np.int32, 1)):
        plan = map_plan(text, array(shape, dtype), out=array(shape, dtype))
        assert plan.code.vector == vector
    assert map_plan(text, array(shape), out=array(shape, np.int32)).code.vector == 1
    assert map_plan(text, array(shape), out=array(shape), traits=GPU).code.vector == 1
    assert map_plan(text, array(shape, steps=2), out=array(shape)).code.vector == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16], ids=str)
def test_vectors_compute_what_elements_do(device, dtype):
    a, b = numbers((2, 3, 37), dtype), numbers((3, 1), dtype, seed=1)
    x, w = cp.asarray(a), cp.asarray(b)
    both = np.stack([a[0], a[0]]).astype(np.float64)
    for text, expected in [
        (VECTORS["a sum"], a.astype(np.float64).sum(1, keepdims=True).repeat(3, 1)),
        (VECTORS["a choice"], np.stack([0 * both[0] - 1, both[1]])),
        (VECTORS["a comparison"], np.maximum(both[:, :1], b.astype(np.float64))),
    ]:
        op = cp.Pointwise(text, result_type=dtype)
        y = op(x, *[w] * ("x1" in text), shape=(2, 3, 37))
        np.testing.assert_array_equal(y.get().astype(np.float64), expected)


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("y0 = at_x0();", "at_x0 takes a coordinate for every dimension of x0"),
        ("y0 = at_x0 + 1;", "at_x0 takes a coordinate for every dimension of x0"),
        ("y0 = at_x0(1, 2) + at_x0(2);", "every dimension of x0: 1 here, 2 elsewhere"),
        (
            "y0 = at_x0(1, 2) + inside_x0(2);",
            "every dimension of x0: 1 here, 2 elsewhere",
        ),
        ("y0 = x0; y0 += size_x0(coord(0));", "size_x0 takes one literal dimension"),
        ("y0 = x0; y0 += size_x0(0, 1);", "size_x0 takes one literal dimension"),
        ("float at_x0 = 1; y0 = at_x0;", "'at_x0' is reserved"),
        ("y0 = at_x1(1);", "'x1' is used but x0 is not"),
        ("y0 = at_x01(1);", "unknown name 'at_x01'"),
        ("at_x0(1) = 2; y0 = x0;", "at_x0 reads"),
    ],
)
def test_wrong_snippets(expr, message):
    with pytest.raises(cp.DefinitionError) as caught:
        cp.Pointwise(expr)
    assert message in str(caught.value)
    assert "^" in str(caught.value)


def test_a_reduction_reads_no_array_at_coordinates():
    with pytest.raises(cp.DefinitionError, match="not available in expr of a Reduction"):
        cp.Reduction("y0 = at_x0(1);", init="reduce_y0 = 0;", step="reduce_y0 += y0;")


def test_wrong_calls(device):
    x = cp.zeros((4, 6))
    op = cp.Pointwise("y0 = at_x0(coord(0), coord(1));")
    with pytest.raises(cp.ShapeError, match=r"give shape= or out="):
        op(x)
    with pytest.raises(cp.ShapeError, match=r"at_x0 has 2 coordinates for x0 of shape \(6,\)"):
        op(x[0], shape=(2, 2))
    for shape in (3, (1, -1), (2.0, 3), "ab"):
        with pytest.raises(cp.ShapeError, match="expected a tuple of sizes"):
            op(x, shape=shape)
    with pytest.raises(cp.ShapeError, match=r"out= for y0 has shape \(4, 6\), expected \(2, 2\)"):
        op(x, shape=(2, 2), out=cp.zeros((4, 6)))
    with pytest.raises(cp.ShapeError, match=r"do not broadcast to \(3, 2\)"):
        cp.Pointwise("y0 = x0 + at_x1(1);")(x, x[0], shape=(3, 2))
    with pytest.raises(cp.ShapeError, match=r"size_x0\(2\) is out of bounds"):
        cp.Pointwise("y0 = x0; y0 += size_x0(2);")(x)
    with pytest.raises(cp.ShapeError, match="read at other coordinates than are written"):
        op(x, out=x)
    assert not x.get().any()
