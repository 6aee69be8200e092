"""What fake tensors predict of the device, as `torch.compile` traces with them."""

import itertools
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import clprim.torch as ct  # noqa: E402

D = "opencl"
F = nn.functional
# One of every rule by which results lie, and what networks are made of.
NAMES = """
add amax cat cdist clamp clone copysign cumsum cumprod diff div.floor_rounding flip gather
heaviside index_add index_copy index_fill index_put index_select kthvalue logaddexp logcumsumexp
logical_and logit log_softmax max.reduction_with_dim max_pool2d_with_indices_backward
mean median mvlgamma.mvlgamma_p_3 nan_to_num native_dropout_backward native_layer_norm put renorm
repeat roll rot90 rsub scatter scatter_add scatter_reduce.amin softmax softmax.with_dtype sort stack
std std_mean sum take_along_dim topk tril where _softmax_backward_data
_unsafe_masked_index grid_sampler_2d constant_pad_nd __getitem__
nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d nn.functional.avg_pool2d
nn.functional.avg_pool3d nn.functional.batch_norm nn.functional.channel_shuffle
nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose2d
nn.functional.conv_transpose3d nn.functional.cross_entropy nn.functional.embedding
nn.functional.embedding_bag nn.functional.gelu nn.functional.glu nn.functional.grid_sample
nn.functional.group_norm nn.functional.hardshrink nn.functional.hardsigmoid
nn.functional.hardswish nn.functional.hardtanh
nn.functional.interpolate.bilinear nn.functional.interpolate.trilinear nn.functional.layer_norm
nn.functional.logsigmoid
nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.pad.replicate_negative
nn.functional.relu nn.functional.scaled_dot_product_attention nn.functional.silu
nn.functional.softplus nn.functional.softshrink
""".split()
pytestmark = pytest.mark.alone


@pytest.mark.parametrize("name", NAMES)
def test_results_lie_as_meta_functions_promise(name, operators):
    from torch_strides import differences, nothing_launched

    compared = 0
    with nothing_launched():
        for found, predicted in differences(operators[name], torch.float32, 3):
            compared += 1
            assert found == predicted
    assert compared


def _operand(shape, seed, device):
    """Zeros of a random order of dimensions, now and then repeated along one of them."""
    draw = random.Random(seed)
    order = draw.sample(range(len(shape)), len(shape))
    found = torch.zeros([shape[d] for d in order], device=device)
    found = found.permute([order.index(d) for d in range(len(shape))])
    if draw.random() < 0.3:
        d = draw.randrange(len(shape))
        found = found.narrow(d, 0, 1).expand(shape)
    return found


ELEMENTWISE = {
    "one": lambda a, b, c: (a.exp(), a.clone(), a.double(), a.isnan(), a.nan_to_num()),
    "two": lambda a, b, c: (a + b, a == b, torch.atan2(a, b), a.clamp(min=b)),
    "three": lambda a, b, c: (torch.where(a > 0, b, c), torch.addcmul(a, b, c)),
    "indexed": lambda a, b, c: (a[torch.zeros(2, dtype=torch.long, device=a.device)],),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_operands_of_any_order_give_the_strides_of_the_cpu(name):
    from torch_strides import described, nothing_launched

    draw = random.Random(5)
    for case in range(40):
        shape = [draw.choice((1, 2, 3, 4)) for _ in range(draw.randint(1, 5))]
        smaller = [1 if draw.random() < 0.3 else n for n in shape][draw.choice((0, 0, 1)) :]
        given = [(shape, case), (smaller or [1], case + 0.5), (shape, case + 0.7)]
        expected = ELEMENTWISE[name](*[_operand(*g, "cpu") for g in given])
        with nothing_launched():
            found = ELEMENTWISE[name](*[_operand(*g, D) for g in given])
        assert described(found) == described(expected), given


def test_convolutions_are_predicted_in_every_mix_of_formats():
    from torch_strides import described, nothing_launched

    formats = (torch.contiguous_format, torch.channels_last)

    def run(x, w, g, transposed):
        x, w, g = (
            torch.empty(shape, device=D).contiguous(memory_format=f)
            for shape, f in (((2, 4, 6, 6), x), ((4, 4, 3, 3), w), ((2, 4, 6, 6), g))
        )
        how = ([1, 1], [1, 1], [1, 1], transposed, [0, 0], 1)
        y = torch.ops.aten.convolution(x, w, None, *how)
        mask = [True] * 3
        return y, *torch.ops.aten.convolution_backward(g, x, w, [4], *how, mask)

    for mix in itertools.product(formats, formats, formats, (False, True)):
        with nothing_launched():
            found = described(run(*mix))
        with FakeTensorMode():
            assert described(run(*mix)) == found


def test_attention_of_transposed_queries_lies_as_they_do():
    def run(device):
        q, k, v = (torch.randn(2, 5, 4, 8, device=device).transpose(1, 2) for _ in range(3))
        q.requires_grad_()
        y = F.scaled_dot_product_attention(q, k, v)
        y.sum().backward()
        return y.stride(), q.grad.shape, q.grad.stride()

    strides, shape, slopes = run(D)
    assert strides == (160, 8, 32, 1)
    with FakeTensorMode():
        assert run(D) == (strides, shape, slopes)


@pytest.mark.parametrize("mask", ["none", "bool", "float", "causal", "dropout"])
@pytest.mark.parametrize("shape", [(4, 8), (3, 4, 8), (2, 3, 4, 8), (2, 2, 3, 4, 8)])
def test_attention_is_differentiated_under_fake_tensors(mask, shape):
    with FakeTensorMode():
        q, k, v = (torch.empty(shape, device=D, requires_grad=True) for _ in range(3))
        given = {
            "bool": {"attn_mask": torch.empty(4, 4, dtype=torch.bool, device=D)},
            "float": {"attn_mask": torch.empty(4, 4, device=D, requires_grad=True)},
            "causal": {"is_causal": True},
            "dropout": {"dropout_p": 0.5},
        }.get(mask, {})
        y = F.scaled_dot_product_attention(q, k, v, **given)
        y.sum().backward()
        assert y.shape == q.grad.shape == k.grad.shape == v.grad.shape == shape
        assert y.device.type == q.grad.device.type == D
        if mask == "float":
            assert given["attn_mask"].grad.shape == (4, 4)


class _Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.split = nn.Linear(8, 24)

    def forward(self, x):
        n, t, e = x.shape
        q, k, v = (z.view(n, t, 2, 4).transpose(1, 2) for z in self.split(x).chunk(3, -1))
        seen = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return y.transpose(1, 2).reshape(n, t, e)


COMPILED = {
    "convolutions": lambda: nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.ConvTranspose2d(8, 8, 3, 2, 1, 1), nn.ConvTranspose2d(8, 4, 2, 2), nn.Flatten()),
    ),
    "LSTM": lambda: nn.LSTM(8, 5),
    "encoder layer": lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
    "attention": _Attention,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_models_train_as_others_do(name):
    torch._dynamo.reset()
    torch.manual_seed(3)
    model = COMPILED[name]().to(D)
    x = torch.randn(2, 5, 8)
    if name == "convolutions":
        model = model.to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    x = x.to(D)

    def step(run):
        model.zero_grad()
        y = run(x)
        y = y[0] if isinstance(y, tuple) else y
        (y * y).sum().backward()
        return [y.detach().cpu(), *(p.grad.cpu() for p in model.parameters())]

    ct.fallback("error")
    try:
        expected = step(model)
        found = step(torch.compile(model, backend="aot_eager"))
    finally:
        ct.fallback("warn")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
