"""Random numbers: Philox beside NumPy's integers, the same on every device, cut and layout."""

import zlib

import numpy as np
import pytest
from support import BFLOAT16, same_bits

import clprim as cp
from clprim import ops

SEED = 0x1234_5678_9ABC_DEF0


def philox(counter, key):
    """Philox 4×32-10 on arrays of words, by the paper."""
    c, k = [np.asarray(w, np.uint64) for w in counter], [np.uint64(w) for w in key]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        shift = np.uint64(32)
        c = [b >> shift ^ c[1] ^ k[0], b & low, a >> shift ^ c[3] ^ k[1], a & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return c


def words(count, call=0, draw=0):
    zero = np.zeros(count, np.uint64)
    return philox(
        [np.arange(count), zero, zero + np.uint64(call), zero + np.uint64(draw)],
        [SEED & 0xFFFFFFFF, SEED >> 32],
    )


@pytest.fixture(autouse=True)
def seeded():
    before = cp.random.get_state()
    cp.random.seed(SEED)
    yield
    cp.random.set_state(before)


def test_the_reference_is_philox():
    # Random123's known answers.
    assert [hex(int(w)) for w in philox([0] * 4, [0] * 2)] == [
        "0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8",
    ]  # fmt: skip
    ones = [0xFFFFFFFF] * 4
    assert [hex(int(w)) for w in philox(ones, ones[:2])] == [
        "0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd",
    ]  # fmt: skip


def test_uniform_numbers_are_philoxs(device):
    expected = (words(1000)[0] >> np.uint64(8)).astype(np.float64) * 2.0**-24
    np.testing.assert_array_equal(cp.random.uniform((1000,)).get(), expected)
    second = (words(1000, call=1)[0] >> np.uint64(8)).astype(np.float64) * 2.0**-24
    np.testing.assert_array_equal(cp.random.uniform((10, 100)).get().ravel(), second)


def test_draws_of_an_element_differ_and_do_not_depend_on_cuts(traits):
    draws = cp.Pointwise("y0 = rand(); for (int k = 0; k < 3; ++k) y0 = 2 * y0 + rand();")
    by_hand = [(words(600, draw=k)[0] >> np.uint64(8)).astype(np.float64) * 2.0**-24
               for k in range(4)]  # fmt: skip
    expected = ((by_hand[0] * 2 + by_hand[1]) * 2 + by_hand[2]) * 2 + by_hand[3]
    out = cp.empty((20, 30), np.float32)
    np.testing.assert_allclose(draws(out=out).get().ravel(), expected, rtol=1e-6)


def test_reductions_and_scans_draw_by_position(traits):
    state = cp.random.get_state()
    drawn = cp.random.uniform((40, 70)).get().astype(np.float64)
    x = cp.zeros((40, 70))
    total = cp.Reduction("y0 = rand() + x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    scan = cp.Scan("y0 = rand() + x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")
    for axis in (0, 1):
        with cp.random.at(state):
            np.testing.assert_allclose(total(x, axis=axis).get(), drawn.sum(axis), rtol=1e-5)
        with cp.random.at(state):
            np.testing.assert_allclose(scan(x, axis=axis).get(), np.cumsum(drawn, axis), rtol=1e-5)


def test_memory_formats_see_the_same_numbers(device):
    x = np.ones((2, 3, 4, 5), np.float32)
    state = cp.random.get_state()
    plain = ops.dropout(cp.asarray(x), 0.4)
    with cp.random.at(state):
        last = ops.dropout(cp.asarray(x, memory_format="channels_last"), 0.4)
    np.testing.assert_array_equal(plain.get(), last.get())
    assert last.strides != plain.strides


def test_integers_cover_their_range(device):
    found = cp.random.randint(-3, 4, (5000,)).get()
    high, low = words(5000)[:2]
    word = high << np.uint64(32) | low
    expected = np.array([-3 + (int(w) * 7 >> 64) for w in word])
    np.testing.assert_array_equal(found, expected)
    assert {*found} == {*range(-3, 4)}
    assert cp.random.randint(0, 256, 9, dtype=np.uint8).dtype == np.uint8


def test_distributions(device):
    n = 200_000
    for x, mean, deviation in [
        (cp.random.uniform((n,), -1, 3), 1, 4 / 12**0.5),
        (cp.random.normal((n,), 2, 3), 2, 3),
        (cp.random.exponential((n,), 4), 0.25, 0.25),
        (cp.random.bernoulli(0.3, (n,)), 0.3, 0.21**0.5),
    ]:
        values = x.get().astype(np.float64)
        assert abs(values.mean() - mean) < 5 * deviation / n**0.5
        assert abs(values.std() - deviation) < 0.02 * deviation + 0.005
    normal = cp.random.normal((n,)).get()
    assert abs((normal**3).mean()) < 0.05 and abs((normal**4).mean() - 3) < 0.1
    assert np.abs(normal).max() < 7
    assert cp.random.bernoulli(cp.asarray(np.array([0, 1, 0, 1], "f"))).get().tolist() == [0, 1] * 2


def test_float64_has_53_bits(device):
    if not device.traits.fp64:
        with pytest.raises(cp.DTypeError, match="cl_khr_fp64"):
            cp.random.uniform((3,), dtype=np.float64)
        return
    high, low = words(100)[:2]
    word = (high << np.uint64(32) | low) >> np.uint64(11)
    found = cp.random.uniform((100,), dtype=np.float64).get()
    np.testing.assert_array_equal(found, word.astype(np.float64) * 2.0**-53)


@pytest.mark.everywhere
@pytest.mark.optimised
def test_normal_numbers_are_the_same_bits_on_every_device(device):
    """The bits that other runtimes gave: no device's own logarithm, cosine, root or fusing."""
    n = 20_000
    plain = cp.random.normal((n,))
    cp.random.seed(SEED)
    shifted, within = cp.random.normal((n,), 2.5, 3.25), cp.random.uniform((n,), -1.5, 3.25)
    cp.random.seed(SEED)
    added = cp.Pointwise("y0 = x0 + randn();")(cp.full((n,), 0.3))
    found = [zlib.crc32(x.get().tobytes()) for x in (plain, shifted, within, added)]
    assert found == [550477379, 1657198037, 2300141787, 2298686331]
    if device.traits.fp64:
        cp.random.seed(SEED)
        assert zlib.crc32(cp.random.normal((n,), dtype="float64").get().tobytes()) == 4085536998


def test_normal_numbers_are_box_and_mullers(device):
    radius, turn, *_ = words(20_000)
    u = (radius.astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)).astype(np.float64)
    turn = (turn >> np.uint64(8)).astype(np.float64) * 2.0**-24
    expected = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * turn)
    found = cp.random.normal((20_000,)).get()
    assert np.all(np.abs(found - expected) <= 4 * np.spacing(np.abs(expected).astype(np.float32)))
    if device.traits.fp64:
        a, b, c, d = words(20_000)
        pairs = [high << np.uint64(32) | low for high, low in [(a, b), (c, d)]]
        u, turn = [(pair >> np.uint64(11)) * 2.0**-53 for pair in pairs]
        expected = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * turn)
        cp.random.seed(SEED)
        found = cp.random.normal((20_000,), dtype="float64").get()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_the_same_seed_gives_the_same_bits(device):
    first = [cp.random.normal((50,)), cp.random.uniform((3, 4))]
    cp.random.seed(SEED)
    again = [cp.random.normal((50,)), cp.random.uniform((3, 4))]
    assert all(same_bits(a, b) for a, b in zip(first, again, strict=True))
    assert not same_bits(again[1], cp.random.uniform((3, 4)))


def test_permutations(device):
    for n in (0, 1, 7, 3000):
        found = cp.random.randperm(n).get()
        assert found.dtype == np.int64
        np.testing.assert_array_equal(np.sort(found), np.arange(n))
    assert (found != np.arange(n)).mean() > 0.9


def test_multinomial(device):
    weights = np.array([[0, 1, 3, 0, 4], [5, 0, 0, 5, 0]], np.float32)
    for rows in (weights, weights[0]):
        found = cp.random.multinomial(cp.asarray(rows), 8000, replacement=True).get()
        for row, w in zip(np.atleast_2d(found), np.atleast_2d(rows), strict=True):
            np.testing.assert_allclose(np.bincount(row, minlength=5) / 8000, w / w.sum(), atol=0.03)
    many = np.broadcast_to(weights[0], (4000, 5)).copy()
    found = cp.random.multinomial(cp.asarray(many), 3).get()
    assert (np.sort(found, 1) == [1, 2, 4]).all()
    np.testing.assert_allclose(np.bincount(found[:, 0], minlength=5) / 4000, many[0] / 8, atol=0.04)


def test_refusals(device):
    random = cp.random
    for error, message, call in [
        (cp.DefinitionError, "written rand\\(\\)", lambda: cp.Pointwise("y0 = rand;")),
        (cp.DefinitionError, "randint\\(from, to\\)", lambda: cp.Pointwise("y0 = randint(3);")),
        (cp.DefinitionError, "the engine declares it", lambda: cp.Pointwise("int rand = 3;")),
        (cp.DefinitionError, "not available in init",
         lambda: cp.Reduction("", init="reduce_y0 = rand();", step="reduce_y0 += x0;")),
        (cp.DTypeError, "expected an integer", lambda: random.seed("a")),
        (cp.DTypeError, "floating", lambda: random.uniform((3,), dtype=np.int32)),
        (cp.DTypeError, "expected a number", lambda: random.normal((3,), "a")),
        (cp.DTypeError, "out of bounds", lambda: random.randint(0, 300, 3, dtype=np.uint8)),
        (cp.ShapeError, "no integer", lambda: random.randint(3, 3, 3)),
        (cp.ShapeError, "expected sizes", lambda: random.uniform((-1,))),
        (cp.ShapeError, "needs shape", lambda: random.bernoulli(0.5)),
        (cp.ShapeError, "must not be negative", lambda: random.randperm(-1)),
        (cp.DTypeError, "expected an integer", lambda: random.randperm(2.5)),
        (cp.ShapeError, "without replacement", lambda: random.multinomial(cp.zeros((3,)), 4)),
        (cp.DTypeError, "floating", lambda: random.multinomial(cp.zeros((3,), np.int32), 1)),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call()
    assert cp.random.get_state() == (SEED, 0)


@pytest.mark.parametrize("name", ["x", "s0", "f"])
def test_a_local_may_be_called_as_a_component(device, name):
    # The engine's own lines have `words.x`, `v.s0` and `0.f`, in which a local has no part.
    found = cp.Pointwise(f"float {name} = x0 * 2; y0 = {name} + rand();")(cp.ones(100, "float32"))
    assert ((found.get() >= 2) & (found.get() < 3)).all()


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 5), (1, 1.01), (2, 2)])
def test_uniform_numbers_are_below_their_end(device, dtype, low, high):
    found = cp.random.uniform((1 << 18,), low, high, dtype=dtype).get().astype(np.float64)
    least, end = (float(np.asarray(v, dtype)) for v in (low, high))
    assert found.min() >= least and (found.max() < end or low == high)
    if high - low >= 1:
        assert abs(found.mean() - (low + high) / 2) < 0.01 * (high - low)
