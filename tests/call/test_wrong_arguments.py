"""Arguments of a wrong kind are refused by the library's own errors, by known calls as well."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

BAD = [{}, b"x", "\ud800", 1j, object(), [1, "a"]]
CALLS = {
    "an epilogue": lambda f, m, image, bad: ops.matmul(m, f(5, 3), epilogue=bad),
    "an epilogue of a convolution": lambda f, m, image, bad: ops.conv2d(
        image, f(4, 4, 3, 3), epilogue=bad
    ),
    "out of relu": lambda f, m, image, bad: (ops.relu(m), ops.relu(m, out=bad)),
    "out of sum": lambda f, m, image, bad: (ops.sum(m), ops.sum(m, out=bad)),
    "out of a scan": lambda f, m, image, bad: (
        ops.cumsum(m, axis=1),
        cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")(m, axis=1, out=bad),
    ),
    "dtype of sum": lambda f, m, image, bad: ops.sum(m, dtype=bad),
    "dtype of one_hot": lambda f, m, image, bad: ops.one_hot(f(3).astype("int32"), 3, dtype=bad),
    "axis": lambda f, m, image, bad: ops.sum(m, axis=bad),
    "dims": lambda f, m, image, bad: ops.flip(m, bad),
    "stride": lambda f, m, image, bad: ops.conv2d(image, f(4, 4, 3, 3), stride=bad),
    "padding": lambda f, m, image, bad: ops.conv2d(image, f(4, 4, 3, 3), padding=bad),
    "weights": lambda f, m, image, bad: ops.bincount(f(3).astype("int32"), weights=bad),
    "quantile": lambda f, m, image, bad: ops.quantile(m, bad),
    "pad": lambda f, m, image, bad: ops.pad(m, bad),
}


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_kind_is_refused(device, name, bad):
    def f(*shape):
        return cp.asarray(np.ones(shape, np.float32))

    with pytest.raises(cp.ClprimError):
        CALLS[name](f, f(4, 5), f(1, 4, 6, 6), bad)


SIZES = {
    "interpolate": ops.interpolate,
    "adaptive_avg_pool2d": ops.adaptive_avg_pool2d,
    "bincount": lambda image, size: ops.bincount(image[0, 0, 0].astype("int32"), minlength=size),
    "one_hot": lambda image, size: ops.one_hot(image[0, 0, 0].astype("int32"), size),
}


@pytest.mark.parametrize("size", [2**40, 10**400], ids=["large", "huge"])
@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_no_kernel_counts_to_is_refused(device, name, size):
    with pytest.raises(cp.ClprimError):
        SIZES[name](cp.asarray(np.ones((1, 4, 6, 6), np.float32)), size)


def test_no_array_at_all_as_out_is_refused(device):
    # The call was remembered, and taken for one without out=.
    x = cp.asarray(np.ones(3, np.float32))
    for operator in (cp.Pointwise("y0 = x0 + 7;"), ops.sum):
        operator(x)
        for out in ([], (), {}):
            with pytest.raises(cp.ClprimError, match="out"):
                operator(x, out=out)
