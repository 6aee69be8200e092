"""`torch.compile(model, backend="clprim")`: small networks give what they give uncompiled."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402
from clprim.tune import ask  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("unoptimised", "compiles"),
    pytest.mark.filterwarnings("ignore"),
]
D = "opencl"


def compiled(function, **options):
    return torch.compile(function, backend="clprim", **options)


def close(found, wanted, tolerance=1e-5):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Linear(8, 4)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.hardswish(self.second(x) + x)
        return self.last(F.adaptive_avg_pool2d(x, 1).flatten(1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.up, self.c = nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(16, 2, 1)

    def forward(self, x):
        a = F.silu(self.a(x))
        b = F.silu(self.b(F.max_pool2d(a, 2)))
        return self.c(torch.cat([a, self.up(b)], 1))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.last = nn.Linear(16, 20)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.last(self.layer(self.embed(x), src_mask=mask, is_causal=True))


def images(n):
    return torch.randn(n, 3, 8, 8).to(D).contiguous(memory_format=torch.channels_last)


NETS = {
    "residual": (Residual, images),
    "unet": (UNet, images),
    "words": (Words, lambda n: torch.randint(0, 20, (n, 6)).to(D)),
    "recurrent": (lambda: nn.LSTM(4, 8), lambda n: torch.randn(5, n, 4).to(D)),
    "dense": (
        lambda: nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)),
        lambda n: torch.randn(n, 6).to(D),
    ),
}


def loss_of(result):
    return (result[0] if isinstance(result, tuple) else result).square().mean()


@pytest.mark.parametrize("name", NETS)
def test_networks(name):
    make, data = NETS[name]
    model = make().to(D).to(memory_format=torch.channels_last)
    other = copy.deepcopy(model)
    net = compiled(other)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, other)]
    for n in (2, 2, 3):
        x = data(n)
        for run, optimizer in zip((model, net), optimizers, strict=True):
            optimizer.zero_grad()
            loss_of(run(x)).backward()
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            close(q.grad, p.grad)
            assert q.grad.stride() == p.grad.stride()
        for optimizer in optimizers:
            optimizer.step()
    for p, q in zip(model.buffers(), other.buffers(), strict=True):
        close(q, p)
    model.eval(), other.eval()
    with torch.no_grad():
        for _ in range(2):
            found, wanted = (torch.utils._pytree.tree_leaves(run(x)) for run in (net, model))
            for a, b in zip(found, wanted, strict=True):
                close(a, b)
                assert a.stride() == b.stride()


@pytest.mark.parametrize("name", ["residual", "words"])
def test_networks_on_the_cpu_are_moved(name):
    make, data = NETS[name]
    model = make()
    other = copy.deepcopy(model)
    net = compiled(other)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, other)]
    for _ in range(2):
        x = data(2).cpu()
        with cp.profile() as p:
            for run, optimizer in zip((model, net), optimizers, strict=True):
                optimizer.zero_grad()
                run(x).square().mean().backward()
                optimizer.step()
        assert p.events
    for p, q in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        close(q, p)
    model.eval(), other.eval()
    with torch.inference_mode():
        close(net(x), model(x))


@pytest.mark.parametrize("freeze", [False, True])
def test_what_is_kept_of_parameters_follows_them(freeze):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to(D).eval()
    model.requires_grad_(False)
    net, x = compiled(model, options={"freeze": freeze}), images(2)
    close(net(x), model(x))
    with cp.profile() as p:
        net(x)
    assert len(p.events) == 1
    if freeze:
        return
    model[0].weight.mul_(2)
    close(net(x), model(x))
    model.load_state_dict({name: 2 * value for name, value in model.state_dict().items()})
    close(net(x), model(x))
    model[0].weight.data = 3 * model[0].weight
    close(net(x), model(x))


def test_frozen_parameters_of_the_cpu_are_moved_once():
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)
    model = nn.Sequential(*layers).eval().requires_grad_(False)
    net, x = compiled(model, options={"freeze": True}), images(2).cpu()
    before = net(x)
    for parameter in model.parameters():
        parameter.mul_(2)
    close(net(x), before)
    torch.compiler.reset()
    close(net(x), model(x))


@pytest.mark.parametrize("device", ["cpu", D])
def test_what_is_kept_in_the_inference_mode(device):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    model, x = model.to(device).requires_grad_(False), images(2).to(device)
    with torch.inference_mode():
        net = compiled(model)
        close(net(x), model(x))
        with cp.profile() as p:
            net(x)
    assert [event.name for event in p.events].count("conv2d") == 1
    assert not {"batch_norm_scale", "conv2d_pack"} & {event.name for event in p.events}


def test_dropout_of_attention():
    def run(x):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5).sin()

    net, grads = compiled(run), []
    for each in (run, net):
        torch.manual_seed(0)
        x = torch.ones(1, 2, 6, 4, device=D, requires_grad=True)
        each(x).sum().backward()
        each(x).sum().backward()
        grads.append(x.grad)
    close(grads[1], grads[0])


def test_random_numbers_come_in_the_order_of_eager():
    layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 4)).to(D)

    def noisy(x):
        return F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(4, device=D)

    def again(x):
        return noisy(checkpoint(layers, x, use_reentrant=False))

    net = compiled(again)
    for seed in range(3):
        grads = []
        for run in (again, net):
            torch.manual_seed(seed)
            x = torch.ones(3, 4, device=D, requires_grad=True)
            y = run(x) + run(x)
            y.sum().backward()
            grads.append((y, x.grad))
        close(grads[1], grads[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    model = nn.Linear(4, 8).to(D)
    net, x = compiled(model), torch.randn(3, 4).to(D)
    scaler = torch.amp.GradScaler(D, init_scale=8.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.autocast(D, dtype=dtype):
        found, wanted = net(x), model(x)
    assert found.dtype is wanted.dtype is dtype
    close(found, wanted, 1e-2)
    before = model.weight.clone()
    scaler.scale(found.sum()).backward()
    scaler.step(optimizer)
    assert not torch.equal(before, model.weight)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_steps_of_optimizers(name):
    kwargs = {"momentum": 0.9} if name == "SGD" else {"foreach": True}
    models = [nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).to(D)]
    models.append(copy.deepcopy(models[0]))
    optimizers = [getattr(torch.optim, name)(m.parameters(), 0.1, **kwargs) for m in models]
    step, x = compiled(optimizers[1].step), torch.randn(2, 3).to(D)
    for n in range(4):
        for model in models:
            model(x).square().sum().backward()  # of two batches
        if n % 2:
            optimizers[0].step(), step()
            for optimizer in optimizers:
                optimizer.zero_grad()
    for p, q in zip(*(m.parameters() for m in models), strict=True):
        close(q, p)


def test_hooks_and_breaks():
    model, seen = nn.Linear(3, 3).to(D), []
    model.register_forward_hook(lambda module, given, result: result * 2)
    model.weight.register_hook(lambda grad: seen.append(grad) or grad * 3)

    def run(x):
        y = model(x)
        return y + 1 if y.sum() > 0 else y - 1

    net = compiled(run)
    for sign in (1, -1):
        grads = []
        for each in (run, net):
            model.zero_grad()
            each(torch.full((2, 3), float(sign), device=D)).sum().backward()
            grads.append(model.weight.grad.clone())
        close(grads[1], grads[0])
    assert len(seen) == 4


def test_sizes_that_change():
    def run(x):
        return x * x.shape[0], x.shape[0] + 1, x.view(-1), None

    for dynamic in (None, True):
        torch.compiler.reset()
        net = compiled(run, dynamic=dynamic)
        for n in (2, 3, 5, 2):
            x = torch.randn(n, 2).to(D)
            found, wanted = net(x), run(x)
            close(found[0], wanted[0])
            close(found[2], wanted[2])
            assert found[1::2] == wanted[1::2]


@pytest.mark.parametrize("device", [D, "cpu"])
def test_arguments_that_are_written_to(device):
    def run(x, y):
        x.add_(1)
        y[0].mul_(3)
        return x.t(), x[1:], y, y.view(-1)[:2]

    net = compiled(run)
    given, other = ([torch.ones(3, 2, device=device) for _ in range(2)] for _ in range(2))
    for _ in range(2):
        version = other[0]._version
        wanted, found = run(*given), net(*other)
        close(found, wanted)
        close(other, given)
        assert other[0]._version > version and found[2] is other[1]
        found[1].zero_(), wanted[1].zero_()
        assert not other[0][1:].any()


def test_numbers_that_the_host_reads():
    def run(x, scale):
        rows = torch.nonzero(x > 0)
        there = (x * scale).cpu() + 1
        return rows + 1, there, there.to(D) * x, x * x.sum().item(), x * torch.tensor(2.0)

    names = "capture_dynamic_output_shape_ops", "capture_scalar_outputs"
    with torch._dynamo.config.patch(dict.fromkeys(names, True)):
        net = compiled(run)
        for value in (1.0, 2.0):
            x, scale = torch.randn(5).to(D), torch.tensor(value)
            for a, b in zip(net(x, scale), run(x, scale), strict=True):
                close(a, b)
                assert a.device == b.device


def test_failures_name_the_operator_and_the_line():
    net = compiled(lambda x: torch.linalg.matrix_exp(x @ x))
    with pytest.raises(cp.DeviceError, match=r"linalg_matrix_exp\S*, at .*test_compiled.py:\d+"):
        net(torch.eye(2, device=D))
    for given in (
        {"options": {"other": 1}}, {"options": {"freeze": 1}}, {"mode": "fast"},
        {"options": {"memory_budget": 2}}, {"options": {"memory_budget": True}},
    ):  # fmt: skip
        with pytest.raises(Exception, match=r"DefinitionError: torch\.compile: (options|mode)="):
            compiled(lambda x: x + 1, **given)(torch.ones(2, device=D))


def test_exported_programs(tmp_path):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls.add_(1)
            y = self.layer(x).mean((2, 3))
            return {"y": y + torch.ones(4) * self.calls, "n": torch.arange(y.shape[0])}

    model = Counts().eval()
    sizes = {"x": {0: torch.export.Dim("batch")}}
    program = torch.export.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "net.pt2")
    net = ct.load_exported(tmp_path / "net.pt2")
    model.calls.zero_()
    for n in (2, 3):
        x = torch.randn(n, 3, 8, 8)
        with torch.no_grad():
            close(net(x), model(x))
    assert net(x.to(D))["y"].device.type == D
    with pytest.raises(cp.DefinitionError, match="expected a file"):
        ct.load_exported(tmp_path / "nothing")


@pytest.mark.parametrize("told", [{"options": {"tune": True}}, {"mode": "max-autotune"}, {}])
def test_tuning_is_asked_for_where_a_graph_is_planned(device, told, monkeypatch):
    asked = []
    monkeypatch.setattr(ask, "_time", lambda *given: asked.append(given))
    torch.compiler.reset()
    model = torch.nn.Linear(40, 32)
    compiled = torch.compile(model, backend="clprim", **told)
    x = torch.randn(48, 40)
    with torch.no_grad():
        close(compiled(x), model(x))
    assert bool(asked) == bool(told)
    assert not cp.options.current().tune


def test_what_is_no_network_is_refused(device):
    with pytest.raises(cp.DefinitionError, match="expected a network, got 3"):
        ct.fuse(3)
