"""Gradients of operators inside traces, one by one, against PyTorch's in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.attention import scaled_dot_product

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("device")

LABELS = np.array([0, 2, 1, 2])
BOOLS = np.random.default_rng(9).integers(0, 2, (4, 6)) > 0
INDEX = np.array([[3, 0, 0, 1, 2, 2], [1, 1, 3, 0, 2, 0]])


# What operators are called with: shapes, and a function of the module, of what makes an array of
# numbers, and of arrays.
CASES = {
    "softmax": (((4, 6),), lambda f, c, x: f.softmax(x, 1)),
    "log_softmax": (((4, 6),), lambda f, c, x: f.log_softmax(x, 0)),
    "softmin": (((4, 6),), lambda f, c, x: f.softmin(x, 1)),
    "normalize": (((4, 6),), lambda f, c, x: f.normalize(x, 2.0, 1)),
    "local_response_norm": (((2, 6, 3, 3),), lambda f, c, x: f.local_response_norm(x, 3)),
    "layer_norm": (((4, 6), (6,), (6,)), lambda f, c, x, w, b: f.layer_norm(x, (6,), w, b)),
    "group_norm": (((2, 6, 5), (6,), (6,)), lambda f, c, x, w, b: f.group_norm(x, 3, w, b)),
    "rms_norm": (((4, 6), (6,)), lambda f, c, x, w: f.rms_norm(x, (6,), w)),
    "avg_pool2d": (((2, 3, 6, 6),), lambda f, c, x: f.avg_pool2d(x, 3, 2, 1)),
    "adaptive_avg_pool2d": (((2, 3, 6, 5),), lambda f, c, x: f.adaptive_avg_pool2d(x, 2)),
    "max_pool1d": (((2, 3, 9),), lambda f, c, x: f.max_pool1d(x, 3, 2)),
    "max_pool3d": (((1, 2, 4, 4, 4),), lambda f, c, x: f.max_pool3d(x, 2)),
    "adaptive_max_pool2d": (((2, 3, 6, 5),), lambda f, c, x: f.adaptive_max_pool2d(x, 2)),
    "lp_pool2d": (((2, 3, 6, 6),), lambda f, c, x: f.lp_pool2d(x * x, 2.0, 2)),
    "cross_entropy": (
        ((4, 6),),
        lambda f, c, x: f.cross_entropy(x, c(LABELS), label_smoothing=0.1),
    ),
    "cross_entropy of probabilities": (
        ((4, 6), (4, 6)),
        lambda f, c, x, t: f.cross_entropy(x, t),
    ),
    "nll_loss": (((4, 6),), lambda f, c, x: f.nll_loss(x, c(LABELS))),
    "binary_cross_entropy_with_logits": (
        ((4, 6), (4, 6)),
        lambda f, c, x, t: f.binary_cross_entropy_with_logits(x, t),
    ),
    "mse_loss": (((4, 6), (4, 6)), lambda f, c, x, t: f.mse_loss(x, t)),
    "huber_loss": (((4, 6),), lambda f, c, x: f.huber_loss(x, c(np.ones((4, 6))), delta=0.5)),
    "kl_div": (((4, 6),), lambda f, c, x: f.kl_div(x, c(np.ones((4, 6)) / 6), reduction="sum")),
    "gaussian_nll_loss": (
        ((4, 6), (4, 6)),
        lambda f, c, x, v: f.gaussian_nll_loss(x, c(np.ones((4, 6))), v * v + 1),
    ),
    "cosine_similarity": (((4, 6), (4, 6)), lambda f, c, x, y: f.cosine_similarity(x, y, 1)),
    "pairwise_distance": (((4, 6), (4, 6)), lambda f, c, x, y: f.pairwise_distance(x, y)),
    "triplet_margin_loss": (
        ((4, 6), (4, 6), (4, 6)),
        lambda f, c, x, y, z: f.triplet_margin_loss(x, y, z, margin=3.0),
    ),
    "pad": (((2, 3, 5),), lambda f, c, x: f.pad(x, (1, 2), "reflect")),
    "pad with a number": (((2, 3, 5),), lambda f, c, x: f.pad(x, (1, -1, 0, 2))),
    "unfold": (((2, 3, 5, 4),), lambda f, c, x: f.unfold(x, 2)),
    "fold": (((2, 12, 6),), lambda f, c, x: f.fold(x, (3, 4), 2)),
    "glu": (((4, 6),), lambda f, c, x: f.glu(x, 1)),
    "interpolate": (((2, 3, 4, 5),), lambda f, c, x: f.interpolate(x, (7, 8), mode="bilinear")),
    "grid_sample": (
        ((2, 3, 4, 5), (2, 3, 3, 2)),
        lambda f, c, x, g: f.grid_sample(x, f.tanh(g), align_corners=False),
    ),
    "pixel_shuffle": (((2, 8, 3, 3),), lambda f, c, x: f.pixel_shuffle(x, 2)),
    "pixel_unshuffle": (((2, 2, 4, 6),), lambda f, c, x: f.pixel_unshuffle(x, 2)),
    "bilinear": (
        ((4, 3), (4, 5), (2, 3, 5), (2,)),
        lambda f, c, x, y, w, b: f.bilinear(x, y, w, b),
    ),
    "conv1d": (
        ((2, 4, 9), (6, 2, 3), (6,)),
        lambda f, c, x, w, b: f.conv1d(x, w, b, stride=2, padding=1, groups=2),
    ),
    "conv2d of an image": (
        ((3, 5, 6), (4, 3, 3, 2)),
        lambda f, c, x, w: f.conv2d(x, w, dilation=2),
    ),
    "conv2d depthwise": (
        ((2, 4, 6, 6), (4, 1, 3, 3)),
        lambda f, c, x, w: f.conv2d(x, w, padding="same", groups=4),
    ),
    "conv3d": (
        ((1, 2, 4, 5, 5), (3, 2, 2, 3, 3), (3,)),
        lambda f, c, x, w, b: f.conv3d(x, w, b, padding=1),
    ),
    "conv_transpose1d": (
        ((2, 3, 5), (3, 4, 3), (4,)),
        lambda f, c, x, w, b: f.conv_transpose1d(x, w, b, stride=2),
    ),
    "conv_transpose2d": (
        ((2, 4, 4, 5), (4, 3, 3, 3), (6,)),
        lambda f, c, x, w, b: f.conv_transpose2d(x, w, b, 2, 1, 1, 2),
    ),
    "conv_transpose3d": (
        ((1, 2, 3, 3, 3), (2, 3, 2, 2, 2), (3,)),
        lambda f, c, x, w, b: f.conv_transpose3d(x, w, b, stride=2),
    ),
    "conv_transpose1d whose output is padded by more than a stride": (
        ((2, 3, 5), (3, 4, 3), (4,)),
        lambda f, c, x, w, b: f.conv_transpose1d(x, w, b, 2, 1, 3, dilation=4),
    ),
    "conv_transpose2d whose output is padded by more than a stride": (
        ((2, 4, 4, 5), (4, 3, 3, 3), (6,)),
        lambda f, c, x, w, b: f.conv_transpose2d(x, w, b, (1, 2), 2, (1, 2), 2, 3),
    ),
    "conv_transpose3d whose output is padded by a stride": (
        ((2, 3, 3, 3), (2, 3, 2, 2, 2), (3,)),
        lambda f, c, x, w, b: f.conv_transpose3d(x, w, b, 1, 1, 1, dilation=2),
    ),
    "matmul": (((4, 6), (6, 5)), lambda f, c, x, y: f.matmul(x, y)),
    "matmul of batches": (((2, 1, 4, 6), (3, 6, 5)), lambda f, c, x, y: f.matmul(x, y)),
    "matmul of many by one": (((2, 3, 4, 6), (6, 5)), lambda f, c, x, y: f.matmul(x, y)),
    "matmul of lines": (((6,), (6,)), lambda f, c, x, y: f.matmul(x, y)),
    "matmul of a row": (((6,), (2, 6, 5)), lambda f, c, x, y: f.matmul(x, y)),
    "matmul of a column": (((2, 5, 6), (6,)), lambda f, c, x, y: f.matmul(x, y)),
    "einsum": (((2, 4, 6), (2, 5, 6)), lambda f, c, x, y: f.einsum("bik,bjk->ij", x, y)),
    "baddbmm": (
        ((2, 3, 4), (2, 3, 5), (2, 5, 4)),
        lambda f, c, x, y, z: f.baddbmm(x, y, z, beta=0.5, alpha=2.0),
    ),
    "gather": (((4, 6),), lambda f, c, x: f.gather(x, 0, c(INDEX))),
    "index_select": (((4, 6),), lambda f, c, x: f.index_select(x, 1, c(INDEX[1]))),
    "scatter": (((4, 6), (2, 6)), lambda f, c, x, y: f.scatter(x, 0, c(INDEX % 2 + [[0], [2]]), y)),
    "scatter_add": (((4, 6), (2, 6)), lambda f, c, x, y: f.scatter_add(x, 0, c(INDEX), y)),
    "index_add": (
        ((4, 6), (4, 6)),
        lambda f, c, x, y: f.index_add(x, 1, c(INDEX[1]), y, alpha=2.0),
    ),
    "index_copy": (
        ((4, 6), (4, 2)),
        lambda f, c, x, y: f.index_copy(x, 1, c(INDEX[1][2:4]), y),
    ),
    "masked_fill": (((4, 6),), lambda f, c, x: f.masked_fill(x, c(BOOLS), 2.0)),
    "where": (((4, 6), (6,)), lambda f, c, x, y: f.where(c(BOOLS), x, y)),
    "sort": (((4, 6),), lambda f, c, x: f.sort(x, 0)[0]),
    "topk": (((4, 6),), lambda f, c, x: f.topk(x, 3, 1)[0]),
    "kthvalue": (((4, 6),), lambda f, c, x: f.kthvalue(x, 2, 1)[0]),
    "median": (((4, 6),), lambda f, c, x: f.median(x, 0, keepdim=True)[0]),
    "cumsum": (((4, 6),), lambda f, c, x: f.cumsum(x, 1)),
    "cumprod": (((4, 6),), lambda f, c, x: f.cumprod(x, 1)),
    "cummax": (((4, 6),), lambda f, c, x: f.cummax(x, 1)[0]),
    "logcumsumexp": (((4, 6),), lambda f, c, x: f.logcumsumexp(x, 1)),
    "flip": (((4, 6),), lambda f, c, x: f.flip(x, (1,))),
    "roll": (((4, 6),), lambda f, c, x: f.roll(x, (1, -2), (0, 1))),
    "tril": (((4, 6),), lambda f, c, x: f.tril(x, 1)),
    "diag_embed": (((4, 6),), lambda f, c, x: f.diag_embed(x)),
    "stack": (((4, 6), (4, 6)), lambda f, c, x, y: f.stack([x, y], 1)),
    "kron": (((2, 3), (3, 2)), lambda f, c, x, y: f.kron(x, y)),
    "var_mean": (((4, 6),), lambda f, c, x: f.var_mean(x, 1)[0] * f.var_mean(x, 1)[1]),
    "prod": (((4, 6),), lambda f, c, x: f.prod(x, 1)),
    "amax": (((4, 6),), lambda f, c, x: f.amax(x, 1)),
    "clamp": (((4, 6),), lambda f, c, x: f.clamp(x, -0.5, 0.5)),
    "repeat": (((4, 6),), lambda f, c, x: f.tile(x, (2, 1))),
    "gelu": (((4, 6),), lambda f, c, x: f.gelu(x, approximate="tanh")),
    "attention": (
        ((2, 5, 4), (2, 6, 4), (2, 6, 3), (5, 6)),
        lambda f, c, q, k, v, m: f.scaled_dot_product_attention(q, k, v, m, scale=0.3),
    ),
    "embedding": (((5, 3),), lambda f, c, x: f.embedding(x, c(INDEX))),
    "places": (((5, 3),), lambda f, c, x: x[c(INDEX)]),
    "take": (((4, 6),), lambda f, c, x: f.take(x, c(INDEX))),
    "nearest": (((2, 3, 4, 5),), lambda f, c, x: f.interpolate(x, (7, 8), mode="nearest")),
    "max_unpool1d": (((2, 3, 4),), lambda f, c, x: f.max_unpool1d(x, c(EVEN), 2)),
    "batch_norm_train": (
        ((4, 6, 3), (6,), (6,)),
        lambda f, c, x, w, b: f.batch_norm_train(x, w, b)[0],
    ),
    "cumulative_trapezoid": (((4, 6),), lambda f, c, x: f.cumulative_trapezoid(x)),
    "det": (((2, 3, 3),), lambda f, c, x: f.det(x)),
    "corrcoef": (((4, 6),), lambda f, c, x: f.corrcoef(x)),
    "median of all": (((4, 6),), lambda f, c, x: f.median(x)),
    "nanmedian": (((4, 6),), lambda f, c, x: f.nanmedian(x, 1)[0]),
    "quantile": (((4, 6),), lambda f, c, x: f.quantile(x, 0.3, 1)),
    "nanquantile": (
        ((4, 6),),
        lambda f, c, x: f.nanquantile(x, 0.8, 0, interpolation="nearest"),
    ),
    "lstm_cell": (
        ((2, 3), (2, 4), (2, 4), (16, 3), (16, 4)),
        lambda f, c, x, h, s, w, u: f.lstm_cell(x, (h, s), w, u)[0],
    ),
    "causal attention": (
        ((2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4)),
        lambda f, c, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
    ),
}


EVEN = np.broadcast_to(np.arange(0, 8, 2), (2, 3, 4)).copy()

# Whose gradients are kernels of their own.
TWICE = """
local_response_norm layer_norm group_norm rms_norm batch_norm_train avg_pool2d adaptive_avg_pool2d
max_pool1d adaptive_max_pool2d lp_pool2d max_unpool1d cross_entropy nll_loss pad interpolate
nearest conv3d conv_transpose3d gather index_select take embedding places scatter scatter_add
index_add index_copy sort topk median nanmedian quantile cumsum cumprod cummax logcumsumexp
cumulative_trapezoid det corrcoef prod attention lstm_cell
""".split()


class Torch:
    """Functions of PyTorch, wherever they are."""

    det = staticmethod(torch.linalg.det)

    def __getattr__(self, name):
        return getattr(F, name, None) or getattr(torch, name)

    def embedding(self, weight, indices):
        return F.embedding(indices, weight)

    def batch_norm_train(self, x, weight, bias):
        return (F.batch_norm(x, None, None, weight, bias, True),)


class Ops:
    """Operators with their arguments in one order."""

    def __getattr__(self, name):
        return getattr(ops, name)

    def embedding(self, weight, indices):
        return ops.embedding(indices, weight)


@pytest.mark.parametrize("name", TWICE)
def test_gradients_of_gradients_are_pytorchs(name):
    shapes, call = CASES[name]
    given = [np.random.default_rng(n).normal(size=s) for n, s in enumerate(shapes)]
    tensors = [torch.from_numpy(x).requires_grad_() for x in given]
    result = call(Torch(), torch.from_numpy, *tensors)
    weight = np.random.default_rng(99).normal(size=result.shape)
    total = (result * result * torch.from_numpy(weight)).sum()
    gradients = torch.autograd.grad(total, tensors, create_graph=True)
    expected = torch.autograd.grad(sum((g * g).sum() for g in gradients), tensors)

    def function(arrays):
        y = call(Ops(), cp.asarray, *arrays)
        return (y * y * cp.asarray(weight)).sum()

    def squares(arrays):
        _, found = cp.value_and_grad(function, 0)(arrays)
        return sum((g * g).sum() for g in found)

    _, found = cp.value_and_grad(squares, 0)([*map(cp.asarray, given)])
    for n, (one, other) in enumerate(zip(found, expected, strict=True)):
        scale = max(1.0, float(other.abs().max()))
        close = {"rtol": 1e-7, "atol": 1e-9 * scale, "err_msg": f"argument {n}"}
        np.testing.assert_allclose(one.get(), other, **close)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_pytorchs(name):
    shapes, call = CASES[name]
    given = [np.random.default_rng(n).normal(size=s) for n, s in enumerate(shapes)]
    tensors = [torch.from_numpy(x).requires_grad_() for x in given]
    result = call(Torch(), torch.from_numpy, *tensors)
    weight = np.random.default_rng(99).normal(size=result.shape)
    expected = torch.autograd.grad((result * torch.from_numpy(weight)).sum(), tensors)

    def function(arrays):
        return (call(Ops(), cp.asarray, *arrays) * cp.asarray(weight)).sum()

    _, found = cp.value_and_grad(function, 0)([*map(cp.asarray, given)])
    for n, (one, other) in enumerate(zip(found, expected, strict=True)):
        message = f"argument {n}"
        np.testing.assert_allclose(one.get(), other, rtol=1e-7, atol=1e-9, err_msg=message)


def test_attention_in_blocks_draws_nothing(monkeypatch):
    """Where no fused kernel takes it: without dropout nothing depends on random numbers."""
    monkeypatch.setattr(scaled_dot_product, "differentiate", lambda *_: None)
    test_gradients_are_pytorchs("attention")
