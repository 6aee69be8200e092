"""What a compiled function uploads is new in every call, whoever writes to it."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_an_upload_that_is_written_to_starts_anew_in_every_call(dtype):
    def function(x):
        y = cp.asarray(np.arange(12, dtype=dtype).reshape(3, 4))
        before = ops.abs(y)
        y[:, 1:] = x[:, 1:]
        y += 1
        return before, y, ops.relu(y)

    x = cp.full((3, 4), 7, dtype)
    compiled = cp.jit(function)
    for _ in range(2):
        for found, expected in zip(compiled(x), function(x), strict=True):
            equal(found, expected.get())


def test_an_upload_that_is_returned_belongs_to_the_caller():
    compiled = cp.jit(lambda x: (cp.asarray([1.0, 2.0]), x + 1))
    x = cp.zeros(2)
    first, _ = compiled(x)
    first[...] = 5
    equal(compiled(x)[0], np.array([1.0, 2.0]))


def test_a_constant_that_is_returned_is_a_copy():
    compiled = cp.jit(lambda w, x: (w, w.T, x + w), constants="w")
    w, x = cp.full((2, 3), 2.0), cp.zeros((2, 3))
    compiled(w, x)[0][...] = 5
    same, turned, sums = compiled(w, x)
    for found in (same, turned.T, sums):
        equal(found, np.full((2, 3), 2.0))


def test_a_constant_that_the_function_writes_to_is_refused_with_its_line():
    def function(w, x):
        w += 1
        return w * x

    w, x = cp.full(3, 2.0), cp.full(3, 1.0)
    with pytest.raises(
        cp.DefinitionError, match=r"test_copy_on_write.py:\d+ writes to w, which is one"
    ):
        cp.jit(function, constants="w")(w, x)
