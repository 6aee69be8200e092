"""Every wrong product is refused by a `ClprimError` that says why, before anything is written."""

import math

import numpy as np
import pyopencl.array as cl_array
import pytest
from odd_memory import broadcast_to
from support import Given, equal, numbers

import clprim as cp
from clprim import ops
from clprim.errors import DefinitionError, DeviceError, DTypeError, ShapeError


class Calls(Given):
    """A product of what is given, but for what it is told."""

    def __call__(self, a=None, b=None, **options):
        options.setdefault("out", self.out)
        a, b = self.a if a is None else a, self.b if b is None else b
        return ops.matmul(a, b, **options)

    def whole(self, **options):
        """The same of integers."""
        out = cp.zeros((4, 6), np.int32)
        try:
            return ops.matmul(self.a.astype("int32"), self.b.astype("int32"), out=out, **options)
        finally:
            assert not out.get().any()


@pytest.fixture
def c(device):
    out = np.full((4, 6), 7, np.float32)
    a, b, bias = numbers((4, 5), seed=1), numbers((5, 6), seed=2), numbers((6,), seed=3)
    return Calls(device, a=a, b=b, bias=bias, out=out)


CALLS = [
    # shapes
    (ShapeError, r"\(4, 5\).*\(6, 5\)", lambda c: c(b=cp.zeros((6, 5)))),
    (ShapeError, r"\(4, 5\).*\(5, 6\)", lambda c: c(transpose_a=True)),
    (ShapeError, r"\(4, 5\).*\(5, 6\)", lambda c: c(transpose_b=True)),
    (
        ShapeError,
        r"\(3, 4, 5\).*\(2, 5, 6\)",
        lambda c: c(cp.zeros((3, 4, 5)), cp.zeros((2, 5, 6))),
    ),
    (ShapeError, r"\(4,\).*\(5, 6\)", lambda c: c(cp.zeros(4))),
    (ShapeError, r"\(\)", lambda c: c(cp.zeros(()))),
    (ShapeError, r"\(\)", lambda c: c(b=cp.zeros(()))),
    (ShapeError, r"bias.*\(5,\)", lambda c: c(bias=c.bias[:5])),
    (ShapeError, r"bias.*\(4, 1\)", lambda c: c(bias=cp.zeros((4, 1)))),
    # what is no array, and dtypes
    (DTypeError, r"a, got ndarray: upload it with cp.asarray", lambda c: c(c.hosts["a"])),
    (DTypeError, r"b, got ndarray: upload it", lambda c: c(b=c.hosts["b"])),
    (DTypeError, "bias, got ndarray: upload it", lambda c: c(bias=c.hosts["bias"])),
    (DTypeError, "b, got float", lambda c: c(b=2.0)),
    (DTypeError, "out.*, got ndarray", lambda c: c(out=c.hosts["out"])),
    (DTypeError, "out is float32, expected complex64", lambda c: c(c.complex("a"))),
    (DTypeError, "out is float32, expected complex64", lambda c: c(b=c.complex("b"))),
    (DTypeError, "int32", lambda c: c(c.a.astype("int32"))),
    (DTypeError, "int8", lambda c: c(c.a.astype("int8"))),
    (DTypeError, "bool", lambda c: c(c.a.astype(bool), c.b.astype(bool))),
    # out= and beta=
    (ShapeError, r"out=.*\(4, 5\), expected \(4, 6\)", lambda c: c(out=c.out[:, :5])),
    (ShapeError, r"out=.*\(1, 4, 6\), expected \(4, 6\)", lambda c: c(out=c.out[None])),
    (DTypeError, "out=.*int32", lambda c: c(out=cp.zeros((4, 6), np.int32))),
    (ShapeError, "several elements", lambda c: c(out=broadcast_to(c.out[:1], (4, 6)))),
    (ShapeError, "overlap", lambda c: c(c.out[:, :5])),
    (ShapeError, "overlap", lambda c: c(c.out, cp.zeros((6, 6)))),
    (ShapeError, "overlap", lambda c: c(bias=c.out[0])),
    (DTypeError, "a number for beta, got '1'", lambda c: c(beta="1")),
    (DTypeError, "beta=0.5 beside int32: expected a whole", lambda c: c.whole(beta=0.5)),
    (DTypeError, "beta=inf beside int32: expected a whole", lambda c: c.whole(beta=math.inf)),
    # What an integer sum would cut off.
    (DTypeError, "bias is float32 beside sums of int32", lambda c: c.whole(bias=c.bias)),
    (
        DTypeError,
        "bias is int64 beside sums of int32",
        lambda c: c.whole(bias=cp.zeros(6, np.int64)),
    ),
    (
        DTypeError,
        "bias is float32 beside sums of int32",
        lambda c: ops.linear(*(cp.zeros((6, 6), np.int32),) * 2, c.bias),
    ),
    (ShapeError, "beta=1 needs out=", lambda c: c(out=None, beta=1)),
    # epilogue
    (DefinitionError, r"z0(.|\n)*\^", lambda c: c(epilogue="y0 = y0 + z0;")),
    (DefinitionError, "y1", lambda c: c(epilogue="y1 = y0;")),
    (
        DefinitionError,
        r"holds 0 arguments, the epilogue names 1 \(x0\)",
        lambda c: c(epilogue="y0 += x0;"),
    ),
    (DefinitionError, "without an epilogue", lambda c: c(epilogue_args=(c.bias,))),
    (
        ShapeError,
        r"\(5,\)",
        lambda c: c(epilogue="y0 += x0;", epilogue_args=(c.bias[:5],)),
    ),
    (
        DTypeError,
        "got ndarray",
        lambda c: c(epilogue="y0 += x0;", epilogue_args=(c.hosts["bias"],)),
    ),
    # other contexts
    (DeviceError, "a .*another OpenCL context", lambda c: c(c.foreign("a"))),
    (DeviceError, "b .*another OpenCL context", lambda c: c(b=c.foreign("b"))),
    (DeviceError, "bias .*another OpenCL context", lambda c: c(bias=c.foreign("bias"))),
    (DeviceError, "another OpenCL context", lambda c: c(out=c.foreign("out"))),
]


@pytest.mark.parametrize(
    ("error", "problem", "call"),
    CALLS,
    ids=[f"{n}: {text}" for n, (_, text, _) in enumerate(CALLS)],
)
def test_a_wrong_product_is_refused_and_writes_nothing(c, error, problem, call):
    c.refused(error, problem, call, "matmul")


def test_arrays_of_pyopencls_own_are_as_good(device):
    a, b = numbers((4, 5)), numbers((5, 6), seed=1)
    plain = [cl_array.to_device(device.queue, h) for h in (a, b)]
    equal(ops.matmul(*plain), a @ b)
