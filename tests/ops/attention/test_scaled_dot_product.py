"""Attention beside PyTorch in float64: masks, groups, blocks, gradients, dropout."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.attention import problem, scaled_dot_product

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def reference(q, k, v, g, **options):
    t = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (q, k, v)]
    mask = options.get("attn_mask")
    if mask is not None:
        t.append(torch.tensor(mask, requires_grad=mask.dtype != bool))
        options["attn_mask"] = t[-1]
    y = torch.nn.functional.scaled_dot_product_attention(*t[:3], **options)
    y.backward(torch.tensor(g, dtype=torch.float64))
    return y.detach().numpy(), [a.grad.numpy() for a in t if a.requires_grad]


CASES = {
    "plain": ((2, 3, 37, 8), (2, 3, 29, 8), 12, {}),
    "causal": ((2, 37, 16), (2, 37, 16), 16, {"is_causal": True, "scale": 0.7}),
    "bool mask": ((2, 3, 9, 8), (2, 3, 21, 8), 8, {"attn_mask": RNG.random((3, 9, 21)) < 0.6}),
    "float mask": ((2, 3, 9, 8), (2, 3, 21, 8), 8, {"attn_mask": RNG.normal(size=(9, 1))}),
    "groups": ((2, 6, 19, 8), (2, 2, 19, 8), 8, {"enable_gqa": True, "is_causal": True}),
    "more keys than a block": ((2, 31, 67), (2, 203, 67), 5, {"scale": 0.2}),
    "few queries": ((3, 3, 8), (3, 100, 8), 70, {}),
    "causal, more keys than a block": ((1, 205, 8), (1, 205, 8), 9, {"is_causal": True}),
    "causal, fewer keys": ((1, 50, 8), (1, 30, 8), 8, {"is_causal": True}),
    "rows that see nothing": ((2, 3, 9, 8), (2, 3, 21, 8), 8, {"attn_mask": np.tri(9, 21, -3) > 0}),
    "infinite mask": (
        (2, 9, 8),
        (2, 21, 8),
        8,
        {"attn_mask": np.where(np.tri(9, 21, -3) > 0, RNG.normal(size=(9, 21)), -np.inf)},
    ),
    "no batch, causal, large heads": ((120, 256), (120, 256), 72, {"is_causal": True}),
    "heads of one": ((2, 50, 1), (2, 60, 1), 1, {}),
    "mask of keys": ((2, 3, 11, 8), (2, 3, 130, 8), 8, {"attn_mask": RNG.random((1, 130)) < 0.2}),
    "mask of pairs": ((3, 27, 8), (3, 101, 8), 8, {"attn_mask": RNG.normal(size=(1, 27, 101))}),
    "masks of heads": (
        (2, 3, 2, 4, 9, 8),
        (2, 3, 2, 2, 21, 8),
        8,
        {"attn_mask": RNG.normal(size=(3, 1, 4, 9, 21)), "enable_gqa": True},
    ),
    "one query of heads that share keys": (
        (2, 4, 1, 32),
        (2, 2, 150, 32),
        64,
        {"enable_gqa": True, "attn_mask": RNG.random((2, 1, 1, 150)) < 0.7},
    ),
    "many heads that share keys": ((2, 8, 1, 32), (2, 1, 150, 32), 64, {"enable_gqa": True}),
    "slices of keys": ((2, 32), (1000, 32), 16, {"attn_mask": RNG.normal(size=(2, 1000))}),
    "a mask of its own": ((2, 9, 8), (2, 21, 8), 8, {"attn_mask": RNG.normal(size=(2, 9, 21))}),
}


SHORT = ("plain", "causal", "bool mask", "masks of heads", "a mask of its own", "groups")


@pytest.mark.parametrize(
    ("name", "blocks"), [*((name, False) for name in CASES), *((name, True) for name in SHORT)]
)
def test_results_and_gradients(device, by_blocks, name, blocks):
    if blocks:
        by_blocks()
    shape, keys, features, options = CASES[name]
    q, k, v = (RNG.normal(size=s).astype(np.float32) for s in (shape, keys, (*keys[:-1], features)))
    g = RNG.normal(size=(*shape[:-1], features)).astype(np.float32)
    expected, gradients = reference(q, k, v, g, **dict(options))
    added = False
    if "attn_mask" in options:
        mask = options["attn_mask"]
        added = mask.dtype != bool
        options = options | {"attn_mask": cp.asarray(mask.astype("f") if added else mask)}
    arrays = [cp.asarray(a) for a in (q, k, v)]
    out, sums, state = ops.scaled_dot_product_attention(*arrays, **options, return_stats=True)
    assert state is None
    np.testing.assert_allclose(out.get(), expected, rtol=1e-4, atol=1e-5)
    found = ops.scaled_dot_product_attention_backward(
        cp.asarray(g), *arrays, out, sums, **options, mask_gradient=added
    )
    for a, b in zip(found, gradients, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.get(), b, rtol=1e-3, atol=2e-5)


def test_sixteen_bits_and_views(device):
    q, k, v = (RNG.normal(size=(2, 17, 3, 8)).astype(np.float16) for _ in range(3))
    expected, _ = reference(*(a.transpose(0, 2, 1, 3) for a in (q, k, v)), np.zeros((2, 3, 17, 8)))
    found = ops.scaled_dot_product_attention(
        *(cp.asarray(a).transpose(0, 2, 1, 3) for a in (q, k, v))
    )
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.get(), expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes_of_transposed_keys(device, dtype):
    if dtype == "float64" and not cp.current_device().traits.fp64:
        pytest.skip("no double")
    shapes = (2, 30, 9), (2, 9, 110), (2, 110, 7), (2, 30, 7)
    given = [cp.asarray(RNG.normal(size=s).astype("f")).astype(dtype) for s in shapes]
    q, k, v, g = (a.astype(np.float32).get().astype(np.float64) for a in given)
    expected, gradients = reference(q, k.transpose(0, 2, 1), v, g, is_causal=True)
    given[1] = given[1].transpose(0, 2, 1)
    found, sums, _ = ops.scaled_dot_product_attention(*given[:3], is_causal=True, return_stats=True)
    close = 1e-12 if dtype == "float64" else 3e-2
    both = [
        ops.scaled_dot_product_attention_backward(given[3], *given[:3], found, sums, 0, True)
        for _ in range(2)
    ]
    for a, b in zip((found, *both[0]), (expected, *gradients), strict=True):
        assert a.dtype == given[0].dtype
        np.testing.assert_allclose(np.asarray(a.get(), float), b, rtol=close, atol=close)
    for a, b in zip(*both, strict=True):
        assert np.array_equal(a.get().view(np.uint8), b.get().view(np.uint8))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_few_queries_of_other_dtypes_and_keys_that_lie_apart(device, dtype):
    """Keys are read as they are stored; one query sees none, another none of some slices."""
    if dtype == "float64" and not cp.current_device().traits.fp64:
        pytest.skip("no double")
    shapes = (1, 1, 3, 16), (1, 700, 1, 16), (1, 700, 1, 32)
    given = [cp.asarray(RNG.normal(size=s).astype("f")).astype(dtype) for s in shapes]
    given[1:] = [a.transpose(0, 2, 1, 3) for a in given[1:]]
    seen = RNG.random((3, 700)) < 0.5
    seen[1] = False
    seen[2, 20:] = False
    q, k, v = (a.astype(np.float32).get().astype(np.float64) for a in given)
    expected, _ = reference(q, k, v, np.zeros((1, 1, 3, 32)), attn_mask=seen)
    found, sums, _ = ops.scaled_dot_product_attention(*given, cp.asarray(seen), return_stats=True)
    close = {"float64": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(np.asarray(found.get(), float), expected, rtol=close, atol=close)
    products = np.where(seen, (q @ k.swapaxes(-1, -2))[0, 0] / 4, -np.inf)
    logarithms = np.log(
        np.exp(products).sum(-1), where=[True, False, True], out=np.full(3, -np.inf)
    )
    np.testing.assert_allclose(sums.get()[0, 0], logarithms, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("heads", [2, 8])
def test_one_query_of_heads_that_share_keys_has_the_kernel_of_few(device, monkeypatch, heads):
    if not device.traits.is_cpu:
        pytest.skip("the kernel is for CPUs")
    monkeypatch.setattr(scaled_dot_product, "attend", None)  # nothing is left to lanes or to blocks
    monkeypatch.setattr(scaled_dot_product, "_by_blocks", None)
    q, k = cp.zeros((1, heads, 1, 32)), cp.full((1, 1, 150, 32), 2.0)
    found = ops.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    np.testing.assert_allclose(found.get(), 2, rtol=1e-6)


def test_scores_that_are_large_far_apart_and_no_numbers(device):
    # Weights by the first key, then all by the last one, which lies in a later block.
    q = np.ones((1, 5, 1), np.float32)
    k = np.zeros((1, 200, 1), np.float32)
    k[0, [0, 199], 0] = 300, 3e4
    v = np.arange(200, dtype=np.float32).reshape(1, 200, 1)
    run = ops.scaled_dot_product_attention
    found, sums, _ = run(*map(cp.asarray, (q, k, v)), scale=1.0, return_stats=True)
    np.testing.assert_allclose(found.get(), np.full((1, 5, 1), 199), rtol=1e-6)
    np.testing.assert_allclose(sums.get(), np.full((1, 5), 3e4), rtol=1e-6)
    q[0, 2] = np.nan
    found = run(*map(cp.asarray, (q, k, v)), scale=1.0).get()[0, :, 0]
    assert np.isnan(found[2]) and np.isfinite(np.delete(found, 2)).all()


@pytest.mark.parametrize("blocks", [False, True])
def test_masks_of_the_least_numbers(device, by_blocks, blocks):
    """A query that they hide all keys from sees all of them alike, as in PyTorch."""
    if blocks:
        by_blocks()
    shape = (1, 20, 8)
    q, k, v, g = (cp.asarray(RNG.normal(size=shape).astype("f")) for _ in range(4))
    mask = np.zeros((20, 20), np.float32)
    mask[3], mask[7], mask[9], mask[11, 4:] = np.finfo("f").min, -1e30, -np.inf, -3e38
    mask = cp.asarray(mask)
    y, sums, _ = ops.scaled_dot_product_attention(q, k, v, mask, return_stats=True)
    found, values = y.get()[0], v.get()[0]
    for n, expected in ((3, values.mean(0)), (7, values.mean(0)), (9, np.zeros(8))):
        np.testing.assert_allclose(found[n], expected, rtol=1e-5, atol=1e-6)
    weights = np.exp(q.get()[0, 11] @ k.get()[0, :4].T / np.sqrt(8))
    expected = weights @ values[:4] / weights.sum()
    np.testing.assert_allclose(found[11], expected, rtol=1e-5, atol=1e-6)
    for slope in ops.scaled_dot_product_attention_backward(g, q, k, v, y, sums, attn_mask=mask):
        assert np.abs(slope.get()).max() < 100


def test_heads_of_no_elements_see_all_keys_alike(device):
    q, k, v = cp.zeros((2, 6, 0)), cp.zeros((2, 5, 0)), cp.asarray(RNG.normal(size=(2, 5, 3)))
    v = v.astype(np.float32)
    y, sums, _ = ops.scaled_dot_product_attention(q, k, v, return_stats=True)
    np.testing.assert_allclose(y.get()[:, 2], v.get().mean(1), rtol=1e-5, atol=1e-6)
    dq, dk, dv = ops.scaled_dot_product_attention_backward(y, q, k, v, y, sums)
    assert (dq.shape, dk.shape) == (q.shape, k.shape)
    np.testing.assert_allclose(dv.get()[:, 1], y.get().sum(1) / 5, rtol=1e-5, atol=1e-6)


def test_a_query_that_sees_nothing_gets_zeros(device):
    x = cp.full((1, 3, 4), 1, np.float32)
    mask = cp.asarray(np.array([[1, 1, 1], [0, 0, 0], [1, 0, 0]], bool))
    found = ops.scaled_dot_product_attention(x, x, x, mask).get()
    np.testing.assert_allclose(found[0].sum(1), [4, 0, 4])
    assert ops.scaled_dot_product_attention(x, x[:, :0], x[:, :0]).get().sum() == 0


@pytest.mark.parametrize(
    ("dtype", "keys", "options"),
    [
        ("float32", 29, {"enable_gqa": True, "is_causal": True}),
        ("float64", 150, {"attn_mask": RNG.random((205, 150)) < 0.7}),
    ],
)
def test_one_kernel_drops_what_blocks_of_queries_drop(
    device, monkeypatch, by_blocks, dtype, keys, options
):
    """With values of one each the result are the weights: zeros lie at the same places."""
    if dtype == "float64" and not cp.current_device().traits.fp64:
        pytest.skip("no double")
    heads = 2 if "enable_gqa" in options else 4
    q, k, g = (
        cp.asarray(RNG.normal(size=s).astype(dtype))
        for s in ((2, 4, 205, 8), (2, heads, keys, 8), (2, 4, 205, keys))
    )
    eyes = np.zeros((2, heads, keys, keys), dtype)
    eyes[..., range(keys), range(keys)] = 1
    v = cp.asarray(eyes)
    options = {n: cp.asarray(a) if n == "attn_mask" else a for n, a in options.items()}
    monkeypatch.setattr(problem, "BLOCK_BYTES", 1 << 17)  # some blocks begin within a kernel's tile
    found = []
    for _ in range(2):
        cp.random.seed((1 << 63) + 5)
        y, sums, state = ops.scaled_dot_product_attention(
            q, k, v, dropout_p=0.3, **options, return_stats=True
        )
        after = cp.random.get_state()
        back = ops.scaled_dot_product_attention_backward(
            g, q, k, v, y, sums, 0.3, **options, state=state
        )
        assert cp.random.get_state() == after
        found.append((after, y.get(), *(a.get() for a in back)))
        by_blocks(1 << 17)
    one, blocks = found
    assert one[0] == blocks[0]
    np.testing.assert_array_equal(one[1] == 0, blocks[1] == 0)
    close = 1e-12 if dtype == "float64" else 2e-5
    for a, b in zip(one[1:], blocks[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=close, atol=close)


def test_dropout_is_drawn_again_in_the_gradient(device):
    n, p = 40, 0.3
    q = cp.zeros((1, n, 4))
    v = cp.asarray(np.eye(n, dtype=np.float32)[None])
    out, sums, state = ops.scaled_dot_product_attention(q, q, v, None, p, return_stats=True)
    kept = out.get()[0] * n * (1 - p)  # with values of one each, the result are the weights
    assert {*np.unique(kept.round(3))} == {0, 1} and abs(kept.mean() - 0.7) < 0.05
    g = RNG.normal(size=(1, n, n)).astype(np.float32)
    _, _, dv = ops.scaled_dot_product_attention_backward(
        cp.asarray(g), q, q, v, out, sums, p, state=state
    )
    np.testing.assert_allclose(dv.get()[0], out.get()[0].T @ g[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(device, interleaved):
    x = RNG.normal(size=(2, 5, 7, 8)).astype(np.float32)
    angles = np.arange(7)[:, None] / 10.0 ** np.arange(4)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :4], x[..., 4:])
    pair = a * cos - b * sin, b * cos + a * sin
    expected = np.stack(pair, -1).reshape(x.shape) if interleaved else np.concatenate(pair, -1)
    c, s = cp.asarray(cos), cp.asarray(sin)
    found = ops.rotary_embedding(cp.asarray(x), c, s, interleaved=interleaved)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-5, atol=1e-6)
    back = ops.rotary_embedding_backward(found, c, s, interleaved=interleaved)
    np.testing.assert_allclose(back.get(), x, rtol=1e-5, atol=1e-6)
    # The same angles in rows of another order, which positions name.
    places = np.array([[3, 0, 6, 1, 5, 2, 4]])
    turned = [cp.asarray(t[np.argsort(places[0])]) for t in (cos, sin)]
    options = {"positions": cp.asarray(places), "interleaved": interleaved}
    again = ops.rotary_embedding(cp.asarray(x), *turned, **options)
    np.testing.assert_array_equal(again.get(), found.get())
    back = ops.rotary_embedding_backward(again, *turned, **options)
    np.testing.assert_allclose(back.get(), x, rtol=1e-5, atol=1e-6)


def test_refusals(device):
    x, i = cp.zeros((2, 3, 4)), cp.zeros((2, 3, 4), np.int32)
    run, back = ops.scaled_dot_product_attention, ops.scaled_dot_product_attention_backward
    for message, call in [
        ("do not fit", lambda: run(x, x[..., :2], x)),
        ("do not fit", lambda: run(x, x[:1], x[:1])),
        ("one floating dtype", lambda: run(x, i, x)),
        ("expected a device array", lambda: run(np.zeros(3), x, x)),
        ("does not broadcast", lambda: run(x, x, x, cp.zeros((4, 3)))),
        ("expected bool", lambda: run(x, x, x, cp.zeros((3, 3), np.int32))),
        ("exclude each other", lambda: run(x, x, x, cp.zeros((3, 3)), is_causal=True)),
        ("no probability", lambda: run(x, x, x, dropout_p=2)),
        ("multiple", lambda: run(x[None, :, :, :][:, :1], x[None], x[None], enable_gqa=True)),
        ("needs state", lambda: back(x, x, x, x, x, cp.zeros((2, 3)), 0.5)),
        ("logsumexp is int32", lambda: back(x, x, x, x, x, cp.zeros((2, 3), np.int32))),
        (
            "state=",
            lambda: back(x, x, x, x, x, cp.zeros((2, 3)), 0.5, state=cp.random.State(-1, 0)),
        ),
        ("state=3", lambda: back(x, x, x, x, x, cp.zeros((2, 3)), 0.5, state=3)),
        ("logsumexp has shape", lambda: back(x, x, x, x, x, x)),
        ("attn_mask is None", lambda: back(x, x, x, x, x, cp.zeros((2, 3)), mask_gradient=True)),
        (
            "bool, which has no gradient",
            lambda: back(
                *(x,) * 5, cp.zeros((2, 3)), attn_mask=cp.zeros((3, 3), bool), mask_gradient=True
            ),
        ),
        ("do not fit", lambda: ops.rotary_embedding(x, x, x)),
        ("floating", lambda: ops.rotary_embedding(i, x, x)),
        ("positions", lambda: ops.rotary_embedding(x, x[0], x[0], positions=i[:, 0, :1])),
        ("positions", lambda: ops.rotary_embedding(x, x[0, :, :2], x[0, :, :2], positions=x)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
