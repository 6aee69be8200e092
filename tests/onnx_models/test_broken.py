"""Files that are broken, or made to do harm: one clear error, and nothing read elsewhere."""

import random
import subprocess
import sys
import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.onnx  # noqa: E402

pytestmark = pytest.mark.refusal
_FLOAT = TensorProto.FLOAT


def graph_of(nodes, constants=(), outputs=("y",)):
    """A model with one input, x, of four numbers."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", _FLOAT, [4])],
        [helper.make_tensor_value_info(name, _FLOAT, None) for name in outputs],
        [*constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def refused(source, text):
    """Asserts that a model is refused with a text in the message."""
    with pytest.raises(cp.ClprimError, match=text):
        clprim.onnx.load(source)


RELU = helper.make_node("Relu", ["x"], ["y"])


def test_what_is_no_model_is_refused(tmp_path):
    refused(b"", "no graph")
    refused(b"nothing of the kind", "no model")
    refused(tmp_path / "missing.onnx", "No such file")
    refused(7, "expected a path")


def test_truncated_files_are_refused(tmp_path):
    whole = graph_of([RELU], [numpy_helper.from_array(np.ones(100, np.float32), "w")])
    data = whole.SerializeToString()
    for size in (1, len(data) // 3, len(data) - 9):
        path = tmp_path / "half.onnx"
        path.write_bytes(data[:size])
        refused(path, "no model|no graph")


def test_names_that_nothing_makes_and_cycles_are_told_apart():
    add = helper.make_node
    refused(graph_of([add("Add", ["x", "w"], ["y"])]), "reads 'w': nothing makes it")
    nodes = [add("Add", ["x", "b"], ["a"]), add("Neg", ["a"], ["b"]), add("Neg", ["b"], ["y"])]
    refused(graph_of(nodes), "cycle")
    refused(graph_of([RELU], outputs=("y", "z")), "output 'z'")
    refused(graph_of([RELU, RELU]), "two nodes make 'y'")


def test_large_elements_are_found_in_the_models_bytes_or_refused():
    w = numpy_helper.from_array(np.arange(8192, dtype=np.float32).reshape(4, 2048), "w")
    data = graph_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [w]).SerializeToString()
    found = clprim.onnx.load(data)._program.constants["w"]
    np.testing.assert_array_equal(found, np.arange(8192).reshape(4, 2048))
    for size in (len(data) - 1, len(data) - 9000, 200):
        refused(data[:size], "no model|no graph")
    # What says that its elements are in the model's own bytes is believed within these alone.
    refused(
        graph_of([RELU], [external("w", "\0", offset=1 << 40)]).SerializeToString(), "not there"
    )
    refused(graph_of([RELU], [external("w", "\0", length=3)]).SerializeToString(), "3 bytes for 16")


def test_attributes_and_inputs_are_held_to_the_schema():
    make = helper.make_node
    refused(graph_of([make("Relu", ["x"], ["y"], slope=1.0)]), "no attribute 'slope'")
    refused(graph_of([make("LeakyRelu", ["x"], ["y"], alpha=1)]), "another type")
    refused(graph_of([make("Relu", ["x", "x"], ["y"])]), "2 inputs")
    refused(graph_of([make("Cast", ["x"], ["y"])]), "'to' is missing")


def test_all_that_nothing_computes_is_named_at_once():
    nodes = [
        helper.make_node("Nothing", ["x"], ["a"], name="first"),
        helper.make_node("Neither", ["a"], ["y"], name="second"),
    ]
    with pytest.raises(cp.ClprimError) as caught:
        clprim.onnx.load(graph_of(nodes))
    for part in ("'first' (Nothing, opset 17)", "'second' (Neither, opset 17)"):
        assert part in str(caught.value)


def external(name, location, **entries):
    """A tensor whose data are in another file."""
    tensor = TensorProto(name=name, data_type=_FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def saved(folder, tensor):
    """A model with a tensor as a file."""
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    path.write_bytes(graph_of(nodes, [tensor]).SerializeToString())
    return path


def test_external_data_are_read_from_the_models_folder_alone(tmp_path):
    folder, values = tmp_path / "model", np.arange(4, dtype=np.float32)
    outside = tmp_path / "secret"
    outside.write_bytes(values.tobytes())
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    for location in ("../secret", str(outside), "link", ""):
        refused(saved(folder, external("w", location)), "outside of the model's folder")
    (folder / "data").write_bytes(b"1234" + values.tobytes())
    refused(saved(folder, external("w", "gone")), "not there")
    refused(saved(folder, external("w", "data", offset=8)), "does not hold")
    refused(saved(folder, external("w", "data", offset=-4)), "does not hold")
    refused(saved(folder, external("w", "data", length=1 << 50)), "does not hold")
    path = saved(folder, external("w", "data", offset=4))
    refused(path.read_bytes(), "load the model by its path")
    assert clprim.onnx.load(path).inputs == {"x": ("float32", (4,))}


def test_constants_that_are_not_there_are_not_allocated():
    for raw in (b"", b"1234"):
        huge = TensorProto(name="w", data_type=_FLOAT, dims=[10**6, 10**6], raw_data=raw)
        refused(graph_of([RELU], [huge]), "w, shape")
    refused(graph_of([RELU], [TensorProto(name="w", data_type=_FLOAT, dims=[10**12])]), "shape")
    refused(graph_of([RELU], [TensorProto(name="w", data_type=_FLOAT, dims=[-1])]), "negative")
    refused(graph_of([RELU], [TensorProto(name="w", data_type=99, dims=[1], raw_data=b"1")]), "w,")


@pytest.mark.parametrize("text", ["ConstantOfShape(s)", "Expand(x, s)"])
def test_results_of_any_size_are_refused_when_they_run(text):
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[a] y)'
        f" {{ s = Constant<value = int64[2] {{1000000, 1000000}}>() y = {text} }}"
    )
    with pytest.raises(cp.ClprimError, match="shape"):
        clprim.onnx.load(made)(np.float32([1]))


def test_functions_that_call_themselves_are_refused():
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x) => (float[2] y) { y = own.f(x) }
    <opset_import: ["" : 17, "own" : 1], domain: "own"> f (a) => (b) { b = own.f(a) }"""
    refused(parser.parse_model(text), "calls itself")


_SMALL = (
    "g (float[2, 3] x) => (float[a, b] y) { w = Transpose<perm = [1, 0]>(x) y = MatMul(x, w) }",
    "g (float[2, 3] x) => (float[a] y) { s = Shape(x) t = Cast<to = 1>(s) y = Sqrt(t) }",
    "g (float[2, 3] x) => (float[a, b] y) { a = ReduceSum<keepdims = 1>(x) y = Div(x, a) }",
    "g (float[1, 1, 4, 4] x) => (float[a, b, c, d] y)"
    " { y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }",
)  # fmt: skip


def test_flipped_bytes_give_an_error_or_a_result(device):
    """No crash, no hang and no error of another kind, whatever a byte says."""
    dice = random.Random(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in _SMALL:
            made = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
            data = made.SerializeToString()
            for _ in range(60):
                broken = bytearray(data)
                for _ in range(dice.choice((1, 1, 2, 4))):
                    broken[dice.randrange(len(broken))] = dice.randrange(256)
                try:
                    net = clprim.onnx.load(bytes(broken))
                    given = {
                        n: np.ones(
                            [s if isinstance(s, int) and s < 9 else 1 for s in sizes or ()],
                            kind or "f4",
                        )
                        for n, (kind, sizes) in net.inputs.items()
                    }
                    net(given)
                except cp.ClprimError:
                    pass


def test_without_the_package_the_import_says_so():
    code = "import sys; sys.modules['onnx'] = None; import clprim.onnx"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "MissingPackageError: clprim.onnx needs the onnx package" in found.stderr
