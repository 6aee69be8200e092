"""Small programs as people write them: compiled on the device they are what the CPU says."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn, optim  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("unoptimised", "double_device"),
    pytest.mark.filterwarnings("ignore"),
]


def on(x, values):
    return torch.tensor(values, device=x.device)


def items(x):
    for i in range(3):
        x = x * x[i].sum().item()
    return x


def decides(x):
    while x.abs().sum().item() > 3:
        x = x / 2
    return x


def view_written(x):
    y = x.clone()
    z = y[1:, 2:]
    z.mul_(3)
    y[1:].add_(y[:-1].clone())
    y[:, 0], y[0, 1:3] = 7, on(x, [1.0, 2])
    return y, z


def empty_written(x):
    y = torch.empty(4, 6, device=x.device)
    y[0], y[1:3] = 1, x[:2]
    y[3].copy_(x[0])
    return y, y.sum(), torch.empty_like(x).fill_(2).index_fill_(0, on(x, [1]), 5.0) + x


def drawn(x):
    torch.manual_seed(3)
    return F.dropout(x, 0.5), torch.rand(3, device=x.device), F.dropout(x, 0.5, training=False)


# A function of x, 4 rows of 6, and of each of some other arguments in turn.
PROGRAMS = {
    "whole": (lambda x, n: (x * n + n**2, x[:n].sum()), [1, 2, 3, 4]),
    "dict": (lambda x, o: (x * o["lr"]).repeat(o["n"], 1), [{"lr": i / 4, "n": i} for i in (1, 2)]),
    "size": (lambda x, n: (x[:n] @ x[:n].T, x[:n].mean(0), x[:n].sum() * n), [3, 4, 2]),
    "resized to": (lambda x, n: F.interpolate(x[None], size=n, mode="linear"), [3, 5, 9]),
    "flag": (lambda x, yes: x + 1 if yes else x.sum(0, keepdim=yes), [True, False]),
    "name": (lambda x, name: getattr(F, name)(x) * 2, ["relu", "gelu", "silu"]),
    "none": (lambda x, y: x if y is None else x * y, [None, 2.0]),
    "list": (lambda x, v: sum(x * n for n in v), [[1.0, 2.0], [3.0, 4.0], [3.0, 4.0, 5.0]]),
    "slice": (lambda x, s: x[s] + 1, [slice(0, 2), slice(1, None, 2)]),
    "number of a tensor": (lambda x, n: x[: n.item()] * 2, [torch.tensor(2), torch.tensor(3)]),
    "items": (items, []),
    "decides": (decides, []),
    "view written": (view_written, []),
    "empty written": (empty_written, []),
    "drawn": (drawn, []),
    "scatter": (lambda x: x.scatter_add(0, (x > 0).long(), x * 2), []),
    "put": (lambda x: x.clone().index_put_((on(x, [0, 0, 2]),), x[:3], accumulate=True), []),
    "entropy": (lambda x: F.cross_entropy(x, on(x, [0, 1, 5, 2]), label_smoothing=0.1), []),
    "divergence": (lambda x: F.kl_div(x.log_softmax(1), x.softmax(1), reduction="sum"), []),
    "strides": (lambda x: ((x * 2).as_strided((2, 2), (1, 6), 1), x.unfold(1, 3, 2) * 1), []),
    "types": (lambda x: ((x * 99).to(torch.int8), x.double().sum(), x.bool().sum()), []),
    "sort": (lambda x: (x.sort(1), x.topk(2), x.argmax(), x.unique()), []),
    "nonzero": (lambda x: (x[x > 0], x.nonzero(), torch.where(x > 0.5)[0]), []),
    "einsum": (lambda x: (torch.einsum("ij,kj->ik", x, x), torch.tensordot(x, x, 2)), []),
    "moments": (lambda x: (x.var(0), x.std(), x.cov(), x.logsumexp(1), x.quantile(0.3)), []),
    "running": (lambda x: (x.cummax(1), x.cumsum(0), x.cumprod(1), x.prod(1)), []),
    "inverse": (lambda x: torch.linalg.inv(x @ x.T + torch.eye(4, device=x.device)), []),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), []),
    "pad": (lambda x: (F.pad(x[None], (1, 1), mode="reflect"), x.roll(2, 1), x.rot90()), []),
    "odd numbers": (lambda x: (torch.nan_to_num(x / (x - x)), x.remainder(0.3), x / 0), []),
    "bucket": (lambda x: torch.bucketize(x, x[0].sort().values), []),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function(name):
    function, given = PROGRAMS[name]
    x = torch.arange(1.0, 25).reshape(4, 6).sin()
    torch.compiler.reset()
    run = torch.compile(function, backend="clprim")
    for args in [(value,) for value in given] or [()]:
        other = x.to("opencl") if function is drawn else x
        found, expected = (
            [y.cpu() for y in torch.utils._pytree.tree_leaves(f(x, *args))]
            for f, x in ((run, x.to("opencl")), (function, other))
        )
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


TRAINED = {
    "momentum": (lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True), {}),
    "adam": (lambda p: optim.Adam(p, 0.01), {}),
    "a tensor's rate": (lambda p: optim.AdamW(p, torch.tensor(0.01)), {"halved": True}),
    "a number's rate": (lambda p: optim.AdamW(p, 0.01), {"halved": True}),
    "rmsprop, hooks": (lambda p: optim.RMSprop(p, 0.01), {"hooked": True}),
    "autocast": (lambda p: optim.SGD(p, 0.1), {"mixed": True}),
    "clipped": (lambda p: optim.Adagrad(p, 0.1), {"clipped": True}),
    "adadelta": (optim.Adadelta, {}),
    "nadam": (optim.NAdam, {}),
    "rprop": (optim.Rprop, {}),
    "adamax": (lambda p: optim.Adamax(p, 0.1), {"halved": True}),
    "radam": (lambda p: optim.RAdam(p, 0.1), {"clipped": True, "hooked": True}),
}


def trained(where, wrap, make, halved=False, hooked=False, mixed=False, clipped=False):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(where)
    if hooked:
        net.register_forward_hook(lambda m, given, y: y * 1.5)
        net[0].weight.register_hook(lambda grad: grad * 2)
    run, optimizer, losses = wrap(net), make(net.parameters()), []
    update = wrap(optimizer.step)
    rate = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for i in range(3):
        x = (torch.arange(1.0, 25).reshape(4, 6).sin() + i / 10).to(where)
        with torch.autocast(where, dtype=torch.bfloat16, enabled=mixed):
            y = run(x)
        losses.append(y.float().square().mean())
        optimizer.zero_grad()
        losses[-1].backward()
        if clipped:
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        update()
        if halved:
            rate.step()
    return [x.detach().cpu() for x in (*losses, *net.parameters())]


@pytest.mark.parametrize("name", TRAINED)
def test_training(name):
    make, options = TRAINED[name]
    torch.compiler.reset()
    found = trained("opencl", torch.compile(backend="clprim"), make, **options)
    near = 3e-2 if "mixed" in options else 2e-4
    expected = trained("cpu", lambda f: f, make, **options)
    torch.testing.assert_close(found, expected, rtol=near, atol=near)
