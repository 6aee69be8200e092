"""`value_and_grad`: gradients of whole functions against PyTorch's in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("device")


def array(shape, seed=0, scale=1.0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape) * scale)


def close(found, expected, label=""):
    found, expected = found.get(), np.asarray(expected)
    assert found.shape == expected.shape, label
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=label)


def check(function, reference, *arrays, wrt=None):
    """Holds value and gradients, compiled and repeated, to PyTorch's."""
    wrt = tuple(range(len(arrays))) if wrt is None else wrt
    tensors = [torch.from_numpy(a.copy()) for a in arrays]
    for n in wrt:
        tensors[n].requires_grad_()
    expected = reference(*tensors)
    grads = torch.autograd.grad(expected, [tensors[n] for n in wrt], allow_unused=True)
    compiled = cp.value_and_grad(function, wrt)
    for _ in range(2):
        value, found = compiled(*map(cp.asarray, arrays))
        close(value, expected.detach().numpy(), "value")
        assert len(found) == len(wrt)
        for n, grad, other in zip(wrt, found, grads, strict=True):
            wanted = np.zeros(arrays[n].shape) if other is None else other.numpy()
            close(grad, wanted, f"argument {n}")
    return compiled


def test_a_perceptron():
    def ours(w1, b1, w2, b2, x, y):
        h = ops.tanh(ops.linear(x, w1, b1))
        return ops.cross_entropy(ops.matmul(h, w2) + b2, y)

    def theirs(w1, b1, w2, b2, x, y):
        h = torch.tanh(F.linear(x, w1, b1))
        return F.cross_entropy(h @ w2 + b2, y)

    given = [array(s, n) for n, s in enumerate([(7, 5), (7,), (7, 3), (3,), (4, 5)])]
    check(ours, theirs, *given, np.array([0, 2, 1, 2]), wrt=(0, 1, 2, 3, 4))


@pytest.mark.parametrize("last", [False, True])
def test_a_convolutional_net(last):
    def ours(x, w1, gamma, beta, w2, b2, w3, y):
        running = cp.zeros(6, np.float64), cp.ones(6, np.float64)
        h = ops.conv2d(x, w1, padding=1)
        h, *_ = ops.batch_norm_train(h, gamma, beta, *running)
        h, *_ = ops.batch_norm_train(ops.tanh(h), gamma, beta, *running)
        h = ops.max_pool2d(ops.relu(h), 2)
        h = ops.conv2d(
            h, w2, b2, stride=2, epilogue="y0 = y0 > 0 ? y0 : y0 * w0;", epilogue_args=(0.1,)
        )
        return ops.cross_entropy(ops.linear(h.reshape(h.shape[0], -1), w3), y)

    def theirs(x, w1, gamma, beta, w2, b2, w3, y):
        h = F.conv2d(x, w1, padding=1)
        h = F.batch_norm(h, None, None, gamma, beta, training=True)
        h = F.batch_norm(torch.tanh(h), None, None, gamma, beta, training=True)
        h = F.max_pool2d(F.relu(h), 2)
        h = F.leaky_relu(F.conv2d(h, w2, b2, stride=2), 0.1)
        return F.cross_entropy(F.linear(h.reshape(h.shape[0], -1), w3), y)

    shapes = (3, 4, 10, 10), (6, 4, 3, 3), (6,), (6,), (5, 6, 3, 3), (5,), (4, 20)
    given = [array(s, n, 0.5) for n, s in enumerate(shapes)]
    if last:
        given[0] = np.ascontiguousarray(given[0].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    check(ours, theirs, *given, np.array([0, 3, 1]), wrt=tuple(range(7)))


def test_a_block_of_attention():
    def attention(x, w_qkv, w_out, gamma, beta, qkv_of, attend, norm, linear):
        n, length, width = x.shape
        y = norm(x, gamma, beta)
        q, k, v = qkv_of(linear(y, w_qkv).reshape(n, length, 3, 2, width // 2))
        y = attend(q, k, v)
        y = y.transpose(0, 2, 1, 3) if not torch.is_tensor(y) else y.permute(0, 2, 1, 3)
        return (linear(y.reshape(n, length, width), w_out) + x) ** 2

    def ours(x, w_qkv, w_out, gamma, beta):
        def parts(qkv):
            qkv = qkv.transpose(2, 0, 3, 1, 4)
            return qkv[0], qkv[1], qkv[2]

        return attention(
            x,
            w_qkv,
            w_out,
            gamma,
            beta,
            parts,
            ops.scaled_dot_product_attention,
            lambda x, g, b: ops.layer_norm(x, x.shape[-1], g, b),
            ops.linear,
        ).mean()

    def theirs(x, w_qkv, w_out, gamma, beta):
        return attention(
            x,
            w_qkv,
            w_out,
            gamma,
            beta,
            lambda qkv: qkv.permute(2, 0, 3, 1, 4),
            F.scaled_dot_product_attention,
            lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b),
            F.linear,
        ).mean()

    shapes = (2, 6, 8), (24, 8), (8, 8), (8,), (8,)
    check(ours, theirs, *[array(s, n, 0.5) for n, s in enumerate(shapes)])


def test_views_pieces_and_writes_in_place():
    def ours(x, y):
        z = cp.zeros((4, 6), np.float64)
        z[:, :3] = x * 2
        z[:, 3:] = y[:, ::-1]
        a = z * z
        z *= 3
        z[0] = x[0, 0]
        b = ops.cat([z[1:, 1:], a.T[1:4, :3].T[:, :]], 1)
        z[2] = 0
        return (b[..., None] * z[:3, None, :5]).sum() + ops.exp(a[0]).sum()

    def theirs(x, y):
        z = torch.cat([x * 2, y.flip(1)], 1)
        a = z * z
        z = z * 3
        z = torch.cat([x[0, 0].expand(1, 6), z[1:]])
        b = torch.cat([z[1:, 1:], a.T[1:4, :3].T], 1)
        z = z * torch.tensor([[1.0], [1], [0], [1]])
        return (b[..., None] * z[:3, None, :5]).sum() + torch.exp(a[0]).sum()

    check(ours, theirs, array((4, 3)), array((4, 3), 1))


def test_values_that_are_overwritten_are_the_old_ones():
    def ours(x, y):
        h = ops.exp(x * 0.1)
        first = ops.matmul(h, y)
        ops.relu(first, out=first)
        h += 1
        second = h * first
        first[...] = 0
        x *= 2
        return (second * x).sum() + (h * h).sum()

    def theirs(x, y):
        h = torch.exp(x * 0.1)
        first = torch.relu(h @ y)
        h = h + 1
        return (h * first * x * 2).sum() + (h * h).sum()

    check(ours, theirs, array((3, 3)), array((3, 3), 1))


def test_broadcasting_reductions_and_shared_weights():
    def ours(x, w, s):
        y = x
        for _ in range(3):
            y = ops.tanh(ops.matmul(y, w) * s + x.mean(axis=0))
        return (
            (y.max(axis=1) * y.sum(axis=0)[:4]).sum() + (y - w[0]).var() + ops.logsumexp(y, 1).sum()
        )

    def theirs(x, w, s):
        y = x
        for _ in range(3):
            y = torch.tanh(y @ w * s + x.mean(0))
        return (
            (y.amax(1) * y.sum(0)[:4]).sum()
            + (y - w[0]).var(unbiased=False)
            + torch.logsumexp(y, 1).sum()
        )

    check(ours, theirs, array((4, 5)), array((5, 5), 1, 0.5), array((), 2))


def test_positions():
    def ours(table, x, indices):
        y = ops.embedding(indices, table)
        z = x[indices[0]] * y[0]
        x = x.copy()
        x[indices[0]] = z * 2
        return (
            (y * y).sum()
            + z.sum()
            + (x**3).sum()
            + ops.topk(x, 2)[0].sum()
            + ops.gather(y[0], 0, indices[:, :4]).sum()
        )

    def theirs(table, x, indices):
        y = F.embedding(indices, table)
        z = x[indices[0]] * y[0]
        x = x.index_put((indices[0],), z * 2)
        return (
            (y * y).sum()
            + z.sum()
            + (x**3).sum()
            + x.topk(2)[0].sum()
            + y[0].gather(0, indices[:, :4]).sum()
        )

    indices = np.array([[4, 0, 3, 1, 2], [1, 1, 0, 0, 4]])
    check(ours, theirs, array((6, 4)), array((5, 4), 1), indices, wrt=(0, 1))


def test_numbers_flags_and_names_of_arguments():
    def ours(x, power, params, *, mean=True):
        y = (x * params["w"][0]) ** power + params["w"][1] * params["scale"]
        return y.mean() if mean else y.sum()

    x, w, b = (cp.asarray(array(3, n)) for n in range(3))
    params = {"w": [w, b], "scale": 2.5, "none": None}
    value, (dx, dparams) = cp.value_and_grad(ours, ("x", 2))(x, 3, params, mean=False)
    product = x.get() * w.get()
    close(value, np.sum(product**3 + 2.5 * b.get()))
    close(dx, 3 * product**2 * w.get())
    assert dparams["scale"] is None and dparams["none"] is None
    close(dparams["w"][0], 3 * product**2 * x.get())
    close(dparams["w"][1], np.full(3, 2.5))
    _, alone = cp.value_and_grad(ours, 0)(x, 2, params)
    close(alone, 2 * product * w.get() / 3)


def test_one_array_as_two_arguments():
    x = cp.asarray(array(4))
    _, (first, second) = cp.value_and_grad(lambda a, b: (a * a * b).sum())(x, x)
    close(first, 2 * x.get() ** 2)
    close(second, x.get() ** 2)


def test_a_step_of_training_is_one_graph():
    def loss(params, x, y):
        h = ops.relu(ops.linear(x, params["w1"], params["b1"]))
        return ops.mse_loss(ops.linear(h, params["w2"]), y)

    def step(params, momentum, x, y):
        value, grads = cp.value_and_grad(loss, 0)(params, x, y)
        names = [*params]
        lists = [[each[name] for name in names] for each in (params, grads, momentum)]
        ops.optim.sgd(*lists, lr=0.1, momentum=0.9)
        return value

    shapes = {"w1": (8, 5), "b1": (8,), "w2": (2, 8)}
    start = {name: array(shape, n, 0.3) for n, (name, shape) in enumerate(shapes.items())}
    x, y = array((6, 5), 7), array((6, 2), 8)
    tensors = {name: torch.from_numpy(a.copy()).requires_grad_() for name, a in start.items()}
    optimizer = torch.optim.SGD(tensors.values(), lr=0.1, momentum=0.9)
    params = {name: cp.asarray(a) for name, a in start.items()}
    momentum = {name: cp.zeros(a.shape, a.dtype) for name, a in params.items()}
    given = cp.asarray(x), cp.asarray(y)
    compiled = cp.jit(step)
    for n in range(3):
        optimizer.zero_grad()
        h = torch.relu(F.linear(torch.from_numpy(x), tensors["w1"], tensors["b1"]))
        expected = F.mse_loss(F.linear(h, tensors["w2"]), torch.from_numpy(y))
        expected.backward()
        optimizer.step()
        close(compiled(params, momentum, *given), expected.detach().numpy(), f"step {n}")
    for name, tensor in tensors.items():
        close(params[name], tensor.detach().numpy(), name)


def test_gradients_of_gradients():
    def inner(x, w):
        return (ops.tanh(ops.matmul(x, w)) ** 2).sum()

    def outer(x, w):
        _, grad = cp.value_and_grad(inner, 0)(x, w)
        return (grad * grad).sum()

    def theirs(x, w):
        value = (torch.tanh(x @ w) ** 2).sum()
        (grad,) = torch.autograd.grad(value, x, create_graph=True)
        return (grad * grad).sum()

    x, w = array((3, 4)), array((4, 2), 1)
    tensors = [torch.from_numpy(a).requires_grad_() for a in (x, w)]
    expected = torch.autograd.grad(theirs(*tensors), tensors)
    _, found = cp.value_and_grad(outer)(cp.asarray(x), cp.asarray(w))
    for one, other in zip(found, expected, strict=True):
        close(one, other.numpy())


def test_what_is_added_to_old_results():
    products = cp.Reduction("y0 = x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")

    def ours(x, y, z):
        first, second = z.copy(), z[0].copy()
        snippet = "y0 = tanh(y0 + x0) * w0;"
        ops.matmul(x, y, epilogue=snippet, epilogue_args=(z[1], 3.0), out=first, beta=0.5)
        products(x, y.T[:3], axis=0, out=second[:4], alpha=2.0, beta=0.5)
        return (first**2).sum() + (second**3).sum()

    def theirs(x, y, z):
        first = torch.tanh(x @ y + z[1]) * 3 + z * 0.5
        second = torch.cat([(x * y.T[:3]).sum(0) * 2 + z[0, :4] * 0.5, z[0, 4:]])
        return (first**2).sum() + (second**3).sum()

    check(ours, theirs, array((3, 4)), array((4, 5), 1), array((3, 5), 2))


def test_epilogues_of_larger_pictures_and_pools():
    def ours(x, w, b, s):
        y = ops.conv2d(
            x, w, b, padding=1, depth_to_space=2, epilogue="y0 = y0 * x0;", epilogue_args=(s,)
        )
        return (ops.max_pool2d(y, 2, epilogue="y0 = y0 > 0 ? y0 : 0;") ** 2).sum()

    def theirs(x, w, b, s):
        y = F.pixel_shuffle(F.conv2d(x, w, b, padding=1), 2) * s
        return (F.relu(F.max_pool2d(y, 2)) ** 2).sum()

    shapes = (1, 3, 4, 4), (8, 3, 3, 3), (8,), (8, 8)
    check(ours, theirs, *[array(s, n) for n, s in enumerate(shapes)])


def test_layers_with_a_state():
    def ours(x, h, c, *weights):
        y, last, _ = ops.lstm(x, (h, c), list(weights))
        return (y**2).sum() + last.sum()

    def theirs(x, h, c, *weights):
        y, last, _ = torch._VF.lstm(x, (h, c), weights, True, 1, 0.0, True, False, False)
        return (y**2).sum() + last.sum()

    shapes = (5, 3, 4), (1, 3, 6), (1, 3, 6), (24, 4), (24, 6), (24,), (24,)
    given = [array(s, n) for n, s in enumerate(shapes)]
    tensors = [torch.from_numpy(a).requires_grad_() for a in given]
    expected = torch.autograd.grad(theirs(*tensors), tensors)
    function = cp.value_and_grad(lambda arrays: ours(*arrays), "arrays")
    _, found = function([*map(cp.asarray, given)])
    for n, (one, other) in enumerate(zip(found, expected, strict=True)):
        close(one, other.numpy(), f"argument {n}")


def test_random_numbers_are_those_of_the_value():
    def function(x):
        y = ops.dropout(x, 0.5)
        return (y * y).sum()

    x = cp.asarray(array((200,)))
    compiled = cp.value_and_grad(function, 0)
    seen = []
    for _ in range(2):
        value, grad = compiled(x)
        kept = grad.get() != 0
        assert 40 < kept.sum() < 160
        close(grad, np.where(kept, 8 * x.get(), 0))
        close(value, np.sum(np.where(kept, 4 * x.get() ** 2, 0)))
        seen.append(kept)
    assert (seen[0] != seen[1]).any()


def test_errors_say_what_has_no_gradient_and_where():
    x, n = cp.asarray(array((3, 3))), cp.asarray(np.arange(3))
    with pytest.raises(cp.DefinitionError, match="expected a function"):
        cp.value_and_grad(3)
    for wrt in (2, "z", (0, 0), (0, "x")):
        with pytest.raises(cp.DefinitionError, match="no other one of its arguments: x, y"):
            cp.value_and_grad(lambda x, y: x.sum(), wrt)
    with pytest.raises(cp.ShapeError, match=r"shape \(3, 3\), expected a scalar"):
        cp.value_and_grad(lambda x: x, 0)(x)
    with pytest.raises(cp.DTypeError, match="returned int, expected an array"):
        cp.value_and_grad(lambda x: 3, 0)(x)
    with pytest.raises(cp.DTypeError, match="y is int64, which has no gradient"):
        cp.value_and_grad(lambda x, y: x.sum())(x, n)
    with pytest.raises(cp.DTypeError, match=r"y\['a'\] is int64"):
        cp.value_and_grad(lambda x, y: x.sum())(x, {"a": n})
    scan = cp.Scan("y0 = x0;", init="scan_y0 = 1;", step="scan_y0 *= y0;")
    with pytest.raises(
        cp.DefinitionError, match=r"Scan.*, at .*test_value_and_grad\.py:\d+: it has no gradient"
    ):
        cp.value_and_grad(lambda x: scan(x).sum(), 0)(x)
    noise = cp.Pointwise("y0 = x0 * rand();")
    with pytest.raises(cp.DefinitionError, match=r"test_value_and_grad\.py:\d+: it draws random"):
        cp.value_and_grad(lambda x: noise(x).sum(), 0)(x)
    with pytest.raises(cp.DefinitionError, match=r"a download, at .*test_value_and_grad\.py"):
        cp.value_and_grad(lambda x: x.sum() if x.sum() > 0 else -x.sum(), 0)(x)


def test_arguments_that_do_not_matter_have_gradients_of_zero():
    x, y = cp.asarray(array(3)), cp.asarray(array((2, 2), 1))
    function = lambda x, y: (x > 0).sum() * 1.0 + (y - y.copy()).sum()  # noqa: E731
    _, (dx, dy) = cp.value_and_grad(function)(x, y)
    close(dx, np.zeros(3))
    close(dy, np.zeros((2, 2)))
    _, dx = cp.value_and_grad(lambda x, y: y[0, 0], 0)(x, y)
    close(dx, np.zeros(3))
