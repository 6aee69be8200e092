"""What a compiler lacks or dies of is written anew; tried on every device, lacking it or not."""

import numpy as np
import pytest
from support import equal

import clprim as cp
from clprim import ops
from clprim.runtime import probe, program
from clprim.runtime.substitutes import completed

LACKING = ("halves", "circular", "fused")
pytestmark = pytest.mark.optimised


@pytest.fixture
def lacking(device, monkeypatch):
    """A device whose compiler lacks everything that there is a substitute for."""
    found = probe.abilities(device.cl) - {*LACKING}
    monkeypatch.setattr(probe, "abilities", lambda device: found)
    monkeypatch.setattr(device, "index", f"{device.index} lacking")
    program.forget()
    yield device
    program.forget()


def test_programs_that_lack_nothing_are_compiled_as_printed(device, lacking):
    plain = cp.Pointwise("y0 = exp(x0);").source(cp.zeros(9))
    assert completed(device.cl, plain, "") is plain
    for text in ("y0 = sin(x0);", "y0 = fma(x0, x0, 1);"):
        source = cp.Pointwise(text).source(cp.zeros(9))
        whole = completed(device.cl, source, "")
        assert whole.endswith(source)
        assert whole != source


# As well on the runtime as it is: PoCL on cores with AVX2 ended the process of each of these.
@pytest.mark.parametrize("fixture", ["device", "lacking"])
def test_odd_rows_and_views_of_halves(device, request, fixture):
    request.getfixturevalue(fixture)
    host = np.random.default_rng(3).integers(-99, 99, (5, 37)).astype(np.float16)
    x = cp.asarray(host)
    for name in ("amax", "amin", "sum", "any"):
        for axis in (0, 1):
            equal(getattr(ops, name)(x, axis=axis), getattr(np, name)(host, axis=axis))
    view = cp.asarray(np.arange(200, dtype=np.float16))[3:]
    equal(cp.clip(view, 7, 50), np.clip(view.get(), 7, 50))
    wide = np.random.default_rng(4).integers(-9, 9, (2, 19, 7, 9)).astype(np.float16)
    last = cp.asarray(wide, memory_format="channels_last")
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2, ::2]
    equal(ops.max_pool2d(last, 3, 2), windows.max((4, 5)))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_circular_functions_keep_opencls_bounds(lacking, name):
    rng = np.random.default_rng(5)
    angles = np.concatenate(
        [
            rng.integers(0, 0x7F800000, 20000, np.uint32).view(np.float32),
            (np.arange(1, 5000) * np.pi / 2).astype(np.float32),
            np.float32([0, 1e-30, 0.78539816, 0.7853982, 16367173 * 2.0**72]),
        ]
    )
    angles = np.concatenate([angles, -angles])
    expected = getattr(np, name)(angles.astype(np.float64))
    kernel = cp.Pointwise(f"y0 = {name}(x0);")
    found = kernel(cp.asarray(angles)).get().astype(np.float64)
    ulp = np.spacing(np.maximum(abs(expected), 1e-37).astype(np.float32))
    assert (abs(found - expected) / ulp).max() <= (5 if name == "tan" else 4)
    assert np.isnan(kernel(cp.asarray(np.float32([np.inf, np.nan]))).get()).all()


def test_fma_rounds_once(lacking):
    rng = np.random.default_rng(6)
    x = rng.integers(0, 2**32, (3, 40000), np.uint64).astype(np.uint32)
    x = x.view(np.float32)
    x[:, 1::2] = rng.integers(-4096, 4096, (3, 20000)) * 2.0 ** rng.integers(-40, 40, (3, 20000))
    with np.errstate(all="ignore"):
        near = (1 + rng.integers(-3, 4, 10000) * 2.0**-23).astype(np.float32)
        x[2, ::4] = -(x[0, ::4] * x[1, ::4]) * near  # what cancels
        a, b, c = x.astype(np.longdouble)
        exact = a * b  # of 48 bits
        sum_ = exact + c
        back = sum_ - exact
        lost = (exact - (sum_ - back)) + (c - back)
        toward = np.where(lost > 0, np.inf, -np.inf).astype(np.longdouble)
        odd = np.where((lost != 0) & np.isfinite(lost), np.nextafter(sum_, toward), sum_)
        expected = odd.astype(np.float32)
        known = ~(abs(expected) < 1.2e-38) & ~(abs(x) < 1.2e-38).any(0)  # some devices flush these
    assert np.finfo(np.longdouble).nmant >= 63
    found = cp.Pointwise("y0 = fma(x0, x1, x2);")(*map(cp.asarray, x)).get()
    np.testing.assert_array_equal(found[known], expected[known])


def test_random_numbers_are_those_of_any_device(device, request):
    drawn = []
    for fixture in ("device", "lacking"):
        request.getfixturevalue(fixture)
        cp.random.seed(7)
        drawn.append(cp.random.normal((300,)).get())
    np.testing.assert_array_equal(*drawn)


def test_doubles_keep_their_own(lacking):
    if not lacking.traits.fp64:
        pytest.skip("no double")
    x = np.linspace(0.1, 3, 50)
    found = cp.Pointwise("y0 = sin(x0) + fma(x0, x0, 1.0);")(cp.asarray(x)).get()
    np.testing.assert_allclose(found, np.sin(x) + x * x + 1, rtol=1e-14)


def test_what_has_no_substitute_is_refused_by_name(lacking):
    text = "int q; y0 = remquo(x0, 3.0f, &q);"
    with pytest.raises(cp.BuildError, match="lacks remquo; write remainder"):
        cp.Pointwise(text)(cp.asarray(np.float32([7])))


def test_complaints_still_name_the_users_line(lacking):
    source = cp.Pointwise("y0 = sin(x0);").source(cp.zeros(3))
    with pytest.raises(cp.BuildError, match="expr, line 1:"):
        program.build(lacking, source.replace("y0 = sin(x0);", "y0 = sin(x0) @;"))


@pytest.mark.large
def test_a_new_large_array_holds_what_was_put_into_it(device):
    # rusticl 25 wrote zeros over it: what had been mapped to ask for huge pages came back late.
    x = np.arange(1 << 20, dtype=np.float32)
    arrays = [cp.asarray(x + n) for n in range(3)]
    assert all(np.array_equal(a.get(), x + n) for n, a in enumerate(arrays))
