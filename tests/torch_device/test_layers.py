"""Layers whose operators PyTorch's samples leave out: as on the CPU, with nothing run there."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised", "strict")


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def tensors(found):
    return [found] if isinstance(found, torch.Tensor) else [t for f in found for t in tensors(f)]


def check(model, *inputs):
    """Compares outputs and all gradients with the CPU's in float64."""
    ours, twin = copy.deepcopy(model).to("opencl"), copy.deepcopy(model).double()
    given = [x.to("opencl").requires_grad_(x.is_floating_point()) for x in inputs]
    exact = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    found, expected = tensors(ours(*given)), tensors(twin(*exact))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu().double(), b.double(), rtol=2e-5, atol=1e-5)
    slopes = [torch.randn(t.shape) for t in expected]
    for outputs in (found, expected):
        pairs = [(t, s.to(t)) for t, s in zip(outputs, slopes, strict=True) if t.requires_grad]
        torch.autograd.backward(*map(list, zip(*pairs, strict=True)))
    pairs = [*zip(given, exact, strict=True)]
    pairs += zip(ours.parameters(), twin.parameters(), strict=True)
    for a, b in pairs:
        if b.requires_grad:
            torch.testing.assert_close(a.grad.cpu().double(), b.grad, rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(4)


@pytest.mark.parametrize("options", [{"proj_size": 3, "bidirectional": True}, {"num_layers": 2}])
def test_lstm(options):
    check(nn.LSTM(5, 6, **options), torch.randn(4, 2, 5))


@pytest.mark.parametrize("shape", [(1, 8), (1, 1, 8), (1, 3, 4, 4)], ids=str)
def test_layer_norms_of_one_row(shape):
    check(nn.LayerNorm(shape[-1:] if len(shape) < 4 else shape[1:]), torch.randn(shape))


def test_packed_sequences():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.GRU(5, 4, bidirectional=True, batch_first=True)

        def forward(self, x):
            rnn = nn.utils.rnn
            packed = rnn.pack_padded_sequence(x, [2, 4, 3], True, enforce_sorted=False)
            found, state = self.net(packed)
            return rnn.pad_packed_sequence(found)[0], state

    check(Packed(), torch.randn(3, 4, 5))


@pytest.mark.parametrize("make", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(make):
    """Two steps, the first without a state, of parameters that are trained; one sequence alone."""
    cell = make(3, 4)

    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = cell

        def forward(self, x):
            return self.cell(x[1], self.cell(x[0]))

    check(Steps(), torch.randn(2, 5, 3))
    check(Steps(), torch.randn(2, 3))


def test_bilinear():
    check(nn.Bilinear(3, 4, 5), torch.randn(7, 3), torch.randn(7, 4))


@pytest.mark.parametrize("ndim", [2, 3])
def test_fractional_pools(ndim):
    samples = torch.rand(2, 3, ndim)
    pool = getattr(F, f"fractional_max_pool{ndim}d")

    def run(x):
        given = samples.to(x.device, x.dtype)
        return pool(x, 2, (4, 5, 3)[:ndim], return_indices=True, _random_samples=given)

    check(Call(run), torch.randn(2, 3, *(9, 11, 7)[:ndim]))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("how", [{"size": (5, 20)}, {"scale_factor": (0.4, 1.7)}])
def test_antialiased_images(mode, how):
    check(
        Call(lambda x: F.interpolate(x, mode=mode, antialias=True, **how)),
        torch.randn(2, 3, 17, 11),
    )


def test_a_size_beside_scales_takes_the_first_pixels():
    call = torch.ops.aten._upsample_bilinear2d_aa.default
    check(Call(lambda x: call(x, [3, 4], False, 1.7, 0.6)), torch.randn(1, 2, 6, 9))
    with pytest.raises(RuntimeError, match="a size of at most"):
        call(torch.randn(1, 2, 6, 9).to("opencl"), [30, 4], False, 1.7, 0.6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    "options", [{}, {"padding_idx": 2}, {"include_last_offset": True}], ids=str
)
def test_bags(mode, options):
    table = nn.EmbeddingBag(9, 4, mode=mode, **options)
    offsets = torch.tensor([0, 3, 3, 7, 8][: 5 if "include_last_offset" in options else 4])
    check(table, torch.tensor([1, 2, 2, 4, 5, 8, 2, 0]), offsets)


def test_weighted_bags():
    table = nn.EmbeddingBag(9, 4, mode="sum", padding_idx=1)
    check(Call(lambda i, w: F.embedding_bag(i, table.weight.to(w), per_sample_weights=w, mode="sum",
          padding_idx=1)), torch.tensor([[1, 2, 2], [4, 5, 8]]), torch.randn(2, 3))  # fmt: skip


def test_gradients_of_bags_by_frequency():
    # PyTorch's CPU divides by the frequency of another row; its embedding does not.
    numbers, offsets = torch.tensor([1, 2, 2, 4, 5, 8, 2, 2]), torch.tensor([0, 3, 3, 7])
    weight, slope = torch.randn(9, 4).requires_grad_(), torch.randn(4, 4)
    rows = F.embedding(numbers, weight, scale_grad_by_freq=True)
    bag = torch.tensor([0, 0, 0, 2, 2, 2, 2, 3])
    torch.zeros(4, 4).index_add(0, bag, rows).backward(slope)
    ours = weight.detach().to("opencl").requires_grad_()
    given = (numbers.to("opencl"), ours, offsets.to("opencl"))
    F.embedding_bag(*given, mode="sum", scale_grad_by_freq=True).backward(slope.to("opencl"))
    torch.testing.assert_close(ours.grad.cpu(), weight.grad, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="no sparse gradients"):
        F.embedding_bag(*given, mode="sum", sparse=True).sum().backward()


def test_ctc_loss():
    targets, ends = torch.randint(1, 5, (3, 4)), (4, 2, 3)

    def run(x, labels):
        logs = x.log_softmax(2)
        how = {"reduction": "none", "zero_infinity": True}
        # The second and the third have no path in three steps.
        return F.ctc_loss(logs, labels, (9, 8, 7), ends, **how), F.ctc_loss(
            logs[:3], labels, torch.tensor([3, 1, 2]).to(x.device), torch.tensor(ends), **how
        )

    check(Call(run), torch.randn(9, 3, 5), targets)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
def test_segments(name):
    x = torch.randn(7, 3)
    x[1] = x[0]  # equal ones share the gradient
    for initial in (None, 0.5):

        def run(x, lengths, initial=initial):
            return torch.segment_reduce(x, name, lengths=lengths, initial=initial)

        given = torch.tensor([2, 4, 1])
        found = run(x.to("opencl"), given.to("opencl"))
        torch.testing.assert_close(found.cpu(), run(x, given))
    ours, twin = (t.requires_grad_() for t in (x.to("opencl"), x.clone()))
    for t in (ours, twin):  # the CPU shares positive gradients alone
        found = torch.segment_reduce(t, name, lengths=given.to(t.device), initial=1.0)
        found.backward(torch.rand(3, 3, generator=torch.Generator().manual_seed(1)).to(t.device))
    torch.testing.assert_close(ours.grad.cpu(), twin.grad, rtol=1e-4, atol=1e-5)


def test_segments_that_do_not_fit_are_refused():
    x = torch.randn(7, 3).to("opencl")
    for lengths, words in (([2, 4], "add up to 7"), ([9, -2], "negative")):
        with pytest.raises(RuntimeError, match=words):
            torch.segment_reduce(x, "sum", lengths=torch.tensor(lengths).to("opencl"))


def test_rrelu():
    x = torch.randn(40, 30)
    ours = x.to("opencl").requires_grad_()
    found = F.rrelu(ours, 0.2, 0.4, training=True)
    found.backward(torch.ones(40, 30).to("opencl"))
    slope = torch.where(x > 0, 1.0, found.detach().cpu() / x)
    assert slope[x < 0].min() >= 0.2 - 1e-6
    assert slope[x < 0].max() <= 0.4 + 1e-6
    assert slope[x < 0].unique().numel() > 100
    torch.testing.assert_close(ours.grad.cpu(), slope, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(F.rrelu(ours).cpu(), F.rrelu(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "ends"),
    [
        ((24, 5), (4, 5, 3), [4, 4, 20, 24]),
        ((4, 6, 5), (5, 32), [4, 4, 20, 32]),
        ((6, 24), (24, 3), [4, 12, 12, 24]),
        ((4, 6, 5), (4, 5, 3), None),
    ],
)
def test_products_of_groups(a, b, ends):
    x, y = (torch.arange(float(torch.Size(s).numel())).reshape(s).cos() for s in (a, b))
    found = F.grouped_mm(
        x.to("opencl"),
        y.to("opencl"),
        offs=None if ends is None else torch.tensor(ends, dtype=torch.int32, device="opencl"),
    )
    if ends is None:
        expected = x @ y
    else:
        parts = list(zip([0, *ends], ends, strict=False))
        if len(a) == 2 and len(b) == 3:
            expected = torch.cat([x[s:e] @ y[n] for n, (s, e) in enumerate(parts)])
        elif len(b) == 2 and len(a) == 3:
            expected = torch.cat([x[n] @ y[:, s:e] for n, (s, e) in enumerate(parts)], 1)
        else:
            expected = torch.stack([x[:, s:e] @ y[s:e] for s, e in parts])
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "ends", "message"),
    [
        ((24, 5), (4, 5, 3), [4, 24], "one for each group"),
        ((24, 5), (4, 5, 3), [4, 8, 12, 16, 24], "one for each group"),
        ((24, 5), (4, 5, 3), [4, 8, 12, 99], "rise from 0 to 24"),
        ((24, 5), (4, 5, 3), [8, 4, 12, 24], "rise from 0 to 24"),
        ((24, 5), (4, 5, 3), [-4, 4, 12, 24], "rise from 0 to 24"),
        ((4, 6, 5), (5, 32), [4, 8, 12, 33], "rise from 0 to 32"),
        ((6, 24), (24, 3), [4, 25], "rise from 0 to 24"),
        ((5,), (4, 5, 3), [1, 1, 1, 1], "2 or 3 dimensions"),
        ((24, 5), (4, 5, 3), [[4, 8, 12, 24]], "one for each group"),
        ((24, 5), (4, 5, 3), [4.0, 8.0, 12.0, 24.0], "expected int32"),
    ],
)
def test_products_of_groups_that_do_not_fit_are_refused(a, b, ends, message):
    kind = torch.float32 if isinstance(ends[0], float) else torch.int32
    offs = torch.tensor(ends, dtype=kind, device="opencl")
    with pytest.raises(RuntimeError, match=message):
        F.grouped_mm(torch.ones(a, device="opencl"), torch.ones(b, device="opencl"), offs=offs)
