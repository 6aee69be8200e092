"""Winograd's convolutions as GPUs compute them: tiles in local memory, on devices that are here."""

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, upload
from support import BFLOAT16, Guard, numbers
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
from clprim.plan.conv.winograd import local_tile
from clprim.plan.conv.winograd.local_tile import WinogradLocalTile

gpus = pytest.mark.parametrize("traits", ["gpu", "modest"], indirect=True)
gpu = pytest.mark.parametrize("traits", ["gpu"], indirect=True)


@pytest.fixture(autouse=True)
def exact_sums():
    """Here, options are what users have who set none."""


@gpus
@pytest.mark.everywhere
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("x_shape", "outputs", "padding", "groups"),
    [
        ((2, 16, 9, 31), 16, 1, 1),  # tails of tiles
        ((1, 37, 5, 4), 70, (0, 2), 1),  # of channels and outputs
        ((3, 3, 8, 18), 5, (2, 0, 1, 3), 1),  # few of both
        ((2, 36, 7, 7), 20, 1, 2),
        ((1, 40, 3, 3), 33, 0, 1),  # one output
        ((9, 17, 1, 70), 18, 1, 1),  # groups of tiles that end inside of an image
    ],
    ids=str,
)
def test_every_size_is_exact(traits, memory_format, x_shape, outputs, padding, groups):
    w_shape = (outputs, x_shape[1] // groups, 3, 3)
    check_exact(x_shape, w_shape, memory_format, padding=padding, groups=groups)


@gpus
@pytest.mark.everywhere
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float64], ids=str)
def test_every_dtype_is_exact(traits, memory_format, dtype):
    check_exact((2, 20, 6, 19), (24, 20, 3, 3), memory_format, dtype, padding=1)


TILES = [
    WinogradLocalTile(2, 32, 32, 8, 8, 8),
    WinogradLocalTile(2, 16, 32, 4, 8, 8),
    WinogradLocalTile(2, 32, 16, 8, 4, 4),
    WinogradLocalTile(2, 8, 8, 4, 4, 4),
    WinogradLocalTile(2, 4, 8, 4, 4, 2),
    WinogradLocalTile(2, 4, 4, 4, 4, 1),
]


@gpu
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("cut", TILES, ids=str)
def test_every_cut_is_exact(traits, monkeypatch, memory_format, cut):
    monkeypatch.setattr(local_tile, "local_tiles", lambda *_: [cut])
    check_exact((2, 13, 9, 17), (37, 13, 3, 3), memory_format, padding=1)


@gpu
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        ((3, 3), 1e-5),
        ((2, 2), 1e-5),
        ((5, 5), 1e-5),
        ((1, 3), 1e-5),
        ((5, 2), 1e-5),
        ((1, 7), 1e-5),
        ((3, 3), 5e-7),
    ],
    ids=str,
)
def test_errors_are_at_most_those_allowed(traits, memory_format, kernel, error):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 24, 23, 37)).astype(np.float32)
    w = rng.standard_normal((40, 24, *kernel)).astype(np.float32)
    expected = reference.conv2d(x, w, padding=2)
    with cp.options(convolution_error=error):
        found = run(upload(x, memory_format), upload(w), padding=2).get()
    scale = np.sqrt(np.mean(expected**2))
    assert np.sqrt(np.mean((found - expected) ** 2)) <= error * scale
    assert np.abs(found - expected).max() <= 16 * error * scale


@gpus
@pytest.mark.parametrize("memory_format", FORMATS)
def test_what_runs_at_the_store(traits, memory_format):
    check_store(memory_format)


@gpu
@pytest.mark.parametrize("mode", ["CRD", "DCR"])
@pytest.mark.parametrize("memory_format", FORMATS)
def test_outputs_that_become_pixels_have_the_same_bits(traits, memory_format, mode):
    check_pixels(memory_format, mode)


@gpu
@pytest.mark.parametrize("memory_format", FORMATS)
def test_views_and_results_of_another_format(traits, memory_format):
    check_views(memory_format, slice(None, 2, -1))


@gpus
@pytest.mark.parametrize("memory_format", FORMATS)
def test_gradients_of_the_input_and_transposed_convolutions(traits, memory_format):
    check_gradients(memory_format)


@gpu
@pytest.mark.parametrize("memory_format", FORMATS)
def test_bits_repeat_and_do_not_depend_on_the_place_in_the_batch(traits, memory_format):
    check_bits(memory_format)


@gpu
@pytest.mark.parametrize("memory_format", FORMATS)
def test_infinities_and_nans_are_where_sums_of_products_have_them(traits, memory_format):
    # The last channel: where those of a group of tiles end before the group does.
    rng = np.random.default_rng(9)
    x = rng.standard_normal((1, 13, 24, 24)).astype(np.float32)
    w = rng.standard_normal((16, 13, 3, 3)).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf):
        x[0, 12, 12, 12] = value
        found = run(upload(x, memory_format), upload(w), padding=1).get()
        np.testing.assert_allclose(found, reference.conv2d(x, w, padding=1), atol=1e-4)


@gpu
def test_auto_takes_it_where_it_pays_and_is_allowed(traits):
    x = cp.empty((4, 64, 56, 56), np.float32, memory_format="channels_last")
    w = cp.empty((64, 64, 3, 3), np.float32)
    assert "conv2d_winograd" in kernels_of(lambda: ops.conv2d(x, w, padding=1))
    with cp.options(convolution_error=0):
        assert "conv2d_winograd" not in kernels_of(lambda: ops.conv2d(x, w, padding=1))
        assert "winograd" not in ops.conv2d.algorithms(x, w, padding=1)
    assert "winograd" in ops.conv2d.algorithms(x, w, padding=1)
    # Gradients in the weight are sums of products.
    names = kernels_of(lambda: ops.conv2d_weight(x, w.shape, x, padding=1))
    assert names and not any("winograd" in name for name in names)
    with pytest.raises(cp.DefinitionError, match="for gradients in the weight a CPU"):
        ops.conv2d_weight(x, w.shape, x, padding=1, algorithm="winograd")


@gpus
@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
def test_small(traits, memory_format):
    x, w, bias = numbers((1, 5, 4, 7)), 4 * numbers((9, 5, 3, 3), seed=1), numbers(9, seed=2)
    expected = reference.conv2d(x, w, bias, padding=1)
    order = (0, 1, 2, 3) if memory_format == "contiguous" else (0, 2, 3, 1)
    out = Guard(tuple(expected.shape[d] for d in order))
    view = out.array.transpose(*np.argsort(order).tolist())
    with cp.options(convolution_error=EXACT):
        run(upload(x, memory_format), cp.asarray(w), cp.asarray(bias), padding=1, out=view)
    out.check(expected.transpose(order))
