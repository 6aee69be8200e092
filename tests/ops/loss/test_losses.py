"""Losses and their gradients against PyTorch in float64."""

import numpy as np
import pytest
from support import BFLOAT16

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = [
    pytest.mark.usefixtures("device"),
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides"),  # PyTorch's, of kl_div
]


def random(shape, seed=0, low=-2.0, high=2.0):
    return np.float32(np.random.default_rng(seed).uniform(low, high, shape))


def signs(shape, seed=0):
    return np.float32(np.random.default_rng(seed).choice([-1, 1], shape))


def reference(name, arrays, options, grad=None, inputs=1):
    """PyTorch's loss of float64, and gradients of the first ``inputs`` arrays."""
    given = [torch.tensor(np.float64(a)) for a in arrays]
    for a in given[:inputs]:
        a.requires_grad_(True)
    named = {
        k: torch.tensor(np.float64(v)) if isinstance(v, np.ndarray) else v
        for k, v in options.items()
    }
    loss = getattr(F, name)(*given, **named)
    if grad is None:
        grad = random(tuple(loss.shape), 9)
    slopes = torch.autograd.grad(loss, given[:inputs], torch.tensor(np.float64(grad)))
    return loss.detach().numpy(), grad, [s.numpy() for s in slopes]


def close(found, expected, eps=3e-6):
    scale = max(1e-3, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
    np.testing.assert_allclose(np.float64(found.get()), expected, rtol=eps, atol=eps * scale)


def compare(name, arrays, options, inputs=1):
    """Compares a loss, and its gradients, with PyTorch's."""
    loss, grad, slopes = reference(name, arrays, options, inputs=inputs)
    given = [cp.asarray(a) for a in arrays]
    named = {k: cp.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    found = getattr(ops, name)(*given, **named)
    assert found.shape == loss.shape
    assert found.dtype == arrays[0].dtype
    close(found, loss)
    back = getattr(ops, f"{name}_backward")(cp.asarray(grad), *given, **named)
    found = back if isinstance(back, tuple) else (back,)
    for one, slope in zip(found[:inputs], slopes, strict=True):
        close(one, slope)


X, T, P, Q = random((7, 5, 9)), random((7, 5, 9), 1), *random((2, 7, 5, 9), 2, 0.01, 0.99)
W, S = random((5, 1), 3, 0.5, 2), signs((7, 5, 9), 4)
CASES = [
    ("mse_loss", (X, T), {}),
    ("l1_loss", (X, T), {}),
    ("smooth_l1_loss", (X, T), {"beta": 0.5}),
    ("smooth_l1_loss", (X, T), {"beta": 0.0}),
    ("huber_loss", (X, T), {"delta": 0.75}),
    ("binary_cross_entropy", (P, Q), {}),
    ("binary_cross_entropy", (P, Q), {"weight": W}),
    ("binary_cross_entropy_with_logits", (X * 20, Q), {}),
    ("binary_cross_entropy_with_logits", (X, Q), {"weight": W, "pos_weight": W + 1}),
    ("binary_cross_entropy_with_logits", (X, Q), {"pos_weight": W + 1}),
    ("kl_div", (X, P), {}),
    ("kl_div", (X, T), {"log_target": True}),
    ("poisson_nll_loss", (X, Q * 3), {"full": True}),
    ("poisson_nll_loss", (P, Q), {"log_input": False}),
    ("gaussian_nll_loss", (X, T, Q + 0.5), {"full": True}),
    ("hinge_embedding_loss", (X, S), {"margin": 0.5}),
    ("soft_margin_loss", (X, S), {}),
]


@pytest.mark.parametrize(("name", "arrays", "options"), CASES)
def test_of_each_element(some, name, arrays, options):
    for reduction in some(["none", "mean", "sum"], 1):
        compare(name, arrays, {**options, "reduction": reduction})


KINKS = np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 0.5, -0.5, 1, -1, 2, -2])
EDGES = [
    ("mse_loss", 0, {}),
    ("l1_loss", 0, {}),
    ("smooth_l1_loss", 0, {"beta": 0.5}),
    ("huber_loss", 0, {"delta": 0.5}),
    ("hinge_embedding_loss", 1, {"margin": 0.5}),
    ("hinge_embedding_loss", -1, {"margin": 0.5}),
    ("kl_div", 1, {}),
]


@pytest.mark.parametrize(("name", "target", "options"), EDGES)
def test_kinks_and_what_is_not_finite(name, target, options):
    compare(name, (KINKS, np.full_like(KINKS, target)), {**options, "reduction": "none"})


def test_kinks_of_several_inputs():
    for sign in (1, -1):
        targets = np.full_like(KINKS, sign)
        options = {"margin": 0.5, "reduction": "none"}
        compare("margin_ranking_loss", (KINKS, 0 * targets, targets), options, inputs=2)
    # A margin that is just met, and two distances of one length.
    for rows, swap in ((([[0, 1]], [[0, 2]], [[0, 3]]), False), (([[0]], [[2]], [[1]]), True)):
        options = {"margin": 1.0, "swap": swap, "eps": 0.0}
        compare("triplet_margin_loss", tuple(map(np.float32, rows)), options, inputs=3)


def test_the_mean_of_a_batch():
    compare("kl_div", (X, P), {"reduction": "batchmean"})


def test_the_slope_of_a_variance():
    var, full = Q[..., :1] + 0.01, {"full": True}
    for reduction in ("mean", "none"):
        tensors = [torch.tensor(np.float64(a)) for a in (X, T, var)]
        tensors[2].requires_grad_(True)
        loss = F.gaussian_nll_loss(*tensors, **full, reduction=reduction)
        grad = random(tuple(loss.shape), 9)
        (slope,) = torch.autograd.grad(loss, tensors[2], torch.tensor(np.float64(grad)))
        given = [cp.asarray(a) for a in (grad, X, T, var)]
        found = ops.gaussian_nll_loss_backward(*given, **full, reduction=reduction)[1]
        close(found, slope.numpy())
    with pytest.raises(cp.ShapeError, match="var has shape"):
        ops.gaussian_nll_loss(given[1], given[2], given[1][0])


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_of_two_inputs(reduction):
    options = {"margin": 0.25, "reduction": reduction}
    compare("margin_ranking_loss", (X, T, S), options, inputs=2)
    compare("cosine_embedding_loss", (X[0], T[0], signs(5)), options, inputs=2)
    compare("cosine_embedding_loss", (X[0, 0], T[0, 0], signs(())), options, inputs=2)


@pytest.mark.parametrize("p", [2.0, 1.0, 3.0])
@pytest.mark.parametrize("swap", [False, True])
def test_triplets(p, swap):
    a, b, c = random((3, 11, 70), 5)
    options = {"margin": 2.0, "p": p, "swap": swap}
    compare("triplet_margin_loss", (a, b, c), options, inputs=3)


@pytest.mark.parametrize(("shape", "dim"), [((6, 70), 1), ((6, 70), 0), ((3, 4, 5, 6), 2)])
def test_cosine_similarity(shape, dim):
    a, b = random(shape, 1), random(shape, 2)
    value, grad, slopes = reference("cosine_similarity", (a, b), {"dim": dim}, inputs=2)
    x, y = cp.asarray(a), cp.asarray(b)
    close(ops.cosine_similarity(x, y, axis=dim), value)
    back = ops.cosine_similarity_backward(cp.asarray(grad), x, y, dim)
    for found, slope in zip(back, slopes, strict=True):
        close(found, slope)


def test_distances():
    a, b = random((4, 5, 33), 1), random((5, 33), 2)
    for p in (2.0, 1.0, 2.5, float("inf")):
        expected = F.pairwise_distance(torch.tensor(a).double(), torch.tensor(b).double(), p)
        close(ops.pairwise_distance(cp.asarray(a), cp.asarray(b), p), expected.numpy())


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5, float("inf")])
def test_the_gradients_of_distances(p):
    a, b, g = (np.random.default_rng(n).standard_normal((4, 7)) for n in range(3))
    t = [torch.tensor(v, requires_grad=True) for v in (a, b)]
    F.pairwise_distance(*t, p=p, keepdim=True).backward(torch.tensor(g[:, :1]))
    arrays = [cp.asarray(v.astype(np.float32)) for v in (g[:, :1], a, b)]
    found = ops.pairwise_distance_backward(*arrays, p=p, keepdim=True)
    for f, e in zip(found, t, strict=True):
        np.testing.assert_allclose(f.get(), e.grad.numpy(), rtol=2e-5, atol=1e-6)
    with pytest.raises(cp.ShapeError, match="grad has shape"):
        ops.pairwise_distance_backward(*arrays, p=p)


# --- classes -------------------------------------------------------------------------------------


def classes(name, shape, options, order="C", soft=False):
    """Compares a loss of classes, and its gradient, with PyTorch's."""
    a = random(shape, 1, -4, 4) + 100
    n = shape[min(1, len(shape) - 1)]
    rows = shape[1:] if len(shape) == 1 else (shape[0], *shape[2:])
    target = np.array(np.random.default_rng(2).integers(0, n, rows))
    target.reshape(-1)[:1] = 2
    target = random(shape, 3, 0, 1) if soft else target
    weight = random(n, 4, 0.5, 2) if options.pop("weighted", False) else None
    x = torch.tensor(np.float64(a), requires_grad=True)
    w = None if weight is None else torch.tensor(np.float64(weight))
    t = torch.tensor(np.float64(target) if soft else target)
    loss = getattr(F, name)(x, t, w, **options)
    grad = random(tuple(loss.shape), 5)
    (slope,) = torch.autograd.grad(loss, x, torch.tensor(np.float64(grad)))
    given = cp.asarray(a, **({"memory_format": order} if order != "C" else {}))
    arrays = (given, cp.asarray(target), None if weight is None else cp.asarray(weight))
    found = getattr(ops, name)(*arrays, **options)
    assert found.shape == tuple(loss.shape)
    close(found, loss.detach().numpy(), 2e-5 if name == "nll_loss" else 3e-6)
    back = getattr(ops, f"{name}_backward")(cp.asarray(grad), *arrays, **options)
    assert back.strides == given.strides
    close(back, slope.numpy())


SHAPES = [(5,), (40, 100), (3, 7), (4, 9, 5, 6)]
REDUCTIONS = ["mean", "sum", "none"]
# Weighted or not, and how smooth: by turns, so that each meets every shape and every reduction.
SMOOTH = [[(False, 0.0), (True, 0.1)], [(True, 0.0), (False, 0.1)]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_classes(some, shape, reduction):
    order = "channels_last" if len(shape) == 4 and reduction == "mean" else "C"
    turn = SHAPES.index(shape) + REDUCTIONS.index(reduction)
    for weighted, smooth in some(SMOOTH[turn % 2], 1):
        options = {"reduction": reduction, "weighted": weighted}
        ignoring = {**options, "ignore_index": 2}
        classes("cross_entropy", shape, {**ignoring, "label_smoothing": smooth}, order)
        classes("cross_entropy", shape, {**options, "label_smoothing": smooth}, order, soft=True)
        if not smooth:
            classes("nll_loss", shape, ignoring, order)


def test_of_no_row_the_mean_is_nan():
    x, t = cp.asarray(random((3, 4))), cp.asarray(np.full(3, -100))
    assert np.isnan(ops.cross_entropy(x, t).item())
    assert ops.cross_entropy(x, t, reduction="sum").item() == 0
    assert np.isnan(ops.cross_entropy(x[:0], t[:0]).item())


def test_a_class_that_is_none_makes_its_row_nan():
    x, t = cp.asarray(random((3, 4))), cp.asarray(np.array([1, 4, -1]))
    found = ops.cross_entropy(x, t, reduction="none").get()
    np.testing.assert_array_equal(np.isnan(found), [False, True, True])


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float64], ids=str)
def test_dtypes(dtype):
    a = random((30, 70), 1).astype(dtype)
    t = np.random.default_rng(2).integers(0, 70, 30)
    x, target = cp.asarray(a), cp.asarray(t)
    eps = 1e-12 if dtype is np.float64 else 1e-2
    given = torch.tensor(np.float64(a), requires_grad=True)
    loss = F.cross_entropy(given, torch.tensor(t))
    (slope,) = torch.autograd.grad(loss, given)
    found = ops.cross_entropy(x, target)
    back = ops.cross_entropy_backward(cp.full((), 1, dtype), x, target)
    assert found.dtype == back.dtype == dtype
    close(found, loss.detach().numpy(), eps)
    close(back, slope.numpy(), eps)
    zero = cp.zeros((30, 70), dtype)
    close(ops.mse_loss(x, zero), np.square(np.float64(a)).mean(), eps)
    close(ops.softmax(x, 1), torch.softmax(given, 1).detach().numpy(), eps)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, t: ops.mse_loss(x, x, reduction="average"), cp.DefinitionError, "'batchmean'"),
        (lambda x, t: ops.mse_loss(t, t), cp.DTypeError, "floating dtype"),
        (lambda x, t: ops.mse_loss(x, x[:, :2]), cp.ShapeError, "do not broadcast"),
        (lambda x, t: ops.mse_loss_backward(x, x, x), cp.ShapeError, "grad has shape"),
        (lambda x, t: ops.huber_loss(x, x, delta=0), cp.DefinitionError, "more than 0"),
        (lambda x, t: ops.cross_entropy(x, t[:2]), cp.ShapeError, r"expected \(3,\)"),
        (lambda x, t: ops.cross_entropy(x, x[:, 0]), cp.ShapeError, r"expected \(3, 4\)"),
        (lambda x, t: ops.nll_loss(x, x), cp.DTypeError, "integers"),
        (lambda x, t: ops.nll_loss(x, t, x), cp.ShapeError, r"expected \(4,\)"),
        (lambda x, t: ops.cross_entropy(x, t, reduction="x"), cp.DefinitionError, "'none'"),
        (lambda x, t: ops.cross_entropy(x, t, label_smoothing=2), cp.DefinitionError, "0 to 1"),
        (lambda x, t: ops.softmax(x, 1, axis=1), cp.ShapeError, "one argument"),
        (lambda x, t: ops.softmax(t), cp.DTypeError, "floating-point"),
        (lambda x, t: ops.triplet_margin_loss(x, x, x[:1]), cp.ShapeError, "negative has shape"),
    ],
)
def test_what_is_wrong_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call(cp.zeros((3, 4)), cp.asarray(np.zeros(3, np.int64)))
