"""Pairs that are products, by matrix units, which work-items emulate: exact, by blocks of rows."""

import numpy as np
import pytest
from support import BFLOAT16, Guard, equal, numbers, same_bits, wide

import clprim as cp
from clprim.plan.reduction import nested_units

MMA, BFLOAT16_MMA = "mma.sync/m16n8k16/float16/32", "mma.sync/m16n8k16/bfloat16/32"
PRODUCT = {"expr": "y0 = x0 * x1;", "init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
SUM = PRODUCT | {"expr": "y0 = x0;"}
FIRST = {
    "expr": "y0 = x0;",
    "init": "reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
    "step": "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
}
as_written = pytest.mark.usefixtures("unoptimised")


def pairs(expr, outer=SUM):
    return cp.Pairs(inner=cp.Reduction(**PRODUCT), expr=expr, outer=cp.Reduction(**outer))


def run(operator, *args, blocks, **options):
    """The result, of which units multiply so many blocks of rows."""
    assert "multiply_add(sums" in operator.source(*args, **options)
    with cp.profile() as profile:
        found = operator(*args, **options)
    assert len(profile.events) in (2 * blocks, 3 * blocks)  # some pack what is of columns
    return found


@as_written
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
@pytest.mark.parametrize("block", [None, 16])
def test_rows_and_columns(units, monkeypatch, dtype, block):
    units(MMA, BFLOAT16_MMA, compute_units=2)
    if block:
        monkeypatch.setattr(nested_units, "LAUNCH", 71 * block // 2)
        monkeypatch.setattr(nested_units, "SUB_GROUP", 8)
    x, y = numbers((45, 20), dtype, 1), numbers((71, 20), dtype, 2)
    a, b, c = numbers((45, 1), seed=3), numbers(71, seed=4), numbers((45, 71), seed=5)
    values = (wide(x) @ wide(y).T) * b - a + c
    given = [cp.asarray(v) for v in (x[:, None], y[None], a, b, c)]
    operator = pairs("y0 = d * x3 - x2 + x4 * w0;")
    blocks = 3 if block else 1
    out = Guard(45)
    run(operator, *given, 1.0, out=out.array, blocks=blocks)
    out.check(values.sum(1))
    equal(run(operator, *given, 1.0, axis=-2, blocks=blocks), values.sum(0))
    best, place = run(pairs("y0 = d * x3 - x2 + x4;", FIRST), *given, blocks=blocks)
    equal(best, values.max(1))
    equal(place, values.argmax(1))
    turned = pairs("y0 = d;")(given[1], given[0])  # x0 varies with columns
    equal(turned, (wide(x) @ wide(y).T).sum(1).astype(dtype))


@as_written
def test_batches_and_an_axis_of_their_own(units):
    units(MMA)
    x, y = numbers((2, 3, 33, 1, 16), np.float16, 1), numbers((2, 3, 1, 40, 16), np.float16, 2)
    v = numbers((40, 5), seed=3)
    weigh = pairs("y0 = d * d - 3;", PRODUCT)
    products = wide(x[..., 0, :]) @ wide(y[..., 0, :, :]).swapaxes(-1, -2)
    found = run(weigh, cp.asarray(x), cp.asarray(y), cp.asarray(v[None]), blocks=1)
    equal(found, (products**2 - 3) @ wide(v))
    shared = y[:1, :1]
    products = wide(x[..., 0, :]) @ wide(shared[..., 0, :, :]).swapaxes(-1, -2)
    found = run(weigh, cp.asarray(x), cp.asarray(shared), cp.asarray(v[None]), blocks=1)
    equal(found, (products**2 - 3) @ wide(v))


@as_written
def test_views_and_gradients(units):
    units(MMA)
    host, other = numbers((50, 40), np.float16, 1), numbers((60, 40), np.float16, 2)
    x, y = host[3:41, 1:38:2], other[::-1, 20:39]
    operator = pairs("y0 = d;")
    given = cp.asarray(host)[3:41, 1:38:2][:, None], cp.asarray(other)[::-1, 20:39][None]
    equal(run(operator, *given, blocks=1), (wide(x) @ wide(y).T).sum(1))
    gx, gy = operator.gradient()(*given, grad=1.0)
    equal(gx.reshape(x.shape), np.broadcast_to(wide(y).sum(0), x.shape).astype(np.float16))
    equal(gy.reshape(y.shape), np.broadcast_to(wide(x).sum(0), y.shape).astype(np.float16))


@as_written
def test_rows_have_the_same_bits_in_every_block(units, monkeypatch):
    units(MMA, compute_units=2)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(np.float16) for s in ((50, 30), (48, 30)))
    x[40:] = x[:10]
    monkeypatch.setattr(nested_units, "LAUNCH", 24 * 32)
    found = run(pairs("y0 = exp(d * 0.1f);"), cp.asarray(x)[:, None], cp.asarray(y)[None], blocks=2)
    assert same_bits(found[40:], found[:10])


@as_written
def test_others_take_what_is_no_product_of_16_bits(units):
    units(MMA)
    x, y = numbers((33, 1, 20), seed=1), numbers((1, 40, 20), seed=2)
    half = [cp.asarray(v.astype(np.float16)) for v in (x, y)]
    squares = cp.Reduction(**PRODUCT | {"expr": "y0 = x0 - x1;", "step": "reduce_y0 += y0 * y0;"})
    others = cp.Pairs(inner=squares, expr="y0 = d;", outer=cp.Reduction(**SUM))
    for operator, given, expected in (
        (others, half, ((wide(x) - wide(y)) ** 2).sum((1, 2))),
        (pairs("y0 = d;"), [cp.asarray(x), cp.asarray(y)], (wide(x) * wide(y)).sum((1, 2))),
    ):
        with cp.profile() as profile:
            found = operator(*given)
            equal(found, expected.astype(found.dtype))
        assert len(profile.events) <= 2
