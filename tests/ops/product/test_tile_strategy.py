"""The GPU strategy of contractions on the devices that are here: exact sums, whatever the tile.

Plans follow from traits alone, so a CPU runs what a GPU would run. What every strategy must do is
tested with the operators; here are tiles, work-groups and vectors that those would not choose.
"""

import dataclasses

import numpy as np
import pytest
from conv_reference import conv2d, conv2d_input, conv2d_weight, conv_transpose2d
from support import BFLOAT16, MODEST, TRAITS, Guard, equal, numbers, same_bits

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.plan.product import splits, tile_reading, tiles
from clprim.plan.product.local_tile import LocalTile


@pytest.fixture
def fresh(device):
    """The device, without plans from before."""
    Calls.forget()
    return device


def plan_for(device, monkeypatch, traits):
    """Lets a device be planned for as if it were another."""
    planned = dataclasses.replace(device.traits, **traits)
    monkeypatch.setitem(device.__dict__, "traits", planned)


@pytest.fixture
def gpu(fresh, monkeypatch):
    """The device, planned for as if it were a GPU."""
    plan_for(fresh, monkeypatch, TRAITS["gpu"])


@pytest.fixture(params=["gpu", "modest"])
def other(request, fresh, monkeypatch):
    """Likewise, or as if it had little of everything."""
    plan_for(fresh, monkeypatch, TRAITS["gpu"] if request.param == "gpu" else MODEST)


def matmul(a, b, **options):
    return ops.matmul(a, b, algorithm="tiles", **options)


def test_products_of_every_form(other, some):
    for size in some([(64, 64, 64), (67, 33, 130), (1, 300, 5), (5, 9, 1), (130, 7, 66)], 5):
        m, k, n = size
        for form in some(range(4), 2):
            ta, tb = bool(form & 1), bool(form & 2)
            a = numbers((k, m) if ta else (m, k), seed=form)
            b = numbers((n, k) if tb else (k, n), seed=form + 4)
            found = matmul(cp.asarray(a), cp.asarray(b), transpose_a=ta, transpose_b=tb)
            equal(found, (a.T if ta else a) @ (b.T if tb else b), np.float32)


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_convolutions(other, memory_format):
    x, w, bias = numbers((2, 6, 11, 9)), numbers((8, 3, 3, 2), seed=1), numbers(8, seed=2)
    options = {"stride": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2), "groups": 2}
    y = conv2d(x, w, bias, **options)
    grad = numbers(y.shape, seed=3)
    a, b, g = (cp.asarray(t, memory_format=memory_format) for t in (x, w, grad))
    how = {**options, "algorithm": "tiles"}
    equal(ops.conv2d(a, b, cp.asarray(bias), **how), y, np.float32)
    equal(ops.conv2d_input(x.shape, b, g, **how), conv2d_input(x.shape, w, grad, **options))
    equal(ops.conv2d_weight(a, w.shape, g, **how), conv2d_weight(x, w.shape, grad, **options))


def test_transposed_convolution(gpu):
    x, w = numbers((1, 4, 5, 6)), numbers((4, 2, 3, 3), seed=1)
    options = {"stride": 2, "padding": 1, "groups": 2}
    found = ops.conv_transpose2d(cp.asarray(x), cp.asarray(w), **options, algorithm="tiles")
    equal(found, conv_transpose2d(x, w, **options), np.float32)


# Work-groups and sums of any shape, with steps that a work-group's items note one by one.
SHAPES = [
    (1, 1, 4, 4, 1),
    (4, 1, 4, 8, 2),
    (2, 8, 8, 4, 16),
    (16, 16, 8, 8, 8),
    (4, 16, 4, 4, 4),
    (2, 4, 8, 16, 4),
]


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
def test_tiles_of_any_shape(fresh, some, monkeypatch):
    a, b = numbers((37, 45)), numbers((45, 70), seed=1)
    image, w = numbers((1, 5, 7, 8)), numbers((9, 5, 3, 3), seed=1)
    for y, x, rows, columns, steps in some(SHAPES, 5):
        tile = LocalTile(y, x, rows, columns, 4, steps)
        monkeypatch.setattr(tiles, "tiles_for", lambda *_, tile=tile, **__: (tile,))
        Calls.forget()
        equal(matmul(cp.asarray(a), cp.asarray(b)), a @ b, np.float32)
        for memory_format in ("contiguous", "channels_last"):
            found = ops.conv2d(
                cp.asarray(image, memory_format=memory_format),
                cp.asarray(w),
                padding=1,
                algorithm="tiles",
            )
            equal(found, conv2d(image, w, padding=1), np.float32)


DTYPES = [
    (np.float16, np.float16, np.float16),
    (BFLOAT16, BFLOAT16, BFLOAT16),
    (np.float64, np.float64, np.float64),
    (np.int8, np.int8, np.int32),
    (np.uint8, np.int16, np.int32),
    (np.float16, np.float32, np.float32),
]


@pytest.mark.everywhere
@pytest.mark.parametrize("width", [32, 33])  # in vectors, and one by one
def test_dtypes(fresh, gpu, some, width):
    for dtypes in some(DTYPES, 4):
        if np.float64 in dtypes and not fresh.traits.fp64:
            continue
        a, b = numbers((9, width), dtypes[0], high=4), numbers((width, width), dtypes[1], seed=1)
        wide = np.int64 if np.dtype(dtypes[2]).kind == "i" else np.float64
        expected = (a.astype(wide) @ b.astype(wide)).astype(dtypes[2])
        equal(matmul(cp.asarray(a), cp.asarray(b)), expected, dtypes[2])


def test_split_depth_repeats_to_the_bit(other):
    rng = np.random.default_rng(0)
    a, b = (cp.asarray(rng.standard_normal(s).astype(np.float32)) for s in ((5, 3000), (3000, 6)))
    found = matmul(a, b)
    assert "matmul_finish" in kernels_of(a, b)
    assert same_bits(found, matmul(a, b))
    exact = a.get().astype(np.float64) @ b.get().astype(np.float64)
    magnitude = np.abs(a.get()).astype(np.float64) @ np.abs(b.get()).astype(np.float64)
    # Higham's bound of a sum of 3000 products, added in any order.
    assert np.all(np.abs(found.get() - exact) <= 3001 * 2.0**-24 * 1.01 * magnitude)


def kernels_of(a, b):
    """Names of the kernels that a product runs."""
    with cp.profile() as profile:
        matmul(a, b)
    return [event.name for event in profile.events]


def test_epilogue_and_old_value_of_split_sums(gpu):
    a, b, bias, c = numbers((5, 3000)), numbers((3000, 6), seed=1), numbers(6), numbers((5, 6))
    old = numbers((5, 6), seed=9)
    out = Guard((5, 6))
    out.array[...] = cp.asarray(old)
    matmul(
        cp.asarray(a),
        cp.asarray(b),
        bias=cp.asarray(bias),
        epilogue="y0 = max(y0 + x0, 0);",
        epilogue_args=(cp.asarray(c),),
        out=out.array,
        beta=2,
    )
    out.check(np.maximum(a @ b + bias + c, 0) + 2 * old)


def test_nothing_outside_is_read_or_kept(other):
    # NaN all around, which spreads also where it is multiplied by 0.
    host = np.full((2, 5, 9, 12), np.nan, np.float32)
    x, w = numbers((1, 3, 5, 7)), numbers((2, 3, 3, 3), seed=1)
    host[1:, 1:4, 2:7, 3:10] = x
    view = cp.asarray(host)[1:, 1:4, 2:7, 3:10]
    out = Guard((1, 2, 5, 7), fill=np.nan)
    ops.conv2d(view, cp.asarray(w), padding=1, out=out.array, algorithm="tiles")
    out.check(conv2d(x, w, padding=1))


def test_no_depth_at_all(gpu):
    bias = numbers(4)
    found = matmul(cp.zeros((3, 0)), cp.zeros((0, 4)), bias=cp.asarray(bias))
    equal(found, np.broadcast_to(bias, (3, 4)), np.float32)


def test_long_indices(fresh, monkeypatch):
    monkeypatch.setattr(tile_reading, "index_of", lambda _: "long")
    x, w = numbers((2, 3, 6, 7)), numbers((5, 3, 3, 3), seed=1)
    found = ops.conv2d(cp.asarray(x), cp.asarray(w), padding=1, algorithm="tiles")
    equal(found, conv2d(x, w, padding=1), np.float32)
    a, b = numbers((9, 700)), numbers((700, 9), seed=1)
    equal(matmul(cp.asarray(a), cp.asarray(b)), a @ b, np.float32)


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_every_item_reaches_every_barrier(fresh, monkeypatch, memory_format):
    # Small enough to be interpreted: three groups of notes, tails everywhere, splits.
    tile = LocalTile(2, 4, 4, 4, 4, 4)
    monkeypatch.setattr(tiles, "tiles_for", lambda *_, **__: (tile,))
    monkeypatch.setattr(splits, "SHORTEST_CHAIN", 16)
    plan_for(fresh, monkeypatch, {"is_cpu": False, "compute_units": 2})
    x, w = numbers((1, 3, 4, 5)), numbers((5, 3, 3, 3), seed=1)
    a, b = (cp.asarray(t, memory_format=memory_format) for t in (x, w))
    found = ops.conv2d(a, b, padding=1, algorithm="tiles")
    equal(found, conv2d(x, w, padding=1), np.float32)
    left, right = numbers((5, 40)), numbers((40, 6), seed=1)
    equal(matmul(cp.asarray(left), cp.asarray(right)), left @ right, np.float32)
