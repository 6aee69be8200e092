"""Tensors without elements: detectors without detections, the last batch of nothing."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import clprim.torch  # noqa: E402, F401
from clprim import ShapeError  # noqa: E402

D = "opencl"
F = torch.nn.functional
pytestmark = [
    pytest.mark.alone,
    pytest.mark.usefixtures("unoptimised"),
    pytest.mark.filterwarnings("ignore:.*degrees of freedom"),
]


def none(*shape, device, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device=device)


def places(*shape, device):
    return none(*shape, device=device, dtype=torch.int64)


def leaf(*shape, device):
    return torch.ones(shape, device=device, requires_grad=True)


# Of a device: what is differentiated, and the result.
READ = {
    "index": lambda x, d: x[places(0, device=d)],
    "mask of rows": lambda x, d: x[none(0, device=d, dtype=torch.bool)],
    "mask of elements": lambda x, d: x[none(0, 4, device=d, dtype=torch.bool)],
    "index_select": lambda x, d: x.index_select(0, places(0, device=d)),
    "gather": lambda x, d: x.gather(0, places(0, 4, device=d)),
    "gather of another shape": lambda x, d: x.gather(1, places(2, 0, 3, device=d)),
    "take_along_dim": lambda x, d: torch.take_along_dim(x, places(0, 4, device=d), 0),
    "take": lambda x, d: x.take(places(3, 0, device=d)),
    "embedding": lambda x, d: F.embedding(places(0, 2, device=d), x),
    "embedding_bag": lambda x, d: F.embedding_bag(places(0, 3, device=d), x),
    "index_put": lambda x, d: x.index_put((places(0, device=d),), none(0, 4, device=d)),
    "cross_entropy": lambda x, d: F.cross_entropy(x, places(0, device=d), reduction="sum"),
    "topk": lambda x, d: x.topk(2, 1)[0],
    "cdist": lambda x, d: torch.cdist(x, torch.ones(3, 4, device=d)),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_of_nothing_is_nothing(name):
    def run(device):
        x = leaf(0, 4, device=device)
        y = READ[name](x, device)
        y.sum().backward()
        return y.detach().cpu(), x.grad.cpu()

    torch.testing.assert_close(run(D), run("cpu"))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_an_index_without_elements_may_have_any_shape(shape):
    def run(device):
        x = leaf(5, device=device)
        y = x.gather(0, places(*shape, device=device))
        y.sum().backward()
        z = torch.zeros(5, device=device)
        z = z.scatter_add(0, places(*shape, device=device), none(*shape, device=device))
        return y.detach().cpu(), x.grad.cpu(), z.cpu()

    torch.testing.assert_close(run(D), run("cpu"))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
def test_images_of_no_batch_are_resized(mode):
    x = leaf(0, 3, 4, 4, device=D)
    y = F.interpolate(x, scale_factor=2, mode=mode)
    y.sum().backward()
    assert y.shape == (0, 3, 8, 8)
    assert x.grad.shape == x.shape


def test_sums_and_medians_of_nothing():
    for kind in (torch.float32, torch.int64, torch.uint8):
        for name in ("median", "nanmedian"):
            found, expected = (getattr(none(0, device=d, dtype=kind), name)() for d in (D, "cpu"))
            torch.testing.assert_close(found.cpu(), expected, equal_nan=True)
    arguments = [(5, 0), (5, 5, 5), (5, 5, 0)], [(5, 2), (0, 5, 5), (0, 5, 2)]
    for shapes in arguments:
        found, expected = (
            torch.addbmm(*[torch.ones(s, device=d) for s in shapes]) for d in (D, "cpu")
        )
        torch.testing.assert_close(found.cpu(), expected)


def test_reading_something_of_nothing_is_refused():
    x, one = none(0, 4, device=D), torch.zeros(1, dtype=torch.int64, device=D)
    for call in (lambda: x[one], lambda: x.index_select(0, one), lambda: F.embedding(one, x)):
        with pytest.raises(ShapeError, match=r"no elements|at least one row"):
            call()


# PyTorch's own samples with nothing along their first or last dimension.
NAMES = """
add argmax cat clamp cumsum flip index_add index_fill masked_fill masked_scatter matmul mean
nn.functional.avg_pool2d nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.gelu
nn.functional.grid_sample nn.functional.layer_norm nn.functional.linear
nn.functional.max_pool2d nn.functional.mse_loss nn.functional.scaled_dot_product_attention
nonzero roll scatter_reduce.mean softmax sort stack std sum where
""".split()


def _without(arguments, last):
    """The arguments with nothing along the first tensor's first or last dimension."""
    from torch.utils._pytree import tree_map
    from torch_conformance import tensors

    given = next((t for t in tensors(arguments) if t.ndim), None)
    if given is None:
        return None

    def cut(value):
        if not isinstance(value, torch.Tensor) or not value.ndim:
            return value
        d = value.ndim - 1 if last else 0
        if value.shape[d] != given.shape[-1 if last else 0]:
            return value
        return value.detach().narrow(d, 0, 0).clone().requires_grad_(value.requires_grad)

    return tree_map(cut, arguments)


@pytest.mark.parametrize("name", NAMES)
def test_samples_without_elements_agree(name, operators):
    from torch_conformance import gradients, leaves, tensors

    op, compared = operators[name], 0
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
    for _, sample in zip(range(9), samples, strict=False):
        for last in (False, True):
            given = _without((sample.input, tuple(sample.args), dict(sample.kwargs)), last)
            if given is None:
                continue

            def run(device, given=given):
                x = leaves(given, device)
                y = op(x[0], *x[1], **x[2])
                slopes = gradients(op, y, x, 1, torch.float32)
                return [t.detach().cpu() for t in (*tensors(y), *slopes)]

            try:
                expected = run("cpu")
            except (RuntimeError, IndexError, ValueError):
                continue  # what the CPU refuses
            torch.testing.assert_close(run(D), expected, equal_nan=True)
            compared += 1
    assert compared
