"""A real number that its integer cannot hold: one value, wherever it stands, by every door."""

import platform

import numpy as np
import pytest
from support import equal

import clprim as cp
from bench.torture.operators import INTEGERS, wrapped

_SMALL = [-5, 300, -1.7, 255.9, -129, 7e4, 0.0, -0.0, 0.9, np.inf, -np.inf, np.nan]
_WIDE = [2**31, 2**31 + 2**9, -(2**31) - 2**9, 3e9, -3e9, 2**32 + 2**10, 2**62 + 2**40, 1e20, -1e20]
NUMBERS = np.array([*_SMALL, *_WIDE, 2.0**63, -(2.0**63), 1.5 * 2.0**63, 2.0**64], float)


def folded(kind, family, dtype):
    """A `Reduction` or a `Scan` that hands its elements on."""
    init, step = f"{family}_y0 = 0;", f"{family}_y0 += y0;"
    return kind("y0 = x0;", init=init, step=step, result_type=dtype, partial_type=np.float64)


DOORS = {
    "astype": lambda x, t: x.astype(t),
    "strings": lambda x, t: cp.Pointwise("y0 = x0;", result_type=t)(x),
    "casts": lambda x, t: cp.Pointwise("y0 = (typeof_y0)x0;", result_type=t)(x),
    "locals": lambda x, t: cp.Pointwise("typeof_y0 t = (x0); y0 = t;", result_type=t)(x),
    "sums": lambda x, t: cp.Pointwise("y0 += x0;", result_type=t)(x),
    "out": lambda x, t: cp.Pointwise("y0 = x0;", result_type=t)(x, out=cp.empty(x.shape, t)),
    "assigned": lambda x, t: assigned(cp.empty(x.shape, t), x),
    "reductions": lambda x, t: folded(cp.Reduction, "reduce", t)(x[None], axis=0),
    "scans": lambda x, t: folded(cp.Scan, "scan", t)(x[:, None], axis=1)[:, 0],
    "compiled": lambda x, t: cp.jit(lambda a: (a * 1).astype(t))(x),
}


def assigned(y, x):
    y[...] = x
    return y


@pytest.mark.skipif(platform.machine() != "x86_64", reason="NumPy's own rule is the processor's")
@pytest.mark.parametrize(
    "dtype", [t for t in INTEGERS if t != "uint32"]
)  # theirs varies with place
def test_what_is_promised_is_numpys_on_x86(dtype):
    with np.errstate(invalid="ignore"):
        assert np.array_equal(wrapped(NUMBERS, dtype), NUMBERS.astype(dtype))


@pytest.mark.everywhere
@pytest.mark.parametrize("door", DOORS)
def test_every_door_wraps_alike(device, door):
    for source in ("f4", "f8"):
        values = NUMBERS.astype(source)
        for dtype in INTEGERS:
            expected = wrapped(values, dtype)
            for x in (values, np.repeat(values, 3)[::3], np.repeat(values, 2)[::-2][::-1]):
                equal(DOORS[door](cp.asarray(x), dtype), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_full_array_is_converted_to_a_full_one(device, dtype):
    for value in NUMBERS:
        apart = cp.full(120, value, "f4")
        expected = wrapped(np.float32([value]), dtype)[0]
        for n in (1, 2, 3, 7, 8, 9, 15, 17, 33, 40):
            for x in (apart[:n], apart[: 3 * n : 3]):
                assert (x.astype(dtype).get() == expected).all(), (value, n)


def test_results_of_scaled_reductions_and_of_pairs_wrap(device):
    x = cp.asarray(np.ones((64, 3), np.uint8))
    total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    equal(total(x, axis=0, alpha=-1.5), np.full(3, 2**64 - 96, np.uint64))
    into = cp.full((3,), 3, np.uint8)
    equal(total(x, axis=0, alpha=-1.5, beta=2.5, out=into), np.full(3, 168, np.uint8))
    for finalize in (None, "y0 = reduce_y0 * 1.0f;"):
        outer = cp.Reduction(
            "y0 = x0;",
            init="reduce_y0 = 0;",
            step="reduce_y0 += y0;",
            finalize=finalize,
            result_type=np.uint8,
            partial_type=np.float32,
        )
        rows, columns = cp.asarray(np.ones((5, 1), "f4")), cp.asarray(np.full((1, 6), 1.5, "f4"))
        found = cp.Pairs(expr="y0 = -x0 * x1;", outer=outer)(rows, columns)
        equal(found, np.full(5, 247, np.uint8))


@pytest.mark.everywhere
@pytest.mark.parametrize("of", "char uchar short ushort int uint long ulong".split())
def test_saturating_conversions_make_0_of_nan(device, of):
    dtype = np.dtype({"char": "i1", "short": "i2", "long": "i8"}.get(of.lstrip("u"), "i4"))
    dtype = np.dtype(f"u{dtype.itemsize}") if of[0] == "u" else dtype
    least, greatest = (int(n) for n in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    values = np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, -1.5, 2.5, 3.5])
    whole = [0, greatest, least, greatest, least]
    for mode, last in (("", [-1, 2, 3]), ("_rte", [-2, 2, 4]), ("_rtp", [-1, 3, 4])):
        expected = np.array(whole + [max(least, n) for n in last], dtype)
        convert = cp.Pointwise(f"y0 = convert_{of}_sat{mode}(x0);", result_type=dtype)
        for n in (1, 5, 16):
            equal(convert(cp.asarray(np.tile(values, n))), np.tile(expected, n))
        found = convert(cp.asarray(np.full(33, np.nan, "f4")))
        equal(found, np.zeros(33, dtype))


def test_rounding_conversions_wrap_as_others_do(device):
    x = cp.asarray(np.float32([-5.5, 300.5, 2.5, np.nan, 3e9] * 7))
    for mode, rounded in (("rte", np.rint), ("rtp", np.ceil), ("rtn", np.floor), ("rtz", np.trunc)):
        y = cp.Pointwise(f"y0 = convert_uchar_{mode}(x0);", result_type=np.uint8)(x)
        equal(y, wrapped(rounded(x.get()), np.uint8))


def test_vectors_and_parts_of_arrays_of_a_string(device):
    text = """
    uchar4 v = (uchar4)(x0, x0 * 2, 1, 2);
    int i = 0, a[2] = {0, 0};
    a[i++] += x0 * 0.5f;
    y0 = v.x + 256 * v.y + 65536 * (i + a[0]);
    """
    y = cp.Pointwise(text, result_type=np.int64)(cp.asarray(np.full(20, -5.5, "f4")))
    equal(y, np.full(20, 251 + 256 * 245 - 65536, np.int64))


def test_vectors_wrap_as_their_components_do(device):
    names = "char uchar short ushort int uint long ulong".split()
    types = [np.dtype(t) for t in "i1 u1 i2 u2 i4 u4 i8 u8".split()]
    for real, dtype in (("float", "f4"), ("double", "f8"))[: 1 + device.traits.fp64]:
        x = np.tile(NUMBERS.astype(dtype), 2)
        for n, mode in ((2, ""), (4, "_rte")):
            text = "".join(
                f"y{k} = convert_{name}{n}{mode}(({real}{n})x0).s1;\n"
                for k, name in enumerate(names)
            )
            rounded = (np.rint if mode else np.trunc)(x)
            for y, t in zip(
                cp.Pointwise(text, result_type=types)(cp.asarray(x)), types, strict=True
            ):
                equal(y, wrapped(rounded, t))


def test_onnx_and_pytorch_wrap(device):
    helper = pytest.importorskip("onnx.helper")
    torch = pytest.importorskip("torch")
    onnx, torch_device = pytest.importorskip("clprim.onnx"), pytest.importorskip("clprim.torch")
    values = np.tile(NUMBERS.astype("f4"), 3)
    for dtype in INTEGERS:
        expected = wrapped(values, dtype)
        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        infos = [
            helper.make_tensor_value_info(name, of, [None]) for name, of in (("x", 1), ("y", to))
        ]
        graph = helper.make_graph(
            [helper.make_node("Cast", ["x"], ["y"], to=to)], "cast", infos[:1], infos[1:]
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        assert np.array_equal(onnx.load(model)(values), expected)
        x = torch.from_numpy(values).to("opencl")
        equal(torch_device.array(x.to(getattr(torch, dtype))), expected)
