"""How many Python functions first calls run whose kernels are known: of operators, of a model."""

import sys
from dataclasses import replace
from uuid import uuid4

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.plan.conv.dense import CPU, GPU, dense_convolution
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.runtime.tables import table_of


def calls_of(run):
    """How many functions written in Python `run` calls, by name."""
    found = {}

    def count(frame, event, _):
        if event == "call":
            name = frame.f_code.co_name
            found[name] = found.get(name, 0) + 1

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def test_a_first_convolution_is_soon_planned_and_launched(device):
    x, w = cp.zeros((8, 64, 56, 56), "float32"), cp.zeros((64, 64, 3, 3), "float32")
    ops.conv2d(x, w, padding=1)
    Calls.forget()
    table_of(device).plans.clear()
    assert sum(calls_of(lambda: ops.conv2d(x, w, padding=1)).values()) < 3000


def _repeated(rank):
    """Convolutions in each direction, that are told nothing new."""
    name = f"conv{rank}d"
    x, w = (cp.zeros((size, 4, *(n,) * rank), "float32") for size, n in ((1, 6), (4, 3)))
    bias, told = cp.zeros((4,), "float32"), {"stride": (1,) * rank, "padding": 1}
    yield lambda: getattr(ops, name)(x, w, bias, **told)
    yield lambda: getattr(ops, f"conv_transpose{rank}d")(x, w, **told)
    yield lambda: getattr(ops, f"{name}_input")(x.shape, w, x, **told)
    yield lambda: getattr(ops, f"{name}_weight")(x, w.shape, x, **told)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_repeated_convolution_is_one_look_up(device, rank):
    for run in _repeated(rank):
        run()
        assert sum(calls_of(run).values()) < 70


def test_other_numbers_of_a_convolution_of_rows_are_planned_no_more(device):
    x, w = cp.zeros((1, 4, 6), "float32"), cp.zeros((4, 4, 3), "float32")

    def run(number):
        out = ops.conv1d(x, w, padding=1, epilogue="y0 = y0 + w0;", epilogue_args=number)
        assert (out.get() == number).all()

    run(0.5)
    assert sum(calls_of(lambda: run(1.5)).values()) < 300


@pytest.mark.parametrize("traits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("error", [0, 5e-6])
def test_what_a_convolution_is_and_its_tile_are_found_once(traits, error):
    what = replace(dense_convolution(8, 64, 56, 64), error=error)
    CONVOLUTIONS.plan(what, traits)
    found = calls_of(lambda: CONVOLUTIONS.plan(what, traits))
    assert sum(found.values()) < (2200 if traits.is_cpu else 3000)
    for name in ("depthwise_of", "gradient_of", "contractions", "winograd_tile", "best_outline"):
        assert found.get(name, 0) <= 1, name


# Two convolutions, of which one is added to what it reads, a pooling and a classifier.
NODES = """g (float[n, 3, 32, 32] x) => (float[n, 64] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
    b = BatchNormalization(a, s1, t1, m1, v1)
    c = Relu(b)
    d = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)
    e = Conv<pads = [1, 1, 1, 1]>(d, w2)
    f = BatchNormalization(e, s2, t2, m2, v2)
    h = Relu(f)
    i = Add(d, h)
    j = GlobalAveragePool(i)
    k = Flatten(j)
    l = Gemm<transB = 1>(k, w3, b3)
    y = Softmax<axis = -1>(l)
}"""
WEIGHTS = {"w1": (16, 3, 3, 3), "w2": (16, 16, 3, 3), "w3": (64, 16), "b1": (16,), "b3": (64,)}
WEIGHTS |= dict.fromkeys(("s1", "t1", "m1", "v1", "s2", "t2", "m2", "v2"), (16,))


def test_a_first_run_of_an_onnx_model_is_soon_planned_and_launched(device, monkeypatch, tmp_path):
    onnx = pytest.importorskip("onnx")
    import clprim.onnx

    # Whoever first writes into a large cache counts its files, each of which is a call.
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    dice = np.random.default_rng(3)
    weights = {n: dice.uniform(0.5, 1, shape).astype(np.float32) for n, shape in WEIGHTS.items()}

    def calls_of_first(batch):
        """Of another model each time, so that the disk has no plan of it."""
        head = f'ir_version: 8, opset_import: ["" : 17], doc_string: "{uuid4().hex}"'
        model = onnx.parser.parse_model(f"<{head}> {NODES}")
        model.graph.initializer.extend(
            onnx.numpy_helper.from_array(value, name) for name, value in weights.items()
        )
        net, x = clprim.onnx.load(model.SerializeToString()), cp.zeros((batch, 3, 32, 32)).get()
        return sum(calls_of(lambda: net(x)).values())

    calls_of_first(2)
    calls_of_first(3)  # whose kernels are built
    assert calls_of_first(4) < 20_000
