"""Other sizes along any dimensions, against PyTorch in float64 and worked by hand."""

import numpy as np
import pytest
from support import numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional


@pytest.mark.parametrize("size", [(5, 9), (11, 20), (1, 3)], ids=str)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("corners", [False, True])
def test_images_as_pytorch_has_them(device, size, mode, corners):
    a = np.random.default_rng(0).normal(size=(2, 3, 8, 10)).astype(np.float32)
    named = {"linear": "bilinear", "cubic": "bicubic"}[mode]
    expected = F.interpolate(torch.tensor(a.astype(float)), size, mode=named, align_corners=corners)
    coordinates = "align_corners" if corners else "half_pixel"
    found = ops.resize(cp.asarray(a), size, mode=mode, dim=(2, 3), coordinates=coordinates)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiased_images(device, mode):
    a = np.random.default_rng(0).normal(size=(1, 2, 16, 15)).astype(np.float32)
    named = {"linear": "bilinear", "cubic": "bicubic"}[mode]
    given = {"mode": named, "antialias": True}
    expected = F.interpolate(torch.tensor(a.astype(float)), (5, 6), **given)
    options = {"antialias": True, "exclude_outside": True, "cubic_coeff": -0.5}
    found = ops.resize(cp.asarray(a), (5, 6), mode=mode, dim=(2, 3), **options)
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float16])
def test_nearest_of_all_dimensions(device, dtype):
    a = numbers((2, 3, 4), dtype)
    found = ops.resize(cp.asarray(a), (4, 3, 7), mode="nearest")
    places = np.ceil((np.arange(7) + 0.5) * 4 / 7 - 1).clip(0, 3).astype(int)
    np.testing.assert_array_equal(found.get(), a.repeat(2, 0)[..., places])
    assert found.dtype == np.dtype(dtype)


LINE = [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rounding": "floor", "mode": "nearest", "coordinates": "asymmetric"}, [0, 0, 10, 20, 30]),
        ({"rounding": "ceil", "mode": "nearest", "coordinates": "asymmetric"}, [0, 10, 20, 30, 30]),
        ({"rounding": "round_prefer_ceil", "mode": "nearest"}, [0, 10, 20, 20, 30]),
        ({"rounding": "floor", "mode": "nearest", "coordinates": "tf_half_pixel_for_nn"},
         [0, 10, 20, 20, 30]),
        ({"coordinates": "asymmetric"}, [0, 8, 16, 24, 30]),
        ({"coordinates": "align_corners"}, [0, 7.5, 15, 22.5, 30]),
    ],
)  # fmt: skip
def test_where_results_come_from(device, options, expected):
    found = ops.resize(cp.asarray(np.float32(LINE)), (5,), **options)
    np.testing.assert_allclose(found.get(), expected, atol=1e-5)


def test_a_part_and_what_is_outside_of_it(device):
    x = cp.asarray(np.float32(LINE))
    given = {"coordinates": "tf_crop_and_resize", "outside": -1.0}
    found = ops.resize(x, (4,), crop=(0.5, 1.5), **given)
    np.testing.assert_allclose(found.get(), [15, 25, -1, -1], atol=1e-5)
    np.testing.assert_allclose(ops.resize(x, (1,), crop=(0, 1), **given).get(), [15], atol=1e-5)


def test_factors_round_down_and_aspects_are_kept(device):
    x = cp.zeros((2, 10, 10))
    assert ops.resize(x, None, (1.19, 0.5), dim=(1, 2)).shape == (2, 11, 5)
    sizes = {"not_larger": (2, 4, 4), "not_smaller": (2, 7, 7), "stretch": (2, 7, 4)}
    for aspect, shape in sizes.items():
        assert ops.resize(x, (7, 4), dim=(1, 2), aspect=aspect).shape == shape


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (ops.resize, "ShapeError", "expected one of them"),
        (lambda x: ops.resize(x, (2, 2), (1, 1)), "ShapeError", "expected one of them"),
        (lambda x: ops.resize(x, (2,)), "ShapeError", "each of 2 dimensions"),
        (lambda x: ops.resize(x, (2, 2), mode="area"), "DefinitionError", "mode='area'"),
        (lambda x: ops.resize(x, (2, 2), coordinates="x"), "DefinitionError", "coordinates='x'"),
        (lambda x: ops.resize(x, (2, 2), crop=(0, 1)), "ShapeError", "crop"),
        (lambda x: ops.resize(x[:0], (2, 2)), "ShapeError", "no elements"),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(getattr(cp, error), match=message):
        call(cp.zeros((3, 4)))
