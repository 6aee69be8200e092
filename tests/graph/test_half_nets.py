"""Nets of 16 bits stay so between their kernels, which calculate in float32, on matrix units."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")
CLASSES = np.array([1, 3])


def residual(x, *given):
    """A bottleneck of three convolutions with batch norms, whose statistics are those of images."""
    weights, norms = given[:3], given[3:]
    y = x
    for n, w in enumerate(weights):
        y = ops.conv2d(y, w, padding=w.shape[2] // 2)
        y = ops.batch_norm_train(y, *norms[2 * n : 2 * n + 2])[0]
        y = ops.relu(y + x if n == 2 else y)
    return ops.mean(y, axis=(2, 3))


def residual_given(array):
    x = ops.contiguous(array(2, 16, 8, 8), memory_format="channels_last")
    weights = array(16, 16, 1, 1), array(16, 16, 3, 3), array(16, 16, 1, 1)
    return [x, *weights, *[array(16) for _ in range(6)]]


def transformer(x, g1, b1, qkv, bias, out, own, g2, b2, first, hidden, second, last):
    """Attention and a perceptron, each behind a norm and beside what goes in."""
    batch, tokens, width = x.shape
    split = ops.linear(ops.layer_norm(x, (width,), g1, b1), qkv, bias)
    parts = split.reshape(batch, tokens, 3, 2, width // 2)
    q, k, v = (parts[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
    seen = ops.scaled_dot_product_attention(q, k, v).transpose(0, 2, 1, 3)
    x = x + ops.linear(seen.reshape(batch, tokens, width), out, own)
    hidden = ops.gelu(ops.linear(ops.layer_norm(x, (width,), g2, b2), first, hidden))
    return (x + ops.linear(hidden, second, last)).mean(1)


def transformer_given(array):
    norm = array(32), array(32)
    attention = array(96, 32), array(96), array(32, 32), array(32)
    perceptron = array(64, 32), array(64), array(32, 64), array(32)
    return [array(2, 9, 32), *norm, *attention, *norm, *perceptron]


def conversions(graph):
    """Nodes that do nothing but store what they read as another dtype."""
    return [
        node
        for node in graph.nodes
        if getattr(getattr(node.primitive, "definition", None), "copies_each", False)
        and any(x.dtype != y.dtype for x, y in zip(node.reads, node.writes, strict=True))
    ]


def wide(array):
    return np.asarray(array.get()).astype(np.float64)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("net", "make"), [(residual, residual_given), (transformer, transformer_given)]
)
def test_nothing_is_converted_between_kernels(net, make, dtype, units):
    rng = np.random.default_rng(4)

    def array(*shape):
        scale = 1 if len(shape) in (1, 3) or shape[-1] == 8 else shape[1] ** -0.5
        return cp.asarray((rng.standard_normal(shape) * scale).astype(np.float32)).astype(dtype)

    given = make(array)
    if net is residual:  # astype keeps no format
        given[0] = ops.contiguous(given[0], memory_format="channels_last")

    def loss(*arrays):
        return ops.cross_entropy(net(*arrays), cp.asarray(CLASSES))

    units(f"mma.sync/m16n8k16/{dtype}/32", is_cpu=False)
    step = cp.value_and_grad(loss, tuple(range(len(given))))
    forward, both = cp.jit(net), cp.jit(step)
    for compiled in (forward, both):
        graph = compiled.graph(*given)
        assert not conversions(graph), str(graph)
        large = [w for n in graph.nodes for w in n.writes if w.size >= given[0].size]
        assert {w.dtype.name for w in large} == {dtype}, str(graph)
        images = [w for w in large if w.shape[2:] == (8, 8)]
        assert all(w.strides[1] == w.dtype.itemsize for w in images), str(graph)
    assert any(n.plan.choice and n.plan.choice.strategy == "matrix" for n in graph.nodes)
    floats = [a.astype(np.float32) for a in given]
    close = 2e-2 if dtype == "float16" else 0.16
    found, wanted = wide(forward(*given)), wide(net(*floats))
    np.testing.assert_allclose(found, wanted, rtol=close, atol=close * np.abs(wanted).max())
    (_, slopes), (_, exact) = both(*given), step(*floats)
    for one, other in zip(slopes, exact, strict=True):
        assert one.dtype.name == dtype
        scale = np.abs(wide(other)).max()
        np.testing.assert_allclose(wide(one), wide(other), rtol=close, atol=2 * close * scale)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_what_others_make_is_converted(device, kind):
    """Of products, sorted numbers, transforms: what no reduction makes stays a node of its own."""
    x = cp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    for run in (
        lambda x: (x @ x.T).astype(kind),
        lambda x: cp.sort(x).astype(kind),
        lambda x: cp.cumsum(x, axis=1).astype(kind),
        lambda x: ops.fft.irfft(x).astype(kind),
        lambda x: ops.linear(x, x).astype(kind),
        lambda x: ops.conv1d(x[None], x.T[:2, :3, None]).astype(kind),
    ):
        np.testing.assert_array_equal(cp.jit(run)(x).get(), run(x).get())
