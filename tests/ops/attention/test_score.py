"""Attention with the user's string on scores, in every way to compute it, beside PyTorch's."""

import dataclasses

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.ops.attention import scaled_dot_product
from clprim.plan.units.known import UNITS

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
HEADS, QUERIES, KEYS = 4, 21, 50
AT, OF = (torch.arange(n, dtype=torch.float64) for n in (QUERIES, KEYS))
FAR = OF - AT[:, None]
PARTS = (np.arange(KEYS) // 17).astype(np.int32)
SLOPES = (2.0 ** -np.arange(1, HEADS + 1)).astype(np.float32).reshape(HEADS, 1, 1)
# A string, what it reads, and the same of scores and arrays of PyTorch.
CASES = {
    "slopes": (
        "y0 += x0 * (coord(-1) - coord(-2));",
        (SLOPES,),
        lambda s, x: s + x[0] * FAR,
    ),
    "cap": ("y0 = w0 * tanh(y0 / w0);", (2,), lambda s, x: 2 * torch.tanh(s / 2)),
    "bias": (
        "y0 += x0;",
        (RNG.normal(size=(1, HEADS, QUERIES, KEYS)).astype("f"),),
        lambda s, x: s + x[0],
    ),
    "window": (
        "y0 = abs(coord(2) - coord(3)) <= w0 ? y0 : -INFINITY;",
        (3.0,),
        lambda s, x: torch.where(FAR.abs() <= 3, s, -torch.inf),
    ),
    "documents": (
        "// heads have factors\nif (x0 != x1) y0 = -INFINITY;\ny0 *= 1 + coord(1) / 2;",
        (PARTS[:QUERIES, None].copy(), PARTS),
        lambda s, x: torch.where(
            torch.tensor(PARTS[:QUERIES, None] == PARTS),
            s * (1 + torch.arange(HEADS) // 2)[:, None, None],
            -torch.inf,
        ),
    ),
    "sizes": (
        "typeof_y0 far = x0 * size(-1) * coord(0); y0 = fmax(y0, 0) - far * (coord(1) + 1) / w0;",
        (RNG.normal(size=(QUERIES, 1)).astype("f"), 100),
        lambda s, x: s.clamp_min(0)
        - x[0] * KEYS * torch.arange(2)[:, None, None, None]
        * (torch.arange(HEADS)[:, None, None] + 1) / 100,
    ),
}  # fmt: skip


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def leaves(arrays):
    """Arrays of floats as PyTorch's, which have gradients."""
    given = [np.asarray(a).astype(np.float64) for a in arrays if np.ndim(a) and a.dtype.kind == "f"]
    return [torch.tensor(a, requires_grad=True) for a in given]


def reference(q, k, v, g, name, mask=None, factors=None):
    """The result, gradients, and those of the string's arrays."""
    _, args, change = CASES[name]
    given, read = leaves((q, k, v)), leaves(args)
    keys, values = (a.repeat_interleave(q.shape[1] // k.shape[1], 1) for a in given[1:])
    scores = change(given[0] @ keys.mT / q.shape[-1] ** 0.5, read)
    if mask is not None:
        scores = scores + mask if mask.is_floating_point() else scores.where(mask, -torch.inf)
    most = scores.detach().amax(-1, keepdim=True)
    weights = torch.exp(scores - most.where(most.isfinite(), 0))
    total = weights.sum(-1, keepdim=True)
    weights = weights / total.where(total > 0, 1)
    y = (weights if factors is None else weights * factors) @ values
    y.backward(torch.tensor(np.asarray(g).astype(np.float64)))
    return [a.detach().numpy() for a in (y, *(a.grad for a in (*given, *read)))]


def heads_of(shared=1, size=16, features=24, queries=QUERIES):
    before = 2, HEADS // shared, KEYS
    return random(2, HEADS, queries, size), random(*before, size), random(*before, features)


def close(found, expected, error):
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        bound = error * max(1, np.abs(b).max())
        np.testing.assert_allclose(a.astype(np.float32).get(), b, rtol=error, atol=bound)


def check(q, k, v, name, error=2e-5, *, mask=None, arrays=True, **options):
    """Compares results and gradients; returns names of the kernels of each."""
    text, args, _ = CASES[name]
    g = random(*q.shape[:-1], v.shape[-1]).astype(q.dtype)
    seen = mask
    if options.get("is_causal"):
        seen = np.tri(q.shape[2], k.shape[2]) > 0
    seen = None if seen is None else torch.tensor(seen)
    expected = reference(q, k, v, g, name, seen)
    given = [cp.asarray(a) for a in (q, k, v)]
    options |= {"score": text, "enable_gqa": q.shape[1] != k.shape[1]}
    options["score_args"] = tuple(cp.asarray(a) if np.ndim(a) else a for a in args)
    options |= {} if mask is None else {"attn_mask": cp.asarray(mask)}
    names = []
    with cp.profile() as profile:
        out, sums, _ = ops.scaled_dot_product_attention(*given, **options, return_stats=True)
    names.append({event.name for event in profile.events})
    close([out], expected[:1], error)
    for wanted in (False, True)[: 1 + arrays]:
        with cp.profile() as profile:
            found = ops.scaled_dot_product_attention_backward(
                cp.asarray(g), *given, out, sums, **options, score_gradient=wanted
            )
        names.append({event.name for event in profile.events})
        more = [a for a in found[3] if a is not None] if wanted else []
        close((*found[:3], *more), expected[1 : 4 + len(more)], 10 * error)
    return names


@pytest.mark.parametrize("name", CASES)
def test_strings(device, name):
    forward, backward, _ = check(*heads_of(), name)
    assert forward == {"attention"} and "attention_gradient" in backward
    check(*heads_of(shared=2), name, is_causal=True)


@pytest.mark.parametrize("name", CASES)
def test_strings_by_blocks(device, by_blocks, name):
    by_blocks()
    forward, *_ = check(*heads_of(shared=2), name, is_causal=True)
    assert "attention_weights" in forward
    check(*heads_of(), name, mask=RNG.random((QUERIES, KEYS)) < 0.5)


def test_masks_are_applied_behind_strings(device, by_blocks):
    """What a mask hides stays hidden, whatever the string makes of it; numbers are added then."""
    q, k, v = heads_of()
    mask = np.tri(QUERIES, KEYS, -3) > 0  # the first queries see nothing
    check(q, k, v, "cap", mask=mask)
    check(q, k, v, "slopes", mask=np.where(mask, RNG.normal(size=mask.shape), -np.inf).astype("f"))
    by_blocks()
    check(q, k, v, "cap", mask=mask)


@pytest.mark.parametrize("name", ["slopes", "cap", "documents"])
def test_a_gradient_of_the_mask_beside_a_string(device, name):
    q, k, v = heads_of()
    text, args, _ = CASES[name]
    mask, g = random(2, HEADS, QUERIES, KEYS), random(2, HEADS, QUERIES, 24)
    added = torch.tensor(mask, dtype=torch.float64, requires_grad=True)
    expected = reference(q, k, v, g, name, added)
    given = [cp.asarray(a) for a in (q, k, v)]
    options = {"score": text, "attn_mask": cp.asarray(mask)}
    options["score_args"] = tuple(cp.asarray(a) if np.ndim(a) else a for a in args)
    out, sums, _ = ops.scaled_dot_product_attention(*given, **options, return_stats=True)
    found = ops.scaled_dot_product_attention_backward(
        cp.asarray(g), *given, out, sums, **options, mask_gradient=True
    )
    close(found, (*expected[1:4], added.grad.numpy()), 2e-4)


@pytest.mark.parametrize("blocks", [False, True])
def test_queries_that_see_nothing_have_zeros(device, by_blocks, blocks):
    if blocks:
        by_blocks()
    q, k, v = (cp.asarray(a) for a in heads_of())
    text = "y0 = coord(-2) % 2 ? y0 : -INFINITY;"
    out, sums, _ = ops.scaled_dot_product_attention(q, k, v, score=text, return_stats=True)
    assert not out.get()[:, :, ::2].any() and out.get()[:, :, 1::2].all()
    found = ops.scaled_dot_product_attention_backward(out, q, k, v, out, sums, score=text)
    assert not found[0].get()[:, :, ::2].any()
    assert all(np.isfinite(a.get()).all() for a in found)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("name", ["slopes", "bias", "documents"])
def test_few_queries(device, name, queries):
    text, args, change = CASES[name]
    q, k, v = heads_of(shared=2, size=32, features=32, queries=queries)
    read = [a[..., :queries, :] if np.ndim(a) > 1 else a for a in args]
    keys, values = (torch.tensor(a).repeat_interleave(2, 1).double() for a in (k, v))
    whole = torch.zeros(2, HEADS, QUERIES, KEYS, dtype=torch.float64)
    whole[:, :, :queries] = torch.tensor(q).double() @ keys.mT / 32**0.5
    expected = change(whole, leaves(args))[:, :, :queries].softmax(-1) @ values
    with cp.profile() as profile:
        found = ops.scaled_dot_product_attention(
            *(cp.asarray(a) for a in (q, k, v)), enable_gqa=True, score=text,
            score_args=tuple(map(cp.asarray, read)),
        )  # fmt: skip
    assert "attention_few" in {event.name for event in profile.events}
    close([found], [expected.detach().numpy()], 2e-5)


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("fused", [True, False])
def test_a_static_cache_knows_places(device, monkeypatch, fused, queries):
    """The query's place is that among the keys that are there."""
    if not fused:
        monkeypatch.setattr("clprim.ops.attention.static.attend_static", lambda *_: False)
    q, k, v = heads_of(shared=2, size=32, features=32, queries=queries)
    lengths = np.int32([17, 41])
    places = lengths[:, None, None, None] - queries + np.arange(queries)[:, None]
    far = torch.tensor(np.arange(KEYS) - places)
    keys, values = (torch.tensor(a).repeat_interleave(2, 1).double() for a in (k, v))
    scores = torch.tensor(q).double() @ keys.mT / 32**0.5 + torch.tensor(SLOPES) * far
    cap = 3 * torch.tanh(scores / 3)
    hidden = (far > 0) | (far <= -6)
    expected = cap.masked_fill(hidden, -torch.inf).softmax(-1) @ values
    text = "y0 += x0 * (coord(-1) - coord(-2)); y0 = w0 * tanh(y0 / w0);"
    found = ops.scaled_dot_product_attention(
        *(cp.asarray(a) for a in (q, k, v)), length=cp.asarray(lengths), is_causal=True, window=6,
        enable_gqa=True, score=text, score_args=(cp.asarray(SLOPES), 3),
    )  # fmt: skip
    close([found], [expected.numpy()], 2e-5)


@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-6), ("float16", 1e-2)])
def test_other_dtypes(device, dtype, error):
    if dtype == "float64" and not cp.current_device().traits.fp64:
        pytest.skip("no double")
    check(*(a.astype(dtype) for a in heads_of()), "slopes", error, arrays=dtype == "float64")


def test_weights_drop_out_behind_strings(device):
    q, k, v = heads_of()
    text, args, _ = CASES["slopes"]
    given, g = [cp.asarray(a) for a in (q, k, v)], random(2, HEADS, QUERIES, 24)
    how = {"score": text, "score_args": tuple(map(cp.asarray, args)), "dropout_p": 0.3}
    out, sums, state = ops.scaled_dot_product_attention(*given, **how, return_stats=True)
    drawn = scaled_dot_product.dropout_factors(*given, 0.3, False, False, state)
    expected = reference(q, k, v, g, "slopes", factors=torch.tensor(drawn.get()))
    close([out], expected[:1], 2e-5)
    for wanted in (False, True):
        found = ops.scaled_dot_product_attention_backward(
            cp.asarray(g), *given, out, sums, **how, state=state, score_gradient=wanted
        )
        more = found[3] if wanted else ()
        close((*found[:3], *more), expected[1 : 4 + len(more)], 2e-4)


def test_scores_far_from_zero_keep_their_gradients(device, by_blocks):
    """Of the logarithm of a sum rounding has taken what tells the number of keys."""
    q, k, v = (cp.asarray(a) for a in heads_of())
    text = "y0 -= 1e9f;"
    out, sums, _ = ops.scaled_dot_product_attention(q, k, v, score=text, return_stats=True)
    one = ops.scaled_dot_product_attention_backward(out, q, k, v, out, sums, score=text)
    by_blocks()
    other = ops.scaled_dot_product_attention_backward(out, q, k, v, out, sums, score=text)
    np.testing.assert_allclose(
        out.get(), np.broadcast_to(v.get().mean(-2, keepdims=True), out.shape), atol=1e-5
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=1e-4, atol=1e-5)


@pytest.fixture
def units(device, monkeypatch):
    """Gives the device an emulated unit of float16 of some name."""

    def use(name, **traits):
        planned = dataclasses.replace(device.traits, matrix_units=(f"emulated/{name}",), **traits)
        monkeypatch.setitem(device.__dict__, "traits", planned)
        Calls.forget()

    yield use
    Calls.forget()


MMA = next(unit.name for unit in UNITS if unit.itemsize == 2)


@pytest.mark.parametrize("name", CASES)
def test_matrix_units(units, name):
    units(MMA, local_memory=64 << 10)
    given = [a.astype(np.float16) for a in heads_of(shared=2)]
    forward, backward = check(*given, name, 1e-2, arrays=False, is_causal=name == "slopes")
    assert forward == {"attention_matrix"} and "attention_matrix_gradient" in backward


def test_matrix_units_through_local_memory(units):
    units("wmma_gfx11/m16n16k16/float16/32", local_memory=64 << 10)
    given = [a.astype(np.float16) for a in heads_of()]
    mask = np.tri(QUERIES, KEYS, -3) > 0
    forward, backward = check(*given, "sizes", 1e-2, arrays=False, mask=mask)
    assert forward == {"attention_matrix"} and "attention_matrix_gradient" in backward


def test_gradients_of_values_and_compiled(device):
    """Of what a loss depends on, the string's arrays among it; a string that has none is fused."""
    q, k, v = heads_of()
    text, args, _ = CASES["slopes"]
    x = [cp.asarray(a) for a in (q, k, v, *args)]

    def loss(q, k, v, slopes):
        y = ops.scaled_dot_product_attention(q, k, v, score=text, score_args=(slopes,))
        return (y * y).sum()

    g = 2 * ops.scaled_dot_product_attention(*x[:3], score=text, score_args=(x[3],)).get()
    expected = reference(q, k, v, g, "slopes")
    _, found = cp.value_and_grad(loss, wrt=(0, 1, 2, 3))(*x)
    close(found, expected[1:], 5e-4)
    with cp.profile() as profile:
        _, found = cp.value_and_grad(loss, wrt=(0, 2))(*x)
    close(found, [expected[1], expected[3]], 5e-4)
    assert "attention_gradient" in {event.name for event in profile.events}
    compiled = cp.jit(
        lambda *a: ops.scaled_dot_product_attention(*a[:3], score=text, score_args=a[3:])
    )
    close([compiled(*x)], expected[:1], 2e-5)

    def twice(q, k, v, slopes):
        _, (slope,) = cp.value_and_grad(loss, wrt=(0,))(q, k, v, slopes)
        return (slope * slope).sum()

    def plain(q, k, v, slopes):
        s = q @ k.mT / 4 + slopes * FAR
        y = s.softmax(-1) @ v
        (slope,) = torch.autograd.grad((y * y).sum(), q, create_graph=True)
        return (slope * slope).sum()

    given = leaves((q, k, v, *args))
    plain(*given).backward()
    _, found = cp.value_and_grad(twice, wrt=(0, 1, 2, 3))(*x)
    close(found, [a.grad.numpy() for a in given], 5e-3)


REFUSED = {
    "y1 = y0;": "'y1' is unknown: a score has one result, y0",
    "y0 = bias;": "unknown name 'bias'",
    "y0 = index;": "'index' is unknown",
    "y0 += x0": "score_args= holds 0 arguments, the score names 1 (x0)",
    "y0 = coord(4);": "coord(4) is out of bounds",
    "y0 = rand();": "rand",
}


@pytest.mark.parametrize("text", REFUSED)
def test_wrong_strings_are_refused(device, text):
    q = cp.zeros((1, 2, 8, 16))
    with pytest.raises(cp.ClprimError) as error:
        ops.scaled_dot_product_attention(q, q, q, score=text)
    told = str(error.value)
    assert REFUSED[text] in told and told.startswith("scaled_dot_product_attention")
    assert "score_args" in told or "coord(4)" in told or "^" in told


def test_what_does_not_fit_is_refused(device):
    q = cp.zeros((1, 2, 8, 16))
    attend = ops.scaled_dot_product_attention
    with pytest.raises(cp.DefinitionError, match="score_args= without a score="):
        attend(q, q, q, score_args=(q,))
    with pytest.raises(cp.ShapeError, match="x0 of the score has shape"):
        attend(q, q, q, score="y0 += x0;", score_args=(q,))
    with pytest.raises(cp.DTypeError, match="expected a string for score, got 7"):
        attend(q, q, q, score=7)
    with pytest.raises(cp.DefinitionError, match="goes without softcap="):
        attend(q, q, q, length=3, softcap=2.0, score="y0 *= 2;")
    with pytest.raises(cp.ShapeError, match="score_gradient=True, but score is None"):
        ops.scaled_dot_product_attention_backward(q, q, q, q, q, q[..., 0], score_gradient=True)
    with pytest.raises(cp.DefinitionError, match=r"(?s)score.*\^"):
        ops.scaled_dot_product_attention_backward(
            q, q, q, q, q, cp.zeros((1, 2, 8)), score="while (y0 > 1) y0 *= 0.5f;"
        )
