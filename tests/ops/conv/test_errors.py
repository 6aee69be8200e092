"""Every wrong convolution is refused by a `ClprimError` that says why, and writes nothing."""

import numpy as np
import pyopencl.array as cl_array
import pytest
from conv_cases import FORMATS
from odd_memory import broadcast_to
from support import Given, equal, numbers

import clprim as cp
from clprim import ops
from clprim.errors import ClprimError, DefinitionError, DeviceError, DTypeError, ShapeError

X, W, Y = (2, 6, 8, 9), (12, 6, 3, 3), (2, 12, 6, 7)


class Calls(Given):
    """Convolutions and gradients of what is given, but for what they are told."""

    def conv(self, x=None, w=None, bias=None, **options):
        options.setdefault("out", self.out)
        x, w = self.x if x is None else x, self.w if w is None else w
        return ops.conv2d(x, w, bias, **options)

    def input(self, shape=X, w=None, grad=None, **options):
        options.setdefault("out", self.dx)
        w, grad = self.w if w is None else w, self.grad if grad is None else grad
        return ops.conv2d_input(shape, w, grad, **options)

    def weight(self, x=None, shape=W, grad=None, **options):
        options.setdefault("out", self.dw)
        x, grad = self.x if x is None else x, self.grad if grad is None else grad
        return ops.conv2d_weight(x, shape, grad, **options)


@pytest.fixture
def c(device):
    return Calls(
        device,
        x=numbers(X, seed=1),
        w=numbers(W, seed=2),
        bias=numbers((12,), seed=3),
        grad=numbers(Y, seed=4),
        out=np.full(Y, 7, np.float32),
        dx=np.full(X, 7, np.float32),
        dw=np.full(W, 7, np.float32),
    )


RELU = "y0 = max(y0, 0);"

CALLS = [
    # shapes
    (ShapeError, r"conv2d: x .*\(8, 9\), expected 4 dimensions", lambda c: c.conv(c.x[0, 0])),
    (ShapeError, r"out= .*\(2, 12, 6, 7\)", lambda c: c.conv(c.x[0])),
    (ShapeError, "padding='same' needs a stride", lambda c: c.conv(padding="same", stride=2)),
    (ShapeError, "padding='all': .*same or valid", lambda c: c.conv(padding="all")),
    (
        ShapeError,
        r"conv2d: w .*\(12, 6, 3\), expected 4 dimensions",
        lambda c: c.conv(w=c.w[..., 0]),
    ),
    (ShapeError, r"needs .*\(12, 5, 3, 3\), got \(12, 6, 3, 3\)", lambda c: c.conv(c.x[:, :5])),
    (ShapeError, r"\(2, 6, 8, 9\) .*got \(12, 3, 3, 3\)", lambda c: c.conv(w=c.w[:, :3])),
    (ShapeError, r"conv2d: .*groups", lambda c: c.conv(groups=2)),
    (ShapeError, r"conv2d: .*groups", lambda c: c.conv(w=c.w[:, :1], groups=5)),
    (ShapeError, r"conv2d: .*groups", lambda c: c.conv(w=c.w[:7, :3], groups=2)),
    (ShapeError, r"conv2d: .*groups", lambda c: c.conv(groups=0)),
    (ShapeError, r"conv2d: .*groups", lambda c: c.conv(groups=-1)),
    (ShapeError, r"conv2d: .*larger", lambda c: c.conv(c.x[:, :, :2])),
    (ShapeError, r"conv2d: .*larger", lambda c: c.conv(dilation=4)),
    (ShapeError, r"conv2d: .*larger", lambda c: c.conv(c.x[..., :0])),
    (ShapeError, r"conv2d: .*bias.*\(11,\)", lambda c: c.conv(bias=c.bias[:11])),
    (ShapeError, r"conv2d: .*bias.*\(12, 1\)", lambda c: c.conv(bias=c.bias[:, None])),
    # stride, padding, dilation
    (ShapeError, "conv2d: .*stride", lambda c: c.conv(stride=0)),
    (ShapeError, "conv2d: .*stride", lambda c: c.conv(stride=(1, -2))),
    (ShapeError, "conv2d: .*stride", lambda c: c.conv(stride=(1, 2, 3))),
    (ShapeError, "conv2d: .*stride", lambda c: c.conv(stride=1.5)),
    (ShapeError, "conv2d: .*stride", lambda c: c.conv(stride="2")),
    (ShapeError, "conv2d: .*dilation", lambda c: c.conv(dilation=0)),
    (ShapeError, "conv2d: .*dilation", lambda c: c.conv(dilation=True)),
    (ShapeError, "conv2d: .*padding", lambda c: c.conv(padding=-1)),
    (ShapeError, "conv2d: .*padding", lambda c: c.conv(padding=(0, 0, 0))),
    (ShapeError, "conv2d: .*padding", lambda c: c.conv(padding=(0, 0, 0, -1))),
    (ShapeError, "conv2d: .*padding", lambda c: c.conv(padding=None)),
    # what is no array, and dtypes
    (DTypeError, r"x, got ndarray: upload it with cp.asarray", lambda c: c.conv(c.hosts["x"])),
    (DTypeError, r"w, got ndarray: upload it", lambda c: c.conv(w=c.hosts["w"])),
    (DTypeError, r"bias, got ndarray: upload it", lambda c: c.conv(bias=c.hosts["bias"])),
    (DTypeError, "bias, got float", lambda c: c.conv(bias=1.0)),
    # What integer sums would cut off.
    (
        DTypeError,
        "conv2d: bias is float32 beside sums of int32",
        lambda c: c.conv(c.x.astype("int32"), c.w.astype("int32"), c.bias, out=None),
    ),
    (
        DTypeError,
        "conv_transpose2d: bias is float32 beside sums of int32",
        lambda c: ops.conv_transpose2d(
            c.x.astype("int32"), cp.zeros((6, 12, 3, 3), np.int32), c.bias
        ),
    ),
    (
        DTypeError,
        "beta=0.5 beside int32: expected a whole number",
        lambda c: c.conv(
            c.x.astype("int32"), c.w.astype("int32"), out=cp.zeros(Y, np.int32), beta=0.5
        ),
    ),
    (
        DTypeError,
        "w0 of the epilogue=0.5 beside int32: expected a whole number",
        lambda c: c.conv(
            c.x.astype("int32"),
            c.w.astype("int32"),
            out=cp.zeros(Y, np.int32),
            epilogue="y0 = y0 * w0;",
            epilogue_args=(0.5,),
        ),
    ),
    (DTypeError, "out.*, got ndarray", lambda c: c.conv(out=c.hosts["out"])),
    (DTypeError, "x: dtype complex64 is not supported", lambda c: c.conv(c.complex("x"))),
    (DTypeError, "w: dtype complex64 is not supported", lambda c: c.conv(w=c.complex("w"))),
    (DTypeError, "cannot multiply int32 with float32", lambda c: c.conv(c.x.astype("int32"))),
    (DTypeError, "cannot multiply float32 with int8", lambda c: c.conv(w=c.w.astype("int8"))),
    (DTypeError, "bool", lambda c: c.conv(c.x.astype(bool), c.w.astype(bool))),
    # out= and beta=
    (
        ShapeError,
        r"out=.*\(2, 12, 6, 6\), expected \(2, 12, 6, 7\)",
        lambda c: c.conv(out=c.out[..., :6]),
    ),
    (ShapeError, r"out=.*\(2, 12, 42\)", lambda c: c.conv(out=c.out.reshape(2, 12, 42))),
    (DTypeError, "out=.*int32", lambda c: c.conv(out=cp.zeros(Y, np.int32))),
    (ShapeError, "several elements", lambda c: c.conv(out=broadcast_to(c.out[:, :1], Y))),
    (DTypeError, "a number for beta, got '1'", lambda c: c.conv(beta="1")),
    (DTypeError, "a number for beta, got None", lambda c: c.conv(beta=None)),
    (DTypeError, "x, got int", lambda c: c.conv(3, beta=1)),
    (ShapeError, "beta=1 needs out=", lambda c: c.conv(out=None, beta=1)),
    # algorithm=
    (DefinitionError, "'fastest'", lambda c: c.conv(algorithm="fastest")),
    (DTypeError, "a string for algorithm, got None", lambda c: c.conv(algorithm=None)),
    (DTypeError, "for algorithm, got .'panels'", lambda c: c.conv(algorithm=["panels"])),
    # epilogue
    (DefinitionError, r"z0(.|\n)*\^", lambda c: c.conv(epilogue="y0 = y0 + z0;")),
    (DefinitionError, "bracket|parenthesis|closed", lambda c: c.conv(epilogue="y0 = (y0;")),
    (DefinitionError, "y1", lambda c: c.conv(epilogue="y1 = y0;")),
    (
        DefinitionError,
        r"holds 0 arguments, the epilogue names 1 \(x0\)",
        lambda c: c.conv(epilogue="y0 += x0;"),
    ),
    (
        DefinitionError,
        r"holds 1 argument, the epilogue names 0 \(none\)",
        lambda c: c.conv(epilogue=RELU, epilogue_args=(c.grad,)),
    ),
    (DefinitionError, "without an epilogue", lambda c: c.conv(epilogue_args=(c.grad,))),
    (
        ShapeError,
        r"\(12,\)",
        lambda c: c.conv(epilogue="y0 += x0;", epilogue_args=(c.bias,)),
    ),
    (
        ShapeError,
        r"\(3, 1, 1, 1, 1\)|broadcast",
        lambda c: c.conv(epilogue="y0 += x0;", epilogue_args=(cp.zeros((3, 1, 1, 1, 1)),)),
    ),
    (
        DTypeError,
        "got ndarray",
        lambda c: c.conv(epilogue="y0 += x0;", epilogue_args=(c.hosts["grad"],)),
    ),
    # other contexts
    (DeviceError, "x .*another OpenCL context", lambda c: c.conv(c.foreign("x"))),
    (DeviceError, "w .*another OpenCL context", lambda c: c.conv(w=c.foreign("w"))),
    (DeviceError, "bias .*another OpenCL context", lambda c: c.conv(bias=c.foreign("bias"))),
    (DeviceError, "another OpenCL context", lambda c: c.conv(out=c.foreign("out"))),
    # packed weights
    (ShapeError, "groups", lambda c: c.conv(w=ops.pack_weight(c.w[:, :3], groups=2))),
    (ShapeError, r"got \(12, 3, 3, 3\)", lambda c: c.conv(w=ops.pack_weight(c.w[:, :3]))),
    (ShapeError, "pack_weight: .*groups", lambda c: ops.pack_weight(c.w, groups=0)),
    (ShapeError, "pack_weight: .*groups", lambda c: ops.pack_weight(c.w, groups=5)),
    (DTypeError, "pack_weight: .*got ndarray", lambda c: ops.pack_weight(c.hosts["w"])),
    # gradients
    (ShapeError, r"conv2d_input: .*\(2, 12, 6, 7\)", lambda c: c.input((2, 6, 8, 8))),
    (ShapeError, r"conv2d_input: .*\(2, 12, 6, 7\)", lambda c: c.input(stride=2)),
    (ShapeError, r"conv2d_input: .*got \(12, 6, 3, 3\)", lambda c: c.input((2, 5, 8, 9), out=None)),
    (ShapeError, "conv2d_input: ", lambda c: c.input((6, 8, 9), out=None)),
    (ShapeError, "conv2d_input: ", lambda c: c.input((2, 6, 8, -9), out=None)),
    (ShapeError, "conv2d_input: .*groups", lambda c: c.input(groups=5)),
    (ShapeError, r"conv2d_input: .*out=.*\(2, 5, 8, 9\)", lambda c: c.input(out=c.dx[:, :5])),
    (DTypeError, "grad, got ndarray", lambda c: c.input(grad=c.hosts["grad"])),
    (DTypeError, "int32", lambda c: c.input(grad=c.grad.astype("int32"))),
    (DeviceError, "another OpenCL context", lambda c: c.input(grad=c.foreign("grad"))),
    (ShapeError, r"conv2d_weight: .*\(2, 12, 6, 7\)", lambda c: c.weight(shape=(12, 6, 3, 4))),
    (ShapeError, r"conv2d_weight: .*got \(12, 5, 3, 3\)", lambda c: c.weight(shape=(12, 5, 3, 3))),
    (ShapeError, r"conv2d_weight: ", lambda c: c.weight(shape=(12, 6, 3), out=None)),
    (ShapeError, "conv2d_weight: .*groups", lambda c: c.weight(groups=5)),
    (ShapeError, r"conv2d_weight: .*\(1, 12, 6, 7\)", lambda c: c.weight(grad=c.grad[:1])),
    (ShapeError, "conv2d_weight: .*out=", lambda c: c.weight(out=c.dw[:6])),
    (DTypeError, "x, got ndarray", lambda c: c.weight(c.hosts["x"])),
    (DTypeError, "int32", lambda c: c.weight(grad=c.grad.astype("int32"))),
    (DeviceError, "another OpenCL context", lambda c: c.weight(c.foreign("x"))),
    (ShapeError, "overlap", lambda c: c.weight(shape=W, out=c.x.reshape(-1)[:648].reshape(*W))),
    (ShapeError, "overlap", lambda c: c.input(out=c.grad.reshape(-1)[:864].reshape(*X))),
]


@pytest.mark.parametrize(
    ("error", "problem", "call"),
    CALLS,
    ids=[f"{n}: {text}" for n, (_, text, _) in enumerate(CALLS)],
)
def test_a_wrong_call_is_refused_and_writes_nothing(c, error, problem, call):
    c.refused(error, problem, call)


def test_a_wrong_call_is_refused_after_a_right_one(c):
    # What is remembered of a call must not let one pass that only looks like it.
    expected = c.conv(out=None, stride=1, padding=0, groups=1).get()
    for name, value in {"stride": 1.0, "padding": 0.0, "groups": True, "dilation": True}.items():
        with pytest.raises(ShapeError, match=f"conv2d: {name}="):
            c.conv(**{name: value})
    for name in ("stride", "padding", "dilation", "groups"):
        for value in ([[1]], {}, np.array([1, 1, 1])):
            with pytest.raises(ShapeError, match=f"conv2d: {name}="):
                c.conv(**{name: value})
    with pytest.raises(DeviceError):
        c.conv(out=c.foreign("out"))
    one, two = cp.zeros(2000), cp.zeros(2000)
    x = one[:864].reshape(*X)
    c.conv(x, out=two[:1008].reshape(*Y))
    with pytest.raises(ShapeError, match="overlap"):
        c.conv(x, out=one[:1008].reshape(*Y))
    equal(c.conv(out=None), expected)
    c.check()


TRANSPOSED = [
    (ShapeError, r"\(8, 9\)", lambda c: ops.conv_transpose2d(c.x[0, 0], c.w)),
    (ShapeError, r"x.*\(9,\)", lambda c: ops.conv_transpose2d(c.x[0, 0, 0], c.w)),
    (ShapeError, r"w.*\(3, 3\)", lambda c: ops.conv_transpose2d(c.x[:, :3], c.w[0, 0])),
    (DTypeError, "x, got int", lambda c: ops.conv_transpose2d(3, c.w, out=c.x, beta=1)),
    (ShapeError, r"\(2, 6, 8, 9\).*\(12, 6, 3, 3\)", lambda c: ops.conv_transpose2d(c.x, c.w)),
    (ShapeError, "groups", lambda c: ops.conv_transpose2d(c.grad, c.w, groups=5)),
    (ShapeError, "groups", lambda c: ops.conv_transpose2d(c.grad, c.w, groups=0)),
    (ShapeError, r"bias.*\(12,\)", lambda c: ops.conv_transpose2d(c.grad, c.w, c.bias)),
    (ShapeError, "output_padding", lambda c: ops.conv_transpose2d(c.grad, c.w, output_padding=1)),
    (
        ShapeError,
        "output_padding",
        lambda c: ops.conv_transpose2d(c.grad, c.w, stride=2, output_padding=-1),
    ),
    (ShapeError, "stride", lambda c: ops.conv_transpose2d(c.grad, c.w, stride=0)),
    (ShapeError, "padding", lambda c: ops.conv_transpose2d(c.grad, c.w, padding=7)),
    (DTypeError, "x, got ndarray", lambda c: ops.conv_transpose2d(c.hosts["grad"], c.w)),
    (DTypeError, "int32", lambda c: ops.conv_transpose2d(c.grad, c.w.astype("int32"))),
    (DeviceError, "another OpenCL", lambda c: ops.conv_transpose2d(c.foreign("grad"), c.w)),
]


@pytest.mark.parametrize(
    ("error", "problem", "call"),
    TRANSPOSED,
    ids=[f"{n}: {text}" for n, (_, text, _) in enumerate(TRANSPOSED)],
)
def test_a_wrong_transposed_convolution_is_refused(c, error, problem, call):
    for _ in range(2):
        with pytest.raises(error, match=f"conv_transpose2d: .*{problem}"):
            call(c)
    c.check()


ONE = [
    (ShapeError, r"conv1d: .*\(2, 6, 8, 9\)", lambda c, x, w: ops.conv1d(c.x, w)),
    (ShapeError, r"conv1d: .*\(12, 6, 3, 3\)", lambda c, x, w: ops.conv1d(x, c.w)),
    (ShapeError, r"conv1d: .*\(2, 5, 9\)", lambda c, x, w: ops.conv1d(x[:, :5], w)),
    (ShapeError, "conv1d: .*larger", lambda c, x, w: ops.conv1d(x[..., :2], w)),
    (ShapeError, "conv1d: stride=0", lambda c, x, w: ops.conv1d(x, w, stride=0)),
    (ShapeError, "conv1d: padding=", lambda c, x, w: ops.conv1d(x, w, padding=(1, 1, 1))),
    (ShapeError, "conv1d: padding=None", lambda c, x, w: ops.conv1d(x, w, padding=None)),
    (DTypeError, "conv1d: .*got ndarray", lambda c, x, w: ops.conv1d(c.hosts["x"][0], w)),
]


@pytest.mark.parametrize(("error", "problem", "call"), ONE, ids=[text for _, text, _ in ONE])
def test_a_wrong_convolution_in_one_dimension_is_refused(c, error, problem, call):
    with pytest.raises(error, match=problem):
        call(c, c.x[:, :, 0], c.w[:, :, 0])


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_result_over_its_operands_is_refused(device, memory_format):
    # Every output reads many inputs: also the very same elements cannot be shared.
    x = cp.asarray(numbers((2, 6, 8, 9)), memory_format=memory_format)
    w = cp.asarray(numbers((6, 6, 3, 3), seed=1))
    before = x.get()
    for out in (x, x[:, ::-1]):
        with pytest.raises(ShapeError, match="overlap"):
            ops.conv2d(x, w, padding=1, out=out)
    row = cp.asarray(numbers((700,), seed=2))
    v = row[:324].reshape(6, 6, 3, 3)
    with pytest.raises(ShapeError, match="overlap"):
        ops.conv2d(x[:1], v, out=row[200 : 200 + 6 * 6 * 7].reshape(1, 6, 6, 7))
    equal(row, numbers((700,), seed=2))
    equal(x, before)


def test_one_device_array_of_pyopencls_own_is_as_good(device):
    x, w = numbers(X, seed=1), numbers(W, seed=2)
    plain = [cl_array.to_device(device.queue, h) for h in (x, w)]
    found = ops.conv2d(*plain)
    equal(found, ops.conv2d(cp.asarray(x), cp.asarray(w)).get())


def test_a_strategy_that_cannot_is_refused_not_replaced(device):
    # Whatever `algorithms` leaves out for one convolution of all the names of others.
    cases = [
        ((2, 16, 8, 8), (16, 16, 3, 3), {}),
        ((2, 16, 8, 8), (16, 16, 1, 1), {}),
        ((2, 16, 8, 8), (16, 1, 3, 3), {"groups": 16}),
        ((1, 3, 9, 8), (5, 3, 7, 7), {"padding": 3, "stride": 2, "dilation": 2}),
    ]
    arrays = [(cp.zeros(x), cp.zeros(w), options) for x, w, options in cases]
    able = [set(ops.conv2d.algorithms(x, w, **options)) for x, w, options in arrays]
    for (x, w, options), mine in zip(arrays, able, strict=True):
        for name in set().union(*able) - mine:
            with pytest.raises(ClprimError, match=name):
                ops.conv2d(x, w, **options, algorithm=name)
