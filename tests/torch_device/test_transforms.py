"""`torch.func` on the device: many gradients at once, tangents, second derivatives, batches."""

import os

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import clprim.torch as ct  # noqa: E402
from clprim import ShapeError  # noqa: E402

# PyTorch's own, at the first tangent of a process.
pytestmark = [
    pytest.mark.usefixtures("unoptimised", "strict"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"),
]
F, func = torch.nn.functional, torch.func
ELEMENTS = """relu elu sigmoid tanh silu mish leaky_relu hardtanh hardsigmoid hardswish hardshrink
softshrink softplus logsigmoid gelu selu celu threshold relu6""".split()


def agree(function, *given, rtol=1e-5):
    """Compares what a function makes of numbers in float64 on the CPU and on the device."""
    wanted = function(*given)
    found = function(*[t.to("opencl", torch.float32) for t in given])
    for a, b in zip(*map(torch.utils._pytree.tree_leaves, (found, wanted)), strict=True):
        scale = float(b.abs().max())
        torch.testing.assert_close(a.cpu().double(), b, rtol=0, atol=rtol * max(scale, 1e-30))


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", ELEMENTS)
def test_many_gradients_of_an_activation_at_once(name):
    options = {"threshold": (0.1, 2.0)}.get(name, ())
    agree(func.jacrev(lambda x: getattr(F, name)(x, *options)), numbers(3, 2))


def test_many_gradients_of_numbers_near_the_ends_at_once():
    agree(func.jacrev(lambda x: torch.logit(x, 1e-3)), numbers(5).sigmoid())
    agree(func.jacrev(F.prelu, (0, 1)), numbers(4, 3, 2), numbers(3))
    agree(func.jacrev(lambda x: F.gelu(x, approximate="tanh")), numbers(5))


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_many_gradients_of_a_loss_at_once(name, reduction):
    def loss(x, y):
        return getattr(F, name)(x, y, reduction=reduction)

    agree(func.jacrev(loss), numbers(3, 2), numbers(3, 2, seed=1))
    agree(func.vmap(func.grad(lambda x, y: loss(x, y).sum())), numbers(3, 2), numbers(3, 2, seed=1))


def test_many_gradients_of_distances_are_refused_where_pytorch_adds_them_up():
    a, b = numbers(2, 3), numbers(4, 3, seed=1)
    agree(func.jacrev(torch.cdist, (0, 1), chunk_size=1), a, b)
    with pytest.raises(ShapeError, match="chunk_size=1"):
        func.jacrev(torch.cdist)(a.float().to("opencl"), b.float().to("opencl"))


def test_batches_of_gradients_by_autograd_itself():
    def batched(x):
        x = x.clone().requires_grad_()
        y = F.relu(x)
        seeds = torch.eye(3, dtype=x.dtype).to(x.device)
        return torch.autograd.grad(y, x, seeds, is_grads_batched=True)

    agree(batched, numbers(3))
    agree(lambda x: torch.autograd.functional.jacobian(F.elu, x, vectorize=True), numbers(3))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_products_and_a_softmax_where_it_is_asked_for(causal):
    def loss(q, k, v):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return y.square().sum()

    q, k, v = (numbers(2, 2, 3, 4, seed=n) for n in range(3))
    with sdpa_kernel(SDPBackend.MATH):
        agree(func.vmap(func.grad(loss, (0, 1, 2))), q, k, v)
        agree(lambda *x: func.jvp(loss, x, x[::-1]), q, k, v)
        agree(func.hessian(loss), *(t[:1, :1, :2, :2] for t in (q, k, v)))


def test_several_heads_have_gradients_for_each_sample_and_second_ones():
    given = [numbers(*s, seed=n) for n, s in enumerate([(12, 4), (12,), (4, 4), (4,)])]
    x = numbers(2, 1, 3, 4, seed=9)

    heads = torch.nn.MultiheadAttention(4, 2, batch_first=True, device="meta")

    def loss(x, w, b, v, c):
        names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        state = dict(zip(names, (w, b, v, c), strict=True))
        return func.functional_call(heads, state, (x, x, x))[0].square().sum()

    with sdpa_kernel(SDPBackend.MATH):
        agree(func.vmap(func.grad(loss, 1), (0, *[None] * 4)), x, *given)
        agree(func.hessian(loss), x[0, :, :1], *given, rtol=1e-4)


@pytest.mark.parametrize("layer", ["LSTMCell", "GRUCell", "LSTM", "GRU"])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_cells_hand_on_tangents(layer, bias):
    torch.manual_seed(0)
    cell = getattr(torch.nn, layer)(3, 2, bias=bias).double()
    names, weights = zip(*cell.state_dict().items(), strict=True)
    cell.to("meta")

    def run(x, *weights):
        found = func.functional_call(cell, dict(zip(names, weights, strict=True)), (x,))
        return found if layer == "GRUCell" else found[0]

    x = numbers(4, 3)
    agree(lambda x, *w: func.jvp(run, (x, *w), (x.sin(), *w)), x, *weights)
    agree(func.hessian(lambda x, *w: run(x, *w).square().sum()), x[:2], *weights, rtol=1e-4)
    agree(func.grad(lambda x, *w: run(x, *w).square().sum(), (0, 1)), x, *weights)


def test_the_second_derivative_of_a_logarithm_of_one_number():
    agree(func.hessian(lambda x: torch.logsumexp(x, 0).square()), numbers())
    agree(func.hessian(lambda x: torch.logcumsumexp(x, 0).square()), numbers())


@pytest.mark.filterwarnings("ignore")
def test_samples_of_operators_agree():
    pytest.importorskip("expecttest")
    from torch_transforms import compare, differentiable

    ct.fallback("silent")
    turn = os.environ["CLPRIM_TEST_TURN"]  # a twelfth of them, by turns
    found = differentiable()[slice(None) if turn == "all" else slice(2 * int(turn), None, 12)]
    problems, right = {}, 0
    for name, op in found:
        counts, wrong = compare(op)
        problems |= {name: wrong} if wrong else {}
        right += counts["right"]
    assert not problems
    assert right > 3 * len(found) // 2
