"""Products by matrix units, which work-items emulate here: exact sums, bit for bit.

The templates are those of devices that have such units, but for the instruction itself: fragments
are exchanged through local memory, by the layouts that instructions have.
"""

import dataclasses

import numpy as np
import pytest
from support import BFLOAT16, Guard, equal, numbers, same_bits

import clprim as cp
from clprim import ops
from clprim.errors import DefinitionError
from clprim.plan.product import splits, tile_reading
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import GPU, PRODUCTS
from clprim.plan.product.matrix_tile import use_of
from clprim.plan.units import subgroup_matrix
from clprim.plan.units.known import UNITS

MMA, TF32 = "mma.sync/m16n8k16/float16/32", "mma.sync/m16n8k8/tf32/32"
BFLOAT16_MMA = "mma.sync/m16n8k16/bfloat16/32"
DTYPE = {"float16": np.float16, "bfloat16": BFLOAT16, "int8": np.int8, "uint8": np.uint8}


def matmul(a, b, **options):
    return ops.matmul(cp.asarray(a), cp.asarray(b), algorithm="matrix", **options)


def wide(a):
    return np.asarray(a).astype(np.int64)


def check_product(m, k, n, dtypes, form="NN"):
    ta, tb = form[0] == "T", form[1] == "T"
    a = numbers((k, m) if ta else (m, k), dtypes[0], seed=m, high=4)
    b = numbers((n, k) if tb else (k, n), dtypes[1], seed=n, high=4)
    expected = (wide(a.T) if ta else wide(a)) @ (wide(b.T) if tb else wide(b))
    found = matmul(a, b, transpose_a=ta, transpose_b=tb)
    equal(found, expected.astype(found.dtype))


SIZES = [(64, 64, 64), (67, 33, 130), (1, 300, 5), (5, 9, 1), (130, 7, 66), (40, 96, 24)]


@pytest.mark.everywhere
@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
def test_products_of_every_form(units, form):
    units(MMA)
    for size in SIZES:
        check_product(*size, (np.float16, np.float16), form)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name.replace("/", "-"))
def test_every_unit(units, some, unit):
    units(unit.name, tile=(1, 2, 2, 2, 2, 2), register_bytes=4096)
    if "tf32" in unit.name or "float32" in unit.name:
        dtypes = np.float32, np.float32
    else:
        dtypes = tuple(DTYPE[operand] for operand in unit.operands)
    with cp.options(matmul_precision="high"):
        for form in some(("NN", "TT", "NT", "TN"), 2):
            check_product(67, 80, 70, dtypes, form)


@pytest.mark.parametrize("tile", [(1, 1, 1, 2, 1, 2), (1, 2, 4, 2, 4, 4), (4, 2, 2, 4, 2, 3)])
def test_tiles(units, tile):
    units(MMA, tile=tile)
    check_product(150, 170, 140, (np.float16, np.float16), "NT")
    check_product(129, 50, 131, (np.float16, np.float16))


@pytest.mark.everywhere
@pytest.mark.parametrize("form", ["NT", "NN"])
@pytest.mark.parametrize("unit", subgroup_matrix.LARGE[:1], ids=lambda unit: unit.name)
def test_tiles_of_many_registers(units, unit, form):
    units(unit.name, tile=(2, 1, 4, 4, 1, 2), register_bytes=4096)
    check_product(70, 50, 70, (np.float16, np.float16), form)


def test_programs_of_more_registers_are_built_so():
    many = subgroup_matrix.LARGE[0]
    for unit, options in ((many, (many.option,)), (subgroup_matrix.UNITS[0], ())):
        traits = dataclasses.replace(GPU, matrix_units=(unit.name,), register_bytes=512)
        problem = dense_product(2048, 2048, 2048, "NT", dtype=np.float16)
        plan = PRODUCTS.plan(problem, traits, "matrix")
        assert plan.main.code.options == options
        sums = plan.main.code.unit_rows * plan.main.code.unit_columns * unit.c.elements
        assert (sums > 64) == bool(options)
    both = tuple(unit.name for unit in (subgroup_matrix.UNITS[0], many))
    for names in (both, both[::-1]):
        traits = dataclasses.replace(GPU, matrix_units=names, register_bytes=512)
        assert use_of(problem, traits).unit is many


@pytest.mark.parametrize("form", ["NN", "TN"])
def test_second_factors_of_many_rows_are_packed_where_rows_come_in_blocks(units, form):
    units(subgroup_matrix.UNITS[0].name, tile=(2, 1, 1, 2, 2, 2))
    a = numbers((1030, 20) if form == "NN" else (20, 1030), np.float16, high=4)
    b = numbers((20, 24), np.float16, seed=1, high=4)
    with cp.profile() as profile:
        found = matmul(a, b, transpose_a=form == "TN")
    assert [event.name for event in profile.events] == ["matmul_pack", "matmul"]
    equal(found, (wide(a.T if form == "TN" else a) @ wide(b)).astype(np.float16))


def test_views(units):
    units(MMA)
    host = numbers((70, 3, 160), np.float16, high=4)
    other = numbers((2, 90, 80), np.float16, seed=1, high=4)
    for a, b in (
        (host[1:, 1, 2:82], other[1, 3:83]),
        (host[::-1, 2, 1:81], other[0, :80, ::-1]),
        (host[:, 0, ::2], other[1, :80].copy()[:, ::2]),
        (host[:48, :, 5].T, other[0, 20:68, 1:]),
    ):
        equal(matmul(a, b), (wide(a) @ wide(b)).astype(np.float16))
    x, w = cp.asarray(host), cp.asarray(other)
    found = ops.matmul(x[1:, 1, 2:82], w[1, 3:83], algorithm="matrix")
    equal(found, (wide(host[1:, 1, 2:82]) @ wide(other[1, 3:83])).astype(np.float16))
    found = ops.matmul(x[::-1, 2, 0:160:2], w[0, :80, ::-1], algorithm="matrix")
    equal(found, (wide(host[::-1, 2, 0:160:2]) @ wide(other[0, :80, ::-1])).astype(np.float16))


def test_batches(units):
    units(MMA)
    a, b = numbers((3, 2, 20, 24), np.float16), numbers((2, 24, 17), np.float16, seed=1)
    equal(matmul(a, b), (wide(a) @ wide(b)).astype(np.float16))
    a, b = numbers((4, 1, 9, 40), np.float16), numbers((3, 40, 16), np.float16, seed=1)
    equal(matmul(a, b), (wide(a) @ wide(b)).astype(np.float16))


def test_epilogue_bias_and_old_value(units):
    units(MMA)
    a, b, bias = (
        numbers((37, 40), np.float16),
        numbers((40, 50), np.float16, 1),
        numbers(50, np.float16),
    )
    c, old = numbers((37, 50), np.float16, 2), numbers((37, 50), np.float16, 9)
    out = Guard((37, 50), np.float16)
    out.array[...] = cp.asarray(old)
    told = {"epilogue": "y0 = max(y0 + x0, 0);", "epilogue_args": (cp.asarray(c),)}
    matmul(a, b, bias=cp.asarray(bias), **told, out=out.array, beta=2)
    out.check(np.maximum(wide(a) @ wide(b) + bias + c, 0) + 2 * old)


def test_split_depth_repeats_to_the_bit(units, monkeypatch):
    monkeypatch.setattr(splits, "SHORTEST_CHAIN", 64)
    units(MMA, compute_units=8)
    a, b = numbers((20, 330), np.float16, high=3), numbers((330, 24), np.float16, 1, high=3)
    old = numbers((20, 24), np.float16, 9)
    out = Guard((20, 24), np.float16)
    out.array[...] = cp.asarray(old)
    with cp.profile() as profile:
        matmul(a, b, out=out.array, beta=2, epilogue="y0 = max(y0, 0);")
    assert "matmul_finish" in [event.name for event in profile.events]
    out.check(np.maximum(wide(a) @ wide(b), 0) + 2 * old)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((5, 700), (700, 6)))
    assert same_bits(matmul(a, b), matmul(a, b))


def test_nothing_outside_is_read_or_kept(units):
    # NaN all around, which spreads also where it is multiplied by 0.
    units(MMA)
    host = np.full((40, 60), np.nan, np.float16)
    a, b = numbers((21, 37), np.float16), numbers((37, 19), np.float16, 1)
    host[4:25, 3:40] = a
    out = Guard((21, 19), np.float16, fill=np.nan)
    whole = np.full((50, 30), np.nan, np.float16)
    whole[5:42, 7:26] = b
    ops.matmul(
        cp.asarray(host)[4:25, 3:40],
        cp.asarray(whole)[5:42, 7:26],
        algorithm="matrix",
        out=out.array,
    )
    out.check((wide(a) @ wide(b)).astype(np.float16))


def test_no_depth_at_all(units):
    units(MMA)
    bias = numbers(4, np.float16)
    found = matmul(
        np.zeros((3, 0), np.float16), np.zeros((0, 4), np.float16), bias=cp.asarray(bias)
    )
    equal(found, np.broadcast_to(bias, (3, 4)), np.float16)
    assert matmul(np.zeros((0, 5), np.float16), np.zeros((5, 4), np.float16)).shape == (0, 4)


def test_long_indices(units, monkeypatch):
    monkeypatch.setattr(tile_reading, "index_of", lambda _: "long")
    units(MMA)
    check_product(37, 45, 40, (np.float16, np.float16))


def test_convolutions_of_one_pixel(units):
    units(MMA)
    x, w = numbers((2, 24, 5, 7), np.float16), numbers((18, 24, 1, 1), np.float16, 1)
    expected = np.einsum("nchw,oc->nohw", wide(x), wide(w[:, :, 0, 0])).astype(np.float16)
    for memory_format in ("contiguous", "channels_last"):
        image = cp.asarray(x, memory_format=memory_format)
        equal(ops.conv2d(image, cp.asarray(w), algorithm="matrix"), expected, np.float16)


# --- float32 in parts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "word", "bound"),
    [
        (TF32, "highest", 6e-7),
        (TF32, "high", 1e-3),
        (BFLOAT16_MMA, "high", 3e-5),
        (BFLOAT16_MMA, "medium", 1e-2),
    ],
)
def test_floats_by_the_word_for_their_precision(units, unit, word, bound):
    units(unit, matrix_parts=True)
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((33, 150)), rng.standard_normal((150, 34))
    a, b = a.astype(np.float32), b.astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    with cp.options(matmul_precision=word):
        found = matmul(a, b)
        error = np.linalg.norm(found.get() - exact) / np.linalg.norm(exact)
        assert error < bound
        if word != "highest":  # it was the unit
            assert error > bound / 100
        check_product(37, 150, 40, (np.float32, np.float32), "TN")
        check_product(37, 150, 40, (np.float32, np.float32), "NT")


def test_what_is_not_finite_stays_what_it_is(units):
    for unit, word in ((TF32, "highest"), (TF32, "high"), (BFLOAT16_MMA, "high")):
        units(unit, matrix_parts=True)
        a, b = numbers((20, 140)), numbers((140, 21), seed=1)
        a[3, 5], a[4, 6], b[7, 9] = np.inf, np.nan, -np.inf
        a[9] = np.finfo(np.float32).max / 2**8  # which rounded up is more than there is
        b[:, 2] = 1 / 2**8
        with np.errstate(invalid="ignore"):
            expected = a.astype(np.float64) @ b.astype(np.float64)
        with cp.options(matmul_precision=word):
            found = matmul(a, b).get()
        inexact = np.abs(expected) < np.finfo(np.float32).max
        assert (np.isfinite(found) == inexact).all()
        same = ~inexact & (np.abs(expected) == np.inf)
        np.testing.assert_array_equal(found[same], expected[same])
        assert np.isnan(found[np.isnan(expected)]).all()


def test_floats_stay_with_work_items_where_units_are_less_exact(units):
    a, b = numbers((40, 150)), numbers((150, 40), seed=1)
    units(TF32)  # nobody has measured that three products are as exact
    with pytest.raises(DefinitionError, match="algorithm='matrix'"):
        matmul(a, b)
    units(TF32, matrix_parts=True)
    with pytest.raises(DefinitionError, match="algorithm='matrix'"):
        matmul(a[:, :8], b[:8])  # of few steps they are not
    equal(matmul(a, b), a @ b, np.float32)
    units(MMA, matrix_parts=True)
    with pytest.raises(DefinitionError, match="algorithm='matrix'"):
        matmul(a, b)


# --- the choice ----------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [u for u in UNITS if u.a == u.b or u.columns == 8], ids=str)
def test_a_gpus_16_bits_take_units_by_themselves(unit):
    if unit.itemsize == 2:
        traits = dataclasses.replace(GPU, matrix_units=(unit.name,))
        dtype = DTYPE[unit.operands[0]]
        for size in ((512, 512, 512), (4096, 64, 300), (70, 50, 1000)):
            plan = PRODUCTS.plan(dense_product(*size, dtype=dtype), traits)
            assert plan.choice.strategy == "matrix"


@pytest.mark.oclgrind
def test_every_item_reaches_every_barrier(units):
    units(MMA, tile=(1, 1, 1, 2, 1, 2), max_work_group_size=64)
    check_product(19, 37, 18, (np.float16, np.float16), "NT")
