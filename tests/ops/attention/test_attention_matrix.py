"""Attention by matrix units, which work-items emulate here, beside PyTorch in float64.

The templates are those of devices that have such units, but for the instruction itself.
"""

import dataclasses

import numpy as np
import pytest
from support import BFLOAT16, same_bits

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.ops.attention.scaled_dot_product import dropout_factors
from clprim.plan.conv.dense import GPU
from clprim.plan.fused import heads
from clprim.plan.fused.attention_matrix import plan_attention_matrix
from clprim.plan.strides import dense_array
from clprim.plan.units.known import UNITS

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
HALVES = [unit for unit in UNITS if unit.itemsize == 2]
MMA = HALVES[0].name
DTYPES = {"float16": np.dtype(np.float16), "bfloat16": BFLOAT16}
CLOSE = {"float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture
def units(device, monkeypatch):
    """Gives the device an emulated unit of some name."""

    def use(name, **traits):
        planned = dataclasses.replace(device.traits, matrix_units=(f"emulated/{name}",), **traits)
        monkeypatch.setitem(device.__dict__, "traits", planned)
        Calls.forget()

    yield use
    Calls.forget()


def random(shape, dtype):
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def wide(array):
    host = array.get() if hasattr(array, "get") else array
    return np.asarray(host).astype(np.float64)


def reference(q, k, v, mask=None, **options):
    """The result, which is 0 of queries that see no key, and the logarithm of sums."""
    if mask is not None:
        mask = torch.tensor(mask if mask.dtype == bool else wide(mask))
    q, k, v = (torch.tensor(wide(a), requires_grad=True) for a in (q, k, v))
    attention = torch.nn.functional.scaled_dot_product_attention
    y = attention(q, k, v, attn_mask=mask, **options)
    return y, (q, k, v)


def check(q, k, v, mask=None, **options):
    """Compares, and sees to it that it was the units' kernel."""
    arrays = [cp.asarray(a) for a in (q, k, v)]
    given = None if mask is None else cp.asarray(mask)
    with cp.profile() as profile:
        found, sums, _ = ops.scaled_dot_product_attention(
            *arrays, given, **options, return_stats=True
        )
    assert [event.name for event in profile.events] == ["attention_matrix"]
    expected, _ = reference(q, k, v, mask, **options)
    assert found.dtype == q.dtype
    close = CLOSE[q.dtype.name]
    np.testing.assert_allclose(wide(found), expected.detach().numpy(), rtol=close, atol=close)
    return found, sums


def heads_of(length, keys, size, features, dtype=np.float16, before=(2,)):
    shapes = (length, size), (keys, size), (keys, features)
    return [random((*before, *shape), dtype) for shape in shapes]


@pytest.mark.parametrize("unit", HALVES, ids=lambda unit: unit.name.replace("/", "-"))
def test_every_unit(units, unit):
    units(unit.name)
    dtype = DTYPES[unit.operands[0]]
    check(*heads_of(70, 90, 32, 20, dtype), is_causal=True)


@pytest.mark.parametrize("unit", [MMA, HALVES[2].name, "wmma_gfx11/m16n16k16/float16/32"])
def test_sub_groups_that_share_queries(units, unit):
    units(unit, register_bytes=384)
    check(*heads_of(40, 70, 64, 64))


@pytest.mark.everywhere
def test_masks_groups_and_sizes(units):
    units(MMA)
    tri = np.tri(33, 70, -3) > 0  # the first queries see nothing
    check(*heads_of(33, 70, 40, 33), tri)
    check(*heads_of(33, 70, 40, 33), RNG.normal(size=(33, 70)).astype(np.float32))
    check(*heads_of(33, 70, 40, 33), np.where(tri, RNG.normal(size=tri.shape), -np.inf))
    check(*heads_of(90, 30, 40, 33), is_causal=True)
    check(*heads_of(1, 100, 40, 33, before=()), RNG.random((1, 100)) < 0.5)
    q, k, v = heads_of(37, 50, 24, 40, before=(2, 6))
    check(q, k[:, :2].copy(), v[:, :2].copy(), enable_gqa=True, is_causal=True, scale=0.3)
    mask = RNG.random((2, 1, 1, 50)) < 0.4
    check(q, k[:, :3].copy(), v[:, :3].copy(), mask, enable_gqa=True)


def test_views(units):
    units(MMA)
    q, k, v = (random((2, 45, 3, 32), np.float16) for _ in range(3))
    given = [cp.asarray(a).transpose(0, 2, 1, 3) for a in (q, k, v)]
    expected, _ = reference(*(a.transpose(0, 2, 1, 3) for a in (q, k, v)))
    found = ops.scaled_dot_product_attention(*given)
    np.testing.assert_allclose(wide(found), expected.detach().numpy(), rtol=2e-3, atol=2e-3)
    # Elements apart, and rows that begin anywhere.
    q, k, v = (
        random((45, 32), np.float16),
        random((32, 50), np.float16),
        random((50, 41), np.float16),
    )
    expected, _ = reference(q[:, 3:20], k.T[:, 3:20], v[:, 3:])
    arrays = cp.asarray(q)[:, 3:20], cp.asarray(k).transpose(1, 0)[:, 3:20], cp.asarray(v)[:, 3:]
    found = ops.scaled_dot_product_attention(*arrays)
    np.testing.assert_allclose(wide(found), expected.detach().numpy(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("unit", [MMA, "wmma_gfx11/m16n16k16/bfloat16/32"])
def test_equal_weights_of_whole_numbers_are_exact(units, unit):
    units(unit)
    dtype = DTYPES[unit.split("/")[2]]
    q, k = np.zeros((40, 32), dtype), random((64, 32), dtype)
    v = RNG.integers(-8, 9, (64, 32)).astype(dtype)
    mask = np.zeros((40, 64), bool)
    for n, row in enumerate(mask):
        row[RNG.permutation(64)[: 2 ** (n % 5)]] = True
    out, sums = check(q, k, v, mask)
    counts = mask.sum(1, keepdims=True)
    np.testing.assert_array_equal(wide(out), (mask @ wide(v)) / counts)
    np.testing.assert_allclose(sums.get(), np.log(counts[:, 0]), atol=1e-6)


def test_nothing_else_is_read_or_written(units):
    units(MMA)
    q, k, v = heads_of(37, 41, 24, 24, before=())
    expected, _ = reference(q, k, v)
    around = []
    for a in (q, k, v):
        host = np.full((60, 40), np.nan, np.float16)
        host[5 : 5 + len(a), 8:32] = a
        around.append(cp.asarray(host)[5 : 5 + len(a), 8:32])
    found = ops.scaled_dot_product_attention(*around)
    np.testing.assert_allclose(wide(found), expected.detach().numpy(), rtol=2e-3, atol=2e-3)
    k[7] = np.nan
    mask = np.ones((37, 41), bool)
    mask[:, 7] = False
    found, _ = ops.scaled_dot_product_attention(
        *map(cp.asarray, (q, k, v, mask)), return_stats=True
    )[:2]
    assert np.isfinite(wide(found)).all()


def test_long_indices(units, monkeypatch):
    monkeypatch.setattr(heads, "index_type", lambda _: "long")
    units(MMA)
    check(*heads_of(37, 50, 32, 32), is_causal=True)


def check_gradients(q, k, v, mask=None, **options):
    """Compares the gradients."""
    g = random((*q.shape[:-1], v.shape[-1]), q.dtype)
    y, leaves = reference(q, k, v, mask, **options)
    y.backward(torch.tensor(wide(g)))
    arrays = [cp.asarray(a) for a in (q, k, v)]
    options |= {} if mask is None else {"attn_mask": cp.asarray(mask)}
    out, sums, _ = ops.scaled_dot_product_attention(*arrays, **options, return_stats=True)
    with cp.profile() as profile:
        found = ops.scaled_dot_product_attention_backward(
            cp.asarray(g), *arrays, out, sums, **options
        )
    names = [event.name for event in profile.events]
    assert names.count("attention_matrix_gradient") == 2
    close = 3 * CLOSE[q.dtype.name]
    for one, leaf in zip(found, leaves, strict=True):
        assert one.dtype == q.dtype
        np.testing.assert_allclose(wide(one), leaf.grad.numpy(), rtol=close, atol=close)


@pytest.mark.parametrize("unit", HALVES, ids=lambda unit: unit.name.replace("/", "-"))
def test_gradients_of_every_unit(units, unit):
    units(unit.name, local_memory=64 << 10)
    dtype = DTYPES[unit.operands[0]]
    check_gradients(*heads_of(50, 70, 32, 20, dtype), is_causal=True)


@pytest.mark.everywhere
def test_gradients_of_masks_and_groups(units):
    units(MMA)
    check_gradients(*heads_of(33, 70, 40, 33), np.tri(33, 70, -3) > 0)
    check_gradients(*heads_of(90, 30, 24, 24), is_causal=True)
    q, k, v = heads_of(37, 50, 24, 32, before=(2, 6))
    given = q, k[:, :2].copy(), v[:, :2].copy()
    check_gradients(*given, enable_gqa=True, is_causal=True, scale=0.3)


def test_gradients_behind_masks_that_are_added(units):
    units(MMA)
    q, k, v = heads_of(33, 70, 40, 33)
    mask = RNG.normal(size=(33, 70)).astype(np.float32)
    check_gradients(q, k, v, np.where(np.tri(33, 70, 4) > 0, mask, -np.inf).astype(np.float32))
    check_gradients(q, k, v, RNG.normal(size=(1, 70)).astype(np.float16))
    # A query of which all keys are masked by one number sees all of them alike.
    mask[5:9] = np.finfo(np.float32).min
    check(q, k, v, mask)
    check_gradients(q, k, v, mask)


@pytest.mark.parametrize("shape", [(2, 45, 70), (1, 45, 70), (2, 1, 70)])
def test_gradients_of_masks(units, shape):
    """Of one mask a head by the units, of a mask that heads or queries share by blocks."""
    units(MMA)
    q, k, v = heads_of(45, 70, 24, 24)
    mask, g = RNG.normal(size=shape).astype(np.float16), random((2, 45, 24), np.float16)
    given = [torch.tensor(wide(a), requires_grad=True) for a in (q, k, v, mask)]
    attention = torch.nn.functional.scaled_dot_product_attention
    attention(*given[:3], attn_mask=given[3]).backward(torch.tensor(wide(g)))
    arrays, options = [cp.asarray(a) for a in (q, k, v)], {"attn_mask": cp.asarray(mask)}
    out, sums, _ = ops.scaled_dot_product_attention(*arrays, **options, return_stats=True)
    with cp.profile() as profile:
        found = ops.scaled_dot_product_attention_backward(
            cp.asarray(g), *arrays, out, sums, **options, mask_gradient=True
        )
    names = [event.name for event in profile.events]
    assert names.count("attention_matrix_gradient") == (2 if shape[:2] == (2, 45) else 0), names
    for one, leaf in zip(found, given, strict=True):
        want = leaf.grad.numpy()
        np.testing.assert_allclose(wide(one), want, rtol=6e-3, atol=6e-3 * np.abs(want).max())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("unit", [MMA, "wmma_gfx11/m16n16k16/float16/32"])
def test_weights_drop_out_as_everywhere(units, unit, causal):
    units(unit, local_memory=64 << 10)
    q, k, v = heads_of(45, 70, 24, 24)
    q, g = q * np.float16(0.5), random((2, 45, 24), np.float16)
    arrays = [cp.asarray(a) for a in (q, k, v)]
    options = {"dropout_p": 0.4, "is_causal": causal}
    with cp.profile() as profile:
        found, sums, state = ops.scaled_dot_product_attention(*arrays, **options, return_stats=True)
    assert [event.name for event in profile.events] == ["attention_matrix"]
    factors = dropout_factors(*arrays, 0.4, causal, False, state)
    kept = torch.tensor(wide(factors))
    given = [torch.tensor(wide(a), requires_grad=True) for a in (q, k, v)]
    scores = given[0] @ given[1].mT / 24**0.5
    if causal:
        scores = scores.masked_fill(torch.tensor(np.tri(45, 70) == 0), -np.inf)
    wanted = (scores.softmax(-1) * kept) @ given[2]
    wanted.backward(torch.tensor(wide(g)))
    np.testing.assert_allclose(wide(found), wanted.detach().numpy(), rtol=4e-3, atol=4e-3)
    slopes = ops.scaled_dot_product_attention_backward(
        cp.asarray(g), *arrays, found, sums, **options, state=state
    )
    for one, leaf in zip(slopes, given, strict=True):
        np.testing.assert_allclose(wide(one), leaf.grad.numpy(), rtol=1e-2, atol=1e-2)


def test_gradients_through_local_memory_repeat(units):
    units(MMA, register_bytes=512)
    arrays = [cp.asarray(a) for a in (*heads_of(70, 90, 64, 64), random((2, 70, 64), np.float16))]
    out, sums, _ = ops.scaled_dot_product_attention(*arrays[:3], return_stats=True)
    both = [
        ops.scaled_dot_product_attention_backward(arrays[3], *arrays[:3], out, sums)
        for _ in range(2)
    ]
    for a, b in zip(*both, strict=True):
        assert same_bits(a, b)
    check_gradients(*heads_of(70, 90, 64, 64))


def test_what_units_do_not_take_is_others():
    traits = dataclasses.replace(GPU, matrix_units=(MMA,))

    def plan(key="float16", causal=True, drop=0, **more):
        x, sums = dense_array((2, 3, 64, 32), dtype=np.float16), dense_array((2, 3, 64, 1))
        arrays = {"q": x, "k": dataclasses.replace(x, dtype=np.dtype(key)), "v": x, "y": x}
        return plan_attention_matrix(
            heads.Heads({**arrays, "sums": sums, **more}, causal, drop), traits
        )

    assert plan() is not None
    assert plan("float32") is None
    assert plan(drop=16) is not None
    assert plan(length=dense_array((2, 3, 1, 1), dtype=np.int32)) is None


@pytest.mark.oclgrind
def test_every_item_reaches_every_barrier(units):
    units(MMA, max_work_group_size=64)
    check(*heads_of(17, 35, 16, 16, before=()), is_causal=True)
