"""Elementwise nodes are joined where that changes nothing."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def test_what_is_read_in_its_place_and_around_it_is_stored():
    def function(a, b):
        y = ops.where(a > 2, b, a)
        return y * ops.max_pool2d(y, 3, 1, 1)

    a, b = arrays((2, 3, 5, 6), (2, 3, 5, 6))
    compiled = cp.jit(function)
    equal(compiled(a, b), function(a, b).get())
    # The comparison goes into the choice, the pooling into the product.
    assert len(compiled.graph(a, b).nodes) <= 3


def test_results_that_go_to_given_arrays_are_stored():
    both = cp.Pointwise("y0 = x0 + 1; y1 = x0 * 2;")

    def function(x, out):
        y = cp.empty(x.shape)
        both(x, out=(y, out))
        return y * 3

    x, out = arrays((4, 5), (4, 5))
    equal(cp.jit(function)(x, out), (x.get() + 1) * 3)
    equal(out, x.get() * 2)


PLUS = "float f(float x) { return x + 1; }"
TWICE = "float f(float x) { return x * 2; }"


@pytest.mark.parametrize(
    ("first", "second", "nodes"),
    [
        (("y0 = f(x0);", PLUS), ("y0 = f(x0);", PLUS), 1),
        (("y0 = f(x0);", PLUS), ("y0 = f(x0);", TWICE), 2),
        (("y0 = K * x0;", "#define K 2"), ("y0 = K + x0;", "#define K 25"), 2),
        (("y0 = K * x0;", "#define K 2"), ("typeof_x0 K = x0 + 1; y0 = K;", ""), 2),
        (("typeof_x0 K = x0 + 1; y0 = K;", ""), ("y0 = K * x0;", "#define K 2"), 2),
        (("y0 = f(x0);", PLUS), ("y0 = x0 - 1;", ""), 1),
        (("y0 = f(x0);", PLUS), ("y0 = K * x0;", "#define K 2"), 1),
        (("y0 = f(x0);", PLUS), ("y0 = x * x0;", "#define x 2"), 2),
        (("y0 = f(x0);", PLUS), ("y0 = K * f(x0);", f"#define K 2\n{PLUS}"), 1),
    ],
)
def test_words_of_preambles_mean_what_they_meant(first, second, nodes):
    a, b = (cp.Pointwise(text, preamble=preamble) for text, preamble in (first, second))

    def function(x):
        return b(a(x))

    (x,) = arrays((3, 7))
    compiled = cp.jit(function)
    equal(compiled(x), function(x).get())
    assert len(compiled.graph(x).nodes) == nodes


def test_images_are_put_together_of_windows_where_they_are_added():
    def function(windows, image):
        found = windows.transpose(0, 1, 3, 2, 4, 5).copy()
        return image + found.reshape(image.shape)

    given = arrays((1, 2, 3, 4, 5, 6), (1, 8, 15, 6))
    compiled = cp.jit(function)
    equal(compiled(*given), function(*given).get())
    assert len(compiled.graph(*given).nodes) == 1


def test_arrays_that_are_read_at_coordinates_keep_their_numbers():
    turn = cp.Pointwise(
        "y0 = at_x0(size_x0(0) - 1 - coord(0)) + (inside_x0(coord(0) + 2) ? x1 : 0);"
    )
    a, b, c = (cp.asarray(np.arange(4, dtype=np.float32) * n) for n in (1, 10, 100))

    def function(a, b, c):
        return turn(c, a + b)

    compiled = cp.jit(function)
    equal(compiled(a, b, c), function(a, b, c).get())
    assert len(compiled.graph(a, b, c).nodes) == 1
