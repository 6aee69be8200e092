"""Arrays: made, viewed, copied, indexed and calculated with as NumPy's are."""

import operator

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from support import BFLOAT16, DTYPES, VIEWS, aligned, equal, numbers, pair

import clprim as cp
from clprim import ops
from clprim.errors import DeviceError, DTypeError, ShapeError

# --- making -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_up_and_down_again(device, dtype):
    for shape in ((), (5,), (2, 3, 4), (3, 0), (1, 1)):
        a = numbers(shape, dtype)
        x = cp.asarray(a)
        assert isinstance(x, cl_array.Array)
        assert (x.shape, x.dtype, x.ndim, x.size) == (a.shape, a.dtype, a.ndim, a.size)
        equal(x, a, dtype)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_any_numpy_array_is_uploaded(device, view):
    a = view(numbers((5, 8)))
    equal(cp.asarray(a), a)
    equal(cp.asarray(np.broadcast_to(a, (3, *a.shape))), np.broadcast_to(a, (3, *a.shape)))


def test_what_numpy_takes_is_taken(device):
    equal(cp.asarray([[1, 2], [3, 4]]), [[1, 2], [3, 4]], np.int64)
    equal(cp.asarray(2.5), 2.5, np.float32)
    equal(cp.asarray([1.5, 2]), [1.5, 2], np.float32)
    equal(cp.asarray(np.float64(2.5)), 2.5, np.float64)
    equal(cp.asarray([1, 2], np.float32), [1, 2], np.float32)
    equal(cp.asarray([1, 2], "bfloat16"), [1, 2], BFLOAT16)
    read_only = np.arange(3)
    read_only.flags.writeable = False
    equal(cp.asarray(read_only), [0, 1, 2])


@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2)], ids=lambda order: "".join(map(str, order))
)
def test_memory_order_survives_the_upload(device, order):
    a = numbers((2, 3, 4, 5)).transpose(order)
    dense = a.copy(order="K")
    x = cp.asarray(a)
    assert x.strides == dense.strides
    equal(x, a)
    assert x.get().strides == dense.strides


def test_channels_last(device):
    a = numbers((2, 3, 4, 5))
    x = cp.asarray(a, memory_format="channels_last")
    assert x.shape == (2, 3, 4, 5)
    assert x.strides == (240, 4, 60, 12)
    equal(x, a)
    equal(x.transpose(0, 2, 3, 1), a.transpose(0, 2, 3, 1))
    back = cp.asarray(x, memory_format="contiguous")
    assert back.strides == a.strides
    equal(back, a)
    assert cp.asarray(x, memory_format="channels_last") is x
    assert cp.asarray(x) is x
    assert cp.zeros((2, 3, 4, 5), memory_format="channels_last").strides == x.strides
    assert cp.empty((2, 3, 4, 5), np.float16, memory_format="channels_last").strides[1] == 2
    with pytest.raises(ShapeError, match=r"'channels_last' needs \(N, C, H, W\) or .*, got shape"):
        cp.zeros((2, 3, 4), memory_format="channels_last")
    with pytest.raises(ShapeError, match=r"_3d' needs \(N, C, D, H, W\), got shape \(2, 3, 4, 5\)"):
        cp.zeros((2, 3, 4, 5), memory_format="channels_last_3d")
    with pytest.raises(ShapeError, match="memory_format='nhwc' is unknown; expected 'contiguous'"):
        cp.asarray(a, memory_format="nhwc")


@pytest.mark.parametrize("memory_format", ["channels_last", "channels_last_3d"])
def test_channels_last_volumes(device, memory_format):
    a = numbers((2, 3, 4, 5, 6))
    for x in (
        cp.asarray(a, memory_format=memory_format),
        ops.contiguous(cp.asarray(a), memory_format),
    ):
        equal(x, a)
        assert x.strides == (1440, 4, 360, 72, 12)
    assert cp.empty(a.shape, np.float16, memory_format=memory_format).strides[1] == 2


def test_empty_zeros_full(device):
    assert cp.empty((3, 4)).dtype == np.float32
    assert cp.empty(5, "int8").shape == (5,)
    equal(cp.zeros((2, 3), np.int16), np.zeros((2, 3)), np.int16)
    equal(cp.full((2, 3), 2.5), np.full((2, 3), 2.5), np.float32)
    equal(cp.full(4, 7), np.full(4, 7), np.int64)
    equal(cp.full((), True), np.bool_(True), bool)
    equal(cp.full(4, -1, np.float16), np.full(4, -1), np.float16)
    equal(cp.full(4, 3, BFLOAT16), np.full(4, 3), BFLOAT16)
    equal(cp.zeros((0, 3)), np.zeros((0, 3)))
    equal(cp.zeros(3).fill(4), [4, 4, 4])


@pytest.mark.parametrize("shape", [-1, (2, -3), (2.0,), "ab", (None,)], ids=str)
def test_what_is_no_shape_is_refused(device, shape):
    with pytest.raises(ShapeError, match="expected non-negative integers"):
        cp.empty(shape)


@pytest.mark.parametrize("value", ["x", 1j, [1, 2], None], ids=repr)
def test_what_does_not_fill_an_array_is_refused(device, value):
    with pytest.raises(DTypeError, match="fill"):
        cp.zeros(3, np.int32).fill(value)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, np.clongdouble),
        np.array([object()]),
        np.array(["a"]),
        np.zeros(3, ">f4"),
        np.zeros(3, [("a", "f4")]),
        np.zeros(3, "M8[s]"),
    ],
    ids=lambda a: a.dtype.str,
)
def test_what_no_kernel_can_store_is_refused(device, array):
    with pytest.raises(DTypeError, match="is not supported; supported are bool"):
        cp.asarray(array)


def test_more_memory_than_there_is_is_refused(device):
    with pytest.raises(DeviceError, match=r"cannot allocate 4,611,686,018,427,387,904 bytes"):
        cp.empty(2**60)


# --- converting -------------------------------------------------------------------------------


def test_astype_and_copy(device):
    a = numbers((3, 4), low=-5)
    x = cp.asarray(a)
    equal(x.astype(np.int8), a.astype(np.int8), np.int8)
    equal(x[::-1].astype("bfloat16"), a[::-1], BFLOAT16)
    copy = x.T.copy()
    equal(copy, a.T)
    assert copy.strides == a.T.copy().strides
    copy[...] = 0
    equal(x, a)
    equal(cp.asarray(x, np.float64), a, np.float64)
    again = cp.asarray(x, copy=True)
    assert again is not x
    equal(again, a)
    with pytest.raises(DTypeError, match="complex256"):
        x.astype("complex256")


def test_download_into_an_array(device):
    a, x = pair(numbers((4, 5)), lambda a: a[::2, ::-1])
    into = np.zeros((2, 5), np.float64)
    assert x.get(ary=into) is into
    np.testing.assert_array_equal(into, a)
    with pytest.raises(ShapeError, match=r"expected a host array of shape \(2, 5\), got \(4, 5\)"):
        x.get(ary=np.zeros((4, 5)))
    np.testing.assert_array_equal(np.asarray(x), a)
    np.testing.assert_array_equal(np.asarray(x, np.float64), a)


def test_upload_into_an_array(device):
    x = cp.zeros((2, 3))
    x.set(np.arange(6).reshape(2, 3))
    equal(x, np.arange(6).reshape(2, 3), np.float32)


def test_one_element_is_a_number(device):
    x = cp.asarray(np.array([[2.5]], np.float32))
    assert (x.item(), float(x), int(x), bool(x)) == (2.5, 2.5, 2, True)
    with pytest.raises(ShapeError, match=r"shape \(2,\) is not one number; .*x\.any\(\)"):
        cp.zeros(2).item()


# --- views ------------------------------------------------------------------------------------

INDICES = [
    np.s_[1],
    np.s_[-1],
    np.s_[1, 2],
    np.s_[..., 0],
    np.s_[:, 1],
    np.s_[::2],
    np.s_[::-1, ::-2],
    np.s_[1:3, 2:],
    np.s_[3:1:-1],
    np.s_[5:2],
    np.s_[None],
    np.s_[:, None, 1, ...],
    np.s_[...],
    np.s_[()],
    np.s_[1, ..., None],
    np.s_[np.int64(2), -100:100],
    np.s_[2, 3, 1],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(device, index):
    a, x = pair(numbers((4, 5, 3)))
    b, y = a[index], x[index]
    assert y.shape == np.shape(b)
    if b.size and b.ndim:
        assert y.strides == b.strides
    equal(y, b)
    assert y.base_data is x.base_data


def test_views_as_another_dtype_are_numpys(device):
    host = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    x = cp.asarray(host)
    for part in (np.s_[:], np.s_[1:, ::2], np.s_[..., :2], np.s_[:, :0], np.s_[0, 1, 2, ...]):
        for dtype in (np.float16, np.uint8, np.int32, np.int16):
            try:
                expected = host[part].view(dtype)
            except ValueError:
                with pytest.raises(cp.ShapeError, match=r"^view: an array of int16, shape"):
                    x[part].view(dtype)
                continue
            found = x[part].view(dtype)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(found.get(), expected)
    with pytest.raises(cp.ShapeError, match="last axis must be contiguous"):
        x[..., ::2].view(np.int32)
    one = cp.asarray(np.float32(1.5)).view(np.int32)
    assert (one.shape, one.item()) == ((), 0x3FC00000)
    one.fill(2)
    assert x.view(np.uint16).base_data is x.base_data
    assert x.view().dtype == np.int16
    with pytest.raises(cp.DTypeError, match="complex256"):
        x.view(np.clongdouble)


def test_views_of_views_share_memory(device):
    a, x = pair(numbers((6, 8)))
    b, y = (v[1:, ::2].transpose()[::-1][1:, ::-2] for v in (a, x))
    equal(y, b)
    y[...] = 9
    b[...] = 9
    equal(x, a)


@pytest.mark.parametrize("index", ["a", 1.0, (0, [1.5]), True, np.bool_(True)], ids=repr)
def test_what_is_no_index_is_refused(device, index):
    expected = r"expected integers, slices, \.\.\., None, masks or positions; not "
    with pytest.raises(ShapeError, match=expected):
        cp.zeros((3, 4))[index]


@pytest.mark.parametrize("index", [4, -5, (0, 0, 0), (..., ...)], ids=str)
def test_an_index_out_of_bounds_is_refused(device, index):
    with pytest.raises(ShapeError, match=r"array of shape \(4, 3\)"):
        cp.zeros((4, 3))[index]
    with pytest.raises(IndexError):
        cp.zeros((4, 3))[index]


def test_transposing(device):
    a, x = pair(numbers((2, 3, 4)))
    for axes in ((), (2, 0, 1), ((1, 2, 0),), (-1, 0, 1), (None,)):
        b, y = a.transpose(*axes), x.transpose(*axes)
        assert (y.shape, y.strides) == (b.shape, b.strides)
        equal(y, b)
    equal(x.T, a.T)
    for axes in ((0, 1), (0, 0, 1), (0, 1, 5), ("a",)):
        with pytest.raises(ShapeError, match=r"transpose\(.* of shape \(2, 3, 4\)"):
            x.transpose(*axes)


def test_reshaping(device):
    a, x = pair(numbers((2, 3, 4)))
    for shape in ((6, 4), (4, -1), (-1,), (2, 1, 3, 2, 2), ((8, 3),), (24,)):
        y = x.reshape(*shape)
        equal(y, a.reshape(*shape))
        assert y.base_data is x.base_data
    equal(x.T.reshape(4, 6), a.T.reshape(4, 6))
    equal(x[:, ::-1].ravel(), a[:, ::-1].ravel())
    equal(cp.zeros((0, 3)).reshape(3, 0), np.zeros((3, 0)))
    for shape in ((5, 5), (-1, 7), (-1, -1), (-2, 12)):
        with pytest.raises(ShapeError, match=r"cannot reshape an array of shape \(2, 3, 4\)"):
            x.reshape(*shape)
    with pytest.raises(ShapeError, match="order='A': expected 'C' or 'F'"):
        x.reshape(24, order="A")


def test_length_and_iteration(device):
    a, x = pair(numbers((3, 4)))
    assert len(x) == 3
    rows = list(x)
    assert len(rows) == 3
    for row, expected in zip(rows, a, strict=True):
        equal(row, expected)
    with pytest.raises(ShapeError, match="without dimensions"):
        len(cp.asarray(1.0))


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (np.s_[1], 5),
        (np.s_[:, ::2], 2.5),
        (np.s_[::-1], np.arange(20.0).reshape(4, 5)),
        (np.s_[1:3], np.arange(5, dtype=np.int8)),
        (np.s_[...], np.float64(3)),
        (np.s_[2, 2], True),
        (np.s_[:, 1:1], 5),
    ],
    ids=str,
)
def test_assignment(device, index, value):
    a, x = pair(numbers((4, 5)))
    x[index] = value
    a[index] = value
    equal(x, a, np.float32)


def test_assignment_of_device_arrays(device):
    a, x = pair(numbers((4, 5)))
    x[1] = x[2]
    a[1] = a[2]
    x[:, 0] = cp.asarray(numbers(4, np.int32, 5))
    a[:, 0] = numbers(4, np.int32, 5)
    equal(x, a)
    with pytest.raises(ShapeError):
        x[0] = cp.zeros(3)
    equal(x, a)


def test_a_step_of_zero_is_refused(device):
    with pytest.raises(ShapeError, match="slice step cannot be zero"):
        cp.zeros(3)[::0]


def test_assignment_within_an_array_reads_first(device):
    a, x = pair(numbers((4, 4)))
    x[1:] = x[:-1]
    a[1:] = a[:-1]
    x[:] = x[::-1]
    a[:] = a[::-1].copy()
    x += x.T
    a += a.T
    x[:, 1:] *= x[:, :-1]
    a[:, 1:] *= a[:, :-1]
    equal(x, a)


# --- arithmetic -------------------------------------------------------------------------------

ARITHMETIC = "add sub mul truediv floordiv mod pow".split()
BITWISE = "and_ or_ xor lshift rshift".split()
COMPARISONS = "lt le gt ge eq ne".split()


def operands(name, dtype):
    a = numbers((3, 4), dtype, 1, low=None if name not in ("pow", "lshift", "rshift") else 1)
    b = numbers((4,), dtype, 2, low=1)
    return a, b


def check(result, expected):
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(result.get(), expected, rtol=4 * np.finfo(expected.dtype).eps)
    else:
        equal(result, expected)


@pytest.mark.parametrize("dtype", [np.int32, np.float32], ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", [*ARITHMETIC, *BITWISE, *COMPARISONS])
def test_two_arrays(device, name, dtype):
    if name in BITWISE and dtype is np.float32:
        with pytest.raises(DTypeError, match="are not integers"):
            getattr(operator, name)(cp.zeros(3), cp.zeros(3))
        return
    a, b = operands(name, dtype)
    op = getattr(operator, name)
    check(op(cp.asarray(a), cp.asarray(b)), op(a, b))


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("add", 2),
        ("sub", 2.5),
        ("truediv", 2),
        ("floordiv", 2),
        ("mod", 2.5),
        ("pow", 2),
        ("lt", 2.5),
    ],
)
def test_an_array_and_a_number(device, name, scalar):
    op = getattr(operator, name)
    a = numbers((3, 4), np.int32, 1, low=1)
    x = cp.asarray(a)
    check(op(x, scalar), op(a, scalar))
    check(op(scalar, x), op(scalar, a))


def test_signs_of_division_are_pythons(device):
    a = np.array([7, -7, 7, -7, 0, 6, -6], np.int32)
    b = np.array([3, 3, -3, -3, 3, 3, 3], np.int32)
    for dtype in (np.int32, np.float32, np.int8):
        x, y = cp.asarray(a.astype(dtype)), cp.asarray(b.astype(dtype))
        check(x // y, a.astype(dtype) // b.astype(dtype))
        check(x % y, a.astype(dtype) % b.astype(dtype))
    with np.errstate(divide="ignore"):
        check(cp.asarray(a) // 0, a // 0)
        check(cp.asarray(a) % 0, a % 0)


def test_in_place(device):
    a, x = pair(numbers((3, 4)))
    y = x
    for op, value in (("iadd", 3), ("isub", 1.5), ("imul", 2), ("itruediv", 4), ("iadd", a[0])):
        x = getattr(operator, op)(
            x, value if not isinstance(value, np.ndarray) else cp.asarray(value)
        )
        a = getattr(operator, op)(a, value)
    assert x is y
    equal(x, a, np.float32)
    part = cp.asarray(a)
    part[1] += 5
    a[1] += 5
    equal(part, a)
    n = cp.asarray(np.arange(4, dtype=np.int32))
    n //= 2
    n <<= 3
    n |= 1
    equal(n, [1, 1, 9, 9], np.int32)
    with pytest.raises(DTypeError):
        n += 0.5
    with pytest.raises(ShapeError):
        n += cp.zeros((2, 4), np.int32)
    equal(n, [1, 1, 9, 9])


def test_unary_operators(device):
    a = numbers((3, 4), np.int32)
    x = cp.asarray(a)
    for op in (operator.neg, operator.pos, abs, operator.invert):
        check(op(x), op(a))
    b = numbers((3, 4))
    for op in (operator.neg, operator.pos, abs):
        check(op(cp.asarray(b)), op(b))
    assert np.signbit((-cp.zeros(1)).get()[0])
    assert not np.signbit(abs(cp.asarray(np.array([-0.0], np.float32))).get()[0])
    truth = np.array([True, False])
    check(~cp.asarray(truth), ~truth)
    with pytest.raises(DTypeError, match="float32 is not an integer"):
        ~cp.zeros(2)


def test_bool_arithmetic_is_numpys(device):
    a, b = np.array([True, True, False]), np.array([True, False, False])
    x, y = cp.asarray(a), cp.asarray(b)
    check(x + y, a + b)
    check(x * y, a * b)
    check(x & y, a & b)
    check(x ^ y, a ^ b)
    check(x + 1, a + 1)
    for op in (lambda: x - y, lambda: -x):
        with pytest.raises(DTypeError):
            op()


def test_broadcasting_and_mixed_dtypes(device):
    a, b = numbers((3, 1), np.int8, 1), numbers((1, 4), np.float16, 2)
    check(cp.asarray(a) * cp.asarray(b), a * b)
    check(cp.asarray(a) + np.float32(2), a + np.float32(2))
    check(cp.asarray(a) == 2, a == 2)


def test_numpy_arrays_are_not_mixed_in_silently(device):
    a, x = pair(numbers(4))
    for op in (lambda: x + a, lambda: a + x, lambda: a * x):
        with pytest.raises(DTypeError, match=r"got ndarray: upload it with cp\.asarray"):
            op()
    for other in ("a", None, [1]):
        with pytest.raises(DTypeError, match="expected a device array or a number"):
            x + other


def test_sums(device):
    a, x = pair(numbers((3, 4), np.int16))
    for axis in (None, 0, -1, (0, 1)):
        equal(x.sum(axis), a.sum(axis), np.int64)
        equal(x.sum(axis=axis, keepdims=True), a.sum(axis, keepdims=True))
    out = cp.empty(3, np.int64)
    assert x.sum(axis=1, out=out) is out
    equal(out, a.sum(1))


def test_arrays_are_no_keys(device):
    with pytest.raises(TypeError, match="unhashable"):
        hash(cp.zeros(2))


# --- sharing the host's memory ----------------------------------------------------------------


def test_shared_memory_is_not_copied(device):
    if device.type != "cpu":
        pytest.skip("this device has memory of its own")
    a = aligned((5, 8))
    a[...] = numbers((5, 8))
    expected = 3 * a
    x = cp.asarray(a, copy=False)
    x *= 3
    cp.synchronize()
    equal(x, expected)
    np.testing.assert_array_equal(a, expected)
    equal(cp.asarray(a.T, copy=False), expected.T)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: aligned((5, 8))[:, ::2], "leave gaps"),
        (lambda: aligned((64,))[1:], "is not aligned to 64 bytes"),
        (lambda: aligned((0, 4)), "the array is empty|is not aligned"),
        (lambda: np.broadcast_to(aligned((16,)), (2, 16)), "leave gaps|read-only"),
    ],
)
def test_memory_that_cannot_be_shared_is_refused(device, make, problem):
    if not device.cl.host_unified_memory:
        problem += "|does not share the host's memory"
    with pytest.raises(DeviceError, match=rf"asarray\(copy=False\): .*({problem}); leave copy="):
        cp.asarray(make(), copy=False)


def test_device_arrays_are_not_converted_in_place(device):
    x = cp.zeros((2, 3, 4, 5))
    assert cp.asarray(x, copy=False) is x
    with pytest.raises(ShapeError, match="cannot become channels_last, float32 in place"):
        cp.asarray(x, memory_format="channels_last", copy=False)
    with pytest.raises(ShapeError, match="cannot become the same format, float64 in place"):
        cp.asarray(x, np.float64, copy=False)


# --- arrays of others -------------------------------------------------------------------------


def test_pyopencls_arrays_are_taken_as_they_are(device):
    queue = cl.CommandQueue(device.context)
    a = numbers((3, 4))
    theirs = cl_array.to_device(queue, a)
    x = cp.asarray(theirs)
    assert isinstance(x, cp.Array)
    assert x.base_data is theirs.base_data
    equal(x + 1, a + 1)
    equal(x[:, ::-1], a[:, ::-1])
    other = cp.asarray(a)
    equal(other + theirs, 2 * a)
    other += theirs
    equal(other, 2 * a)


def test_bits_survive(device):
    bits = np.random.default_rng(0).integers(0, 2**32, 999, np.uint32)
    for dtype in (np.float32, np.float16, BFLOAT16, np.float64):
        a = bits[: 999 // 8 * 8].view(dtype)
        assert cp.asarray(a).get().tobytes() == a.tobytes()


def test_elements_counted_with_the_first_index_fastest(device):
    host = np.arange(24).reshape(2, 3, 4)
    for view in (lambda a: a, lambda a: a[:, ::-1], lambda a: a.T, lambda a: a[:, :, ::2]):
        a, x = view(host), view(cp.asarray(host))
        for shape in ((-1,), (4, -1), (a.size, 1)):
            equal(x.reshape(shape, order="F"), a.reshape(shape, order="F"))
        equal(x.ravel("F"), a.ravel("F"))
        equal(x.flatten("F"), a.flatten("F"))
    x = cp.asarray(host)
    assert x.T.ravel("F").base_data is x.base_data
    assert x.T.flatten("F").base_data is not x.base_data


def test_a_copy_has_the_queue_that_it_was_made_for(device):
    x, queue = cp.asarray(np.float32([1, -2])), cl.CommandQueue(device.context)
    for made in (x.copy(queue=queue), x.astype(np.float32, queue=queue)):
        assert made.queue == queue and made[1:].queue == queue
        equal(made + x, [2, -4], np.float32)
    assert x.queue == x.copy().queue == device.queue


@pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")
def test_pyopencls_choice_by_a_comparison(device):
    x = cp.asarray(np.float32([1, -2, 3]))
    equal(cl_array.if_positive(x > 0, x, -x), [1, 2, 3], np.float32)
    equal(cl_array.if_positive(x < 0, np.float32(5), np.float32(7)), [7, 5, 7], np.float32)
