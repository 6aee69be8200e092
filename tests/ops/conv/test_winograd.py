"""Winograd's convolutions: the direct sums, but for the rounding that is stated."""

from dataclasses import replace

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, upload
from support import BFLOAT16, Guard, near_infinity, numbers, same_bits, wide
from winograd_cases import (
    EXACT,
    check_bits,
    check_exact,
    check_gradients,
    check_pixels,
    check_store,
    check_views,
    kernels_of,
    run,
)

import clprim as cp
from clprim import ops
from clprim.plan.conv.winograd import cut, tile, weight_cut, weight_tile
from clprim.plan.conv.winograd.transform import transform


@pytest.fixture(autouse=True)
def exact_sums():
    """Here, options are what users have who set none."""


@pytest.fixture(autouse=True)
def done_here(request):
    """GPUs take windows of stride 1, and no gradients of weights."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if params.get("stride", 1) != 1:
        request.getfixturevalue("on_a_cpu")


@pytest.fixture
def on_a_cpu(device):
    if not device.traits.is_cpu:
        pytest.skip("planned on CPUs only")


of_cpus = pytest.mark.usefixtures("on_a_cpu")


def whole(shape, seed=0, dtype=np.float32):
    return numbers(shape, dtype, seed=seed)


@pytest.mark.everywhere
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("x_shape", "outputs", "padding", "groups"),
    [
        ((2, 16, 9, 31), 16, 1, 1),  # tails of tiles
        ((1, 37, 5, 4), 70, (0, 2), 1),  # of channels and outputs, and no row that fills a vector
        ((3, 3, 8, 18), 5, (2, 0, 1, 3), 1),  # channels that do not fill a vector
        ((2, 36, 7, 7), 20, 1, 2),
        ((1, 40, 3, 3), 33, 0, 1),  # one output
        ((9, 17, 1, 70), 18, 1, 1),  # rows in several runs of tiles
    ],
    ids=str,
)
@pytest.mark.parametrize("stride", [1, 2])
def test_every_size_is_exact(device, memory_format, x_shape, outputs, padding, groups, stride):
    w_shape = (outputs, x_shape[1] // groups, 3, 3)
    options = {"padding": padding, "groups": groups, "stride": stride}
    check_exact(x_shape, w_shape, memory_format, **options)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("kernel", "stride"),
    [
        ((3, 3), (2, 1)),
        ((3, 3), (1, 2)),
        ((3, 1), 2),  # columns are left out
        ((1, 3), (3, 2)),
        ((4, 4), 2),
        ((3, 4), 2),
        ((2, 3), 2),  # a phase of one tap only
        ((5, 4), 3),
        ((5, 5), 4),
    ],
    ids=str,
)
def test_every_stride_is_exact(device, monkeypatch, memory_format, kernel, stride):
    monkeypatch.setitem(tile.OUTPUTS, 2, (2,))  # along one axis more have small errors
    for padding in (0, 1):
        x_shape, w_shape = (2, 21, 13, 18), (20, 21, *kernel)
        check_exact(x_shape, w_shape, memory_format, padding=padding, stride=stride)


@pytest.mark.everywhere
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float64], ids=str)
def test_every_dtype_is_exact(device, memory_format, dtype):
    if dtype is np.float64 and not device.traits.fp64:
        pytest.skip("no float64")
    for stride in (1, 2) if device.traits.is_cpu else (1,):
        shapes = (2, 20, 6, 19), (24, 20, 3, 3)
        check_exact(*shapes, memory_format, dtype, padding=1, stride=stride)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("kernel", "error", "stride"),
    [
        ((3, 3), 1e-5, 1),
        ((2, 2), 1e-5, 1),
        ((5, 5), 1e-5, 1),
        ((1, 3), 1e-5, 1),
        ((5, 2), 1e-5, 1),
        ((1, 7), 1e-5, 1),
        ((3, 3), 5e-7, 1),
        ((3, 3), 1e-5, 2),
        ((5, 5), 1e-5, 2),
        ((3, 6), 1e-5, 2),
        ((3, 3), 5e-7, 2),
    ],
    ids=str,
)
def test_errors_are_at_most_those_allowed(device, memory_format, kernel, error, stride):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 24, 23, 37)).astype(np.float32)
    w = rng.standard_normal((40, 24, *kernel)).astype(np.float32)
    expected = reference.conv2d(x, w, padding=2, stride=stride)
    with cp.options(convolution_error=error):
        found = run(upload(x, memory_format), upload(w), padding=2, stride=stride).get()
    scale = np.sqrt(np.mean(expected**2))
    assert np.sqrt(np.mean((found - expected) ** 2)) <= error * scale
    assert np.abs(found - expected).max() <= 16 * error * scale


@of_cpus  # elsewhere parts of sums are added up, which errs less
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride"),
    [(16, 30, 3, 1), (24, 30, 3, 1), (64, 30, 2, 1), (512, 14, 3, 2), (1024, 7, 3, 1)],
)
@pytest.mark.parametrize("kept", [True, False])
def test_large_tiles_err_at_most_twice_as_much_as_sums(
    device, monkeypatch, channels, size, kernel, stride, kept
):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, channels, size, size)).astype(np.float32)
    w = rng.standard_normal((64, channels, kernel, kernel)).astype(np.float32)
    expected = reference.conv2d(x, w, padding=kernel // 2, stride=stride)
    image, weight = upload(x, "channels_last"), upload(w)
    weight = ops.pack_weight(weight) if kept else weight
    monkeypatch.setitem(tile.OUTPUTS, 2, (4,))
    monkeypatch.setitem(tile.OUTPUTS, 3, (4,))
    found = [
        ops.conv2d(image, weight, padding=kernel // 2, stride=stride, algorithm=name).get()
        for name in ("winograd", "panels")
    ]
    large, sums = (np.sqrt(np.mean((y - expected) ** 2)) for y in found)
    assert large <= 2 * sums


@pytest.mark.parametrize("kernel", [(7, 3), (3, 7), (5, 5), (3, 3)], ids=str)
def test_errors_of_a_blur_are_below_the_tightest_limit(device, kernel):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 16, 23, 37)).astype(np.float32)
    w = rng.random((24, 16, *kernel), np.float32)
    expected = reference.conv2d(x, w)
    for outputs in tile.OUTPUTS[max(kernel)]:
        error = tile.winograd_error(
            *(transform(outputs, r) for r in kernel), 16, np.dtype(np.float32)
        )
        with cp.options(convolution_error=error):
            found = run(upload(x), upload(w)).get()
        worst = error * np.sqrt(np.mean(expected**2))
        assert 0 < np.sqrt(np.mean((found - expected) ** 2)) <= worst


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("stride", [1, 2])
def test_what_runs_at_the_store(device, memory_format, stride):
    check_store(memory_format, stride)


@pytest.mark.parametrize("mode", ["CRD", "DCR"])
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("stride", [1, 2])
def test_outputs_that_become_pixels_have_the_same_bits(device, memory_format, mode, stride):
    check_pixels(memory_format, mode, stride)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_views_and_results_of_another_format(device, memory_format):
    check_views(memory_format, slice(18))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_gradients_of_the_input_and_transposed_convolutions(device, memory_format):
    check_gradients(memory_format)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_bits_repeat_and_do_not_depend_on_the_place_in_the_batch(device, memory_format):
    check_bits(memory_format)


# --- the gradient of the weight -------------------------------------------------------------------


def check_weight(x_shape, outputs, memory_format="contiguous", dtype=np.float32, **options):
    """Compares with the sums of products; nothing is rounded, as above."""
    x, groups = whole(x_shape), options.get("groups", 1)
    w_shape = (outputs, x_shape[1] // groups, 3, 3)
    y_shape = reference.conv2d(x, np.zeros(w_shape, np.float32), **options).shape
    grad = 4 * whole(y_shape, 1)
    expected = reference.conv2d_weight(x, w_shape, grad, **options)
    huge = [] if dtype is np.float16 else [near_infinity(dtype)]
    for up, down in [(1, 1), *huge]:
        terms = (x.astype(dtype) * up, grad.astype(dtype) * down)
        a, b = (upload(array.astype(dtype), memory_format) for array in terms)
        found = ops.conv2d_weight(a, w_shape, b, **options, algorithm="winograd")
        np.testing.assert_array_equal(wide(found.get()), wide(expected.astype(dtype)) * (up * down))


@pytest.fixture
def small_tiles(monkeypatch):
    """F(3 × 3, 2 × 2), which rounds nothing."""
    monkeypatch.setitem(tile.OUTPUTS, 3, (2,))


@of_cpus
@pytest.mark.everywhere
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("x_shape", "outputs", "padding", "groups"),
    [
        ((2, 16, 9, 31), 16, 1, 1),  # tails of tiles
        ((1, 37, 5, 4), 70, (0, 2), 1),  # of channels and outputs, and no row that fills a vector
        ((3, 3, 8, 18), 5, (2, 0, 1, 3), 1),  # channels and outputs that do not fill a vector
        ((2, 36, 7, 7), 20, 1, 2),
        ((2, 6, 7, 9), 40, 1, 2),  # few channels, of which no vector is made
        ((5, 17, 63, 70), 17, 1, 1),  # tiles in several parts, rows in several runs
    ],
    ids=str,
)
def test_every_gradient_of_the_weight_is_exact(
    device, small_tiles, memory_format, x_shape, outputs, padding, groups
):
    check_weight(x_shape, outputs, memory_format, padding=padding, groups=groups)


@of_cpus
@pytest.mark.parametrize("formats", [("channels_last", "contiguous"), FORMATS[::-1]], ids=str)
@pytest.mark.parametrize(
    ("kernels", "name"),
    [(2, "conv2d_weight_winograd_fused"), (3, "conv2d_weight_winograd_product")],
)
def test_gradients_of_a_few_tiles_after_others(
    device, monkeypatch, small_tiles, formats, kernels, name
):
    """In both ways; images lie differently, and products are of several parts."""
    tiles_of = weight_tile._tiles_of
    monkeypatch.setattr(
        weight_tile, "_tiles_of", lambda *p: [t for t in tiles_of(*p) if t.kernels == kernels]
    )
    monkeypatch.setattr(weight_tile, "LEAST_TILES", 3)
    monkeypatch.setattr(weight_tile, "MOST_TILES", 70)
    monkeypatch.setattr(weight_cut, "second", lambda _: 100_000)
    x, grad = whole((1 + kernels, 100, 9, 21)), 4 * whole((1 + kernels, 74, 9, 21), 1)
    w_shape = (74, 50, 3, 3)
    expected = reference.conv2d_weight(x, w_shape, grad, padding=1, groups=2)
    a, b = (upload(*pair) for pair in zip((x, grad), formats, strict=True))

    def run_weight():
        return ops.conv2d_weight(a, w_shape, b, padding=1, groups=2, algorithm="winograd")

    assert name in kernels_of(run_weight)
    found = run_weight()
    np.testing.assert_array_equal(found.get(), expected)
    assert same_bits(found, run_weight())


@of_cpus
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=str)
def test_gradients_of_half_weights(device, small_tiles, dtype):
    check_weight((1, 20, 4, 9), 24, "channels_last", dtype, padding=1)


@of_cpus
@pytest.mark.parametrize("memory_format", FORMATS)
def test_gradients_are_added_to_what_is_there(device, small_tiles, memory_format):
    x, grad, old = whole((2, 37, 6, 9)), 4 * whole((2, 33, 6, 9), 1), whole((33, 37, 3, 3), 2)
    expected = reference.conv2d_weight(x, old.shape, grad, padding=1) + 2 * old
    out = Guard((33, 3, 3, 37) if memory_format == "channels_last" else (33, 37, 3, 3))
    last = memory_format == "channels_last"
    result = out.array.transpose(0, 3, 1, 2) if last else out.array
    result[:] = cp.asarray(old)
    found = ops.conv2d_weight(
        upload(x, memory_format),
        old.shape,
        upload(grad, memory_format),
        padding=1,
        out=result,
        beta=2,
        algorithm="winograd",
    )
    assert found is result
    out.check(expected.transpose(0, 2, 3, 1) if last else expected)


@of_cpus
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("kernel", [(3, 3), (2, 2), (5, 5), (1, 3), (5, 2), (1, 7)], ids=str)
def test_errors_of_gradients_are_at_most_those_allowed(device, memory_format, kernel):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 24, 23, 37)).astype(np.float32)
    w_shape = (40, 24, *kernel)
    y_shape = reference.conv2d(x, np.zeros(w_shape, np.float32), padding=2).shape
    grad = rng.standard_normal(y_shape).astype(np.float32)
    expected = reference.conv2d_weight(x, w_shape, grad, padding=2)
    x, grad = upload(x, memory_format), upload(grad, memory_format)
    with cp.options(convolution_error=1e-5):
        found = ops.conv2d_weight(x, w_shape, grad, padding=2, algorithm="winograd")
        again = ops.conv2d_weight(x, w_shape, grad, padding=2, algorithm="winograd")
    assert same_bits(found, again)
    scale = np.sqrt(np.mean(expected**2))
    assert np.sqrt(np.mean((found.get() - expected) ** 2)) <= 1e-5 * scale


def test_infinities_and_nans_are_where_sums_of_products_have_them(device):
    rng = np.random.default_rng(9)
    x = rng.standard_normal((1, 16, 24, 24)).astype(np.float32)
    w = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf):
        x[0, 3, 12, 12] = value
        found = run(upload(x, "channels_last"), upload(w), padding=1).get()
        np.testing.assert_allclose(found, reference.conv2d(x, w, padding=1), atol=1e-4)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("channels", [3, 9])
def test_channels_that_are_left_out_are_not_computed_with(device, memory_format, channels):
    x, w = whole((2, 16, 7, 21)), 4 * whole((24, channels, 3, 3), 1)
    x[:, channels:] = np.nan
    expected = reference.conv2d(x[:, :channels], w, padding=1)
    with cp.options(convolution_error=EXACT):
        found = run(upload(x, memory_format)[:, :channels], upload(w), padding=1)
    np.testing.assert_array_equal(found.get(), expected)


# --- which algorithm it is ------------------------------------------------------------------------


def layer(channels=64, size=28):
    x = cp.empty((2, channels, size, size), np.float32, memory_format="channels_last")
    return x, cp.empty((channels, channels, 3, 3), np.float32)


@of_cpus
def test_auto_takes_it_where_it_pays_and_is_allowed(device):
    x, w = layer()
    assert "conv2d_winograd" in kernels_of(lambda: ops.conv2d(x, w, padding=1))
    with cp.options(convolution_error=0):
        assert "conv2d_winograd" not in kernels_of(lambda: ops.conv2d(x, w, padding=1))
        assert "winograd" not in ops.conv2d.algorithms(x, w, padding=1)
    assert "winograd" in ops.conv2d.algorithms(x, w, padding=1)
    assert "winograd" in ops.conv2d.algorithms(x, w, padding=1, stride=2)
    assert "winograd" not in ops.conv2d.algorithms(x, w, padding=1, stride=3)
    assert "conv2d_winograd" in kernels_of(lambda: ops.conv2d(x, w, padding=1))
    small = cp.full((1, 3, 8, 8), 1.0)
    assert "conv2d_winograd" not in kernels_of(
        lambda: ops.conv2d(small, cp.full((3, 3, 3, 3), 1.0))
    )


@pytest.mark.parametrize(
    ("options", "kernel"),
    [({"stride": 3}, 3), ({"stride": 4}, 3), ({"dilation": 2}, 3), ({}, 4), ({}, 1)],
    ids=str,
)
def test_what_it_cannot_do_is_refused(device, options, kernel):
    x = cp.full((1, 4, 9, 9), 1.0)
    with pytest.raises(cp.DefinitionError, match="conv2d: algorithm='winograd' cannot do groups=1"):
        run(x, cp.full((4, 4, kernel, kernel), 1.0), **options)


def test_gradients_of_a_weight_whose_windows_have_a_stride_are_refused(device):
    x, grad = cp.full((1, 4, 9, 9), 1.0), cp.full((1, 4, 4, 4), 1.0)
    with pytest.raises(cp.DefinitionError, match="algorithm='winograd' cannot do"):
        ops.conv2d_weight(x, (4, 4, 3, 3), grad, stride=2, algorithm="winograd")


def test_an_error_that_it_cannot_keep_is_refused(device):
    x, w = layer(16, 8)
    message = r"errors that cp.options\(convolution_error=\) admits"
    with cp.options(convolution_error=1e-9), pytest.raises(cp.DefinitionError, match=message):
        run(x, w, padding=1)


@of_cpus
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("kernels", "name"),
    [(1, "conv2d_winograd"), (2, "conv2d_winograd_in_place"), (3, "conv2d_winograd_product")],
)
@pytest.mark.parametrize("stride", [1, 2])
def test_blocks_of_tiles_one_after_another(
    device, monkeypatch, memory_format, kernels, name, stride
):
    monkeypatch.setattr(tile, "second", lambda _: 4)
    monkeypatch.setattr(tile, "MOST_CHUNKS", 1000 if kernels == 2 else 0)
    monkeypatch.setattr(tile, "LEAST_GAIN", 0)
    if kernels != 2:
        rule = tile._tile_of

        def forced(tiling, traits):
            found = replace(rule(tiling, traits), kernels=kernels)
            return replace(found, tiles=tile._block(tiling, traits, found))

        monkeypatch.setattr(tile, "_tile_of", forced)
    monkeypatch.setitem(device.__dict__, "traits", replace(device.traits, cache_bytes=0))
    # (Calls are kept by their shapes.)
    x_shape, w_shape = (1 + kernels, 40, 27, 31), (40, 20, 3, 3)
    options = {"padding": 1, "groups": 2, "stride": stride}
    check_exact(x_shape, w_shape, memory_format, **options)
    with cp.options(convolution_error=EXACT):
        a, b = upload(whole(x_shape), memory_format), upload(whole(w_shape))
        assert name in kernels_of(lambda: run(a, b, **options))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_results_that_pass_the_cache(device, monkeypatch, memory_format):
    """Whole vectors do, where they are aligned."""
    traits = replace(device.traits, cache_bytes=0)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    for outputs in (64, 70):
        check_exact((2, 36, 9, 31), (outputs, 36, 3, 3), memory_format, padding=1)


@of_cpus
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=str)
def test_weights_that_change_are_transformed_a_part_at_a_time(
    device, monkeypatch, memory_format, dtype
):
    for module in (tile, cut):
        monkeypatch.setattr(module, "second", lambda _: 4)
    monkeypatch.setattr(tile, "MOST_CHUNKS", 1000)
    x, w, grad = whole((2, 37, 6, 13)), 4 * whole((41, 37, 3, 3), 1), whole((2, 41, 6, 13), 2)
    expected = (
        reference.conv2d(x, w, padding=1),
        reference.conv2d_input(x.shape, w, grad, padding=1),
    )
    a, b, g = (upload(array.astype(dtype), memory_format) for array in (x, w, grad))
    for packed in (b, ops.pack_weight(b)):
        with cp.options(convolution_error=EXACT), cp.profile() as profile:
            y = run(a, packed, padding=1)
            back = ops.conv2d_input(x.shape, packed, g, padding=1, algorithm="winograd")
            cp.synchronize()
        for found, exact in zip((y, back), expected, strict=True):
            np.testing.assert_array_equal(wide(found.get()), wide(exact.astype(dtype)))
        names = {event.name for event in profile.events}
        assert ("conv2d_winograd_in_place" in names) == (packed is b)
        assert ("conv2d_input_winograd_in_place" in names) == (packed is b)
