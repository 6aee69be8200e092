"""`multi_head_attention_forward` against PyTorch in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

E, HEADS, L, S, N = 12, 3, 5, 7, 2


def _both(case, **changed):
    """What PyTorch and clprim return of the same arguments, and PyTorch's arguments."""
    rng = np.random.default_rng(0)

    def array(*shape):
        return rng.standard_normal(shape)

    batch = () if case == "unbatched" else (N,)
    query = array(L, *batch, E)
    key = value = array(S, *batch, E)
    given = {
        "query": query,
        "key": key,
        "value": value,
        "embed_dim_to_check": E,
        "num_heads": HEADS,
        "in_proj_weight": array(3 * E, E),
        "in_proj_bias": array(3 * E),
        "bias_k": None,
        "bias_v": None,
        "add_zero_attn": False,
        "dropout_p": 0.5,
        "out_proj_weight": array(E, E),
        "out_proj_bias": array(E),
        "training": False,
    }
    if case == "self":
        given |= {"key": query, "value": query}
    if case == "padded":
        given["key_padding_mask"] = np.arange(S) >= np.array([[S], [4]])
    if case == "masked":
        given["attn_mask"] = np.triu(np.ones((L, S), bool), 2)
    if case == "unbatched":
        given["key_padding_mask"] = np.arange(S) == 2
    if case == "every head":
        given |= {"attn_mask": array(N * HEADS, L, S), "average_attn_weights": False}
        given["key_padding_mask"] = array(N, S)
    if case == "more keys":
        given |= {"bias_k": array(1, 1, E), "bias_v": array(1, 1, E), "add_zero_attn": True}
        given["attn_mask"] = array(L, S)
    if case == "own weights":
        given |= {
            "key": array(S, N, 5),
            "value": array(S, N, 4),
            "in_proj_weight": None,
            "use_separate_proj_weight": True,
            "q_proj_weight": array(E, E),
            "k_proj_weight": array(E, 5),
            "v_proj_weight": array(E, 4),
        }
    given |= changed
    theirs, ours, made = {}, {}, {}
    for name, a in given.items():
        if not isinstance(a, np.ndarray):
            theirs[name] = ours[name] = a
            continue
        if id(a) not in made:
            kept = a if a.dtype == bool else a.astype(np.float32)
            leaf = torch.tensor(a, requires_grad=a.dtype == float)
            made[id(a)] = leaf, cp.asarray(kept)
        theirs[name], ours[name] = made[id(a)]
    expected = torch.nn.functional.multi_head_attention_forward(**theirs)
    return expected, ops.multi_head_attention_forward(**ours, return_saved=True), theirs


def _near(found, expected):
    assert found.shape == tuple(expected.shape)
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def _check(expected, found, given):
    """Compares results and, with both results' gradients, those of all arguments."""
    *found, saved = found
    rng = np.random.default_rng(1)
    slopes = [None if e is None else rng.standard_normal(e.shape) for e in expected]
    pairs = [(e, s) for e, s in zip(expected, slopes, strict=True) if e is not None]
    sum((e * torch.tensor(s)).sum() for e, s in pairs).backward()
    grads = [None if s is None else cp.asarray(s.astype(np.float32)) for s in slopes]
    gradients = ops.multi_head_attention_backward(*grads, saved, mask_gradients=True)
    for e, f in zip(expected, found, strict=True):
        assert (e is None) == (f is None)
        if e is not None:
            _near(f, e)
    leaves = {}
    for name, gradient in gradients._asdict().items():
        leaf = given.get(name)
        leaf = None if leaf is None or not leaf.requires_grad else leaf
        assert (gradient is None) == (leaf is None), name
        if leaf is not None:
            leaves.setdefault(id(leaf), (leaf, []))[1].append(gradient)
    for leaf, parts in leaves.values():  # one array for several arguments has one gradient
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        _near(total, leaf.grad)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "case",
    ["plain", "self", "padded", "masked", "unbatched", "every head", "more keys", "own weights"],
)
def test_equals_pytorch(device, case, need_weights):
    _check(*_both(case, need_weights=need_weights))


def test_no_biases(device):
    _check(*_both("self", in_proj_bias=None, out_proj_bias=None))


def test_weights_of_their_own_beside_the_others(device):
    rng = np.random.default_rng(3)
    own = {f"{n}_proj_weight": rng.standard_normal((E, E)) for n in "qkv"}
    expected, found, given = _both("self", use_separate_proj_weight=True, **own)
    _check(expected, found, {**given, "in_proj_weight": None})


def test_a_causal_hint(device):
    mask = np.triu(np.ones((L, L), bool), 1)
    for need in (True, False):
        _check(*_both("self", attn_mask=mask, is_causal=True, need_weights=need))


@pytest.mark.parametrize("need_weights", [True, False])
def test_gradients_with_dropout(device, need_weights):
    """The weights that dropped out do so again: the result is linear in values."""
    rng = np.random.default_rng(2)
    x, value, w = (
        cp.asarray(rng.standard_normal(s).astype("f")) for s in ((L, N, E),) * 2 + ((3 * E, E),)
    )
    rest = (None, None, None, False, 0.4, w[:E], None, True, None, need_weights)
    y, _, saved = ops.multi_head_attention_forward(
        x, x, value, E, HEADS, w, *rest, return_saved=True
    )
    g = cp.asarray(rng.standard_normal((L, N, E)).astype("f"))
    found = ops.multi_head_attention_backward(g, None, saved)
    total = float((y * g).sum().get())
    np.testing.assert_allclose(float((found.value * value).sum().get()), total, rtol=1e-4)


def test_dropout_repeats_for_a_seed(device):
    results = []
    for _ in range(2):
        cp.random.seed(3)
        results.append(_dropped())
    np.testing.assert_array_equal(*results)
    assert (results[0] != _dropped()).any()


def _dropped():
    x, w = cp.full((L, N, E), 1.0), cp.full((3 * E, E), 0.1)
    given = (x, x, x, E, HEADS, w, None, None, None, False, 0.5, w[:E], None)
    return ops.multi_head_attention_forward(*given, need_weights=False)[0].get()


def test_refusals(device):
    x, w = cp.zeros((L, N, E)), cp.zeros((3 * E, E))

    def call(query=x, key=x, value=x, width=E, heads=HEADS, weight=w, bias=None, out=w[:E],
             bias_k=None, bias_v=None, **more):  # fmt: skip
        rest = (weight, bias, bias_k, bias_v, False, 0.0, out, None)
        ops.multi_head_attention_forward(query, key, value, width, heads, *rest, **more)

    for error, message, given in [
        (cp.ShapeError, "multiple of 5 heads", {"heads": 5}),
        (cp.ShapeError, "expected 13", {"width": 13}),
        (cp.ShapeError, r"in_proj_weight has shape \(12, 12\)", {"weight": w[:E]}),
        (cp.ShapeError, r"attn_mask has shape \(5,\)", {"attn_mask": cp.zeros(5)}),
        (cp.ShapeError, r"key_padding_mask has shape", {"key_padding_mask": cp.zeros((N, 3))}),
        (cp.ShapeError, r"expected \(S, 2", {"key": x[:, :1], "value": x[:, :1]}),
        (cp.DTypeError, "expected in_proj_weight", {"weight": None}),
        (cp.DTypeError, "attn_mask is int64", {"attn_mask": cp.zeros((L, L), np.int64)}),
        (cp.DTypeError, "padding_mask is int8", {"key_padding_mask": cp.zeros((N, L), np.int8)}),
        (cp.DTypeError, "key is float16, query", {"key": x.astype(np.float16)}),
        (cp.ShapeError, "attn_mask is None", {"is_causal": True}),
        (cp.ShapeError, "are 4 and 4 wide", {"key": x[..., :4], "value": x[..., :4]}),
        (cp.ShapeError, r"in_proj_bias has shape \(12,\), expected", {"bias": w[:, 0][:E]}),
        (cp.ShapeError, r"bias_v has shape \(1, 1, 3\)",
         {"bias_k": cp.zeros((1, 1, E)), "bias_v": cp.zeros((1, 1, 3))}),
        (cp.ShapeError, r"out_proj_weight has shape \(3, 4\)", {"out": cp.zeros((3, 4))}),
        (cp.ShapeError, r"k_proj_weight has shape \(12, 12\), expected \(12, 4\)",
         {"key": x[..., :4], "use_separate_proj_weight": True,
          **{f"{n}_proj_weight": w[:E] for n in "qkv"}}),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call(**given)


def test_refusals_of_gradients(device):
    x, w = cp.zeros((L, N, E)), cp.zeros((3 * E, E))
    rest = (None, None, None, False, 0.0, w[:E], None, True, None, False)
    back = ops.multi_head_attention_backward
    y, _, saved = ops.multi_head_attention_forward(x, x, x, E, HEADS, w, *rest, return_saved=True)
    for message, call in [
        ("returned, got None", lambda: back(y, None, None)),
        (r"grad has shape \(2, 12\)", lambda: back(y[0], None, saved)),
        ("grad has shape .* of float64", lambda: back(y.astype(np.float64), None, saved)),
        ("need_weights=False", lambda: back(y, y, saved)),
        ("for grad, got NoneType", lambda: back(None, None, saved)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
