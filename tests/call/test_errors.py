"""Every wrong call is refused by a `ClprimError` that says why, before anything is written."""

import dataclasses

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops
from clprim.call import launch as launch_module
from clprim.call import signature
from clprim.errors import BuildError, ClprimError, DeviceError, DTypeError, ShapeError
from clprim.runtime import device as device_module

AXPB = cp.Pointwise("y0 = x0 * w0 + x1;")
BOTH = cp.Pointwise("y0 = x0 + 1; y1 = x0 + 2;")
SUM = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
TWO = cp.Reduction(
    "y0 = x0 * w0;",
    init="reduce_y0 = 0; reduce_y1 = 0;",
    step="reduce_y0 += y0; reduce_y1 += x1;",
)
SHAPE = (3, 4)


class Calls:
    """What the wrong calls are made with; `check` tells whether any of it was written to."""

    def __init__(self, device):
        self.host = numbers(SHAPE, seed=1)
        self.x = cp.asarray(self.host)
        self.y = cp.asarray(self.host)
        self.out = cp.full(SHAPE, 7.0)
        self.row = cp.full(4, 7.0)
        self.column = cp.full(3, 7.0)
        self.whole = cp.full(SHAPE, 7, np.int32)
        self.device = device

    @property
    def foreign(self):
        self.context = cl.Context([self.device.cl])  # some drivers want it kept alive
        return cl_array.to_device(cl.CommandQueue(self.context), self.host)

    @property
    def complex(self):
        return cl_array.to_device(self.device.queue, self.host.astype(np.complex64))

    @property
    def swapped(self):
        return cl_array.to_device(self.device.queue, self.host.astype(">f4"))

    @property
    def dates(self):
        return cl_array.to_device(self.device.queue, self.host.astype("M8[s]"))

    def check(self):
        equal(self.x, self.host)
        equal(self.y, self.host)
        equal(self.out, np.full(SHAPE, 7))
        equal(self.row, np.full(4, 7))
        equal(self.column, np.full(3, 7))
        equal(self.whole, np.full(SHAPE, 7))


@pytest.fixture
def c(device):
    return Calls(device)


CALLS = [
    # number of arguments
    (ShapeError, r"expected 3 arguments \(x0, x1, w0\), got 1", lambda c: AXPB(c.x, out=c.out)),
    (ShapeError, r"expected 3 arguments .* got 4", lambda c: AXPB(c.x, c.y, 1, 2, out=c.out)),
    (ShapeError, r"expected 3 arguments .* got 0", lambda c: AXPB(out=c.out)),
    (ShapeError, r"expected 1 argument \(x0\), got 2", lambda c: SUM(c.x, 1, axis=0, out=c.row)),
    (ShapeError, "give shape= or out= for the shape", lambda c: cp.Pointwise("y0 = 1;")()),
    # what is no array, what is no number
    (
        DTypeError,
        r"for x0, got ndarray: upload it with cp",
        lambda c: AXPB(c.host, c.y, 1, out=c.out),
    ),
    (DTypeError, "for x1, got list", lambda c: AXPB(c.x, [1], 1, out=c.out)),
    (DTypeError, "for x0, got float", lambda c: AXPB(1.0, c.y, 1, out=c.out)),
    (DTypeError, "for x0, got NoneType", lambda c: SUM(None, out=c.row)),
    (DTypeError, "run-time scalar, got Array", lambda c: AXPB(c.x, c.y, c.x, out=c.out)),
    (DTypeError, "run-time scalar, got str", lambda c: AXPB(c.x, c.y, "1", out=c.out)),
    (DTypeError, "y0 is complex64, which out=", lambda c: AXPB(c.x, c.y, 1j, out=c.out)),
    (DTypeError, "run-time scalar, got NoneType", lambda c: AXPB(c.x, c.y, None, out=c.out)),
    # shapes
    (
        ShapeError,
        r"shapes \(3, 4\), \(3,\) do not broadcast together",
        lambda c: AXPB(c.x, c.column, 1, out=c.out),
    ),
    (ShapeError, "do not broadcast", lambda c: TWO(c.x, c.column, 1, axis=0, out=(c.row, c.row))),
    # out=
    (
        ShapeError,
        r"out= for y0 has shape \(4,\), expected \(3, 4\)",
        lambda c: AXPB(c.x, c.y, 1, out=c.row),
    ),
    (ShapeError, r"has shape \(4,\), expected \(3,\)", lambda c: SUM(c.x, axis=1, out=c.row)),
    (
        ShapeError,
        r"has shape \(4,\), expected \(1, 4\)",
        lambda c: SUM(c.x, axis=0, keepdims=True, out=c.row),
    ),
    (ShapeError, r"has shape \(4,\), expected \(\)", lambda c: SUM(c.x, out=c.row)),
    (
        ShapeError,
        "out= holds 2 arrays, expected 1",
        lambda c: AXPB(c.x, c.y, 1, out=(c.out, c.out)),
    ),
    (ShapeError, "out= holds 1 array, expected 2", lambda c: BOTH(c.x, out=c.out)),
    (ShapeError, "out= holds 0 arrays, expected 2", lambda c: BOTH(c.x, out=())),
    (DTypeError, "for out= of y0, got ndarray", lambda c: AXPB(c.x, c.y, 1, out=np.zeros(SHAPE))),
    (DTypeError, "for out= of y1, got NoneType", lambda c: BOTH(c.x, out=(c.out, None))),
    (
        DTypeError,
        "y0 is float32, which out= of int32 cannot hold; give result_type=",
        lambda c: AXPB(c.x, c.y, 1, out=c.whole),
    ),
    (DTypeError, "y0 is float64, which out= of int32", lambda c: c.whole.__itruediv__(2)),
    # overlap
    (
        ShapeError,
        r"out= for y0 \(shape \(2, 4\), strides \(16, 4\)\) overlaps x1 .* the very same elements",
        lambda c: AXPB(c.out[1:], c.x[1:], 1, out=c.x[:-1]),
    ),
    (ShapeError, "^clamp: .* overlaps x0", lambda c: ops.clamp(c.x[1:], 0, 1, out=c.x[:-1])),
    (ShapeError, "^normalize: .* overlaps x0", lambda c: ops.normalize(c.x[1:], out=c.x[:-1])),
    (
        ShapeError,
        "^matmul: .* overlaps x0 .* read at other coordinates",
        lambda c: ops.matmul(c.x[:2, :2], c.y[:2, :2], out=c.x[:2, :2]),
    ),
    (ShapeError, "overlaps x0", lambda c: AXPB(c.x[::-1], c.y, 1, out=c.x)),
    (ShapeError, "overlaps x0", lambda c: AXPB(c.x[0], c.y, 1, out=c.x)),
    (ShapeError, "overlaps x0", lambda c: SUM(c.x, axis=1, out=c.x[:, 0])),
    (ShapeError, "overlaps x0", lambda c: SUM(c.x, axis=0, keepdims=True, out=c.x[1:2])),
    (
        ShapeError,
        "y1 .* overlaps y0 .* results must lie apart",
        lambda c: BOTH(c.x, out=(c.out, c.out)),
    ),
    (ShapeError, "y1 .* overlaps y0", lambda c: BOTH(c.x[1:], out=(c.out[1:], c.out[:-1]))),
    (ShapeError, "y0 .* overlaps x0", lambda c: BOTH(c.x[1:], out=(c.x[:-1], c.out[1:]))),
    (ShapeError, "several elements in one place", lambda c: AXPB(c.x, c.y, 1, out=repeated(c.row))),
    # dtypes
    (
        DTypeError,
        "y0 is complex64, which out=",
        lambda c: AXPB(c.complex, c.y, 1, out=c.out),
    ),
    (DTypeError, "y0 is complex64, which out=", lambda c: SUM(c.complex, axis=0, out=c.row)),
    (
        DTypeError,
        "x0: dtype >f4 is not supported",
        lambda c: AXPB(c.swapped, c.y, 1, out=c.out),
    ),
    (DTypeError, r"x1: dtype datetime64\[s\] is not", lambda c: AXPB(c.x, c.dates, 1, out=c.out)),
    (
        DTypeError,
        "y0 is complex64, which out=",
        lambda c: AXPB(c.x, c.y, np.complex64(1), out=c.out),
    ),
    (
        DTypeError,
        "y1: dtype >f4 is not",
        lambda c: BOTH(c.x, out=(c.out, c.swapped)),
    ),
    # contexts
    (
        DeviceError,
        r"x0 of shape \(3, 4\) lives on another OpenCL context",
        lambda c: AXPB(c.foreign, c.y, 1, out=c.out),
    ),
    (
        DeviceError,
        "x1 of shape .* another OpenCL context",
        lambda c: AXPB(c.x, c.foreign, 1, out=c.out),
    ),
    (
        DeviceError,
        "out= of y0 of shape .* another OpenCL context",
        lambda c: AXPB(c.x, c.y, 1, out=c.foreign),
    ),
    (DeviceError, "another OpenCL context", lambda c: SUM(c.foreign, axis=0, out=c.row)),
    (DeviceError, "another OpenCL context", lambda c: c.x + c.foreign),
    # axes
    (ShapeError, "axis 2 is out of bounds for 2 dimensions", lambda c: SUM(c.x, axis=2, out=c.row)),
    (ShapeError, "axis -3 is out of bounds", lambda c: SUM(c.x, axis=(0, -3), out=c.row)),
    (ShapeError, "axis -2 is named twice", lambda c: SUM(c.x, axis=(0, -2), out=c.row)),
    (ShapeError, "axis='0' is not an integer", lambda c: SUM(c.x, axis="0", out=c.row)),
    (ShapeError, r"axis=1\.0 is not an integer", lambda c: SUM(c.x, axis=1.0, out=c.column)),
    # alpha and beta
    (ShapeError, r"beta=1 needs out=, whose old value", lambda c: SUM(c.x, beta=1)),
    (ShapeError, r"beta=\(0, 1\) needs out=", lambda c: TWO(c.x, c.y, 1, beta=(0, 1))),
    (
        ShapeError,
        "alpha= holds 2 numbers for 1 results",
        lambda c: SUM(c.x, axis=0, out=c.row, alpha=(1, 2)),
    ),
    (ShapeError, "beta= holds 1 numbers for 2 results", lambda c: TWO(c.x, c.y, 1, beta=[0])),
    (
        DTypeError,
        "alpha= expects a number, got str",
        lambda c: SUM(c.x, axis=0, out=c.row, alpha="2"),
    ),
    (
        DTypeError,
        "beta= expects a number, got NoneType",
        lambda c: SUM(c.x, axis=0, out=c.row, beta=None),
    ),
    (
        DTypeError,
        "alpha= expects a number, got complex",
        lambda c: SUM(c.x, axis=0, out=c.row, alpha=2j),
    ),
    (
        DTypeError,
        "alpha= expects a number, got complex64",
        lambda c: SUM(c.x, axis=0, out=c.row, alpha=np.complex64(2)),
    ),
    (
        DTypeError,
        "alpha= expects a number, got ndarray",
        lambda c: SUM(c.x, axis=0, out=c.row, alpha=np.ones(4)),
    ),
    # positions
    (
        ShapeError,
        r"coord\(2\) is out of bounds for a broadcast shape of 2",
        lambda c: cp.Pointwise("y0 = x0 + coord(2);")(c.x, out=c.out),
    ),
    (
        ShapeError,
        r"size\(-3\) is out of bounds",
        lambda c: cp.Pointwise("y0 = x0 + size(-3);")(c.x, out=c.out),
    ),
]


def repeated(row):
    """Rows that all lie in the same place."""
    return cl_array.Array(row.queue, SHAPE, np.float32, strides=(0, 4), data=row.base_data)


@pytest.mark.parametrize(("error", "problem", "call"), CALLS, ids=[text for _, text, _ in CALLS])
def test_a_wrong_call_is_refused_and_writes_nothing(c, error, problem, call):
    for _ in range(2):  # the second time as well
        with pytest.raises(error, match=problem) as caught:
            call(c)
        assert isinstance(caught.value, ClprimError)
    c.check()


def test_a_right_call_does_not_excuse_a_wrong_one(c):
    AXPB(c.x, c.y, 1, out=cp.empty(SHAPE))
    SUM(c.x, axis=1)
    for error, problem, call in CALLS:
        with pytest.raises(error, match=problem):
            call(c)
    c.check()


@pytest.mark.parametrize("error", [ShapeError, DTypeError, DeviceError, BuildError])
def test_errors_are_pythons_as_well(error):
    python = {ShapeError: ValueError, DTypeError: TypeError}.get(error, RuntimeError)
    assert issubclass(error, python)
    assert issubclass(error, ClprimError)


# --- numbers that do not fit, whatever was called before --------------------------------------

SCALE = cp.Pointwise("y0 = x0 + w0;")


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("uint8", 300), ("uint8", -1), ("int16", 2**15), ("int64", 2**63), ("uint64", -1)],
)
def test_an_int_that_does_not_fit_is_refused_every_time(device, dtype, value):
    x, out = cp.zeros(5, dtype), cp.full(5, 7, dtype)
    with pytest.raises(DTypeError, match=f"{value} is out of bounds for {dtype}"):
        SCALE(x, value, out=out)
    SCALE(x, 1, out=cp.empty(5, dtype))
    with pytest.raises(DTypeError, match=f"{value} is out of bounds for {dtype}"):
        SCALE(x, value, out=out)
    equal(out, np.full(5, 7))


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_a_factor_that_does_not_fit_is_refused(device, name):
    x, out = cp.zeros((3, 5), np.int32), cp.full(3, 7, np.int64)
    SUM(x, axis=1, out=cp.empty(3, np.int64), **{name: 2})
    with pytest.raises(ClprimError):
        SUM(x, axis=1, out=out, **{name: 2**70})
    equal(out, np.full(3, 7))


# --- the compiler's complaints ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("snippet", "preamble", "place", "words"),
    [
        (
            "y0 = 1;\n  y0 += twice(x0, 1);  // one too many",
            "float twice(float a) { return 2 * a; }",
            "  expr, line 2:\n      y0 += twice(x0, 1);",
            "too many arguments",
        ),
        (
            "y0 = first(x0);",
            "float first(float2 a) { return a.x; }\nfloat other(float a) { return b; }",
            "  preamble, line 2:\n    float other(float a) { return b; }",
            "'b'",
        ),
        ("y0 = x0 % 2;", "", "  expr, line 1:\n    y0 = x0 % 2;", "invalid operands"),
    ],
)
def test_what_only_the_compiler_sees_is_told_in_the_snippets_lines(
    device, snippet, preamble, place, words
):
    operator = cp.Pointwise(snippet, preamble=preamble)
    out = cp.full(5, 7.0)
    for _ in range(2):
        with pytest.raises(BuildError) as caught:
            operator(cp.zeros(5), out=out)
        message = str(caught.value)
        assert message.startswith("Pointwise '")
        assert f"the OpenCL compiler refused it on {device.name}" in message
        assert place in message
        assert words in message
        assert "kernel" in caught.value.source
        assert caught.value.log
    equal(out, np.full(5, 7))


@pytest.mark.parametrize("part", ["expr", "init", "step", "combine", "finalize"])
def test_every_part_of_a_reduction_is_named(device, part):
    parts = {
        "expr": "y0 = x0;",
        "init": "reduce_y0 = 0;",
        "step": "reduce_y0 += y0;",
        "combine": "reduce_y0 += other_y0;",
        "finalize": "y0 = reduce_y0;",
    }
    # A fault only a compiler sees, on the third line.
    parts[part] = "// one\n" + parts[part] + "\nint t = one(1, 2);"
    operator = cp.Reduction(parts.pop("expr"), **parts, preamble="int one(int a) { return a; }")
    out = cp.full(2, 7.0)
    with pytest.raises(BuildError) as caught:
        # Long enough for two stages, which all parts take part in.
        operator(cp.zeros((2, 300_000)), axis=1, out=out)
    assert f"  {part}, line 3:\n    int t = one(1, 2);\n" in str(caught.value)
    assert "too many arguments" in str(caught.value)
    equal(out, [7, 7])


def test_an_epilogue_inside_a_norm_is_told_in_its_own_lines(device):
    image, line = cp.full((1, 2, 3, 3), 1.0), cp.full(2, 1.0)
    out = cp.full((1, 2, 3, 3), 7.0)
    for text, place in (
        ("// one\ny0 += 1;\nint t = y0 % 2;", "  epilogue, line 3:\n    int t = y0 % 2;\n"),
        ("// one\ny0 = unknown(y0);", "epilogue, line 2: unknown name 'unknown'"),
    ):
        with pytest.raises(cp.ClprimError) as caught:
            ops.batch_norm(image, line, line, epilogue=text, out=out)
        assert str(caught.value).startswith("batch_norm")
        assert place in str(caught.value)
    equal(out, np.full((1, 2, 3, 3), 7))


# --- a device that fails ----------------------------------------------------------------------


def failure(routine, code):
    """The error that pyopencl raises when an OpenCL function returns a code."""
    return cl.RuntimeError(cl._cl._ErrorRecord("", code, routine))


def test_a_device_that_vanished_is_named_at_launch(c, monkeypatch):
    def vanish(*args, **kwargs):
        raise failure("clEnqueueNDRangeKernel", cl.status_code.DEVICE_NOT_AVAILABLE)

    AXPB(c.x, c.y, 1.0)
    SUM(c.x, axis=0)
    with monkeypatch.context() as patched:
        patched.setattr(launch_module.cl, "enqueue_nd_range_kernel", vanish)
        for call in (lambda: AXPB(c.x, c.y, 1.0, out=c.out), lambda: SUM(c.x, axis=0, out=c.row)):
            with pytest.raises(DeviceError, match=r"could not be launched on .*NOT_AVAILABLE"):
                call()
    c.check()
    equal(AXPB(c.x, c.y, 1.0), 2 * c.host)


def test_a_device_that_vanished_is_named_in_transfers(c, monkeypatch):
    def vanish(*args, **kwargs):
        raise failure("clEnqueueCopyBuffer", cl.status_code.DEVICE_NOT_AVAILABLE)

    with monkeypatch.context() as patched:
        patched.setattr(cl, "enqueue_copy", vanish)
        with pytest.raises(DeviceError, match=r"upload of shape \(3, 4\) to .* failed"):
            cp.asarray(c.host)
        with pytest.raises(DeviceError, match=r"download of shape \(3, 4\) failed"):
            c.x.get()
    c.check()


def test_memory_that_is_gone_is_a_devices_error(c, monkeypatch):
    def gone(*args):
        raise failure("clSetKernelArg", cl.status_code.INVALID_MEM_OBJECT)

    AXPB(c.x, c.y, 1.0)
    SUM(c.x, axis=0)
    signature.Calls.forget()  # what is bound already would not ask again
    with monkeypatch.context() as patched:
        patched.setattr(cl.Kernel, "set_arg", gone)
        for call in (lambda: AXPB(c.x, c.y, 1.0, out=c.out), lambda: SUM(c.x, axis=0, out=c.row)):
            with pytest.raises(DeviceError, match="INVALID_MEM_OBJECT"):
                call()
    c.check()


def test_no_memory_for_a_result_is_named(c, monkeypatch):
    def full(size):
        raise cl.MemoryError(
            cl._cl._ErrorRecord("", cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE, "clCreateBuffer")
        )

    class Pool:
        __call__ = allocate = staticmethod(full)

    monkeypatch.setitem(c.device.__dict__, "pool", Pool())
    for call in (lambda: AXPB(c.x, c.y, 1.0), lambda: SUM(c.x), lambda: cp.empty(3)):
        with pytest.raises(DeviceError, match=r"cannot allocate .* bytes"):
            call()
    monkeypatch.undo()
    c.check()


def test_a_call_without_any_device_is_told_so(monkeypatch):
    monkeypatch.setattr(device_module, "_current", None)
    monkeypatch.setattr(device_module, "_found", [])
    monkeypatch.delenv("CLPRIM_DEVICE", raising=False)
    monkeypatch.setattr(cl, "get_platforms", list)
    for call in (lambda: cp.asarray([1.0]), lambda: AXPB(1, 2, 3), lambda: SUM(1)):
        with pytest.raises(DeviceError, match="no OpenCL device was found"):
            call()


def test_a_device_without_double_refuses_double(device, monkeypatch):
    monkeypatch.setitem(device.__dict__, "traits", dataclasses.replace(device.traits, fp64=False))
    x, single = cp.empty(5, np.float64), cp.zeros(5)
    fresh = cp.Pointwise("y0 = x0 + 1; // without double")
    out = cp.full(5, 7.0)
    with pytest.raises(DTypeError, match=r"float64 is not supported by .*: it lacks cl_khr_fp64"):
        fresh(x, out=out)
    with pytest.raises(DTypeError, match="cl_khr_fp64"):
        cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")(x)
    with pytest.raises(DTypeError, match="cl_khr_fp64"):
        fresh(single, out=x)
    equal(out, np.full(5, 7))
    equal(fresh(single), np.ones(5))
    scaled = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    whole = cp.asarray(np.arange(6, dtype=np.int32))
    equal(scaled(whole, alpha=0.5), 7, np.int64)
    equal(cp.Pointwise("y0 = x0 * w0; // halves")(single, 0.5), np.zeros(5))
