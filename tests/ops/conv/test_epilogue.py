"""Epilogues of `ops.conv2d`: what a string does to a value before it is stored, everywhere."""

import dataclasses
import math

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, algorithms, upload
from odd_memory import PLACES, has_format
from support import BFLOAT16, Guard, equal, numbers, wide

import clprim as cp
from clprim import ops
from clprim.runtime.stats import counters

ERF = np.vectorize(math.erf, otypes=[float])
X, W, PADDING = (2, 5, 6, 19), (18, 5, 3, 3), (1, 0)
Y = (2, 18, 6, 17)
CHANNEL = (18, 1, 1)


def exact(dtype=np.float32):
    """Operands, and the convolution of them with its bias."""
    x, w, bias = numbers(X, dtype), numbers(W, dtype, seed=1), numbers((18,), dtype, seed=2)
    y = reference.conv2d(x, w, bias, padding=PADDING)
    assert y.shape == Y
    return x, w, bias, y


EPILOGUES = {
    "relu": ("y0 = max(y0, 0);", (), lambda y: np.maximum(y, 0)),
    "residual and relu": (
        "y0 = max(y0 + x0, 0);",
        (Y,),
        lambda y, residual: np.maximum(y + residual, 0),
    ),
    "prelu by channel": (
        "y0 = y0 > 0 ? y0 : y0 * x0 / 4;",
        (CHANNEL,),
        lambda y, slope: np.where(y > 0, y, y * slope / 4),
    ),
    "clip": ("y0 = clamp(y0, 0.0f, 6.0f);", (), lambda y: np.clip(y, 0, 6)),
    "scale and shift": (
        "y0 = y0 * x0 + x1;",
        (CHANNEL, (1, *CHANNEL)),
        lambda y, scale, shift: y * scale + shift,
    ),
    "squeeze and excitation": ("y0 *= x0;", ((2, 18, 1, 1),), lambda y, s: y * s),
    "position": ("y0 += x0 - x1;", ((6, 17), (17,)), lambda y, a, b: y + a - b),
    "number": ("y0 -= x0;", ((),), lambda y, a: y - a),
    "several lines": (
        """
        // a leaky slope
        typeof_y0 z = y0;
        if (z < 0) { z *= 0.25f; } /* kept above */
        y0 = z;
        """,
        (),
        lambda y: np.where(y < 0, y / 4, y),
    ),
}


@pytest.mark.everywhere
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
def test_epilogue(device, some, memory_format):
    x, w, bias, y = exact()
    a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
    names = algorithms(a, b, padding=PADDING)
    for n, (text, shapes, applied) in enumerate(some(list(EPILOGUES.values()), 3)):
        extra = [numbers(shape, seed=5 + m) for m, shape in enumerate(shapes)]
        arguments = {"padding": PADDING, "epilogue": text}
        arguments["epilogue_args"] = tuple(
            upload(e, memory_format if e.ndim == 4 else None) for e in extra
        )
        for algorithm in ("auto", names[n % len(names)]):
            found = ops.conv2d(a, b, c, **arguments, algorithm=algorithm)
            np.testing.assert_array_equal(found.get(), applied(y, *extra), err_msg=text)
            assert has_format(found, memory_format)
    found = ops.conv2d(a, ops.pack_weight(b), padding=PADDING, epilogue="y0 = max(y0, 0);")
    equal(found, np.maximum(y - bias[:, None, None], 0))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_gelu(device, memory_format):
    x, w, bias, y = exact()
    a, b, c = upload(x / 8, memory_format), cp.asarray(w / 4), cp.asarray(bias / 32)
    y = y / 32  # exact: every factor is a power of two
    expected = 0.5 * y * (1 + ERF(y / np.sqrt(2)))
    # erf is right to 16 units (OpenCL C 7.4), and its argument and the sum to one more each.
    allowed = 0.5 * np.abs(y) * 20 * 2.0**-24 + 2.0**-24 * np.abs(expected) + 2.0**-126
    for algorithm in algorithms(a, b, padding=PADDING):
        found = ops.conv2d(
            a,
            b,
            c,
            padding=PADDING,
            epilogue="y0 = 0.5f * y0 * (1 + erf(y0 * M_SQRT1_2_F));",
            algorithm=algorithm,
        )
        assert (np.abs(found.get() - expected) <= allowed).all()


# --- numbers, and where an element is ------------------------------------------------------------


WHERE = "y0 = y0 * w1 + w0 + x0 + index + 3 * coord(1) - coord(-1) * size(1);"


def where(y, w0, w1, x0=0, axis=-1):
    """What ``WHERE`` computes."""
    places = np.indices(y.shape)
    index = np.arange(y.size).reshape(y.shape)
    return y * w1 + w0 + x0 + index + 3 * places[1] - places[axis] * y.shape[1]


# Depthwise, direct and by Winograd's algorithm, whose results here are whole numbers as well.
SHAPES = [((2, 5, 6, 19), (18, 5, 3, 3), 1), ((1, 18, 5, 9), (18, 1, 3, 3), 18)]


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(("x_shape", "w_shape", "groups"), SHAPES)
def test_numbers_and_positions(device, x_shape, w_shape, groups, memory_format):
    x, w = numbers(x_shape), numbers(w_shape, seed=1)
    y = reference.conv2d(x, w, padding=1, groups=groups)
    extra = numbers((18, 1, 1), seed=2)
    options = {"padding": 1, "groups": groups}
    a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(extra)
    for algorithm in algorithms(a, b, **options):
        for w0, w1 in ((2, 3), (-1.5, np.float32(2))):
            found = ops.conv2d(
                a, b, **options, epilogue=WHERE, epilogue_args=(c, w0, w1), algorithm=algorithm
            )
            expected = where(y, w0, float(w1), extra)
            rounding = 2.0**-8 if algorithm == "winograd" else 0
            np.testing.assert_allclose(found.get(), expected, rtol=0, atol=rounding)


@pytest.mark.usefixtures("unoptimised")
def test_positions_of_pixels_rows_and_transposed_windows(device):
    x, w = numbers((2, 4, 5, 6)), numbers((8, 4, 3, 3), seed=1)
    y = reference.conv2d(x, w, padding=1).reshape(2, 2, 2, 2, 5, 6)
    y = y.transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 10, 12)
    epilogue = {"epilogue": WHERE, "epilogue_args": (cp.asarray(np.float32(0)), 1, 2)}
    for memory_format in FORMATS:
        found = ops.conv2d(
            upload(x, memory_format), cp.asarray(w), padding=1, depth_to_space=2, **epilogue
        )
        equal(found, where(y, 1, 2))
    rows, kernel = numbers((2, 3, 9)), numbers((4, 3, 2), seed=1)
    expected = reference.conv2d(rows[:, :, None], kernel[:, :, None])[:, :, 0]
    equal(ops.conv1d(cp.asarray(rows), cp.asarray(kernel), **epilogue), where(expected, 1, 2))
    up = numbers((4, 3, 2, 2), seed=1)
    expected = ops.conv_transpose2d(cp.asarray(x), cp.asarray(up), stride=2).get()
    found = ops.conv_transpose2d(cp.asarray(x), cp.asarray(up), stride=2, **epilogue)
    equal(found, where(expected, 1, 2))


@pytest.mark.usefixtures("unoptimised")
def test_numbers_and_positions_of_products(device):
    a, b = numbers((2, 3, 7, 5)), numbers((3, 5, 9), seed=1)
    args = {"epilogue": WHERE, "epilogue_args": (cp.asarray(np.float32(1)), 4, -1)}
    equal(ops.matmul(cp.asarray(a), cp.asarray(b), **args), where(a @ b, 4, -1, 1))
    tall = numbers((5, 70), seed=2)
    for algorithm in ("auto", "tiles"):
        found = ops.matmul(cp.asarray(a[0, 0]), cp.asarray(tall), **args, algorithm=algorithm)
        equal(found, where(a[0, 0] @ tall, 4, -1, 1))
    whole = ops.matmul(
        cp.asarray(a[0, 0].astype(np.int32)),
        cp.asarray(tall.astype(np.int32)),
        epilogue="y0 = y0 * w0 + coord(0);",
        epilogue_args=(3,),
    )
    equal(whole, (a[0, 0] @ tall * 3 + np.arange(7)[:, None]).astype(np.int32))


def test_numbers_plan_nothing_anew_and_must_fit(device):
    x, w = cp.asarray(numbers((1, 3, 4, 4))), cp.asarray(numbers((4, 3, 1, 1)))
    plain = ops.conv2d(x, w).get()
    planned = []
    for value in (2, 3, 4):
        found = ops.conv2d(x, w, epilogue="y0 *= w0;", epilogue_args=(value,))
        equal(found, plain * value)
        planned.append(counters.plans)
    assert len(set(planned)) == 1
    with pytest.raises(cp.DTypeError, match="expected a number for w0 of the epilogue"):
        ops.conv2d(x, w, epilogue="y0 *= w0;", epilogue_args=("2",))
    with pytest.raises(cp.ShapeError, match=r"coord\(4\) is out of bounds"):
        ops.conv2d(x, w, epilogue="y0 += coord(4);")
    i = cp.asarray(numbers((3, 3), np.int32))
    with pytest.raises(cp.DTypeError):
        ops.matmul(i, i, epilogue="y0 *= w0;", epilogue_args=(0.5,))


# --- where the epilogue's arrays lie --------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
def test_the_arguments_have_any_strides(device, memory_format):
    x, w, _, y = exact()
    a, b = upload(x, memory_format), cp.asarray(w)
    bias = numbers((18,), seed=2)
    y = y - bias[:, None, None]
    for place in PLACES:
        residual, r = PLACES[place](numbers(Y, seed=5))
        found = ops.conv2d(
            a, b, padding=PADDING, epilogue="y0 = max(y0 + x0, 0);", epilogue_args=(r,)
        )
        equal(found, np.maximum(y + residual, 0))
        assert has_format(found, memory_format)
    for other in FORMATS:
        residual = numbers(Y, seed=6)
        found = ops.conv2d(
            a,
            b,
            padding=PADDING,
            epilogue="y0 = max(y0 + x0, 0);",
            epilogue_args=(upload(residual, other),),
        )
        equal(found, np.maximum(y + residual, 0))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_the_result_may_be_written_over_the_residual(device, memory_format):
    x, w, bias, y = exact()
    old = numbers(Y, seed=7)
    a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
    for algorithm in ["auto", *algorithms(a, b, padding=PADDING)]:
        residual = upload(old, memory_format)
        found = ops.conv2d(
            a,
            b,
            c,
            padding=PADDING,
            epilogue="y0 = max(y0 + x0, 0);",
            epilogue_args=(residual,),
            out=residual,
            algorithm=algorithm,
        )
        assert found is residual
        equal(found, np.maximum(y + old, 0))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_past_the_caches(device, some, monkeypatch, memory_format):
    if not device.traits.streaming:
        pytest.skip("its compiler knows no such stores")
    planned = dataclasses.replace(device.traits, is_cpu=True, vector_bytes=64, cache_bytes=64)
    monkeypatch.setitem(device.__dict__, "traits", planned)
    for channels, kernel, outputs in some([(5, 1, 96), (3, 3, 64), (3, 3, 272), (40, 3, 48)], 2):
        x, w = numbers((2, channels, 12, 32)), numbers((outputs, channels, kernel, kernel), seed=1)
        y = reference.conv2d(x, w, padding=kernel // 2)
        old = numbers(y.shape, seed=2)
        a, b = upload(x, memory_format), cp.asarray(w)
        for name in ("auto", "panels"):
            options = {"padding": kernel // 2, "algorithm": name}
            equal(ops.conv2d(a, b, **options), y)
            options["epilogue"] = "y0 = max(y0 + x0, 0);"
            residual = upload(old, memory_format)
            found = ops.conv2d(a, b, epilogue_args=(residual,), **options)
            equal(found, np.maximum(y + old, 0))
            ops.conv2d(a, b, epilogue_args=(residual,), out=residual, **options)
            equal(residual, np.maximum(y + old, 0))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_into_the_middle_of_an_array(device, memory_format):
    x, w, bias, y = exact()
    residual = numbers(Y, seed=7)
    out = Guard(Y)
    ops.conv2d(
        upload(x, memory_format),
        cp.asarray(w),
        cp.asarray(bias),
        padding=PADDING,
        epilogue="y0 = max(y0 + x0, 0);",
        epilogue_args=(upload(residual, memory_format),),
        out=out.array,
    )
    out.check(np.maximum(y + residual, 0))


# --- dtypes, sums in pieces -----------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", [np.dtype(np.float64), np.dtype(np.float16), BFLOAT16], ids=str)
def test_dtypes(device, dtype, memory_format):
    x, w, bias, y = exact(dtype)
    residual, scale = numbers(Y, dtype, seed=7), numbers(CHANNEL, dtype, seed=8)
    found = ops.conv2d(
        upload(x, memory_format),
        cp.asarray(w),
        cp.asarray(bias),
        padding=PADDING,
        epilogue="y0 = max(y0 * x1 + x0, 0);",
        epilogue_args=(upload(residual, memory_format), cp.asarray(scale)),
    )
    equal(found, np.maximum(y * wide(scale) + wide(residual), 0).astype(dtype), dtype)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_it_runs_once_on_the_whole_sum(device, memory_format):
    # Few outputs and long sums: where a sum is cut in pieces, the epilogue sees the whole.
    x, w, bias = numbers((1, 500, 3, 4)), numbers((3, 500, 3, 3), seed=1), numbers((3,), seed=2)
    y = reference.conv2d(x, w, bias)
    assert (y * y).max() < 1 << 24
    a, b, c = upload(x, memory_format), cp.asarray(w), cp.asarray(bias)
    for algorithm in ["auto", *algorithms(a, b)]:
        found = ops.conv2d(a, b, c, epilogue="y0 = y0 * y0 + 1;", algorithm=algorithm)
        equal(found, y * y + 1)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_it_runs_where_there_is_nothing_to_sum(device, memory_format):
    x = cp.zeros((2, 0, 4, 5), memory_format=memory_format)
    residual = numbers((2, 6, 3, 4), seed=3)
    found = ops.conv2d(
        x,
        cp.zeros((6, 0, 2, 2)),
        epilogue="y0 = 1 + x0;",
        epilogue_args=(cp.asarray(residual),),
    )
    equal(found, 1 + residual)


# --- Oclgrind -------------------------------------------------------------------------------------


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
def test_small_epilogue(device, memory_format):
    x, w, slope = numbers((1, 3, 4, 5)), numbers((5, 3, 3, 3), seed=1), numbers((5, 1, 1), seed=2)
    y = reference.conv2d(x, w, padding=1)
    residual = numbers(y.shape, seed=3)
    a, b = upload(x, memory_format), cp.asarray(w)
    for algorithm in algorithms(a, b, padding=1):
        out = Guard(y.shape)
        ops.conv2d(
            a,
            b,
            padding=1,
            epilogue="y0 += x0; y0 = y0 > 0 ? y0 : y0 * x1;",
            epilogue_args=(upload(residual, memory_format), cp.asarray(slope)),
            out=out.array,
            algorithm=algorithm,
        )
        out.check(np.where(y + residual > 0, y + residual, (y + residual) * slope))
