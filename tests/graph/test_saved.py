"""Saved graphs: they come back as they were, also in another process, and bad files are refused."""

import contextlib
import gc
import json
import struct
import subprocess
import sys
import weakref

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

pytestmark = pytest.mark.usefixtures("device")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def net(x, w, b, v):
    y = ops.relu(ops.conv2d(x, w, b, padding=1))
    y = ops.max_pool2d(y, 2)
    y = ops.cat([y, ops.pad(y[:, :2], (0, 0, 0, 0))], 1)
    y = ops.layer_norm(y.mean(axis=(2, 3)), (10,))
    y = ops.softmax(ops.linear(y, v), -1)
    return y, ops.argsort(y, -1), ops.cumsum(y, -1)


SHAPES = (2, 3, 6, 8), (8, 3, 3, 3), (8,), (5, 10)


def saved(path):
    given = arrays(*SHAPES)
    compiled = cp.jit(net, constants=("w", "b", "v"))
    expected = [a.get() for a in compiled(*given)]
    compiled.graph(*given).save(path)
    return given[0], expected


def test_a_graph_comes_back(tmp_path):
    x, expected = saved(tmp_path / "net.clprim")
    graph = cp.Graph.load(tmp_path / "net.clprim")
    for _ in range(2):
        for found, each in zip(graph(x), expected, strict=True):
            equal(found, each)
    # Arrays that lie otherwise are copied.
    last = ops.contiguous(x, memory_format="channels_last")
    equal(graph(last)[0], expected[0])
    assert len(graph.nodes) > 3 and "conv2d" in str(graph)
    with pytest.raises(
        cp.ShapeError, match=r"a0 has shape \(1, 3, 6, 8\), expected \(2, 3, 6, 8\)"
    ):
        graph(x[:1])
    with pytest.raises(cp.ShapeError, match="expected 1 arrays, got 2"):
        graph(x, x)
    with pytest.raises(cp.DTypeError, match="a0 is int32"):
        graph(x.astype("int32"))


@pytest.mark.alone
def test_a_graph_has_inputs_among_its_results(tmp_path):
    x, y = arrays((3, 4), (5,))
    compiled = cp.jit(lambda x, y: (y, {"twice": [x * 2, 7.0], "turned": x.T}, x))
    graph = compiled.graph(x, y)
    assert graph is compiled.graph(x, y) and str(graph).endswith(", a0")
    graph.save(tmp_path / "net.clprim")
    for each in (graph, cp.Graph.load(tmp_path / "net.clprim")):
        for found, expected in zip(each(x, y), (y, x * 2, x.T, x), strict=True):
            equal(found, expected.get())
    equal(cp.jit(lambda x: x).graph(y)(y), y.get())


def test_a_graph_of_transforms_comes_back(tmp_path):
    (x,) = arrays((3, 12))
    compiled = cp.jit(lambda x: (ops.fft.rfft(x), ops.fft.ifft(x, 5, 0).real))
    compiled.graph(x).save(tmp_path / "net.clprim")
    for found, each in zip(cp.Graph.load(tmp_path / "net.clprim")(x), compiled(x), strict=True):
        np.testing.assert_array_equal(found.get(), each.get())


def test_a_graph_that_was_called_goes_with_its_memory(tmp_path):
    x, _ = saved(tmp_path / "net.clprim")
    graph = cp.Graph.load(tmp_path / "net.clprim")
    graph(x)
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None


def test_another_process_reads_it(tmp_path):
    x, expected = saved(tmp_path / "net.clprim")
    np.save(tmp_path / "x.npy", x.get())
    program = (
        "import sys, numpy as np, clprim as cp\n"
        "g = cp.Graph.load(sys.argv[1] + '/net.clprim')\n"
        "y = g(cp.asarray(np.load(sys.argv[1] + '/x.npy')))\n"
        "np.save(sys.argv[1] + '/y.npy', y[0].get())\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected[0], rtol=1e-5)


def parts(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["clprim"]), raw[8 + length :]


def write(path, header, told, data):
    header["__metadata__"]["clprim"] = json.dumps(told)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def change(told, how):
    if how == "size":
        told["nodes"][0]["writes"][0][1] = [10**12] * 4
    elif how == "reach":
        told["nodes"][0]["reads"][0][3] = 10**6
    elif how == "negative":
        told["nodes"][0]["reads"][0][3] = -4
    elif how == "string":
        pointwise = next(n for n in told["nodes"] if n["kind"] in ("Grouped", "Pointwise"))
        pointwise["told"]["each" if "each" in pointwise["told"] else "expr"] = "y0 = system(;"
    elif how == "kind":
        told["nodes"][0]["kind"] = "os.system"
    elif how == "class":
        told["nodes"][0]["options"] = {"class": "subprocess.Popen", "told": {"args": "true"}}
    elif how == "order":
        told["nodes"].reverse()
    elif how == "buffer":
        told["nodes"][0]["reads"][0][0] = 999
    elif how == "type":
        told["nodes"] = 7
    elif how == "nbytes":
        told["buffers"][0]["nbytes"] = -1


@pytest.mark.parametrize(
    "how",
    "size reach negative string kind class order buffer type nbytes".split(),
)
def test_hostile_files_are_refused(tmp_path, how):
    path = tmp_path / "net.clprim"
    saved(path)
    header, told, data = parts(path)
    change(told, how)
    write(path, header, told, data)
    with pytest.raises(cp.ClprimError, match="load: "):
        cp.Graph.load(path)


@pytest.mark.alone
def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "net.clprim"
    saved(path)
    raw, bad = path.read_bytes(), tmp_path / "bad.clprim"
    for cut in (0, 4, 8, 100, len(raw) // 2, len(raw) - 1):
        bad.write_bytes(raw[:cut])
        with pytest.raises(cp.ClprimError, match="load: "):
            cp.Graph.load(bad)
    with pytest.raises(cp.DefinitionError, match=r"load: .*none"):
        cp.Graph.load(tmp_path / "none")
    (length,) = struct.unpack("<Q", raw[:8])
    generator = np.random.default_rng(0)
    for _ in range(60):  # a byte of the header
        flipped = bytearray(raw)
        flipped[8 + int(generator.integers(length))] ^= 1 << int(generator.integers(8))
        bad.write_bytes(flipped)
        with contextlib.suppress(cp.ClprimError):
            cp.Graph.load(bad)


def test_a_picture_is_drawn(tmp_path):
    given = arrays(*SHAPES)
    compiled = cp.jit(net)
    compiled.draw(tmp_path / "net.svg", *given)
    text = (tmp_path / "net.svg").read_text(encoding="utf-8")
    assert text.startswith("<svg") and "conv2d" in text and "replayed" in text
    with pytest.raises(cp.DefinitionError, match=r"ends in \.svg or \.png"):
        compiled.draw(tmp_path / "net.gif", *given)


def test_what_is_no_path_is_refused(tmp_path):
    given = arrays(*SHAPES)
    compiled = cp.jit(net)
    graph = compiled.graph(*given)
    for call, what in (
        (lambda: graph.save(3), "save: 3"),
        (lambda: graph.save(tmp_path / "none" / "net.clprim"), "save: .*No such file"),
        (lambda: cp.Graph.load(None), "load: None"),
        (lambda: compiled.draw(3, *given), "draw: 3"),
    ):
        with pytest.raises(cp.DefinitionError, match=what):
            call()
