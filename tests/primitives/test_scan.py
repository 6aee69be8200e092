"""`Scan`: every strategy beside NumPy, several results, what merges in order, and refusals."""

import numpy as np
import pytest
from support import BFLOAT16, VIEWS, equal, numbers, pair, roundoff, same_bits

import clprim as cp

SUM = {"init": "scan_y0 = 0;", "step": "scan_y0 += y0;"}
sums = cp.Scan("y0 = x0;", **SUM)


def expected(x, axis=-1, exclusive=False, reverse=False):
    x = np.flip(x, axis) if reverse else x
    found = np.cumsum(x, axis, dtype=np.int64 if x.dtype.kind in "biu" else np.float64)
    found = found - x if exclusive else found
    return np.flip(found, axis) if reverse else found


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sums_along_any_axis(traits, axis):
    x = numbers((5, 37, 21))
    equal(sums(cp.asarray(x), axis=axis), expected(x, axis), np.float32)


@pytest.mark.parametrize("axis", [1, 2])
def test_exclusive_and_reversed(traits, axis):
    x = numbers((3, 37, 290))
    on_device = cp.asarray(x)
    for reverse in (False, True):
        found = sums(on_device, axis=axis, exclusive=True, reverse=reverse)
        equal(found, expected(x, axis, True, reverse))


@pytest.mark.parametrize("shape", [(200_003,), (70_001, 3)])
def test_lines_in_pieces(traits, shape):
    x = numbers(shape)
    on_device = cp.asarray(x)
    for reverse in (False, True):
        equal(sums(on_device, axis=0, reverse=reverse), expected(x, 0, False, reverse))
    if len(shape) == 1 or not traits.is_cpu:
        assert "scan_totals" in sums.source(on_device, axis=0)
    assert same_bits(sums(on_device, axis=0), sums(on_device, axis=0))


def test_maps_that_do_not_commute(traits):
    # s → a s + b after one another, whose combine is in order.
    scan = cp.Scan(
        "",
        init="scan_y0 = 0; scan_y1 = 1;",
        step="scan_y0 = x1 * scan_y0 + x0; scan_y1 *= x1;",
        combine="scan_y0 = other_y1 * scan_y0 + other_y0; scan_y1 *= other_y1;",
        finalize="y0 = scan_y0;",
    )
    rng = np.random.default_rng(0)
    b, a = rng.integers(-3, 4, (3, 700)), rng.integers(-1, 2, (3, 700))
    state, found = np.zeros(3), np.empty((3, 700))
    for k in range(700):
        state = a[:, k] * state + b[:, k]
        found[:, k] = state
    equal(scan(cp.asarray(b.astype(np.float32)), cp.asarray(a.astype(np.float32))), found)
    turned = [cp.asarray(v.T.astype(np.float32).copy()) for v in (b, a)]
    equal(scan(*turned, axis=0), found.T)


def test_segments_from_strings(device):
    # A flag begins a new segment.
    scan = cp.Scan(
        "",
        init="scan_y0 = 0; scan_y1 = 0;",
        step="scan_y0 = x1 != 0 ? x0 : scan_y0 + x0; scan_y1 = scan_y1 != 0 || x1 != 0;",
        combine="""
            scan_y0 = other_y1 != 0 ? other_y0 : scan_y0 + other_y0;
            scan_y1 = scan_y1 != 0 || other_y1 != 0;
        """,
        finalize="y0 = scan_y0;",
        result_type=np.float32,
    )
    x, flags = numbers((999,)), np.random.default_rng(1).random(999) < 0.05
    found = np.concatenate([np.cumsum(p) for p in np.split(x, np.flatnonzero(flags))])
    equal(scan(cp.asarray(x), cp.asarray(flags)), found)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16, BFLOAT16])
def test_dtypes_are_numpys(device, dtype):
    x = numbers((4, 50), dtype, high=3)
    wide = x.astype(np.float64) if np.dtype(dtype).kind not in "biu" else x
    result = np.cumsum(x).dtype if np.dtype(dtype).kind in "biu" else dtype
    equal(sums(cp.asarray(x)), expected(wide), result)


def test_several_results_positions_and_finalize(device):
    scan = cp.Scan(
        "y0 = x0; y1 = x0 * x0;",
        init="scan_y0 = 0; scan_y1 = 0;",
        step="scan_y0 += y0; scan_y1 += y1;",
        finalize="y0 = scan_y0 / (scan_item + 1); y1 = scan_y1 + w0 * coord(0) + x0 * 0;",
    )
    x = numbers((6, 40))
    mean, squares = scan(cp.asarray(x), 100.0)
    np.testing.assert_allclose(mean.get(), np.cumsum(x, 1) / np.arange(1, 41), rtol=1e-6)
    equal(squares, np.cumsum(x * x, 1) + 100 * np.arange(6)[:, None])


@pytest.mark.parametrize("name", ["every second", "backwards", "transposed"])
def test_views(device, name):
    host, view = pair(numbers((13, 18)), VIEWS[name])
    equal(sums(view, axis=1), expected(host, 1))


def test_broadcast_inputs_in_place_and_channels_last(device):
    scan = cp.Scan("y0 = x0 * x1;", **SUM)
    x, w = numbers((2, 3, 4, 5)), numbers((3, 1, 1), seed=1)
    on_device = cp.asarray(x, memory_format="channels_last")
    found = scan(on_device, cp.asarray(w), axis=1)
    equal(found, expected(x * w, 1))
    assert found.strides == on_device.strides
    assert sums(on_device, axis=3, out=on_device) is on_device
    equal(on_device, expected(x, 3))


def test_nothing_and_single_numbers(device):
    assert sums(cp.zeros((0, 3)), axis=0).get().shape == (0, 3)
    assert sums(cp.zeros((3, 0))).get().shape == (3, 0)
    assert sums(cp.asarray(np.float32(4))).item() == 4
    assert sums(cp.full((2, 1), 4.0), exclusive=True).get().tolist() == [[0], [0]]
    greatest = cp.Scan(
        "y0 = x0;",
        init="scan_y0 = lowest_scan_y0; scan_y1 = 0;",
        step="if (y0 > scan_y0) { scan_y0 = y0; scan_y1 = scan_item; }",
    )
    for options in ({}, {"reverse": True}, {"axis": 0}):
        value, at = greatest(cp.asarray(np.float32(4)), **options)
        assert (value.item(), at.item(), at.shape) == (4, 0, ())


def test_a_nan_spoils_only_what_follows(device):
    x = np.ones((2, 64), np.float32)
    x[0, 20] = np.nan
    found = sums(cp.asarray(x)).get()
    assert np.isnan(found[0, 20:]).all()
    assert (found[0, :20] == np.arange(1, 21)).all() and (found[1] == np.arange(1, 65)).all()


def test_long_sums_are_accurate(device):
    x = np.random.default_rng(0).random(300_000).astype(np.float32)
    exact = np.cumsum(x, dtype=np.float64)
    error = np.abs(sums(cp.asarray(x)).get() - exact)
    assert (error <= roundoff(np.float32, 600) * exact).all()


def test_refusals_in_a_definition():
    for message, options in [
        ("init never assigns scan_y1", {"init": "scan_y0 = 0;", "step": "scan_y1 += x0;"}),
        ("give combine=", {"init": "scan_y0 = 0;", "step": "scan_y0 = scan_y0 * x0 + x0;"}),
        ("not available in step", {"init": "scan_y0 = 0;", "step": "scan_y0 += reduce_item;"}),
        ("'reduce_y0'", {"init": "reduce_y0 = 0;", "step": "scan_y0 += x0;"}),
        ("expected scan_y0", {"init": "", "step": "scan_y0 += x0;"}),
        ("at least one array", {"init": "scan_y0 = 0;", "step": "scan_y0 += w0;"}),
    ]:
        with pytest.raises(cp.DefinitionError, match=message):
            cp.Scan("", **options)


def test_refusals_of_a_call(device):
    x = cp.zeros((3, 4))
    for error, message, call in [
        (cp.ShapeError, "out of bounds", lambda: sums(x, axis=2)),
        (cp.ShapeError, "one axis", lambda: sums(x, axis=None)),
        (cp.ShapeError, "one axis", lambda: sums(x, axis=(0, 1))),
        (cp.ShapeError, "expected 1 argument", lambda: sums(x, x)),
        (cp.ShapeError, "expected \\(3, 4\\)", lambda: sums(x, out=cp.zeros((4, 3)))),
        (cp.ShapeError, "overlaps x0", lambda: sums(x[:, :3], out=x[:, 1:])),
        (cp.DTypeError, "cannot hold", lambda: sums(x, out=cp.zeros((3, 4), np.int32))),
        (cp.DTypeError, "upload it", lambda: sums(np.zeros(3))),
    ]:
        with pytest.raises(error, match=message):
            call()
    assert not x.get().any()
