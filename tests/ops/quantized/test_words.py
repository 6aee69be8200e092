"""Products of bytes taken four at a time, as devices with `cl_khr_integer_dot_product` can."""

import dataclasses

import conv_reference as reference
import numpy as np
import pytest
from support import TRAITS, equal

import clprim as cp
from clprim import ops
from clprim.plan.product import splits
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import PRODUCTS
from clprim.plan.product.words import in_words
from clprim.runtime import query
from clprim.runtime.program import cl_std_option
from clprim.runtime.source_cache import source_of
from clprim.traits import DeviceTraits

SIGNS = [(np.int8, np.int8), (np.uint8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)]


@pytest.fixture
def words(device, monkeypatch):
    """The device, planned for as a GPU that has the extension; kernels are spelled out without."""
    has = device.traits.c_version >= (3, 0)
    planned = dataclasses.replace(device.traits, **TRAITS["gpu"], integer_dots=True)
    if not has:  # the language is 1.2 there, and none of the newer one is used
        planned = dataclasses.replace(planned, c_version=(3, 0))
        monkeypatch.setattr("clprim.call.launch.cl_std_option", lambda t, _: cl_std_option(t))
    monkeypatch.setitem(device.__dict__, "traits", planned)
    monkeypatch.setattr(device, "index", f"{device.index} with words")
    return planned


def whole(shape, dtype, seed):
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("signs", SIGNS)
def test_products(words, signs, monkeypatch):
    monkeypatch.setattr(splits, "SHORTEST_CHAIN", 16)
    for m, n, k in ((17, 9, 40), (3, 70, 4), (65, 33, 268)):
        a, b = whole((m, k), signs[0], 0), whole((n, k), signs[1], 1)
        sums = a.astype(np.int64) @ b.T.astype(np.int64)
        scale = 2.0**-10
        found = ops.quantized_matmul(cp.asarray(a), cp.asarray(b), scale, transpose_b=True)
        info = np.iinfo(signs[0])
        expected = np.clip(np.rint(sums.astype(np.float32) * scale), info.min, info.max)
        equal(found, expected.astype(signs[0]))


def test_views_whose_words_are_not_aligned_are_multiplied_as_bytes(words):
    a, b = whole((12, 48), np.int8, 0), whole((10, 48), np.int8, 1)
    x, w = cp.asarray(a), cp.asarray(b)
    for rows, columns in (
        (np.s_[::2], np.s_[:, 4:44]),
        (np.s_[1:], np.s_[:, 1:41]),
        (np.s_[:], np.s_[:, 3:]),
        (np.s_[:], np.s_[:, ::2]),
    ):
        sums = a[rows][columns].astype(np.int64) @ b[columns].T.astype(np.int64)
        found = ops.quantized_matmul(x[rows][columns], w[columns], 2.0**-9, transpose_b=True)
        equal(found, np.clip(np.rint(sums * 2.0**-9), -128, 127).astype(np.int8))


@pytest.mark.parametrize("signs", SIGNS[::2])
@pytest.mark.parametrize(
    ("channels", "outputs", "options"),
    [
        (8, 12, {"padding": 1}),
        (4, 5, {"stride": 2, "padding": (0, 1)}),
        (16, 8, {"groups": 2, "dilation": 2, "padding": 2}),
        (6, 8, {"padding": 1}),
    ],
)
def test_convolutions_of_channels_last(words, signs, channels, outputs, options):
    x = whole((2, channels, 7, 9), signs[0], 0)
    w = whole((outputs, channels // options.get("groups", 1), 3, 3), signs[1], 1)
    sums = reference.conv2d(x, w, None, **options).astype(np.int64)
    arrays = (cp.asarray(v, memory_format="channels_last") for v in (x, w))
    found = ops.quantized_conv2d(*arrays, 2.0**-9, **options)
    info = np.iinfo(signs[0])
    equal(found, np.clip(np.rint(sums * 2.0**-9), info.min, info.max).astype(signs[0]))


def test_what_is_taken_as_words():
    words = DeviceTraits(integer_dots=True)

    def product(dtype, form="NT", k=64, **options):
        return dense_product(64, 64, k, form, dtype=dtype, **options)

    assert in_words(product(np.int8), words).depths == (1, 1, 16)
    main = PRODUCTS.strategy("tiles").planned(product(np.int8), words).main
    assert main.code.c_version == (3, 0)
    assert "dot_4x8packed_ss_int" in source_of(main.template, main.code)
    plain = PRODUCTS.strategy("tiles").planned(product(np.int8), DeviceTraits()).main
    assert plain.code.c_version == (1, 2)
    assert "dot_" not in source_of(plain.template, plain.code)
    for other in (product(np.int8, "NN"), product(np.int8, k=62), product(np.int8, start=2)):
        assert in_words(other, words) is None
    assert in_words(product(np.int16), words) is None
    assert in_words(dense_product(64, 64, 64, "NT"), words) is None
    assert in_words(product(np.int8), dataclasses.replace(words, integer_dots=False)) is None


def test_who_has_the_extension(device):
    promised = query.query_traits(device.cl).integer_dots
    assert promised == (
        "cl_khr_integer_dot_product" in device.cl.extensions.split()
        and device.traits.c_version >= (3, 0)
    )
    assert promised or not device.traits.integer_dots
