"""Batch normalisation by parts of a batch is that of the whole batch, whatever the parts are."""

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("unoptimised", "strict")
D, EPS, MOMENTUM = "opencl", 1e-3, 0.25
# What storing a result, the input's size times, costs.
ROUNDING = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def whole(xs, grads, weight, bias, mean, var):
    """The results, and the gradients, of all parts at once in float64."""
    x, w, b = (t.double().requires_grad_() for t in (torch.cat(xs), weight, bias))
    mean, var = mean.double(), var.double()
    y = torch.nn.functional.batch_norm(x, mean, var, w, b, True, MOMENTUM, EPS)
    y.backward(torch.cat(grads).double())
    return y.detach(), x.grad, w.grad, b.grad, mean, var


def by_parts(xs, grads, weight, bias, mean, var):
    """The same as `torch.nn.SyncBatchNorm` computes it."""
    channels = xs[0].shape[1]
    found = [torch.batch_norm_stats(x, EPS) for x in xs]
    counts = torch.tensor([float(x.numel() // channels) for x in xs]).to(D)
    means, invstds = (torch.stack(each) for each in zip(*found, strict=True))
    center, invstd = torch.batch_norm_gather_stats_with_counts(
        xs[0], means, invstds, mean, var, MOMENTUM, EPS, counts
    )
    ys = [torch.batch_norm_elemt(x, weight, bias, center, invstd, EPS) for x in xs]
    sums = [
        torch.batch_norm_backward_reduce(g, x, center, invstd, weight, True, True, True)
        for g, x in zip(grads, xs, strict=True)
    ]
    of_grad, of_products, dweight, dbias = (sum(each) for each in zip(*sums, strict=True))
    dxs = [
        torch.batch_norm_backward_elemt(
            g, x, center, invstd, weight, of_grad, of_products, counts.int().reshape(-1, 1)
        )
        for g, x in zip(grads, xs, strict=True)
    ]
    for given, made in zip([*xs, *xs], [*ys, *dxs], strict=True):
        assert (made.dtype, made.stride()) == (given.dtype, given.stride())
    return torch.cat(ys), torch.cat(dxs), dweight, dbias, mean, var


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "kind, mean", [*((kind, 0.0) for kind in ROUNDING), (torch.float32, 100.0)]
)
def test_uneven_parts_are_normalised_as_the_whole_batch(device, kind, memory_format, mean):
    torch.manual_seed(0)
    xs = [(torch.randn(n, 3, 2, 3) + mean).to(kind) for n in (1, 4, 2)]
    grads = [torch.randn(x.shape).to(kind) for x in xs]
    rest = [torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3) + 1]
    expected = whole(xs, grads, *rest)
    on_device = [
        [t.to(D).to(memory_format=memory_format) for t in tensors] for tensors in (xs, grads)
    ]
    found = by_parts(*on_device, *(t.to(D) for t in rest))
    names = ("y", "dx", "dweight", "dbias", "running mean", "running variance")
    for name, ours, exact in zip(names, found, expected, strict=True):
        rounding = ROUNDING[kind] if name in ("y", "dx") else 4e-6
        bound = rounding * (1 + mean / 4) * (1 + exact.abs().max())
        assert (ours.cpu().double() - exact).abs().max() < bound, name
