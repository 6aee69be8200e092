"""Convolutions and their gradients by matrix units, which work-items emulate here; exact.

The other tests of units multiply matrices: `tests/ops/product/test_matrix_units.py`.
"""

import dataclasses

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, LAYERS, PAIRS, check_case, make_case, upload
from support import BFLOAT16, Guard, equal, numbers, same_bits

import clprim as cp
from clprim import ops
from clprim.plan.conv.dense import CPU, GPU, dense_convolution, dense_depthwise
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.product import splits, tile_reading
from clprim.plan.units.known import UNITS

MMA, TF32 = "mma.sync/m16n8k16/float16/32", "mma.sync/m16n8k8/tf32/32"
BFLOAT16_MMA = "mma.sync/m16n8k16/bfloat16/32"
HOW = {"algorithm": "matrix"}
as_written = pytest.mark.usefixtures("unoptimised")


def check(case, dtype=np.float16, formats=(), gradients=False):
    check_case(case, "matrix", dtype, formats=formats, gradients=gradients)


def image(x_shape, w_shape, **options):
    """A case of given shapes."""
    told = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, **options}
    case = make_case(**PAIRS[0])
    return dataclasses.replace(case, x_shape=x_shape, w_shape=w_shape, options=told)


#: Channels in whole vectors, so that copies are as wide as they may be, and odd ones.
CASES = {
    "whole": image((2, 16, 9, 10), (24, 16, 3, 3), padding=1),
    "stride": image((1, 24, 12, 11), (16, 24, 3, 3), stride=2, padding=(1, 0)),
    "stem": image((1, 3, 15, 14), (10, 3, 7, 7), stride=2, padding=3),
    "dilation": image((2, 8, 13, 12), (9, 8, 3, 2), dilation=(3, 2), padding=(2, 1, 0, 3)),
    "groups": image((2, 32, 7, 8), (48, 8, 3, 3), padding=1, groups=4),
    "pixels apart": image((1, 5, 7, 7), (6, 5, 1, 1), stride=2),
    "padded pixels": image((1, 8, 5, 6), (8, 8, 1, 1), padding=1),
    "steps": image((2, 40, 5, 5), (8, 40, 2, 2)),
}


@as_written
@pytest.mark.everywhere
@pytest.mark.parametrize("formats", [(a, b) for a in FORMATS for b in FORMATS], ids=str)
def test_windows(units, some, formats):
    units(MMA)
    for case in some(list(CASES.values()), 4):
        check(case, formats=formats)


@as_written
@pytest.mark.parametrize("memory_format", FORMATS)
def test_gradients(units, some, memory_format):
    units(MMA)
    for case in some(list(CASES.values()), 4):
        check(case, formats=(memory_format, memory_format), gradients=True)


@as_written
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("unit", [u for u in UNITS if u.itemsize == 1], ids=lambda u: u.name)
def test_bytes(units, some, unit, memory_format):
    """Added up in int32, every bit; and brought back to bytes by an epilogue."""
    few = unit.items <= 16
    tile = (1, 4 if unit.items < 16 else 2, 2, 2, 1 if few else 2, 2)
    # Of planes a weight is the first factor.
    swapped = {u.name for u in UNITS if u.operands == unit.operands[::-1] and u.items == 32}
    units(unit.name, *swapped - {unit.name}, tile=tile, register_bytes=4096)
    rng, kinds = np.random.default_rng(5), unit.operands
    for case in some([CASES["whole"], CASES["stem"], CASES["groups"], CASES["pixels apart"]], 4):
        x, w = (
            rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
            for kind, shape in zip(kinds, (case.x_shape, case.w_shape), strict=True)
        )
        a, b = upload(x, memory_format), upload(w, "contiguous")
        wanted = reference.conv2d(*(o.astype(np.float64) for o in (x, w)), None, **case.options)
        found = ops.conv2d(a, b, **case.options, **HOW)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found.get(), wanted)
        epilogue = {"epilogue": "y0 = clamp(y0 / 4096, w0, w1);", "epilogue_args": (-128, 127)}
        found = ops.conv2d(a, b, **case.options, **HOW, **epilogue)
        np.testing.assert_array_equal(found.get(), np.clip(np.trunc(wanted / 4096), -128, 127))


@as_written
def test_factors_in_every_combination(units, some):
    units(MMA)
    for number, row in enumerate(some(PAIRS, 30)):
        if row["groups"] != "C":
            check(make_case(**row), gradients=number % 4 == 0)


@as_written
@pytest.mark.parametrize("unit", [u for u in UNITS if u.itemsize > 1], ids=lambda u: u.name)
def test_every_unit(units, unit):
    tile = (1, 4, 2, 2, 2, 2) if unit.items < 16 else (1, 2, 2, 2, 2, 2)
    units(unit.name, tile=tile, register_bytes=4096)
    dtype = {"float16": np.float16, "bfloat16": BFLOAT16}.get(unit.operands[0], np.float32)
    with cp.options(matmul_precision="high"):
        for memory_format in FORMATS:
            check(CASES["whole"], dtype, (memory_format, memory_format))


@as_written
@pytest.mark.parametrize("tile", [(1, 1, 1, 2, 1, 2), (1, 2, 4, 2, 2, 4), (4, 2, 2, 4, 2, 3)])
def test_tiles(units, tile):
    units(MMA, tile=tile)
    for formats in zip(FORMATS, FORMATS, strict=True):
        check(CASES["whole"], formats=formats)
        check(CASES["groups"], formats=formats, gradients=True)


@as_written
def test_layers_of_networks(units, some):
    units(MMA)
    for number, (layer, (x_shape, w_shape, options)) in enumerate(some([*LAYERS.items()], 4)):
        x = numbers(x_shape, np.float16, high=2, low=-1)
        w = numbers(w_shape, np.float16, seed=1, high=2, low=-1)
        found = ops.conv2d(upload(x, FORMATS[number % 2]), cp.asarray(w), **options, **HOW)
        expected = reference.conv2d(x, w, **options)
        np.testing.assert_array_equal(found.get(), expected.astype(np.float16), err_msg=layer)


@as_written
def test_views_epilogue_and_old_value(units):
    units(MMA)
    x, w, bias = numbers((2, 6, 9, 17), np.float16), numbers((10, 6, 3, 3), np.float16, 1), 3
    part = x[:, :, 1:, 1:16:2]
    expected = reference.conv2d(part, w, stride=(1, 2), padding=1)
    c, old = (numbers(expected.shape, np.float16, seed=n) for n in (2, 9))
    out = Guard(expected.shape, np.float16)
    out.array[...] = cp.asarray(old)
    told = {"epilogue": "y0 = max(y0 + x0, 0);", "epilogue_args": (cp.asarray(c),)}
    given = cp.asarray(x)[:, :, 1:, 1:16:2]
    more = {"stride": (1, 2), "padding": 1, "out": out.array, "beta": 2, **HOW}
    ops.conv2d(given, cp.asarray(w), cp.full(10, bias, np.float16), **told, **more)
    out.check(np.maximum(expected + bias + c, 0) + 2 * old)


@as_written
def test_nothing_outside_is_read(units):
    # NaN all around, which spreads also where it is multiplied by 0.
    units(MMA)
    x, w = numbers((1, 8, 5, 6), np.float16), numbers((8, 8, 3, 3), np.float16, 1)
    for memory_format in FORMATS:
        whole = np.full((3, 12, 9, 10), np.nan, np.float16)
        whole[1:2, 2:10, 2:7, 2:8] = x
        given = upload(whole, memory_format)[1:2, 2:10, 2:7, 2:8]
        found = ops.conv2d(given, cp.asarray(w), padding=2, **HOW)
        equal(found, reference.conv2d(x, w, padding=2).astype(np.float16), np.float16)


@as_written
def test_depth_to_space(units):
    units(MMA)
    x, w = numbers((1, 8, 5, 6), np.float16), numbers((12, 8, 3, 3), np.float16, 1)
    expected = reference.conv2d(x, w, padding=1).reshape(1, 3, 2, 2, 5, 6)
    expected = expected.transpose(0, 1, 4, 2, 5, 3).reshape(1, 3, 10, 12)
    for memory_format in FORMATS:
        given = upload(x, memory_format)
        found = ops.conv2d(given, cp.asarray(w), padding=1, depth_to_space=2, **HOW)
        equal(found, expected.astype(np.float16), np.float16)


@as_written
def test_weights_gradient_in_splits_repeats_to_the_bit(units, monkeypatch):
    monkeypatch.setattr(splits, "SHORTEST_CHAIN", 64)
    units(MMA, compute_units=8)
    case = image((3, 8, 12, 13), (16, 8, 3, 3), padding=1)
    for memory_format in FORMATS:
        with cp.profile() as profile:
            check(case, formats=(memory_format, memory_format), gradients=True)
        assert "conv2d_weight_finish" in [event.name for event in profile.events]
    rng = np.random.default_rng(0)
    x, grad = (
        cp.asarray(rng.standard_normal(s).astype(np.float16)) for s in (case.x_shape, case.y_shape)
    )
    first, second = (ops.conv2d_weight(x, case.w_shape, grad, padding=1, **HOW) for _ in "12")
    assert same_bits(first, second)


@as_written
def test_weights_are_packed_where_their_steps_lie_apart(units):
    units(MMA)
    case = CASES["whole"]
    for formats, packs in ((("channels_last", "contiguous"), 1), (("channels_last",) * 2, 0)):
        with cp.profile() as profile:
            check(case, formats=formats)
        assert [event.name for event in profile.events].count("conv2d_pack") == packs
    x, w, _ = case.operands(np.float16)
    given, packed = upload(x, "channels_last"), ops.pack_weight(cp.asarray(w))
    for _ in range(2):
        with cp.profile() as profile:
            found = ops.conv2d(given, packed, padding=1, **HOW)
        equal(found, reference.conv2d(x, w, padding=1).astype(np.float16), np.float16)
    assert "conv2d_pack" not in [event.name for event in profile.events]


@as_written
def test_an_empty_batch(units):
    units(MMA)
    x, w = cp.zeros((0, 8, 5, 5), np.float16), cp.zeros((4, 8, 3, 3), np.float16)
    assert ops.conv2d(x, w, **HOW).shape == (0, 4, 3, 3)
    equal(ops.conv2d_weight(x, w.shape, cp.zeros((0, 4, 3, 3), np.float16), **HOW), w.get())


@as_written
def test_long_indices(units, monkeypatch):
    monkeypatch.setattr(tile_reading, "index_of", lambda _: "long")
    units(MMA)
    check(CASES["stride"], formats=("channels_last", "channels_last"))


# --- float32 in parts ----------------------------------------------------------------------------


@as_written
@pytest.mark.parametrize(
    ("unit", "word", "bound"),
    [(TF32, "highest", 6e-7), (TF32, "high", 1e-3), (BFLOAT16_MMA, "medium", 1e-2)],
)
def test_floats_by_the_word_for_their_precision(units, unit, word, bound):
    units(unit, matrix_parts=True)
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 16, 7, 8), (12, 16, 3, 3)))
    exact = reference.conv2d(x, w, padding=1)
    for memory_format in FORMATS:
        with cp.options(matmul_precision=word):
            found = ops.conv2d(upload(x, memory_format), cp.asarray(w), padding=1, **HOW)
            error = np.linalg.norm(found.get() - exact) / np.linalg.norm(exact)
            assert error < bound
            if word != "highest":  # it was the unit
                assert error > bound / 100
            check(CASES["whole"], np.float32, (memory_format, memory_format))


@as_written
def test_what_is_not_finite_stays_what_it_is(units):
    units(TF32)
    x, w = numbers((1, 8, 6, 6)), numbers((9, 8, 3, 3), seed=1)
    x[0, 1, 2, 3], x[0, 0, 5, 5], w[4, 2, 0, 1] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        expected = reference.conv2d(x, w, padding=1).astype(np.float32)
    for memory_format in FORMATS:
        with cp.options(matmul_precision="high"):
            found = ops.conv2d(upload(x, memory_format), cp.asarray(w), padding=1, **HOW)
        np.testing.assert_array_equal(found.get(), expected)


# --- the choice ----------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [u for u in UNITS if u.itemsize == 2], ids=lambda u: u.name)
@pytest.mark.parametrize("last", [False, True])
def test_a_gpus_16_bits_take_units_by_themselves(unit, last):
    dtype = {"float16": np.dtype(np.float16)}.get(unit.operands[0], BFLOAT16)
    gpu = dataclasses.replace(GPU, matrix_units=(unit.name,))
    for direction in ("forward", "input", "weight"):
        layer = dense_convolution(8, 64, 28, 128, direction=direction, last=last, dtype=dtype)
        layer = dataclasses.replace(layer, error=5e-6)
        assert CONVOLUTIONS.plan(layer, gpu).choice.strategy == "matrix"
        assert CONVOLUTIONS.plan(layer, GPU).choice.strategy != "matrix"
        assert CONVOLUTIONS.plan(layer, CPU).choice.strategy != "matrix"
    depthwise = dense_depthwise(8, 64, 28, last=last, dtype=dtype)
    assert CONVOLUTIONS.plan(depthwise, gpu).choice.strategy != "matrix"


@as_written
@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
def test_every_item_reaches_every_barrier(units, memory_format):
    units(MMA, tile=(1, 1, 1, 2, 1, 2), max_work_group_size=64)
    check(image((1, 8, 4, 5), (9, 8, 3, 3), padding=1), formats=(memory_format, "contiguous"))
