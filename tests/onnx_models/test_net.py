"""Models as functions: how they are called, what is compiled, where the plan is cut."""

import subprocess
import sys
import threading

import numpy as np
import pyopencl as cl
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.onnx  # noqa: E402
from clprim.arrays.array import array_over  # noqa: E402
from clprim.onnx import plan  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")


def model(text, version=17):
    """A model of one graph, in ONNX's words."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {version}]> {text}')


LINEAR = """g (float[n, 4] x, float[4, 2] w) => (float[n, 2] y) {
    p = MatMul(x, w)
    y = Relu(p)
}"""


def numbers(*shape):
    """Numbers that are the same in each test."""
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def test_calls_take_arrays_in_order_by_name_and_in_a_dict(device):
    net = clprim.onnx.load(model(LINEAR))
    x, w = numbers(3, 4), numbers(4, 2)
    wanted = np.maximum(x.astype(np.float64) @ w, 0)
    for found in (net(x, w), net({"x": x, "w": w}), net(x, w=w)):
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_device_arrays_give_device_arrays(device):
    net = clprim.onnx.load(model(LINEAR))
    x, w = numbers(3, 4), numbers(4, 2)
    found = net(cp.asarray(x), cp.asarray(w))
    assert isinstance(found, cp.Array)
    np.testing.assert_allclose(found.get(), net(x, w), rtol=1e-6)


def test_several_outputs_are_a_dict(device):
    net = clprim.onnx.load(model("g (float[2] x) => (float[2] a, float[2] b) {"
                                 " a = Neg(x) b = Abs(x) }"))  # fmt: skip
    found = net(np.float32([-1, 2]))
    assert [*found] == ["a", "b"]
    np.testing.assert_array_equal(found["a"], [1, -2])
    np.testing.assert_array_equal(found["b"], [1, 2])


def test_inputs_and_outputs_name_dtypes_and_free_sizes():
    net = clprim.onnx.load(model(LINEAR))
    assert net.inputs == {"x": ("float32", ("n", 4)), "w": ("float32", (4, 2))}
    assert net.outputs == {"y": ("float32", ("n", 2))}


def test_a_negative_size_is_free(device):
    made = model("g (float[n, 2] x) => (float[n, 2] y) { y = Neg(x) }")
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    net = clprim.onnx.load(made)
    assert net.inputs == {"x": ("float32", (None, 2))}
    np.testing.assert_array_equal(net(np.float32([[1, 2]])), [[-1, -2]])


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((numbers(3, 4),), cp.ShapeError, "missing"),
        ((numbers(3, 5), numbers(4, 2)), cp.ShapeError, "expected"),
        ((numbers(3, 4).astype(np.float64), numbers(4, 2)), cp.DTypeError, "float64"),
        ((numbers(3, 4),) * 3, cp.ShapeError, "3 inputs"),
        (({"x": numbers(3, 4), "z": numbers(4, 2)},), cp.ShapeError, "'z'"),
        ((None, numbers(4, 2)), cp.ShapeError, "missing"),
        (([[1.0] * 4], numbers(4, 2)), cp.DTypeError, "float64, expected float32"),
        (([[1.0] * 4, [1.0]], numbers(4, 2)), cp.DTypeError, "no array"),
        (("a", numbers(4, 2)), cp.DTypeError, "object, expected float32"),
    ],
)
@pytest.mark.parametrize("call", ["__call__", "explain", "profile", "times", "graph"])
def test_inputs_that_do_not_fit_are_refused(args, error, text, call):
    with pytest.raises(error, match=text):
        getattr(clprim.onnx.load(model(LINEAR)), call)(*args)


@pytest.mark.refusal
def test_device_arrays_that_do_not_fit_are_refused(device):
    net, w = clprim.onnx.load(model(LINEAR)), cp.asarray(numbers(4, 2))
    with pytest.raises(cp.DTypeError, match="x is float64, expected float32"):
        net(cp.asarray(numbers(3, 4).astype(np.float64)), w)
    with pytest.raises(cp.ShapeError, match=r"x has shape \(3, 5\)"):
        net(cp.asarray(numbers(3, 5)), w)


def test_each_size_is_compiled_once_and_old_plans_stay(device):
    net = clprim.onnx.load(model(LINEAR))
    w = numbers(4, 2)
    for n in (1, 3, 1, 3, 2, 1):
        x = numbers(n, 4)
        np.testing.assert_allclose(net(x, w), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
    assert len(net._plan._known) == 3


def test_options_are_a_part_of_the_signature(device):
    net, x, w = clprim.onnx.load(model(LINEAR)), numbers(3, 4), numbers(4, 2)
    for error in (5e-6, 0, 5e-6):
        with cp.options(convolution_error=error):
            np.testing.assert_allclose(net(x, w), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
    assert len(net._plan._known) == 2


def test_inputs_over_overlapping_memory_run_step_by_step(device):
    net, given = clprim.onnx.load(model(LINEAR)), []
    whole = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 4096)
    for n, shape in (0, (3, 4)), (1024, (4, 2)):
        part, (rows, columns) = whole.get_sub_region(n, 2048), shape
        where = shape, np.dtype("f4"), (4 * columns, 4), 0, rows * columns
        given.append(array_over(device, part, *where))
        given[-1][...] = numbers(*shape)
    wanted = np.maximum(numbers(3, 4) @ numbers(4, 2), 0)
    for _ in range(2):
        np.testing.assert_allclose(net(*given).get(), wanted, rtol=1e-5, atol=1e-6)
    assert len(net._plan._known) == 0


def test_shapes_are_computed_on_the_host(device):
    net = clprim.onnx.load(
        model("""g (float[n, c, h] x) => (float[a, b] y) {
        s = Shape(x)
        zero = Constant<value = int64[1] {0}>()
        n0 = Gather(s, zero)
        minus = Constant<value = int64[1] {-1}>()
        to = Concat<axis = 0>(n0, minus)
        y = Reshape(x, to)
    }""")
    )
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(net(x), x.reshape(2, 12))
    assert len(net._plan._known) == 1


def test_what_a_value_decides_cuts_the_plan(device):
    net = clprim.onnx.load(
        model("""g (float[n] x) => (float[m] y) {
        zero = Constant<value = float {0.0}>()
        on = Greater(x, zero)
        where = NonZero(on)
        flat = Squeeze(where)
        some = Gather(x, flat)
        y = Sqrt(some)
    }""")
    )
    for x in (np.float32([4, -1, 9]), np.float32([-1, -4, 16]), np.float32([-1, -1, -1])):
        np.testing.assert_array_equal(net(x), np.sqrt(x[x > 0]))


def test_a_shape_that_is_an_input_is_a_part_of_the_signature(device):
    net = clprim.onnx.load(model("g (float[n] x, int64[r] s) => (float[a, b] y)"
                                 " { y = Reshape(x, s) }"))  # fmt: skip
    x = numbers(6)
    for shape in ([2, 3], [3, 2], [2, 3], [6, 1]):
        np.testing.assert_array_equal(net(x, np.array(shape)), x.reshape(shape))
    assert net._host == {"s"}


_BRANCHES = """g (bool c, float[2] x) => (float[2] y) {
    y = If (c) <
        then_branch = yes () => (float[2] a) { a = Neg(x) },
        else_branch = no () => (float[2] b) { b = Abs(x) }
    >
}"""


def test_branches_see_names_around_them(device):
    net = clprim.onnx.load(model(_BRANCHES))
    x = np.float32([-1, 2])
    np.testing.assert_array_equal(net(np.array(True), x), [1, -2])
    np.testing.assert_array_equal(net(np.array(False), x), [1, 2])


def test_a_condition_of_the_device_is_read(device):
    text = _BRANCHES.replace("bool c, ", "").replace("y = If", "s = ReduceSum<keepdims = 0>(x)"
        " zero = Constant<value = float {0.0}>() c = Greater(s, zero) y = If")  # fmt: skip
    net = clprim.onnx.load(model(text))
    np.testing.assert_array_equal(net(np.float32([-1, 2])), [1, -2])
    np.testing.assert_array_equal(net(np.float32([-3, 2])), [3, 2])


def test_threads_may_share_a_net(device):
    """Each makes plans of its own sizes, which a condition of the device cuts."""
    text = _BRANCHES.replace("bool c, ", "").replace("[2]", "[n]").replace("y = If",
        "s = ReduceSum<keepdims = 0>(x) zero = Constant<value = float {0.0}>() c = Greater(s, zero)"
        " y = If")  # fmt: skip
    net = clprim.onnx.load(model(text))
    wrong = []

    def run(sign):
        for n in [*range(2, 14), 3, 5, 7]:
            x = np.arange(1, n + 1, dtype=np.float32) * sign
            try:
                if not np.array_equal(net(x), -x if sign > 0 else np.abs(x)):
                    wrong.append(n)
            except Exception as error:
                wrong.append(error)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(sign,)) for sign in (1, -1, 1, -1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert not wrong


def test_loops_carry_values_and_collect_others(device):
    net = clprim.onnx.load(
        model("""g (int64 n, float x) => (float last, float[k] all) {
        go = Constant<value = bool {1}>()
        last, all = Loop (n, go, x) <body = turn (int64 i, bool c, float v)
            => (bool d, float w, float z) { d = Identity(c) w = Add(v, v) z = Identity(v) }>
    }""")
    )
    found = net(np.int64(3), np.float32(1.5))
    assert found["last"] == 12
    np.testing.assert_array_equal(found["all"], [1.5, 3, 6])


def test_functions_are_inlined_with_their_attributes(device):
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x) => (float[2] y) { h = own.twice<by = 3.0>(x) y = own.twice(h) }
    <opset_import: ["" : 17], domain: "own">
    twice <by: float = 2.0> (a) => (b) {
        c = Constant<value_float: float = @by>()
        b = Mul(a, c)
    }"""
    net = clprim.onnx.load(parser.parse_model(text))
    np.testing.assert_array_equal(net(np.float32([1, -2])), [6, -12])


def test_weights_are_constants_that_are_packed(device):
    w = numbers(64, 32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])],
        [numpy_helper.from_array(w, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    net, x = clprim.onnx.load(made.SerializeToString()), numbers(256, 64)
    wanted = np.maximum(x.astype(np.float64) @ w, 0)
    np.testing.assert_allclose(net(x), wanted, rtol=1e-4, atol=1e-5)
    _, (segment,) = net._run(net._bound((x,), {}))
    replay = segment.compiled.replay
    assert len(replay.steps) == 1, net.explain(x)
    assert replay.graph.nodes[0].kept
    assert ", 1 kernels," in net.explain(x)
    assert len(net.profile(x).events) == 1


def bytes_of(nodes, shape, **weights):
    """A model of one input and one output with weights."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    sets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString()


def test_what_is_planned_is_kept_on_disk(device, tmp_path, monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    node = helper.make_node("MatMul", ["x", "w"], ["p"])
    nodes = [node, helper.make_node("Add", ["p", "b"], ["y"])]
    w, b, x = numbers(64, 96), numbers(96), numbers(5, 64)
    wanted = clprim.onnx.load(bytes_of(nodes, ["n", 64], w=w, b=b))(x)
    counted = []
    monkeypatch.setattr(plan, "run_steps", lambda *args: counted.append(args))
    again = clprim.onnx.load(bytes_of(nodes, ["n", 64], w=w, b=b))
    np.testing.assert_array_equal(again(x), wanted)
    other = clprim.onnx.load(bytes_of(nodes, ["n", 64], w=w * 2, b=b))
    np.testing.assert_allclose(other(x), 2 * x.astype(float) @ w + b, rtol=1e-4, atol=1e-5)
    assert not counted
    monkeypatch.undo()
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    assert "MatMul" in again.explain(x)
    again.graph(x).save(tmp_path / "net.clprim")
    assert again(x[:2]).shape == (2, 96)


def test_what_was_computed_of_weights_is_kept_with_them(device, tmp_path, monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    nodes = [helper.make_node("Mul", ["w", "w"], ["v"]), helper.make_node("Mul", ["x", "v"], ["y"])]
    w = numbers(96, 64)
    for values in (w, w, w + 1, w):
        net = clprim.onnx.load(bytes_of(nodes, [96, 64], w=values))
        np.testing.assert_allclose(net(np.ones_like(w)), values * values, rtol=1e-6)


def test_damaged_plans_on_disk_are_made_anew(device, tmp_path, monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    nodes, x = [helper.make_node("Relu", ["x"], ["y"])], numbers(3, 4)
    clprim.onnx.load(bytes_of(nodes, [3, 4]))(x)
    monkeypatch.setattr(plan.disk_cache, "load", lambda key: b"what another version wrote")
    np.testing.assert_array_equal(clprim.onnx.load(bytes_of(nodes, [3, 4]))(x), np.maximum(x, 0))


def test_small_numbers_are_codes_on_the_device(device):
    import ml_dtypes

    net = clprim.onnx.load(model("g (float[n] x) => (float8e4m3fn[n] y, float[n] z) {"
                                 " y = Cast<to = 17>(x) z = Cast<to = 1>(y) }", 19))  # fmt: skip
    x = np.float32([0, -0.0, 1.06, 1.0625, 1.1875, 448, 1e6, -1e6, np.nan, 0.001])
    found = net(x)
    wanted = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(found["y"].view(np.uint8), wanted.view(np.uint8))
    np.testing.assert_array_equal(found["z"], wanted.astype(np.float32))


def test_the_host_warns_once_of_what_it_computes(device):
    net = clprim.onnx.load(
        model("""g (float[2, 3] x) => (float[a, b] y) {
        bins = Constant<value = int64 {8}>() n = Constant<value = int64 {16}>()
        rate = Constant<value = int64 {8000}>() low = Constant<value = float {0.0}>()
        high = Constant<value = float {4000.0}>()
        y = MelWeightMatrix(bins, n, rate, low, high)
    }""")
    )
    with pytest.warns(UserWarning, match="MelWeightMatrix runs on the host"):
        found = net(numbers(2, 3))
    assert found.shape == (9, 8)
    assert found.max() > 0.1


def test_a_saved_model_is_one_file(device, tmp_path):
    w = numpy_helper.from_array(numbers(4, 2), "w")
    made = model(LINEAR)
    made.graph.initializer.append(w)
    onnx.save(made, tmp_path / "a.onnx", save_as_external_data=True, size_threshold=0)
    net, x = clprim.onnx.load(tmp_path / "a.onnx"), numbers(3, 4)
    assert not net._plan.kept  # the model's digest says nothing of the other file
    net.save(tmp_path / "b.onnx")
    again = clprim.onnx.load((tmp_path / "b.onnx").read_bytes())
    np.testing.assert_array_equal(again(x), net(x))


def test_its_graph_is_saved_and_runs_without_the_model(device, tmp_path):
    net = clprim.onnx.load(
        model("""g (float[n, 4] x, float[4, 2] w) => (float[n, 2] y, float[n, 4] z) {
        z = Neg(x)
        p = MatMul(z, w)
        y = Relu(p)
    }""")
    )
    x, w = numbers(3, 4), numbers(4, 2)
    graph = net.graph(x, w)
    graph.save(tmp_path / "net.clprim")
    y, z = cp.Graph.load(tmp_path / "net.clprim")(cp.asarray(x), cp.asarray(w))
    np.testing.assert_array_equal(z.get(), -x)
    np.testing.assert_array_equal(y.get(), net(x, w)["y"])


def test_what_is_cut_is_no_graph(device):
    net = clprim.onnx.load(
        model("g (float[n] x) => (int64[1, m] y, float[n] z) { z = Neg(x) y = NonZero(z) }")
    )
    with pytest.raises(cp.DefinitionError, match="graphs run it"):
        net.graph(np.float32([1, 0, 2]))
    only = clprim.onnx.load(model("g (float[n] x) => (int64[1] y) { y = Shape(x) }"))
    with pytest.raises(cp.DefinitionError, match="0 graphs"):
        only.graph(np.float32([1]))


def test_time_is_counted_by_node(device):
    net = clprim.onnx.load(model(LINEAR))
    found = net.times(numbers(3, 4), numbers(4, 2))
    assert found == sorted(found, key=lambda row: -row.seconds)
    assert sum(row.kernels for row in found) == len(
        net.profile(numbers(3, 4), numbers(4, 2)).events
    )
    assert {row.node.partition(" ")[0] for row in found} <= {"MatMul", "Relu"}
    assert all(row.seconds > 0 for row in found)


def test_the_backend_runs_models_and_nodes(device):
    from clprim.onnx import backend

    x = np.float32([-1, 2])
    prepared = backend.prepare(model("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
    np.testing.assert_array_equal(prepared.run([x])[0], [0, 2])
    np.testing.assert_array_equal(prepared.run({"x": x})[0], [0, 2])
    node = helper.make_node("Add", ["a", "b"], ["c"])
    np.testing.assert_array_equal(backend.run_node(node, [x, x])[0], x + x)
    assert not backend.supports_device("a device that is not there")
    assert not backend.is_compatible(model("g (float[2] x) => (float[2] y) { y = Nothing(x) }"))


def test_the_import_leaves_what_takes_long_to_those_who_need_it():
    told = "import sys, clprim.onnx; print(*(n for n in sys.modules if n == 'onnx.reference'))"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert not found.stdout.strip()
