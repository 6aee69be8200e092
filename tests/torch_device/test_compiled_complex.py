"""`torch.compile` of complex numbers: what runs eagerly runs compiled, in few kernels."""

import copy

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("compiles", "unoptimised")


def numbers(*shape, dtype=torch.complex64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype)


def rotary(x, angles):
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * angles[:, None]).flatten(-2)


def spectral(x, weight):
    found = torch.fft.rfft2(x)
    kept = torch.einsum("bixy,ioxy->boxy", found[:, :, :4, :4], weight)
    whole = torch.zeros(x.shape[0], weight.shape[1], *found.shape[-2:], dtype=found.dtype).to(
        x.device
    )
    whole[:, :, :4, :4] = kept
    return torch.fft.irfft2(whole, s=x.shape[-2:])


Z, W = numbers(8, 16), numbers(8, 16, seed=1)
ANGLES = torch.polar(torch.ones(16, 16), torch.outer(torch.arange(16.0), torch.rand(16)))
WINDOW = torch.hann_window(64)
FUNCTIONS = {
    "chain": (lambda z, w: (z * w.conj() + 1j * z).exp() / (w + 2), Z, W),
    "abs": (lambda z, w: (z * w).abs(), Z, W),
    "conjugates": (lambda z, w: (z * w).conj(), Z, W),
    "imaginary parts": (lambda z, w: (z * w).conj().imag + z.real, Z, W),
    "products": (lambda z, w: z @ w.mH, Z, W),
    "rotary": (rotary, numbers(2, 16, 4, 32, dtype=torch.float32), ANGLES),
    "spectral": (spectral, numbers(2, 3, 16, 16, dtype=torch.float32), numbers(3, 5, 4, 4)),
    "frames": (lambda x, w: torch.istft(torch.stft(x, 64, window=w, return_complex=True), 64,
                                        window=w), numbers(2, 400, dtype=torch.float32), WINDOW),
}  # fmt: skip


def outcome(function, given):
    leaves = [t.to("opencl").requires_grad_() for t in given]
    result = function(*leaves)
    weights = torch.arange(result.numel(), device="opencl").view(result.shape)
    (result * weights).sum().abs().backward()
    return [t.detach().cpu() for t in (result.resolve_conj(), *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_equals_eager(name):
    function, *given = FUNCTIONS[name]
    compiled = torch.compile(function, backend="clprim")
    wanted = outcome(function, given)
    for _ in range(2):
        for a, b in zip(outcome(compiled, given), wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * max(1, float(b.abs().max())))


def launches(function, *given):
    from torch_networks import recordings

    with recordings() as graphs, torch.no_grad():
        torch.compile(function, backend="clprim")(*[t.to("opencl") for t in given])
    return [len(graph.replay.steps) for graph in graphs]


def test_chains_are_one_kernel():
    assert launches(*FUNCTIONS["chain"]) == [1]
    assert launches(*FUNCTIONS["rotary"]) == [1]


def test_what_stands_around_transforms_runs_in_them():
    x, h = numbers(40, 64, dtype=torch.float32), numbers(33)
    assert launches(lambda x, w: torch.fft.rfft(x * w).abs() ** 2, x, WINDOW) == [1]
    filtered = launches(lambda x, h: torch.fft.irfft(torch.fft.rfft(x) * h, n=64), x, h)
    assert filtered == [2]


def test_arguments_and_results_that_are_conjugated_when_they_are_read():
    double = torch.compile(lambda z: (z * 2, z.conj()), backend="clprim")
    for z in (Z.to("opencl"), Z.to("opencl").conj(), Z.to("opencl")):
        for a, b in zip(double(z), (z * 2, z.conj()), strict=True):
            assert torch.equal(a.cpu().resolve_conj(), b.cpu().resolve_conj())


class Spectral(torch.nn.Module):
    """A layer that mixes channels at low frequencies, as of a Fourier neural operator."""

    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        scale = 1 / channels
        self.weight = torch.nn.Parameter(
            scale * torch.randn(channels, channels, modes, modes, dtype=torch.complex64)
        )
        self.beside = torch.nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        m, found = self.modes, torch.fft.rfft2(x)
        kept = torch.einsum("bixy,ioxy->boxy", found[:, :, :m, :m], self.weight)
        sides = (0, found.shape[-1] - m, 0, found.shape[-2] - m)
        whole = torch.fft.irfft2(torch.nn.functional.pad(kept, sides), s=x.shape[-2:])
        return torch.nn.functional.gelu(whole + self.beside(x))


def trained(model, x, y, step=lambda f: f):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss_of():
        return torch.nn.functional.mse_loss(model(x), y)

    run, losses = step(loss_of), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = run()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_fourier_neural_operator_is_trained():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 1), Spectral(6, 3), Spectral(6, 3), torch.nn.Conv2d(6, 1, 1)
    )
    x = torch.randn(2, 1, 12, 12)
    y = torch.roll(x, 2, -1)
    eager, compiled = (copy.deepcopy(model).to("opencl") for _ in range(2))
    there = x.to("opencl"), y.to("opencl")
    wanted = trained(model, x, y)
    assert wanted[-1] < wanted[0]
    assert trained(eager, *there) == pytest.approx(wanted, rel=1e-3)
    found = trained(compiled, *there, step=lambda f: torch.compile(f, backend="clprim"))
    assert found == pytest.approx(wanted, rel=1e-3)


def test_a_function_of_tensors_of_the_cpu_and_a_fused_network():
    from clprim.torch import fuse

    function, *given = FUNCTIONS["spectral"]
    found = torch.compile(function, backend="clprim")(*given)
    torch.testing.assert_close(found, function(*given), rtol=1e-4, atol=1e-4)
    found = torch.compile(lambda z: (z * 2).conj(), backend="clprim")(Z.conj())
    assert torch.equal(found.resolve_conj(), Z * 2)
    layer = Spectral(3, 4).eval()
    x = numbers(2, 3, 16, 16, dtype=torch.float32)
    fused = fuse(copy.deepcopy(layer).to("opencl"))
    with torch.no_grad():
        torch.testing.assert_close(fused(x.to("opencl")).cpu(), layer(x), rtol=1e-4, atol=1e-4)
