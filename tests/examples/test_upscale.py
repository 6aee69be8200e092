"""The example that upscales pictures: PyTorch's numbers, no seams, and clear errors."""

import importlib.util
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import clprim as cp

FILE = Path(__file__).parents[2] / "examples" / "upscale.py"

pytestmark = [pytest.mark.optimised, pytest.mark.alone]  # CI runs the script on others


@pytest.fixture(scope="module")
def example():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("upscale", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["upscale"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def layers(example):
    """The weights of the network."""
    path = example.find_weights()
    if path is None:
        pytest.skip("the package with the weights is not installed")
    return example.read_weights(path)


@pytest.fixture(scope="module")
def picture(example):
    """A picture that is not square, of few pixels."""
    pytest.importorskip("skimage")
    return np.ascontiguousarray(example.photograph()[30:70, 20:76])


def test_the_weights_are_those_of_the_network(layers):
    assert [layer.weight.shape for layer in layers] == [
        (64, 3, 3, 3),
        *[(64, 64, 3, 3)] * 16,
        (48, 64, 3, 3),
    ]
    assert [layer.slopes is None for layer in layers] == [False] * 17 + [True]
    assert sum(n.size for layer in layers for n in layer if n is not None) == 621_424


def test_numbers_are_those_of_pytorch(device, example, layers, picture):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x = torch.from_numpy(picture.astype(np.float32).transpose(2, 0, 1)[None] / 255)
    y = x
    for weight, bias, slopes in layers:
        y = functional.conv2d(y, torch.from_numpy(weight), torch.from_numpy(bias), padding=1)
        if slopes is not None:
            y = functional.prelu(y, torch.from_numpy(slopes))
    y = functional.pixel_shuffle(y, example.SCALE)
    y = y + functional.interpolate(x, scale_factor=float(example.SCALE), mode="nearest")
    expected = y[0].numpy().transpose(1, 2, 0)
    found = example.upscale_numbers(picture, layers, example.TILE)
    assert found.shape == (160, 224, 3)
    assert np.abs(found - expected).max() < 1e-4
    # What is added to the picture is not nothing.
    assert np.abs(found - picture.repeat(4, axis=0).repeat(4, axis=1) / 255).max() > 0.1


def test_tiles_leave_no_seams(device, example, layers, picture):
    # Sums of products are the same wherever a tile begins.
    with cp.options(convolution_error=0):
        whole = example.upscale_numbers(picture, layers, example.TILE)
        tiled = example.upscale_numbers(picture, layers, 24)
    np.testing.assert_array_equal(tiled, whole)


def test_only_convolutions_and_the_repeated_pixels_are_launched(device, example, layers, picture):
    run = example.network(layers)
    pixels = picture.astype(np.float32).transpose(2, 0, 1)[None]
    x = cp.asarray(pixels, memory_format="channels_last")
    run(x)
    with cp.profile() as profile:
        run(x)
    # A convolution by Winograd's algorithm may be one kernel or several.
    names = [name for name, _ in itertools.groupby(e.name.split("_")[0] for e in profile.events)]
    assert names == ["conv2d", "nearest", "conv2d"]
    launched = [event.name for event in profile.events if event.name.startswith("conv2d")]
    assert len(launched) >= 18


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none.png", "-o", "big.png"], "none.png: there is no such file"),
        ([str(FILE)], "where is the large picture to go?"),
        ([str(FILE), "-o", "big.docx"], "pictures are not stored as '.docx'"),
        ([str(FILE), "-o", "none/big.png"], "there is no such folder"),
        ([str(FILE), "-o", "big.png", "--tile", "8"], "--tile 8: expected at least 16 pixels"),
    ],
)
def test_a_wrong_command_line_is_explained(example, monkeypatch, capsys, arguments, message):
    pytest.importorskip("PIL")
    monkeypatch.setattr(sys, "argv", ["upscale.py", *arguments])
    with pytest.raises(SystemExit) as refused:
        example.main()
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_picture_is_named(example, layers, monkeypatch, tmp_path):
    pytest.importorskip("PIL")
    monkeypatch.setattr(sys, "argv", ["upscale.py", str(FILE), "-o", str(tmp_path / "big.png")])
    with pytest.raises(SystemExit, match=r"upscale\.py: cannot identify image file"):
        example.main()


def test_a_picture_becomes_a_larger_one(device, example, layers, picture, monkeypatch, tmp_path):
    image = pytest.importorskip("PIL.Image")
    small, big = tmp_path / "small.png", tmp_path / "big.png"
    image.fromarray(picture).save(small)
    monkeypatch.setattr(sys, "argv", ["upscale.py", str(small), "-o", str(big)])
    example.main()
    expected = example.to_bytes(example.upscale_numbers(picture, layers, example.TILE))
    np.testing.assert_array_equal(np.asarray(image.open(big)), expected)
