"""Attention on the device beside PyTorch's in float64: one operator, with gradients and dropout."""

import copy

import pytest

torch = pytest.importorskip("torch")
import clprim.torch as ct  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention
FUSED = "ScaledDotProductFusedAttentionOverrideableBackward0"


@pytest.mark.parametrize(
    ("heads", "options"),
    [
        ((2, 3), {}),
        ((2, 3), {"is_causal": True, "scale": 0.4}),
        ((2, 1), {"enable_gqa": True}),
        ((2, 3), {"attn_mask": torch.arange(37 * 29).reshape(37, 29) % 3 > 0}),
        ((1, 3), {}),  # broadcast: made of others
        ((1, 3), {"attn_mask": torch.arange(37 * 29).reshape(37, 29) % 3 > 0}),
    ],
)
def test_results_and_gradients(heads, options):
    torch.manual_seed(0)
    shapes = (2, 3, 37, 8), (*heads, 29, 8), (*heads, 29, 5)
    given = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    y = attention(*given, **options)
    g = torch.randn_like(y)
    there = [t.detach().float().to("opencl").requires_grad_() for t in given]
    if "attn_mask" in options:
        options = {"attn_mask": options["attn_mask"].to("opencl")}
    found = attention(*there, **options)
    assert (found.grad_fn.name() == FUSED) == (heads != (1, 3))
    gradients = torch.autograd.grad(found, there, g.float().to("opencl"))
    expected = torch.autograd.grad(y, given, g)
    for a, b in zip((found, *gradients), (y, *expected), strict=True):
        torch.testing.assert_close(a.detach().cpu().double(), b.detach(), rtol=1e-4, atol=1e-5)


def test_dropout_has_the_same_mask_in_the_gradient():
    q = torch.zeros(1, 40, 4, device="opencl")
    v = torch.randn(1, 40, 8, device="opencl", requires_grad=True)
    y = attention(q, q, v, None, 0.3)
    g = torch.randn_like(y)
    y.backward(g)
    # The result is linear in values.
    torch.testing.assert_close((y * g).sum().item(), (v * v.grad).sum().item(), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("heads", "options"),
    [
        ((4, 2), {"is_causal": True, "enable_gqa": True, "dropout_p": 0.4, "scale": 0.7}),
        ((2, 2), {"attn_mask": torch.arange(20).reshape(5, 4) // 4 != 2}),  # one sees nothing
        ((2, 2), {"attn_mask": torch.arange(20.0, dtype=torch.float64).reshape(5, 4).cos()}),
    ],
)
def test_gradients_have_gradients(heads, options):
    torch.manual_seed(0)
    shapes = (heads[0], 5, 3), (heads[1], 4, 3), (heads[1], 4, 2)
    given = [torch.randn(s, dtype=torch.float64).to("opencl").requires_grad_() for s in shapes]
    if "attn_mask" in options:
        options = dict(options)
        given.append(options.pop("attn_mask").to("opencl"))
        given[3].requires_grad_(given[3].dtype is not torch.bool)

    def attend(*tensors):
        torch.manual_seed(3)  # the same weights drop out every time
        return attention(*tensors, **options)

    assert attend(*given).grad_fn.name() == FUSED
    assert torch.autograd.gradcheck(attend, given, fast_mode=True)
    assert torch.autograd.gradgradcheck(attend, given, fast_mode=True)


def test_gradients_of_gradients_of_heads_of_no_elements():
    q = torch.zeros(2, 3, 0, device="opencl", requires_grad=True)
    v = torch.ones(2, 3, 4, device="opencl", requires_grad=True)
    (slope,) = torch.autograd.grad(attention(q, q, v).square().sum(), v, create_graph=True)
    assert torch.autograd.grad(slope.sum(), v)[0].shape == v.shape


def test_gradients_of_gradients_in_sixteen_bits():
    def by_hand(q, k, v):  # the CPU's own has no second gradient in PyTorch 2.14
        return torch.softmax(q @ k.mT / 2, -1) @ v

    torch.manual_seed(0)
    x = torch.randn(2, 7, 4, dtype=torch.bfloat16)
    found = []
    for t, attend in ((x.to("opencl"), attention), (x.double(), by_hand)):
        t.requires_grad_()
        (slope,) = torch.autograd.grad(attend(t, t, t).square().sum(), t, create_graph=True)
        assert slope.dtype == t.dtype
        found.append(torch.autograd.grad(slope.square().sum(), t)[0].cpu().double())
    torch.testing.assert_close(*found, rtol=0.1, atol=0.1)


def test_a_mask_with_a_gradient():
    x = torch.randn(2, 9, 4, device="opencl")
    mask = torch.zeros(9, 9, device="opencl", requires_grad=True)
    y = attention(x, x, x, mask)
    assert y.grad_fn.name() == FUSED
    y.square().sum().backward()
    copy, zeros = x.cpu().double(), torch.zeros(9, 9, dtype=torch.float64, requires_grad=True)
    attention(copy, copy, copy, zeros).square().sum().backward()
    torch.testing.assert_close(mask.grad.cpu().double(), zeros.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_that_is_not_trained_stays_on_the_device(norm_first):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 24, batch_first=True, norm_first=norm_first, activation="gelu"
    ).eval()
    x = torch.randn(3, 9, 16)
    masks = {
        "src_mask": torch.ones(9, 9, dtype=torch.bool).triu(1),
        "src_key_padding_mask": torch.arange(27).reshape(3, 9) % 9 > 6,
    }
    padding = {"src_key_padding_mask": masks["src_key_padding_mask"]}
    expected = [layer(x), layer(x, masks["src_mask"]), layer(x, **masks), layer(x, **padding)]
    there, device = copy.deepcopy(layer).to("opencl"), {k: m.to("opencl") for k, m in masks.items()}
    encoder = torch.nn.TransformerEncoder(there, 1, enable_nested_tensor=not norm_first).eval()
    ct.fallback("error")
    try:
        with torch.no_grad():
            x = x.to("opencl")
            found = [there(x), there(x, device["src_mask"]), there(x, **device)]
            found.append(encoder(x, src_key_padding_mask=device["src_key_padding_mask"]))
            attend = there.self_attn
            y, weights = attend(x, x, x, average_attn_weights=False)
    finally:
        ct.fallback("warn")
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b.detach(), rtol=1e-4, atol=1e-5)
    b, w = layer.self_attn(*[x.cpu()] * 3, average_attn_weights=False)
    torch.testing.assert_close(y.cpu(), b.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights.cpu(), w.detach(), rtol=1e-4, atol=1e-5)
