"""Results put together from pieces by one walk: the same as by NumPy, and where that is done."""

import dataclasses
import itertools

import numpy as np
import pytest
from planning import CPU, GPU, array
from support import BFLOAT16

import clprim as cp
from clprim import ops
from clprim.plan.index.family import PIECES
from clprim.plan.index.pieces import Diagonal, Pieces
from clprim.primitives.pieces import put_together

FLOATS = [np.float32, np.float64, np.float16, np.uint8]


def random(shape, dtype):
    return (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)


def parts_of(host, cuts, axis):
    """Pieces between cuts, and where they begin."""
    bounds = [0, *cuts, host.shape[axis]]
    for start, stop in itertools.pairwise(bounds):
        place = [0] * host.ndim
        place[axis] = start
        yield cp.asarray(np.ascontiguousarray(np.take(host, range(start, stop), axis))), place


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", FLOATS)
def test_pieces_in_rows(device, dtype):
    host = random((37, 200), dtype)
    for cuts, axis in (((64,), 1), ((20,), 0), ((4, 196), 1)):
        y = cp.zeros(host.shape, dtype)
        took = put_together("test", y, list(parts_of(host, cuts, axis)))
        assert took == device.traits.is_cpu or dtype == np.uint8  # whose rows are 50 words
        assert not took or np.array_equal(y.get(), host)


@pytest.mark.optimised
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("cache", [1, 1 << 40])
def test_borders_of_images(device, monkeypatch, memory_format, cache):
    traits = dataclasses.replace(device.traits, cache_bytes=cache)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    for shape, dtype in (((3, 5, 30, 67), np.float32), ((2, 20, 33, 40), np.float64)):
        host = random(shape, dtype)
        x = cp.asarray(host, memory_format=memory_format)
        for pad in ((1, 1, 1, 1), (0, 70, 3, 0), (16, 0, 0, 0, 1, 2)):
            pairs = [(0, 0)] * (4 - len(pad) // 2)
            pairs += [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)][::-1]
            expected = np.pad(host, pairs, constant_values=2.5)
            assert np.array_equal(ops.pad(x, pad, value=2.5).get(), expected)
        assert np.array_equal(ops.roll(x, (7, -9), (2, 3)).get(), np.roll(host, (7, -9), (2, 3)))
        assert np.array_equal(ops.cat([x, x], 1).get(), np.concatenate([host, host], 1))


@pytest.mark.optimised
def test_triangles(device):
    for shape in ((70, 200), (200, 70), (2, 3, 65, 130)):
        host = random(shape, np.float32)
        host[..., ::7, ::5] = np.nan
        x = cp.asarray(host)
        columns = cp.asarray(np.ascontiguousarray(host.swapaxes(-1, -2))).swapaxes(-1, -2)
        for k in (-(10**10), -66, -3, 0, 1, 17, 199, 10**10):
            near = max(-1000, min(1000, k))
            for given in (x, columns):
                np.testing.assert_array_equal(ops.tril(given, k).get(), np.tril(host, near))
                np.testing.assert_array_equal(ops.triu(given, k).get(), np.triu(host, near))


def test_a_part_of_an_array_keeps_what_is_around(device):
    a, b = random((100, 70), np.float32), random((100, 31), np.float32)
    base = cp.zeros(100 * 101 + 20)
    ops.cat([cp.asarray(a), cp.asarray(b)], 1, out=base[7:-13].reshape(100, 101))
    found = base.get()
    assert np.array_equal(found[7:-13].reshape(100, 101), np.concatenate([a, b], 1))
    assert not found[:7].any() and not found[-13:].any()


def test_values_between_pieces(device):
    x = cp.asarray(random((50, 60), np.int16))
    with pytest.raises(cp.DTypeError, match="70000"):
        ops.pad(x, (2, 2), value=70000)
    bfloat16 = ops.pad(x.astype(BFLOAT16), (2, 2), value=1.5)
    assert (bfloat16.get().astype(np.float32)[:, [0, 1, -2, -1]] == 1.5).all()
    assert (ops.pad(x, (2, 2), value=-3).get()[:, [0, 1, -2, -1]] == -3).all()


def planned(y, *pieces, traits=CPU, filled=False, cut=None):
    found = PIECES.ruled(Pieces(y, pieces, filled, cut), traits)
    return found and found.main.code


def test_what_has_a_plan():
    y, half = array((50, 128)), array((50, 64))
    code = planned(y, (half, (0, 0)), (half, (0, 64)))
    assert [p.wide for p in code.pieces] == [True, True] and code.outer == 1
    assert planned(y, (half, (0, 0)), (half, (0, 64)), traits=GPU) is None
    assert planned(array((50, 128), steps=2), (half, (0, 0)), (half, (0, 64))) is None
    turned = array((50, 64), order=(1, 0))
    assert planned(y, (turned, (0, 0)), (half, (0, 64))) is None
    short = array((50, 10)), array((50, 3))
    assert planned(array((50, 13)), (short[0], (0, 0)), (short[1], (0, 10))) is None
    many = [(array((50, 32)), (0, 32 * k)) for k in range(9)]
    assert planned(array((50, 288)), *many) is None


def test_which_side_of_a_diagonal_is_kept():
    for order, lower, end in (
        ((0, 1), True, "to"),
        ((0, 1), False, "from"),
        ((1, 0), True, "from"),
        ((1, 0), False, "to"),
    ):
        y = array((300, 400), order=order)
        code = planned(y, (y, (0, 0)), filled=True, cut=Diagonal(3, lower=lower))
        assert [p.cut for p in code.pieces] == [end] and code.outer == 1
    y = array((300, 400), np.float16)
    assert planned(y, (y, (0, 0)), filled=True, cut=Diagonal(0, lower=True)) is None


def test_narrow_dtypes_are_copied_in_words():
    for dtype, start, word in ((np.float16, 10, "uint"), (np.float64, 3, "ulong")):
        code = planned(array((40, 100), dtype), (array((40, 80), dtype), (0, start)), filled=True)
        assert code.word == word
    odd = array((40, 80), np.float16), (0, 11)
    assert planned(array((40, 100), np.float16), odd, filled=True) is None
