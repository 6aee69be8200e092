"""What public reports ask of normalisations, most of them at means far above the deviation."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
import clprim.torch  # noqa: E402

F = torch.nn.functional
EPS = 1e-5


def normalized(x, axes, eps=EPS):
    x = np.asarray(x).astype(np.float64)
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps)


def layer_norm(host):
    """A row's normalisation by `clprim.ops` and on the PyTorch device: they agree."""
    found = ops.layer_norm(cp.asarray(host), host.shape[-1:]).get()
    there = F.layer_norm(torch.from_numpy(host).to("opencl"), host.shape[-1:]).cpu().numpy()
    np.testing.assert_array_equal(there, found)
    return found


def test_layer_norms_of_small_steps_far_from_0(device):
    steps = np.arange(16) * 1e-3
    host = np.stack([mean + steps for mean in (0, 100, 1000, 10000)]).astype(np.float32)
    found = layer_norm(host)
    np.testing.assert_allclose(found[:, 0], [-1.34164, -1.34153, -1.34151, -1.33133], atol=1e-5)
    np.testing.assert_allclose(found, normalized(host, 1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("start", [40000, 80000])
def test_layer_norms_whose_squares_are_large(device, start):
    found = layer_norm(start + np.arange(4, dtype=np.float32)[None])
    expected = [[-1.341635, -0.447212, 0.447212, 1.341635]]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_layer_norms_of_few_elements_have_a_variance_of_1(device):
    host = (np.random.default_rng(0).standard_normal((5, 4)) + 2000).astype(np.float32)
    np.testing.assert_allclose(layer_norm(host).astype(np.float64).var(1), 1, rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16], ids=str)
@pytest.mark.parametrize("mean", [5, -5])
def test_batch_norms_of_small_deviations(device, mean, dtype):
    host = np.random.default_rng(1).normal(mean, 0.1, (2, 16, 32, 32)).astype(np.float32)
    host = host.astype(dtype)
    running = cp.zeros(16, np.float32), cp.zeros(16, np.float32)
    y = ops.batch_norm_train(cp.asarray(host), None, None, *running, momentum=1.0)[0].get()
    exact = host.astype(np.float64).var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(running[1].get(), exact, rtol=1e-4)
    np.testing.assert_allclose(y.astype(np.float64).std((0, 2, 3)), 1, rtol=2e-3)


@pytest.mark.parametrize("mean", [1e4, 5e4])
def test_variances_and_norms_at_means_of_ten_thousand_deviations(device, mean):
    host = np.random.default_rng(2).normal(mean, 0.5754, (2, 4, 6, 5)).astype(np.float32)
    exact, x = host.astype(np.float64), cp.asarray(host)
    np.testing.assert_allclose(ops.var(x, (2, 3)).get(), exact.var((2, 3), ddof=1), rtol=1e-3)
    found = ops.instance_norm(x).get()
    np.testing.assert_allclose(found, normalized(host, (2, 3)), rtol=1e-3, atol=1e-4)
    groups = host.reshape(2, 2, 2, 6, 5)
    expected = normalized(groups, (2, 3, 4)).reshape(host.shape)
    np.testing.assert_allclose(ops.group_norm(x, 2).get(), expected, rtol=1e-3, atol=1e-4)


def test_running_variances_are_unbiased(device):
    host = np.concatenate([np.full((4, 2, 3, 3), n, np.float32) for n in (1, 2, 3, 4)])
    norm = torch.nn.BatchNorm2d(2).to("opencl")
    norm(torch.from_numpy(host).to("opencl"))
    np.testing.assert_allclose(norm.running_var.tolist(), [1.0258741] * 2, rtol=1e-6)
    average = torch.nn.BatchNorm2d(2, momentum=None).to("opencl")
    for _ in range(2):
        average(torch.from_numpy(host).to("opencl"))
    np.testing.assert_allclose(average.running_mean.tolist(), [2.5] * 2, rtol=1e-6)
    np.testing.assert_allclose(
        average.running_var.tolist(), [host[:, 0].astype(np.float64).var(ddof=1)] * 2, rtol=1e-6
    )
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        norm(torch.ones(1, 2, 1, 1, device="opencl"))


def test_gradients_of_batch_norms_accumulate(device):
    x = torch.arange(12.0, device="opencl").reshape(1, 3, 2, 2)
    norm = torch.nn.BatchNorm2d(3).to("opencl")
    for turn in (1, 2, 3):
        norm(x).square().sum().backward()
        np.testing.assert_allclose(norm.weight.grad.tolist(), [7.999936 * turn] * 3, rtol=1e-6)
    one = torch.ones(1, 3, 1, 1, device="opencl")
    norm.eval()
    for _ in range(3):
        norm.zero_grad()
        norm(one).sum().backward()
        assert norm.bias.grad.tolist() == [1, 1, 1]


def test_gradients_of_batch_norms_in_evaluation(device):
    torch.manual_seed(0)
    x, grad = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    norm = torch.nn.BatchNorm2d(3)
    norm(x)
    norm.eval()
    slopes = []
    for where, kind in (("opencl", torch.float32), ("cpu", torch.float64)):
        twin = torch.nn.BatchNorm2d(3).to(where, kind).eval()
        twin.load_state_dict(norm.state_dict())
        given = x.to(where, kind).requires_grad_()
        twin(given).backward(grad.to(where, kind))
        slopes.append([t.grad.cpu().double() for t in (given, twin.weight, twin.bias)])
    for found, expected in zip(*slopes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
