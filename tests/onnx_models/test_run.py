"""``clprim run``: inputs from files, shapes for free axes, what is printed."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import parser  # noqa: E402

import clprim as cp  # noqa: E402
from clprim.command import cli  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")


@pytest.fixture
def model(tmp_path):
    """A file with a model of one picture."""
    made = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    net (float[n, 3, h, w] image) => (float[n, c, a, b] mean) {
        mean = GlobalAveragePool(image)
    }""")
    path = tmp_path / "net.onnx"
    onnx.save(made, path)
    return path


def test_arrays_and_shapes_are_taken_by_name(device, model, tmp_path, capsys):
    x = np.arange(24, dtype=np.float32).reshape(1, 3, 2, 4)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "y.npz"
    words = ["run", str(model), "--input", f"image={tmp_path / 'x.npy'}", "--output", str(out)]
    assert cli.main([*words, "--repeat", "2", "--profile", "--explain"]) == 0
    text = capsys.readouterr().out
    np.testing.assert_array_equal(np.load(out)["mean"], x.mean((2, 3), keepdims=True))
    assert "mean: float32[1, 3, 1, 1] from 3.5 to 19.5, mean 11.5" in text
    assert "median of 2 runs" in text
    assert "GlobalAveragePool" in text
    assert cli.main(["run", str(model), "--shape", "2,3,4,4"]) == 0
    assert "mean: float32[2, 3, 1, 1]" in capsys.readouterr().out


def test_time_is_drawn_and_the_graph_saved(device, model, tmp_path, capsys):
    words = ["run", str(model), "--shape", "1,3,8,8", "--profile"]
    files = ["--picture", str(tmp_path / "a.svg"), "--save", str(tmp_path / "net.clprim")]
    assert cli.main([*words, *files]) == 0
    text = capsys.readouterr().out
    assert "GlobalAveragePool '#0'" in text
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "GlobalAveragePool" in picture
    assert "<rect" in picture
    x = cp.asarray(np.arange(192, dtype=np.float32).reshape(1, 3, 8, 8))
    found = cp.Graph.load(tmp_path / "net.clprim")(x)
    np.testing.assert_array_equal(found.get(), x.get().mean((2, 3), keepdims=True))


def test_pictures_are_resized_and_normalised(device, model, tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (9, 7), (255, 0, 51)).save(tmp_path / "x.png")
    given = ["run", str(model), "--input", str(tmp_path / "x.png")]
    out = tmp_path / "y.npz"
    options = ["--shape", "1,3,4,5", "--normalise", "unit", "--output", str(out)]
    assert cli.main([*given, *options]) == 0
    np.testing.assert_allclose(np.load(out)["mean"].reshape(-1), [1, 0, 0.2], atol=1e-6)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--input", "x=none.npy"], "none.npy"),
        (["--shape", "image=a,b"], "no shape"),
        (["--picture", "a.png"], "ends in .svg"),
        (["--save", "not/there/net.clprim"], "not/there"),
        (["--input", "a.npy", "--input", "b.npy"], "the model has the inputs image"),
    ],
)
def test_what_does_not_fit_is_one_message(model, capsys, words, text):
    assert cli.main(["run", str(model), *words]) == 2
    assert text in capsys.readouterr().err


def test_it_compares_with_onnx_runtime(device, model, capsys):
    pytest.importorskip("onnxruntime")
    assert cli.main(["run", str(model), "--shape", "1,3,8,8", "--compare", "onnxruntime"]) == 0
    assert "largest difference" in capsys.readouterr().out
