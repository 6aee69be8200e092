"""What follows convolutions of rows and of volumes runs where these store, as behind images."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def residual3(x, w, z):
    return ops.relu(ops.conv3d(x, w, padding=1) * 2 + z)


@pytest.mark.parametrize("images", [1, 3])
def test_each_image_of_a_batch_of_volumes_takes_its_part(images):
    given = arrays((images, 4, 3, 4, 5), (6, 4, 3, 3, 3), (images, 6, 3, 4, 5))
    compiled = cp.jit(residual3)
    kinds = [node.primitive.kind for node in compiled.graph(*given).nodes]
    assert kinds == ["Pointwise", *["conv"] * images]  # planes side by side, then the convolutions
    x, w, z = (a.get().astype(np.float64) for a in given)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1), (1, 1)])
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3, 3), axis=(2, 3, 4))
    expected = np.maximum(np.einsum("nczyxijk,ocijk->nozyx", seen, w) * 2 + z, 0)
    equal(compiled(*given), expected)


def test_a_residual_that_is_made_between_the_parts_is_seen():
    """What the node reads is not there yet where the first image is convolved."""

    def function(x, w, z):
        y = ops.conv3d(x, w, padding=1)
        z += 1
        return ops.relu(y + z)

    one, other = (arrays((2, 4, 3, 4, 5), (6, 4, 3, 3, 3), (2, 6, 3, 4, 5)) for _ in range(2))
    equal(cp.jit(function)(*one), function(*other).get())
    equal(one[2], other[2].get())


def test_what_others_read_of_volumes_is_stored():
    def function(x, w, z):
        y = ops.conv3d(x, w, padding=1)
        return ops.relu(y + z), y

    given = arrays((2, 4, 3, 4, 5), (6, 4, 3, 3, 3), (2, 6, 3, 4, 5))
    for a, b in zip(cp.jit(function)(*given), function(*given), strict=True):
        equal(a, b.get())


def test_elements_that_move_stay():
    """A sum with what lies the other way round is no epilogue of the parts."""

    def function(x, w, z):
        y = ops.conv3d(x, w, padding=1)
        return ops.relu(y.transpose(0, 1, 2, 4, 3) + z)

    given = arrays((2, 4, 3, 4, 5), (6, 4, 3, 3, 3), (2, 6, 3, 5, 4))
    equal(cp.jit(function)(*given), function(*given).get())


def test_rows_take_what_follows_them():
    def function(x, w, z):
        return ops.relu(ops.conv1d(x, w, padding=1) + z)

    given = arrays((2, 4, 9), (6, 4, 3), (2, 6, 9))
    compiled = cp.jit(function)
    assert [node.primitive.kind for node in compiled.graph(*given).nodes] == ["conv"]
    equal(compiled(*given), function(*given).get())
