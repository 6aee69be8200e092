"""Kernels from strings: what went wrong elsewhere is right here."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops


def test_numbers_and_strided_arrays_together_write_one_view(device):
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.full((3, 4), 2, np.float32)
    x, z = cp.asarray(a), cp.asarray(b)
    ones = cp.full((3, 4), 1.0, np.float32)
    out = z[:, ::2]
    cp.Pointwise("y0 = x0 * w0 + x1 * w1 + 0 * x2;")(
        x[:, ::2], out, ones[:, ::2], 1.1, 3.0, out=out
    )
    expected = b.copy()
    expected[:, ::2] = np.array([[6, 8.2], [10.4, 12.6], [14.8, 17]], np.float32)
    np.testing.assert_allclose(z.get(), expected, rtol=1e-6)
    cp.Pointwise("y0 = x0 * w0 + x1 * w1;")(x[:, ::2], ones[:, ::2], 1.1, 3.0, out=out)
    expected[:, ::2] = np.array([[3, 5.2], [7.4, 9.6], [11.8, 14]], np.float32)
    np.testing.assert_allclose(z.get(), expected, rtol=1e-6)
    equal(z[:, 1::2], b[:, 1::2])


@pytest.mark.alone
def test_positions_beyond_two_to_the_24_are_exact(device):
    n, first = (1 << 24) + 32, (1 << 24) - 4
    for dtype in (np.int32, np.int64, np.float32):
        y = cp.Pointwise("y0 = index; y1 = coord(0);", result_type=dtype)(shape=(n,))
        for found in y:
            equal(found[first:], np.arange(first, n).astype(dtype))


@pytest.mark.everywhere
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64"])
def test_integers_divided_by_zero_give_what_numpy_gives(device, dtype):
    info = np.iinfo(dtype)
    a = np.array([0, 1, 7, info.max, info.min, info.min + 1, 100], dtype)
    b = np.array([0, 0, 0, 0, -1 if info.min else 0, -1 if info.min else 1, 7], "i8").astype(dtype)
    x, z = cp.asarray(a), cp.asarray(b)
    with np.errstate(all="ignore"):
        equal(x // z, a // b)
        equal(x % z, a % b)
        equal(ops.fmod(x, z), np.fmod(a, b))
        equal(ops.floor_divide(x, 0), np.zeros(7, dtype))
        equal(x % 0, np.zeros(7, dtype))


@pytest.mark.everywhere
def test_strings_that_divide_integers_by_zero_go_on(device):
    # After another runtime was used in the process, which may have taken the signal's handler.
    for other in cp.devices()[:2]:
        with cp.on(other):
            assert int(cp.ones(8).sum()) == 8
    a = np.array([5, -5, 0, np.iinfo(np.int64).min], np.int64)
    b = np.array([0, 0, 0, -1], np.int64)
    q, r = cp.Pointwise("y0 = x0 / x1; y1 = x0 % x1;")(cp.asarray(a), cp.asarray(b))
    equal(q, np.array([0, 0, 0, a[3]]))
    equal(r, np.zeros(4, np.int64))
    y = cp.Pointwise("y0 = x0 / w0;")(cp.asarray(a.astype(np.int32)), 0)
    equal(y, np.zeros(4, np.int32))


@pytest.mark.alone
def test_pytorchs_integers_divided_by_zero_go_on(device):
    torch = pytest.importorskip("torch")
    pytest.importorskip("clprim.torch")
    place = torch.device("opencl", device.index)
    least = -(2**63)
    a = torch.tensor([5, -5, 0, least]).to(place)
    b = torch.tensor([0, 0, 0, -1]).to(place)
    for mode in ("trunc", "floor"):
        assert torch.div(a, b, rounding_mode=mode).tolist() == [0, 0, 0, least]
    for function in (torch.remainder, torch.fmod):
        assert function(a, b).tolist() == [0, 0, 0, 0]
    assert a.floor_divide(-1).tolist() == [-5, 5, 0, least]
