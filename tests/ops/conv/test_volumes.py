"""Convolutions of rows and volumes, one element and batches, against PyTorch in float64."""

import numpy as np
import pytest
from conv_reference import check_close
from support import BFLOAT16, equal, numbers, same_bits

import clprim as cp
from clprim import ops
from clprim.errors import ClprimError, DefinitionError, DTypeError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional

FORWARD = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
INPUT = {1: ops.conv1d_input, 2: ops.conv2d_input, 3: ops.conv3d_input}
WEIGHT = {1: ops.conv1d_weight, 2: ops.conv2d_weight, 3: ops.conv3d_weight}
TRANSPOSED = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
THEIRS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
BACK = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def double(array, **options):
    return torch.tensor(np.float64(array), **options)


def last(array):
    """An array whose channels lie side by side."""
    order = (0, *range(2, array.ndim), 1)
    back = (0, array.ndim - 1, *range(1, array.ndim - 1))
    return cp.asarray(np.ascontiguousarray(array.transpose(order))).transpose(back)


UPLOADS = {"contiguous": cp.asarray, "channels last": last}

# Size of the input, channels, outputs, kernel, options.
VOLUMES = [
    ((5, 7, 9), 4, 6, (3, 3, 3), {"padding": 1}),
    ((6, 5, 7), 4, 6, (2, 3, 1), {"stride": (2, 1, 3), "padding": (1, 0, 2), "groups": 2}),
    ((7, 6, 5), 3, 5, (3, 2, 2), {"dilation": (2, 1, 3), "stride": 2, "padding": 2}),
    ((5, 4, 6), 4, 4, (3, 1, 1), {"padding": (1, 0, 0), "stride": (2, 1, 1)}),
    ((5, 6, 8), 4, 5, (1, 3, 3), {"padding": (0, 1, 1), "stride": 2}),
    ((4, 5, 6), 3, 3, (3, 3, 3), {"groups": 3, "padding": 1}),
]


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", UPLOADS)
@pytest.mark.parametrize("case", VOLUMES, ids=str)
def test_volumes_and_their_gradients(device, case, memory_format):
    size, channels, outputs, kernel, options = case
    put = UPLOADS[memory_format]
    groups = options.get("groups", 1)
    hosts = x, w, bias = (
        numbers((2, channels, *size)),
        numbers((outputs, channels // groups, *kernel), seed=1),
        numbers((outputs,), seed=2),
    )
    tx, tw, tb = (double(h, requires_grad=True) for h in hosts)
    expected = F.conv3d(tx, tw, tb, **options)
    y = ops.conv3d(put(x), cp.asarray(w), cp.asarray(bias), **options)
    equal(y, expected.detach().numpy(), np.float32)
    assert (y.strides[1] == 4) == (memory_format == "channels last")
    grad = numbers(tuple(expected.shape), seed=3)
    expected.backward(double(grad))
    dx = ops.conv3d_input(x.shape, cp.asarray(w), put(grad), **options)
    equal(dx, tx.grad.numpy(), np.float32)
    dw = ops.conv3d_weight(put(x), w.shape, put(grad), **options)
    equal(dw, tw.grad.numpy(), np.float32)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", UPLOADS)
def test_transposed_volumes(device, memory_format):
    put = UPLOADS[memory_format]
    x, w, bias = numbers((2, 4, 3, 4, 5)), numbers((4, 3, 3, 2, 3), seed=1), numbers((6,), seed=2)
    options = {"stride": (2, 1, 3), "padding": (1, 0, 1), "dilation": (1, 2, 1), "groups": 2}
    options["output_padding"] = (1, 0, 2)
    arrays = put(x), cp.asarray(w), cp.asarray(bias)
    expected = F.conv_transpose3d(*map(double, (x, w, bias)), **options).numpy()
    y = ops.conv_transpose3d(*arrays, **options)
    equal(y, expected, np.float32)
    more = numbers(expected.shape[1:], seed=3)
    old = numbers(expected.shape, seed=4)
    out = put(old)
    epilogue = {"epilogue": "y0 = max(y0 + x0, 0);", "epilogue_args": (cp.asarray(more),)}
    assert ops.conv_transpose3d(*arrays, **options, **epilogue, out=out, beta=2) is out
    equal(out, np.maximum(expected + more, 0) + 2 * old)
    one = ops.conv_transpose3d(put(x)[1], *arrays[1:], **options)
    equal(one, expected[1])


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("kernel", [(3, 3, 3), (3, 1, 1)], ids=str)
@pytest.mark.parametrize("memory_format", UPLOADS)
def test_what_a_volume_adds_at_the_store(device, memory_format, kernel):
    """Epilogues with arrays of any shape, old results, packed weights, views."""
    put = UPLOADS[memory_format]
    x, w, bias = numbers((2, 4, 5, 6, 7)), numbers((5, 4, *kernel), seed=1), numbers((5,), seed=2)
    exact = F.conv3d(*map(double, (x, w, bias))).numpy()
    packed = ops.pack_weight(cp.asarray(w))
    for shape in ((5, 1, 1, 1), exact.shape, (2, 1, 1, *exact.shape[3:]), (exact.shape[4],)):
        more, old = numbers(shape, seed=3), numbers(exact.shape, seed=4)
        out = put(old)
        found = ops.conv3d(
            put(x),
            packed,
            cp.asarray(bias),
            epilogue="y0 = y0 * x0;",
            epilogue_args=cp.asarray(more),
            out=out,
            beta=3,
        )
        assert found is out
        equal(out, exact * more + 3 * old)
    wide = cp.asarray(numbers((3, 8, 5, 6, 14), seed=5))
    view = wide[1:, ::2, :, :, ::-2]
    expected = F.conv3d(double(view.get()), double(w)).numpy()
    equal(ops.conv3d(view, cp.asarray(w)), expected)
    grad = numbers(exact.shape, seed=6)
    old = numbers(w.shape, seed=7)
    out = cp.asarray(np.repeat(old, 2, 1))[:, ::2]
    ops.conv3d_weight(put(x), w.shape, put(grad), out=out, beta=2)
    first = ops.conv3d_weight(put(x), w.shape, put(grad))
    equal(out, first.get() + 2 * old)


@pytest.mark.parametrize("dtype", [np.dtype(np.float64), np.dtype(np.float16), BFLOAT16], ids=str)
def test_dtypes_of_volumes(device, dtype):
    draw = np.random.default_rng(0).standard_normal
    x, w = (draw(s).astype(dtype) for s in ((2, 5, 4, 5, 6), (7, 5, 3, 3, 3)))
    grad = draw((2, 7, 2, 3, 4)).astype(dtype)
    a, b, g = map(cp.asarray, (x, w, grad))
    args = [torch.tensor(np.float64(h)) for h in (x, w)]
    found = ops.conv3d(a, b)
    magnitude = F.conv3d(*(t.abs() for t in args)).numpy()
    check_close(found, F.conv3d(*args).numpy(), magnitude, 5 * 27, dtype)
    assert same_bits(ops.conv3d(a, b), found)
    args = [torch.tensor(np.float64(h)) for h in (grad, w)]
    found = ops.conv3d_input(x.shape, b, g)
    magnitude = F.conv_transpose3d(*(t.abs() for t in args)).numpy()
    check_close(found, F.conv_transpose3d(*args).numpy(), magnitude, 7 * 27, dtype)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_paddings_by_name_and_inputs_without_a_batch(device, ndim):
    x, w = numbers((2, 4, 5, 6, 7)[: ndim + 2]), numbers((6, 2, 4, 3, 2)[: ndim + 2], seed=1)
    a, b = cp.asarray(x), cp.asarray(w)
    for padding in ("same", "valid"):
        options = {"padding": padding, "groups": 2, "dilation": 2 if padding == "same" else 1}
        expected = THEIRS[ndim](double(x), double(w), **options).numpy()
        equal(FORWARD[ndim](a, b, **options), expected)
        equal(FORWARD[ndim](a[1], b, **options), expected[1])
    out = cp.zeros(expected.shape[1:])
    assert FORWARD[ndim](a[0], b, groups=2, out=out) is out
    equal(out, expected[0])
    grad = numbers(x.shape[:1] + w.shape[:1] + x.shape[2:], seed=2)
    tx, tw = double(x, requires_grad=True), double(w, requires_grad=True)
    THEIRS[ndim](tx, tw, padding="same", groups=2).backward(double(grad))
    g = cp.asarray(grad)
    equal(INPUT[ndim](x.shape, b, g, padding="same", groups=2), tx.grad.numpy())
    equal(WEIGHT[ndim](a, w.shape, g, padding="same", groups=2), tw.grad.numpy())
    tx, tw = double(x[1], requires_grad=True), double(w, requires_grad=True)
    THEIRS[ndim](tx, tw, padding="same", groups=2).backward(double(grad[1]))
    for out in (None, cp.empty(x.shape[1:])):
        dx = INPUT[ndim](x.shape[1:], b, g[1], padding="same", groups=2, out=out)
        assert out is None or dx is out
        equal(dx, tx.grad.numpy())
    equal(WEIGHT[ndim](a[1], w.shape, g[1], padding="same", groups=2), tw.grad.numpy())
    if ndim == 2:
        equal(ops.conv2d_bias(g[1]), grad[1].sum((1, 2)))
    with pytest.raises(ShapeError, match="input_shape"):
        INPUT[ndim](x.shape[1:], b, g, padding="same", groups=2)
    with pytest.raises(ShapeError, match="x has shape"):
        WEIGHT[ndim](a[1], w.shape, g, padding="same", groups=2)
    turned = numbers((4, 3, 4, 3, 2)[: ndim + 2], seed=3)
    options = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}
    expected = BACK[ndim](double(x), double(turned), **options).numpy()
    equal(TRANSPOSED[ndim](a, cp.asarray(turned), **options), expected)
    equal(TRANSPOSED[ndim](a[1], cp.asarray(turned), **options), expected[1])


def test_nothing_to_convolve(device):
    w = cp.zeros((3, 2, 2, 2, 2))
    assert ops.conv3d(cp.zeros((0, 2, 3, 4, 5)), w).shape == (0, 3, 2, 3, 4)
    assert ops.conv3d_input((0, 2, 3, 4, 5), w, cp.zeros((0, 3, 2, 3, 4))).shape == (0, 2, 3, 4, 5)
    found = ops.conv3d_weight(cp.zeros((0, 2, 3, 4, 5)), w.shape, cp.zeros((0, 3, 2, 3, 4)))
    equal(found, np.zeros(w.shape))
    assert ops.conv_transpose3d(cp.zeros((0, 3, 3, 4, 5)), w).shape == (0, 2, 4, 5, 6)


X, W = (2, 4, 3, 4, 5), (6, 4, 2, 2, 2)
REFUSED = [
    (ShapeError, r"conv3d: x .*\(4, 5\)", lambda x, w: ops.conv3d(x[0, 0, 0], w)),
    (ShapeError, r"conv3d: w .*\(4, 2, 2, 2\)", lambda x, w: ops.conv3d(x, w[0])),
    (ShapeError, "conv3d: .*groups=3", lambda x, w: ops.conv3d(x, w, groups=3)),
    (ShapeError, "conv3d: stride=", lambda x, w: ops.conv3d(x, w, stride=(1, 2))),
    (ShapeError, "conv3d: padding=", lambda x, w: ops.conv3d(x, w, padding=(1, 2, 3, 4))),
    (ShapeError, "conv3d: .*4 deep, larger", lambda x, w: ops.conv3d(x, w, dilation=3)),
    (ShapeError, "'same' needs", lambda x, w: ops.conv3d(x, w, padding="same", stride=2)),
    (ShapeError, "conv3d: bias", lambda x, w: ops.conv3d(x, w, x[0, 0, 0, 0])),
    (ShapeError, "conv3d: beta=", lambda x, w: ops.conv3d(x, w, beta=1)),
    (DefinitionError, "conv3d epilogue", lambda x, w: ops.conv3d(x, w, epilogue="y0 = z;")),
    (DefinitionError, "conv3d: .*algorithm", lambda x, w: ops.conv3d(x, w, algorithm="fast")),
    (DTypeError, "conv3d: .*ndarray", lambda x, w: ops.conv3d(x.get(), w)),
    (ShapeError, "conv3d_input: grad", lambda x, w: ops.conv3d_input(X, w, x)),
    (ShapeError, "input_shape=5", lambda x, w: ops.conv3d_input(5, w, x)),
    (ShapeError, "conv3d_weight: grad", lambda x, w: ops.conv3d_weight(x, W, x)),
    (ShapeError, "conv_transpose3d: x of shape", ops.conv_transpose3d),
    (
        ShapeError,
        "output_padding=1 must be less",
        lambda x, w: ops.conv_transpose3d(x, w[:4], output_padding=1),
    ),
    (
        ShapeError,
        "conv_transpose3d: padding='same'",
        lambda x, w: ops.conv_transpose3d(x, w[:4], padding="same"),
    ),
    (
        ShapeError,
        "conv_transpose1d: output_padding",
        lambda x, w: ops.conv_transpose1d(x[0, 0], w[0, :, 0], output_padding=(1, 1)),
    ),
]


@pytest.mark.parametrize(("error", "problem", "call"), REFUSED, ids=[r[1] for r in REFUSED])
def test_refusals(device, error, problem, call):
    with pytest.raises(error, match=problem) as caught:
        call(cp.zeros(X), cp.zeros(W))
    assert isinstance(caught.value, ClprimError)
