"""`Scan` with ``segments=``: runs of equal keys, each scanned by itself, beside NumPy."""

import numpy as np
import pytest
from support import equal, numbers, same_bits

import clprim as cp

SUM = {"init": "scan_y0 = 0;", "step": "scan_y0 += y0;"}
sums = cp.Scan("y0 = x0;", **SUM)


def sums_of_runs(x, keys, axis, exclusive=False, reverse=False):
    """Sums within runs of equal keys: all sums up to an element, less those before its run."""
    lines = np.moveaxis(np.float64(x), axis, -1)
    keys = np.moveaxis(np.broadcast_to(keys, x.shape), axis, -1)
    if reverse:
        lines, keys = lines[..., ::-1], keys[..., ::-1]
    begins = np.append(np.ones_like(keys[..., :1], bool), np.diff(keys) != 0, -1)
    first = np.maximum.accumulate(np.where(begins, np.arange(lines.shape[-1]), 0), -1)
    before = np.cumsum(lines, -1) - lines
    found = before - np.take_along_axis(before, first, -1) + (0 if exclusive else lines)
    return np.moveaxis(found[..., ::-1] if reverse else found, -1, axis)


@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_runs_of_equal_keys(traits, axis, exclusive, reverse):
    x, rng = numbers((3, 70, 300)), np.random.default_rng(7)
    line = [1, 1, 1]
    line[axis] = x.shape[axis]
    for keys in (
        rng.integers(0, 3, x.shape),
        np.sort(rng.integers(0, 9, line).astype(np.float32), axis),
    ):
        options = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        found = sums(cp.asarray(x), segments=cp.asarray(keys), **options)
        equal(found, sums_of_runs(x, keys, axis, exclusive, reverse), np.float32)


@pytest.mark.parametrize("exclusive", [False, True])
def test_lines_in_pieces(traits, exclusive):
    x = numbers((100_003,))
    keys = np.cumsum(np.random.default_rng(0).random(x.size) < 0.0003)  # some run over pieces
    arguments = cp.asarray(x), cp.asarray(keys)
    found = sums(arguments[0], segments=arguments[1], exclusive=exclusive)
    equal(found, sums_of_runs(x, keys, 0, exclusive))
    assert same_bits(found, sums(arguments[0], segments=arguments[1], exclusive=exclusive))
    assert "scan_totals" in sums.source(arguments[0], segments=arguments[1])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.float16, np.float64])
def test_dtypes_are_those_without_segments(device, dtype):
    x = np.full((2, 300), 1, dtype)
    if np.dtype(dtype) == np.float64 and not device.traits.fp64:
        pytest.skip("no float64")
    on_device, keys = cp.asarray(x), cp.asarray(np.arange(300) // 290)
    found = sums(on_device, segments=keys)
    assert found.dtype == sums(on_device).dtype
    assert (found.get() == np.r_[1:291, 1:11]).all()
    squares = cp.Scan("y0 = x0 * x0;", **SUM)  # of the same width as without segments
    hundred = cp.asarray(np.full((3,), 100, np.int8))
    plain, segmented = squares(hundred), squares(hundred, segments=cp.zeros(3))
    assert segmented.get().tolist() == plain.get().tolist() == [10_000, 20_000, 30_000]


@pytest.mark.parametrize("exclusive", [False, True])
def test_several_results_start_value_finalize_and_scalars(device, exclusive):
    scan = cp.Scan(
        "float t = x0; y0 = t; y1 = 2 * t;",
        init="float t = -1e30f; scan_y0 = t; typeof_scan_y1 s = 0; scan_y1 = s;",
        step="float t = y0; scan_y0 = fmax(scan_y0, t); scan_y1 += y1;",
        combine="float t = other_y0; scan_y0 = fmax(scan_y0, t); scan_y1 += other_y1;",
        finalize="typeof_scan_y0 t = scan_y0; y0 = t; y1 = w0 * scan_y1 + x1 + scan_item;",
    )
    x, keys = numbers((400,)), np.arange(400) // 37
    most, total = scan(
        cp.asarray(x), cp.full((1,), 3.0), 0.5, segments=cp.asarray(keys), exclusive=exclusive
    )
    before = [np.append(np.float32(-1e30), np.maximum.accumulate(r)) for r in runs(x, keys)]
    begin, end = (0, -1) if exclusive else (1, None)
    equal(most, np.concatenate([b[begin:end] for b in before]))
    added = [np.append(0, np.cumsum(r)) for r in runs(x, keys)]
    equal(total, np.concatenate([a[begin:end] for a in added]) + 3 + np.arange(400))


def runs(x, keys):
    return np.split(x, np.flatnonzero(np.diff(keys)) + 1)


def test_maps_that_do_not_commute(traits):
    scan = cp.Scan(
        "",
        init="scan_y0 = 0; scan_y1 = 1;",
        step="scan_y0 = x1 * scan_y0 + x0; scan_y1 *= x1;",
        combine="scan_y0 = other_y1 * scan_y0 + other_y0; scan_y1 *= other_y1;",
        finalize="y0 = scan_y0;",
    )
    rng = np.random.default_rng(0)
    b, a = rng.integers(-3, 4, 700), rng.integers(-1, 2, 700)
    keys = np.arange(700) // 90
    state, expected = 0, []
    for k in range(700):
        state = a[k] * (0 if k and keys[k] != keys[k - 1] else state) + b[k]
        expected.append(state)
    arrays = (cp.asarray(v.astype(np.float32)) for v in (b, a))
    equal(scan(*arrays, segments=cp.asarray(keys)), np.array(expected))


def test_views_empty_arrays_and_results_on_keys(device):
    x, keys = numbers((6, 40)), np.arange(240).reshape(6, 40) // 7
    found = sums(cp.asarray(x)[::-1, ::2], segments=cp.asarray(keys)[::-1, ::2])
    equal(found, sums_of_runs(x[::-1, ::2], keys[::-1, ::2], -1))
    on_device = cp.asarray(x)
    assert sums(on_device, axis=0, segments=on_device, out=on_device) is on_device
    equal(on_device, sums_of_runs(x, x, 0))
    assert sums(cp.zeros((0, 3)), axis=0, segments=cp.zeros((0, 1))).shape == (0, 3)
    assert sums(cp.zeros((3, 0)), segments=cp.zeros((3, 0))).shape == (3, 0)
    assert sums(cp.full((), 4.0), segments=cp.full((), 1.0)).item() == 4
    assert sums(cp.full((3,), 1.0), segments=cp.full((), 1.0)).get().tolist() == [1, 2, 3]
    # One key for each line: a segment is a line.
    by_line = sums(cp.asarray(x), segments=cp.asarray(np.arange(6)[:, None]))
    equal(by_line, np.cumsum(x, 1))


def test_refusals(device):
    x = cp.zeros((3, 4))
    for error, message, keys in [
        (cp.ShapeError, r"segments has shape \(3,\), expected \(3, 4\)", cp.zeros(3)),
        (cp.ShapeError, r"segments has shape \(2, 3, 4\)", cp.zeros((2, 3, 4))),
        (cp.DTypeError, "expected a device array for segments, got ndarray", np.zeros(4)),
        (cp.DTypeError, "expected a device array for segments, got list", [0, 0, 1, 1]),
    ]:
        with pytest.raises(error, match=message):
            sums(x, segments=keys)
    with pytest.raises(cp.ShapeError, match="axis"):
        sums(x, axis=2, segments=x)
    with pytest.raises(cp.ShapeError, match="one axis"):
        sums(x, axis=None, segments=x)


def test_the_compiler_quotes_the_users_line(device):
    scan = cp.Scan(
        "y0 = x0;",
        init="\nscan_y0 = 0;",
        step="\nscan_y0 += native_nothing(y0);",
        combine="scan_y0 += other_y0;",
        preamble="float native_nothing(float *x);",
    )
    with pytest.raises(cp.BuildError, match="step, line 2"):
        scan(cp.zeros(3), segments=cp.zeros(3), exclusive=True)
